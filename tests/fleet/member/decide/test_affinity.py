from typing import Any

import pytest

from echelon.fleet.member.decide.affinity import NodeChoice, Requirement, pinned_node, place_of
from echelon.fleet.member.decide.scheduling import NodeView, choose, demand_of

ROOM = (4000, 8 << 30, 10)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def term(*expressions: dict[str, Any], names: tuple[str, ...] = (), operator: str = "In") -> dict[str, Any]:
    made: dict[str, Any] = {"matchExpressions": list(expressions)} if expressions else {}
    if names:
        made["matchFields"] = [expression("metadata.name", operator, *names)]
    return made


def wanting(*terms: dict[str, Any], **spec: Any) -> NodeChoice:
    required = {"nodeSelectorTerms": list(terms)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return place_of({"affinity": affinity, **spec})


@pytest.mark.parametrize(
    ("operator", "values", "met_by", "not_met_by"),
    [
        ("In", ("a", "b"), ["a", "b"], ["c", None]),
        ("NotIn", ("a", "b"), ["c", None], ["a", "b"]),
        ("Exists", (), ["", "a"], [None]),
        ("DoesNotExist", (), [None], ["", "a"]),
        ("Gt", ("5",), ["6", "10"], ["5", "4", "many", None]),
        ("Lt", ("5",), ["4", "-10"], ["5", "6", "few", None]),
        ("Gt", ("five",), [], ["6"]),
        ("Gt", ("5", "6"), [], ["7"]),
        ("Near", ("a",), [], ["a", None]),
    ],
)
def test_every_operator(operator: str, values: tuple[str, ...], met_by: list[str], not_met_by: list[str]) -> None:
    requirement = Requirement("k", operator, values)
    assert [requirement.holds(value) for value in (*met_by, *not_met_by)] == [True] * len(met_by) + [False] * len(
        not_met_by
    )


def test_one_of_the_terms_has_to_hold_and_all_of_it() -> None:
    place = wanting(
        term(expression("zone", "In", "a"), expression("disk", "Exists")), term(expression("gpu", "Gt", "2"))
    )
    assert place.allows("n", {"zone": "a", "disk": "ssd"})
    assert place.allows("n", {"gpu": "4"})
    assert not place.allows("n", {"zone": "a", "gpu": "1"})


def test_a_node_selector_holds_besides_the_terms() -> None:
    place = wanting(term(expression("zone", "In", "a")), nodeSelector={"os": "linux"})
    assert place.allows("n", {"zone": "a", "os": "linux"})
    assert not place.allows("n", {"zone": "a"})
    assert not place.allows("n", {"os": "linux"})


def test_names_are_fields_and_go_together_with_labels() -> None:
    assert wanting(term(names=("a",))).allows("a", {})
    assert not wanting(term(names=("a",))).allows("b", {})
    assert not wanting(term(names=("a",), operator="NotIn")).allows("a", {})
    both = wanting(term(expression("zone", "Exists"), names=("a",)))
    assert both.allows("a", {"zone": "z"})
    assert not both.allows("a", {})


def test_no_terms_and_terms_without_conditions_match_nothing() -> None:
    assert not wanting().allows("a", {})
    assert not wanting(term()).allows("a", {})
    assert wanting(term(), term(names=("a",))).allows("a", {})


def test_only_a_pod_whose_terms_all_have_names_is_pinned() -> None:
    def pod(*terms: dict[str, Any]) -> dict[str, Any]:
        required = {"nodeSelectorTerms": list(terms)}
        return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}

    assert pinned_node(pod(term(names=("a",)))) == "a"
    assert pinned_node(pod(term(names=("a",)), term(expression("zone", "Exists")))) == ""
    assert pinned_node({}) == ""


def test_preferred_nodes_win_while_they_have_room() -> None:
    preference = {"weight": 10, "preference": term(expression("zone", "In", "b"))}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    pod = demand_of({"containers": [{"name": "c"}], "affinity": affinity})
    nodes = [NodeView("a", {"zone": "a"}, ROOM), NodeView("b", {"zone": "b"}, ROOM)]
    assert choose(pod, nodes, {})[0] == "b"
    full = [nodes[0], NodeView("b", {"zone": "b"}, (4000, 8 << 30, 0))]
    assert choose(pod, full, {})[0] == "a"
