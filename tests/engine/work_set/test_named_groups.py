"""Groups that somebody named and that are not there, or have nobody in them: nothing starts, and it is said."""

import pytest

from echelon.engine.rollout import control
from echelon.engine.rollout.stored_revision import PASSED_ANNOTATION
from tests.engine.work_set.world import World, per_group, progressive

VERIFIED, BLOCKED = "PlacementVerified", "RolloutBlocked"


def mandatory(**group: object) -> dict[str, object]:
    return progressive(maxConcurrency=2, mandatoryDecisionGroups=[group])


def canary_first() -> World:
    """Return a world in which the canary has the first version, and the others do not yet."""
    world = World.of([("canary", ["a"]), ("", ["b", "c"])], mandatory(groupName="canary"))
    world.settle()
    assert world.at("1") == ["a"]
    return world


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        (mandatory(groupName="canari"), "canari"),
        (mandatory(groupIndex=7), "7"),
        (per_group(mandatoryDecisionGroups=[{"groupName": "canary"}, {"groupName": "eu"}]), "eu"),
    ],
)
def test_a_mandatory_group_that_does_not_exist_holds_everything(strategy: dict[str, object], name: str) -> None:
    world = World.of([("canary", ["a"]), ("", ["b", "c"])], strategy)
    world.settle()
    assert world.works == {}
    status, reason, message = world.said(VERIFIED)
    assert (status, reason) == ("False", "UnknownDecisionGroup")
    assert f" {name}," in message
    assert "canary" in message, "those that exist are named"
    assert world.said(BLOCKED)[:2] == ("True", "UnknownDecisionGroup")
    assert [each.reason for each in world.events].count("UnknownDecisionGroup") == 1
    assert world.plan().empty


@pytest.mark.parametrize("asked", [{"groupName": "canary"}, {"groupIndex": 0}])
def test_a_mandatory_group_without_clusters_holds_everything_unless_that_is_allowed(asked: dict[str, object]) -> None:
    world = World.of([("canary", []), ("", ["b", "c"])], mandatory(**asked))
    world.settle()
    assert world.works == {}
    assert world.said(VERIFIED)[:2] == ("False", "EmptyDecisionGroup")
    assert control.ALLOW_EMPTY in world.said(VERIFIED)[2]
    world.annotations[control.ALLOW_EMPTY] = "true"
    world.settle()
    assert world.at("1") == ["b", "c"]
    assert world.said(VERIFIED)[:2] == ("True", "AsExpected")


def test_a_group_that_the_placement_defines_and_nobody_is_in_is_empty_and_not_unknown() -> None:
    world = World.of([("", ["b", "c"])], mandatory(groupName="canary"))
    world.placements["p"].named = ("canary",)
    world.settle()
    assert world.said(VERIFIED)[:2] == ("False", "EmptyDecisionGroup")


def test_what_is_in_flight_goes_on_while_a_name_is_wrong_and_its_failures_count() -> None:
    world = canary_first()
    world.change(
        placementRefs=[
            {"name": "p", "rolloutStrategy": progressive(mandatoryDecisionGroups=[{"groupName": "x"}])},
        ]
    )
    world.report("a", degraded="True")
    world.settle()
    rollout = world.told().rollout
    assert rollout is not None
    assert rollout.failed == 1
    assert world.at("1") == ["a"]


@pytest.mark.parametrize("vanishes", [False, True])
def test_a_group_that_has_had_the_revision_may_lose_its_clusters(vanishes: bool) -> None:
    world = canary_first()
    world.finish()
    world.step(0)
    world.settle()
    assert world.at("1") == ["a", "b", "c"]
    (stored,) = world.revisions.values()
    assert stored["metadata"]["annotations"][PASSED_ANNOTATION] == "1:p/canary"
    world.placements["p"].groups = [("", ["b", "c", "d"])] if vanishes else [("canary", []), ("", ["b", "c", "d"])]
    world.finish()
    world.restart()
    world.settle()
    assert "d" in world.at("1")
    assert world.said(VERIFIED)[:2] == ("True", "AsExpected")
    world.upgrade("2")  # of another revision it has had nothing
    world.settle()
    assert world.at("2") == []
    assert world.said(VERIFIED)[0] == "False"


def test_a_revision_that_is_wanted_once_more_has_to_pass_its_groups_once_more() -> None:
    world = canary_first()
    world.finish()
    world.settle()
    world.finish()
    world.settle()
    world.wait(1)
    world.upgrade("2")
    world.settle()
    world.wait(1)
    world.upgrade("1")
    world.placements["p"].groups = [("canary", []), ("", ["a", "b", "c"])]
    world.settle()
    assert world.at("2") == ["a"]
    assert world.said(VERIFIED)[:2] == ("False", "EmptyDecisionGroup")


def test_nothing_is_called_unknown_while_decisions_are_being_written_but_nothing_starts() -> None:
    world = World.of([("", ["b", "c"])], mandatory(groupName="canary"))
    world.placements["p"].settled = False
    world.settle()
    assert world.works == {}
    assert world.said(VERIFIED)[0] == "True"
    assert "canary" in world.said(VERIFIED)[2]
    assert "UnknownDecisionGroup" not in [each.reason for each in world.events]


def test_a_gate_for_a_group_that_does_not_exist_holds_everything() -> None:
    world = World.of([("canary", ["a"]), ("", ["b"])], per_group())
    world.annotations[control.APPROVAL] = "canary,prod"
    world.settle()
    assert world.works == {}
    assert world.said(VERIFIED)[:2] == ("False", "UnknownDecisionGroup")
    assert "prod" in world.said(VERIFIED)[2]
    world.annotations[control.APPROVAL] = "canary,1"
    world.settle()
    assert world.said(VERIFIED)[:2] == ("True", "AsExpected")
    assert world.said(BLOCKED)[:2] == ("True", "AwaitingApproval")


def test_a_gate_may_be_for_a_group_that_was_through_and_is_gone() -> None:
    world = World.of([("canary", ["a"]), ("", ["b"])], per_group())
    world.annotations[control.APPROVAL] = "canary"
    world.annotations[control.APPROVED] = f"{world.view().content.digest}:canary"
    world.settle()
    world.finish()
    world.settle()
    assert world.at("1") == ["a", "b"]
    world.placements["p"].groups = [("", ["b", "c"])]
    world.settle()
    assert "c" in world.at("1")
    assert world.said(VERIFIED)[:2] == ("True", "AsExpected")


def test_an_approval_of_a_group_that_does_not_exist_is_told_and_starts_nothing() -> None:
    world = World.of([("canary", ["a"]), ("", ["b"])], per_group())
    world.annotations[control.APPROVAL] = "canary"
    world.annotations[control.APPROVED] = f"{world.view().content.digest}:canari"
    world.settle()
    assert world.works == {}
    assert "canari" in world.said(VERIFIED)[2]
    assert [each.reason for each in world.events].count("UnknownDecisionGroup") == 1


def test_an_abort_goes_back_whatever_is_wrong_with_the_groups() -> None:
    world = canary_first()
    for _ in range(3):
        world.finish()
        world.settle()
    world.wait(1)
    world.upgrade("2")
    world.settle()
    world.change(placementRefs=[{"name": "p", "rolloutStrategy": mandatory(groupName="x")}])
    world.annotations[control.ABORTED] = world.view().content.digest
    world.settle()
    assert world.at("1") == ["a", "b", "c"]
