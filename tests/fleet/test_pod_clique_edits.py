"""Edits, changes of strategy and scaling that meet on a simulated cluster: what Grove's own tests have, and lack.

OD are the numbers of the stories in `tests/engine/pod_clique/checklist.py`; `test_pod_cliques` tells OD-1 to OD-8.
"""

import asyncio

import pytest

from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.fleet.loop import run
from echelon.fleet.member.profile import Pace
from echelon.hub.storage.store import Change
from tests.controllers import clique_world
from tests.controllers.clique_world import NS, CliqueWorld, clique, group, set_of
from tests.fleet.clique_stories import uids
from tests.fleet.test_pod_cliques import began, told, workload

pytestmark = pytest.mark.full

FRONT, GROUP = "w-0-pc-a", "w-0-sg-x"
B, C = (tuple(f"{GROUP}-{index}-{name}" for index in (0, 1)) for name in ("pc-b", "pc-c"))


async def strategy(world: CliqueWorld, name: str) -> None:
    await world.respec({"updateStrategy": {"type": name}})


def test_od_9_from_on_delete_to_rolling_and_back() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, workload())
        await strategy(world, "RollingRecreate")
        await world.settle()
        assert world.log.ended == [], "a change of strategy alone does nothing"
        await world.roll("v2", "pc-b")
        await world.settle(120)
        assert [world.images(name) for name in B] == [["v2"]] * 2
        await strategy(world, "OnDelete")
        await world.settle()
        before = uids(world)
        await world.roll("v2", "pc-c")
        await world.settle(120)
        assert uids(world) == before
        assert (await world.set()).status.outdated_pods_count == 6

    told(story)


def test_drift_of_on_delete_and_an_edit_of_something_else_come_to_an_end() -> None:
    """Upstream's deadlock: the group whose cliques the edit left alone never reported the new hash."""

    async def story(world: CliqueWorld) -> None:
        await began(world, workload())
        await world.roll("v2", "pc-c")
        await world.settle()
        await strategy(world, "RollingRecreate")
        await world.roll("v2", "pc-a")
        await world.settle(300)
        assert [world.images(name) for name in (FRONT, *C)] == [["v2"] * 2, ["v2"] * 3, ["v2"] * 3]
        status = (await world.set()).status
        assert (status.updated_replicas, status.outdated_pods_count) == (1, 0)
        assert status.update_progress is not None
        assert status.update_progress.update_ended_at
        found = (await world.client.get(POD_CLIQUE_SCALING_GROUP, GROUP, NS)).status
        assert found.current_pod_clique_set_generation_hash == status.current_generation_hash

    told(story)


def test_a_template_that_is_put_back_before_any_deletion_leaves_everything_updated() -> None:
    async def story(world: CliqueWorld) -> None:
        pods = await began(world, workload())
        await world.roll("v2")
        await world.settle()
        assert (await world.set()).status.updated_replicas == 0
        await world.roll("v1")
        await world.settle()
        status = (await world.set()).status
        assert (status.updated_replicas, status.outdated_pods_count) == (1, 0)
        await strategy(world, "RollingRecreate")
        await world.settle(120)
        assert (world.names(), world.log.ended) == (pods, []), "no pod was outdated, whatever labels of cliques say"

    told(story)


@pytest.mark.parametrize("way", ["RollingRecreate", "OnDelete"])
def test_of_two_edits_in_quick_succession_only_the_last_one_reaches_pods(way: str) -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, workload(way))
        await world.roll("v2")
        await asyncio.sleep(0.05)
        await world.roll("v3")
        await world.settle(5)
        await world.delete(world.names(FRONT)[0])
        await world.settle(300)
        rolling = way == "RollingRecreate"
        assert world.images() == (["v3"] * 10 if rolling else ["v1"] * 9 + ["v3"])
        assert len(world.log.made) == 10 + (11 if rolling else 1), "nothing was made of the first edit"

    told(story)


