"""How a rollout looks on a terminal of eighty columns.

People look at this while something goes wrong. What is fine is counted, what moves or fails is named, and every line
that waits says for what.
"""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from echelon.cli.terminal import control, echo, joined, plain, style
from echelon.rollouts.picture import (
    COMPLETE,
    DONE,
    FAILED,
    LEFT,
    MOVING,
    NO_CLUSTERS,
    OUTDATED,
    ROLLING_OUT,
    SKIPPED,
    SOAKING,
    TIMED_OUT,
    WAITING,
    ClusterLine,
    GroupLine,
    Line,
    ObjectLine,
    Picture,
)

WIDTH = 80
_BAR = 40
_NAMED = 6  # clusters of a group that are named unless all are asked for

_ORDER = (FAILED, TIMED_OUT, MOVING, SOAKING, WAITING, OUTDATED, DONE, SKIPPED)
_MARKS = {DONE: "✔", SOAKING: "◔", MOVING: "▶", FAILED: "✖", TIMED_OUT: "⏱", WAITING: "·", OUTDATED: "○", SKIPPED: "-"}
_COLOURS = {
    DONE: "green",
    SOAKING: "cyan",
    MOVING: "blue",
    FAILED: "red",
    TIMED_OUT: "red",
    OUTDATED: "yellow",
    SKIPPED: "white",
}
_CELLS = ((DONE, "█"), (SOAKING, "▓"), (MOVING, "▒"), (FAILED, "✖"), (TIMED_OUT, "✖"))


def tree(picture: Picture, *, everything: bool = False, width: int = WIDTH) -> Iterator[str]:
    """Walk the lines that show a rollout, its groups, their clusters, and objects that are not fine."""
    head = f"{picture.namespace}/{picture.name}  {revision_of(picture)}  age {picture.age}"
    yield style(head, bold=True)
    good = picture.state in (COMPLETE, LEFT)
    colour = "green" if good else "blue" if picture.state == ROLLING_OUT else "yellow"
    counted = f": {counts_of(picture.counts, picture.total, picture.noun)}" if picture.state != NO_CLUSTERS else ""
    yield f"{style(picture.state, fg=colour, bold=True)}{counted}"
    if picture.message:
        yield from wrapped(picture.message, width, "  ", "  ")
    if picture.budget:
        yield from wrapped(f"budget: {picture.budget}", width, "", "  ")
    if picture.note:
        yield from wrapped(f"({picture.note})", width, "  ", "  ")
    if picture.total:
        yield _bar(picture.counts, picture.total)
    several = len({group.placement for group in picture.groups}) > 1
    for number, group in enumerate(picture.groups, start=1):
        last = number == len(picture.groups)
        yield from _group(group, last=last, several=several, everything=everything, width=width)
    yield from _lines(picture.parts, "", everything=everything, width=width)


def revision_of(picture: Picture) -> str:
    """Return what people call the revision: what was never accepted has none, and what is new may not be stored yet."""
    if not picture.revision:
        return "no revision yet"
    return f"revision {picture.number or 'not stored yet'} ({picture.revision})"


def headline(picture: Picture) -> str:
    """Return the whole rollout in one line, for logs."""
    where = next((group.title for group in picture.groups if group.active), "")
    at = f", at {where}" if where and picture.state != COMPLETE else ""
    because = f": {picture.message}" if picture.message else ""
    counted = f", {counts_of(picture.counts, picture.total, picture.noun)}" if picture.state != NO_CLUSTERS else ""
    return f"{picture.state}{counted}{at}{because}"


def counts_of(counts: Mapping[str, int], total: int, noun: str = "clusters") -> str:
    """Return how many clusters, or whatever is counted, stand where."""
    if not total:
        return f"no {noun}"
    rest = [f"{counts[state]} {state}" for state in _ORDER if state != DONE and counts.get(state)]
    what = "" if noun == "clusters" else f"{noun} "
    return ", ".join([f"{counts.get(DONE, 0)} of {total} {what}done", *rest])


def _bar(counts: Mapping[str, int], total: int) -> str:
    """Draw how far it is. Nothing that exists is rounded away, and nothing is full before it is done."""
    begun = sum(counts.get(state, 0) for state, _ in _CELLS)
    room, cells, drawn = _BAR - (begun < total), "", 0
    for state, cell in _CELLS:
        wide = min(round(counts.get(state, 0) * _BAR / total), room - drawn)
        wide = max(wide, 1) if counts.get(state) and drawn < room else wide
        cells += style(cell * wide, fg=_COLOURS[state]) if wide else ""
        drawn += wide
    return f"{cells}{'░' * (_BAR - drawn)} {100 * counts.get(DONE, 0) // total} %"


