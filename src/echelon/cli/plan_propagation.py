"""The bindings that templates and policies in a change would get, by the plan of the controller that makes bindings."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from echelon.api.base import JSONObject
from echelon.api.karmada import RESOURCE_BINDING, ResourceBinding
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.labels import SelectorError
from echelon.api.placement import PLACEMENT
from echelon.api.propagation import CLUSTER_PROPAGATION_POLICY, PROPAGATION_POLICY
from echelon.api.rollout import RolloutStrategy
from echelon.cli.plan_fleet import FleetPlan
from echelon.engine.merge_patch import merged
from echelon.engine.plan import Create, Patch
from echelon.engine.workload.affinity import affinity_match
from echelon.engine.workload.choosing import Chosen, Standing, choose, follow
from echelon.engine.workload.policy_fields import mistakes, placement_of, tolerations_of
from echelon.engine.workload.propagating import FIRST_LOOK, plan
from echelon.engine.workload.propagation_view import PropagationView, holder_of, is_made_here
from echelon.engine.workload.selecting import Policy, claiming
from echelon.kube.client import Reader
from echelon.kube.errors import ApiError, Forbidden, NotFound
from echelon.rollouts.reading import references
from echelon.rollouts.templates import TEMPLATES, name_of_binding

T = TypeVar("T")
_Changes = Mapping[str, Mapping[Key, JSONObject | None]]
_POLICIES = (PROPAGATION_POLICY, CLUSTER_PROPAGATION_POLICY)


async def propagated(
    client: Reader, fleet: FleetPlan, changed: _Changes, now: datetime
) -> list[tuple[str, Key, JSONObject]]:
    """Return the bindings that would be written, of templates in a change and of those that its policies mean."""
    found: list[tuple[str, Key, JSONObject]] = []
    if fleet.unseen:
        return found
    for kind, template in await _templates(client, changed):
        binding = await _binding(client, fleet, kind, template, now)
        if binding is not None:
            meta = binding["metadata"]
            found.append((RESOURCE_BINDING.resource, Key(meta["namespace"], meta["name"]), binding))
    return found


async def _templates(client: Reader, changed: _Changes) -> list[tuple[Kind[Any], JSONObject]]:
    found: dict[tuple[str, Key], tuple[Kind[Any], JSONObject]] = {}
    for kind in TEMPLATES:
        for key, document in changed.get(kind.resource, {}).items():
            if document is not None:
                found[kind.resource, key] = kind, document
    spaces = {key.namespace for kind in (*_POLICIES, PLACEMENT) for key in changed.get(kind.resource, {})}
    for namespace in sorted(spaces):
        for kind in TEMPLATES:
            for document in await _listed(client, kind.untyped(), namespace):
                meta = document["metadata"]
                found.setdefault((kind.resource, Key(meta["namespace"], meta["name"])), (kind, document))
    return list(found.values())


async def _listed(client: Reader, kind: Kind[T], namespace: str = "") -> Sequence[T]:
    try:
        return (await client.list(kind, namespace)).readable
    except (NotFound, Forbidden):
        return ()


async def _binding(
    client: Reader, fleet: FleetPlan, kind: Kind[Any], template: JSONObject, now: datetime
) -> JSONObject | None:
    """Return the binding of a template as it would be written, if it would be."""
    meta = template["metadata"]
    namespace = meta["namespace"]
    own, everywhere = await asyncio.gather(
        _listed(client, PROPAGATION_POLICY, namespace), _listed(client, CLUSTER_PROPAGATION_POLICY)
    )
    policies: list[Policy] = [*own, *everywhere]
    binding, wire = await _present(client, name_of_binding(meta["name"], kind), namespace)
    view = PropagationView(kind, template, binding, claiming(template, policies, holder_of(binding)))
    if view.policy is None or (binding is not None and not is_made_here(binding)):
        return None
    if not mistakes(view.policy):
        view = replace(view, chosen=await _chosen(client, fleet, view, now))
    # A template that is looked at for the first time has to be old enough for others to show themselves.
    for action in plan(view, now + FIRST_LOOK).actions:
        if isinstance(action, Create) and action.kind == RESOURCE_BINDING:
            body = action.body
            made = {**body["metadata"], "namespace": namespace, "uid": f"planned-{body['metadata']['name']}"}
            return {**RESOURCE_BINDING.type_meta, **body, "metadata": {**made, "generation": 1}}
        if isinstance(action, Patch) and action.kind == RESOURCE_BINDING and not action.subresource:
            return merged(wire, action.body)
    return None


async def _present(client: Reader, name: str, namespace: str) -> tuple[ResourceBinding | None, JSONObject]:
    try:
        wire = await client.get(RESOURCE_BINDING.untyped(), name, namespace)
    except ApiError:
        return None, {}
    return msgspec.convert(wire, ResourceBinding), wire


async def _chosen(client: Reader, fleet: FleetPlan, view: PropagationView, now: datetime) -> Chosen:
    policy, binding = view.policy, view.binding
    if policy is None:
        return Chosen()
    namespace = view.template["metadata"]["namespace"]
    having = frozenset(each.name for each in binding.spec.clusters) if binding is not None else frozenset[str]()
    if name := placement_of(policy):
        reference = (await references(client, namespace, [(name, RolloutStrategy())]))[0]
        if reference.placement is None:
            return Chosen(doubt="PlacementMissing", why=f"there is no placement {name} in the namespace")
        listed = reference.placement.groups.clusters
        there = {each: fleet.clusters[each] for each in listed | having if each in fleet.clusters}
        standing = _standing(fleet, namespace, listed, having)
        return replace(follow(listed, there, standing, now), none_meant=reference.placement.selects_none)
    affinity = policy.spec.placement.cluster_affinity
    try:
        matches = affinity_match(affinity)
        meant = [each for each in fleet.clusters.values() if matches(each)]
    except SelectorError:
        meant = []
    named = affinity.cluster_names if affinity is not None else []
    names = frozenset(each.metadata.name for each in meant)
    standing = _standing(fleet, namespace if policy.metadata.namespace else "", names, having)
    missing = [each for each in named if each not in fleet.clusters]
    return choose(meant, tolerations_of(policy), standing, now, named=frozenset(named), missing=missing)


def _standing(fleet: FleetPlan, namespace: str, listed: frozenset[str], having: frozenset[str]) -> Standing:
    strange = frozenset[str]()
    if namespace and not fleet.told.trust_decisions:
        unbound = (listed | having) - fleet.bound(namespace)
        strange = frozenset(each for each in unbound if each in listed or each in fleet.clusters)
    return Standing(having, strange, fleet.spared(having))
