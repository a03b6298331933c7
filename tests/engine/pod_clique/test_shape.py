"""Which gangs a set has: what must start together, and one more for each replica of a group beyond that."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.groverules import MOST_GROUP_REPLICAS
from echelon.engine.pod_clique.accepting import NotAccepted, accept
from echelon.engine.pod_clique.shape import Shape, expected
from tests.engine.pod_clique.sets import IMAGE, a_set, clique, group, sets, spec_of


def shape_of(body: JSONObject, group_sizes: Mapping[str, int] | None = None) -> Shape:
    return expected(spec_of(body), "w", group_sizes or {}, {})


def gangs(shape: Shape) -> dict[str, list[str]]:
    return {gang.name: [each.name for each in gang.cliques] for gang in shape.gangs}


def grouped(replicas: int, least: int) -> JSONObject:
    return a_set(clique("a"), clique("b"), groups=[group("g", "b", replicas=replicas, minAvailable=least)])


def test_standalone_cliques_are_one_gang() -> None:
    assert gangs(shape_of(a_set(clique("a"), clique("b")))) == {"w-0": ["w-0-a", "w-0-b"]}


def test_a_group_with_a_minimum_of_one_has_a_gang_for_each_further_replica() -> None:
    assert gangs(shape_of(grouped(3, 1))) == {
        "w-0": ["w-0-a", "w-0-g-0-b"],
        "w-0-g-0": ["w-0-g-1-b"],
        "w-0-g-1": ["w-0-g-2-b"],
    }


def test_a_group_whose_minimum_is_its_size_is_all_in_the_base_gang() -> None:
    assert gangs(shape_of(grouped(3, 3))) == {"w-0": ["w-0-a", "w-0-g-0-b", "w-0-g-1-b", "w-0-g-2-b"]}


def test_gangs_beyond_the_minimum_are_numbered_from_zero() -> None:
    assert list(gangs(shape_of(grouped(4, 3)))) == ["w-0", "w-0-g-0"]


def test_every_replica_of_a_set_has_gangs_of_its_own() -> None:
    body = grouped(2, 1)
    body["spec"]["replicas"] = 2
    assert gangs(shape_of(body)) == {
        "w-0": ["w-0-a", "w-0-g-0-b"],
        "w-0-g-0": ["w-0-g-1-b"],
        "w-1": ["w-1-a", "w-1-g-0-b"],
        "w-1-g-0": ["w-1-g-1-b"],
    }


def test_several_groups_of_several_cliques() -> None:
    body = a_set(
        *map(clique, "abcd"),
        groups=[group("g", "b", "c", replicas=2), group("h", "d", replicas=3, minAvailable=2)],
    )
    assert gangs(shape_of(body)) == {
        "w-0": ["w-0-a", "w-0-g-0-b", "w-0-g-0-c", "w-0-h-0-d", "w-0-h-1-d"],
        "w-0-g-0": ["w-0-g-1-b", "w-0-g-1-c"],
        "w-0-h-0": ["w-0-h-2-d"],
    }


def test_a_set_of_groups_alone() -> None:
    body = a_set(clique("b"), groups=[group("g", "b", replicas=2)])
    assert gangs(shape_of(body)) == {"w-0": ["w-0-g-0-b"], "w-0-g-0": ["w-0-g-1-b"]}


def test_a_set_without_replicas_has_nothing() -> None:
    body = grouped(2, 1)
    body["spec"]["replicas"] = 0
    assert shape_of(body) == Shape((), (), ())


def test_an_autoscaler_changes_gangs_by_the_size_of_the_group_that_exists() -> None:
    body = grouped(2, 1)
    assert list(gangs(shape_of(body, {"w-0-g": 4}))) == ["w-0", "w-0-g-0", "w-0-g-1", "w-0-g-2"]
    assert list(gangs(shape_of(body, {"w-0-g": 1}))) == ["w-0"]
    # The size of another replica's group says nothing about this one.
    assert list(gangs(shape_of(body, {"w-1-g": 4}))) == ["w-0", "w-0-g-0"]


def test_a_group_below_its_minimum_has_what_it_has() -> None:
    assert gangs(shape_of(grouped(3, 2), {"w-0-g": 1})) == {"w-0": ["w-0-a", "w-0-g-0-b"]}
    assert gangs(shape_of(grouped(3, 2), {"w-0-g": 0})) == {"w-0": ["w-0-a"]}


def test_a_clique_beyond_the_minimum_knows_the_gang_that_must_be_up_first() -> None:
    found = shape_of(grouped(2, 1)).clique
    assert (found["w-0-a"].gang, found["w-0-a"].base_gang) == ("w-0", "")
    assert (found["w-0-g-0-b"].gang, found["w-0-g-0-b"].base_gang) == ("w-0", "")
    assert (found["w-0-g-1-b"].gang, found["w-0-g-1-b"].base_gang) == ("w-0-g-0", "w-0")
    assert found["w-0-g-1-b"].group == "w-0-g"


def test_a_clique_that_exists_keeps_its_size() -> None:
    shape = expected(spec_of(a_set(clique("a", 3), replicas=2)), "w", {}, {"w-0-a": 5})
    assert [each.replicas for each in shape.cliques] == [5, 3]


def test_a_slip_of_a_finger_makes_no_billion_cliques_and_says_so() -> None:
    shape = shape_of(grouped(1, 1), {"w-0-g": 10**9})
    assert len(shape.cliques) == MOST_GROUP_REPLICAS + 1
    assert shape.oversized == ("w-0-g",)
    # What is there beyond that is not to be removed: the size is still the one that was asked for.
    assert shape.group["w-0-g"].replicas == 10**9


@given(sets(), st.integers(0, 5))
def test_every_clique_is_in_exactly_one_gang(body: JSONObject, size: int) -> None:
    found = accept(body, (), IMAGE)
    if isinstance(found, NotAccepted):
        return
    spec = found.spec
    sizes = {f"w-{replica}-{each.name}": size for replica in range(spec.replicas) for each in spec.groups}
    shape = expected(spec, "w", sizes, {})
    held = [each.name for gang in shape.gangs for each in gang.cliques]
    assert sorted(held) == sorted(each.name for each in shape.cliques)
    assert all(shape.gang[each.gang].name == each.gang for each in shape.cliques)
    assert all(shape.gang[each.base_gang].base_gang == "" for each in shape.cliques if each.base_gang)
    members = sum(size * len(each.clique_names) for each in spec.groups)
    assert len(shape.cliques) == spec.replicas * (len(spec.standalone) + members)
