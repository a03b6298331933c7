"""YAML request bodies, read as Kubernetes reads them: a notation for JSON.

YAML can do more than JSON and some of it is dangerous, so values are built from the parser's events instead of by a
YAML library's constructors: no tags that name code, keys are strings, timestamps stay strings. Nesting is counted as it
is entered, and an alias costs as many nodes, and bytes, as it stands for.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from echelon.api.base import JSON, JSONObject
from echelon.hub.schema.structural import copied
from echelon.hub.web.repeated import Repeated

MAX_DEPTH: Final = 100
# How much the aliases of a document may add to it: as much as a body may have. Who reads a value sees no aliases.
MAX_ALIASED_NODES: Final = 100_000
MAX_ALIASED_BYTES: Final = 3 * 1024 * 1024
# Events are slow: a body of nothing but commas would keep the hub busy for seconds.
MAX_NODES: Final = 250_000
# The parser compares each of these with all others.
_MOST_TAG_DIRECTIVES = 100
_TAG_DIRECTIVE = re.compile("(?<![^\r\n\x85\u2028\u2029\ufeff])%TAG")

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset(form for word in ("true", "yes", "on") for form in (word, word.upper(), word.capitalize()))
_FALSE = frozenset(form for word in ("false", "no", "off") for form in (word, word.upper(), word.capitalize()))
_BOOLS = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}
_INTEGER = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_NUMBER = 400


class YamlError(ValueError):
    """The document cannot be read; the text says why, and where."""


@dataclass(frozen=True)
class Document:
    """What a body said, and the paths of keys that were there twice."""

    value: JSON
    duplicates: list[str]


def read(data: bytes) -> Document | None:
    """Read one document; None if there is none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise YamlError("yaml: invalid UTF-8") from None
    if len(_TAG_DIRECTIVE.findall(text)) > _MOST_TAG_DIRECTIVES:
        raise YamlError(f"yaml: document has more than {_MOST_TAG_DIRECTIVES} %TAG directives")
    try:
        reading = _Reading(yaml.parse(text, Loader=_LOADER))
        return reading.document()
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise YamlError(f"yaml: {where}{problem or str(error).partition(chr(10))[0]}") from None


@dataclass(frozen=True)
class _Anchor:
    """A value that has a name, and what it adds to a document wherever it is named."""

    value: JSON
    nodes: int
    size: int
    levels: int


