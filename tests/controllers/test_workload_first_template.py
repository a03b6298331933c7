"""A partition holds although the template before was not complete everywhere: one sick cluster must not turn it off."""

import json

import pytest

from echelon.engine.rollout.history import LIMIT
from echelon.engine.workload.names import PLACEMENT, STRATEGY
from tests.controllers.test_workload_control import GROUPS, new_pods
from tests.controllers.work_world import per_group
from tests.controllers.workload_world import WorkloadWorld, pod_template, rolling, told

pytestmark = pytest.mark.full


async def upgraded(world: WorkloadWorld, version: str, partition: int) -> None:
    await world.change(template=pod_template(version), updateStrategy=rolling(3, partition=partition))


async def begun(world: WorkloadWorld) -> None:
    """Have a workload whose first template is complete in two of three clusters; nothing is heard of the third."""
    await world.join("c1", "c2", "c3", "c4")
    world.limits.agents["c3"].cut = True
    await world.template(12, strategy=rolling(3, partition=0))
    await world.bind({"c1": 4, "c2": 6, "c3": 2})
    world.start()
    await world.settle(30)
    assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}


def of_version(world: WorkloadWorld, version: str) -> dict[str, int]:
    """Return how many pods of each cluster that has any have a version."""
    found = {}
    for cluster, agent in sorted(world.limits.agents.items()):
        if agent.member is not None:
            revisions = agent.revisions.get(f"web:{version}", set())
            found[cluster] = sum(pod.revision in revisions for pod in agent.member.active)
    return found


def test_a_canary_by_partition_is_one_though_a_cluster_was_never_complete() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        await upgraded(world, "2", partition=9)
        await world.settle(60)
        assert sum(of_version(world, "2").values()) <= 3
        assert sum(of_version(world, "1").values()) >= 7
        # It comes back, and has what it was sent first; only then what it may update.
        world.limits.agents["c3"].cut = False
        await world.settle(60)
        assert sum(of_version(world, "2").values()) == 3
        assert sum(of_version(world, "1").values()) == 9
        await upgraded(world, "2", partition=0)
        await world.finish()
        assert of_version(world, "2") == {"c1": 4, "c2": 6, "c3": 2}

    told(story, "CloneSet")


def test_the_first_template_is_there_for_a_new_cluster_however_many_came_after_it() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        for version in range(2, LIMIT + 4):
            await upgraded(world, str(version), partition=12)
            await world.settle(1)
        kept = [each.revision for each in await world.revisions()]
        assert (kept[0], len(kept)) == (1, LIMIT)
        agent = world.limits.agents["c4"]
        agent.refuses = lambda manifest: "no such image" if "web:1" in str(manifest) else ""
        await world.rebind({"c1": 4, "c2": 4, "c3": 2, "c4": 2})
        await world.settle(60)
        # A server that refuses it is not asked for it again and again.
        sent = (await world.figures())["c4"]
        assert (sent.wait, "no such image" in sent.message) == ("ClusterUnreachable", True)
        assert (await world.works())["c4"].metadata.generation == 1
        agent.refuses = lambda _: ""
        await world.settle(300)
        assert of_version(world, "1") == {"c1": 4, "c2": 4, "c4": 2}
        world.limits.agents["c3"].cut = False
        await upgraded(world, str(LIMIT + 3), partition=0)
        await world.finish()

    told(story, "CloneSet")


def test_groups_that_have_nothing_yet_count_as_pods_that_are_kept_and_get_the_first_template_in_their_turn() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.place(GROUPS)
        await world.template(12, strategy=rolling(3, partition=0))
        said = json.dumps(per_group(minSuccessTime="60s"))
        await world.bind({"c1": 4, "c2": 6, "c3": 2}, annotations={PLACEMENT: "p", STRATEGY: said})
        world.start()
        await world.settle(30)
        assert of_version(world, "1") == {"c3": 2}
        await upgraded(world, "2", partition=9)
        await world.settle(40)
        assert of_version(world, "2") == {"c3": 2}  # the canary: nothing else is there that could be kept
        await world.settle(120)
        assert new_pods(world, "web:2")["c3"] == 2
        assert sum(new_pods(world, "web:2").values()) == 3
        assert sum(new_pods(world, "web:1").values()) == 9
        await upgraded(world, "2", partition=0)
        await world.finish()

    told(story, "CloneSet")
