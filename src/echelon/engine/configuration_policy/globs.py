"""Shell-style patterns for names, as Go's `path.Match` reads them: `*`, `?`, `[a-c]`, `[^a-c]`, and a backslash.

The patterns are users', so each is matched in at most its length times the length of the name, whatever it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

_MAGIC = frozenset("*?[\\")
MOST_PATTERNS = 256  # that are no plain names

_Range: TypeAlias = tuple[str, str]


class BadPattern(ValueError):
    """A pattern that Go would not read."""

    def __init__(self, pattern: str) -> None:
        super().__init__(f"syntax error in pattern {pattern!r}")


class TooManyPatterns(ValueError):
    """More patterns than are matched."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} patterns with wildcards; at most {MOST_PATTERNS} are possible")


@dataclass(frozen=True, slots=True)
class _One:
    """One character: any of some ranges, or none of them; no range at all stands for every character."""

    ranges: tuple[_Range, ...] = ()
    negated: bool = False

    def matches(self, char: str) -> bool:
        return not self.ranges or any(low <= char <= high for low, high in self.ranges) != self.negated


_STAR = None
_Token: TypeAlias = _One | None


@dataclass(frozen=True)
class Globs:
    """Patterns, one of which has to match."""

    names: frozenset[str]
    patterns: tuple[tuple[_Token, ...], ...] = field(default=())

    @classmethod
    def of(cls, patterns: Sequence[str]) -> "Globs":
        """Read patterns. Raises `BadPattern` and `TooManyPatterns`."""
        magic = list(dict.fromkeys(each for each in patterns if _MAGIC & set(each)))
        if len(magic) > MOST_PATTERNS:
            raise TooManyPatterns(len(magic))
        return cls(frozenset(patterns), tuple(_read(each) for each in magic))

    def matches(self, name: str) -> bool:
        """Whether one of the patterns is about a name."""
        return name in self.names or any(_matches(pattern, name) for pattern in self.patterns)


def _read(pattern: str) -> tuple[_Token, ...]:
    tokens: list[_Token] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            if not tokens or tokens[-1] is not _STAR:
                tokens.append(_STAR)
            at += 1
        elif char == "?":
            tokens.append(_One())
            at += 1
        elif char == "[":
            one, at = _read_class(pattern, at + 1)
            tokens.append(one)
        else:
            char, at = _read_char(pattern, at)
            tokens.append(_One(((char, char),)))
    return tuple(tokens)


def _read_class(pattern: str, at: int) -> tuple[_One, int]:
    negated = pattern[at : at + 1] == "^"
    at += negated
    ranges: list[_Range] = []
    while not (ranges and pattern[at : at + 1] == "]"):
        if pattern[at : at + 1] in ("-", "]"):
            raise BadPattern(pattern)
        low, at = _read_char(pattern, at)
        high = low
        if pattern[at : at + 1] == "-":
            if pattern[at + 1 : at + 2] in ("-", "]"):
                raise BadPattern(pattern)
            high, at = _read_char(pattern, at + 1)
        ranges.append((low, high))
    return _One(tuple(ranges), negated), at + 1


def _read_char(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at : at + 1] == "\\":
        at += 1
    if at >= len(pattern):
        raise BadPattern(pattern)
    return pattern[at], at + 1


def _matches(tokens: Sequence[_Token], name: str) -> bool:
    """Match from left to right. After a star, only the last star ever has to take in more."""
    at, token, star, marked = 0, 0, -1, 0
    while at < len(name):
        current = tokens[token] if token < len(tokens) else _STAR
        if token < len(tokens) and current is _STAR:
            star, marked = token, at
            token += 1
        elif current is not None and current.matches(name[at]):
            token += 1
            at += 1
        elif star >= 0:
            marked += 1
            token, at = star + 1, marked
        else:
            return False
    return all(each is _STAR for each in tokens[token:])
