"""The clusters of a policy in its status: one entry for each that has a replica, as many as a server takes.

The list is also what the hub remembers of each cluster. It is made anew at every look at ten thousand of them, so
nothing is formatted or measured here that is as it was.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from echelon.api.policy import ClusterCompliance, RemainingBinding
from echelon.api.times import format_micro_time, parse_time
from echelon.engine.policy.bindings import remaining_bindings
from echelon.engine.policy.replica import Replica
from echelon.engine.policy.view import PolicyView
from echelon.engine.rollout.model import ClusterDecision, Phase
from echelon.engine.rollout.state import Rollout

MOST_BYTES = 900_000  # of the list; a server takes about 1.5 MiB in all
_TIME_BYTES = 62
# Looking up a member of an enumeration takes ten times as long as looking up a name, and this is done for each cluster.
_SUCCEEDED, _WAITS = Phase.SUCCEEDED, Phase.TO_APPLY.value
_DONE = frozenset((Phase.SUCCEEDED, Phase.SKIPPED))
_OTHER_BYTES = 80  # the names of fields, and what is around them


def clusters_of(
    view: PolicyView, rollout: Rollout, written: Mapping[str, Phase], now: datetime
) -> tuple[list[ClusterCompliance], str]:
    """Return the clusters that have a replica, or get one now, as many as a server takes, and what was left out.

    `written` get content with this plan.
    """
    decided = {each.cluster: each for each in rollout.cluster_decisions}
    remaining = remaining_bindings(view.ways, view.selected)
    there = view.replicas.keys() | written.keys()
    settled = {each.cluster for each in decided.values() if each.phase in _DONE and not each.in_flight} - written.keys()
    found = []
    for cluster in sorted(there - settled if is_crowded(there) else there):
        replica, entry = view.replicas.get(cluster), decided.get(cluster)
        phase = written.get(cluster) or (entry.phase if entry is not None else None)
        found.append(
            ClusterCompliance(
                clustername=cluster,
                clusternamespace=cluster,
                compliant=replica.compliant if replica is not None else "",
                rollout_status=str(phase) if phase is not None else "",
                remaining_bindings=_bindings(remaining[cluster]) if cluster in remaining else [],
            )
        )
    room = room_for(found, settled & there, len(there))
    before = {each.clustername: each for each in view.policy.status.status}
    for number, one in enumerate(room.listed):
        cluster = one.clustername
        if one.rollout_status and cluster not in room.untimed:
            known = before.get(cluster)
            same = known is not None and known.rollout_status == one.rollout_status
            said = known.rollout_last_transition_time if known is not None and same else ""
            since = _since(said, decided.get(cluster), view.replicas.get(cluster), now)
            room.listed[number] = msgspec.structs.replace(one, rollout_last_transition_time=since)
    return room.listed, room.left_out


def _since(said: str, entry: ClusterDecision | None, replica: Replica | None, now: datetime) -> str:
    """Return since when a cluster stands where it does, by our own clock; `said` is what was told of that before."""
    noted = parse_time(said)
    if entry is not None and entry.phase is _SUCCEEDED and entry.since is not None:
        return said if noted == entry.since else format_micro_time(entry.since)
    is_old = noted is None or (replica is not None and replica.written is not None and noted < replica.written)
    return format_micro_time(now) if is_old else said


def _bindings(names: list[str]) -> list[RemainingBinding]:
    return [RemainingBinding(placement_binding=each) for each in names]


@dataclass(frozen=True)
class Room:
    """What a server takes of a list of clusters."""

    listed: list[ClusterCompliance]  # without times
    untimed: Collection[str] = ()  # the clusters that are listed without the time since when they stand there
    left_out: str = ""  # what that is, in words


def is_crowded(names: Collection[str]) -> bool:
    """Whether there is no room for all clusters, whatever is told of them."""
    return 2 * sum(map(len, names)) + _OTHER_BYTES * len(names) > MOST_BYTES


def room_for(clusters: list[ClusterCompliance], settled: set[str], of: int) -> Room:
    """Return as much of a list, which has no times yet, as a server takes with times; `of` as many as there are in all.

    Those that are settled lose their times first, then those that wait for their turn, who are known by what they have;
    then they lose their place. The others are what somebody has to look at, and the hub has to remember.
    """
    size = _size(clusters)
    all_there = len(clusters) == of
    if all_there and size <= MOST_BYTES:
        return Room(clusters)
    size -= _TIME_BYTES * len(settled)
    if all_there and size <= MOST_BYTES:
        return Room(
            clusters, settled, "the list of clusters is long: those that have succeeded are listed without times"
        )
    waiting = {each.clustername for each in clusters if each.rollout_status == _WAITS}
    size -= _TIME_BYTES * len(waiting - settled)
    if all_there and size <= MOST_BYTES:
        why = "the list of clusters is long: those that have succeeded or wait are listed without times"
        return Room(clusters, settled | waiting, why)
    kept = [each for each in clusters if each.clustername not in settled]
    if _size(kept) - _TIME_BYTES * len(waiting) > MOST_BYTES:
        kept = [each for each in kept if each.rollout_status != _WAITS]
        waiting = set()
    while _size(kept) - _TIME_BYTES * len(waiting) > MOST_BYTES:
        kept = kept[: len(kept) * 3 // 4]
    why = f"the list of clusters is too long: {of - len(kept)} of {of} are only counted, in status.rollout"
    return Room(kept, waiting, why)


def _size(entries: Collection[ClusterCompliance]) -> int:
    """Return about how many bytes entries take when they have got their times."""
    stand = [len(each.rollout_status) + _TIME_BYTES for each in entries if each.rollout_status]
    size = sum(stand) + sum([2 * len(each.clustername) + len(each.compliant) for each in entries])
    bindings = (binding for each in entries for binding in each.remaining_bindings)
    return size + _OTHER_BYTES * len(entries) + sum(len(each.placement_binding) + 24 for each in bindings)
