"""The order in which decision objects are written, so that no reader is ever misled.

The API server changes one object at a time, readers see every state in between, and the writer may die after any
write. A new object is empty until its status is written, because the server drops the status of a create. What must
hold after every single write, and why it does:

*No cluster vanishes* (RollingUpdate; All, wherever one write a slice can do it). A slice gives a cluster away only
after the slice that receives it was written. Where slices exchange clusters in a circle there is no such order; then
those that break the circles, the most awaited first, are written with both what they have and what they get. That is
the surge, and the only time a slice may be over the limit. A slice that gives nothing away is never surged, its union
is its final content. Deletions come last, when everything in them has been received elsewhere or is no longer selected.

*Nothing is rolled out early.* Rollouts go by index, and a cluster that is listed twice counts in the group with the
higher index. A slice shows its old index or its new one, never a lower one: indexes go up before clusters move, and
go down after that. (Where All has to break a circle, it keeps neither this promise nor the one above.)

*Groups do not blend.* Two groups of the same name under the same index would look like one, so groups that move up do
so from the highest index down, and those that move down from the lowest index up; groups of which nothing will remain
line up behind the others if they are in the way. The name and serial of a slice change only while it is empty.

*Indexes stay dense enough.* Some consumers count the indexes and look at no higher one. A group that is inserted waits,
empty, beyond the last index, until the groups behind it have made room. So at every moment there are at least as many
indexes as the highest one that has clusters requires. (Cutting groups from scratch, or a change that overtakes an
update cut short by a crash, may still move groups of different names through each other; there an index can be missing
or have two names for a moment, which `decisions.py` copes with.)

*The surge is no memory.* No write, the surge included, lists a cluster that the plan deselects. What can be read after
a crash is thus what the plan wants plus, in slices it had not reached, what was never withdrawn; nothing is listed for
the sake of the surge alone, and no mark on the objects is needed to tell. Planning again from there leads to the same
choice: compared with the first plan, the clusters that it chose have gained the advantage of being chosen already, and
the others have gained nothing. A cluster that moves is read once, in the group with the higher index: where it was, or
where it goes; if it goes down, the reason for which it had to leave is still there.

Any prefix of the writes is a state that this function, called again, continues from.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal, TypeAlias

from echelon.engine.placement.slices import LIMIT, Slice

Strategy: TypeAlias = Literal["All", "RollingUpdate"]


class SliceInUse(ValueError):
    """A slice was to serve another group while it still holds clusters of its own."""

    def __init__(self, name: str) -> None:
        super().__init__(f"decision {name} holds clusters of another group")
        self.name = name


@dataclass(frozen=True, slots=True)
class CreateSlice:
    """Create a slice with these labels; it has no clusters yet."""

    slice: Slice


@dataclass(frozen=True, slots=True)
class WriteLabels:
    """Give a slice the labels of this one, and leave its clusters as they are."""

    slice: Slice


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the clusters of a slice; in a surge these are not yet the final ones."""

    name: str
    clusters: tuple[str, ...]
    surge: bool = False


@dataclass(frozen=True, slots=True)
class DeleteSlice:
    """Delete a slice in which nothing is left that is wanted."""

    name: str


Write: TypeAlias = CreateSlice | WriteLabels | WriteStatus | DeleteSlice


@dataclass(frozen=True, slots=True)
class Publication:
    """Writes to be made in order, each on the object that the one before it returned.

    The first `surge_end` of them end with the surge; it is 0 where none is needed. For that time `over_limit` slices
    are larger than slices should be.
    """

    writes: tuple[Write, ...] = ()
    surge_end: int = 0
    over_limit: int = 0


def publish(existing: Sequence[Slice], desired: Sequence[Slice], strategy: Strategy, limit: int = LIMIT) -> Publication:
    """The writes that turn the existing slices into the desired ones."""
    here = {one.name: one for one in existing}
    there = {one.name: one for one in desired}
    for one in desired:
        if _clusters(here, one.name) and here[one.name].group != one.group:
            raise SliceInUse(one.name)
    wanted = {cluster for one in desired for cluster in one.clusters}
    changed = [one.name for one in desired if one.clusters != _clusters(here, one.name)]
    surged, order = _order(changed, _dependencies(changed, here, there), surge=strategy == "RollingUpdate")
    unions = [
        WriteStatus(name, tuple(sorted({*there[name].clusters, *wanted.intersection(here[name].clusters)})), surge=True)
        for name in surged
    ]
    before, after = _label_writes(here, there)
    finals = [WriteStatus(name, there[name].clusters) for name in order]
    obsolete = sorted((one for one in existing if one.name not in there), key=lambda one: -one.group_index)
    deletes = [DeleteSlice(one.name) for one in obsolete]
    return Publication(
        writes=(*before, *unions, *finals, *after, *deletes),
        surge_end=len(before) + len(unions) if unions else 0,
        over_limit=sum(len(write.clusters) > limit for write in unions),
    )


