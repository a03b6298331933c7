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

The writes come in batches. A batch begins when all of the one before it have succeeded; within one, writes wait for
nothing of each other and are made in any order, so all of the above holds after any part of a batch. Lists of clusters
are written group by group: a reader must not take an earlier group for empty, and roll out a later one first.

Any such state is one that this function, called again, continues from.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

from echelon.engine.placement.indexes import relabel
from echelon.engine.placement.slices import LIMIT, Slice

UpdateStrategy: TypeAlias = Literal["All", "RollingUpdate"]


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
class WriteEmptyList:
    """Write the clusters of a slice that has none, and no list that says so."""

    name: str


@dataclass(frozen=True, slots=True)
class DeleteSlice:
    """Delete a slice in which nothing is left that is wanted."""

    name: str


@dataclass(frozen=True, slots=True)
class ClaimSlice:
    """Change nothing of a slice but its version: it is as it is known, and older requests to change it fail."""

    name: str


@dataclass(frozen=True, slots=True)
class StampSlice:
    """Let a slice tell by which strategy the groups were cut."""

    name: str


SliceWrite: TypeAlias = CreateSlice | WriteLabels | WriteStatus | WriteEmptyList | DeleteSlice | ClaimSlice | StampSlice


Batch: TypeAlias = tuple[SliceWrite, ...]


@dataclass(frozen=True, slots=True)
class Publication:
    """Writes to be made batch by batch, those of one batch in any order, each on the object as it was written last.

    In a surge `over_limit` slices are larger than slices should be.
    """

    batches: tuple[Batch, ...] = ()
    over_limit: int = 0

    @property
    def writes(self) -> tuple[SliceWrite, ...]:
        """All writes, in one of the orders that are possible."""
        return tuple(write for batch in self.batches for write in batch)

    @property
    def surge(self) -> int | None:
        """The batch with which a surge begins, where one is needed."""
        surging = (any(isinstance(write, WriteStatus) and write.surge for write in batch) for batch in self.batches)
        return next((number for number, surges in enumerate(surging) if surges), None)


def publish(
    existing: Sequence[Slice],
    desired: Sequence[Slice],
    strategy: UpdateStrategy,
    limit: int = LIMIT,
    spare: Iterable[str] = (),
    *,
    prepare: Iterable[Batch] = (),
    conclude: Iterable[Batch] = (),
) -> Publication:
    """The writes that turn the existing slices into the desired ones.

    `spare` are names of slices that do not exist, for those that are needed on the way and deleted at its end. What is
    to be written before anything else, and when all is in its place but nothing deleted, is handed in.
    """
    here = {one.name: one for one in existing}
    there = {one.name: one for one in desired}
    for one in desired:
        if _clusters(here, one.name) and here[one.name].group != one.group:
            raise SliceInUse(one.name)
    wanted = {cluster for one in desired for cluster in one.clusters}
    changed = [one.name for one in desired if one.clusters != _clusters(here, one.name)]
    surged, waves = _order(changed, _dependencies(changed, here, there), surge=strategy == "RollingUpdate")
    unions = {
        name: WriteStatus(
            name, tuple(sorted({*there[name].clusters, *wanted.intersection(here[name].clusters)})), surge=True
        )
        for name in surged
    }
    labels = relabel(here, there, spare)
    # Further up they would count again for the clusters that they have given away.
    emptied = [WriteStatus(one.name, ()) for one in labels.parked if not wanted.isdisjoint(here[one.name].clusters)]
    batches: list[Sequence[SliceWrite]] = [
        *prepare,
        *_labelled(labels.before, here),
        *([unions[name] for name in group] for group in _by_group(sorted(surged, key=changed.index), there)),
        *(
            [WriteStatus(name, there[name].clusters) for name in group]
            for wave in waves
            for group in _by_group(wave, there)
        ),
        emptied,
        *([WriteLabels(one) for one in batch] for batch in (labels.parked, *labels.after)),
        *conclude,
        [DeleteSlice(name) for name in labels.placeholders],
        *([DeleteSlice(one.name) for one in group] for group in _obsolete(here, there)),
    ]
    return Publication(
        batches=tuple(tuple(batch) for batch in batches if batch),
        over_limit=sum(len(write.clusters) > limit for write in unions.values()),
    )


def _labelled(batches: Iterable[Sequence[Slice]], here: Mapping[str, Slice]) -> list[list[SliceWrite]]:
    """The writes that give slices their labels; those that are not there yet are created with the first of them."""
    made = set(here)
    writes: list[list[SliceWrite]] = []
    for batch in batches:
        writes.append([WriteLabels(one) if one.name in made else CreateSlice(one) for one in batch])
        made.update(one.name for one in batch)
    return writes


def _by_group(names: Iterable[str], there: Mapping[str, Slice]) -> list[list[str]]:
    return [list(group) for _, group in groupby(names, key=lambda name: there[name].group_index)]


def _dependencies(changed: Iterable[str], here: Mapping[str, Slice], there: Mapping[str, Slice]) -> dict[str, set[str]]:
    """For each slice that gives clusters away, those that must have received them first."""
    receivers: dict[str, str] = {}
    for name in changed:
        receivers.update(dict.fromkeys(set(there[name].clusters).difference(_clusters(here, name)), name))
    return {name: {receivers[cluster] for cluster in _clusters(here, name) if cluster in receivers} for name in changed}


def _order(changed: list[str], after: Mapping[str, set[str]], *, surge: bool) -> tuple[list[str], list[list[str]]]:
    """Which slices to surge, and the final writes in waves: each waits for the ones before it only."""
    received: set[str] = set()
    surged: list[str] = []
    waves: list[list[str]] = []
    pending = {name: set(after[name]) for name in changed}
    while pending:
        ready = [[name for name, missing in pending.items() if missing <= received]]
        if not ready[0]:
            circles = _circles({name: missing - received for name, missing in pending.items()})
            if surge:
                surged.append(circles[0])
                received.add(circles[0])
                continue
            ready = [[name] for name in sorted(circles, key=changed.index)]
        for wave in ready:
            for name in wave:
                del pending[name]
            received.update(wave)
        waves += ready
    return surged, waves


def _circles(missing: Mapping[str, set[str]]) -> list[str]:
    """Of slices that all wait for others, those without which the waiting would end; the most awaited first."""
    circles = missing
    while True:
        awaited = Counter(name for others in circles.values() for name in others)
        rest = {name: others for name, others in circles.items() if name in awaited}
        if len(rest) == len(circles):
            return sorted(rest, key=lambda name: -awaited[name])
        circles = rest


def _obsolete(here: Mapping[str, Slice], there: Mapping[str, Slice]) -> list[list[Slice]]:
    """The slices to delete, group by group. Whole groups go last and from the end, so that no index is missing.

    Where a cluster is listed more than once, the highest group is the one that it is remembered in. It stays so until
    the last, or a plan after a crash would find the cluster in a group where it never was.
    """
    remaining = {one.group for one in there.values()}
    gone = sorted((one for one in here.values() if one.name not in there), key=_index)
    parts = [one for one in gone if one.group in remaining]
    whole = [one for one in reversed(gone) if one.group not in remaining]
    return [list(group) for slices in (parts, whole) for _, group in groupby(slices, key=_index)]


def _clusters(slices: Mapping[str, Slice], name: str) -> Collection[str]:
    return slices[name].clusters if name in slices else ()


def _index(of: Slice) -> int:
    return of.group_index
