"""Revisions: which content an object has, had, and could go back to.

A revision is known by a hash of its content. Rollouts, approvals and works of one revision must still belong together
after an upgrade of Echelon, so the hash is of canonical JSON: it does not depend on the order of keys, on how a library
writes numbers, or on anything that we add to our own types.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from echelon.api.short_hash import short_hash

LIMIT = 10

_EXACT = 1 << 53  # up to here, a float that is whole is the same number as an integer


class NoSuchRevision(LookupError):
    """A revision that somebody asked for is not kept."""

    def __init__(self, asked: str, kept: Iterable["Revision"]) -> None:
        there = ", ".join(f"{one.number} ({one.hash})" for one in kept) or "none"
        super().__init__(f"there is no revision {asked}; kept are: {there}")
        self.asked = asked


def canonical(content: Any) -> bytes:
    """JSON with sorted keys and without whitespace, the same for all that an API server holds to be equal."""
    text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def revision_of(content: Any) -> str:
    """The hash of a content: short, fit for names and labels, and stable."""
    return short_hash(canonical(content))


def _plain(value: Any) -> Any:
    """Servers and clients write 1.0 as 1."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value


@dataclass(frozen=True, slots=True)
class Revision:
    """A stored content. The higher number was wanted later; `completed` is when it last reached every cluster."""

    number: int
    hash: str
    completed: datetime | None = None


@dataclass(frozen=True, slots=True)
class History:
    """The revisions that are kept, beside the hash of the content that is wanted now."""

    present: str
    kept: tuple[Revision, ...] = ()

    @property
    def current(self) -> Revision | None:
        """The stored revision of the present content, if it is stored yet."""
        return next((one for one in self.kept if one.hash == self.present), None)

    @property
    def number(self) -> int:
        """The number that the present content has to have: it keeps its own only if no other is higher."""
        others = max((one.number for one in self.kept if one.hash != self.present), default=0)
        current = self.current
        return current.number if current and current.number > others else others + 1

    @property
    def last_completed(self) -> Revision | None:
        """What to go back to: of those that reached every cluster, other than the present one, the last to do so."""
        done = [one for one in self.kept if one.completed and one.hash != self.present]
        return max(done, key=lambda one: (one.completed, one.number), default=None)

    def obsolete(self, limit: int = LIMIT) -> tuple[Revision, ...]:
        """Those to delete, oldest first, so that no more than `limit` are kept.

        The present one and the one to go back to stay, and count.
        """
        needed = {self.present, *([self.last_completed.hash] if self.last_completed else [])}
        spare = sorted((one for one in self.kept if one.hash not in needed), key=lambda one: one.number)
        return tuple(spare[: max(len(self.kept) - limit, 0)])

    def find(self, asked: str = "") -> Revision:
        """The revision with a number or a hash; without either, the last that had reached every cluster."""
        if not asked and self.last_completed is not None:
            return self.last_completed
        for one in self.kept:
            if asked and asked in (one.hash, str(one.number)):
                return one
        raise NoSuchRevision(asked or "that was complete before the present one", self.kept)
