"""The way from client-side to server-side apply.

`kubectl apply` used to keep its last configuration in an annotation, and its fields belong to an updater of another
name. When the same user goes over to `--server-side`, fields that still are as that configuration had them are no
conflict; and the annotation is kept up to date, so that the way back is open.
"""

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.hub.apply.contents import compare, stated
from echelon.hub.apply.fields import FieldSet
from echelon.hub.apply.shape import Shape

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_BYTES = 256 * 1024


def agreed_before(live: JSONObject, shape: Shape, *, api_version: str) -> FieldSet:
    """Return the fields of the last client-side configuration that the live object still has as they were."""
    try:
        last = msgspec.json.decode(_annotations(live).get(ANNOTATION) or "")
    except msgspec.DecodeError:
        return FieldSet()
    if not isinstance(last, dict) or last.get("apiVersion") != api_version:
        return FieldSet()
    changes, removals = compare(last, live, shape)
    return stated(last, shape) - changes - removals


def refreshed(obj: JSONObject, config: JSONObject) -> JSONObject:
    """Return the object with the annotation, if it has one, saying what was applied now."""
    annotations = _annotations(obj)
    if not annotations.get(ANNOTATION):
        return obj
    applied = msgspec.json.encode(_without_annotation(config), order="sorted").decode() + "\n"
    kept = {**annotations, ANNOTATION: applied}
    if sum(len(key.encode()) + len(str(value).encode()) for key, value in kept.items()) > MAX_ANNOTATIONS_BYTES:
        del kept[ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": kept}}


def _annotations(obj: JSONObject) -> dict[str, JSON]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _without_annotation(config: JSONObject) -> JSONObject:
    annotations = {key: value for key, value in _annotations(config).items() if key != ANNOTATION}
    metadata = {key: value for key, value in config.get("metadata", {}).items() if key != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    return {**config, "metadata": metadata}
