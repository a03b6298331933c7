"""Paths in the words of jq, as far as they name fields.

Users write them to say which fields others may have. Of the language, only what names places is understood: `.a.b`,
`.["a"]`, `.[0]`, `.[]`, pipes, and `select(.name == "x")` with `==` or `!=`. Anything else is refused with the
position at which it begins, because a path that is understood half would leave the wrong fields alone.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

MAX_LENGTH = 1024
MAX_DEPTH = 32  # of brackets within brackets

FieldPath: TypeAlias = tuple[str | int, ...]


class JqError(ValueError):
    """A path that is not understood; positions count characters from 0."""

    def __init__(self, path: str, position: int, problem: str) -> None:
        super().__init__(f'invalid jq path "{path}": {problem} at position {position}')


@dataclass(frozen=True)
class Field:
    """`.name`, `."name"` or `["name"]`."""

    name: str


@dataclass(frozen=True)
class Item:
    """`[0]`; negative numbers count from the end."""

    position: int


@dataclass(frozen=True)
class Each:
    """`[]`: all items of a list, or all values of an object."""


@dataclass(frozen=True)
class Select:
    """`select(path == value)`: goes on only where the comparison holds."""

    path: "tuple[PathStep, ...]"
    equal: bool
    value: Any


PathStep: TypeAlias = Field | Item | Each | Select

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_ESCAPED = re.compile(r'"((?:[^"\\]|\\["\\/])*)"')


def parse(text: str) -> tuple[PathStep, ...]:
    """Read a path."""
    if len(text) > MAX_LENGTH:
        raise JqError(text[:32] + "...", MAX_LENGTH, f"longer than {MAX_LENGTH} characters")
    return _Parser(text).whole()


def paths(steps: tuple[PathStep, ...], obj: Any, spend: Callable[[int], None]) -> list[FieldPath]:
    """Return where in an object a path leads; only places that exist.

    `spend` hears how many places were looked at, and ends the search if it raises.
    """
    return [path for path, _ in _follow(steps, obj, spend)]


def _follow(steps: tuple[PathStep, ...], value: Any, spend: Callable[[int], None]) -> list[tuple[FieldPath, Any]]:
    found: list[tuple[FieldPath, Any]] = [((), value)]
    for step in steps:
        spend(1 + len(found))
        if isinstance(step, Select):
            found = [(path, inner) for path, inner in found if _passes(step, inner, spend)]
        else:
            if isinstance(step, Each):
                spend(sum(len(inner) for _, inner in found if isinstance(inner, dict | list)))
            found = [((*path, key), after) for path, inner in found for key, after in _inside(step, inner)]
    return found


def _passes(step: Select, value: Any, spend: Callable[[int], None]) -> bool:
    found = [inner for _, inner in _follow(step.path, value, spend)] or [None]
    return any(_same(inner, step.value) == step.equal for inner in found)


def _inside(step: Field | Item | Each, value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(step, Field):
        if isinstance(value, dict) and step.name in value:
            yield step.name, value[step.name]
    elif isinstance(step, Item):
        if isinstance(value, list) and -len(value) <= step.position < len(value):
            position = step.position % len(value)
            yield position, value[position]
    elif isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _same(one: Any, other: Any) -> bool:
    # In JSON, true is not 1.
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


class _Parser:
    """Reads from left to right; every method leaves `at` behind what it has read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._depth = 0

    def whole(self) -> tuple[PathStep, ...]:
        steps = self._pipe()
        if self.at < len(self.text):
            raise self._error(f'unexpected "{self.text[self.at]}"')
        if not any(not isinstance(step, Select) for step in steps):
            raise self._error("the path names no field")
        return steps

    def _pipe(self) -> tuple[PathStep, ...]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} brackets within brackets")
        steps = self._stage()
        while self._skip("|"):
            steps += self._stage()
        self._depth -= 1
        return steps

    def _stage(self) -> tuple[PathStep, ...]:
        self._spaces()
        if self._skip("select"):
            self._expect("(")
            steps: tuple[PathStep, ...] = (self._select(),)
            self._expect(")")
            return steps + self._path(begun=True)
        if self._skip("("):
            steps = self._pipe()
            self._expect(")")
            return steps + self._path(begun=True)
        return self._path(begun=False)

    def _path(self, *, begun: bool) -> tuple[PathStep, ...]:
        steps: list[PathStep] = []
        if not begun and not self.text.startswith(".", self.at):
            raise self._error("expected . or select(...)")
        while True:
            if self.text.startswith("..", self.at):
                raise self._error("recursive descent is not supported")
            if self._skip("."):
                if not self._named(steps) and not self.text.startswith("[", self.at) and (steps or begun):
                    raise self._error("expected the name of a field")
            elif self._skip("["):
                steps.append(self._bracket())
            elif not self._skip("?"):  # a path that leads nowhere is no error here anyway
                self._spaces()
                return tuple(steps)

    def _named(self, steps: list[PathStep]) -> bool:
        if found := _WORD.match(self.text, self.at):
            self.at = found.end()
            steps.append(Field(found[0]))
            return True
        if self.text.startswith('"', self.at):
            steps.append(Field(self._quoted()))
            return True
        return False

    def _bracket(self) -> PathStep:
        self._spaces()
        step: PathStep
        if self.text.startswith("]", self.at):
            step = Each()
        elif self.text.startswith('"', self.at):
            step = Field(self._quoted())
        elif (found := _NUMBER.match(self.text, self.at)) and not found[1]:
            self.at = found.end()
            step = Item(int(found[0]))
        else:
            raise self._error("expected a number, a name in quotes, or ]")
        self._expect("]")
        return step

    def _select(self) -> Select:
        path = self._pipe()
        self._spaces()
        if self._skip("=="):
            equal = True
        elif self._skip("!="):
            equal = False
        else:
            raise self._error("expected == or !=")
        self._spaces()
        return Select(path, equal, self._literal())

    def _literal(self) -> Any:
        if self.text.startswith('"', self.at):
            return self._quoted()
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self._skip(word):
                return value
        if found := _NUMBER.match(self.text, self.at):
            self.at = found.end()
            return float(found[0]) if found[1] else int(found[0])
        raise self._error("expected a text in quotes, a number, true, false or null")

    def _quoted(self) -> str:
        found = _ESCAPED.match(self.text, self.at)
        if found is None:
            raise self._error("expected a text in double quotes")
        self.at = found.end()
        return re.sub(r"\\(.)", r"\1", found[1])

    def _spaces(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1

    def _skip(self, word: str) -> bool:
        if self.text.startswith(word, self.at):
            self.at += len(word)
            return True
        return False

    def _expect(self, word: str) -> None:
        self._spaces()
        if not self._skip(word):
            raise self._error(f"expected {word}")

    def _error(self, problem: str) -> JqError:
        return JqError(self.text, self.at, problem)
