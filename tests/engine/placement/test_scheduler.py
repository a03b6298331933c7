"""Following changes must lead to the same choice as starting from scratch."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.api.cluster import ManagedCluster
from echelon.api.keys import Key
from echelon.engine.placement import ranking
from echelon.engine.placement.scheduler import Scheduler
from echelon.engine.placement.standing import schedule
from tests.engine.placement.building import (
    NOW,
    SET_LABEL,
    addon,
    binding,
    builtin,
    cluster,
    cluster_set,
    exactly,
    placement,
    score,
    selecting,
    taint,
    term,
)

PLACEMENTS = [
    placement("all"),
    placement("prod", predicates=[selecting({"matchLabels": {"env": "prod"}})], clusterSets=["one"]),
    placement(
        "or",
        predicates=[
            selecting({"matchExpressions": [term("env", "NotIn", "prod")]}, [term("v", "Exists")]),
            selecting({"matchExpressions": [term("zone", "In", "1", "2")]}),
        ],
    ),
    placement("two", numberOfClusters=2),
    placement(
        "best", numberOfClusters=2, prioritizerPolicy=exactly(builtin("ResourceAllocatableCPU"), builtin("Steady"))
    ),
    placement("scored", numberOfClusters=1, prioritizerPolicy={"configurations": [addon("demo", "s", 2)]}),
    placement("avoiding", numberOfClusters=3, prioritizerPolicy={"configurations": [builtin("PreferNoSelect", 3)]}),
    placement(
        "patient",
        tolerations=[
            {"key": "a", "operator": "Exists", "tolerationSeconds": 10},
            {"key": "b", "operator": "Exists", "effect": "NoSelectIfNew", "tolerationSeconds": 5},
        ],
    ),
    placement(
        "spread",
        spreadPolicy={
            "spreadConstraints": [
                {"topologyKey": "zone", "topologyKeyType": "Label", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
    ),
    placement(
        "cel",
        predicates=[
            selecting({"matchExpressions": [term("env", "Exists")]}, cel=["size(managedCluster.spec.taints) > 0"])
        ],
    ),
    placement("wrong", numberOfClusters=-1),
    placement("elsewhere", namespace="other", numberOfClusters=1),
]
KEYS = [Key(each.metadata.namespace, each.metadata.name) for each in PLACEMENTS]

CLUSTERS = st.sampled_from([f"c{number}" for number in range(6)])
STATE = st.fixed_dictionaries(
    {
        "labels": st.fixed_dictionaries(
            {},
            optional={
                "env": st.sampled_from(["prod", "dev"]),
                "zone": st.sampled_from("123"),
                SET_LABEL: st.sampled_from(["one", "two"]),
            },
        ),
        "claims": st.dictionaries(st.just("v"), st.sampled_from("12"), max_size=1),
        "taints": st.lists(
            st.builds(
                taint,
                st.sampled_from("ab"),
                st.sampled_from(["NoSelect", "NoSelectIfNew", "PreferNoSelect"]),
                st.just(""),
                st.none() | st.integers(-10, 10),
            ),
            max_size=2,
        ),
        "cpu": st.none() | st.integers(1, 4),
        "deleting": st.sampled_from([False, False, False, True]),
    }
)
SETS = st.sampled_from(
    [
        cluster_set("one"),
        cluster_set("two"),
        cluster_set("one", {"matchLabels": {"env": "prod"}}),
        cluster_set("two", {}),
        cluster_set("two", {}, "Other"),
        cluster_set("one", None, "LabelSelector"),
    ]
)
STEP = st.one_of(
    st.tuples(st.just("cluster"), CLUSTERS, STATE),
    st.tuples(st.just("cluster"), CLUSTERS, STATE),
    st.tuples(st.just("cluster"), CLUSTERS, STATE),
    st.tuples(st.just("cluster_gone"), CLUSTERS),
    st.tuples(st.just("set"), SETS),
    st.tuples(st.just("set_gone"), st.sampled_from(["one", "two"])),
    st.tuples(st.just("bind"), st.sampled_from(["one", "two"]), st.sampled_from(["ns", "other"])),
    st.tuples(st.just("unbind"), st.sampled_from(["one", "two"])),
    st.tuples(st.just("score"), CLUSTERS, st.integers(-3, 3), st.none() | st.integers(-5, 15)),
    st.tuples(st.just("score_gone"), CLUSTERS),
    st.tuples(st.just("publish"), st.sampled_from(KEYS)),
    st.tuples(st.just("later"), st.integers(1, 8)),
)


class World:
    """A scheduler, and placements that are scheduled again only when they are said to be concerned."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.now = NOW
        self.concerned = set(KEYS)
        self.last: dict[Any, Any] = {}
        self.known: set[str] = set()
        for each in PLACEMENTS:
            self.scheduler.placement(each)

    def step(self, step: Any) -> None:
        scheduler = self.scheduler
        match step:
            case ("cluster", name, state):
                self.concerned |= scheduler.cluster(cluster(name, **state))
            case ("cluster_gone", name):
                self.concerned |= scheduler.cluster_gone(name)
            case ("set", source):
                self.concerned |= scheduler.cluster_set(source)
            case ("set_gone", name):
                self.concerned |= scheduler.cluster_set_gone(name)
            case ("bind", name, namespace):
                self.concerned |= scheduler.binding(binding(name, namespace))
            case ("unbind", name):
                self.concerned |= scheduler.binding_gone("ns", name)
            case ("score", name, value, until):
                self.concerned |= scheduler.score(score(name, "demo", until, s=value))
            case ("score_gone", name):
                self.concerned |= scheduler.score_gone(name, "demo")
            case ("publish", key):
                if key in self.last and not self.last[key]["failed"]:
                    scheduler.decided(key, self.last[key]["selected"])
                    # Others look at it when they are next scheduled: that others moved is no reason to move.
                    self.concerned = set(KEYS)
            case ("later", seconds):
                self.now += timedelta(seconds=seconds)
        self.concerned |= {
            key for key, seen in self.last.items() if seen["look_again"] and seen["look_again"] <= self.now
        }

    def check(self) -> None:
        for source, key in zip(PLACEMENTS, KEYS, strict=True):
            if key in self.concerned:
                result = self.scheduler.schedule(key, self.now)
                assert result is not None
                self.last[key] = shown(result)
            scheduler = self.scheduler
            fresh = schedule(
                source,
                scheduler.fleet,
                scheduler.decisions,
                scheduler.addons,
                self.now,
                eligibility=scheduler.sets.eligibility(key[0], source.spec.cluster_sets),
            )
            expected, actual = shown(fresh), self.last[key]
            if key not in self.concerned:
                # Nobody asked: what can be seen in decisions and conditions must be right all the same.
                for word in ("selected", "outcome", "look_again", "none_available", "unscheduled"):
                    assert (key, word, actual[word]) == (key, word, expected[word])
            else:
                assert (key, actual) == (key, expected)
        self.concerned = set()


