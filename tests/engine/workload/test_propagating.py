"""The plan for one template: it leads somewhere, there it stays, and what is in doubt changes nothing."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.apps import DAEMON_SET, DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.karmada import ResourceBinding
from echelon.engine.plan import Create, Emit, Patch, Plan
from echelon.engine.rollout.removal import approve_removal
from echelon.engine.workload.choosing import UNSETTLED, Chosen
from echelon.engine.workload.names import TEMPLATE_GENERATION
from echelon.engine.workload.propagating import FIRST_LOOK, plan
from echelon.engine.workload.propagation_view import PropagationView, holder_of
from echelon.engine.workload.selecting import Policy
from tests.engine.workload.clusters import cluster, cluster_policy, policy, template

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
DIVIDED = {"replicaScheduling": {"replicaSchedulingType": "Divided"}}


def chosen(*names: str, **fields: Any) -> Chosen:
    return Chosen(tuple(cluster(name) for name in sorted(names)), **fields)


def merged(document: JSONObject, patch: Mapping[str, Any]) -> JSONObject:
    """Merge a patch as a server does."""
    result = dict(document)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            before = result.get(name)
            result[name] = merged(before if isinstance(before, dict) else {}, value)
        else:
            result[name] = value
    return result


def carried_out(found: Plan, before: ResourceBinding | None) -> ResourceBinding | None:
    """Return the binding after a plan, as a server would have it."""
    wire: JSONObject | None = msgspec.to_builtins(before) if before is not None else None
    for action in (*found.actions, found.status):
        if isinstance(action, Create):
            wire = {**action.body, "metadata": {**action.body["metadata"], "uid": "b", "generation": 1}}
        elif isinstance(action, Patch):
            assert wire is not None
            generation = wire["metadata"].get("generation", 1)
            wire = merged(wire, action.body)
            if "spec" in action.body:
                wire["metadata"] = {**wire["metadata"], "generation": generation + 1}
    return msgspec.convert(wire, ResourceBinding) if wire is not None else None


def settled(view: PropagationView, binding: ResourceBinding | None = None) -> ResourceBinding:
    """Plan and carry out until nothing is left to do: once to make or change it, once to tell."""
    for _ in range(3):
        view = with_binding(view, binding)
        found = plan(view, NOW)
        assert plan(view, NOW) == found
        if found.empty:
            assert binding is not None
            return binding
        binding = carried_out(found, binding)
    raise AssertionError("it does not come to rest")


def with_binding(view: PropagationView, binding: ResourceBinding | None) -> PropagationView:
    return PropagationView(view.kind, view.template, binding, view.policy, view.chosen, view.told)


def shares(binding: ResourceBinding) -> dict[str, int]:
    return {each.name: each.replicas for each in binding.spec.clusters}


def reason(binding: ResourceBinding) -> str:
    return next(each.reason for each in binding.status.conditions if each.type == "Scheduled")


POLICIES = st.sampled_from(
    [
        policy("a"),
        policy("b", placement=DIVIDED),
        cluster_policy("c", placement=DIVIDED, preserveResourcesOnDeletion=True),
        policy("d", suspension={"dispatchingOnClusters": {"clusterNames": ["c1"]}}, propagateDeps=True),
        policy("e", placement={"clusterAffinity": {"clusterNames": ["c1"], "exclude": ["c2"]}}),
        policy("f", conflictResolution="Overwrite", metadata={"annotations": {"echelon.dev/placement": "p"}}),
        policy("g", placement={"spreadConstraints": [{"maxGroups": 1}]}),
    ]
)
CHOICES = st.one_of(
    st.sets(st.sampled_from(["c1", "c2", "c3", "c4"])).map(lambda names: chosen(*names)),
    st.just(Chosen(doubt=UNSETTLED, why="wait")),
    st.just(Chosen(doubt="PlacementMissing", why="none")),
    st.just(replace(chosen("c1", "c3"), restless=timedelta(seconds=1))),
)


@given(st.lists(st.tuples(POLICIES, CHOICES, st.integers(0, 9)), min_size=1, max_size=6))
def test_whatever_comes_a_binding_comes_to_rest_and_is_the_same_as_one_made_anew(
    steps: list[tuple[Policy, Chosen, int]],
) -> None:
    binding = None
    for number, (claims, clusters, replicas) in enumerate(steps):
        source = template(spec={"replicas": replicas}, metadata={"generation": number + 1})
        view = PropagationView(DEPLOYMENT, source, binding, claims, clusters)
        placement = binding.spec.placement if binding is not None else None
        had: dict[str, int] = shares(binding) if binding is not None else {}
        seen = binding.metadata.annotations[TEMPLATE_GENERATION] if binding is not None else ""
        binding = settled(view, binding)
        assert holder_of(binding) == (claims.metadata.namespace, claims.metadata.name)
        if clusters.doubt or claims.metadata.name == "g" or (not clusters.clusters and had):
            assert shares(binding) == had, "what is in doubt changes nothing"
            assert binding.spec.placement == (placement if number else binding.spec.placement)
        elif not claims.spec.placement.replica_scheduling:
            assert shares(binding) == {each.metadata.name: replicas for each in clusters.clusters}
        elif clusters.clusters:
            assert sum(shares(binding).values()) == replicas
        fresh = settled(PropagationView(DEPLOYMENT, source, None, claims, clusters))
        expected = dict(fresh.metadata.annotations)
        if number and (clusters.restless or (clusters.doubt == UNSETTLED and had and claims.metadata.name != "g")):
            expected[TEMPLATE_GENERATION] = seen  # who carries it out waits for clusters chosen for it
        assert binding.metadata.annotations == expected
        assert binding.spec.placement in (placement, fresh.spec.placement)
        assert binding.spec.suspension == fresh.spec.suspension
        assert binding.spec.preserve_resources_on_deletion == fresh.spec.preserve_resources_on_deletion


def test_a_daemon_set_goes_everywhere_and_has_no_replicas() -> None:
    view = PropagationView(
        DAEMON_SET, template(kind="DaemonSet"), None, policy("a", placement=DIVIDED), chosen("c1", "c2")
    )
    found = settled(view)
    assert (found.metadata.name, found.spec.replicas, shares(found)) == ("web-daemonset", 0, {"c1": 0, "c2": 0})


@pytest.mark.parametrize("age", [0, 1])
def test_a_new_template_waits_for_a_moment(age: int) -> None:
    made = (NOW - timedelta(seconds=age)).isoformat().replace("+00:00", "Z")
    source = template(metadata={"creationTimestamp": made})
    view = PropagationView(DEPLOYMENT, source, None, policy("a"), chosen("c1"))
    assert plan(view, NOW) == Plan(look_again_after=FIRST_LOOK - timedelta(seconds=age))
    assert plan(view, NOW + FIRST_LOOK).actions
    # A server whose clock is ahead must not hold anything up.
    assert plan(view, NOW - timedelta(hours=1)).actions


def test_a_template_that_goes_or_whose_binding_goes_is_left_alone() -> None:
    view = PropagationView(DEPLOYMENT, template(), None, policy("a"), chosen("c1"))
    made = settled(view)
    going = template(metadata={"deletionTimestamp": "2026-11-01T00:00:00Z"})
    assert plan(PropagationView(DEPLOYMENT, going, made, policy("a"), chosen("c2")), NOW).empty
    ending = msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, deletion_timestamp="2026-11-01T00:00:00Z")
    )
    assert plan(PropagationView(DEPLOYMENT, template(), ending, policy("a"), chosen("c2")), NOW).empty


def test_the_binding_of_an_earlier_template_is_waited_out_and_an_orphan_is_taken() -> None:
    made = settled(PropagationView(DEPLOYMENT, template(), None, policy("a"), chosen("c1")))
    again = template(metadata={"uid": "another"})
    view = PropagationView(DEPLOYMENT, again, made, policy("a"), chosen("c1"))
    assert plan(view, NOW).empty
    orphan = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, owner_references=[]))
    taken = settled(view, orphan)
    assert [each.uid for each in taken.metadata.owner_references] == ["another"]
    assert taken.spec.resource.uid == "another"


def test_a_status_of_the_template_is_no_reason_to_write() -> None:
    view = PropagationView(DEPLOYMENT, template(), None, policy("a"), chosen("c1"))
    made = settled(view)
    later = template(metadata={"resourceVersion": "99"})
    assert plan(PropagationView(DEPLOYMENT, later, made, policy("a"), chosen("c1")), NOW).empty
    changed = template(metadata={"resourceVersion": "99", "generation": 2})
    assert settled(PropagationView(DEPLOYMENT, changed, made, policy("a"), chosen("c1")), made).spec.resource == (
        msgspec.structs.replace(made.spec.resource, resource_version="99")
    )


def test_an_empty_choice_is_held_until_it_is_approved_and_an_approval_covers_nobody_else() -> None:
    made = settled(PropagationView(DEPLOYMENT, template(), None, policy("a"), chosen("c1", "c2")))
    nobody = PropagationView(DEPLOYMENT, template(), made, policy("a"), chosen())

    def approving(*names: str) -> ResourceBinding:
        notes = {**made.metadata.annotations, **approve_removal(names)}
        return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=notes))

    held = settled(nobody, made)
    assert (shares(held), reason(held)) == ({"c1": 3, "c2": 3}, "RemovalHeld")
    assert shares(settled(nobody, approving("c1", "c3"))) == {"c1": 3, "c2": 3}
    assert shares(settled(nobody, approving("c1", "c2"))) == {}
    asked = PropagationView(DEPLOYMENT, template(), made, policy("a"), chosen(none_meant=True))
    assert shares(settled(asked, made)) == {}


def test_who_keeps_what_it_has_does_not_make_the_loss_of_all_others_less_of_a_mistake() -> None:
    made = settled(PropagationView(DEPLOYMENT, template(), None, policy("a"), chosen("c1", "c2", "x")))
    kept = chosen(kept=frozenset({"x"}))
    held = settled(PropagationView(DEPLOYMENT, template(), made, policy("a"), kept), made)
    assert (shares(held), reason(held)) == ({"c1": 3, "c2": 3, "x": 3}, "RemovalHeld")
    notes = {**made.metadata.annotations, **approve_removal(["c1", "c2"])}
    approved = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=notes))
    left = settled(PropagationView(DEPLOYMENT, template(), made, policy("a"), kept), approved)
    assert shares(left) == {"x": 3}


def test_a_doubt_is_told_unless_it_passes_by_itself() -> None:
    made = settled(PropagationView(DEPLOYMENT, template(), None, policy("a"), chosen("c1", "c2")))

    def doubting(word: str) -> PropagationView:
        return PropagationView(DEPLOYMENT, template(), made, policy("a"), chosen("c1", doubt=word, why="why"))

    missing = settled(doubting("PlacementMissing"), made)
    assert (shares(missing), reason(missing)) == ({"c1": 3, "c2": 3}, "PlacementMissing")
    assert settled(doubting(UNSETTLED), made) == made
    fresh = settled(PropagationView(DEPLOYMENT, template(), None, policy("a"), Chosen(doubt=UNSETTLED, why="why")))
    assert (shares(fresh), reason(fresh)) == ({}, UNSETTLED)


def test_news_is_told_once() -> None:
    claims = policy("a", propagateDeps=True)
    view = PropagationView(DEPLOYMENT, template(), None, claims, chosen())
    made = carried_out(plan(view, NOW), None)
    first = plan(with_binding(view, made), NOW)
    assert [each.reason for each in first.actions if isinstance(each, Emit)] == ["NoClusterFit", "FieldsWithoutEffect"]
    told = carried_out(first, made)
    assert plan(with_binding(view, told), NOW + timedelta(hours=1)).empty


def test_a_binding_of_somebody_else_is_told_of_and_never_written() -> None:
    wire = {
        "metadata": {"name": "web-deployment", "namespace": "apps", "uid": "x"},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }
    theirs = msgspec.convert(wire, ResourceBinding)
    [event] = plan(PropagationView(DEPLOYMENT, template(), theirs, policy("a"), chosen("c1")), NOW).actions
    assert isinstance(event, Emit)
    assert event.reason == "BindingNotMadeHere"
    assert plan(PropagationView(DEPLOYMENT, template(), theirs, policy("a"), chosen("c1"), told=True), NOW).empty
    assert plan(PropagationView(DEPLOYMENT, template(), theirs), NOW).empty