def _dependencies(changed: Iterable[str], here: Mapping[str, Slice], there: Mapping[str, Slice]) -> dict[str, set[str]]:
    """For each slice that gives clusters away, those that must have received them first."""
    receivers: dict[str, str] = {}
    for name in changed:
        receivers.update(dict.fromkeys(set(there[name].clusters).difference(_clusters(here, name)), name))
    return {name: {receivers[cluster] for cluster in _clusters(here, name) if cluster in receivers} for name in changed}


def _order(changed: list[str], after: Mapping[str, set[str]], *, surge: bool) -> tuple[list[str], list[str]]:
    """Which slices to surge, and the order of the final writes."""
    received: set[str] = set()
    surged: list[str] = []
    order: list[str] = []
    pending = {name: set(after[name]) for name in changed}
    while pending:
        ready = [name for name, missing in pending.items() if missing <= received]
        if not ready:
            circles = _circles({name: missing - received for name, missing in pending.items()})
            if surge:
                surged.append(circles[0])
                received.add(circles[0])
                continue
            ready = sorted(circles, key=changed.index)
        for name in ready:
            del pending[name]
        order += ready
        received.update(ready)
    return surged, order


def _circles(missing: Mapping[str, set[str]]) -> list[str]:
    """Of slices that all wait for others, those without which the waiting would end; the most awaited first."""
    circles = missing
    while True:
        awaited = Counter(name for others in circles.values() for name in others)
        rest = {name: others for name, others in circles.items() if name in awaited}
        if len(rest) == len(circles):
            return sorted(rest, key=lambda name: -awaited[name])
        circles = rest


def _label_writes(here: Mapping[str, Slice], there: Mapping[str, Slice]) -> tuple[list[Write], list[Write]]:
    """Creations and label changes, in an order in which no two groups meet: before the contents move, and after."""
    moves = _moves(here, there)
    rising = [one for one in moves if one.group_index > here[one.name].group_index]
    rising.sort(key=lambda one: here[one.name].group_index, reverse=True)
    falling = [one for one in moves if one.group_index < here[one.name].group_index]
    # What holds clusters may not go down before those that go elsewhere have left.
    late = any(here[one.name].clusters for one in falling)
    now = _indexes(here.values())
    fresh = [_blank(one) for name, one in there.items() if name not in here or here[name].group != one.group]
    newcomers = dict.fromkeys(one.group for one in fresh if one.group not in now)
    seats = {one.group: max(one.group_index, now.get(one.group, 0)) for one in fresh}
    if moves:
        seats.update(zip(newcomers, count(_beyond(*here.values(), *there.values(), *moves)), strict=False))
    seated = [replace(one, group_index=seats[one.group]) for one in fresh]
    settling = [*falling, *(one for one in fresh if one.group_index != seats[one.group])]
    settling.sort(key=lambda one: seats[one.group] if one.group in seats else now[one.group])
    before: list[Write] = [
        *(_first_write(one, here) for one in seated if one.group in newcomers),
        *(WriteLabels(one) for one in rising),
        *(_first_write(one, here) for one in seated if one.group not in newcomers),
    ]
    settled: list[Write] = [WriteLabels(one) for one in settling]
    return (before, settled) if late else ([*before, *settled], [])


def _first_write(one: Slice, here: Mapping[str, Slice]) -> Write:
    return WriteLabels(one) if one.name in here else CreateSlice(one)


def _moves(here: Mapping[str, Slice], there: Mapping[str, Slice]) -> list[Slice]:
    """Existing slices that stay with their group and get another index."""
    place = {one.group: one.group_index for one in there.values()}
    end = _beyond(*there.values())
    vanishing = [(index, group) for group, index in _indexes(here.values()).items() if group not in place]
    for index, group in sorted(vanishing):
        # It keeps its clusters until these are elsewhere, and makes way for the groups that will have its index.
        place[group] = max(index, end)
        end = place[group] + 1
    staying = [one for one in here.values() if one.name not in there or there[one.name].group == one.group]
    moved = [replace(_blank(one), group_index=place[one.group]) for one in staying]
    return [one for one in moved if one.group_index != here[one.name].group_index]


def _indexes(slices: Iterable[Slice]) -> dict[tuple[str, int], int]:
    """The index of each group; of one whose slices are on their way up, the one they go to."""
    return {one.group: one.group_index for one in sorted(slices, key=lambda one: one.group_index)}


def _beyond(*slices: Slice) -> int:
    return 1 + max((one.group_index for one in slices), default=-1)


def _blank(of: Slice) -> Slice:
    return replace(of, clusters=())


def _clusters(slices: Mapping[str, Slice], name: str) -> Collection[str]:
    return slices[name].clusters if name in slices else ()
