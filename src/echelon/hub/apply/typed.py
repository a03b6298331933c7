"""Whether a configuration fits its schema well enough to be merged.

This is not validation, which comes later and knows much more. It answers for the shape alone: a map where a map
belongs, and list items that can be told apart. The texts are those of Kubernetes.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from echelon.api.base import JSON, JSONObject
from echelon.hub.apply.fields import readable
from echelon.hub.apply.shape import Scalar, Shape, Unit
from echelon.hub.schema import causes
from echelon.kube.errors import MOST_CAUSES, BadRequest

_FIELD, _ITEM, _PLACE = "field", "item", "place"
_Path: TypeAlias = tuple[tuple[str, str], ...]
_GO_TYPES = {bool: "bool", str: "string", dict: "map[string]interface {}", list: "[]interface {}"}


def check(config: JSONObject, shape: Shape, *, api_version: str) -> None:
    """Raise BadRequest if the configuration can't be merged by its schema."""
    found = list(islice(_errors(config, shape, ()), MOST_CAUSES))
    if not found:
        return
    about = config.get("metadata") or {}
    group, _, version = api_version.rpartition("/")
    who = f"{about.get('namespace', '')}/{about.get('name', '')}; {group}/{version}, Kind={config.get('kind', '')}"
    why = found[0] if len(found) == 1 else "\n  ".join(["errors:", *found])
    # Kubernetes answers 500 here. The mistake is the client's, and a client repeats what was a server's.
    raise BadRequest(f"failed to create typed patch object ({who}): {why}")


def _errors(value: JSON, shape: Shape, path: _Path) -> Iterator[str]:
    """Say what is wrong; where, is put into words only then."""
    if value is None:
        return
    if isinstance(value, dict) and shape.map is not Unit.NONE:
        for name, child in value.items():
            if (below := shape.fields.get(name) or shape.rest) is None:
                yield f"{_words((*path, (_FIELD, name)))}: field not declared in schema"
            else:
                yield from _errors(child, below, (*path, (_FIELD, name)))
    elif isinstance(value, list) and shape.list is not Unit.NONE:
        yield from _list_errors(value, shape, path)
    elif isinstance(value, dict | list) or not _fits(value, shape.scalar):
        yield f"{_words(path)}: {_expected(value, shape)}" if path else _expected(value, shape)


def _list_errors(items: list[JSON], shape: Shape, path: _Path) -> Iterator[str]:
    seen = set()
    for index, item in enumerate(items):
        step = (_PLACE, str(index))
        if shape.list is not Unit.WHOLE:
            try:
                key = shape.item_step(item)
            except ValueError as why:
                yield f"{_words(path)}: element {index}: {why}"
                return
            step = (_ITEM, key)
            if key in seen:
                yield f"{_words(path)}: duplicate entries for key {_words((step,))}"
            seen.add(key)
        yield from _errors(item, shape.item, (*path, step))


def _words(path: _Path) -> str:
    return "".join(map(_word, path))


def _word(step: tuple[str, str]) -> str:
    kind, name = step
    if kind == _FIELD:
        return f".{causes.step(name)}"
    return f"[{name}]" if kind == _PLACE else causes.step(readable((name,)))


def _fits(value: JSON, scalar: Scalar) -> bool:
    match scalar:
        case Scalar.ANY:
            return True
        case Scalar.STRING:
            return isinstance(value, str)
        case Scalar.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Scalar.BOOLEAN:
            return isinstance(value, bool)
        case _:
            return False


def _expected(value: JSON, shape: Shape) -> str:
    got = f"got &{{{causes.as_go_prints(value)}}}"
    if shape.map is not Unit.NONE:
        return f"expected map, {got}"
    match shape.scalar:
        case Scalar.NUMBER:
            return f"expected numeric (int or float), got {_GO_TYPES[type(value)]}"
        case Scalar.STRING:
            return f"expected string, got &value.valueUnstructured{{Value:{causes.as_go_prints(value)}}}"
        case Scalar.BOOLEAN:
            return f"expected boolean, {got}"
        case Scalar.ANY:
            return f"expected any scalar, {got}"
        case _:
            return f"expected list, {got}"
