"""A set is read with every default, or is not accepted for a reason that names the field, and its pods go on."""

import copy
from datetime import timedelta
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.engine.pod_clique.accepting import Accepted, NotAccepted, accept
from echelon.engine.pod_clique.revisions import store
from echelon.engine.pod_clique.set_spec import AutoScaling, Settings
from tests.engine.pod_clique.sets import IMAGE, a_set, clique, group, pods, sets, spec_of, stored

EXPLICIT = "CliqueStartupTypeExplicit"
IN_ORDER = "CliqueStartupTypeInOrder"

# --- defaults ---------------------------------------------------------------------------------------------------------


def test_everything_that_is_not_given_has_its_default() -> None:
    spec = spec_of(a_set(clique("a", 3), clique("b"), groups=[group("g", "b")]))
    assert (spec.strategy, spec.startup) == ("RollingRecreate", "CliqueStartupTypeAnyOrder")
    assert spec.termination_delay == timedelta(hours=4)
    assert spec.publish_not_ready
    assert spec.scheduler == "default-scheduler"
    assert spec.clique["a"].min_available == 3
    assert (spec.clique["a"].max_unavailable, spec.clique["a"].progress_deadline) == (1, timedelta(minutes=10))
    assert (spec.group["g"].replicas, spec.group["g"].min_available) == (1, 1)
    assert spec.clique["b"].group == "g"
    assert spec.standalone == (spec.clique["a"],)


def test_what_is_given_is_kept() -> None:
    rolling = {"maxUnavailable": 2, "progressDeadline": "1m"}
    body = a_set(
        clique("a", 3, minAvailable=1, rollingUpdate=rolling, pod_spec=pods(schedulerName="kai")),
        clique("b", pod_spec=pods(schedulerName="kai")),
        replicas=2,
        strategy="OnDelete",
        groups=[group("g", "b", replicas=4, minAvailable=2, rollingUpdate=rolling)],
        terminationDelay="30m",
        headlessServiceConfig={"publishNotReadyAddresses": False},
        priorityClassName="high",
    )
    spec = spec_of(body)
    assert (spec.replicas, spec.strategy, spec.on_delete) == (2, "OnDelete", True)
    assert (spec.termination_delay, spec.publish_not_ready) == (timedelta(minutes=30), False)
    assert (spec.priority_class, spec.scheduler) == ("high", "kai")
    assert spec.clique["a"].min_available == 1
    for limits in (spec.clique["a"], spec.group["g"]):
        assert (limits.max_unavailable, limits.progress_deadline) == (2, timedelta(minutes=1))
    assert (spec.group["g"].replicas, spec.group["g"].min_available) == (4, 2)


def test_an_autoscaler_without_a_minimum_begins_at_replicas() -> None:
    scaled = clique("a", 3, minAvailable=1, autoScalingConfig={"maxReplicas": 5})
    groups = [group("g", "b", replicas=2, scaleConfig={"maxReplicas": 4})]
    spec = spec_of(a_set(scaled, clique("b"), groups=groups))
    assert spec.clique["a"].autoscaling == AutoScaling(3, 5)
    assert spec.group["g"].autoscaling == AutoScaling(2, 4)


def test_defaults_are_not_written_into_the_set() -> None:
    body = a_set(clique("a", 3))
    before = copy.deepcopy(body)
    spec_of(body)
    assert body == before


def test_a_minimum_that_is_not_given_stays_what_it_was_when_the_clique_grows() -> None:
    first = spec_of(a_set(clique("a", 3)))
    revision = stored(store(a_set(clique("a", 3)), first, ())[0])
    assert spec_of(a_set(clique("a", 5)), revision).clique["a"].min_available == 3
    # Fewer than the minimum would never be enough.
    assert spec_of(a_set(clique("a", 2)), revision).clique["a"].min_available == 2
    assert spec_of(a_set(clique("a", 5, minAvailable=1)), revision).clique["a"].min_available == 1


def test_rolling_limits_under_on_delete_are_accepted_and_have_no_effect() -> None:
    body = a_set(clique("a", rollingUpdate={"maxUnavailable": 3}), strategy="OnDelete")
    assert isinstance(accept(body, (), IMAGE), Accepted)


# --- startup order ----------------------------------------------------------------------------------------------------


def test_any_order_waits_for_nobody() -> None:
    spec = spec_of(a_set(clique("a"), clique("b", startsAfter=["a"])))
    assert [each.starts_after for each in spec.cliques] == [(), ()]
    assert not spec.waits


def test_in_order_waits_for_the_clique_before() -> None:
    spec = spec_of(a_set(clique("c"), clique("a"), clique("b"), cliqueStartupType=IN_ORDER))
    assert [each.starts_after for each in spec.cliques] == [(), ("c",), ("a",)]
    assert spec.waits


