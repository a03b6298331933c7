"""Decision objects: a decision group in slices of at most a hundred clusters.

Every consumer re-reads a slice that was written, so a cluster that comes or goes should cost one slice, wherever its
name falls in the order of names. Slices are therefore repaired like groups are: clusters stay in their slice, new ones
fill up what is there.

The slices are also all that is remembered from one plan to the next, across restarts and crashes between two writes.
The group's index label cannot say which group a slice belongs to: it moves when a group is inserted further up, one
slice after the other, and a crash in between would leave a group torn in two. So a group is known by its name and a
*serial*, which never changes while the slice holds clusters, rises with the age of the groups of a name, and needs no
room on the wire as long as it equals the index: that is how the slices of other versions are understood too.
"""

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from echelon.api.cluster import GROUP
from echelon.api.placement import PlacementDecision
from echelon.engine.placement.groups import Group

LIMIT = 100
INDEX_LABEL = f"{GROUP}/decision-group-index"
NAME_LABEL = f"{GROUP}/decision-group-name"
SERIAL_ANNOTATION = "echelon.dev/decision-group-serial"

_DIGITS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Slice:
    """A decision object. Slices with the same `group` belong together, whatever their index says at the moment."""

    name: str
    group_name: str
    group_index: int
    group_serial: int
    clusters: tuple[str, ...] = ()

    @property
    def group(self) -> tuple[str, int]:
        """What identifies the group for as long as it exists."""
        return self.group_name, self.group_serial


@dataclass(frozen=True, slots=True)
class Memory:
    """What the decisions say was decided: the groups, oldest first within a name, and all their clusters."""

    groups: tuple[Group, ...]
    clusters: frozenset[str]


def read_slice(decision: PlacementDecision) -> Slice:
    """A decision object as the engine sees it. Labels that make no sense read as missing, and so are repaired."""
    meta = decision.metadata
    index = _number(meta.labels.get(INDEX_LABEL, ""), 0)
    return Slice(
        name=meta.name,
        group_name=meta.labels.get(NAME_LABEL, ""),
        group_index=index,
        group_serial=_number(meta.annotations.get(SERIAL_ANNOTATION, ""), index),
        clusters=tuple(entry.cluster_name for entry in decision.status.decisions) if decision.status else (),
    )


def readable_index(text: str) -> bool:
    """Whether the text of an index label is a number that an index can be."""
    return _DIGITS.fullmatch(text) is not None


def slice_labels(of: Slice) -> dict[str, str]:
    """The labels that tell consumers the group."""
    return {INDEX_LABEL: str(of.group_index), NAME_LABEL: of.group_name}


def slice_annotations(of: Slice) -> dict[str, str | None]:
    """The annotation that tells a later plan the group; None where there is to be none."""
    return {SERIAL_ANNOTATION: str(of.group_serial) if of.group_serial != of.group_index else None}


def recall(existing: Iterable[Slice]) -> Memory:
    """What was decided, read from the decisions as they are, even in the middle of an update.

    A cluster that moves is listed twice for a moment. It counts once, in the group with the higher index, as consumers
    count it.
    """
    existing = tuple(existing)
    home: dict[str, Slice] = {}
    for one in sorted(existing, key=_rank):
        home.update(dict.fromkeys(one.clusters, one))
    members: dict[tuple[str, int], list[str]] = {group: [] for group in _established(existing)}
    for cluster, one in home.items():
        members[one.group].append(cluster)
    groups = tuple(Group(name, tuple(sorted(clusters))) for (name, _), clusters in sorted(members.items()))
    return Memory(groups, frozenset(home))


def reslice(
    placement: str, existing: Sequence[Slice], groups: Sequence[Group], limit: int = LIMIT
) -> tuple[Slice, ...]:
    """The slices of `groups`, by group and number, with as few changes to `existing` as possible.

    `groups` are those that `recall` found, or others cut from scratch: the first of a name is always the successor of
    the oldest of that name. A slice stays with its group; only where all are empty may one serve another.
    """
    owned = _owned(placement, existing)
    held: dict[tuple[str, int], dict[int, tuple[str, ...]]] = {}
    for number, one in owned.items():
        held.setdefault(one.group, {})[number] = one.clusters
    filled = []
    for index, (group, serial) in enumerate(zip(groups, _serials(existing, groups), strict=True)):
        filled.append((group.name, index, serial, *_fill(held.get((group.name, serial), {}), group.clusters, limit)))
    taken = {number for *_, kept, _ in filled for number in kept}
    if any(one.clusters for one in existing):
        taken.update(owned)
    free = (number for number in range(1, len(taken) + sum(len(new) for *_, new in filled) + 1) if number not in taken)
    slices = []
    for name, index, serial, kept, new in filled:
        numbered = {**kept, **dict(zip([next(free) for _ in new], new, strict=True))}
        slices += [
            Slice(f"{placement}-decision-{number}", name, index, serial, clusters)
            for number, clusters in sorted(numbered.items())
        ]
    return tuple(slices)


