from datetime import timedelta
from typing import Any

import msgspec
import pytest

from echelon.api.keys import Key
from echelon.api.meta import Condition
from echelon.api.placement import Placement, PlacementStatus
from echelon.engine.placement import status
from echelon.engine.placement.schedule import Code, Schedule, SchedulingOutcome
from echelon.engine.placement.scheduler import Scheduler
from echelon.engine.placement.sets import EVERYTHING
from echelon.engine.placement.slices import Slice
from echelon.engine.placement.status import conditions, decision_groups, score_note
from tests.engine.placement.building import (
    NOW,
    SET_LABEL,
    binding,
    cluster,
    cluster_set,
    fleet_of,
    placement,
    scheduled,
    selecting,
)


def told(found: list[Condition]) -> dict[str, tuple[str, str, str]]:
    return {each.type: (each.status, each.reason, each.message) for each in found}


def satisfied(wanted: Placement, *, sets: tuple[str, ...] = (), bound: tuple[str, ...] = (), clusters: Any = ()) -> Any:
    hub = Scheduler()
    for name in sets:
        hub.cluster_set(cluster_set(name))
    for name in bound:
        hub.binding(binding(name))
    for each in clusters:
        hub.cluster(each)
    hub.placement(wanted)
    result = hub.schedule(Key("ns", "p"), NOW)
    assert result is not None
    return told(conditions(wanted, result, len(result.members), NOW))["PlacementSatisfied"]


ONE = cluster("a", {SET_LABEL: "one"})


@pytest.mark.parametrize(
    ("spec", "world", "expected"),
    [
        (
            {},
            {"sets": ("one",), "bound": ("two",)},
            ("False", "NoManagedClusterSetBindings", "No valid ManagedClusterSetBindings found in placement namespace"),
        ),
        (
            {"clusterSets": ["y", "x"]},
            {"sets": ("one",), "bound": ("one",), "clusters": [ONE]},
            ("False", "NoIntersection", "None of ManagedClusterSets [y,x] is bound to placement namespace"),
        ),
        (
            {},
            {"sets": ("two", "one"), "bound": ("two", "one")},
            (
                "False",
                "AllManagedClusterSetsEmpty",
                "All ManagedClusterSets [one,two] have no member ManagedCluster",
            ),
        ),
        (
            {"predicates": [selecting({"matchLabels": {"a": "b"}})]},
            {"sets": ("one",), "bound": ("one",), "clusters": [ONE]},
            ("False", "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate"),
        ),
        (
            {"numberOfClusters": 0},
            {"sets": ("one",), "bound": ("one",), "clusters": [ONE]},
            ("False", "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate"),
        ),
        (
            {},
            {"sets": ("one",), "bound": ("one",), "clusters": [ONE]},
            ("True", "AllDecisionsScheduled", "All cluster decisions scheduled"),
        ),
        (
            {"numberOfClusters": 3},
            {"sets": ("one",), "bound": ("one",), "clusters": [ONE]},
            ("False", "NotAllDecisionsScheduled", "2 cluster decisions unscheduled"),
        ),
    ],
)
def test_whether_a_placement_is_satisfied(spec: Any, world: Any, expected: Any) -> None:
    assert satisfied(placement(**spec), **world) == expected


def test_an_error_is_the_message() -> None:
    failed = Schedule(SchedulingOutcome(Code.ERROR, "Predicate", "no environment"), EVERYTHING, available=True)
    found = told(conditions(placement(), failed, 0, NOW))
    assert found["PlacementSatisfied"] == ("False", "NotAllDecisionsScheduled", "no environment")
    assert found["PlacementMisconfigured"] == ("False", "Succeedconfigured", "Placement configurations check pass")


def test_a_misconfigured_placement_says_what_is_wrong_and_that_decisions_are_kept() -> None:
    wanted = placement(tolerations=[{"key": "k", "operator": "Exists", "value": "v"}])
    result = scheduled(wanted, fleet_of(cluster("a")))
    found = told(conditions(wanted, result, 1, NOW))
    message = "TaintToleration:If the operator is Exists, the value should be empty."
    assert found["PlacementMisconfigured"] == ("True", "Misconfigured", message)
    assert found["PlacementSatisfied"] == ("False", "NotAllDecisionsScheduled", status.KEPT)
    assert told(conditions(wanted, result, 0, NOW))["PlacementSatisfied"][1] == "NoManagedClusterMatched"


def test_mistakes_without_a_plugin_begin_with_a_colon() -> None:
    wanted = placement(prioritizerPolicy={"mode": "Some"})
    found = told(conditions(wanted, scheduled(wanted, fleet_of()), 0, NOW))
    assert found["PlacementMisconfigured"][2] == ":incorrect prioritizer policy mode: Some"