@dataclass
class _Reading:
    """Builds values while it follows the events."""

    events: Iterator[Any]
    anchors: dict[str, _Anchor] = field(default_factory=dict)
    repeated: Repeated = field(default_factory=Repeated)
    nodes: int = 0
    size: int = 0  # bytes of the scalars, those that aliases stand for included
    aliased_nodes: int = 0
    aliased_size: int = 0
    deepest: int = 0

    def document(self) -> Document | None:
        next(self.events)  # the stream starts
        if isinstance(next(self.events), yaml.StreamEndEvent):
            return None
        value = self.value(next(self.events), 1)
        next(self.events)  # the document ends
        if not isinstance(next(self.events), yaml.StreamEndEvent):
            raise YamlError("yaml: expected a single document in the body, but found another document")
        return Document(value, self.repeated.paths)

    def value(self, event: Any, depth: int) -> JSON:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        nodes, size = self.nodes, self.size
        above, self.deepest = self.deepest, depth
        self._enter(event, depth)
        if isinstance(event, yaml.ScalarEvent):
            self.size += len(event.value.encode("utf-8", "surrogatepass"))
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            _only_tag(event, "seq")
            value = self._sequence(depth)
        else:
            _only_tag(event, "map")
            value = self._mapping(depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchor(value, self.nodes - nodes, self.size - size, self.deepest - depth)
        self.deepest = max(above, self.deepest)
        return value

    def _enter(self, event: Any, depth: int, nodes: int = 1) -> None:
        if depth > MAX_DEPTH:
            raise YamlError(f"yaml: line {event.start_mark.line + 1}: exceeded max depth of {MAX_DEPTH}")
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise YamlError(f"yaml: document has more than {MAX_NODES} values")

    def _alias(self, event: Any, depth: int) -> JSON:
        if event.anchor not in self.anchors:
            line = event.start_mark.line + 1
            raise YamlError(
                f"yaml: line {line}: unknown anchor '{event.anchor}' referenced, or one that contains itself"
            )
        anchor = self.anchors[event.anchor]
        self.aliased_nodes += anchor.nodes
        self.aliased_size += anchor.size
        if self.aliased_nodes > MAX_ALIASED_NODES or self.aliased_size > MAX_ALIASED_BYTES:
            raise YamlError("yaml: document contains excessive aliasing")
        self._enter(event, depth + anchor.levels, anchor.nodes)
        self.deepest = max(self.deepest, depth + anchor.levels)
        self.size += anchor.size
        return copied(anchor.value)

    def _sequence(self, depth: int) -> list[JSON]:
        built: list[JSON] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            self.repeated.enter(len(built))
            built.append(self.value(event, depth + 1))
            self.repeated.leave()
        return built

    def _mapping(self, depth: int) -> JSONObject:
        built: JSONObject = {}
        merged: JSONObject = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value == "<<":
                self._merge(merged, depth)
                continue
            name = _key(self.value(event, depth + 1), event)
            if name in built:
                self.repeated.add(name)
            self.repeated.enter(name)
            built[name] = self.value(next(self.events), depth + 1)
            self.repeated.leave()
        return {**merged, **built} if merged else built

    def _merge(self, merged: JSONObject, depth: int) -> None:
        """Add what is merged into an object; of what comes several times, the first counts."""
        source = self.value(next(self.events), depth + 1)
        for part in source if isinstance(source, list) else [source]:
            if not isinstance(part, dict):
                raise YamlError("yaml: map merge requires map or sequence of maps as the value")
            for name, each in part.items():
                merged.setdefault(name, each)


def _only_tag(event: Any, allowed: str) -> None:
    if event.tag not in {None, "!", _TAG + allowed}:
        raise YamlError(f"yaml: line {event.start_mark.line + 1}: unknown tag {event.tag}")


def _key(value: JSON, event: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise YamlError(f"yaml: line {event.start_mark.line + 1}: invalid map key: it must be a string")


def _scalar(event: Any) -> JSON:
    text: str = event.value
    tag = event.tag
    if tag is None or tag == "!":
        if not event.implicit[0]:
            return _checked_text(text)
        return _plain(text)
    make = _EXPLICIT.get(tag.removeprefix(_TAG))
    if make is None:
        raise YamlError(f"yaml: line {event.start_mark.line + 1}: unknown tag {tag}")
    return make(text)


def _checked_text(text: str) -> str:
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise YamlError("yaml: invalid Unicode character")
    return text


def _plain(text: str) -> JSON:
    """Give a scalar without quotes and tag the type that it looks like."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if text[0] in "+-.0123456789":
        if len(text) <= _LONGEST_NUMBER:
            if _INTEGER.fullmatch(text):
                return _integer(text)
            if _FLOAT.fullmatch(text):
                return _finite(float(text.replace("_", "")))
        if _NOT_FINITE.fullmatch(text):
            raise YamlError(f"json: unsupported value: {text}")
    return _checked_text(text)


def _integer(text: str) -> float:
    digits = text.replace("_", "").lower()
    sign = -1 if digits[0] == "-" else 1
    digits = digits.lstrip("+-")
    if digits[:2] in {"0x", "0b", "0o"}:
        return _fitting(sign * int(digits, 0))
    return _fitting(sign * int(digits, 8 if digits[0] == "0" else 10))


def _fitting(value: int) -> float:
    if -(2**63) <= value < 2**63:
        return value
    try:
        return float(value)
    except OverflowError:
        return _finite(math.inf)


def _finite(value: float) -> float:
    if value in {float("inf"), float("-inf")}:
        raise YamlError("json: unsupported value: a number is out of range")
    return value


def _typed(kind: type | tuple[type, ...], name: str) -> Callable[[str], JSON]:
    def make(text: str) -> JSON:
        value = _plain(text)
        if not isinstance(value, kind):
            raise YamlError(f"yaml: cannot decode {text[:64]!r} as a {_TAG}{name}")
        return value

    return make


_EXPLICIT: dict[str, Callable[[str], JSON]] = {
    "str": _checked_text,
    "binary": _checked_text,
    "timestamp": _checked_text,
    "null": lambda _text: None,
    "bool": _typed(bool, "bool"),
    "int": _typed(int, "int"),
    "float": _typed((int, float), "float"),
}
