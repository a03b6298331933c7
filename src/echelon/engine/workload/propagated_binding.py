"""The binding of a template as Karmada makes it, and what it takes to bring one up to date.

Only what is said here is written: whatever else is on a binding belongs to somebody else, such as what people say about
its rollout.
"""

from uuid import UUID, uuid5

import msgspec

from echelon.api.base import JSONObject
from echelon.api.karmada import (
    RESOURCE_BINDING,
    ObjectReference,
    ResourceBinding,
    ResourceBindingSpec,
    Suspension,
)
from echelon.engine.merge_patch import merge_difference
from echelon.engine.work.health_state import number, part, text
from echelon.engine.workload.deciding import BindingOutcome
from echelon.engine.workload.names import (
    CLUSTER_POLICY_NAME,
    MADE_BY,
    PERMANENT_ID,
    PLACEMENT,
    POLICY_NAME,
    POLICY_NAMESPACE,
    PROPAGATION,
    STRATEGY,
    TEMPLATE_GENERATION,
    binding_name,
)
from echelon.engine.workload.propagation_view import PropagationView, has_seen
from echelon.engine.workload.selecting import Policy

_IDS = UUID("5b0f9d0e-2a51-4c55-8a37-63fcb2e9f1d4")
_OWN_FIELDS = (
    "resource",
    "replicas",
    "clusters",
    "placement",
    "conflictResolution",
    "suspension",
    "preserveResourcesOnDeletion",
)


def created(view: PropagationView, policy: Policy, outcome: BindingOutcome) -> JSONObject:
    """Return the binding to create."""
    template = part(view.template, "metadata")
    generation = str(number(template, "generation"))
    annotations = {key: value for key, value in _annotations(policy, generation).items() if value is not None}
    metadata = {
        "name": binding_name(text(template, "name"), view.kind.kind),
        "namespace": text(template, "namespace"),
        "labels": {PERMANENT_ID: _permanent_id(template)},
        "annotations": annotations,
        "ownerReferences": _owners(view),
    }
    spec = msgspec.to_builtins(_spec(view, policy, outcome))
    return {**RESOURCE_BINDING.type_meta, "metadata": metadata, "spec": spec}


def changed(view: PropagationView, policy: Policy, binding: ResourceBinding, outcome: BindingOutcome) -> JSONObject:
    """Return what to merge into the binding that is there; nothing if it is as it should be."""
    template, meta = part(view.template, "metadata"), binding.metadata
    body: JSONObject = {}
    seen = meta.annotations.get(TEMPLATE_GENERATION)
    if seen is None or not is_open(view, outcome):
        seen = str(number(template, "generation"))
    wanted = _annotations(policy, seen)
    if words := {key: value for key, value in wanted.items() if meta.annotations.get(key) != value}:
        body["metadata"] = {"annotations": words}
    if PERMANENT_ID not in meta.labels:
        body.setdefault("metadata", {})["labels"] = {PERMANENT_ID: _permanent_id(template)}
    if not any(each.uid == text(template, "uid") for each in meta.owner_references):
        others = [each for each in meta.owner_references if not each.controller]
        owners = [*(msgspec.to_builtins(each) for each in others), *_owners(view)]
        body.setdefault("metadata", {})["ownerReferences"] = owners
    if difference := merge_difference(_wire(binding.spec), _wire(_spec(view, policy, outcome))):
        body["spec"] = difference
    return body


def is_open(view: PropagationView, outcome: BindingOutcome) -> bool:
    """Whether clusters are about to be chosen anew, so that a template that has changed is better not begun yet."""
    return outcome.passing or view.chosen.restless is not None


def _spec(view: PropagationView, policy: Policy, outcome: BindingOutcome) -> ResourceBindingSpec:
    """Return the spec that the binding is to have."""
    template, before = part(view.template, "metadata"), view.binding.spec if view.binding is not None else None
    version = text(template, "resourceVersion")
    if view.binding is not None and before is not None:
        waits = before.resource.uid == text(template, "uid") and is_open(view, outcome)
        if waits or has_seen(view.binding, view.template):
            version = before.resource.resource_version or version
    clusters, replicas = outcome.clusters, view.replicas
    placement: JSONObject | None = msgspec.to_builtins(policy.spec.placement)
    if clusters is None:  # and so do the rules by which they were chosen
        clusters, replicas = (before.clusters, before.replicas) if before is not None else ([], replicas)
        placement = before.placement if before is not None else placement
    return ResourceBindingSpec(
        resource=ObjectReference(
            api_version=view.kind.api_version,
            kind=view.kind.kind,
            namespace=text(template, "namespace"),
            name=text(template, "name"),
            uid=text(template, "uid"),
            resource_version=version,
        ),
        replicas=replicas,
        clusters=clusters,
        placement=placement,
        conflict_resolution=policy.spec.conflict_resolution or "Abort",
        suspension=_suspension(policy, before),
        preserve_resources_on_deletion=policy.spec.preserve_resources_on_deletion,
    )


def _suspension(policy: Policy, before: ResourceBindingSpec | None) -> Suspension | None:
    """Return what is held back: what the policy says, and whether clusters are chosen, which is said on the binding."""
    asked = policy.spec.suspension
    scheduling = before.suspension.scheduling if before is not None and before.suspension is not None else None
    found = Suspension(
        dispatching=asked.dispatching if asked is not None else None,
        dispatching_on_clusters=asked.dispatching_on_clusters if asked is not None else None,
        scheduling=scheduling,
    )
    return found if found != Suspension() else None


def _annotations(policy: Policy, seen: str) -> dict[str, str | None]:
    """Return the annotations of the binding that are ours; None where there is to be none."""
    meta = policy.metadata
    own = bool(meta.namespace)
    return {
        MADE_BY: PROPAGATION,
        POLICY_NAMESPACE: meta.namespace or None,
        POLICY_NAME: meta.name if own else None,
        CLUSTER_POLICY_NAME: None if own else meta.name,
        PLACEMENT: meta.annotations.get(PLACEMENT),
        STRATEGY: meta.annotations.get(STRATEGY),
        TEMPLATE_GENERATION: seen,
    }


def _permanent_id(template: JSONObject) -> str:
    """Return what the works of a template are found by: always the same for one template, and for no other."""
    return str(uuid5(_IDS, text(template, "uid")))


def _owners(view: PropagationView) -> list[JSONObject]:
    template = part(view.template, "metadata")
    reference = view.kind.owner_reference(text(template, "name"), text(template, "uid"))
    return [{**reference, "controller": True, "blockOwnerDeletion": True}]


def _wire(spec: ResourceBindingSpec) -> JSONObject:
    wire: JSONObject = msgspec.to_builtins(spec)
    return {name: value for name, value in wire.items() if name in _OWN_FIELDS}
