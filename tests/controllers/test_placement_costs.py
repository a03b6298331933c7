"""How often decisions are written: at once for one change, seldom for many, and never more than the change needs."""

import asyncio

from echelon.api.cluster import MANAGED_CLUSTER
from tests.controllers.hub import Hub, names, told


async def fleet(hub: Hub, count: int) -> None:
    await hub.bound_set()
    await hub.clusters(names("c", count))
    hub.start()
    await hub.place(decisionStrategy={"updateStrategy": {"type": "RollingUpdate"}})
    await hub.settle()
    hub.sight.writes.clear()


def test_one_change_is_published_in_less_than_half_a_second() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, 3)
        await hub.clusters(["d"])
        await hub.settle(0.4)
        assert len(await hub.selected()) == 4
        assert len(hub.sight.writes) == 1

    told(story)


def test_changes_that_come_together_are_written_together() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, 3)
        for name in names("d", 50):
            await hub.clusters([name])
            await asyncio.sleep(0.01)
        await hub.settle()
        assert len(await hub.selected()) == 53
        assert len(hub.sight.writes) == 1

    told(story)


def test_changes_without_end_are_written_about_once_a_second() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, 3)
        for name in names("d", 80):
            await hub.clusters([name])
            await asyncio.sleep(0.06)
        assert 4 <= len(hub.sight.writes) <= 6  # in 4.8 seconds
        await hub.settle()
        assert len(await hub.selected()) == 83

    told(story)


def test_decisions_that_become_empty_are_deleted_and_nothing_else_is_written() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, 300)
        for name in names("c", 200):
            await hub.delete(MANAGED_CLUSTER, name)
        await hub.settle()
        assert await hub.selected() == names("c", 100, start=200)
        assert sorted(hub.sight.writes) == ["p-decision-1", "p-decision-2"]

    told(story)


def test_groups_are_remembered_although_the_first_decisions_are_gone() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, 4)
        await hub.respec(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 2}})
        await hub.settle()
        await hub.stop()
        for name in ("c000", "c001"):
            await hub.delete(MANAGED_CLUSTER, name)
        await hub.clusters(["b"])
        hub.start()
        await hub.settle()
        assert sum(size for _, size in await hub.groups()) == 3
        found = [item.status.decisions for item in (await hub.decisions()).values() if item.status]
        # Cut from scratch, b and c002 would be together.
        assert ["c002", "c003"] in [[entry.cluster_name for entry in listed] for listed in found]

    told(story)
