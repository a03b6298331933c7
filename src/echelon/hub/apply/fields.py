"""Sets of fields, in the form in which `managedFields` writes them down.

A set is a trie. A step is a field (`f:name`), a list item by its keys (`k:{"name":"x"}`), a list item by its value
(`v:"x"`) or by its place (`i:3`). A node is a dict from steps to nodes; it is a member of the set itself if it is
empty or has a `.`. That is FieldsV1, and it is what is worked on: sets are decoded with every write to an object that
has owners, so a second form, however pretty, would cost more than the algebra.

Nodes are shared between sets and never modified once they are part of one.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from echelon.api.base import JSON, JSONObject

Node: TypeAlias = dict[str, Any]  # steps to nodes; mypy has no recursive dicts that can be empty
Path: TypeAlias = tuple[str, ...]

SELF = "."
_KINDS = "fkvi"
_UNSAFE = re.compile("[<>&\u2028\u2029]")
_SHORT = 200  # steps that are worth to be remembered; a client may send longer ones, but not to stay


class FieldSet:
    """A set of fields of an object. The empty path, the object itself, is never a member."""

    __slots__ = ("root",)

    def __init__(self, root: Node | None = None) -> None:
        self.root: Node = root or {}  # the trie itself, to be read

    @classmethod
    def of(cls, *paths: Path) -> "FieldSet":
        """Return the set of these paths: `FieldSet.of(("f:spec", "f:replicas"))`."""
        result = cls()
        for path in paths:
            node: Node = {}
            for step in reversed(path):
                node = {step: node}
            result |= cls(node)
        return result

    @classmethod
    def from_fields_v1(cls, fields: JSONObject) -> "FieldSet":
        """Read a set; steps of an unknown kind are ignored, other mistakes are a ValueError."""
        node = _read(fields)
        return cls({step: child for step, child in node.items() if step != SELF} if node else None)

    def to_fields_v1(self) -> JSONObject:
        """Write the set, steps in the order that Kubernetes has them in."""
        return _ordered(self.root)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in the set."""
        return not self.root

    def __bool__(self) -> bool:
        return bool(self.root)

    def has(self, path: Path) -> bool:
        """Tell whether exactly this path is a member."""
        node: Node | None = self.root
        for step in path:
            node = node.get(step) if node else None
            if node is None:
                return False
        return bool(path) and node is not None and is_member(node)

    def covers(self, other: "FieldSet") -> bool:
        """Tell whether all members of the other set are in this one."""
        return _covers(self.root, other.root)

    def __or__(self, other: "FieldSet") -> "FieldSet":
        return FieldSet(_united(self.root, other.root)) if self.root and other.root else self if self.root else other

    def __and__(self, other: "FieldSet") -> "FieldSet":
        return FieldSet(_children(_shared, self.root, other.root))

    def __sub__(self, other: "FieldSet") -> "FieldSet":
        """Remove members; what is below a removed member stays."""
        return self if self._is_apart(other) else FieldSet(_remaining(self.root, other.root, below=False))

    def without(self, other: "FieldSet") -> "FieldSet":
        """Remove members and everything below them."""
        return self if self._is_apart(other) else FieldSet(_remaining(self.root, other.root, below=True))

    def _is_apart(self, other: "FieldSet") -> bool:
        """Tell whether no member can be in both. The status is written by others than the rest of an object."""
        return self.root.keys().isdisjoint(other.root)

    def paths(self) -> Iterator[Path]:
        """Iterate over the members, those of a level before those below it, each level in order."""
        return _paths((), self.root)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the members as people read them: `.spec.containers[name="x"].image`."""
        return map(readable, self.paths())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and self.root == other.root

    def __hash__(self) -> int:
        return hash(tuple(self.paths()))

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(self)})"


def is_member(node: Node) -> bool:
    """Tell whether a node stands for a member, besides what is below it."""
    return not node or SELF in node


def key_step(keys: JSONObject) -> str:
    """Return the step to the list item that has these keys."""
    return "k:" + _canonical({name: keys[name] for name in sorted(keys)})


def value_step(value: JSON) -> str:
    """Return the step to the list item that is this value."""
    return "v:" + _canonical(value)


def readable(path: Path) -> str:
    """Return a path as it is shown in messages."""
    return "".join(map(_shown, path))


def in_order(steps: Node) -> list[str]:
    """Return the steps of a node in their order: fields, then keys, values and places, each sorted."""
    names = sorted(steps)
    if names and names[-1] >= "g":  # not only fields, whose order is that of their names
        names.sort(key=_rank)
    return names


def _canonical(value: JSON) -> str:
    text = msgspec.json.encode(value).decode()
    # As Go writes JSON: safe inside HTML and JavaScript.
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if _UNSAFE.search(text) else text


def _normal(step: str) -> str | None:
    """Return the step as we would write it, so that equal steps are equal strings; None for an unknown kind."""
    if step[:2] == "f:":
        return step
    return _normal_short(step) if len(step) <= _SHORT else _normalised(step)


def _normalised(step: str) -> str | None:
    kind, colon, text = step[:1], step[1:2], step[2:]
    if colon != ":":
        raise ValueError(f"missing colon: {step}")
    if kind not in _KINDS:
        return None
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"nested too deep: {step[:_SHORT]}") from None
    if kind == "v":
        return value_step(value)
    if kind == "k" and isinstance(value, dict):
        return key_step(value)
    if kind == "i" and type(value) is int:
        return f"i:{value}"
    raise ValueError(f"parsing key as path element: {step}")


_normal_short = lru_cache(maxsize=8192)(_normalised)


def _read(node: JSON) -> Node | None:
    """Return the node in normal form; None for one that had nothing but what we don't know."""
    if not isinstance(node, dict):
        raise ValueError(f"a field set is an object, not {node!r}")
    result: Node = {}
    for step, child in node.items():
        if step == SELF:
            result[SELF] = {}
        elif (known := _normal(step)) is not None:
            below = _read(child)
            if below is not None:
                result[known] = _united(result[known], below) if known in result else below
    if len(result) == 1 and SELF in result:
        return {}
    return result if result or not node else None


