"""The clusters of a rollout as rows, and what of them has changed since a page was last told.

A row has facts and no ages: of ten thousand rows those change that something happened to. What follows from the time
the page tells by itself.
"""

from secrets import token_hex
from typing import Any

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.dashboard.rows import short
from echelon.rollouts.picture import DONE, SKIPPED, WAITING, ClusterLine, GroupLine, Picture

_QUIET = (DONE, WAITING, SKIPPED)  # of the objects of such clusters nobody has to hear unasked
_MOST_OBJECTS = 300
_KEPT = 8  # answers, for as many pages as want the same
_LONGEST = 18  # digits of a version
_Row = list[JSON]


def wave_rows(picture: Picture) -> list[list[_Row]]:
    """Return the clusters of each group; of those that move or fail also their objects, as long as these are few."""
    left = _MOST_OBJECTS
    found: list[list[_Row]] = []
    for group in picture.groups:
        rows: list[_Row] = []
        for line in group.clusters:
            objects: list[JSON] = []
            if left > 0 and line.objects and line.state not in _QUIET:
                objects = object_rows(line)[:left]
                left -= len(objects)
            rows.append([line.name, line.state, line.since, line.until, _said(line, group), objects])
        found.append(rows)
    return found


def object_rows(line: ClusterLine) -> list[JSON]:
    """Return the objects of a cluster."""
    return [[each.title, each.state, short(each.message)] for each in line.objects[:_MOST_OBJECTS]]


def _said(line: ClusterLine, group: GroupLine) -> str:
    """Return what is said of a cluster. What all that wait have in common is said of their group, once."""
    return "" if line.state == WAITING and line.said == group.message else short(line.said)


class Waves:
    """Rows of one rollout, with versions that no other `Waves` has: a page may come from one that has ended."""

    def __init__(self) -> None:
        self._id = token_hex(8)
        self._number = 0
        self._rows: list[list[_Row]] = []
        self._names: list[list[JSON]] = []
        self._changed: dict[tuple[int, int], int] = {}  # by wave and place in it: the version that brought a row
        self._answers: dict[str, bytes] = {}

    @property
    def version(self) -> str:
        """Which rows these are."""
        return f"{self._id}.{self._number}"

    def put(self, picture: Picture) -> None:
        """Take in a picture."""
        rows = wave_rows(picture)
        if rows == self._rows and self._number:
            return
        names = [[row[0] for row in wave] for wave in rows]
        self._number += 1
        self._answers.clear()
        if names == self._names:
            for wave, (now, before) in enumerate(zip(rows, self._rows, strict=True)):
                for place, row in enumerate(now):
                    if row != before[place]:
                        self._changed[wave, place] = self._number
        else:
            self._id, self._changed = token_hex(8), {}  # nobody's rows are in these places
        self._rows, self._names = rows, names

    def told(self, after: str) -> msgspec.Raw:
        """Return what has changed after a version, or everything if that is not known here; as JSON."""
        if after not in self._answers:
            if len(self._answers) >= _KEPT:
                del self._answers[next(iter(self._answers))]
            self._answers[after] = msgspec.json.encode(self._since(after))
        return msgspec.Raw(self._answers[after])

    def _since(self, after: str) -> JSONObject:
        known, _, number = after.partition(".")
        if known != self._id or not number.isdecimal() or len(number) > _LONGEST:
            return {"version": self.version, "rows": self._rows}
        changed: list[Any] = [
            [wave, place, self._rows[wave][place]]
            for (wave, place), version in self._changed.items()
            if version > int(number)
        ]
        return {"version": self.version, "changed": changed}
