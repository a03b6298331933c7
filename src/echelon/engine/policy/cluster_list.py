"""The clusters of a policy in its status: one entry for each that has a replica, as many as a server takes.

The list is also what the hub remembers of each cluster. It is made anew at every look at ten thousand of them, so
nothing is formatted or measured here that is as it was.
"""

from collections.abc import Collection, Iterable, Mapping
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
_OTHER_BYTES = 80  # the names of fields, and what is around them


def clusters_of(
    view: PolicyView, rollout: Rollout, written: Mapping[str, Phase], now: datetime
) -> list[ClusterCompliance]:
    """Return every cluster that has a replica, or gets one now. `written` get content with this plan."""
    decided = {each.cluster: each for each in rollout.cluster_decisions}
    before = {each.clustername: each for each in view.policy.status.status}
    remaining = remaining_bindings(view.ways, view.selected)
    found = []
    for cluster in sorted(view.replicas.keys() | written.keys()):
        replica, entry = view.replicas.get(cluster), decided.get(cluster)
        phase = written.get(cluster) or (entry.phase if entry is not None else None)
        status = str(phase) if phase is not None else ""
        known = before.get(cluster)
        said = known.rollout_last_transition_time if known is not None and known.rollout_status == status else ""
        found.append(
            ClusterCompliance(
                clustername=cluster,
                clusternamespace=cluster,
                compliant=replica.compliant if replica is not None else "",
                rollout_status=status,
                rollout_last_transition_time=_since(said, entry, replica, now) if status else "",
                remaining_bindings=_bindings(remaining[cluster]) if cluster in remaining else [],
            )
        )
    return found


def _since(said: str, entry: ClusterDecision | None, replica: Replica | None, now: datetime) -> str:
    """Return since when a cluster stands where it does, by our own clock; `said` is what was told of that before."""
    noted = parse_time(said)
    if entry is not None and entry.phase is _SUCCEEDED and entry.since is not None:
        return said if noted == entry.since else format_micro_time(entry.since)
    is_old = noted is None or (replica is not None and replica.written is not None and noted < replica.written)
    return format_micro_time(now) if is_old else said


def _bindings(names: list[str]) -> list[RemainingBinding]:
    return [RemainingBinding(placement_binding=each) for each in names]


def fitting(clusters: list[ClusterCompliance], settled: Collection[str]) -> tuple[list[ClusterCompliance], str]:
    """Return as much of a list as a server takes, and what was left out of it.

    Those that are settled lose their times first, then those that wait for their turn, who are known by what they have;
    then they lose their place. The others are what somebody has to look at, and the hub has to remember.
    """
    size = sum(map(_size, clusters))
    if size <= MOST_BYTES:
        return clusters, ""
    shorter = [_untimed(each) if each.clustername in settled else each for each in clusters]
    size -= _TIME_BYTES * (_times(clusters) - _times(shorter))
    if size <= MOST_BYTES:
        return shorter, "the list of clusters is long: those that have succeeded are listed without times"
    with_times = _times(shorter)
    shorter = [_untimed(each) if each.rollout_status == _WAITS else each for each in shorter]
    size -= _TIME_BYTES * (with_times - _times(shorter))
    if size <= MOST_BYTES:
        return shorter, "the list of clusters is long: those that have succeeded or wait are listed without times"
    kept = [each for each in shorter if each.clustername not in settled]
    if sum(map(_size, kept)) > MOST_BYTES:
        kept = [each for each in kept if each.rollout_status != _WAITS]
    while sum(map(_size, kept)) > MOST_BYTES:
        kept = kept[: len(kept) * 3 // 4]
    count = len(clusters) - len(kept)
    return kept, f"the list of clusters is too long: {count} of {len(clusters)} are only counted, in status.rollout"


def _times(entries: Iterable[ClusterCompliance]) -> int:
    return sum(1 for each in entries if each.rollout_last_transition_time)


def _untimed(entry: ClusterCompliance) -> ClusterCompliance:
    if not entry.rollout_last_transition_time:
        return entry
    return msgspec.structs.replace(entry, rollout_last_transition_time="")


def _size(entry: ClusterCompliance) -> int:
    """Return about how many bytes an entry takes."""
    size = 2 * len(entry.clustername) + len(entry.compliant) + len(entry.rollout_status) + _OTHER_BYTES
    if entry.rollout_last_transition_time:
        size += _TIME_BYTES
    if entry.remaining_bindings:
        size += sum(len(each.placement_binding) + 24 for each in entry.remaining_bindings)
    return size
