"""Which decision objects a placement has.

The decision objects are the only memory that survives a restart, and anybody in the namespace can edit them. So what
counts as ours is decided by the uid of the owner, never by a label or a name, and names that others took are left to
them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from echelon.api.cluster import GROUP
from echelon.api.placement import PLACEMENT, PlacementDecision
from echelon.engine.placement.slices import (
    Memory,
    Slice,
    read_slice,
    readable_index,
    recall,
    slice_annotations,
    slice_labels,
)

PLACEMENT_LABEL = f"{GROUP}/placement"
# On decisions: by which strategy and request the groups were cut, behind a number. The highest number is true; lower
# ones are of earlier cuts, and not worth a write to remove them.
STAMP_ANNOTATION = "echelon.dev/group-strategy"

_SLOT = re.compile(r"(.+)-decision-([1-9][0-9]{0,8})")


@dataclass(frozen=True)
class CurrentSlices:
    """The decisions of a placement as they are now."""

    decisions: Mapping[str, PlacementDecision]  # ours, by name, without those that are being deleted
    slices: tuple[Slice, ...]  # what they say
    memory: Memory  # what they, and those that are being deleted, say was decided
    taken: frozenset[str]  # names that cannot be used
    stamp: str  # how the groups were cut; empty if nobody knows


def current_slices(ours: Iterable[PlacementDecision], in_slots: Iterable[PlacementDecision]) -> CurrentSlices:
    """Understand the decisions of a placement; `in_slots` are all that have a name which it could give."""
    staying: list[PlacementDecision] = []
    ending: list[PlacementDecision] = []
    for decision in ours:
        (ending if decision.metadata.deletion_timestamp else staying).append(decision)
    staying.sort(key=lambda decision: number_of(decision.metadata.name))
    slices = tuple(map(read_slice, staying))
    decisions = {decision.metadata.name: decision for decision in staying}
    return CurrentSlices(
        decisions=decisions,
        slices=slices,
        memory=recall((*slices, *map(read_slice, ending))),
        taken=frozenset(other.metadata.name for other in in_slots if other.metadata.name not in decisions),
        stamp=max(map(stamp_of, staying), key=cut_number, default=""),
    )


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


def labels_of(placement: str, one: Slice) -> dict[str, str]:
    """Return the labels that the decision of a slice is to have."""
    return {PLACEMENT_LABEL: placement, **slice_labels(one)}


def is_damaged(decision: PlacementDecision, placement: str, one: Slice) -> bool:
    """Whether a decision lacks the labels and annotations that it was understood to have."""
    has = decision.metadata
    return any(has.labels.get(key) != value for key, value in labels_of(placement, one).items()) or any(
        has.annotations.get(key) != value for key, value in slice_annotations(one).items()
    )


def stamp_of(decision: PlacementDecision) -> str:
    """Return the stamp of a decision; empty if it has none."""
    return decision.metadata.annotations.get(STAMP_ANNOTATION, "")


def cut_number(stamp: str) -> int:
    """Return how many times groups had been cut from scratch when something got this stamp."""
    number = stamp.partition(":")[0]
    return int(number) if readable_index(number) else 0
