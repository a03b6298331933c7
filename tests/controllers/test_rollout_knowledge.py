"""What is known of a rollout can be older than it seems, and nothing is taken, given away or left wrong for that."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.rollout.model import ClusterStatus, Control, Phase
from echelon.engine.rollout.strategy import Strategy, StrategyType
from echelon.engine.rollout.thresholds import Threshold
from echelon.engine.rollout.walk import decide
from tests.controllers.hub import NS
from tests.controllers.work_world import SET, WorkWorld, progressive, template, told

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_a_status_that_somebody_else_wrote_is_put_right() -> None:
    """A leader that was replaced without knowing it can write once more, on what it knew."""

    async def story(world: WorkWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.roll_out()
        world.start()
        await world.settle()
        await world.finish()
        before = (await world.set()).status
        await asyncio.sleep(30)
        outdated = {"summary": {"total": 7}, "conditions": []}
        await world.hub.patch(SET, "web", {"status": outdated}, NS, "status")
        await world.settle()
        after = (await world.set()).status
        assert after.summary == before.summary
        known = {each.type: each.status for each in before.conditions}
        assert {each.type: each.status for each in after.conditions} == known

    told(story)


async def four_of_five(world: WorkWorld) -> None:
    """Roll out to all clusters but c5, which is not selected yet."""
    await world.place([("", ["c1", "c2"]), ("", ["c3", "c4"])])
    await world.cluster("c5")
    await world.roll_out()
    world.start()
    await world.settle()
    await world.finish()


def test_no_work_goes_while_decisions_are_newer_than_what_is_known_of_their_placement() -> None:
    """Four are said to be decided and four are listed, but those that are said are the four of some time ago."""

    async def story(world: WorkWorld) -> None:
        await four_of_five(world)
        # What is written first looks complete, as far as numbers tell: c5 has come, and c3 is on its way.
        await world.slice("p-decision-2", 1, "", ["c5", "c4"])
        await world.settle(1.5)
        assert "c3" in await world.works()
        await world.slice("p-decision-1", 0, "", ["c1", "c2", "c3"])
        await world.agree([("", ["c1", "c2", "c3"]), ("", ["c5", "c4"])])
        await world.settle()
        assert sorted(await world.works()) == ["c1", "c2", "c3", "c4", "c5"]

    told(story)


def test_no_work_goes_while_somebody_else_rewrites_decisions_although_more_is_known_of_other_placements() -> None:
    """All numbers are as before: c5 has come, c1 is to go, and c3 is on its way; and the cache hears of others."""

    async def story(world: WorkWorld) -> None:
        await four_of_five(world)
        await world.slice("p-decision-2", 1, "", ["c5", "c4"])
        await world.place([("", ["c1"])], "other")
        await world.settle(1.5)
        assert "c3" in await world.works()
        await world.slice("p-decision-1", 0, "", ["c2", "c3"])
        await world.settle(180)
        assert sorted(await world.works()) == ["c2", "c3", "c4", "c5"]

    told(story)


def window(slots: int) -> Strategy:
    return Strategy(StrategyType.PROGRESSIVE, max_concurrency=Threshold.read(slots))


def test_clusters_that_are_disturbed_keep_their_places_while_their_group_awaits_approval() -> None:
    groups = DecisionGroups({GroupKey(0): frozenset({"a", "b"}), GroupKey(1): frozenset({"c", "d", "e"})})
    busy = [ClusterStatus(name, Phase.TO_APPLY, NOW - timedelta(seconds=5)) for name in ("c", "d")]
    control = Control(gated=frozenset({"1"}))
    assert not decide(window(2), groups, busy, NOW, control).to_start
    assert [one.cluster for one in decide(window(3), groups, busy, NOW, control).to_start] == ["a"]
    approved = replace(control, approved=frozenset({"1"}))
    assert [one.cluster for one in decide(window(2), groups, busy, NOW, approved).to_start] == ["c", "d"]


def test_a_cluster_that_missed_the_deadline_of_older_content_has_no_place_to_give_away() -> None:
    async def story(world: WorkWorld) -> None:
        limits = {"maxFailures": 2, "progressDeadline": "30s"}
        await world.place([("", ["c1", "c2"])])
        await world.roll_out(progressive(maxConcurrency=2, **limits))
        world.start()
        await world.settle()
        await world.report("c2")
        await asyncio.sleep(60)
        await world.report("c2", progressing="True")
        await world.settle(1)  # reports and sets come by different streams
        # c1 is dead, and c2 is not: one at a time, the one that is disturbed already goes first.
        one = [{"name": "p", "rolloutStrategy": progressive(maxConcurrency=1, **limits)}]
        await world.change(placementRefs=one, manifestWorkTemplate=template("2"))
        await world.settle()
        assert await world.at("2") == ["c2"]
        await world.report("c2")
        await world.settle()
        assert await world.at("2") == ["c1", "c2"]
        await asyncio.sleep(60)

    told(story)