def spare_names(placement: str, taken: Container[str]) -> Iterator[str]:
    """Names that a placement could give and that are not taken."""
    return (name for number in count(1) if (name := f"{placement}-decision-{number}") not in taken)


def _fill(
    held: dict[int, tuple[str, ...]], clusters: tuple[str, ...], limit: int
) -> tuple[dict[int, tuple[str, ...]], list[tuple[str, ...]]]:
    """The slices of one group that stay, by number, and the contents of those to be added."""
    homeless = set(clusters)
    kept: dict[int, list[str]] = {}
    overflow: list[str] = []
    for number, listed in sorted(held.items()):
        staying = sorted(homeless.intersection(listed))
        homeless.difference_update(staying)
        overflow += staying[limit:]
        kept[number] = staying[:limit]
    movers = _top_up(kept, sorted([*homeless, *overflow]), limit)
    used = [number for number in kept if kept[number]]
    enough = max(1, -(-len(clusters) // limit))
    if 2 * enough < len(used):
        movers = sorted(cluster for number in used[enough:] for cluster in kept[number])
        kept = {number: kept[number] for number in used[:enough]}
        movers = _top_up(kept, movers, limit)
        used = list(kept)
    new = [tuple(movers[start : start + limit]) for start in range(0, len(movers), limit)]
    # An empty group is shown by one empty slice: without any, consumers would find a gap in the indexes.
    stay = used or ([] if new else list(kept)[:1])
    return {number: tuple(kept[number]) for number in stay}, new if new or stay else [()]


def _top_up(kept: dict[int, list[str]], movers: list[str], limit: int) -> list[str]:
    """Add clusters where there is room, last slice first; return those for whom there was none."""
    for number in sorted(kept, reverse=True):
        room = limit - len(kept[number])
        kept[number] = sorted([*kept[number], *movers[:room]])
        movers = movers[room:]
    return movers


def _owned(placement: str, existing: Iterable[Slice]) -> dict[int, Slice]:
    """The slices that bear a name which this placement gives, by number."""
    prefix = f"{placement}-decision-"
    numbers = ((one.name.removeprefix(prefix), one) for one in existing if one.name.startswith(prefix))
    return {int(number): one for number, one in numbers if _DIGITS.fullmatch(number) and number[0] != "0"}


def _serials(existing: Sequence[Slice], groups: Sequence[Group]) -> list[int]:
    """The serial of each group: that of its predecessor in age, or a new one."""
    known: dict[str, list[int]] = {}
    # Where nothing was decided there is nothing to remember, and the first decision looks as if there had been none.
    if any(one.clusters for one in existing) or not any(group.clusters for group in groups):
        established = _established(existing)
        for name, serial in sorted(established):
            known.setdefault(name, []).append(serial)
        for name, serial in sorted({one.group for one in existing} - established):
            # A younger group must have the higher serial, or the next plan would take it for an older one.
            if serial > max(known.setdefault(name, []), default=-1):
                known[name].append(serial)
    serials = []
    ranks: dict[str, int] = {}
    for index, group in enumerate(groups):
        of_name = known.setdefault(group.name, [])
        rank = ranks[group.name] = ranks.get(group.name, -1) + 1
        if rank == len(of_name):
            of_name.append(max([index, *(serial + 1 for serial in of_name)]))
        serials.append(of_name[rank])
    return serials


def _established(existing: Iterable[Slice]) -> set[tuple[str, int]]:
    """The groups that have their place.

    Empty ones behind all clusters are still coming, or on their way out; unless a younger one of the name has clusters,
    and they only stepped aside.
    """
    existing = tuple(existing)
    filled = sorted((one for one in existing if one.clusters), key=lambda one: one.group_serial)
    last = max((one.group_index for one in filled), default=-1)
    youngest = {one.group_name: one.group_serial for one in filled}
    return {
        one.group
        for one in existing
        if one.clusters or one.group_index < last or one.group_serial < youngest.get(one.group_name, 0)
    }


def _rank(of: Slice) -> tuple[int, str, int]:
    return of.group_index, of.group_name, of.group_serial


def _number(text: str, otherwise: int) -> int:
    return int(text) if readable_index(text) else otherwise