def _group(group: GroupLine, *, last: bool, several: bool, everything: bool, width: int) -> Iterator[str]:
    branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
    mark = _mark_of(group)
    title = f"{group.placement}: {group.title}" if several else group.title
    text = counts_of(group.counts, group.total)
    head = f"{branch}{mark} {style(title, bold=group.active or None)}  {text}"
    yield from with_message(head, group.message if group.counts.get(WAITING) else "", f"{below}  ", width)
    ordered = sorted(group.clusters, key=lambda line: (_ORDER.index(line.state), line.name))
    shown = [line for line in ordered if everything or line.state in (FAILED, TIMED_OUT, MOVING, SOAKING)]
    more = 0 if everything else max(0, len(shown) - _NAMED)
    shown = shown[: len(shown) - more]
    for number, line in enumerate(shown, start=1):
        at_end = number == len(shown) and not more
        yield from _cluster(line, below, last=at_end, everything=everything, width=width)
    if more:
        yield f"{below}└─ {more} more are moving (-o wide names them)"


def _lines(lines: Sequence[Line], indent: str, *, everything: bool, width: int) -> Iterator[str]:
    """Draw parts and their parts; of the smallest, those that are not fine, and of many of these a few."""
    shown = [line for line in lines if everything or not (line.detail and line.state == DONE)]
    named = [line for line in shown if line.detail]
    cut = 0 if everything else max(0, len(named) - _NAMED)
    if cut:
        shown = [line for line in shown if not line.detail] + named[:_NAMED]
    for number, line in enumerate(shown, start=1):
        last = number == len(shown) and not cut
        branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        text = f"  {line.text}" if line.text else ""
        head = f"{indent}{branch}{_mark(line.state)} {line.title}{text}"
        yield from with_message(head, line.message, f"{indent}{below}  ", width)
        yield from _lines(line.parts, f"{indent}{below}", everything=everything, width=width)
    if cut:
        yield f"{indent}└─ {cut} more (-o wide names them)"


def _mark_of(group: GroupLine) -> str:
    for state in (FAILED, TIMED_OUT, MOVING, SOAKING, WAITING):
        if group.counts.get(state):
            return _mark(state)
    return _mark(DONE)


def _mark(state: str) -> str:
    return style(_MARKS[state], fg=_COLOURS.get(state))


def _cluster(line: ClusterLine, indent: str, *, last: bool, everything: bool, width: int) -> Iterator[str]:
    branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
    state = style(line.state, fg=_COLOURS.get(line.state))
    head = f"{indent}{branch}{_mark(line.state)} {line.name}  {state}{f' {line.age}' if line.age else ''}"
    yield from with_message(head, line.message, f"{indent}{below}  ", width)
    known = [one for one in line.objects if one.message and one.message in line.message]  # is told once
    shown = [one for one in line.objects if everything or (one.state != DONE and one not in known)]
    objects = [replace(one, message="") if one in known else one for one in shown]
    yield from _objects(objects, f"{indent}{below}", width)


def _objects(objects: Sequence[ObjectLine], indent: str, width: int) -> Iterator[str]:
    for number, one in enumerate(objects, start=1):
        branch, below = ("└─ ", "   ") if number == len(objects) else ("├─ ", "│  ")
        head = f"{indent}{branch}{_mark(one.state)} {one.title}"
        yield from with_message(head, one.message, f"{indent}{below}  ", width)


def with_message(head: str, message: str, below: str, width: int) -> Iterator[str]:
    """Put a message behind what it is about if it fits there, else below it."""
    if not message or len(plain(head)) + len(message) + 2 <= width:
        yield f"{head}  {message}" if message else head
    else:
        yield head
        yield from wrapped(message, width, below, below)


def wrapped(text: str, width: int, first: str, then: str) -> list[str]:
    """Return a text as lines that fit."""
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False)


def columns() -> int:
    """Return how wide a line may be."""
    return max(60, min(shutil.get_terminal_size((WIDTH, 24)).columns, 120))


class Screen:
    """Shows pictures one after the other: in place on a terminal, as a line whenever something changed elsewhere."""

    def __init__(self, say: Callable[[str], None] = echo) -> None:
        self._say = say
        self._in_place = sys.stdout.isatty()
        self._height = 0
        self._last = ""

    def show(self, picture: Picture) -> None:
        """Show a picture instead of the last one."""
        if not self._in_place:
            line = headline(picture)
            if line != self._last:
                self._say(line)
            self._last = line
            return
        lines = list(tree(picture, width=columns()))
        rows = max(10, shutil.get_terminal_size((80, 24)).lines)
        if len(lines) >= rows:
            lines = [*lines[: rows - 2], f"… {len(lines) - rows + 2} more lines"]
        # Up to where the last picture began, and clear from there to the end of the screen.
        self._say((control(f"\x1b[{self._height}A\x1b[J") if self._height else "") + joined(lines))
        self._height = len(lines)
