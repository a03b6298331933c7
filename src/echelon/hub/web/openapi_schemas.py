"""The schemas of an OpenAPI document, under the names that Kubernetes gives them.

Clients don't look schemas up by name alone: they follow `x-kubernetes-group-version-kind`, and tools that print a type
show the last part of the name. So whole objects, their lists and their metadata have a name of their own; everything
inside an object is written in its place, as Kubernetes does it for CRDs.
"""

from collections.abc import Iterable
from functools import cache

from echelon.api.autoscaling import Scale
from echelon.api.base import JSON, JSONObject
from echelon.api.meta import ObjectMeta
from echelon.api.schema import EMBEDDED, INT_OR_STRING, schema_of
from echelon.hub.catalogue.resources import Resource

GVK = "x-kubernetes-group-version-kind"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
SCALE = "io.k8s.api.autoscaling.v1.Scale"

_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_API_VERSION = {"type": "string", "description": "Group and version of the schema that the object follows."}
_KIND = {"type": "string", "description": "What the object is, in CamelCase."}
# Schemas by name or position; everything else in a schema is copied as it is.
_MAPS, _LISTS, _SINGLE = ("properties",), ("allOf", "anyOf", "oneOf"), ("items", "additionalProperties", "not")


def gvk(group: str, version: str, kind: str) -> JSONObject:
    """Return the extension that ties a schema or an operation to a kind."""
    return {"group": group, "version": version, "kind": kind}


def ref(name: str) -> JSONObject:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def schema_name(group: str, version: str, kind: str, *, builtin: bool) -> str:
    """Return the name of a kind's schema: of its Go package, or the reversed group of a CRD."""
    if not builtin:
        return ".".join([*reversed(group.split(".")), version, kind])
    if group == "apiextensions.k8s.io":
        return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}"
    return f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}.{kind}"


def name_of(resource: Resource) -> str:
    """Return the name of a resource's schema."""
    kind = resource.kind
    return schema_name(kind.group, kind.version, kind.kind, builtin=kind.builtin)


def schemas(resources: Iterable[Resource]) -> JSONObject:
    """Return the schemas of some resources and all that they refer to."""
    found = dict(_shared())
    for resource in resources:
        kind, name = resource.kind, name_of(resource)
        found[name] = whole_object(resource.schema, gvk(kind.group, kind.version, kind.kind), builtin=kind.builtin)
        if resource.persistent:
            found[f"{name}List"] = _list(name, gvk(kind.group, kind.version, kind.list_kind))
    return dict(sorted(found.items()))


def whole_object(schema: JSONObject, identity: JSONObject, *, builtin: bool) -> JSONObject:
    """Return the schema of a kind: ours or a CRD's, plus what all objects have in common."""
    published = _published(schema, builtin=builtin)
    shared = {"apiVersion": _API_VERSION, "kind": _KIND, "metadata": _metadata("ObjectMeta")}
    properties = {**published.get("properties", {}), **shared}
    return {**published, "type": "object", "properties": dict(sorted(properties.items())), GVK: [identity]}


def _list(name: str, identity: JSONObject) -> JSONObject:
    return {
        "description": f"A list of {identity['kind'].removesuffix('List')} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": _API_VERSION,
            "items": {"description": "The objects.", "type": "array", "items": ref(name)},
            "kind": _KIND,
            "metadata": _metadata("ListMeta"),
        },
        GVK: [identity],
    }


def _metadata(name: str) -> JSONObject:
    what = "list" if name == "ListMeta" else "object"
    return {"description": f"Metadata of the {what}.", "allOf": [ref(f"{META}.{name}")]}


def _published(schema: JSONObject, *, builtin: bool) -> JSONObject:
    """Return a structural schema as clients are shown it."""
    shown: JSONObject = {key: _nested(key, value, builtin) for key, value in schema.items()}
    if schema.get(INT_OR_STRING):
        return _int_or_string(shown, builtin=builtin)
    if schema.get(EMBEDDED):
        shown["properties"] = {
            "apiVersion": _API_VERSION,
            "kind": _KIND,
            **shown.get("properties", {}),
            "metadata": _metadata("ObjectMeta"),
        }
        shown["required"] = [*shown.get("required", ()), "kind", "apiVersion"]
    return shown


