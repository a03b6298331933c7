"""Deployments of a member, from outside: what a client creates, and what becomes of it."""

import asyncio
from typing import Any

import pytest

from echelon.api.apps import DEPLOYMENT
from echelon.api.core import POD
from echelon.fleet.member.profile import Pace
from echelon.kube.client import DeleteOptions, MergePatch
from tests.fleet.member.world import NS, World, told

REVISION = "deployment.kubernetes.io/revision"


def rolling(surge: int | str, unavailable: int | str) -> dict[str, object]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "least", "most"),
    [(3, "25%", "25%", 3, 4), (4, 0, 1, 3, 4), (10, 3, 2, 8, 13), (1, "25%", "25%", 1, 2), (6, "50%", "50%", 3, 9)],
)
def test_a_rolling_update_keeps_its_limits_at_every_commit(
    replicas: int, surge: int | str, unavailable: int | str, least: int, most: int
) -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=replicas, strategy=rolling(surge, unavailable))
        await asyncio.sleep(30)
        world.commits.clear()
        await world.image(DEPLOYMENT, "web:2")
        await asyncio.sleep(120)
        assert world.images() == ["web:2"] * replicas

    world = told(story)
    assert most_at_once(world, replicas) <= most
    assert least_ready(world, replicas) >= least


def _running(world: World, replicas: int) -> list[tuple[int, int]]:
    """Return (ready, total) after every commit of the update, whose pods all replace ready ones."""
    ready, total = replicas, replicas
    seen: dict[str, tuple[bool, bool]] = {}
    result = []
    for change in world.commits:
        if change.entry.key.resource != "pods":
            continue
        pod = change.entry.object
        uid, old = pod["metadata"]["uid"], change.previous
        before = seen.get(uid)
        if before is None:
            before = (True, True) if old is not None else (False, False)
        counts = "deletionTimestamp" not in pod["metadata"] and change.type != "DELETED"
        conditions = pod["status"].get("conditions") or ()
        now = (counts and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions), counts)
        seen[uid] = now
        ready += now[0] - before[0]
        total += now[1] - before[1]
        result.append((ready, total))
    return result


def most_at_once(world: World, replicas: int) -> int:
    return max(total for _, total in _running(world, replicas))


def least_ready(world: World, replicas: int) -> int:
    return min(ready for ready, _ in _running(world, replicas))


def test_a_rollout_is_reported_and_costs_few_writes() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        await asyncio.sleep(30)
        assert await world.condition("Available") == ("True", "MinimumReplicasAvailable")
        assert await world.condition("Progressing") == ("True", "NewReplicaSetAvailable")
        world.commits.clear()
        await world.image(DEPLOYMENT, "web:2")
        await asyncio.sleep(1)
        assert await world.condition("Progressing") == ("True", "ReplicaSetUpdated")
        status = await world.status(DEPLOYMENT)
        assert (status["replicas"], status["updatedReplicas"], status["unavailableReplicas"]) == (4, 1, 1)
        await asyncio.sleep(60)
        found = await world.get(DEPLOYMENT)
        status = found["status"]
        assert found["metadata"]["annotations"][REVISION] == "2"
        assert status["observedGeneration"] == found["metadata"]["generation"] == 2
        assert [status[f"{name}Replicas"] for name in ("updated", "ready", "available")] == [3, 3, 3]
        assert "unavailableReplicas" not in status
        assert len(world.commits) <= 48  # statuses of steps that were taken among them, as with the real controllers
        world.commits.clear()
        await asyncio.sleep(3600)
        assert world.commits == []

    told(story)


def test_an_undo_uses_the_old_replica_set_again() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        await asyncio.sleep(30)
        first = {each["metadata"]["name"] for each in world.objects("replicasets.apps")}
        for image in ("web:2", "web:1"):
            await world.image(DEPLOYMENT, image)
            await asyncio.sleep(60)
        sets = {each["metadata"]["name"]: each for each in world.objects("replicasets.apps")}
        (again,) = (sets[name] for name in first)
        assert len(sets) == 2
        assert again["spec"]["replicas"] == 3
        assert again["metadata"]["annotations"][REVISION] == "3"
        assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
        assert (await world.get(DEPLOYMENT))["metadata"]["annotations"][REVISION] == "3"

    told(story)


def test_history_is_limited() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, revisionHistoryLimit=1)
        for number in range(2, 6):
            await world.image(DEPLOYMENT, f"web:{number}")
            await asyncio.sleep(60)
        kept = {e["spec"]["template"]["spec"]["containers"][0]["image"] for e in world.objects("replicasets.apps")}
        assert kept == {"web:4", "web:5"}

    told(story)


def test_recreate_has_no_pods_of_two_revisions() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, strategy={"type": "Recreate"})
        await asyncio.sleep(30)
        await world.image(DEPLOYMENT, "web:2")
        for _ in range(100):
            await asyncio.sleep(0.1)
            images = {pod["spec"]["containers"][0]["image"] for pod in world.objects("pods")}
            assert len(images) <= 1
        assert world.images() == ["web:2"] * 3

    told(story)


