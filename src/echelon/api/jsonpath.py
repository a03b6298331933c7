"""The part of JSONPath that CRDs use: printer columns, scale paths, selectable fields.

Paths arrive with CRDs that users apply and are evaluated on every `kubectl get`, so a path is compiled once, has a
bounded size, and evaluating it never raises and never costs more than a walk over what it names. What Kubernetes can
do beyond that (recursive descent, slices, unions) is rejected with the position at which it begins.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from echelon.api.base import JSON, JSONObject

MAX_LENGTH = 1024
MAX_FILTER_DEPTH = 4

Spend: TypeAlias = Callable[[int], None] | None

_KEY_ENDS = frozenset(".,[](){}=!<>'\"@$?* \t\r\n")
_SPACE = " \t"


class JSONPathError(ValueError):
    """A path that cannot be used; `position` counts characters from 0."""

    def __init__(self, path: str, position: int, problem: str) -> None:
        self.position = position
        super().__init__(f'invalid path "{path}": {problem} at position {position}')


@dataclass(frozen=True, slots=True)
class FieldName:
    """`.name` or `['name']`: a field of an object."""

    name: str


@dataclass(frozen=True, slots=True)
class Index:
    """`[0]`: an item of a list; negative ones count from the end."""

    position: int


@dataclass(frozen=True, slots=True)
class Every:
    """`[*]`: all items of a list. As `.*` it stands for all values of an object as well."""

    values: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """`[?(@.type=="Ready")]`: the items of a list of which something is true."""

    path: "JSONPath"
    operator: Literal["exists", "==", "!="]
    value: str | int | float | bool | None = None

    def passes(self, item: JSON, spend: "Spend" = None) -> bool:
        """Tell whether an item passes. Items that don't have what is compared never do, not even with `!=`."""
        found = self.path.find(item, spend)
        if self.operator == "exists":
            return bool(found)
        if len(found) != 1:
            return False
        # In JSON, true is not 1.
        equal = isinstance(found[0], bool) == isinstance(self.value, bool) and found[0] == self.value
        return equal == (self.operator == "==")


class WalkTooLong(Exception):
    """More was to be looked at than may be."""


class Walk:
    """How many values may still be looked at, by several paths together."""

    def __init__(self, left: int) -> None:
        self.left = left

    def go(self, steps: int) -> None:
        """Look at some more."""
        self.left -= steps
        if self.left < 0:
            raise WalkTooLong


PathStep: TypeAlias = FieldName | Index | Every | Filter


@dataclass(frozen=True, slots=True)
class JSONPath:
    """A compiled path."""

    text: str
    steps: tuple[PathStep, ...]

    @property
    def simple(self) -> bool:
        """Whether the path only goes from field to field, so that it names exactly one place."""
        return all(isinstance(step, FieldName) for step in self.steps)

    def find(self, obj: JSON, spend: Spend = None) -> list[JSON]:
        """Return all values that the path leads to, in order; none if there is nothing.

        `spend` hears how many values were looked at, and ends the search if it raises.
        """
        found = [obj]
        for step in self.steps:
            if spend is not None:
                spend(1 + len(found))
                if not isinstance(step, FieldName | Index):
                    spend(sum(len(value) for value in found if isinstance(value, dict | list)))
            found = [after for value in found for after in _follow(step, value, spend)]
        return found

    def get(self, obj: JSON) -> JSON:
        """Return the value at a simple path, or None if it is not there."""
        for name in self._names():
            if not isinstance(obj, dict) or name not in obj:
                return None
            obj = obj[name]
        return obj

    def set(self, obj: JSONObject, value: JSON) -> JSONObject:
        """Return the object with another value at a simple path; everything off the path is shared with the old one.

        Objects that are missing on the way are made.
        """
        changed: JSONObject = _replaced(obj, self._names(), value)
        return changed

    def _names(self) -> tuple[str, ...]:
        names = tuple(step.name for step in self.steps if isinstance(step, FieldName))
        if len(names) < len(self.steps):
            raise JSONPathError(self.text, 0, "a path from field to field is needed, no lists")
        return names


def compile(path: str) -> JSONPath:  # noqa: A001 - as in re.compile
    """Compile a path such as `.status.conditions[?(@.type=="Ready")].status`."""
    return _Parser(path).whole()


def _follow(step: PathStep, value: JSON, spend: Spend) -> Iterator[JSON]:
    match step:
        case FieldName(name):
            if isinstance(value, dict) and name in value:
                yield value[name]
        case Index(position):
            if isinstance(value, list) and -len(value) <= position < len(value):
                yield value[position]
        case Every(values):
            if isinstance(value, list):
                yield from value
            elif values and isinstance(value, dict):
                yield from value.values()
        case Filter():
            if isinstance(value, list):
                yield from (item for item in value if step.passes(item, spend))


