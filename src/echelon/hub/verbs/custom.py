"""What custom resources are told beyond their schema, because of the subresources that they have.

A schema may forget to bound the replicas; the scale subresource cannot. And a write to the status is judged on its
own: Kubernetes validates the status as if it were the whole object, and its words are about paths inside of it.
"""

from dataclasses import replace

from echelon.api.base import JSON, JSONObject
from echelon.api.kinds import Kind
from echelon.hub.schema import causes
from echelon.kube.errors import Cause

_LARGEST = 2**31 - 1
_TYPES = {str: "string", bool: "bool", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}


def scale_causes(kind: Kind[JSON], obj: JSONObject, subresource: str = "") -> list[Cause]:
    """Find replicas that no scale could show; the desired ones are not looked at through the status."""
    if kind.scale is None:
        return []
    paths = (
        [kind.scale.status_replicas]
        if subresource == "status"
        else [kind.scale.spec_replicas, kind.scale.status_replicas]
    )
    return [cause for path in paths if (cause := _replicas_cause(obj, path))]


def _replicas_cause(obj: JSONObject, path: str) -> Cause | None:
    value: JSON = obj
    for name in path.removeprefix(".").split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    if type(value) is not int:
        shown = value if isinstance(value, str) else causes.compact(value)
        known = _TYPES.get(type(value), "<nil>")
        return causes.invalid(path, 0, f"{path} accessor error: {shown} is of the type {known}, expected int64")
    if value < 0:
        return causes.invalid(path, value, "should be a non-negative integer")
    if value > _LARGEST:
        return causes.invalid(path, value, f"should be less than or equal to {_LARGEST}")
    return None


def seen_from_status(cause: Cause) -> Cause:
    """Tell a finding of the schema as Kubernetes does when only the status was written."""
    if cause.field == "<nil>" and "Checked value must be" in cause.detail:
        return replace(cause, field="status", detail=cause.detail.replace(" in status.", " in "))
    inside = cause.field.removeprefix("status.")
    return replace(cause, detail=cause.detail.replace(f": {cause.field} in body", f": {inside} in body"))
