"""Following changes must lead to the same choice as starting from scratch."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from echelon.api.cluster import ManagedCluster
from echelon.api.keys import Key
from echelon.engine.placement import ranking
from echelon.engine.placement.scheduler import Observed, Scheduler
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
    schedule,
    score,
    selecting,
    taint,
    term,
)
from tests.examples import examples

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

NAMES = [f"c{number}" for number in range(6)]
CLUSTERS = st.sampled_from(NAMES)
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
        self.sources: dict[Any, Any] = {}  # all that the scheduler was told, as it is now
        self.decided: dict[Key, Any] = {}
        for each in PLACEMENTS:
            self.scheduler.placement(each)

    def step(self, step: Any) -> None:
        scheduler, sources = self.scheduler, self.sources
        match step:
            case ("cluster", name, state):
                sources["cluster", name] = cluster(name, **state)
                self.concerned |= scheduler.cluster(sources["cluster", name], self.now)
            case ("cluster_gone", name):
                sources.pop(("cluster", name), None)
                self.concerned |= scheduler.cluster_gone(name)
            case ("set", source):
                sources["set", source.metadata.name] = source
                self.concerned |= scheduler.cluster_set(source)
            case ("set_gone", name):
                sources.pop(("set", name), None)
                self.concerned |= scheduler.cluster_set_gone(name)
            case ("bind", name, namespace):
                sources["binding", namespace, name] = binding(name, namespace)
                self.concerned |= scheduler.binding(binding(name, namespace))
            case ("unbind", name):
                sources.pop(("binding", "ns", name), None)
                self.concerned |= scheduler.binding_gone("ns", name)
            case ("score", name, value, until):
                sources["score", name] = score(name, "demo", until, s=value)
                self.concerned |= scheduler.score(sources["score", name])
            case ("score_gone", name):
                sources.pop(("score", name), None)
                self.concerned |= scheduler.score_gone(name, "demo")
            case ("publish", key):
                if key in self.last and not self.last[key]["failed"]:
                    self.decided[key] = self.last[key]["selected"]
                    scheduler.decided(key, self.last[key]["selected"])
                    # Others look at it when they are next scheduled: that others moved is no reason to move.
                    self.concerned = set(KEYS)
            case ("later", seconds):
                self.now += timedelta(seconds=seconds)
        self.concerned |= {
            key for key, seen in self.last.items() if seen["look_again"] and seen["look_again"] <= self.now
        }

    def of(self, kind: str) -> list[Any]:
        return [source for key, source in self.sources.items() if key[0] == kind]

    def differences(self) -> list[str]:
        scheduler, sources = self.scheduler, self.sources
        found: list[str | None] = [*scheduler.sets.differences(self.of("set"), self.of("binding"))]
        for name in NAMES:
            found += scheduler.addons.differences(name, "demo", sources.get(("score", name)))
        found += scheduler.fleet.differences(NAMES, lambda name: sources.get(("cluster", name)))
        for source, key in zip(PLACEMENTS, KEYS, strict=True):
            found += [
                *scheduler.differences(key, source),
                *scheduler.decisions.differences(key, self.decided.get(key, ())),
            ]
        for numbers in scheduler.slices():
            found += scheduler.decisions.miscounted(numbers)
        return [difference for difference in found if difference]

    def rebuilt(self) -> Scheduler:
        clusters, sets, bindings, scores = map(self.of, ("cluster", "set", "binding", "score"))
        observed = Observed(clusters, sets, bindings, scores, PLACEMENTS, self.decided)
        return Scheduler.of(observed, self.now, self.scheduler)

    def check(self) -> None:
        assert self.differences() == []
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

    def check_rebuilt(self) -> None:
        """What is made again from all that there is schedules as what followed every change."""
        rebuilt = self.rebuilt()
        for key in KEYS:
            followed, made_again = self.scheduler.schedule(key, self.now), rebuilt.schedule(key, self.now)
            assert (key, shown(made_again)) == (key, shown(followed))


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
@examples(60)
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
        world.check_rebuilt()
    finally:
        ranking._RUNNERS_UP = remembered


@pytest.mark.parametrize(
    "step",
    [
        ("cluster", "c0", {"labels": {"env": "prod"}}),
        ("cluster", "c5", {}),
        ("cluster_gone", "c0"),
        ("set", cluster_set("one", {"matchLabels": {"env": "prod"}})),
        ("set_gone", "one"),
        ("bind", "one", "other"),
        ("unbind", "one"),
        ("score", "c0", 3, None),
        ("score_gone", "c1"),
    ],
)
def test_a_change_that_was_missed_is_a_difference(step: Any) -> None:
    world, missed = World(), World()
    for each in (
        ("set", cluster_set("one")),
        ("bind", "one", "ns"),
        ("cluster", "c0", {"labels": {SET_LABEL: "one"}}),
        ("score", "c1", 1, None),
    ):
        world.step(each)
        missed.step(each)
    world.check()
    missed.step(step)
    world.sources = missed.sources
    assert world.differences() != []


def test_a_count_that_was_missed_is_a_difference() -> None:
    scheduler = Scheduler()
    scheduler.decided(KEYS[0], ["a"])
    assert [*scheduler.decisions.differences(KEYS[0], ["b"])] == [
        f"placement {KEYS[0]} has ['b'] that are not counted, and not ['a']"
    ]
    scheduler.decisions._at[2] = scheduler.decisions._at.pop(1)
    assert [*scheduler.decisions.miscounted(BitMap([0]))] == ["cluster a is counted 2 times wrongly"]


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
