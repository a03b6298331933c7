from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.labels import SelectorError
from echelon.api.meta import LabelSelector
from echelon.api.scheduling import ClusterClaimSelector
from echelon.engine.placement.selection import Selector, selector
from tests.engine.placement.building import cluster, fleet_of, term


def made(labels: Any = None, claims: Any = None) -> Selector:
    return selector(
        msgspec.convert(labels or {}, LabelSelector),
        msgspec.convert({"matchExpressions": claims or []}, ClusterClaimSelector),
        "spec.x",
    )


FLEET = fleet_of(
    cluster("a", {"env": "prod", "zone": "1"}, claims={"v": "1.30"}),
    cluster("b", {"env": "dev"}, claims={"v": "1.31"}),
    cluster("c", {"zone": "2"}),
)


@pytest.mark.parametrize(
    ("labels", "claims", "expected"),
    [
        ({}, [], "abc"),
        ({"matchLabels": {"env": "prod"}}, [], "a"),
        ({"matchLabels": {"env": "prod", "zone": "2"}}, [], ""),
        ({"matchExpressions": [term("env", "In", "prod", "dev")]}, [], "ab"),
        ({"matchExpressions": [term("env", "NotIn", "prod")]}, [], "bc"),
        ({"matchExpressions": [term("zone", "Exists")]}, [], "ac"),
        ({"matchExpressions": [term("zone", "DoesNotExist")]}, [], "b"),
        ({"matchExpressions": [term("nobody", "In", "x")]}, [], ""),
        ({"matchExpressions": [term("nobody", "NotIn", "x")]}, [], "abc"),
        ({}, [term("v", "In", "1.31")], "b"),
        ({}, [term("v", "NotIn", "1.31")], "ac"),
        ({"matchLabels": {"env": "prod"}}, [term("v", "Exists")], "a"),
        ({"matchLabels": {"env": "prod"}}, [term("v", "DoesNotExist")], ""),
    ],
)
def test_selectors(labels: Any, claims: Any, expected: str) -> None:
    found = made(labels, claims)
    assert sorted(FLEET.names.of(found.among(FLEET, FLEET.live))) == list(expected)
    assert [each.name for each in FLEET if found.matches(each)] == list(expected)


@pytest.mark.parametrize(
    ("labels", "claims", "message"),
    [
        ({"matchExpressions": [term("a", "Is", "b")]}, [], '"Is" is not a valid label selector operator'),
        ({}, [term("a", "exists")], '"exists" is not a valid label selector operator'),
        (
            {"matchExpressions": [term("a", "In")]},
            [],
            "spec.x.labelSelector.matchExpressions[0].values: Required value",
        ),
        ({"matchExpressions": [term("a", "Exists", "b")]}, [], "matchExpressions[0].values: Forbidden"),
        ({"matchLabels": {"-bad": "b"}}, [], 'spec.x.labelSelector.matchLabels: Invalid value: "-bad"'),
        ({"matchLabels": {"a": "x" * 64}}, [], "must be no more than 63"),
        (
            {},
            [term("v", "In", "1.30+k3s")],
            'spec.x.claimSelector.matchExpressions[0].values[0]: Invalid value: "1.30+k3s"',
        ),
    ],
)
def test_what_cannot_be_understood_is_refused_by_name(labels: Any, claims: Any, message: str) -> None:
    with pytest.raises(SelectorError) as refused:
        made(labels, claims)
    assert message in str(refused.value)


FACTS = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("123"), max_size=3)
TERM = st.one_of(
    st.builds(
        lambda key, operator, values: term(key, operator, *values),
        st.sampled_from("xyzw"),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from("1234"), min_size=1, max_size=3),
    ),
    st.builds(term, st.sampled_from("xyzw"), st.sampled_from(["Exists", "DoesNotExist"])),
)


@given(st.lists(st.tuples(FACTS, FACTS), max_size=8), st.lists(TERM, max_size=3), st.lists(TERM, max_size=2))
def test_the_fleet_and_one_cluster_get_the_same_answer(facts: Any, labels: Any, claims: Any) -> None:
    fleet = fleet_of(*(cluster(f"c{index}", one, claims=two) for index, (one, two) in enumerate(facts)))
    found = made({"matchExpressions": labels}, claims)
    among = found.among(fleet, fleet.live)
    assert [each.id in among for each in fleet] == [found.matches(each) for each in fleet]
