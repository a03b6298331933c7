"""Whether a plan may take clusters out of decisions: a question that changes nothing, until a plan is carried out."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT_DECISION, PlacementDecision
from echelon.controllers.placement.removals import LONGEST, RemovalBarrier
from echelon.engine.placement.current import clusters_of
from echelon.kube.act import Written

P = Key("ns", "p")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Cache:
    """A cache that has come so far, and knows nothing."""

    reached: str
    went_back: int = 0
    kind: Kind[Any] = MANAGED_CLUSTER
    unreadable: dict[Key, Any] = field(default_factory=dict)

    def get(self, key: Key) -> None:
        del key


def barrier(*caches: Cache) -> RemovalBarrier[PlacementDecision]:
    return RemovalBarrier(PLACEMENT_DECISION, clusters_of, cast("Any", caches))


def decision(version: str, *clusters: str) -> PlacementDecision:
    meta = {"name": "p-decision-1", "namespace": "ns", "uid": "u", "resourceVersion": version}
    listed = [{"clusterName": each, "reason": ""} for each in clusters]
    return msgspec.convert({"metadata": meta, "status": {"decisions": listed}}, PlacementDecision)


def test_who_leaves_waits_for_caches_that_are_older_than_the_decision() -> None:
    cache = Cache("4")
    removals = barrier(cache)
    assert removals.judge(P, [decision("5", "a")], {"b"}, NOW).must_wait
    assert not removals.judge(P, [decision("5", "a")], {"a", "b"}, NOW).must_wait
    cache.reached = "5"
    assert removals.judge(P, [decision("5", "a")], {"b"}, NOW).era == 0


def test_asking_starts_no_wait_and_a_plan_that_is_carried_out_does() -> None:
    removals, old = barrier(Cache("4")), [decision("5", "a")]
    first = removals.judge(P, old, (), NOW)
    assert removals.judge(P, old, (), NOW + LONGEST).must_wait
    assert not removals.waits(P)
    removals.begin(P, first)
    assert removals.waits(P)
    late = removals.judge(P, old, (), NOW + LONGEST)
    assert (late.must_wait, late.believed, late.era) == (False, True, None)
    removals.begin(P, None)
    assert removals.judge(P, old, (), NOW + LONGEST).must_wait


def test_what_cannot_be_read_is_waited_for_without_end() -> None:
    cache = Cache("9", unreadable={Key("", "a"): None})
    removals, known = barrier(cache), [decision("5", "a")]
    removals.begin(P, removals.judge(P, known, (), NOW))
    assert removals.judge(P, known, (), NOW + 2 * LONGEST).must_wait
    assert not removals.judge(P, known, {"a"}, NOW).must_wait
    assert removals.judge(P, known, {"a"}, NOW, hidden=True).must_wait


def test_own_decisions_are_trusted_until_a_cache_goes_back() -> None:
    cache = Cache("9")
    removals = barrier(cache)
    removals.begin(P, removals.judge(P, [decision("5", "a")], {"b"}, NOW))
    removals.wrote(P, Written(PLACEMENT_DECISION, "p-decision-1", "ns", "u", "12"))
    assert not removals.judge(P, [decision("12", "b")], (), NOW).must_wait
    cache.went_back += 1
    assert removals.judge(P, [decision("12", "b")], (), NOW).must_wait


def test_a_decision_that_was_written_without_knowing_enough_is_not_trusted() -> None:
    removals = barrier(Cache("4"))
    removals.begin(P, removals.judge(P, [decision("5", "a")], {"a", "b"}, NOW))
    removals.wrote(P, Written(PLACEMENT_DECISION, "p-decision-1", "ns", "u", "12"))
    assert removals.judge(P, [decision("12", "a", "b")], {"b"}, NOW).must_wait
