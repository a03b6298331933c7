"""Groups in their order, and what people say to a federated rollout: pause, approve, abort, undo, retry."""

import json
from datetime import timedelta
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.times import format_micro_time
from echelon.engine.rollout.control import ABORTED, APPROVAL, APPROVED, PAUSED, RETRIED
from echelon.engine.rollout.history import rollback_patch
from echelon.engine.workload.names import PLACEMENT, STRATEGY
from echelon.engine.workload.view import read_revision
from echelon.kube.client import JSONPatch
from tests.controllers.hub import NS, now
from tests.controllers.test_workloads import begun
from tests.controllers.work_world import Groups, per_group, progressive
from tests.controllers.workload_world import KINDS, WorkloadWorld, of_deployment, pod_template, rolling, told

pytestmark = pytest.mark.full

GROUPS: Groups = (("canary", ["c3"]), ("", ["c1", "c2"]))


async def grouped(world: WorkloadWorld, strategy: JSONObject | None = None, template: Any = None, **notes: str) -> None:
    """Have a workload over three clusters, the third of which comes first, that is complete."""
    await world.place(GROUPS)
    await world.template(12, strategy=template or of_deployment(2, 1))
    said = json.dumps(strategy or per_group(minSuccessTime="60s"))
    await world.bind({"c1": 4, "c2": 6, "c3": 2}, annotations={PLACEMENT: "p", STRATEGY: said, **notes})
    world.start()
    await world.finish()


def new_pods(world: WorkloadWorld, image: str) -> dict[str, int]:
    """Return how many pods of each cluster have a template, by what their agents last took."""
    found = {}
    for cluster, agent in sorted(world.limits.agents.items()):
        assert agent.member is not None
        revisions = agent.revisions.get(image, set())
        found[cluster] = sum(pod.revision in revisions for pod in agent.member.active)
    return found


def test_a_first_group_is_finished_and_has_soaked_before_the_next_one_gets_anything() -> None:
    async def story(world: WorkloadWorld) -> None:
        await grouped(world)
        world.budgets(10, 13)
        await world.upgrade("2")
        await world.settle(30)
        assert new_pods(world, "web:2") == {"c1": 0, "c2": 0, "c3": 2}
        await world.settle(30)
        assert new_pods(world, "web:2") == {"c1": 0, "c2": 0, "c3": 2}
        rollout = (await world.ledger()).status.rollout
        assert rollout is not None
        lines = {name: (each.status, each.reason) for each in rollout.clusters for name in each.names}
        assert lines["c3"] == ("Succeeded", "Soaking")
        assert lines["c1"] == ("ToApply", "WaitingForGroup")
        await world.finish()
        assert new_pods(world, "web:2") == {"c1": 4, "c2": 6, "c3": 2}
        await world.settle(70)
        assert await world.said("PlacementRolledOut") == ("True", "Complete")

    told(story)


def test_the_first_template_of_all_comes_group_by_group_too() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.place(GROUPS)
        await world.template(12, strategy=of_deployment(2, 1))
        said = json.dumps(per_group(minSuccessTime="60s"))
        await world.bind({"c1": 4, "c2": 6, "c3": 2}, annotations={PLACEMENT: "p", STRATEGY: said})
        world.start()
        await world.settle(40)
        assert sorted(await world.works()) == ["c3"]
        await world.upgrade("2")
        await world.settle(40)
        assert sorted(await world.works()) == ["c3"]
        await world.finish()
        assert new_pods(world, "web:2") == {"c1": 4, "c2": 6, "c3": 2}
        await world.settle(70)

    told(story)


def test_a_restart_in_the_middle_of_a_soak_does_not_shorten_it() -> None:
    async def story(world: WorkloadWorld) -> None:
        await grouped(world)
        await world.upgrade("2")
        await world.settle(30)
        assert new_pods(world, "web:2")["c3"] == 2
        since = (await world.figures())["c3"].complete_since
        await world.restart()
        await world.settle(10)
        assert (await world.figures())["c3"].complete_since == since
        assert new_pods(world, "web:2")["c1"] == 0
        await world.finish()
        await world.settle(70)

    told(story)


def test_an_approval_lets_the_next_group_begin() -> None:
    async def story(world: WorkloadWorld) -> None:
        await grouped(world, per_group())
        revision = (await world.revisions())[-1]
        assert revision.metadata.annotations["echelon.dev/completed-at"]
        await world.annotate({APPROVAL: "1"})
        await world.upgrade("2")
        await world.settle(120)
        assert new_pods(world, "web:2") == {"c1": 0, "c2": 0, "c3": 2}
        assert await world.said("RolloutBlocked") == ("True", "AwaitingApproval")
        present = (await world.revisions())[-1].metadata.labels["echelon.dev/template-hash"]
        await world.annotate({APPROVED: f"{present}:1"})
        await world.finish()

    told(story)


