import pytest

from echelon.api.cluster import ManagedClusterSet
from echelon.api.keys import Key
from echelon.api.labels import SelectorError
from echelon.engine.placement import sets
from echelon.engine.placement.balance import DecisionCounter
from echelon.engine.placement.fleet import FleetIndex
from echelon.engine.placement.sets import ClusterSets
from tests.engine.placement.building import SET_LABEL, binding, cluster, cluster_set, fleet_of, term

FLEET = fleet_of(
    cluster("a", {SET_LABEL: "one", "env": "prod"}),
    cluster("b", {SET_LABEL: "two", "env": "prod"}),
    cluster("c", {SET_LABEL: "one"}, deleting=True),
    cluster("d"),
)


def members(found: sets.ClusterSet, fleet: FleetIndex = FLEET) -> list[str]:
    listed = sorted(fleet.names.of(found.members(fleet)))
    assert listed == [each.name for each in fleet if not each.deleting and found.contains(each)]
    return listed


def test_an_exclusive_set_has_the_clusters_that_name_it() -> None:
    assert members(sets.cluster_set(cluster_set("one"))) == ["a"]


def test_a_selector_picks_members_from_everywhere() -> None:
    assert members(sets.cluster_set(cluster_set("x", {"matchLabels": {"env": "prod"}}))) == ["a", "b"]


def test_an_empty_selector_matches_everything_and_a_missing_one_nothing() -> None:
    assert members(sets.cluster_set(cluster_set("global", {}))) == ["a", "b", "d"]
    assert members(sets.cluster_set(cluster_set("x", None, "LabelSelector"))) == []


@pytest.mark.parametrize(
    "wrong", [cluster_set("x", {}, "Other"), cluster_set("x", {"matchExpressions": [term("a", "Is")]})]
)
def test_what_cannot_be_understood_is_refused(wrong: ManagedClusterSet) -> None:
    with pytest.raises(SelectorError):
        sets.cluster_set(wrong)


def test_bindings_count_if_the_set_exists() -> None:
    known = ClusterSets()
    known.update(cluster_set("one"))
    known.bind(binding("one"))
    known.bind(binding("missing"))
    known.bind(binding("one", "elsewhere"))
    assert known.eligibility("ns", []).bound == ("one",)
    assert known.eligibility("ns", ["two"]).names == ()
    assert known.eligibility("other", []).bound == ()
    known.unbind("ns", "one")
    assert known.eligibility("ns", []).bound == ()
    known.remove("one")
    assert known.eligibility("elsewhere", []).bound == ()


def test_a_placement_chooses_from_the_union_of_its_sets() -> None:
    known = ClusterSets()
    for name in ("one", "two"):
        known.update(cluster_set(name))
        known.bind(binding(name))
    decisions = DecisionCounter(FLEET.names)
    own = decisions.own(Key("ns", "p"))
    assert sorted(FLEET.names.of(known.eligibility("ns", []).clusters(FLEET, own))) == ["a", "b"]
    assert sorted(FLEET.names.of(known.eligibility("ns", ["two"]).clusters(FLEET, own))) == ["b"]


def test_a_malformed_set_excludes_only_itself_and_takes_nothing_away() -> None:
    known = ClusterSets()
    known.update(cluster_set("one"))
    known.update(cluster_set("two", {}, "Other"))
    known.bind(binding("one"))
    known.bind(binding("two"))
    eligible = known.eligibility("ns", [])
    assert dict(eligible.malformed) == {"two": "selectorType is not right: Other"}
    decisions = DecisionCounter(FLEET.names)
    assert sorted(FLEET.names.of(eligible.clusters(FLEET, decisions.own(Key("ns", "p"))))) == ["a"]
    decisions.replace(Key("ns", "p"), ["b"])
    assert sorted(FLEET.names.of(eligible.clusters(FLEET, decisions.own(Key("ns", "p"))))) == ["a", "b"]
    known.update(cluster_set("two"))
    assert not known.eligibility("ns", []).malformed
