"""How decision groups come to their new indexes, one label at a time, with every cluster in sight.

Some readers count the different indexes, look at none beyond the count, and know one name for each. For them a cluster
is out of sight when the index of its slice is not below the count, or is that of a group of another name, too. Others
go through the groups by index, so no cluster may be shown lower than both where it was and where it will be. And two
groups of one name may not meet, because they would look like one.

Groups that share no index have at least as many indexes as there are groups. So nothing is out of sight as long as no
group that matters has an index beyond the number of groups:

* Before clusters move, slices go up, the highest first. Who is in their way and will not remain steps behind all others
  first; where it is one that goes down later, they wait behind all others themselves.
* After that, the others of which nothing remains step aside, and slices go down, the lowest first: what is below them
  is in its place by then.
* A new group takes its place at once if it is free. If not, it waits behind all others, and does so before they move:
  being one group more, it makes room for them.

Where groups pass each other and none is new, one of them has to step aside, and would be out of sight there. Then
fillers, empty groups behind all others, raise the count for that time.

Nothing here asks how the indexes came to be what they are. It holds from any state in which an update was cut short.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import TypeAlias

from echelon.engine.placement.slices import Slice

_Group: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Relabelling:
    """Slices to be created, or to be given these labels, in this order."""

    before: tuple[Slice, ...]  # before clusters move
    aside: tuple[Slice, ...]  # after that; nothing will remain of these
    after: tuple[Slice, ...]
    fillers: tuple[str, ...]  # the slices that are created for the time being


def relabel(here: Mapping[str, Slice], there: Mapping[str, Slice], spare: Iterable[str] = ()) -> Relabelling:
    """How the slices that are here get the labels of those that are to be there. `spare` are names for fillers."""
    goals = {one.group: one.group_index for one in there.values()}
    staying = [one for one in here.values() if one.name not in there or there[one.name].group == one.group]
    fresh = [one for name, one in there.items() if name not in here or here[name].group != one.group]
    known = {one.group for one in staying}
    full = {one.group for one in staying if one.clusters}
    rising = {goals[one.group] for one in staying if one.group_index < goals.get(one.group, 0)}
    pushed = [one.group for one in staying if one.group not in goals and one.group_index in rising]
    stops = _stops(goals, staying, pushed)
    seats = _seats(staying, stops, [one.group for one in fresh if one.group not in known])
    labels = _Labels(here)
    for one in fresh:
        if one.group in seats:
            labels.write(one, seats[one.group])
    for one in sorted(staying, key=_index, reverse=True):
        if one.group in pushed or one.group_index < goals.get(one.group, 0):
            labels.write(one, stops[one.group])
    for one in fresh:
        labels.write(one, stops[one.group])
    for one in sorted(staying, key=_index):
        # What holds clusters may not go down before those that go elsewhere have left.
        if one.group in goals and not one.clusters and (stops[one.group] == goals[one.group] or one.group not in full):
            labels.write(one, stops[one.group])
    before = labels.written()
    taken = {
        number for one in (*here.values(), *there.values(), *before) for number in (one.group_index, one.group_serial)
    }
    free = (index for index in count(len(goals)) if index not in taken)
    names = islice(spare, _missing(here, there, labels.indexes, len(known) + len(seats)))
    fillers = [Slice(name, "", index, index) for name, index in zip(names, free, strict=False)]
    gone = {one.group for one in staying if one.group not in goals and labels.indexes[one.name] < len(goals)}
    behind = dict(zip(sorted(gone), free, strict=False))
    for one in staying:
        if one.group in gone:
            labels.write(one, behind[one.group])
    aside = labels.written()
    for one in sorted((*staying, *fresh), key=lambda one: labels.indexes[one.name]):
        if one.group in goals:
            labels.write(one, goals[one.group])
    return Relabelling((*fillers, *before), aside, labels.written(), tuple(one.name for one in fillers))


class _Labels:
    """The labels as they are being written."""

    def __init__(self, here: Mapping[str, Slice]) -> None:
        self.indexes = {one.name: one.group_index for one in here.values()}
        self._groups = {one.name: one.group for one in here.values()}
        self._written: list[Slice] = []

    def write(self, one: Slice, index: int) -> None:
        """Give a slice the labels of its group and this index, if it has not got them."""
        if (self._groups.get(one.name), self.indexes.get(one.name)) != (one.group, index):
            self._groups[one.name], self.indexes[one.name] = one.group, index
            self._written.append(replace(one, group_index=index, clusters=()))

    def written(self) -> tuple[Slice, ...]:
        """What was written since this was last asked."""
        written, self._written = self._written, []
        return tuple(written)


def _stops(goals: Mapping[_Group, int], staying: Sequence[Slice], pushed: Iterable[_Group]) -> dict[_Group, int]:
    """The index at which each group receives clusters: where it will be, if nobody else still rests there."""
    leaving = {one.group: one.group_index for one in sorted(staying, key=_index) if one.group in pushed}
    full = {one.group for one in staying if one.clusters}
    resting: dict[int, set[_Group]] = {}
    own: dict[_Group, int] = {}
    for one in sorted(staying, key=_index):
        if one.group not in leaving and one.group_index >= goals.get(one.group, 0):
            resting.setdefault(one.group_index, set()).add(one.group)
            own.setdefault(one.group, one.group_index)
    stops: dict[_Group, int] = {}
    for group, goal in goals.items():
        if resting.get(goal, {group}) == {group}:
            stops[group] = goal
        elif group in own and group in full:
            stops[group] = own[group]
    taken = {*map(_index, staying), *stops.values()}
    for group, least in (*goals.items(), *leaving.items()):
        if group not in stops:
            stops[group] = next(index for index in count(least) if index not in taken or index == own.get(group))
            taken.add(stops[group])
    return stops


def _seats(staying: Sequence[Slice], stops: Mapping[_Group, int], coming: Iterable[_Group]) -> dict[_Group, int]:
    """The index at which each new group begins: where it stops, or behind the others while somebody is there."""
    used = {*map(_index, staying)}
    taken = {*used, *stops.values()}
    seats: dict[_Group, int] = {}
    for group in dict.fromkeys(coming):
        seats[group] = stops[group]
        if seats[group] in used:
            seats[group] = next(index for index in count(stops[group]) if index not in taken)
            taken.add(seats[group])
    return seats


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
