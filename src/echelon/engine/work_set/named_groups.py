"""Groups that somebody named: a strategy that makes them mandatory, an annotation that gates them.

Who names a group wants something to happen there first, or not yet. A name that is mistyped, or whose group has lost
its clusters, would make that wish a word without effect, and the whole fleet would start at once. So it holds the
rollout up until somebody says what was meant. A group that has had the present revision has served its purpose, and may
go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.control import ALLOW_EMPTY, APPROVAL, APPROVED
from echelon.engine.rollout.model import Control, Phase, Standing
from echelon.engine.work_set.sharing import Share

UNKNOWN, EMPTY = "UnknownDecisionGroup", "EmptyDecisionGroup"
_DONE = frozenset((Phase.SUCCEEDED, Phase.SKIPPED))


@dataclass(frozen=True, slots=True)
class Missing:
    """A group that was named and is not there, or has nobody in it."""

    reason: str
    message: str
    certain: bool  # or the decisions are just being written


def missing_mandatory(share: Share, control: Control, passed: frozenset[str]) -> Missing | None:
    """Return the first mandatory group of a reference for which nothing can be done."""
    placement, strategy = share.ref.placement, share.strategy
    if placement is None or strategy is None or not placement.groups.clusters:
        return None
    for asked in strategy.mandatory:
        called = asked.name or str(asked.index)
        found = placement.groups.only([asked])
        if any(found.values()) or not placement.short.isdisjoint(found) or f"{share.ref.name}/{called}" in passed:
            continue
        kind = "groupName" if asked.name else "groupIndex"
        named = f"{share.ref.name}: mandatoryDecisionGroups has {kind} {called}, and"
        if not found and asked.name not in placement.named - {""}:
            there = _listed(_names(share))
            message = f"{named} the placement has no such group; there are {there}: nothing starts"
            return Missing(UNKNOWN, message, share.settled)
        if not control.allow_empty:
            message = f"{named} no cluster is in it: nothing starts, unless annotation {ALLOW_EMPTY} is true"
            return Missing(EMPTY, message, share.settled)
    return None


def unknown_gate(shares: Sequence[Share], control: Control, passed: frozenset[str]) -> Missing | None:
    """Return the first group that needs an approval and is in no placement."""
    if not any(share.groups.clusters for share in shares):
        return None
    unknown = _unknown(shares, control.gated or (), passed)
    if not unknown:
        return None
    there = _listed(name for share in shares for name in _names(share))
    message = f"annotation {APPROVAL} names group {unknown[0]}, and no placement has it; there are {there}"
    return Missing(UNKNOWN, f"{message}: nothing starts", all(share.settled for share in shares))


def unknown_approval(shares: Sequence[Share], control: Control, passed: frozenset[str]) -> str:
    """Say which approval is of no group. It starts nothing, but whoever gave it thinks that it does."""
    unknown = _unknown(shares, control.approved, passed)
    if not unknown or not all(share.settled for share in shares):
        return ""
    return f"annotation {APPROVED} approves group {unknown[0]}, and no placement has it"


def newly_passed(
    share: Share, standings: Iterable[Standing], control: Control, passed: frozenset[str]
) -> frozenset[str]:
    """Return the named groups of a reference that have had the revision now, and of which that is not noted yet."""
    found: dict[str, list[GroupKey]] = {}
    for asked in share.strategy.mandatory if share.strategy is not None else ():
        found.setdefault(asked.name or str(asked.index), []).extend(share.groups.expand([asked]))
    for key in share.groups.groups:
        for name in {key.name, str(key.index)} & (control.gated or frozenset()):
            found.setdefault(name, []).append(key)
    asked_for = {name: keys for name, keys in found.items() if f"{share.ref.name}/{name}" not in passed}
    if not asked_for or not share.settled:
        return frozenset()
    busy = {one.group for one in standings if one.phase not in _DONE or one.in_flight}
    return frozenset(
        f"{share.ref.name}/{name}"
        for name, keys in asked_for.items()
        if busy.isdisjoint(keys) and any(share.groups.groups[key] for key in keys)
    )


def _unknown(shares: Sequence[Share], asked: Iterable[str], passed: frozenset[str]) -> list[str]:
    known = {name for share in shares for name in _names(share)}
    known |= {each.partition("/")[2] for each in passed}
    return sorted(name for name in asked if name not in known)


def _names(share: Share) -> list[str]:
    """Return what the groups of a placement can be called."""
    placement = share.ref.placement
    if placement is None:
        return []
    keys = sorted(placement.groups.groups)
    names = [name for key in keys for name in (key.name, str(key.index)) if name]
    return list(dict.fromkeys([*names, *sorted(placement.named - {""})]))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "none"
