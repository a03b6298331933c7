"""Server-side apply that leaves some fields to others on the cluster.

What is left alone as soon as the object exists (OnSpokePresent) is taken out of what is applied. What is left alone
once somebody there changed it (OnSpokeChange) is applied only when the hub changes it, and the memory for that is on
the object itself: a digest of what was last applied. The digest is ours; another agent's differs, and taking over from
one costs one apply.
"""

from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec

from echelon.api import jsonpath
from echelon.api.base import JSONObject
from echelon.api.manifest_config import IgnoreField, ServerSideApplyConfig
from echelon.engine.cel.metering import Budget, Overrun
from echelon.engine.plan import Apply, Write
from echelon.engine.work import jq
from echelon.engine.work.ownership import MADE_FOR
from echelon.engine.work.updating import DesiredObject, owner_writes, with_metadata

DIGEST = "open-cluster-management.io/config-spec-hash"

BUDGET: Final = 60_000  # what finding the fields of one manifest may cost: the agent does nothing else meanwhile
_READING: Final = 10  # for each path, however short

_FieldPath: TypeAlias = tuple[str | int, ...]
_Tree: TypeAlias = dict[str | int, "_Tree | None"]  # the fields to take out; with None, as a whole
_KEPT: Final[_Tree] = {}


class IgnoreFieldError(ValueError):
    """A path in `ignoreFields` that cannot be followed."""


def server_side_apply(
    desired: DesiredObject, config: ServerSideApplyConfig, live: JSONObject | None
) -> tuple[Write, ...]:
    """Return what brings a manifest to the cluster; only its owners if it has not changed on the hub.

    Raises `IgnoreFieldError`.
    """
    body = _without_nulls(with_metadata(desired, {}))
    mark = _mark(desired, live)
    if not config.ignore_fields:
        return (Apply(desired.kind, desired.name, _annotated(body, mark), desired.namespace, config.force),)
    reduced = _reduced(body, config.ignore_fields)
    digest = sha256(msgspec.json.encode(reduced, order="sorted")).hexdigest()[:32]
    stamp = {DIGEST: digest, **mark}
    if live is None:
        return (Apply(desired.kind, desired.name, _annotated(body, stamp), desired.namespace, config.force),)
    annotations = live["metadata"].get("annotations") or {}
    if annotations.get(DIGEST) == digest:
        return owner_writes(desired, live)
    return (Apply(desired.kind, desired.name, _annotated(reduced, stamp), desired.namespace, config.force),)


def _reduced(body: JSONObject, ignored: list[IgnoreField]) -> JSONObject:
    """Return the body without what is left alone on every object that exists."""
    budget = Budget(BUDGET)
    for entry in ignored:
        # Also those that are only compared: a mistake in them must not wait for the day on which they matter.
        paths = [path for path in _paths(body, entry, budget) if entry.condition == "OnSpokePresent"]
        body = _without(body, _tree(paths)) if paths else body
    return body


