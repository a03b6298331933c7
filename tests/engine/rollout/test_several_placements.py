"""Rollouts through several placements: one after the other, and `placement/group` names one of their groups."""

from dataclasses import replace
from typing import Any

import pytest

from echelon.api.core import CONFIG_MAP
from echelon.api.meta import ObjectMeta
from echelon.api.rollout import RolloutStrategy
from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.rollout import control
from echelon.engine.rollout.conditions import blocked, verified_of
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.listing import summary_of
from echelon.engine.rollout.model import ClusterStatus, Control, Phase
from echelon.engine.rollout.references import PlacementReference, PlacementView, join_placements
from echelon.engine.rollout.strategy import Strategy, StrategyType
from echelon.engine.rollout.subject import Holding, Subject
from echelon.engine.rollout.walk import decide
from tests.engine.work_set.world import START, PlacementState, World, per_group


def reference(name: str, *groups: tuple[str, str]) -> PlacementReference:
    keyed = {GroupKey(index, title): frozenset(clusters) for index, (title, clusters) in enumerate(groups)}
    return PlacementReference(name, RolloutStrategy(), PlacementView(DecisionGroups(keyed), settled=True))


def joined_groups(references: list[PlacementReference]) -> DecisionGroups:
    placement = join_placements(references).placement
    assert placement is not None
    return placement.groups


def test_groups_are_walked_placement_after_placement_by_name() -> None:
    groups = joined_groups(
        [reference("west", ("canary", "x"), ("", "yz")), reference("east", ("canary", "ab"), ("", "cx"))]
    )
    done: list[ClusterStatus] = []
    waves = []
    while starting := decide(Strategy(StrategyType.PER_GROUP), groups, done, START).to_start:
        waves.append("".join(sorted(each.cluster for each in starting)))
        done += [ClusterStatus(each.cluster, Phase.SUCCEEDED, START) for each in starting]
    assert waves == ["ab", "cx", "yz"], "x is in both, and has it from the first"


def test_who_waits_hears_of_which_placement() -> None:
    groups = joined_groups([reference("west", ("", "b")), reference("east", ("canary", "a"))])
    decision = decide(Strategy(StrategyType.PER_GROUP), groups, [], START)
    assert decision.explain("b") == "waits for group east/canary (0): a starting"


def test_a_mandatory_group_is_that_of_every_placement_unless_one_is_named() -> None:
    groups = joined_groups([reference("west", ("canary", "b")), reference("east", ("canary", "a"))])
    canary = GroupKey(name="canary")
    assert [key.placement for key in groups.expand([canary])] == ["east", "west"]
    assert [key.placement for key in groups.expand([replace(canary, placement="west")])] == ["west"]


@pytest.mark.parametrize(
    ("gated", "approved", "held"),
    [
        ("canary", "", {"east", "west"}),
        ("east/canary", "", {"east"}),
        ("canary", "west/canary", {"east"}),
        ("canary", "canary", set()),
        ("east/0", "east/canary", set()),
    ],
)
def test_an_approval_names_a_group_of_one_placement_or_of_all(gated: str, approved: str, held: set[str]) -> None:
    told = Control(gated=frozenset({gated}), approved=frozenset({approved} - {""}))
    keys = [GroupKey(0, "canary", placement=name) for name in ("east", "west")]
    assert {key.placement for key in keys if told.holds_back(key)} == held
    assert {key.placement for key in keys if told.within(key.placement).holds_back(GroupKey(0, "canary"))} == held


def test_a_work_set_waits_for_the_approval_of_one_placement_only() -> None:
    world = World.of([("canary", ["a"])])
    world.placements["q"] = PlacementState([("canary", ["b"])])
    strategy = per_group()
    world.spec["placementRefs"] = [{"name": name, "rolloutStrategy": strategy} for name in ("p", "q")]
    world.annotations[control.APPROVAL] = "q/canary"
    world.settle()
    assert world.at("1") == ["a"]
    assert world.said("RolloutBlocked")[1] == "AwaitingApproval"
    world.annotations |= {
        name: value
        for name, value in control.approve(world.view().content.digest, ["q/canary"]).items()
        if value is not None
    }
    world.settle()
    assert world.at("1") == ["a", "b"]


def test_a_group_of_a_placement_that_is_not_referred_to_is_unknown() -> None:
    world = World.of([("canary", ["a"])])
    world.annotations[control.APPROVAL] = "q/canary"
    world.settle()
    assert world.at("1") == []
    assert world.said("PlacementVerified")[1] == "UnknownDecisionGroup"


def subject(*references: PlacementReference, **fields: Any) -> Subject:
    metadata = ObjectMeta(name="web", namespace="apps", annotations=fields.pop("annotations", {}))
    joined = replace(join_placements(references), strategy=RolloutStrategy(type="ProgressivePerGroup"))
    return Subject(kind=CONFIG_MAP, metadata=metadata, noun="replica", revision="r", references=[joined], **fields)


def test_a_whole_rollout_goes_through_placements_that_were_joined() -> None:
    east, west = reference("east", ("canary", "a"), ("", "b")), reference("west", ("canary", "c"))
    done = {
        name: Holding(cluster=name, revision="r", status=ClusterStatus(name, Phase.SUCCEEDED, START)) for name in "ab"
    }
    first, last = roll_out(subject(east, west), START), roll_out(subject(east, west, holdings=done), START)
    assert [each.cluster for each in first.cluster_decisions if each.starts] == ["a"]
    assert [each.cluster for each in last.cluster_decisions if each.starts] == ["c"]
    assert [each.placement for each in summary_of(last, START).clusters] == ["west", "east", "east"]
    gated = roll_out(subject(east, west, holdings=done, annotations={control.APPROVAL: "west/canary"}), START)
    assert not any(each.starts for each in gated.cluster_decisions)
    assert "awaits approval of group west/canary (0)" in blocked(gated).message


def test_placements_of_which_one_is_missing_start_nothing_and_take_nothing_away() -> None:
    gone = PlacementReference("west", RolloutStrategy(), None)
    held = {
        name: Holding(cluster=name, revision="q", status=ClusterStatus(name, Phase.SUCCEEDED, START)) for name in "xy"
    }
    found = roll_out(subject(reference("east", ("", "a")), gone, holdings=held), START)
    assert not any(each.starts for each in found.cluster_decisions)
    assert found.allocations.to_delete == ()
    assert "west: there is no such placement" in verified_of(found).message