def test_a_pause_holds_a_rollout_and_stops_its_clock() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, progressDeadlineSeconds=60)
        await asyncio.sleep(30)
        await world.respec(DEPLOYMENT, paused=True)
        await world.image(DEPLOYMENT, "web:2")
        await asyncio.sleep(600)
        assert world.images() == ["web:1"] * 3
        assert await world.condition("Progressing") == ("Unknown", "DeploymentPaused")
        await world.respec(DEPLOYMENT, replicas=5)
        await asyncio.sleep(30)
        assert world.images() == ["web:1"] * 5
        await world.respec(DEPLOYMENT, paused=False)
        await asyncio.sleep(1)
        assert (await world.condition("Progressing"))[0] == "True"
        await asyncio.sleep(60)
        assert world.images() == ["web:2"] * 5

    told(story)


def test_minimum_ready_seconds_slow_a_rollout_down() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, minReadySeconds=30, strategy=rolling(1, 0))
        await asyncio.sleep(20)
        assert (await world.status(DEPLOYMENT)).get("availableReplicas", 0) == 0
        await asyncio.sleep(20)
        assert (await world.status(DEPLOYMENT))["availableReplicas"] == 3
        await world.image(DEPLOYMENT, "web:2")
        await asyncio.sleep(50)
        assert len(world.images()) >= 3
        assert world.images().count("web:2") <= 2  # two waves of 32 seconds have not passed
        await asyncio.sleep(60)
        assert world.images() == ["web:2"] * 3

    told(story)


def test_a_name_that_somebody_else_has_is_not_taken() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        await asyncio.sleep(10)
        taken = world.objects("replicasets.apps")
        await world.client.delete(DEPLOYMENT, "web", NS, options=DeleteOptions(propagation="Orphan"))
        await asyncio.sleep(5)
        await world.create(DEPLOYMENT)
        await asyncio.sleep(30)
        names = [each["metadata"]["name"] for each in world.objects("replicasets.apps")]
        assert taken[0]["metadata"]["name"] in names
        assert len(names) == 2
        assert (await world.status(DEPLOYMENT))["collisionCount"] == 1

    told(story)


def test_deletion_takes_everything_along() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        await asyncio.sleep(30)
        await world.client.delete(DEPLOYMENT, "web", NS)
        await asyncio.sleep(30)
        assert world.objects("replicasets.apps") == world.objects("pods") == []

    told(story)


def test_a_lost_pod_is_replaced() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        await asyncio.sleep(30)
        lost = world.pods()[0]["metadata"]["name"]
        await world.client.delete(POD, lost, NS)
        await asyncio.sleep(10)
        assert lost not in {pod["metadata"]["name"] for pod in world.pods()}
        assert world.images() == ["web:1"] * 3

    told(story)


def test_a_deployment_that_is_resized_in_the_middle_of_a_rollout_gets_there() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=10)
        await asyncio.sleep(30)
        await world.image(DEPLOYMENT, "web:2")
        await asyncio.sleep(3)
        await world.client.patch(DEPLOYMENT.untyped(), "web", MergePatch({"spec": {"replicas": 5}}), NS)
        await asyncio.sleep(120)
        assert world.images() == ["web:2"] * 5

    told(story)


def _states(world: World, resource: str) -> list[dict[str, Any]]:
    return [each.entry.object for each in world.commits if each.entry.key.resource == resource]


def test_a_step_is_reported_as_things_were_before_it() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=10, strategy=rolling(3, 2))
        await asyncio.sleep(30)
        world.commits.clear()
        await world.image(DEPLOYMENT, "web:2")
        await asyncio.sleep(0.5)

    world = told(story)
    reported = [each for each in world.commits if each.entry.key.resource == "deployments.apps"]
    first = next(each for each in reported if each.entry.object["status"]["observedGeneration"] == 2)
    sizes = {}
    for each in world.commits[: world.commits.index(first)]:
        if each.entry.key.resource == "replicasets.apps":
            sizes[each.entry.key.name] = each.entry.object["spec"]["replicas"]
    # It has made a ReplicaSet and told the old one to shrink; the status says what it saw when it decided that.
    assert sorted(sizes.values()) == [3, 8]
    status = first.entry.object["status"]
    assert (status["replicas"], status["availableReplicas"], status["unavailableReplicas"]) == (10, 10, 3)
    assert "updatedReplicas" not in status


def test_a_replica_set_reports_the_pods_that_it_had_before_it_acted() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=3)
        await asyncio.sleep(30)
        world.commits.clear()
        await world.respec(DEPLOYMENT, replicas=5)
        await asyncio.sleep(30)

    world = told(story)
    reports = [each["status"] for each in _states(world, "replicasets.apps")]
    observed = [each["replicas"] for each in reports if each["observedGeneration"] == 2]
    assert (observed[0], observed[-1]) == (3, 5)


def test_replica_sets_may_lag_behind_their_deployment() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=4, strategy=rolling(0, 2))
        await asyncio.sleep(200)
        await world.image(DEPLOYMENT, "web:2")
        await asyncio.sleep(0.01)
        await world.respec(DEPLOYMENT, paused=True)
        await asyncio.sleep(0.01)
        found = await world.get(DEPLOYMENT)
        # The pause is observed, nothing is unavailable as far as the status tells, and two pods are yet to go.
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        sets = [(each["spec"]["replicas"], each["status"]["replicas"]) for each in world.objects("replicasets.apps")]
        assert sorted(sets) == [(2, 0), (2, 4)]
        assert len(world.pods()) == 4
        await asyncio.sleep(300)
        assert (len(world.pods("web:1")), len(world.pods("web:2"))) == (2, 2)

    told(story, pace=Pace(start=2.0, spread=0.0, stop=0.5, lag=100.0))