def _rank(step: str) -> tuple[Any, ...]:
    return _rank_short(step) if len(step) <= _SHORT else _ranked(step)


def _ranked(step: str) -> tuple[Any, ...]:
    if step == SELF:
        return (-1,)
    kind, text = step[0], step[2:]
    if kind == "f":
        return 0, text
    if kind == "v" and text[0] == '"' and "\\" not in text:
        return _KINDS.index(kind), (1, text[1:-1])  # as it would be decoded
    value = msgspec.json.decode(text)
    if kind == "k":
        return 1, [(name, _value_rank(part)) for name, part in value.items()]
    return _KINDS.index(kind), _value_rank(value)


_rank_short = lru_cache(maxsize=8192)(_ranked)


def _value_rank(value: JSON) -> tuple[int, JSON]:
    """Order values of any type: numbers, strings, booleans, then the rest by its text."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return 3, _canonical(value)


def _shown(step: str) -> str:
    kind, text = step[0], step[2:]
    if kind == "f":
        return f".{text}"
    if kind == "i":
        return f"[{text}]"
    value = msgspec.json.decode(text)
    if kind == "v":
        return f"[={_quoted(value)}]"
    return "[" + ",".join(f"{name}={_quoted(part)}" for name, part in value.items()) + "]"


def _quoted(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def _paths(prefix: Path, node: Node) -> Iterator[Path]:
    steps = [step for step in in_order(node) if step != SELF]
    for step in steps:
        if is_member(node[step]):
            yield (*prefix, step)
    for step in steps:
        yield from _paths((*prefix, step), node[step])


def _ordered(node: Node) -> Node:
    return {step: _ordered(child) if (child := node[step]) else child for step in in_order(node)}


def _with_self(children: Node, *, member: bool) -> Node | None:
    """Return a node of these children; None if it would have nothing to say."""
    if not children:
        return {} if member else None
    return {SELF: {}, **children} if member else children


def _covers(a: Node, b: Node) -> bool:
    """Tell whether what is below `b` is also below `a`."""
    for step, child in b.items():
        if step == SELF:
            continue
        here = a.get(step)
        if here is None or (is_member(child) and not is_member(here)) or not _covers(here, child):
            return False
    return True


def _united(a: Node, b: Node) -> Node:
    """Unite two nodes (or two roots that both have something in them)."""
    if a is b:
        return a
    children = {step: child for step, child in a.items() if step != SELF}
    for step, child in b.items():
        if step != SELF:
            children[step] = _united(children[step], child) if step in children else child
    return _with_self(children, member=is_member(a) or is_member(b)) or {}


def _children(combine: Any, a: Node, b: Node) -> Node:
    pairs = ((step, combine(child, b[step])) for step, child in a.items() if step != SELF and step in b)
    return {step: child for step, child in pairs if child is not None}


def _shared(a: Node, b: Node) -> Node | None:
    return _with_self(_children(_shared, a, b), member=is_member(a) and is_member(b))


def _remaining(a: Node, b: Node, *, below: bool) -> Node:
    """Return the children of `a` that are left when those of `b` are taken away."""
    result: Node = {}
    for step, child in a.items():
        if step == SELF:
            continue
        if (taken := b.get(step)) is None:
            result[step] = child
            continue
        if below and is_member(taken):
            continue
        left = _with_self(_remaining(child, taken, below=below), member=is_member(child) and not is_member(taken))
        if left is not None:
            result[step] = left
    return result