def _paths(body: JSONObject, entry: IgnoreField, budget: Budget) -> list[_FieldPath]:
    found: list[_FieldPath] = []
    try:
        for path in entry.json_paths:
            budget.spend(_READING + len(path) // 4)
            found += _members(jsonpath.compile(_bare(path)), body, budget)
        for pointer in entry.json_pointers:
            budget.spend(_READING + len(pointer) // 4)
            found += _pointed(pointer, body)
        for expression in entry.jq_path_expressions:
            budget.spend(_READING + len(expression))
            found += jq.paths(jq.parse(expression), body, budget.spend)
    except (jsonpath.JSONPathError, jq.JqError) as error:
        raise IgnoreFieldError(str(error)) from error
    except Overrun:
        raise IgnoreFieldError("finding the fields costs too much") from None
    if any(not path for path in found):
        raise IgnoreFieldError("a path means the whole object")
    return found


def _bare(path: str) -> str:
    """Return a path without the braces in which Kubernetes lets people write it."""
    return path[1:-1] if path.startswith("{") and path.endswith("}") else path


def _members(path: jsonpath.JSONPath, body: JSONObject, budget: Budget) -> list[_FieldPath]:
    """Return the fields that a path means. Items of lists are not among them: upstream cannot take them out either."""
    last = path.steps[-1]
    if not isinstance(last, jsonpath.FieldName):
        return []
    parents: list[tuple[_FieldPath, Any]] = [((), body)]
    for step in path.steps[:-1]:
        budget.spend(1 + len(parents))
        if not isinstance(step, jsonpath.FieldName | jsonpath.Index):
            budget.spend(sum(len(value) for _, value in parents if isinstance(value, dict | list)))
        parents = [after for path, value in parents for after in _down(step, path, value, budget)]
    return [(*path, last.name) for path, value in parents if isinstance(value, dict) and last.name in value]


def _down(step: jsonpath.PathStep, path: _FieldPath, value: Any, budget: Budget) -> list[tuple[_FieldPath, Any]]:
    if isinstance(step, jsonpath.FieldName):
        return [((*path, step.name), value[step.name])] if isinstance(value, dict) and step.name in value else []
    if isinstance(step, jsonpath.Index):
        inside = isinstance(value, list) and -len(value) <= step.position < len(value)
        return [((*path, step.position % len(value)), value[step.position])] if inside else []
    if isinstance(value, list):
        chosen = isinstance(step, jsonpath.Every)
        return [((*path, i), item) for i, item in enumerate(value) if chosen or _passes(step, item, budget)]
    if isinstance(step, jsonpath.Every) and step.values and isinstance(value, dict):
        return [((*path, name), inner) for name, inner in value.items()]
    return []


def _passes(step: jsonpath.PathStep, item: Any, budget: Budget) -> bool:
    return isinstance(step, jsonpath.Filter) and step.passes(item, budget.spend)


def _pointed(pointer: str, body: JSONObject) -> list[_FieldPath]:
    """Return the place that a JSON pointer (RFC 6901) means, if there is one."""
    if not pointer.startswith("/"):
        raise IgnoreFieldError(f'invalid JSON pointer "{pointer}": it begins with /')
    path: list[str | int] = []
    value: Any = body
    for word in pointer[1:].split("/"):
        name = word.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            path.append(name)
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            path.append(int(name))
            value = value[int(name)]
        else:
            return []
    return [tuple(path)]


def _tree(paths: list[_FieldPath]) -> _Tree:
    """Put paths together, so that all of them are taken out in one walk."""
    tree: _Tree = {}
    for path in sorted(set(paths), key=len):
        node: _Tree | None = tree
        for step in path[:-1]:
            node = node.setdefault(step, {}) if node is not None else None
        if node is not None:
            node[path[-1]] = None
    return tree


def _without(value: Any, tree: _Tree) -> Any:
    if isinstance(value, dict):
        return {name: _part(inner, tree, name) for name, inner in value.items() if tree.get(name, _KEPT) is not None}
    if isinstance(value, list):
        kept = [place for place in range(len(value)) if tree.get(place, _KEPT) is not None]
        return [_part(value[place], tree, place) for place in kept]
    return value


def _part(value: Any, tree: _Tree, step: str | int) -> Any:
    below = tree.get(step)
    return _without(value, below) if below else value


def _mark(desired: DesiredObject, live: JSONObject | None) -> dict[str, str]:
    """Return what tells an object that this very request makes from one that was there before.

    Its owner comes with the next request, and whoever dies in between must know it again. What is marked stays so:
    the server takes away what is no longer applied, and that would be a change at each turn.
    """
    if not desired.work_uid:
        return {}
    marked = live is None or (live["metadata"].get("annotations") or {}).get(MADE_FOR) == desired.work_uid
    return {MADE_FOR: desired.work_uid} if marked else {}


def _annotated(body: JSONObject, annotations: dict[str, str]) -> JSONObject:
    metadata = body["metadata"]
    if not annotations:
        return body
    return {**body, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}


def _without_nulls(value: Any) -> Any:
    """Leave out the creation times that serialisers write as null: applied, they would be a wish."""
    if isinstance(value, dict):
        return {
            name: _without_nulls(inner)
            for name, inner in value.items()
            if not (name == "creationTimestamp" and inner is None)
        }
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