def shown(result: Any) -> dict[str, Any]:
    return {
        "selected": result.members if result.order is None else result.selected,
        "scores": result.scores,
        "outcome": result.outcome,
        "look_again": result.look_again,
        "none_available": not result.available,
        "unscheduled": result.unscheduled,
        "failed": result.outcome.failed,
        "added": result.added,
        "removed": result.removed,
    }


@pytest.mark.parametrize("runners_up", [0, 256])
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, max_size=30))
def test_following_changes_equals_starting_from_scratch(runners_up: int, steps: list[Any]) -> None:
    remembered, ranking._RUNNERS_UP = ranking._RUNNERS_UP, runners_up
    try:
        world = World()
        for each in (
            ("set", cluster_set("one")),
            ("set", cluster_set("two", {})),
            ("bind", "one", "ns"),
            ("bind", "two", "ns"),
        ):
            world.step(each)
        world.check()
        for each in steps:
            world.step(each)
            world.check()
    finally:
        ranking._RUNNERS_UP = remembered


def test_a_deleted_placement_takes_its_decisions_with_it() -> None:
    scheduler = Scheduler()
    scheduler.placement(placement("p"))
    scheduler.decided(Key("ns", "p"), ["a"])
    scheduler.placement_gone(Key("ns", "p"))
    assert scheduler.schedule(Key("ns", "p"), NOW) is None
    assert not list(scheduler.decisions.levels())