def _replaced(obj: JSON, names: Sequence[str], value: JSON) -> JSON:
    if not names:
        return value
    fields = obj if isinstance(obj, dict) else {}
    return {**fields, names[0]: _replaced(fields.get(names[0]), names[1:], value)}


class _Parser:
    """Reads a path from left to right; every method leaves `at` behind what it has read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def whole(self) -> JSONPath:
        if len(self.text) > MAX_LENGTH:
            raise JSONPathError(self.text[:32] + "...", MAX_LENGTH, f"longer than {MAX_LENGTH} characters")
        self._skip("$")
        steps = self._steps(0)
        if self.at < len(self.text):
            raise self._error(f"unexpected {self._shown()}")
        if not steps:
            raise self._error("expected . or [")
        return JSONPath(self.text, steps)

    def _steps(self, depth: int) -> tuple[PathStep, ...]:
        steps: list[PathStep] = []
        while True:
            if self._skip(".."):
                self.at -= 2
                raise self._error("recursive descent is not supported")
            if self._skip("."):
                steps.append(self._dotted())
            elif self._skip("["):
                steps.append(self._bracket(depth))
            else:
                return tuple(steps)

    def _dotted(self) -> PathStep:
        if self._skip("*"):
            return Every(values=True)
        name = ""
        while self.at < len(self.text):
            if self._skip("\\"):
                if self.at == len(self.text):
                    raise self._error("nothing after the backslash")
            elif self.text[self.at] in _KEY_ENDS:
                break
            name += self.text[self.at]
            self.at += 1
        if not name:
            raise self._error("expected the name of a field")
        return FieldName(name)

    def _bracket(self, depth: int) -> PathStep:
        step: PathStep
        if self._skip("*"):
            step = Every()
        elif self._skip("?("):
            step = self._filter(depth + 1)
        elif self._peek() in ("'", '"'):
            step = FieldName(self._quoted())
        else:
            step = Index(self._integer())
        self._expect("]")
        return step

    def _filter(self, depth: int) -> Filter:
        if depth > MAX_FILTER_DEPTH:
            raise self._error(f"filters nested deeper than {MAX_FILTER_DEPTH}")
        self._spaces()
        start = self.at
        self._expect("@")
        path = JSONPath(self.text[start:], self._steps(depth))
        self._spaces()
        if self._skip(")"):
            return Filter(path, "exists")
        operator: Literal["==", "!="]
        if self._skip("=="):
            operator = "=="
        elif self._skip("!="):
            operator = "!="
        else:
            raise self._error("expected ==, != or )")
        self._spaces()
        value = self._literal()
        self._spaces()
        self._expect(")")
        return Filter(path, operator, value)

    def _literal(self) -> str | int | float | bool:
        if self._peek() in ("'", '"'):
            return self._quoted()
        if self._skip("true"):
            return True
        if self._skip("false"):
            return False
        whole = self._integer()
        start = self.at
        if not self._skip("."):
            return whole
        self._digits()
        return float(f"{whole}{self.text[start : self.at]}")

    def _quoted(self) -> str:
        opened = self.at
        quote = self.text[self.at]
        self.at += 1
        value = ""
        while self.at < len(self.text):
            if self._skip(quote):
                return value
            self._skip("\\")
            if self.at < len(self.text):
                value += self.text[self.at]
                self.at += 1
        self.at = opened
        raise self._error("this quote is never closed")

    def _integer(self) -> int:
        sign = -1 if self._skip("-") else 1
        return sign * int(self._digits())

    def _digits(self) -> str:
        start = self.at
        # More digits than any list has items: a number cannot be used to burn time.
        while self.at < len(self.text) and self.text[self.at] in "0123456789" and self.at - start < 18:
            self.at += 1
        if self.at == start:
            raise self._error(f"unexpected {self._shown()}")
        return self.text[start : self.at]

    def _spaces(self) -> None:
        while self._peek() and self._peek() in _SPACE:
            self.at += 1

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self, word: str) -> bool:
        if self.text.startswith(word, self.at):
            self.at += len(word)
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._skip(word):
            raise self._error(f"expected {word}, found {self._shown()}")

    def _shown(self) -> str:
        return f'"{self._peek()}"' if self._peek() else "the end"

    def _error(self, problem: str) -> JSONPathError:
        return JSONPathError(self.text, self.at, problem)
