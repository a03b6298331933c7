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
higher index. A slice shows its old index, its new one or a higher one, never a lower one: indexes go up before clusters
move, and go down after that. (Where All has to break a circle, it keeps neither this promise nor the one above.)

*Groups do not blend, and nobody is out of sight.* Some consumers count the indexes, look at no higher one, and know one
name for each. How indexes change under their eyes is the matter of `indexes.py`. The name and serial of a slice change
only while it is empty.

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
from dataclasses import dataclass
from typing import Literal, TypeAlias

from echelon.engine.placement.indexes import relabel
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


def publish(
    existing: Sequence[Slice],
    desired: Sequence[Slice],
    strategy: Strategy,
    limit: int = LIMIT,
    spare: Iterable[str] = (),
) -> Publication:
    """The writes that turn the existing slices into the desired ones.

    `spare` are names of slices that do not exist, for those that are needed on the way and deleted at its end.
    """
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
    labels = relabel(here, there, spare)
    made = set(here)
    before: list[Write] = []
    for one in labels.before:
        before.append(WriteLabels(one) if one.name in made else CreateSlice(one))
        made.add(one.name)
    finals = [WriteStatus(name, there[name].clusters) for name in order]
    # Further up they would count again for the clusters that they have given away.
    emptied = [WriteStatus(one.name, ()) for one in labels.aside if not wanted.isdisjoint(here[one.name].clusters)]
    after: list[Write] = [*emptied, *(WriteLabels(one) for one in (*labels.aside, *labels.after))]
    obsolete = _obsolete(here, there)
    deletes = [DeleteSlice(name) for name in (*labels.fillers, *(one.name for one in obsolete))]
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


def _obsolete(here: Mapping[str, Slice], there: Mapping[str, Slice]) -> list[Slice]:
    """The slices to delete, in order. Whole groups go last and from the end, so that no index is missing.

    Where a cluster is listed more than once, the highest group is the one that it is remembered in. It stays so until
    the last, or a plan after a crash would find the cluster in a group where it never was.
    """
    remaining = {one.group for one in there.values()}
    gone = [one for one in here.values() if one.name not in there]
    parts = [one for one in gone if one.group in remaining]
    whole = [one for one in gone if one.group not in remaining]
    return [
        *sorted(parts, key=lambda one: one.group_index),
        *sorted(whole, key=lambda one: one.group_index, reverse=True),
    ]


def _clusters(slices: Mapping[str, Slice], name: str) -> Collection[str]:
    return slices[name].clusters if name in slices else ()