def test_explicit_order_waits_for_what_is_named() -> None:
    cliques = (clique("a", startsAfter=["b", "c"]), clique("b"), clique("c"))
    spec = spec_of(a_set(*cliques, cliqueStartupType=EXPLICIT))
    assert [each.starts_after for each in spec.cliques] == [("b", "c"), (), ()]


NAMES = ("a", "b", "c", "d")


@given(st.fixed_dictionaries({name: st.lists(st.sampled_from(NAMES), unique=True) for name in NAMES}))
def test_an_order_is_accepted_if_and_only_if_there_is_one(parents: dict[str, list[str]]) -> None:
    parents = {name: [each for each in before if each != name] for name, before in parents.items()}
    body = a_set(*(clique(name, startsAfter=parents[name]) for name in NAMES), cliqueStartupType=EXPLICIT)
    possible = any(
        all(order.index(before) < order.index(name) for name in NAMES for before in parents[name])
        for order in permutations(NAMES)
    )
    found = accept(body, (), IMAGE)
    assert isinstance(found, Accepted) == possible
    if isinstance(found, NotAccepted):
        assert found.reason == "StartupCycle"
        cycle = found.message.removeprefix("spec.template.cliques: ").split(":")[0].split(" after ")
        assert len(cycle) > 2
        assert cycle[0] == cycle[-1]
        assert all(later in parents[earlier] for earlier, later in pairwise(cycle))


def test_a_long_chain_is_no_cycle_and_ends() -> None:
    names = [f"c{number}" for number in range(64)]
    # Every clique after all before it: a search without memory would try two to the power of 62 ways.
    cliques = [clique(name, startsAfter=names[:number]) for number, name in enumerate(names)]
    assert isinstance(accept(a_set(*cliques, cliqueStartupType=EXPLICIT), (), IMAGE), Accepted)


@pytest.mark.parametrize("startup", [IN_ORDER, EXPLICIT])
def test_nobody_can_wait_without_an_image_to_wait_with(startup: str) -> None:
    body = a_set(clique("a"), clique("b", startsAfter=["a"]), cliqueStartupType=startup)
    found = accept(body, (), Settings())
    assert isinstance(found, NotAccepted)
    assert (found.reason, found.spec) == ("NoInitImage", None)
    assert "--init-image" in found.message


def test_no_image_is_needed_where_nobody_waits() -> None:
    assert isinstance(accept(a_set(clique("a"), cliqueStartupType=IN_ORDER), (), Settings()), Accepted)
    assert isinstance(accept(a_set(clique("a"), cliqueStartupType=EXPLICIT), (), Settings()), Accepted)


# --- what is not accepted ---------------------------------------------------------------------------------------------


def b_after(*others: str) -> JSONObject:
    return a_set(clique("a"), clique("b", startsAfter=list(others)), cliqueStartupType=EXPLICIT)


def env(*variables: str) -> JSONObject:
    return {"containers": [{"name": "c", "image": "i", "env": [{"name": name} for name in variables]}]}