def test_conditions_keep_their_time_until_the_status_flips() -> None:
    wanted = placement(generation=7)
    fleet = fleet_of(cluster("a"))
    first = conditions(wanted, scheduled(wanted, fleet), 1, NOW)
    assert [(each.type, each.observed_generation) for each in first] == [
        ("PlacementMisconfigured", 7),
        ("PlacementSatisfied", 7),
    ]
    foreign = msgspec.structs.replace(first[0], type="Other")
    before = msgspec.structs.replace(wanted, status=PlacementStatus(conditions=[foreign, *first]))
    later = conditions(before, scheduled(placement(numberOfClusters=2), fleet), 1, NOW + timedelta(hours=1))
    assert [(each.type, each.status, each.last_transition_time) for each in later] == [
        ("Other", "False", "2026-01-01T00:00:00Z"),
        ("PlacementMisconfigured", "False", "2026-01-01T00:00:00Z"),
        ("PlacementSatisfied", "False", "2026-01-01T01:00:00Z"),
    ]


def test_decisions_that_could_not_be_written_are_told_until_it_is_over_and_never_before() -> None:
    wanted, schedule = placement(), scheduled(placement(), fleet_of(ONE))
    assert status.PUBLISHED not in told(conditions(wanted, schedule, 1, NOW))
    failing = status.unpublished(wanted, {"p-decision-2": "no room", "p-decision-1": "x" * 40000}, NOW)
    (said,) = failing
    assert (said.status, said.reason, len(said.message)) == ("False", "WriteFailed", 32768)
    wanted = msgspec.structs.replace(wanted, status=PlacementStatus(conditions=failing))
    assert status.is_unpublished(wanted)
    later = NOW + timedelta(minutes=1)
    (again,) = status.unpublished(wanted, {"p-decision-2": "no room", "p-decision-3": "no room"}, later)
    assert again.message == "PlacementDecision p-decision-2 could not be written: no room; and 1 more"
    assert again.last_transition_time == said.last_transition_time
    over = conditions(wanted, schedule, 1, later)
    assert told(over)[status.PUBLISHED] == ("True", "DecisionsWritten", "All decisions are written")
    assert not status.is_unpublished(msgspec.structs.replace(wanted, status=PlacementStatus(conditions=over)))


def test_decision_groups_list_their_slices() -> None:
    slices = [
        Slice("p-decision-1", "canary", 0, 0, ("a",)),
        Slice("p-decision-2", "", 1, 1, ("b", "c")),
        Slice("p-decision-3", "", 1, 1, ("d",)),
        Slice("p-decision-4", "", 2, 2, ()),
    ]
    assert msgspec.to_builtins(decision_groups(slices)) == [
        {"decisionGroupIndex": 0, "decisionGroupName": "canary", "decisions": ["p-decision-1"], "clusterCount": 1},
        {
            "decisionGroupIndex": 1,
            "decisionGroupName": "",
            "decisions": ["p-decision-2", "p-decision-3"],
            "clusterCount": 3,
        },
        {"decisionGroupIndex": 2, "decisionGroupName": "", "decisions": ["p-decision-4"], "clusterCount": 0},
    ]


def test_events_about_decisions() -> None:
    wanted = placement()
    event = status.created(wanted, "p-decision-1")
    assert (event.reason, event.action, event.type) == ("DecisionCreate", "DecisionCreated", "Normal")
    assert event.note == "Decision p-decision-1 is created with placement p in namespace ns"
    assert event.related is not None
    assert (event.regarding.name, event.related.name) == ("p", "p-decision-1")
    assert status.deleted(wanted, "d").note == "Decision d is deleted with placement p in namespace ns"
    assert status.deleted(wanted, "d").reason == "DecisionDelete"
    fine = status.updated(wanted, "d", SchedulingOutcome())
    assert (fine.type, fine.note) == ("Normal", "Decision d is updated with placement p in namespace ns")
    warned = status.updated(wanted, "d", SchedulingOutcome(Code.WARNING, "AddOn/r/s", "scores expired"))
    assert (warned.type, warned.note) == ("Warning", f"{fine.note}: scores expired in plugin AddOn/r/s")
    endless = status.updated(wanted, "d", SchedulingOutcome(Code.WARNING, "x", "y" * 5000))
    assert len(endless.note) <= 1000


def test_scores_are_an_event_as_long_as_they_fit() -> None:
    assert score_note([("a", 100), ("b", -5)]) == "a:100 b:-5 "
    assert score_note([]) == ""
    fits = [(f"c{number:03}", 100) for number in range(33)]  # nine characters each: 297
    assert score_note(fits) == "".join(f"{name}:{score} " for name, score in fits)
    assert score_note([*fits, ("d", 1)]) == score_note(fits) + "......"


def test_the_score_event_is_over_all_that_passed_the_filters_by_name() -> None:
    wanted = placement(numberOfClusters=1)
    fleet = fleet_of(cluster("b"), cluster("a"))
    event = status.scored(wanted, scheduled(wanted, fleet, {"q": ["a"]}))
    assert event is not None
    assert (event.reason, event.action, event.note) == ("ScoreUpdate", "ScoreUpdated", "a:-100 b:100 ")
    assert status.scored(wanted, scheduled(wanted, fleet_of())) is None
