"""The terms of a label selector, one by one and all together.

Whoever selects may write thousands of terms, and they are held against every object, at every change, for everybody who
watches. Together they are sorted by key once: then an object costs as many looks as it has labels, not as many as there
are terms.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term: a key, an operator as it is written in a selector string, and sorted values."""

    key: str
    operator: str  # in, notin, =, ==, !=, exists, !, gt, lt
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the labels satisfy this term."""
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        actual, bound = int64(value or ""), int64(self.values[0])
        if actual is None or bound is None:
            return False
        return actual > bound if self.operator == "gt" else actual < bound

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case _:
                return f"{self.key}{ {'gt': '>', 'lt': '<'}.get(self.operator, self.operator) }{self.values[0]}"


class Terms:
    """Many requirements, all of which must hold."""

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._needed: dict[str, list[Requirement]] = {}  # the label must be there: the first that fails decides
        self._allowed: dict[str, frozenset[str]] = {}
        self._refused: dict[str, set[str]] = {}
        self._absent: set[str] = set()
        for term in requirements:
            match term.operator:
                case "=" | "==" | "in":
                    values = frozenset(term.values)
                    self._allowed[term.key] = values & self._allowed.get(term.key, values)
                    self._needed.setdefault(term.key, [])
                case "!=" | "notin":
                    self._refused.setdefault(term.key, set()).update(term.values)
                case "!":
                    self._absent.add(term.key)
                case "exists":
                    self._needed.setdefault(term.key, [])
                case _:
                    self._compare(term)

    def _compare(self, term: Requirement) -> None:
        """Of bounds in one direction, the narrowest says all that the others say."""
        kept = self._needed.setdefault(term.key, [])
        for index, other in enumerate(kept):
            if other.operator == term.operator:
                kept[index] = _narrower(other, term)
                return
        kept.append(term)

    def match(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the labels satisfy all."""
        if len(self._needed) > len(labels):
            return False
        for key, comparisons in self._needed.items():
            value = labels.get(key)
            if value is None or (key in self._allowed and value not in self._allowed[key]):
                return False
            if not all(term.matches(labels) for term in comparisons):
                return False
        return not any(key in self._absent or value in self._refused.get(key, ()) for key, value in labels.items())


def _narrower(one: Requirement, other: Requirement) -> Requirement:
    """Return which of two comparisons in one direction lets less pass; nothing passes one with what is no number."""
    left, right = int64(one.values[0]), int64(other.values[0])
    if left is None or right is None:
        return one if left is None else other
    return one if (left >= right) == (one.operator == "gt") else other


def int64(text: str) -> int | None:
    """Read a number of 64 bits; None if it is none."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    # 19 digits are the most that 64 bits hold; the bound also keeps a long number from costing anything.
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > 19:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