def _nested(key: str, value: JSON, builtin: bool) -> JSON:
    if key in _MAPS:
        return {name: _published(part, builtin=builtin) for name, part in value.items()}
    if key in _LISTS:
        return [_published(part, builtin=builtin) for part in value]
    if key in _SINGLE and isinstance(value, dict):
        return _published(value, builtin=builtin)
    return value


def _int_or_string(shown: JSONObject, *, builtin: bool) -> JSONObject:
    """Built-in kinds refer to a named type here, CRDs name both types."""
    if not builtin:
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], **shown}
    rest = {key: value for key, value in shown.items() if key not in (INT_OR_STRING, "anyOf")}
    return {**rest, "allOf": [ref(_INT_OR_STRING)]} if rest else ref(_INT_OR_STRING)


@cache
def _shared() -> JSONObject:
    """Return the schemas that every document has."""
    return {
        SCALE: whole_object(schema_of(Scale), gvk("autoscaling", "v1", "Scale"), builtin=True),
        _INT_OR_STRING: {
            "description": "A number, or a text such as a percentage.",
            "format": "int-or-string",
            "oneOf": [{"type": "integer"}, {"type": "string"}],
        },
        f"{META}.ObjectMeta": _published(schema_of(ObjectMeta), builtin=True),
        f"{META}.ListMeta": _LIST_META,
        f"{META}.DeleteOptions": _DELETE_OPTIONS,
        f"{META}.Patch": {"description": "A patch, in the format that the content type says.", "type": "object"},
        f"{META}.Status": _STATUS,
    }


def _object(description: str, identity: JSONObject | None = None, /, **properties: JSONObject) -> JSONObject:
    schema: JSONObject = {"description": description, "type": "object", "properties": properties}
    return {**schema, GVK: [identity]} if identity else schema


def _text(description: str) -> JSONObject:
    return {"description": description, "type": "string"}


def _number(description: str, form: str) -> JSONObject:
    return {"description": description, "type": "integer", "format": form}


_LIST_META = _object(
    "Metadata of a list.",
    **{"continue": _text("Token that asks for the rest of the list.")},
    remainingItemCount=_number("How many objects the rest has, if that is known.", "int64"),
    resourceVersion=_text("Version of the store that the list shows; a watch can go on from here."),
    selfLink=_text("No longer used."),
)
_DELETE_OPTIONS = _object(
    "How to delete an object.",
    gvk("", "v1", "DeleteOptions"),
    apiVersion=_API_VERSION,
    kind=_KIND,
    dryRun={
        "description": "With All, everything happens but the deletion.",
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-list-type": "atomic",
    },
    gracePeriodSeconds=_number("Seconds that the object may take to end; 0 is at once.", "int64"),
    orphanDependents={"description": "Replaced by propagationPolicy.", "type": "boolean"},
    preconditions=_object(
        "What must be true of the object for it to be deleted.",
        resourceVersion=_text("Version that it must have."),
        uid=_text("UID that it must have."),
    ),
    propagationPolicy=_text("What happens to dependents: Background, Foreground or Orphan."),
)
_STATUS = _object(
    "The outcome of a request that returns no object.",
    gvk("", "v1", "Status"),
    apiVersion=_API_VERSION,
    kind=_KIND,
    metadata=_metadata("ListMeta"),
    code=_number("HTTP status code.", "int32"),
    details=_object(
        "More about the reason.",
        causes={
            "description": "Single findings, one a field.",
            "type": "array",
            "items": _object(
                "A finding.",
                field=_text("Path of the field."),
                message=_text("What is wrong, for people."),
                reason=_text("What is wrong, for programs."),
            ),
            "x-kubernetes-list-type": "atomic",
        },
        group=_text("Group of the object that the request was about."),
        kind=_text("Its kind or resource."),
        name=_text("Its name."),
        retryAfterSeconds=_number("When to try again.", "int32"),
        uid=_text("Its UID."),
    ),
    message=_text("What happened, for people."),
    reason=_text("What happened, for programs."),
    status=_text("Success or Failure."),
)
