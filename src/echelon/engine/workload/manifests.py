"""The manifest that a cluster gets of a template: without what belongs to the hub, with what Karmada notes on it."""

from collections.abc import Mapping

from echelon.api.base import JSONObject
from echelon.api.karmada import ResourceBinding
from echelon.engine.align import Grant, Interpreter, strategy_of
from echelon.engine.work.health_state import part, text
from echelon.engine.workload.names import (
    BINDING_NAME,
    BINDING_NAMESPACE,
    BINDING_UID,
    CONFLICT_RESOLUTION,
    MANAGED,
    PERMANENT_ID,
    PUSH_ID,
    TEMPLATE_GENERATION,
    TEMPLATE_UID,
    WORK_NAME,
    WORK_NAMESPACE,
    execution_namespace,
)

_KEPT_METADATA = ("name", "namespace", "labels", "annotations")
# Notes of the hub's own controllers and tools, and our own words: none of them means anything on a member.
_HUB_ANNOTATIONS = frozenset(
    (
        "deployment.kubernetes.io/revision",
        "deployment.kubernetes.io/revision-history",
        "deprecated.daemonset.template.generation",
        "kubectl.kubernetes.io/last-applied-configuration",
    )
)
_OWN_PREFIX = "echelon.dev/"
_RESOLUTIONS = frozenset(("abort", "overwrite"))


def base_of(template: JSONObject) -> JSONObject:
    """Return a template without what belongs to the hub: its status, and all that a server keeps in the metadata."""
    meta = part(template, "metadata")
    kept = {name: meta[name] for name in _KEPT_METADATA if meta.get(name)}
    annotations = {
        name: value
        for name, value in part(meta, "annotations").items()
        if name not in _HUB_ANNOTATIONS and not name.startswith(_OWN_PREFIX)
    }
    kept.pop("annotations", None)
    if annotations:
        kept["annotations"] = annotations
    rest = {name: value for name, value in template.items() if name not in ("metadata", "status")}
    return {**rest, "metadata": kept}


def with_replicas(manifest: JSONObject, replicas: int) -> JSONObject:
    """Return a manifest with so many replicas."""
    return {**manifest, "spec": {**part(manifest, "spec"), "replicas": replicas}}


def granted(manifest: JSONObject, grant: Grant, interpreter: Interpreter) -> JSONObject:
    """Return a manifest with all that a grant says, every governed field explicit."""
    return with_replicas(interpreter.revise_rolling_strategy(manifest, strategy_of(grant)), grant.replicas)


def noted(
    manifest: JSONObject,
    binding: ResourceBinding,
    cluster: str,
    work_name: str,
    *,
    template: JSONObject,
    generation: int,
    push_id: int | None,
) -> JSONObject:
    """Return a manifest with the labels and annotations by which everybody finds it again.

    `generation` is that of the template from which the manifest comes.
    """
    meta = part(manifest, "metadata")
    labels = {**part(meta, "labels"), MANAGED: "true", PERMANENT_ID: permanent_id(binding)}
    annotations = {
        **part(meta, "annotations"),
        **binding_notes(binding),
        TEMPLATE_UID: text(part(template, "metadata"), "uid"),
        TEMPLATE_GENERATION: str(generation),
        WORK_NAMESPACE: execution_namespace(cluster),
        WORK_NAME: work_name,
        CONFLICT_RESOLUTION: _resolution(template, binding),
        BINDING_UID: binding.metadata.uid,
    }
    annotations.pop(PUSH_ID, None)
    if push_id is not None:
        annotations[PUSH_ID] = str(push_id)
    return {**manifest, "metadata": {**meta, "labels": labels, "annotations": annotations}}


def binding_notes(binding: ResourceBinding) -> dict[str, str]:
    """Return the annotations that say whose work, or manifest, something is."""
    return {BINDING_NAMESPACE: binding.metadata.namespace, BINDING_NAME: binding.metadata.name}


def permanent_id(binding: ResourceBinding) -> str:
    """Return what Karmada calls a binding for all of its life; one that people write by hand is called by its uid."""
    return binding.metadata.labels.get(PERMANENT_ID) or binding.metadata.uid


def push_id_of(annotations: Mapping[str, object]) -> int | None:
    """Return the push that a manifest carries; None if it carries none that can be read."""
    value = annotations.get(PUSH_ID)
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else None


def _resolution(template: JSONObject, binding: ResourceBinding) -> str:
    """Return whether an object that is there already is taken over; the word of the template itself wins."""
    said = text(part(template, "metadata", "annotations"), CONFLICT_RESOLUTION).lower()
    return said if said in _RESOLUTIONS else binding.spec.conflict_resolution.lower()