def test_a_new_spec_counts_at_once() -> None:
    scheduler = Scheduler()
    scheduler.cluster_set(cluster_set("all", {}))
    scheduler.binding(binding("all"))
    scheduler.cluster(cluster("a", {"env": "prod"}))
    scheduler.cluster(cluster("b"))
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"a", "b"}),
        ({"predicates": [selecting({"matchLabels": {"env": "prod"}})]}, {"a"}),
    ]
    for spec, expected in cases:
        assert scheduler.placement(placement("p", **spec)) == {("ns", "p")}
        result = scheduler.schedule(Key("ns", "p"), NOW)
        assert result is not None
        assert result.members == expected


def test_a_malformed_set_is_reported_and_takes_nothing_away() -> None:
    scheduler = Scheduler()
    scheduler.cluster_set(cluster_set("one"))
    scheduler.binding(binding("one"))
    scheduler.placement(placement("p"))
    scheduler.cluster(cluster("a", {SET_LABEL: "one"}))
    scheduler.decided(Key("ns", "p"), ["a"])
    assert scheduler.cluster_set(cluster_set("one", {}, "Other")) == {("ns", "p")}
    result = scheduler.schedule(Key("ns", "p"), NOW)
    assert result is not None
    assert result.selected == ("a",)
    assert (result.outcome.code, result.outcome.plugin) == ("Warning", "ManagedClusterSet")
    assert "one: selectorType is not right: Other" in result.outcome.message


def hub(*sources: ManagedCluster, **spec: Any) -> Scheduler:
    """A scheduler with one placement that may choose from all of these clusters, scheduled once."""
    made = Scheduler()
    made.cluster_set(cluster_set("all", {}))
    made.binding(binding("all"))
    made.placement(placement("p", **spec))
    for each in sources:
        made.cluster(each)
    made.schedule(Key("ns", "p"), NOW)
    return made


def chosen(scheduler: Scheduler, after: float = 0) -> list[str]:
    result = scheduler.schedule(Key("ns", "p"), NOW + timedelta(seconds=after))
    assert result is not None
    return sorted(result.members)


def test_a_toleration_ends_without_any_other_change() -> None:
    tolerations = [{"key": "t", "operator": "Exists", "tolerationSeconds": 10}]
    scheduler = hub(cluster("a", taints=[taint("t", added=0)]), cluster("b"), tolerations=tolerations)
    assert [chosen(scheduler, after) for after in (9, 10, 9)] == [["a", "b"], ["b"], ["a", "b"]]


def test_decisions_of_others_count_when_a_placement_is_next_scheduled() -> None:
    scheduler = hub(cluster("a"), cluster("b"), cluster("c"), numberOfClusters=1)
    scheduler.decided(Key("ns", "q"), ["c"])
    assert chosen(scheduler) == ["a"]
    scheduler.decided(Key("ns", "q"), ["c", "a"])
    assert chosen(scheduler) == ["b"]


def test_a_cluster_that_the_placement_has_stays_in_spite_of_no_select_if_new() -> None:
    tainted = cluster("a", taints=[taint("t", "NoSelectIfNew")])
    scheduler = hub(tainted, cluster("b"))
    assert chosen(scheduler) == ["b"]
    scheduler.decided(Key("ns", "p"), ["a", "b"])
    assert chosen(scheduler) == ["a", "b"]
    scheduler.decided(Key("ns", "p"), ["b"])
    assert chosen(scheduler) == ["b"]
