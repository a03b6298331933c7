"""The operations of an OpenAPI document.

They are read off discovery, so that the two can never disagree about what is served. kubectl and Helm look here before
they write: a patch that lists `fieldValidation` is validated by the server, one whose body may be a strategic merge
patch gets one.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from echelon.api.base import JSONObject
from echelon.hub.web.openapi_schemas import GVK, META, gvk, ref, schema_name

ACTION = "x-kubernetes-action"


@dataclass(frozen=True)
class _Operation:
    """What an HTTP method does for a verb of discovery, and what may be said with it."""

    method: str
    action: str  # Kubernetes' own word
    prefix: str  # of the operationId
    does: str
    parameters: tuple[str, ...] = ()


_WRITES = ("dryRun", "fieldManager", "fieldValidation")
_DELETES = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_SELECTS = (
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
)
_LISTS = ("allowWatchBookmarks", *_SELECTS, "sendInitialEvents", "watch")

_COLLECTION = {
    "list": _Operation("get", "list", "list", "list or watch {kind} objects", _LISTS),
    "create": _Operation("post", "post", "create", "create a {kind}", _WRITES),
    "deletecollection": _Operation(
        "delete", "deletecollection", "deleteCollection", "delete all selected {kind} objects", (*_SELECTS, *_DELETES)
    ),
}
_ITEM = {
    "get": _Operation("get", "get", "read", "read a {kind}"),
    "update": _Operation("put", "put", "replace", "replace a {kind}", _WRITES),
    "patch": _Operation("patch", "patch", "patch", "change parts of a {kind}, or apply it", (*_WRITES, "force")),
    "delete": _Operation("delete", "delete", "delete", "delete a {kind}", _DELETES),
}
_SUBRESOURCE = {**_ITEM, "create": _Operation("post", "post", "create", "create a {kind}", _WRITES)}

_QUERY = {
    "allowWatchBookmarks": ("boolean", "Whether a watch may send bookmarks."),
    "continue": ("string", "Token of an earlier answer: asks for the rest of its list."),
    "dryRun": ("string", "With All, the request has no effect; the answer is what it would have been."),
    "fieldManager": ("string", "Name of who makes the change, for managed fields."),
    "fieldSelector": ("string", "Selects objects by their fields."),
    "fieldValidation": ("string", "What to do with unknown or repeated fields: Ignore, Warn or Strict."),
    "force": ("boolean", "Whether an apply takes over fields that others manage."),
    "gracePeriodSeconds": ("integer", "Seconds that the object may take to end; 0 is at once."),
    "labelSelector": ("string", "Selects objects by their labels."),
    "limit": ("integer", "Most objects that one answer may hold."),
    "orphanDependents": ("boolean", "Replaced by propagationPolicy."),
    "pretty": ("string", "Whether to indent the answer."),
    "propagationPolicy": ("string", "What happens to dependents: Background, Foreground or Orphan."),
    "resourceVersion": ("string", "Version of the store that the answer is about."),
    "resourceVersionMatch": ("string", "How to read resourceVersion: Exact or NotOlderThan."),
    "sendInitialEvents": ("boolean", "Whether a watch starts with the objects that exist."),
    "timeoutSeconds": ("integer", "How long a list or watch may take."),
    "watch": ("boolean", "Whether to follow changes instead of listing."),
}
_PATH = {"name": "Name of the object.", "namespace": "Namespace of the object."}

_ANSWERS = {
    "post": {"201": "Created"},
    "put": {"200": "OK", "201": "Created"},
    "patch": {"200": "OK", "201": "Created"},
}
_JSON = ("application/json", "application/yaml")
_MERGE_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"


def paths(group: str, version: str, entries: Sequence[JSONObject], *, builtin: AbstractSet[str]) -> JSONObject:
    """Return the paths of a group version.

    `entries` are the resources of its discovery document, `builtin` the kinds among them that no CRD defines.
    """
    kinds = {entry["name"]: entry["kind"] for entry in entries if "/" not in entry["name"]}
    found: JSONObject = {}
    for entry in entries:
        owner = kinds[entry["name"].partition("/")[0]]
        found |= _Entry(group, version, entry, owner, builtin=owner in builtin).paths()
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class _Entry:
    """A resource or subresource, as discovery shows it."""

    group: str
    version: str
    entry: JSONObject
    owner: str  # the kind that operations are named after, also if a subresource answers with another
    builtin: bool

    def paths(self) -> JSONObject:
        plural, _, subresource = self.entry["name"].partition("/")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = "/namespaces/{namespace}" if self.entry["namespaced"] else ""
        if subresource:
            return self._path(f"{root}{inside}/{plural}/{{name}}/{subresource}", _SUBRESOURCE, subresource.capitalize())
        found = self._path(f"{root}{inside}/{plural}", _COLLECTION)
        if set(self.entry["verbs"]) & set(_ITEM):
            found |= self._path(f"{root}{inside}/{plural}/{{name}}", _ITEM)
        if inside and "list" in self.entry["verbs"]:
            found |= self._path(f"{root}/{plural}", {"list": _COLLECTION["list"]}, "ForAllNamespaces")
        return found

    def _path(self, path: str, operations: dict[str, _Operation], suffix: str = "") -> JSONObject:
        shown: JSONObject = {
            operation.method: self._operation(operation, suffix, namespaced="{namespace}" in path)
            for verb, operation in operations.items()
            if verb in self.entry["verbs"]
        }
        names = [name for name in _PATH if f"{{{name}}}" in path]
        shown["parameters"] = [*(_in_path(name) for name in names), _in_query("pretty")]
        return {path: shown}

    def _operation(self, operation: _Operation, suffix: str, *, namespaced: bool) -> JSONObject:
        identity = gvk(self.entry.get("group", self.group), self.entry.get("version", self.version), self.entry["kind"])
        where = f"{_camel(self.group)}{self.version.capitalize()}{'Namespaced' if namespaced else ''}"
        shown: JSONObject = {
            "tags": [f"{_camel(self.group, lower=True)}_{self.version}"],
            "description": operation.does.format(kind=self.entry["kind"]),
            "operationId": f"{operation.prefix}{where}{self.owner}{suffix}",
            "parameters": [_in_query(name) for name in operation.parameters],
            "responses": self._responses(operation),
            ACTION: operation.action,
            GVK: identity,
        }
        body = self._body(operation)
        return {**shown, "requestBody": body} if body else shown

    def _responses(self, operation: _Operation) -> JSONObject:
        schema = ref(self._schema(operation.action))
        content = {kind: {"schema": schema} for kind in _JSON}
        answered = _ANSWERS.get(operation.action, {"200": "OK"})
        shown: JSONObject = {code: {"description": word, "content": content} for code, word in answered.items()}
        return {**shown, "401": {"description": "Unauthorized"}}

    def _body(self, operation: _Operation) -> JSONObject:
        if operation.action in ("delete", "deletecollection"):
            return {"content": {kind: {"schema": ref(f"{META}.DeleteOptions")} for kind in _JSON}}
        if operation.action == "patch":
            kinds = (*_MERGE_PATCHES, _STRATEGIC) if self.builtin else _MERGE_PATCHES
            return {"content": {kind: {"schema": ref(f"{META}.Patch")} for kind in kinds}, "required": True}
        if operation.action in ("post", "put"):
            return {"content": {kind: {"schema": ref(self._schema(""))} for kind in _JSON}, "required": True}
        return {}

    def _schema(self, action: str) -> str:
        if action in ("delete", "deletecollection"):
            return f"{META}.Status"
        group, version = self.entry.get("group", self.group), self.entry.get("version", self.version)
        # A subresource of another group, such as a scale, is always Kubernetes' own.
        builtin = self.builtin or (group, version) != (self.group, self.version)
        name = schema_name(group, version, self.entry["kind"], builtin=builtin)
        return f"{name}List" if action == "list" else name


def _camel(group: str, *, lower: bool = False) -> str:
    words = group.removesuffix(".k8s.io").replace("-", ".").split(".") if group else ["core"]
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name[:1].lower() + name[1:] if lower else name


def _in_query(name: str) -> JSONObject:
    kind, description = _QUERY[name]
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind, "uniqueItems": True}}


def _in_path(name: str) -> JSONObject:
    return {"name": name, "in": "path", "description": _PATH[name], "required": True, "schema": {"type": "string"}}
