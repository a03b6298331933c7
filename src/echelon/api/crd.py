"""CustomResourceDefinitions, made from the kinds themselves.

A CRD that is written by hand drifts away from the code that reads its objects. Ours are derived, so the only thing
that can be wrong is the derivation, and `check_structural` tells what an API server would reject.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kinds import Column, Kind, Scale
from echelon.api.schema import schema_of
from echelon.api.structural import check_structural

__all__ = ["LABELS", "PART", "check_structural", "crd", "is_ours"]

# On everything that Echelon installs, so that it can be told from what somebody else did. Helm writes its own name over
# the second one, and early versions had only that.
PART = ("app.kubernetes.io/part-of", "echelon")
_MANAGER = ("app.kubernetes.io/managed-by", "echelon")
LABELS = dict((PART, _MANAGER))

# Words of built-in kinds' schemas: they steer strategic merge patch, which custom resources don't have.
_BUILTIN_ONLY = frozenset(
    {"x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy", "x-kubernetes-group-version-kind"}
)
_ROOT_PROPERTIES: JSONObject = {
    "apiVersion": {"description": "Version of the schema that this object is written in.", "type": "string"},
    "kind": {"description": "What this object is.", "type": "string"},
    "metadata": {"type": "object"},
}


def is_ours(labels: Mapping[str, str]) -> bool:
    """Whether something was installed by Echelon, by whatever means."""
    return any(labels.get(name) == value for name, value in (PART, _MANAGER))


def crd(*kinds: Kind[Any]) -> JSONObject:
    """Return the manifest for a resource, given its kind in each of its versions; the last one is stored."""
    stored = kinds[-1]
    for kind in kinds:
        if (kind.resource, kind.kind, kind.namespaced) != (stored.resource, stored.kind, stored.namespaced):
            raise ValueError(f"{kind.api_version} {kind.kind} and {stored.api_version} {stored.kind} need one CRD each")
        if kind.builtin:
            raise ValueError(f"{kind.resource} is served by Kubernetes itself and has no CRD")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": stored.resource, "labels": {**LABELS, **dict(stored.crd_labels)}},
        "spec": {
            "group": stored.group,
            "names": _names(stored),
            "scope": "Namespaced" if stored.namespaced else "Cluster",
            "versions": [_version(kind, storage=kind is stored) for kind in kinds],
        },
    }


def _names(kind: Kind[Any]) -> JSONObject:
    names: JSONObject = {
        "kind": kind.kind,
        "listKind": kind.list_kind,
        "plural": kind.plural,
        "singular": kind.singular,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return names


def _version(kind: Kind[Any], *, storage: bool) -> JSONObject:
    version: JSONObject = {
        "name": kind.version,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": _root_schema(kind)},
    }
    if subresources := _subresources(kind):
        version["subresources"] = subresources
    if columns := _columns(kind.columns):
        version["additionalPrinterColumns"] = columns
    if kind.selectable_fields:
        version["selectableFields"] = [{"jsonPath": f".{path.lstrip('.')}"} for path in kind.selectable_fields]
    return version


def _root_schema(kind: Kind[Any]) -> JSONObject:
    """Return the schema of a whole object: what every object has comes first, whether the class names it or not."""
    schema = _without_builtin_words(schema_of(kind.type))
    own = {key: value for key, value in schema.get("properties", {}).items() if key not in _ROOT_PROPERTIES}
    return {**schema, "properties": {**_ROOT_PROPERTIES, **own}}


def _without_builtin_words(schema: JSONObject) -> JSONObject:
    """Return a copy that has only the words of CRDs. Names of properties and example values are not words."""
    kept: JSONObject = {}
    for word, value in schema.items():
        if word in _BUILTIN_ONLY:
            continue
        if word == "properties":
            kept[word] = {name: _without_builtin_words(part) for name, part in value.items()}
        elif word in ("items", "additionalProperties", "not") and isinstance(value, dict):
            kept[word] = _without_builtin_words(value)
        elif word in ("allOf", "anyOf", "oneOf"):
            kept[word] = [_without_builtin_words(part) for part in value]
        else:
            kept[word] = value
    return kept


def _subresources(kind: Kind[Any]) -> JSONObject:
    subresources: JSONObject = {}
    if kind.status:
        subresources["status"] = {}
    if kind.scale:
        subresources["scale"] = _scale(kind.scale)
    return subresources


def _scale(scale: Scale) -> JSONObject:
    paths = {"specReplicasPath": scale.spec_replicas, "statusReplicasPath": scale.status_replicas}
    return {**paths, "labelSelectorPath": scale.selector} if scale.selector else paths


def _columns(columns: Sequence[Column]) -> list[JSONObject]:
    """Return the columns that a server can compute from the object alone.

    A CRD without columns shows the age; one with columns shows them and nothing else.
    """
    listed = []
    for column in columns:
        if not column.path:
            continue
        wire: JSONObject = {"name": column.name, "type": column.type, "jsonPath": column.path}
        if column.description:
            wire["description"] = column.description
        if column.format:
            wire["format"] = column.format
        if column.priority:
            wire["priority"] = column.priority
        listed.append(wire)
    return listed
