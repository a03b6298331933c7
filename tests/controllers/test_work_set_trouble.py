"""Work sets on hubs that check less, refuse more, or see an older world."""

import pytest

from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT_DECISION
from tests.controllers.hub import INDEX_LABEL, NS
from tests.controllers.work_world import EVERYWHERE, WorkWorld, progressive, told


@pytest.mark.parametrize(
    ("strategy", "field"),
    [
        (progressive(maxFailures="some"), "progressive.maxFailures"),
        (progressive(progressDeadline="2hxyz"), "progressive.progressDeadline"),
        ({"type": "Rolling"}, "type"),
    ],
)
def test_a_strategy_that_an_older_hub_let_through_is_named_and_nothing_is_called_complete(
    strategy: dict[str, object], field: str
) -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])
        world.start()
        await world.roll_out(EVERYWHERE)
        await world.settle()
        await world.finish()
        await world.change(placementRefs=[{"name": "p", "rolloutStrategy": strategy}])
        await world.upgrade("2")
        await world.settle()
        condition = await world.condition("PlacementVerified")
        assert (condition.status, condition.reason) == ("False", "NotAsExpected")
        assert field in condition.message
        assert await world.said("PlacementRolledOut") == ("False", "Progressing")
        assert await world.at("1") == ["a"]

    told(story, rules=False)


def test_a_quoted_number_is_a_number() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b", "c"])])
        world.start()
        await world.roll_out(progressive(maxConcurrency="2"))
        await world.settle()
        assert await world.at("1") == ["a", "b"]

    told(story, rules=False)


def test_a_block_without_its_type_is_mentioned_where_the_hub_took_it() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        world.start()
        await world.roll_out({"type": "All", "progressive": {"maxConcurrency": 1}})
        await world.settle()
        assert "type is All" in (await world.condition("PlacementVerified")).message

    told(story, rules=False)


def test_a_decision_whose_index_nobody_can_read_stops_its_placement_and_deletes_nothing() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])
        world.start()
        await world.roll_out()
        await world.settle()
        await world.hub.patch(PLACEMENT_DECISION, "p-decision-1", {"metadata": {"labels": {INDEX_LABEL: "x"}}}, NS)
        await world.settle()
        condition = await world.condition("PlacementVerified")
        assert (condition.status, condition.reason) == ("False", "NotAsExpected")
        assert "incorrect group index" in condition.message
        assert await world.at("1") == ["a"]

    told(story)


def test_a_cluster_without_a_namespace_fails_with_a_reason_and_the_rest_goes_on() -> None:
    async def story(world: WorkWorld) -> None:
        await world.cluster("b", "c")
        await world.place([("", ["a", "b", "c"])], fresh=False)
        world.start()
        await world.roll_out(progressive(maxConcurrency=1, maxFailures=1, progressDeadline="30s"))
        await world.settle()
        assert await world.standing("a") == ("Failed", "WriteRefused")
        await world.settle(40)
        assert await world.at("1") == ["b"]
        await world.finish()
        assert await world.at("1") == ["b", "c"]
        await world.finish()
        await world.cluster("a")
        await world.settle(120)
        assert await world.at("1") == ["a", "b", "c"]
        await world.finish()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")
        await world.hub.client.get(NAMESPACE, "a")

    told(story)


def test_malformed_words_of_control_pause_and_are_named() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])
        world.start()
        await world.roll_out(annotations={"echelon.dev/paused": "yes"})
        await world.settle()
        condition = await world.condition("RolloutBlocked")
        assert (condition.status, condition.reason) == ("True", "Paused")
        assert "echelon.dev/paused" in condition.message
        assert await world.works() == {}
        await world.annotate({"echelon.dev/paused": None})
        await world.settle()
        assert await world.at("1") == ["a"]

    told(story)


def test_works_that_another_process_wrote_go_when_the_server_confirms_what_the_caches_have() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        world.start()
        await world.roll_out()
        await world.settle()
        await world.restart()
        await world.settle()
        await world.decide([("", ["b"])])
        await world.report("a", "b")  # now the works are newer than all that is known of the decisions
        await world.settle(3)
        assert await world.at("1") == ["b"]

    told(story)


def test_a_relapse_is_noted_by_whoever_sees_it_and_the_next_controller_counts_from_there() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        world.start()
        await world.roll_out(progressive(maxConcurrency=1, minSuccessTime="1h", progressDeadline="60s"))
        await world.settle()
        await world.report("a")
        await world.settle(300)
        await world.report("a", progressing="True")
        await world.settle()
        assert "echelon.dev/turned-bad-at" in (await world.works())["a"].metadata.annotations
        await world.restart()
        await world.settle(30)
        assert await world.said("ClustersTimedOut") == ("False", "NoneTimedOut")
        await world.settle(30)
        assert await world.said("ClustersTimedOut") == ("True", "ProgressDeadlineExceeded")
        assert await world.at("1") == ["a"]

    told(story)
