"""What the hub itself has noted of each cluster: since when it is good, by the hub's own clock.

An agent says that a policy succeeded, not when, or by a clock that nobody knows. So the time at which the hub first saw
it is noted in the policy's status, and a soak runs from there. A note is about the content that a replica has if it is
not older than the write of that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from echelon.api.policy import ClusterCompliance, PolicyStatus
from echelon.api.times import parse_time
from echelon.engine.policy.replica import Replica
from echelon.engine.rollout.model import ClusterStatus, Phase

ABRIDGED = "StatusAbridged"
# Looking up a member of an enumeration takes ten times as long as looking up a name, and this is done for each cluster.
_SUCCEEDED, _FAILED = Phase.SUCCEEDED, Phase.FAILED
_GOOD, _BAD = Phase.SUCCEEDED.value, Phase.FAILED.value


@dataclass(frozen=True)
class SuccessTimes:
    """What the status of a policy says of its clusters."""

    entries: Mapping[str, ClusterCompliance]
    abridged: bool = False  # clusters that are settled may be missing

    @classmethod
    def of(cls, status: PolicyStatus) -> "SuccessTimes":
        """Read a status."""
        abridged = any(each.type == ABRIDGED and each.status == "True" for each in status.conditions)
        return cls({each.clustername: each for each in status.status}, abridged)

    def good_since(self, replica: Replica) -> datetime | None:
        """Return since when a replica is known to be good with the content that it has; the past, if that is settled.

        Those that are settled lose their times where a status would grow too large.
        """
        entry = self.entries.get(replica.cluster)
        if entry is None or entry.rollout_status != _GOOD:
            return None
        since, written = parse_time(entry.rollout_last_transition_time), replica.written
        if since is None:
            return written or replica.stored_at
        return since if written is None or since >= written else None

    def is_settled(self, replica: Replica) -> bool:
        """Whether the soak of a replica was over when it lost its time."""
        entry = self.entries.get(replica.cluster)
        if entry is None or entry.rollout_status != _GOOD:
            return False
        return not entry.rollout_last_transition_time

    def failed_since(self, replica: Replica) -> datetime | None:
        """Return since when a replica is known to have failed with the content that it has."""
        entry = self.entries.get(replica.cluster)
        if entry is None or entry.rollout_status != _BAD:
            return None
        since = parse_time(entry.rollout_last_transition_time)
        return since if since is not None and (replica.written is None or since >= replica.written) else None


@dataclass(frozen=True)
class Soak:
    """When a success has lasted long enough."""

    lasts: timedelta = timedelta()
    promoted: datetime | None = None  # a success that is as old as this has

    def is_over(self, since: datetime, now: datetime) -> bool:
        """Whether it had at a moment, if it began at a time."""
        return now - since >= self.lasts or (self.promoted is not None and since <= self.promoted <= now)


def status_of_released(replica: Replica, record: SuccessTimes, soak: Soak, now: datetime) -> ClusterStatus:
    """Return where a cluster stands that has the content in force.

    Who was good for the whole soak stays so until the content changes: what becomes of it later is drift, which is
    told, and blocks nobody. A failure before that counts, whenever it is heard of: nobody may have looked when it
    happened, nor when the soak should have been over. A report that is late says nothing against the last.
    """
    cluster, verdict, good_since = replica.cluster, replica.verdict, record.good_since(replica)
    if good_since is not None:
        in_soak = verdict is _FAILED and not record.is_settled(replica)
        if not (in_soak and _failed_early(replica, good_since, soak, now)):
            return ClusterStatus(cluster, _SUCCEEDED, good_since)
    if verdict is _SUCCEEDED:
        # Where there is no room for the hub's own time, the agent's has to do; it must not be in the future.
        reported = _later(replica.stored_at, replica.written) if record.abridged else None
        return ClusterStatus(cluster, _SUCCEEDED, min(reported, now) if reported is not None else now)
    since = _later(replica.stored_at, replica.written) if verdict is _FAILED else replica.written
    if replica.is_outdated and (failed := record.failed_since(replica)) is not None:
        # What was written since is no content: a failure is not mended by a strategy that is put in place.
        verdict, since = _FAILED, failed
    return ClusterStatus(cluster, verdict, since, _deadline_from(replica, good_since, now))


def _failed_early(replica: Replica, good_since: datetime, soak: Soak, now: datetime) -> bool:
    """Whether a replica that was good turned bad before its soak was over, or nobody can tell; not in the future."""
    if not soak.lasts:
        return False
    return replica.failed_at is None or not soak.is_over(good_since, min(replica.failed_at, now))


def turned_bad(replica: Replica, record: SuccessTimes, now: datetime) -> datetime | None:
    """Return when a replica turned bad that had been good with the content that it has: its deadline runs from then."""
    if replica.turned is not None and (replica.written is None or replica.turned >= replica.written):
        return replica.turned
    return now if replica.verdict is _FAILED and record.good_since(replica) is not None else None


def _deadline_from(replica: Replica, good_since: datetime | None, now: datetime) -> datetime | None:
    turned = replica.turned
    if turned is None or (replica.written is not None and turned < replica.written):
        turned = now if good_since is not None else None
    begun = turned or replica.written
    return _later(begun, replica.retried) if begun is not None else None


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    if one is None or other is None:
        return one or other
    return max(one, other)
