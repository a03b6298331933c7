"""How decision groups come to their new indexes, one label at a time, with every cluster in sight.

Some readers count the different indexes, look at none beyond the count, and know one name for each. For them a cluster
is out of sight when the index of its slice is not below the count, or is that of a group of another name, too. Others
go through the groups by index, so no cluster may be shown lower than both where it was and where it will be. And two
groups of one name may not meet, because they would look like one.

Groups that share no index have at least as many indexes as there are groups. So nothing is out of sight as long as no
group that matters has an index beyond the number of groups:

* Before clusters move, slices go up, the highest first. A group that is in their way and will not remain is displaced
  behind all others first; where it is one that goes down later, they wait behind all others themselves.
* After that, the others of which nothing remains are parked behind all others, and slices go down, the lowest first:
  what is below them is in its place by then.
* A new group takes its place at once if it is free. If not, it waits behind all others, and does so before they move:
  being one group more, it makes room for them.

Where groups pass each other and none is new, one of them has to step aside, and would be out of sight there. Then
placeholders, empty groups behind all others, raise the count for that time.

The writes come in batches. Those of a batch may be made in any order: they are slices of one group that go the same
way, new groups in places of their own, or groups that step aside, each to a place of its own.

Nothing here asks how the indexes came to be what they are. It holds from any state in which an update was cut short.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby, islice
from typing import TypeAlias

from echelon.engine.placement.slices import Slice

_Group: TypeAlias = tuple[str, int]
Batch: TypeAlias = tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Relabelling:
    """Slices to be created, or to be given these labels, batch by batch."""

    before: tuple[Batch, ...]  # before clusters move
    parked: Batch  # after that; nothing will remain of these
    after: tuple[Batch, ...]
    placeholders: tuple[str, ...]  # the slices that are created for the time being


def relabel(here: Mapping[str, Slice], there: Mapping[str, Slice], spare: Iterable[str] = ()) -> Relabelling:
    """How the slices that are here get the labels of those that are to be there. `spare` are names for placeholders."""
    final = {one.group: one.group_index for one in there.values()}
    staying = [one for one in here.values() if one.name not in there or there[one.name].group == one.group]
    fresh = [one for name, one in there.items() if name not in here or here[name].group != one.group]
    known = {one.group for one in staying}
    full = {one.group for one in staying if one.clusters}
    rising = {final[one.group] for one in staying if one.group_index < final.get(one.group, 0)}
    displaced = [one.group for one in staying if one.group not in final and one.group_index in rising]
    target = _target_indexes(final, staying, displaced)
    initial = _initial_indexes(staying, target, [one.group for one in fresh if one.group not in known])
    labels = _Labels(here)
    labels.write([one for one in fresh if one.group in initial], initial)
    going_up = [one for one in staying if one.group in displaced or one.group_index < final.get(one.group, 0)]
    labels.write_by_group(sorted(going_up, key=_index, reverse=True), target)
    labels.write(fresh, target)
    # What holds clusters may not go down before those that go elsewhere have left.
    empty = [one for one in staying if one.group in final and not one.clusters]
    free_to_go = [one for one in empty if target[one.group] == final[one.group] or one.group not in full]
    labels.write_by_group(sorted(free_to_go, key=_index), target)
    before = labels.written()
    taken = {
        number
        for one in (*here.values(), *there.values(), *(one for batch in before for one in batch))
        for number in (one.group_index, one.group_serial)
    }
    free = (index for index in count(len(final)) if index not in taken)
    names = islice(spare, _missing(here, there, labels.indexes, len(known) + len(initial)))
    placeholders = tuple(Slice(name, "", index, index) for name, index in zip(names, free, strict=False))
    gone = {one.group for one in staying if one.group not in final and labels.indexes[one.name] < len(final)}
    labels.write([one for one in staying if one.group in gone], dict(zip(sorted(gone), free, strict=False)))
    parked = tuple(one for batch in labels.written() for one in batch)
    remaining = [one for one in (*staying, *fresh) if one.group in final]
    labels.write_by_group(sorted(remaining, key=lambda one: labels.indexes[one.name]), final)
    return Relabelling(
        (placeholders, *before) if placeholders else before,
        parked,
        labels.written(),
        tuple(one.name for one in placeholders),
    )


class _Labels:
    """The labels as they are being written."""

    def __init__(self, here: Mapping[str, Slice]) -> None:
        self.indexes = {one.name: one.group_index for one in here.values()}
        self._groups = {one.name: one.group for one in here.values()}
        self._written: list[Batch] = []

    def write(self, slices: Iterable[Slice], indexes: Mapping[_Group, int]) -> None:
        """Give slices the labels of their groups and these indexes, where they have not got them, in any order."""
        batch: list[Slice] = []
        for one in slices:
            index = indexes[one.group]
            if (self._groups.get(one.name), self.indexes.get(one.name)) != (one.group, index):
                self._groups[one.name], self.indexes[one.name] = one.group, index
                batch.append(replace(one, group_index=index, clusters=()))
        if batch:
            self._written.append(tuple(batch))

    def write_by_group(self, slices: Iterable[Slice], indexes: Mapping[_Group, int]) -> None:
        """The same, one group after the other."""
        for _, of_group in groupby(slices, key=lambda one: one.group):
            self.write(of_group, indexes)

    def written(self) -> tuple[Batch, ...]:
        """What was written since this was last asked."""
        written, self._written = self._written, []
        return tuple(written)


def _target_indexes(
    final: Mapping[_Group, int], staying: Sequence[Slice], displaced: Iterable[_Group]
) -> dict[_Group, int]:
    """The index at which each group receives clusters: the final one, if nobody else still rests there."""
    leaving = {one.group: one.group_index for one in sorted(staying, key=_index) if one.group in displaced}
    full = {one.group for one in staying if one.clusters}
    resting: dict[int, set[_Group]] = {}
    own: dict[_Group, int] = {}
    for one in sorted(staying, key=_index):
        if one.group not in leaving and one.group_index >= final.get(one.group, 0):
            resting.setdefault(one.group_index, set()).add(one.group)
            own.setdefault(one.group, one.group_index)
    target: dict[_Group, int] = {}
    for group, goal in final.items():
        if resting.get(goal, {group}) == {group}:
            target[group] = goal
        elif group in own and group in full:
            target[group] = own[group]
    taken = {*map(_index, staying), *target.values()}
    for group, least in (*final.items(), *leaving.items()):
        if group not in target:
            target[group] = next(index for index in count(least) if index not in taken or index == own.get(group))
            taken.add(target[group])
    return target


def _initial_indexes(
    staying: Sequence[Slice], target: Mapping[_Group, int], coming: Iterable[_Group]
) -> dict[_Group, int]:
    """The index at which each new group begins: its target, or one behind the others while somebody is there."""
    used = {*map(_index, staying)}
    taken = {*used, *target.values()}
    initial: dict[_Group, int] = {}
    for group in dict.fromkeys(coming):
        initial[group] = target[group]
        if initial[group] in used:
            initial[group] = next(index for index in count(target[group]) if index not in taken)
            taken.add(initial[group])
    return initial


def _missing(here: Mapping[str, Slice], there: Mapping[str, Slice], standing: Mapping[str, int], groups: int) -> int:
    """How many groups there are too few for all clusters to be in sight, at the indexes that slices have and get."""
    wanted = {cluster for one in there.values() for cluster in one.clusters}
    holding = [one for one in here.values() if not wanted.isdisjoint(one.clusters)]
    filled = [one for one in there.values() if one.clusters]
    indexes = (*map(_index, holding), *(standing[one.name] for one in (*holding, *filled)))
    missing = max(indexes, default=-1) + 1 - groups
    # More are missing only where somebody else wrote an index, and then these clusters are out of sight already.
    return missing if 0 < missing <= groups else 0


def _index(of: Slice) -> int:
    return of.group_index
