"""Groups that somebody named: a strategy that makes them mandatory, an annotation that gates them.

Who names a group wants something to happen there first, or not yet. A name that is mistyped, or whose group has lost
its clusters, would make that wish a word without effect, and the whole fleet would start at once. So it holds the
rollout up until somebody says what was meant. A group that has had the present revision has served its purpose, and may
go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.allocation import Allocation
from echelon.engine.rollout.control import ALLOW_EMPTY, APPROVAL, APPROVED
from echelon.engine.rollout.model import ClusterDecision, Control, Phase, group_names

UNKNOWN, EMPTY = "UnknownDecisionGroup", "EmptyDecisionGroup"
_DONE = frozenset((Phase.SUCCEEDED, Phase.SKIPPED))


@dataclass(frozen=True, slots=True)
class MissingGroup:
    """A group that was named and is not there, or has nobody in it."""

    reason: str
    message: str
    certain: bool  # or the decisions are just being written


def missing_mandatory(allocation: Allocation, control: Control, passed: frozenset[str]) -> MissingGroup | None:
    """Return the first mandatory group of a reference for which nothing can be done."""
    placement, strategy = allocation.reference.placement, allocation.strategy
    if placement is None or strategy is None or not placement.groups.clusters:
        return None
    for asked in strategy.mandatory:
        called = asked.name or str(asked.index)
        found = placement.groups.only([asked])
        is_filling = not placement.incomplete_groups.isdisjoint(found)
        if any(found.values()) or is_filling or f"{allocation.reference.name}/{called}" in passed:
            continue
        kind = "groupName" if asked.name else "groupIndex"
        named = f"{allocation.reference.name}: mandatoryDecisionGroups has {kind} {called}, and"
        if not found and asked.name not in placement.named - {""}:
            there = _listed(_names(allocation))
            message = f"{named} the placement has no such group; there are {there}: nothing starts"
            return MissingGroup(UNKNOWN, message, allocation.settled)
        if not control.allow_empty:
            message = f"{named} no cluster is in it: nothing starts, unless annotation {ALLOW_EMPTY} is true"
            return MissingGroup(EMPTY, message, allocation.settled)
    return None


def unknown_gate(allocations: Sequence[Allocation], control: Control, passed: frozenset[str]) -> MissingGroup | None:
    """Return the first group that needs an approval and is in no placement."""
    if not any(each.groups.clusters for each in allocations):
        return None
    unknown = _unknown(allocations, control.gated or (), passed)
    if not unknown:
        return None
    there = _listed(name for each in allocations for name in _names(each))
    message = f"annotation {APPROVAL} names group {unknown[0]}, and no placement has it; there are {there}"
    return MissingGroup(UNKNOWN, f"{message}: nothing starts", all(each.settled for each in allocations))


def unknown_approval(allocations: Sequence[Allocation], control: Control, passed: frozenset[str]) -> str:
    """Say which approval is of no group. It starts nothing, but whoever gave it thinks that it does."""
    unknown = _unknown(allocations, control.approved, passed)
    if not unknown or not all(each.settled for each in allocations):
        return ""
    return f"annotation {APPROVED} approves group {unknown[0]}, and no placement has it"


def newly_passed(
    allocation: Allocation, cluster_decisions: Iterable[ClusterDecision], control: Control, passed: frozenset[str]
) -> frozenset[str]:
    """Return the named groups of a reference that have had the revision now, and of which that is not noted yet."""
    found: dict[str, list[GroupKey]] = {}
    gated = allocation.control_of(control).gated or frozenset()
    for asked in allocation.strategy.mandatory if allocation.strategy is not None else ():
        found.setdefault(asked.name or str(asked.index), []).extend(allocation.groups.expand([asked]))
    for key in allocation.groups.groups:
        for name in group_names(key) & gated:
            found.setdefault(name, []).append(key)
    asked_for = {name: keys for name, keys in found.items() if f"{allocation.reference.name}/{name}" not in passed}
    if not asked_for or not allocation.settled:
        return frozenset()
    busy = {one.group for one in cluster_decisions if one.phase not in _DONE or one.in_flight}
    return frozenset(
        f"{allocation.reference.name}/{name}"
        for name, keys in asked_for.items()
        if busy.isdisjoint(keys) and any(allocation.groups.groups[key] for key in keys)
    )


def _unknown(allocations: Sequence[Allocation], asked: Iterable[str], passed: frozenset[str]) -> list[str]:
    known = {(each.reference.name, name) for each in allocations for name in _names(each)}
    known |= {(placement, name) for placement, _, name in (each.partition("/") for each in passed)}
    names = {name for _, name in known} | {f"{placement}/{name}" for placement, name in known}
    return sorted(name for name in asked if name not in names)


def _names(allocation: Allocation) -> list[str]:
    """Return what the groups of a placement can be called."""
    placement = allocation.reference.placement
    if placement is None:
        return []
    keys = sorted(placement.groups.groups)
    names = [name for key in keys for name in sorted(group_names(key), reverse=True)]
    return list(dict.fromkeys([*names, *sorted(placement.named - {""})]))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "none"
