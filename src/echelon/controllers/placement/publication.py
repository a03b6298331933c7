"""Which decision objects a placement has, and which it is to have.

The decision objects are the only memory that survives a restart, and anybody in the namespace can edit them. So what
counts as ours is decided by the uid of the owner, never by a label or a name, and names that others took are left to
them.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from echelon.api.cluster import GROUP
from echelon.api.placement import PLACEMENT, Placement, PlacementDecision
from echelon.engine.placement.groups import Group, group_size, regroup
from echelon.engine.placement.schedule import Schedule
from echelon.engine.placement.slices import Memory, Slice, read_slice, readable_index, recall, reslice

PLACEMENT_LABEL = f"{GROUP}/placement"
REGROUP_ANNOTATION = "echelon.dev/regroup"  # on a placement: another value asks for groups cut from scratch
# On decisions: by which strategy and request the groups were cut, behind a number. The highest number is true; lower
# ones are of earlier cuts, and not worth a write to remove them.
MARK_ANNOTATION = "echelon.dev/group-strategy"

_SLOT = re.compile(r"(.+)-decision-([1-9][0-9]{0,8})")
# Stands for a decision that is not ours: in a group that no placement can have.
_SOMEBODY = "/"


@dataclass(frozen=True)
class Published:
    """The decisions of a placement as they are now."""

    decisions: Mapping[str, PlacementDecision]  # ours, by name, without those that are being deleted
    slices: tuple[Slice, ...]  # what they say
    memory: Memory  # what they, and those that are being deleted, say was decided
    taken: frozenset[str]  # names that cannot be used
    mark: str  # how the groups were cut; empty if nobody knows


@dataclass(frozen=True)
class Desired:
    """The decisions that a placement is to have, and the mark that says how their groups were cut."""

    slices: tuple[Slice, ...]
    mark: str

    @property
    def bearer(self) -> str:
        """The decision that gets the mark if none has it: the one that is likely to live longest."""
        return min((one.name for one in self.slices), key=number_of)


def slot_of(decision: PlacementDecision) -> Iterator[tuple[str, str]]:
    """Index decisions by the placement that gives such names."""
    if found := _SLOT.fullmatch(decision.metadata.name):
        yield decision.metadata.namespace, found[1]


def number_of(name: str) -> int:
    """Return the number at the end of a decision's name."""
    found = _SLOT.fullmatch(name)
    return int(found[2]) if found else 0


def owners_of(decision: PlacementDecision) -> Iterator[str]:
    """Index decisions by the uids of the placements that own them."""
    return (owner.uid for owner in decision.metadata.owner_references if owner.kind == PLACEMENT.kind)


def clusters_of(decision: PlacementDecision) -> Iterator[str]:
    """Walk the clusters that a decision lists."""
    return (entry.cluster_name for entry in decision.status.decisions) if decision.status else iter(())


def look(ours: Iterable[PlacementDecision], in_slots: Iterable[PlacementDecision]) -> Published:
    """Understand the decisions of a placement; `in_slots` are all that have a name which it could give."""
    staying: list[PlacementDecision] = []
    ending: list[PlacementDecision] = []
    for decision in ours:
        (ending if decision.metadata.deletion_timestamp else staying).append(decision)
    staying.sort(key=lambda decision: number_of(decision.metadata.name))
    slices = tuple(map(read_slice, staying))
    decisions = {decision.metadata.name: decision for decision in staying}
    marks = (decision.metadata.annotations.get(MARK_ANNOTATION, "") for decision in staying)
    return Published(
        decisions=decisions,
        slices=slices,
        memory=recall((*slices, *map(read_slice, ending))),
        taken=frozenset(other.metadata.name for other in in_slots if other.metadata.name not in decisions),
        mark=max(marks, key=_cut_number, default=""),
    )


def desire(placement: Placement, schedule: Schedule, there: Published) -> Desired:
    """Return the decisions that a placement is to have, with as few changes as possible."""
    mark = _mark(placement, there.mark)
    if schedule.recipe is None or schedule.outcome.failed:
        groups = _kept(there)
        mark = there.mark if there.memory.clusters else mark
    else:
        # Decisions without a mark are somebody else's work, which is no reason to cut their groups again.
        same = mark == there.mark or (not there.mark and REGROUP_ANNOTATION not in placement.metadata.annotations)
        members = schedule.groups
        size = group_size(placement.spec.decision_strategy.group_strategy.clusters_per_decision_group, len(members))
        names = [name for name, _ in schedule.recipe.groups]
        groups = regroup(there.memory.groups if same else (), members, names, size)
    others = (Slice(name, _SOMEBODY, 0, 0, (_SOMEBODY,)) for name in there.taken)
    return Desired(reslice(placement.metadata.name, (*there.slices, *others), groups), mark)


def _kept(there: Published) -> tuple[Group, ...]:
    """The groups that were decided last. What an update was in the middle of is brought to its end."""
    members = {cluster: group.name for group in there.memory.groups for cluster in group.clusters}
    by_index = sorted(there.slices, key=lambda one: one.group_index)
    names = dict.fromkeys((*(one.group_name for one in by_index), *sorted(members.values())))
    return regroup(there.memory.groups, members, [name for name in names if name], len(members))


def _mark(placement: Placement, before: str) -> str:
    """Return what tells the strategy, and the last request to cut groups again, from others.

    A request that was withdrawn, because somebody removed the annotation, still counts as fulfilled.
    """
    said = before.partition(":")[2]
    strategy = _digest(msgspec.json.encode(placement.spec.decision_strategy.group_strategy, order="deterministic"))
    asked = placement.metadata.annotations.get(REGROUP_ANNOTATION, "")
    request = _digest(asked.encode()) if asked else said.partition(".")[2]
    cut = f"{strategy}.{request}" if request else strategy
    return before if cut == said else f"{_cut_number(before) + 1}:{cut}"


def _cut_number(mark: str) -> int:
    number = mark.partition(":")[0]
    return int(number) if readable_index(number) else 0


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:12]
