"""Which decision objects a placement is to have, and all writes that lead there, in their order.

What `publish` orders are clusters and labels. Besides, decisions are repaired whose labels somebody damaged, some are
claimed, and one tells by which strategy the groups were cut.

Claims are a precaution. A cluster may be listed twice because an earlier process died in the middle of a move. It is
then taken out of one decision because the other one has it, and what the cache says of the other one may be outdated,
or about to be: a request of the dead process may still be on its way. So a decision that is relied on is claimed first,
by a write that changes nothing but its version. It fails if the cache is wrong, and after it every older request fails.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from echelon.api.placement import Placement
from echelon.engine.placement.current import CurrentSlices, cut_number, is_damaged, number_of, stamp_of
from echelon.engine.placement.groups import Group, group_size, regroup
from echelon.engine.placement.publish import (
    ClaimSlice,
    Publication,
    StampSlice,
    WriteEmptyList,
    WriteLabels,
    publish,
)
from echelon.engine.placement.schedule import Schedule
from echelon.engine.placement.slices import Slice, reslice, spare_names

REGROUP_ANNOTATION = "echelon.dev/regroup"  # on a placement: another value asks for groups cut from scratch

# Stands for a decision that is not ours: in a group that no placement can have.
_SOMEBODY = "/"


@dataclass(frozen=True)
class DesiredSlices:
    """The decisions that a placement is to have, and the stamp that says how their groups were cut."""

    slices: tuple[Slice, ...]
    stamp: str


def desired_slices(placement: Placement, schedule: Schedule, current: CurrentSlices) -> DesiredSlices:
    """Return the decisions that a placement is to have, with as few changes as possible."""
    stamp = strategy_stamp(placement, current.stamp)
    if schedule.compiled is None or schedule.outcome.failed:
        groups = _kept(current)
        stamp = current.stamp if current.memory.clusters else stamp
    else:
        # Decisions without a stamp are somebody else's work, which is no reason to cut their groups again.
        same = stamp == current.stamp or (
            not current.stamp and REGROUP_ANNOTATION not in placement.metadata.annotations
        )
        members = schedule.groups
        size = group_size(placement.spec.decision_strategy.group_strategy.clusters_per_decision_group, len(members))
        names = [name for name, _ in schedule.compiled.groups]
        groups = regroup(current.memory.groups if same else (), members, names, size)
    others = (Slice(name, _SOMEBODY, 0, 0, (_SOMEBODY,)) for name in current.taken)
    return DesiredSlices(reslice(placement.metadata.name, (*current.slices, *others), groups), stamp)


def strategy_stamp(placement: Placement, before: str) -> str:
    """Return what tells the strategy, and the last request to cut groups again, from others.

    A request that was withdrawn, because somebody removed the annotation, still counts as fulfilled.
    """
    said = before.partition(":")[2]
    strategy = _digest(msgspec.json.encode(placement.spec.decision_strategy.group_strategy, order="deterministic"))
    asked = placement.metadata.annotations.get(REGROUP_ANNOTATION, "")
    request = _digest(asked.encode()) if asked else said.partition(".")[2]
    cut = f"{strategy}.{request}" if request else strategy
    return before if cut == said else f"{cut_number(before) + 1}:{cut}"


def publication_of(placement: Placement, current: CurrentSlices, desired: DesiredSlices) -> Publication:
    """Return all writes that lead from the current decisions to the desired ones."""
    name = placement.metadata.name
    rolling = placement.spec.decision_strategy.update_strategy.type == "RollingUpdate"
    damaged = (one for one in current.slices if is_damaged(current.decisions[one.name], name, one))
    taken = {*current.decisions, *current.taken, *(one.name for one in desired.slices)}
    return publish(
        current.slices,
        desired.slices,
        "RollingUpdate" if rolling else "All",
        spare=spare_names(name, taken),
        prepare=(tuple(map(WriteLabels, damaged)), tuple(_claims(current, desired))),
        # By then all groups are as they will be, so the stamp is true; and the bearer of an older one still exists.
        conclude=(tuple(_empty_lists(current, desired)), tuple(_stamps(current, desired))),
    )


def is_stamped_when_created(current: CurrentSlices, desired: DesiredSlices) -> bool:
    """Whether the stamp is true before any cluster has moved."""
    return not current.memory.clusters or desired.stamp == current.stamp


def _kept(current: CurrentSlices) -> tuple[Group, ...]:
    """The groups that were decided last. What an update was in the middle of is brought to its end."""
    members = {cluster: group.name for group in current.memory.groups for cluster in group.clusters}
    by_index = sorted(current.slices, key=lambda one: one.group_index)
    names = dict.fromkeys((*(one.group_name for one in by_index), *sorted(members.values())))
    return regroup(current.memory.groups, members, [name for name in names if name], len(members))


def _claims(current: CurrentSlices, desired: DesiredSlices) -> Iterator[ClaimSlice]:
    """Claim the decisions that keep a cluster which others list, too."""
    counts = Counter(cluster for one in current.slices for cluster in one.clusters)
    twice = {cluster for cluster, count in counts.items() if count > 1}
    if not twice:
        return
    held = {one.name: twice.intersection(one.clusters) for one in current.slices}
    for one in desired.slices:
        if held.get(one.name, set()).intersection(one.clusters):
            yield ClaimSlice(one.name)


def _empty_lists(current: CurrentSlices, desired: DesiredSlices) -> Iterator[WriteEmptyList]:
    """Let decisions without clusters say so: some consumers trip over a missing list."""
    for one in desired.slices:
        existing = current.decisions.get(one.name)
        if not one.clusters and (existing is None or existing.status is None):
            yield WriteEmptyList(one.name)


def _stamps(current: CurrentSlices, desired: DesiredSlices) -> Iterator[StampSlice]:
    """Have at least one decision that stays tell how the groups were cut: the one that is likely to live longest."""
    from_the_start = is_stamped_when_created(current, desired)
    staying = (current.decisions.get(one.name) for one in desired.slices)
    if not any(from_the_start if one is None else stamp_of(one) == desired.stamp for one in staying):
        yield StampSlice(min((one.name for one in desired.slices), key=number_of))


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:12]
