"""Taints and tolerations: which clusters a placement must keep away from, and until when it need not.

Most taints are tolerated for ever or not at all, and then one answer holds for all clusters that have the same taint.
Only a toleration that ends by itself is a matter of each cluster, because each was tainted at another time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from pyroaring import BitMap

from echelon.api.cluster import Taint
from echelon.api.scheduling import Toleration
from echelon.api.times import parse_time
from echelon.engine.placement.fleet import Cluster, FleetIndex

NO_SELECT, IF_NEW, PREFER = "NoSelect", "NoSelectIfNew", "PreferNoSelect"
_OPERATORS = ("", "Equal", "Exists")
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class TolerationError(ValueError):
    """A toleration that means nothing."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Whether a cluster's taints are tolerated, and until when; else which one is not, and until when it was."""

    tolerated: bool
    until: datetime | None = None
    taint: Taint | None = None


_FOREVER = Tolerance(tolerated=True)


def validate(tolerations: Sequence[Toleration]) -> None:
    """Refuse tolerations that contradict themselves."""
    for toleration in tolerations:
        if not toleration.key and toleration.operator != "Exists":
            raise TolerationError("If the key is empty, operator must be Exists.")
        if toleration.operator == "Exists" and toleration.value:
            raise TolerationError("If the operator is Exists, the value should be empty.")
        if toleration.operator not in _OPERATORS:
            raise TolerationError(f'The operator must be Equal or Exists, and not "{toleration.operator}".')


def judge(cluster: Cluster, tolerations: Sequence[Toleration], *, decided: bool, now: datetime) -> Tolerance:
    """Judge one cluster; `decided` if the placement has it already."""
    if not cluster.taints:
        return _FOREVER
    until: datetime | None = None
    for taint in cluster.taints:
        verdict = _judge_taint(taint, tolerations, decided=decided, now=now)
        if not verdict.tolerated:
            return verdict
        if verdict.until is not None:
            until = verdict.until if until is None else min(until, verdict.until)
    return Tolerance(tolerated=True, until=until)


def tolerated(
    fleet: FleetIndex, clusters: BitMap, tolerations: Sequence[Toleration], decided: BitMap, now: datetime
) -> tuple[BitMap, dict[int, datetime]]:
    """Return those of some clusters whose taints are tolerated, and until when, where that ends."""
    out, timed = BitMap(), BitMap()
    for (key, value, effect), tainted in fleet.tainted.items():
        if effect == PREFER:
            continue
        matching = _matching(Taint(key=key, value=value, effect=effect), tolerations)
        concerned = tainted - decided if effect == IF_NEW else tainted
        if not matching:
            out |= concerned
        elif matching[0].toleration_seconds is not None:
            timed |= concerned
    passed = clusters - out
    until: dict[int, datetime] = {}
    for number in passed & timed:
        cluster = fleet.get(number)
        if cluster is None:
            continue
        verdict = judge(cluster, tolerations, decided=number in decided, now=now)
        if not verdict.tolerated:
            passed.discard(number)
        elif verdict.until is not None:
            until[number] = verdict.until
    return passed, until


def disliked(cluster: Cluster, tolerations: Sequence[Toleration]) -> bool:
    """Tell whether a cluster asks, by a taint that is not tolerated, to be a later choice."""
    return any(taint.effect == PREFER and not _matching(taint, tolerations) for taint in cluster.taints)


def _judge_taint(taint: Taint, tolerations: Sequence[Toleration], *, decided: bool, now: datetime) -> Tolerance:
    if taint.effect == PREFER or (taint.effect == IF_NEW and decided):
        return _FOREVER
    ended: datetime | None = None
    for toleration in _matching(taint, tolerations):
        if toleration.toleration_seconds is None:
            return _FOREVER
        until = _deadline(taint, toleration.toleration_seconds)
        if until is None:
            return _FOREVER
        if now < until:
            return Tolerance(tolerated=True, until=until)
        ended = max(ended or LONG_AGO, until)
    return Tolerance(tolerated=False, until=ended, taint=taint)


def _matching(taint: Taint, tolerations: Sequence[Toleration]) -> list[Toleration]:
    return [each for each in tolerations if _matches(each, taint)]


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case _:
            return False


def _deadline(taint: Taint, seconds: int) -> datetime | None:
    """Return when a toleration ends; none if that is beyond all times. A taint without a time is older than any."""
    if taint.time_added is None:
        return LONG_AGO
    added = instant(taint.time_added)
    try:
        return added + timedelta(seconds=seconds)
    except OverflowError:
        return None if seconds > 0 else added


@lru_cache(maxsize=4096)
def instant(text: str) -> datetime:
    """Read a time as the API writes it; what is none was long ago."""
    return parse_time(text) or LONG_AGO