INVALID: dict[str, tuple[JSONObject, str]] = {
    "no cliques": (a_set(), "spec.template.cliques"),
    "a name without a Service": (a_set(clique("a"), name="1w"), "metadata.name"),
    "a name with a dot": (a_set(clique("a.b")), "spec.template.cliques.name: 'a.b'"),
    "a group name with a dot": (a_set(clique("a"), groups=[group("g.h", "a")]), "podCliqueScalingGroups.name: 'g.h'"),
    "two cliques of one name": (a_set(clique("a"), clique("a")), "spec.template.cliques.name: 'a'"),
    "two groups of one name": (
        a_set(clique("a"), clique("b"), groups=[group("g", "a"), group("g", "b")]),
        "podCliqueScalingGroups.name: 'g'",
    ),
    "two cliques of one role": (a_set(clique("a"), clique("b", roleName="a")), "roleName: 'a'"),
    "no role": (a_set(clique("a", roleName="")), "roleName: ''"),
    "45 characters are enough": (a_set(clique("a" * 23), name="w" * 23), "45 characters"),
    "45 with the group's": (a_set(clique("a" * 20), groups=[group("g" * 20, "a" * 20)], name="w" * 6), "45 characters"),
    "a group of an unknown clique": (a_set(clique("a"), groups=[group("g", "x")]), "'x' is no clique"),
    "a group of nobody": (a_set(clique("a"), groups=[group("g")]), "[g].cliqueNames"),
    "a clique in two groups": (a_set(clique("a"), groups=[group("g", "a"), group("h", "a")]), "in group g already"),
    "a member with an autoscaler": (
        a_set(clique("a", autoScalingConfig={"maxReplicas": 2}), groups=[group("g", "a")]),
        "autoScalingConfig",
    ),
    "names that meet": (a_set(clique("g-0-b"), clique("b"), groups=[group("g", "b")]), "same name"),
    "two schedulers": (a_set(clique("a", pod_spec=pods(schedulerName="x")), clique("b")), "schedulerName"),
    "negative replicas": (a_set(clique("a"), replicas=-1), "spec.replicas: -1"),
    "a clique without pods": (a_set(clique("a", 0)), "[a].spec.replicas: 0"),
    "a minimum of none": (a_set(clique("a", minAvailable=0)), "[a].spec.minAvailable: 0"),
    "a minimum beyond the size": (a_set(clique("a", minAvailable=2)), "[a].spec.minAvailable: 2"),
    "a group's minimum beyond its size": (
        a_set(clique("a"), groups=[group("g", "a", minAvailable=2)]),
        "[g].minAvailable: 2",
    ),
    "an autoscaler below the minimum": (
        a_set(clique("a", 2, autoScalingConfig={"minReplicas": 1, "maxReplicas": 3})),
        "autoScalingConfig.minReplicas: 1",
    ),
    "an autoscaler below the size": (
        a_set(clique("a", 3, minAvailable=1, autoScalingConfig={"minReplicas": 1, "maxReplicas": 2})),
        "autoScalingConfig.maxReplicas: 2",
    ),
    "a group's autoscaler below its minimum": (
        a_set(clique("a"), groups=[group("g", "a", replicas=2, minAvailable=2, scaleConfig={"minReplicas": 1})]),
        "scaleConfig.minReplicas: 1",
    ),
    "a group's autoscaler that no server takes": (
        a_set(clique("a"), groups=[group("g", "a", replicas=2, scaleConfig={"maxReplicas": 1})]),
        "scaleConfig.maxReplicas: 1",
    ),
    "no delay": (a_set(clique("a"), terminationDelay="0s"), "terminationDelay: 0s"),
    "a delay in no notation": (a_set(clique("a"), terminationDelay="soon"), "terminationDelay"),
    "a deadline in no notation": (a_set(clique("a", rollingUpdate={"progressDeadline": "x"})), "progressDeadline"),
    "nobody may be unavailable": (a_set(clique("a", rollingUpdate={"maxUnavailable": 0})), "maxUnavailable: 0"),
    "after itself": (b_after("b"), "'b': must name another"),
    "after nobody": (b_after(""), "'': must name another"),
    "after a stranger": (b_after("x"), "'x': must name another"),
    "after one clique twice": (b_after("a", "a"), "named once"),
    "no containers": (a_set(clique("a", pod_spec={"containers": []})), "podSpec.containers"),
    "a node": (a_set(clique("a", pod_spec=pods(nodeName="n"))), "podSpec.nodeName"),
    "spread": (a_set(clique("a", pod_spec=pods(topologySpreadConstraints=[{}]))), "topologySpreadConstraints"),
    "a variable twice": (a_set(clique("a", pod_spec=env("A", "A"))), "env.name: 'A'"),
    "a variable without a name": (a_set(clique("a", pod_spec=env(""))), "env.name: ''"),
    "a variable with a sign": (a_set(clique("a", pod_spec=env("A=B"))), "env.name: 'A=B'"),
    "the name of the container that waits": (
        a_set(clique("a", pod_spec={**pods(), "initContainers": [{"name": "grove-initc"}]})),
        "grove-initc",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_a_mistake_is_named_with_its_field(case: str) -> None:
    body, told = INVALID[case]
    found = accept(body, (), IMAGE)
    assert isinstance(found, NotAccepted)
    assert (found.reason, found.spec) == ("Invalid", None)
    assert told in found.message


UNSUPPORTED: dict[str, tuple[JSONObject, str, str]] = {
    "claim templates": (a_set(clique("a"), resourceClaimTemplates=[{"name": "x"}]), "Unsupported", "Templates"),
    "sharing": (a_set(clique("a"), resourceSharing=[{"name": "x"}]), "Unsupported", "resourceSharing"),
    "claims of a pod": (a_set(clique("a", pod_spec=pods(resourceClaims=[{}]))), "Unsupported", "resourceClaims"),
    "an unknown strategy": (a_set(clique("a"), strategy="Coherent"), "Unsupported", "updateStrategy.type"),
    "an unknown startup type": (a_set(clique("a"), cliqueStartupType="X"), "Unsupported", "cliqueStartupType"),
    "a topology": (
        a_set(clique("a"), topologyConstraint={"pack": {"required": "rack"}}),
        "TopologyLevelsUnavailable",
        "topologyConstraint",
    ),
    "more replicas than anybody means": (a_set(clique("a"), replicas=10**9), "TooLarge", "spec.replicas"),
    "more of a group than anybody means": (
        a_set(clique("a"), groups=[group("g", "a", replicas=10**9)]),
        "TooLarge",
        "PodCliques",
    ),
    "more pods than anybody means": (a_set(clique("a", 10**9)), "TooLarge", "[a].spec.replicas"),
    "more arguments than a pod can have": (
        a_set(
            clique("a"),
            clique("b"),
            groups=[group("g", "a", replicas=4000, minAvailable=4000)],
            cliqueStartupType=IN_ORDER,
        ),
        "TooLarge",
        "[b].spec.startsAfter",
    ),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_of_what_cannot_be_done_nothing_is_made(case: str) -> None:
    body, reason, told = UNSUPPORTED[case]
    found = accept(body, (), IMAGE)
    assert isinstance(found, NotAccepted)
    assert (found.reason, found.spec) == (reason, None)
    assert told in found.message


@pytest.mark.parametrize(
    "part",
    [{"resourceSharing": [{"name": "x"}]}, {"topologyConstraint": {"pack": {}}}],
)
def test_parts_of_a_set_are_looked_at_too(part: JSONObject) -> None:
    in_clique, in_group = {**clique("a"), **part}, group("g", "a", **part)
    assert isinstance(accept(a_set(in_clique), (), IMAGE), NotAccepted)
    assert isinstance(accept(a_set(clique("a"), groups=[in_group]), (), IMAGE), NotAccepted)


# --- what pods go on from ---------------------------------------------------------------------------------------------

GOOD = a_set(clique("a", 2), clique("b"), priorityClassName="high")


def edited(edit: Any) -> NotAccepted:
    spec = spec_of(GOOD)
    revision = stored(store(GOOD, spec, ())[0])
    body = copy.deepcopy(GOOD)
    edit(body["spec"])
    found = accept(body, (revision,), IMAGE)
    assert isinstance(found, NotAccepted)
    return found


def bad_pods(spec: JSONObject) -> None:
    spec["template"]["cliques"][0]["spec"]["podSpec"] = env("A", "A")
    spec["template"]["priorityClassName"] = "low"
    spec["replicas"] = 3


def test_pods_go_on_from_the_templates_that_were_accepted_last() -> None:
    spec, found = spec_of(GOOD), edited(bad_pods)
    assert found.spec is not None
    assert found.spec.cliques == spec.cliques
    assert (found.spec.generation_hash, found.spec.priority_class) == (spec.generation_hash, "high")
    # The size is no part of the mistake.
    assert found.spec.replicas == 3


def test_the_newest_revision_is_the_one_that_was_accepted_last() -> None:
    older, newer = GOOD, a_set(clique("a", 2, labels={"x": "y"}), clique("b"))
    first = stored(store(older, spec_of(older), ())[0])
    second = stored(store(newer, spec_of(newer), (first,))[0])
    body = copy.deepcopy(GOOD)
    bad_pods(body["spec"])
    for revisions in ((first, second), (second, first)):
        found = accept(body, revisions, IMAGE)
        assert isinstance(found, NotAccepted)
        assert found.spec is not None
        assert found.spec.generation_hash == spec_of(newer).generation_hash


def test_nothing_is_rolled_by_a_strategy_that_nobody_knows() -> None:
    found = edited(lambda spec: spec.update(updateStrategy={"type": "Coherent"}))
    assert found.spec is not None
    assert found.spec.on_delete


def test_a_set_that_makes_no_sense_is_left_alone() -> None:
    assert edited(lambda spec: spec["template"]["cliques"][0]["spec"].update(replicas=0)).spec is None
    assert edited(lambda spec: spec.update(replicas=10**9)).spec is None


def test_templates_of_other_cliques_are_nothing_to_go_on_from() -> None:
    def renamed(spec: JSONObject) -> None:
        bad_pods(spec)
        spec["template"]["cliques"][1]["name"] = "c"

    assert edited(renamed).spec is None


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(("", "a", "w")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("name", "spec", "x")), inner),
    max_leaves=4,
)


@given(sets(), st.data())
def test_no_set_that_a_server_could_hold_stops_the_controller(body: JSONObject, data: st.DataObject) -> None:
    """Grove's CRD leaves much to its webhook. Whatever is there, there is an answer."""
    at: Any = body["spec"]
    while isinstance(at, dict | list) and at:
        key = data.draw(st.sampled_from(sorted(at)) if isinstance(at, dict) else st.integers(0, len(at) - 1))
        if data.draw(st.booleans()):
            at[key] = data.draw(_ANY)
            break
        at = at[key]
    assert isinstance(accept(body, (), IMAGE), Accepted | NotAccepted)
