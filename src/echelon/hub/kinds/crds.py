"""The habits of CustomResourceDefinitions: names, structural schemas, and being established.

Kubernetes establishes a CRD a moment after it was created. Here it happens in the same write, so that nobody has to
wait, and what is stored is always what is served.
"""

import re
from functools import lru_cache

import msgspec

from echelon.api import jsonpath
from echelon.api.base import JSONObject
from echelon.api.crd import check_structural
from echelon.hub.access.identity import User
from echelon.hub.cluster import LogicalCluster
from echelon.hub.kinds.strategy import Strategy, immutable
from echelon.hub.schema.cel import RuleError, Rules
from echelon.hub.schema.metadata import name_errors
from echelon.hub.schema.rule_costs import worst
from echelon.hub.schema.validation import SchemaError, Validator
from echelon.kube.errors import Cause

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_APPROVED = "api-approved.kubernetes.io"
_PROTECTED = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")
_VERSION = re.compile(r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")
_COLUMN_TYPES = ("integer", "number", "string", "boolean", "date")
_MOST_COLUMNS = 100


def _create(cluster: LogicalCluster, crd: JSONObject, _user: User) -> None:
    _fill(crd)
    meta = crd["metadata"]
    meta["finalizers"] = [*(f for f in meta.get("finalizers", ()) if f != CLEANUP), CLEANUP]
    _establish(cluster, crd, None)


def _update(cluster: LogicalCluster, crd: JSONObject, old: JSONObject, _user: User) -> None:
    _fill(crd)
    _establish(cluster, crd, old)


def _fill(crd: JSONObject) -> None:
    spec = crd.setdefault("spec", {})
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    spec.setdefault("conversion", {"strategy": "None"})


def _establish(cluster: LogicalCluster, crd: JSONObject, old: JSONObject | None) -> None:
    """Write the status: whether the names are free, and so whether the resource is served."""
    spec, before = crd.get("spec") or {}, ((old or {}).get("status") or {})
    clash = _clash(cluster, crd)
    conditions = before.get("conditions") or ()
    stored = list(before.get("storedVersions") or ())
    storage = next((v.get("name") for v in spec.get("versions") or () if v.get("storage")), None)
    if storage and storage not in stored:
        stored.append(storage)
    accepted = ("False", "NameConflict", clash) if clash else ("True", "NoConflicts", "no conflicts found")
    established = (
        ("False", "NotAccepted", "not all names are accepted")
        if clash
        else ("True", "InitialNamesAccepted", "the initial names have been accepted")
    )
    crd["status"] = {
        "acceptedNames": {} if clash else spec.get("names") or {},
        "conditions": [
            cluster.condition(conditions, "NamesAccepted", *accepted),
            cluster.condition(conditions, "Established", *established),
        ],
        "storedVersions": stored,
    }


def _clash(cluster: LogicalCluster, crd: JSONObject) -> str:
    spec, name = crd.get("spec") or {}, crd["metadata"].get("name", "")
    names = spec.get("names") or {}
    wanted = [names.get("plural"), names.get("singular"), names.get("kind"), names.get("listKind")]
    taken = {other for group, other in cluster.catalogue.names_taken(besides=name) if group == spec.get("group")}
    for candidate in [*wanted, *(names.get("shortNames") or ())]:
        if candidate in taken:
            return f'"{candidate}" is already in use'
    return ""


def _check(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    spec, names = new["spec"], new["spec"]["names"]
    causes = immutable(new, old, "spec", "group") + immutable(new, old, "spec", "scope")
    full_name = f"{names.get('plural')}.{spec.get('group')}"
    if new["metadata"]["name"] != full_name:
        why = f'Invalid value: "{new["metadata"]["name"]}": must be spec.names.plural+"."+spec.group'
        causes.append(Cause("metadata.name", why))
    causes += [
        Cause("spec.group", f'Invalid value: "{spec["group"]}": {why}')
        for why in name_errors(spec["group"], "subdomain")
    ]
    if "." not in spec["group"]:
        causes.append(
            Cause("spec.group", f'Invalid value: "{spec["group"]}": should be a domain with at least one dot')
        )
    approval = (new["metadata"].get("annotations") or {}).get(_APPROVED)
    if _PROTECTED.search(spec["group"]) and not approval:
        why = f'Required value: protected groups must have approval annotation "{_APPROVED}"'
        causes.append(Cause(f"metadata.annotations[{_APPROVED}]", why, "FieldValueRequired"))
    return causes + _check_versions(spec)


def _check_versions(spec: JSONObject) -> list[Cause]:
    causes: list[Cause] = []
    versions = spec["versions"]
    if sum(1 for version in versions if version.get("storage")) != 1:
        causes.append(Cause("spec.versions", "Invalid value: must have exactly one version marked as storage version"))
    if len({version["name"] for version in versions}) != len(versions):
        causes.append(Cause("spec.versions", "Invalid value: must contain unique version names"))
    for i, version in enumerate(versions):
        path = f"spec.versions[{i}]"
        if not _VERSION.match(version["name"]):
            causes.append(Cause(f"{path}.name", f'Invalid value: "{version["name"]}": a DNS-1035 label is needed'))
        causes += _check_schema(version, path) + _check_paths(version, path)
    return causes


def _check_schema(version: JSONObject, path: str) -> list[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    path = f"{path}.schema.openAPIV3Schema"
    if not schema:
        return [Cause(path, "Required value: schemas are required", "FieldValueRequired")]
    return list(_schema_causes(msgspec.json.encode(schema), path))


@lru_cache(maxsize=512)
def _schema_causes(schema_json: bytes, path: str) -> tuple[Cause, ...]:
    """Find what is wrong with a schema; remembered, because thousands of clusters are given the same definitions."""
    schema = msgspec.json.decode(schema_json)
    found = [Cause(*text.split(": ", 1)) for text in check_structural(schema, path)]
    if found:
        return tuple(found)
    try:
        Validator(schema).check_schema()
        dear = worst(Rules.compile(schema).costs())
    except SchemaError as error:
        return (Cause(f"{path}.{error.path}" if error.path else path, error.detail),)
    except RuleError as error:
        return (Cause(path, f"Invalid value: {error}"),)
    return tuple(
        Cause(f"{path}.{where}.rule" if where else path, f"Forbidden: {why}", "FieldValueForbidden")
        for where, why in dear
    )


def _check_paths(version: JSONObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    scale = (version.get("subresources") or {}).get("scale") or {}
    paths = [(f"{path}.subresources.scale.{name}", value) for name, value in scale.items()]
    columns = version.get("additionalPrinterColumns") or ()
    if len(columns) > _MOST_COLUMNS:
        why = f"Too many: {len(columns)}: must have at most {_MOST_COLUMNS} items"
        return [Cause(f"{path}.additionalPrinterColumns", why, "FieldValueTooMany")]
    for i, column in enumerate(columns):
        paths.append((f"{path}.additionalPrinterColumns[{i}].jsonPath", column["jsonPath"]))
        if column["type"] not in _COLUMN_TYPES:
            listed = ", ".join(f'"{name}"' for name in _COLUMN_TYPES)
            why = f'Unsupported value: "{column["type"]}": supported values: {listed}'
            causes.append(Cause(f"{path}.additionalPrinterColumns[{i}].type", why, "FieldValueNotSupported"))
    for where, value in paths:
        try:
            jsonpath.compile(value)
        except jsonpath.JSONPathError as error:
            causes.append(Cause(where, f'Invalid value: "{value}": {error}'))
    return causes


STRATEGY = Strategy(
    counts_generations=True, compiles=True, prepare_create=_create, prepare_update=_update, validate=_check
)