@pytest.mark.parametrize("way", ["OnDelete", "RollingRecreate"])
def test_a_pod_that_is_updated_and_not_ready_stays_under_on_delete_and_goes_under_rolling(way: str) -> None:
    """At a scale-in of three pods, of which two are outdated and ready, and one is updated and not ready."""

    async def story(world: CliqueWorld) -> None:
        slow = {"initContainers": [{"name": f"i{n}", "image": "setup"} for n in range(60)]}
        await began(world, set_of(clique("pc-a", 3, minAvailable=1), strategy="OnDelete"))

        def slower(spec: JSONObject) -> None:
            spec["template"]["cliques"][0]["spec"]["podSpec"] |= slow
            spec["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "v2"

        await world.edit(slower)
        await world.settle(5)
        await world.delete(world.names()[0])
        await world.settle(5)
        assert (world.images(), world.ready()) == (["v1", "v1", "v2"], 2)
        if way == "RollingRecreate":
            note = {"metadata": {"annotations": {"echelon.dev/paused": "true"}}}
            await world.patch(POD_CLIQUE_SET, "w", note)
            await strategy(world, way)
        await world.scale(FRONT, 2)
        await world.settle(5)
        assert world.images() == (["v1", "v2"] if way == "OnDelete" else ["v1", "v1"])

    told(story)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_is_replaced_from_the_new_template(phase: str) -> None:
    """Upstream: it kept its place for ever, and counted as scheduled."""

    async def story(world: CliqueWorld) -> None:
        await began(world, workload())
        await world.roll("v2", "pc-a")
        await world.settle()
        gone, kept = world.names(FRONT)
        await world.patch(POD, gone, {"status": {"phase": phase, "reason": "Evicted"}}, "status")
        await world.settle()
        assert kept in world.names(FRONT)
        assert world.images(FRONT) == ["v1", "v2"]
        assert world.ready(FRONT) == 2
        assert gone not in [each["metadata"]["name"] for each in (await world.client.list(POD.untyped(), NS)).items]

    told(story)


def test_a_group_with_a_hole_shrinks_to_its_lowest_replicas() -> None:
    """Upstream: with replicas 0, 2 and 3, a scale-in to one left 0 and 3."""

    async def story(world: CliqueWorld) -> None:
        groups = [group("sg-x", "pc-b", replicas=4)]
        await began(world, set_of(clique("pc-b", 1), podCliqueScalingGroups=groups))
        kept = uids(world, B[0])
        await world.delete(B[1], kind=POD_CLIQUE)
        await world.scale_group(GROUP, 1)
        await world.settle()
        left = [each.metadata.name for each in (await world.client.list(POD_CLIQUE, NS)).items]
        assert (left, uids(world)) == ([B[0]], kept)

    told(story)


def test_cliques_whose_names_end_alike_keep_their_own_templates_and_parents() -> None:
    """Upstream found templates by the end of names and parents by the beginning of pod names."""

    async def story(world: CliqueWorld) -> None:
        cliques = (clique("worker", 1, "small"), clique("gpu-worker", 1, "large"), clique("worker-2", 1, "third"))
        await began(world, set_of(*cliques, cliqueStartupType="CliqueStartupTypeInOrder"))
        assert [world.images(f"w-0-{each['name']}") for each in cliques] == [["small"], ["large"], ["third"]]
        (pod,) = world.pods("w-0-worker-2")
        assert pod["spec"]["initContainers"][-1]["args"] == ["--podcliques=w-0-gpu-worker:1"]

    told(story)


def test_a_clique_that_was_scaled_keeps_its_size_through_an_edit_and_a_restart_of_the_controller() -> None:
    """Terminating pods of before the restart are replaced at once; upstream waited for them to vanish."""

    async def story(world: CliqueWorld) -> None:
        world.start()
        await world.apply(workload())
        await world.settle()
        await world.scale(FRONT, 5)
        await world.settle()
        await world.delete(*world.names(FRONT)[:2])
        await world.restart()
        await world.roll("v2", "pc-a")
        await world.settle(20)
        assert len(world.names(FRONT)) == 5, "those that are going need half an hour"
        assert (await world.client.get(POD_CLIQUE, FRONT, NS)).spec.replicas == 5
        assert world.images(FRONT).count("v1") == 3
        await world.settle(2000)

    async def main() -> None:
        async with clique_world.clique_world(pace=Pace(spread=0, stop=1800)) as world:
            await story(world)
            assert world.log.doubled == []

    run(main(), 0)


def test_sizes_that_change_quickly_are_no_update_and_take_nothing_else_along() -> None:
    """Upstream 565: it took them for a rollout, recreated every pod, and counted more updated pods than there were."""

    async def story(world: CliqueWorld) -> None:
        await began(world, workload())
        others = uids(world) - uids(world, FRONT)
        too_many = []

        def committed(change: Change) -> None:
            status = change.entry.object.get("status") or {}
            if change.entry.key.resource == POD_CLIQUE.resource:
                too_many.extend([status] if status.get("updatedReplicas", 0) > status.get("replicas", 0) else [])

        world.member.cluster.store.on_commit(committed)
        for size in (3, 5, 4, 6, 1, 2, 1):
            await world.scale(FRONT, size)
            await asyncio.sleep(0.7)
        await world.settle()
        assert others <= uids(world)
        assert (len(world.names(FRONT)), world.ready(FRONT), too_many) == (1, 1, [])
        status = (await world.set()).status
        assert (status.updated_replicas, status.update_progress) == (1, None)

    told(story)


def test_a_set_and_a_clique_that_were_scaled_to_nothing_come_back() -> None:
    async def story(world: CliqueWorld) -> None:
        pods = await began(world, workload())
        await world.respec({"replicas": 0})
        await world.settle()
        assert world.names() == []
        await world.respec({"replicas": 1})
        await world.settle()
        assert world.ready() == len(pods)
        await world.scale(FRONT, 0)
        await world.settle()
        assert (world.names(FRONT), world.ready()) == ([], 8)
        await world.scale(FRONT, 2)
        await world.settle()
        assert world.ready() == len(pods)

    told(story)
