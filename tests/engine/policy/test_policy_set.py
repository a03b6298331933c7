"""The status of a policy set, told line by line: which policies report what, where, and what is said of them."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.policy import ClusterCompliance, PolicyStatus
from echelon.api.policy_binding import (
    PolicySetExclusion,
    PolicySetExclusionStatus,
    PolicySetPlacement,
    PolicySetSpec,
    PolicySetStatus,
)
from echelon.api.rollout import RolloutSummary
from echelon.engine.policy.policy_set import (
    MemberPolicy,
    SetBinding,
    policy_set_status,
    read_policy,
    status_body,
)
from echelon.engine.policy.raw_policy import RawPolicy

EXCLUDED = "One or more policies were excluded. For details, see status.exclusions."
ALL = "All policies are reporting status"


def policy(on: Mapping[str, str] | None = None, *, disabled: bool = False, **status: object) -> RawPolicy:
    listed = [ClusterCompliance(clustername=name, compliant=state) for name, state in (on or {}).items()]
    made = PolicyStatus(status=listed, **status)  # type: ignore[arg-type]  # of the test's own
    return RawPolicy(spec={"disabled": disabled}, status=made)


def bound(*clusters: str, name: str = "bind", restricted: bool = False) -> SetBinding:
    return SetBinding(name, placement="north", clusters=frozenset(clusters), restricted=restricted)


def told(
    policies: Mapping[str, RawPolicy | None], *bindings: SetBinding, exclusions: Mapping[str, list[str]] | None = None
) -> PolicySetStatus:
    left_out = [PolicySetExclusion(policy_name=name, cluster_names=on) for name, on in (exclusions or {}).items()]
    spec = PolicySetSpec(policies=list(policies), exclusions=left_out)
    return policy_set_status(
        spec, bindings, {name: read_policy(each) for name, each in policies.items() if each is not None}
    )


def said(status: PolicySetStatus) -> tuple[str, str]:
    return status.compliant, status.status_message


GOOD, BAD, WAITS = {"c1": "Compliant"}, {"c1": "NonCompliant"}, {"c1": "Pending"}


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ({"a": policy(GOOD), "b": policy(GOOD)}, ("Compliant", ALL)),
        ({"a": policy(GOOD), "b": policy(BAD)}, ("NonCompliant", ALL)),
        ({"a": policy(WAITS), "b": policy(GOOD)}, ("Pending", "Policies awaiting pending dependencies: a")),
        ({"a": policy(WAITS), "b": policy(BAD)}, ("NonCompliant", "Policies awaiting pending dependencies: a")),
        ({"a": policy(), "b": policy(GOOD)}, ("", "No status provided while awaiting policy status: a")),
        ({"a": policy({"c1": ""}), "b": policy(BAD)}, ("", "No status provided while awaiting policy status: a")),
        ({"a": policy({"c1": "Odd"})}, ("", "No status provided while awaiting policy status: a")),
        ({"a": policy(disabled=True), "b": policy(GOOD)}, ("Compliant", "Disabled policies: a")),
        ({"a": policy(disabled=True)}, ("", "Disabled policies: a")),
        ({"a": None, "b": policy(BAD)}, ("NonCompliant", "Deleted policies: a")),
        ({"a": None}, ("", "Deleted policies: a")),
        ({"a": policy({"c1": "Compliant", "c2": ""})}, ("Compliant", ALL)),
        (
            {
                "z": None,
                "e": policy(disabled=True),
                "d": policy(),
                "c": policy(WAITS),
                "b": policy(WAITS),
                "a": policy(GOOD),
            },
            (
                "",
                (
                    "Policies awaiting pending dependencies: c, b; Disabled policies: e; "
                    "No status provided while awaiting policy status: d; Deleted policies: z"
                ),
            ),
        ),
    ],
    ids=[
        "all compliant",
        "mixed",
        "pending",
        "pending is not as bad as a violation",
        "one does not report",
        "one has an empty state",
        "a state that nobody knows",
        "disabled",
        "only a disabled one",
        "missing",
        "only a missing one",
        "some clusters do not report yet",
        "combined, in the order of the set",
    ],
)
def test_the_worst_state_and_what_is_missing_are_told(
    policies: Mapping[str, RawPolicy | None], expected: tuple[str, str]
) -> None:
    assert said(told(policies, bound("c1", "c2"))) == expected


def test_only_the_clusters_of_the_sets_own_bindings_count() -> None:
    everywhere = policy({"c1": "Compliant", "c2": "NonCompliant", "c3": "Pending"})
    assert said(told({"a": everywhere}, bound("c1")))[0] == "Compliant"
    assert said(told({"a": everywhere}, bound("c1"), bound("c3", name="other")))[0] == "Pending"
    assert said(told({"a": everywhere}, bound("c1", "c2", "c3")))[0] == "NonCompliant"
    assert said(told({"a": everywhere}, bound("c9"))) == ("", "No status provided while awaiting policy status: a")
    assert said(told({"a": everywhere})) == ("", "No status provided while awaiting policy status: a")


def test_an_empty_set_says_nothing_at_all() -> None:
    assert told({}, bound("c1")) == PolicySetStatus()


def test_a_policy_that_is_listed_twice_is_told_once() -> None:
    status = policy_set_status(PolicySetSpec(policies=["a", "a"]), [bound("c1")], {})
    assert status.status_message == "Deleted policies: a"


# --- exclusions ------------------------------------------------------------------------------------------------------


def test_an_excluded_cluster_does_not_count_for_that_policy() -> None:
    policies = {"a": policy({"c1": "Compliant", "c2": "NonCompliant"}), "b": policy(GOOD)}
    status = told(policies, bound("c1", "c2"), exclusions={"a": ["c2"]})
    assert said(status) == ("Compliant", f"{ALL}; {EXCLUDED}")
    assert status.exclusions == [PolicySetExclusionStatus(policy_name="a", clusters=["c2"])]
    other = told(policies, bound("c1", "c2"), exclusions={"b": ["c2"]})
    assert said(other)[0] == "NonCompliant"


def test_an_exclusion_of_a_cluster_that_is_not_placed_excludes_nothing() -> None:
    status = told({"a": policy(GOOD)}, bound("c1"), exclusions={"a": ["c9"]})
    assert said(status) == ("Compliant", ALL)
    assert status.exclusions == []


def test_a_policy_that_is_excluded_everywhere_is_not_waited_for() -> None:
    status = told({"a": policy(), "b": policy(GOOD)}, bound("c1"), exclusions={"a": ["c1"]})
    assert said(status) == ("Compliant", f"{ALL}; {EXCLUDED}")


def test_the_sentence_about_exclusions_comes_last() -> None:
    status = told({"a": None, "b": policy(GOOD)}, bound("c2", "c1"), exclusions={"b": ["c2", "c1"]})
    assert said(status) == ("", f"Deleted policies: a; {EXCLUDED}")
    assert status.exclusions == [PolicySetExclusionStatus(policy_name="b", clusters=["c1", "c2"])]


# --- placement -------------------------------------------------------------------------------------------------------


def test_ways_are_sorted_and_told_also_where_there_is_no_placement() -> None:
    bindings = [
        SetBinding("z"),
        SetBinding("b", placement_rule="rule", clusters=frozenset({"c1"})),
        SetBinding("a", placement="north"),
    ]
    assert told({"p": None}, *bindings).placement == [
        PolicySetPlacement(placement_binding="a", placement="north"),
        PolicySetPlacement(placement_binding="b", placement_rule="rule"),
        PolicySetPlacement(placement_binding="z"),
    ]


def test_a_restricted_binding_places_nothing_and_is_told_where_it_changes_something() -> None:
    everywhere = {"a": policy({"c1": "Compliant", "c2": "NonCompliant"})}
    restricted = bound("c2", name="enforce", restricted=True)
    status = told(everywhere, bound("c1"), restricted)
    assert status.compliant == "Compliant"
    assert [each.placement_binding for each in status.placement] == ["bind", "enforce"]
    nowhere = told(everywhere, bound("c1"), bound("c9", name="enforce", restricted=True))
    assert [each.placement_binding for each in nowhere.placement] == ["bind"]


# --- large ones, and what is written ---------------------------------------------------------------------------------


def test_clusters_that_are_too_many_to_be_listed_are_what_the_policy_is() -> None:
    cut = policy({"c9": "Compliant"}, compliant="Compliant", rollout=RolloutSummary(succeeded=2))
    assert said(told({"a": cut}, bound("c1"))) == ("Compliant", ALL)
    assert said(told({"a": cut}))[0] == ""
    worse = policy({"c9": "NonCompliant"}, compliant="NonCompliant", rollout=RolloutSummary(succeeded=2))
    assert said(told({"a": worse}, bound("c1")))[0] == ""
    whole = policy({"c9": "Compliant"}, compliant="Compliant", rollout=RolloutSummary(succeeded=1))
    assert said(told({"a": whole}, bound("c1")))[0] == ""


def test_what_is_empty_is_taken_out_of_a_stored_status() -> None:
    assert status_body(PolicySetStatus(compliant="Compliant", status_message=ALL)) == {
        "status": {"compliant": "Compliant", "statusMessage": ALL, "placement": None, "exclusions": None}
    }


STATES = st.sampled_from(["Compliant", "NonCompliant", "Pending", ""])
CLUSTERS = st.sampled_from([f"c{number}" for number in range(5)])


@given(
    st.dictionaries(st.sampled_from("abc"), st.dictionaries(CLUSTERS, STATES), min_size=1),
    st.frozensets(CLUSTERS),
    st.dictionaries(st.sampled_from("abc"), st.frozensets(CLUSTERS)),
)
def test_a_set_is_as_good_as_its_policies_on_their_clusters(
    states: dict[str, dict[str, str]], placed: frozenset[str], excluded: dict[str, frozenset[str]]
) -> None:
    spec = PolicySetSpec(
        policies=list(states),
        exclusions=[PolicySetExclusion(policy_name=name, cluster_names=sorted(on)) for name, on in excluded.items()],
    )
    status = policy_set_status(spec, [bound(*placed)], {name: read_policy(policy(on)) for name, on in states.items()})
    seen = {
        name: {on[cluster] for cluster in placed - excluded.get(name, frozenset()) if on.get(cluster)}
        for name, on in states.items()
        if not placed or placed - excluded.get(name, frozenset())
    }
    reported = set().union(*seen.values())
    if status.compliant:
        assert all(seen.values())
        assert status.compliant == next(each for each in ("NonCompliant", "Pending", "Compliant") if each in reported)
    else:
        assert not seen or not all(seen.values())


def test_reading_takes_the_disabled_ones_as_they_are() -> None:
    assert read_policy(policy(disabled=True)) == MemberPolicy(disabled=True)