def test_a_pause_stops_pods_and_not_only_clusters() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        world.budgets(8, 11)
        await world.upgrade("2")
        await world.settle(12)
        await world.annotate({PAUSED: "true"})
        await world.settle(15)
        pods = world.pods()
        await world.settle(200)
        assert world.pods() == pods
        assert world.pods() != {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}
        assert await world.said("RolloutBlocked") == ("True", "Paused")
        await world.annotate({PAUSED: None})
        await world.finish()

    told(story)


def test_the_pause_of_the_template_itself_pauses() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        await world.change(paused=True, template=pod_template("2"))
        await world.settle(60)
        assert new_pods(world, "web:2") == {"c1": 0, "c2": 0}
        await world.change(paused=False)
        await world.finish()
        assert new_pods(world, "web:2") == {"c1": 4, "c2": 6}

    told(story)


def test_an_abort_puts_the_last_complete_template_back_within_the_budget() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        world.budgets(8, 11)
        await world.upgrade("2")
        await world.settle(12)
        assert sum(new_pods(world, "web:2").values())
        present = (await world.revisions())[-1].metadata.labels["echelon.dev/template-hash"]
        await world.annotate({ABORTED: present})
        await world.settle(200)
        assert new_pods(world, "web:2") == {"c1": 0, "c2": 0}
        assert world.limits.available == 10
        assert await world.said("RolloutBlocked") == ("True", "Aborted")

    told(story)


def test_undo_goes_back_to_the_stored_template() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        await world.upgrade("2")
        await world.finish()
        world.budgets(8, 11)
        first = (await world.revisions())[0]
        patch = JSONPatch(rollback_patch(read_revision(first, await world.found())))
        await world.hub.client.patch(KINDS["Deployment"].untyped(), "web", patch, NS)
        await world.finish()
        assert new_pods(world, "web:2") == {"c1": 0, "c2": 0}
        assert [each.revision for each in await world.revisions()] == [2, 3]

    told(story)


def test_one_cluster_at_a_time_where_that_is_asked_for() -> None:
    async def story(world: WorkloadWorld) -> None:
        await grouped(world, progressive(maxConcurrency=1))
        world.budgets(10, 13)
        await world.upgrade("2")
        most = 0
        for _ in range(200):
            await world.settle(1)
            figures = await world.figures()
            moving = [name for name, each in figures.items() if each.wait in ("Updating", "WaitingForBudget")]
            most = max(most, len(moving))
            if await world.is_complete():
                break
        assert most == 1

    told(story)


def test_a_partition_fills_groups_in_their_order() -> None:
    async def story(world: WorkloadWorld) -> None:
        await grouped(world, per_group(), rolling(2, partition=0))
        await world.change(template=pod_template("2"), updateStrategy=rolling(2, partition=9))
        await world.settle(120)
        found = new_pods(world, "web:2")
        assert found["c3"] == 2
        assert sum(found.values()) == 3
        await world.change(updateStrategy=rolling(2, partition=0))
        await world.finish()

    told(story, "CloneSet")


def test_a_cluster_that_misses_its_deadline_fails_and_stops_the_next_group() -> None:
    async def story(world: WorkloadWorld) -> None:
        await grouped(world, per_group(progressDeadline="60s"))
        world.limits.agents["c3"].refuses = lambda manifest: "no such image" if "web:2" in str(manifest) else ""
        await world.upgrade("2")
        await world.settle(200)
        assert await world.said("ClustersTimedOut") == ("True", "ProgressDeadlineExceeded")
        assert new_pods(world, "web:2") == {"c1": 0, "c2": 0, "c3": 0}
        world.limits.agents["c3"].refuses = lambda _: ""
        await world.annotate({RETRIED: format_micro_time(now() + timedelta(seconds=1))})
        await world.finish()

    told(story)


def test_a_strategy_that_cannot_be_read_starts_nobody() -> None:
    async def story(world: WorkloadWorld) -> None:
        await grouped(world)
        await world.annotate({STRATEGY: "{nonsense"})
        await world.settle(2)
        await world.upgrade("2")
        await world.settle(120)
        assert new_pods(world, "web:2") == {"c1": 0, "c2": 0, "c3": 0}
        assert STRATEGY in (await world.condition("RolloutBlocked")).message

    told(story)
