from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from echelon.engine.placement.facts import Names
from echelon.engine.placement.fleet import Cluster, FleetIndex
from tests.engine.placement.building import cluster, fleet_of, taint, wire_time


def names(fleet: FleetIndex, numbers: BitMap) -> list[str]:
    return sorted(fleet.names.of(numbers))


def test_labels_and_claims_are_found_by_key_and_by_value() -> None:
    fleet = fleet_of(cluster("a", {"env": "prod"}), cluster("b", {"env": "dev"}, claims={"env": "prod"}), cluster("c"))
    assert names(fleet, fleet.labels.having("env")) == ["a", "b"]
    assert names(fleet, fleet.labels.equal("env", "prod")) == ["a"]
    assert names(fleet, fleet.claims.equal("env", "prod")) == ["b"]
    assert names(fleet, fleet.labels.having("zone")) == []


def test_of_two_claims_with_one_name_the_later_counts() -> None:
    claims = [{"name": "v", "value": "1"}, {"name": "v", "value": "2"}]
    fleet = fleet_of(cluster("a", clusterClaims=claims))
    assert names(fleet, fleet.claims.equal("v", "2")) == ["a"]
    assert names(fleet, fleet.claims.equal("v", "1")) == []


def test_a_change_says_exactly_which_labels_and_claims_changed() -> None:
    fleet = fleet_of(cluster("a", {"same": "1", "other": "1", "gone": "1"}, claims={"c": "1"}))
    change = fleet.update(cluster("a", {"same": "1", "other": "2", "new": "1"}, claims={"c": "1"}))
    assert change.labels == {"other", "gone", "new"}
    assert change.claims == frozenset()
    assert (change.taints, change.resources, change.presence, change.any) == (False, frozenset(), False, True)
    assert names(fleet, fleet.labels.having("gone")) == []
    assert names(fleet, fleet.labels.equal("other", "1")) == []


def test_the_same_cluster_again_changes_nothing() -> None:
    fleet = fleet_of(cluster("a", {"env": "prod"}, taints=[taint("t")], cpu="4"))
    assert fleet.update(cluster("a", {"env": "prod"}, taints=[taint("t")], cpu="4")).any is False


def test_taints_that_keep_away_are_told_from_those_that_only_ask() -> None:
    fleet = fleet_of(cluster("a"))
    asking = fleet.update(cluster("a", taints=[taint("t", "PreferNoSelect")]))
    assert (asking.taints, asking.preferences) == (False, True)
    keeping = fleet.update(cluster("a", taints=[taint("t", "PreferNoSelect"), taint("u")]))
    assert (keeping.taints, keeping.preferences) == (True, False)
    assert names(fleet, fleet.with_effect("NoSelect")) == ["a"]
    assert fleet.update(cluster("a")).taints is True
    assert not fleet.tainted
    assert not fleet.with_effect("NoSelect")


def test_a_resource_is_known_if_both_allocatable_and_capacity_are() -> None:
    fleet = fleet_of(
        cluster("both", cpu="1500m", memory="64Gi"),
        cluster("half", allocatable={"cpu": "4"}, capacity={}),
        cluster("wrong", allocatable={"cpu": "x"}, capacity={"cpu": "4"}),
    )
    assert [each.allocatable for each in fleet] == [{"cpu": 1.5, "memory": 64 * 2**30}, {}, {}]
    assert fleet.update(cluster("both", cpu="2", memory="64Gi")).resources == {"cpu"}


def test_conditions_are_a_change_of_their_own() -> None:
    fleet = fleet_of(cluster("a"))
    condition = {"type": "T", "status": "True", "reason": "R", "message": "", "lastTransitionTime": wire_time(0)}
    change = fleet.update(cluster("a", conditions=[condition]))
    assert (change.any, change.labels) == (True, frozenset())


def test_clusters_that_are_being_deleted_are_not_live() -> None:
    fleet = fleet_of(cluster("a"), cluster("b"))
    change = fleet.update(cluster("a", deleting=True))
    assert change.presence
    assert [side.deleting for side in change.sides] == [False]
    assert names(fleet, fleet.live) == ["b"]
    assert fleet.remove("a").sides == ()
    assert len(fleet) == 1


def test_removing_what_is_not_there_changes_nothing() -> None:
    assert FleetIndex().remove("a").any is False


def test_numbers_are_reused_but_not_while_somebody_holds_them() -> None:
    table = Names()
    one = table.acquire("a")
    table.acquire("a")
    table.release(one)
    assert table.acquire("b") != one
    table.release(one)
    assert table.find("a") is None
    assert table.acquire("c") == one


def test_names_come_in_order_whichever_way_is_cheaper() -> None:
    fleet = fleet_of(*(cluster(f"c{number:03}") for number in reversed(range(100))))
    few = BitMap([each.id for each in fleet if each.name in ("c007", "c042")])
    assert list(fleet.in_order(few)) == ["c007", "c042"]
    assert list(fleet.in_order(fleet.live)) == [f"c{number:03}" for number in range(100)]


STATE = st.fixed_dictionaries(
    {
        "labels": st.dictionaries(st.sampled_from("xyz"), st.sampled_from("12"), max_size=3),
        "claims": st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2),
        "taints": st.lists(
            st.builds(taint, st.sampled_from("tu"), st.sampled_from(["NoSelect", "NoSelectIfNew"])), max_size=2
        ),
        "deleting": st.booleans(),
    }
)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | STATE), max_size=25))
def test_after_any_changes_the_index_equals_one_made_afresh(steps: list[tuple[str, dict[str, Any] | None]]) -> None:
    fleet = FleetIndex()
    last: dict[str, dict[str, Any]] = {}
    for name, state in steps:
        if state is None:
            fleet.remove(name)
            last.pop(name, None)
        else:
            fleet.update(cluster(name, **state))
            last[name] = state
    fresh = fleet_of(*(cluster(name, **state) for name, state in last.items()))

    def shown(index: FleetIndex) -> Any:
        by_fact = {
            (kind, key, value): names(index, facts.equal(key, value))
            for kind, facts in (("label", index.labels), ("claim", index.claims))
            for key in "xyz"
            for value in "12"
        }
        having = {key: names(index, index.labels.having(key)) for key in "xyz"}
        tainted = {kind: names(index, numbers) for kind, numbers in index.tainted.items()}
        effects = {effect: names(index, index.with_effect(effect)) for effect in ("NoSelect", "NoSelectIfNew")}
        return by_fact, having, tainted, effects, names(index, index.live), [each.name for each in index]

    assert shown(fleet) == shown(fresh)


@given(STATE, STATE)
def test_a_change_names_every_difference_and_no_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    fleet = fleet_of(cluster("a", **before))
    change = fleet.update(cluster("a", **after))
    old, new = change.before, change.after
    assert isinstance(old, Cluster)
    assert isinstance(new, Cluster)
    keys = old.labels.keys() | new.labels.keys()
    assert change.labels == {key for key in keys if old.labels.get(key) != new.labels.get(key)}
    assert change.taints == (old.taints != new.taints)
    assert change.presence == (old.deleting != new.deleting)
    assert change.any == (cluster("a", **before) != cluster("a", **after))
