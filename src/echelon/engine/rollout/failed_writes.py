"""Writes that a server did not take, cluster by cluster, and how they are kept.

A cluster whose content could not be written takes part in the rollout all the same: it has been in flight since the
first attempt, and runs against its deadline. It has failed if the server said no, and nobody knows what will become of
it if the server could not answer. Forgetting that, at a retry or a restart, would let a rollout go on that has to stop.
So it is kept on the object that is rolled out, in an annotation, because any server keeps those, and in full, because a
budget that knows only some of its failures does not hold. Ten thousand clusters that fail for the same reason must fit
into what an object may carry: a message is kept once, and much text is compressed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from echelon.engine.rollout.model import ClusterStatus, Phase
from echelon.engine.rollout.packed import pack, unpack

FAILED_WRITES = "echelon.dev/failed-writes"

REFUSED, UNANSWERED = "WriteRefused", "WriteFailed"

_MESSAGE = 512
_CLUSTER = "\N{REPLACEMENT CHARACTER}"  # stands for the cluster's name in a message that many share
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class FailedWrite:
    """The content of a revision could not be written for a cluster; `message` has the server's words."""

    revision: str
    since: datetime
    refused: bool  # the server said no; otherwise it could not answer
    message: str
    held: bool = False  # it was only to be looked at, until its turn

    @property
    def reason(self) -> str:
        """Return why, as one word for programs."""
        return REFUSED if self.refused else UNANSWERED

    def status(self, cluster: str) -> ClusterStatus:
        """Return where the cluster stands."""
        return ClusterStatus(cluster, Phase.FAILED if self.refused else Phase.PROGRESSING, self.since)


class _Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """Clusters whose writes failed for one reason, each with the microseconds from 1970 to its first attempt."""

    revision: str
    refused: bool
    message: str
    clusters: dict[str, int]
    held: bool = False


def encode(failed: Mapping[str, FailedWrite]) -> str | None:
    """Return the annotation's value; None if there is nothing to keep."""
    causes: dict[tuple[str, bool, str, bool], dict[str, int]] = {}
    for cluster, one in sorted(failed.items()):
        message = one.message[:_MESSAGE].replace(cluster, _CLUSTER)
        since = (one.since - _EPOCH) // _MICROSECOND
        causes.setdefault((one.revision, one.refused, message, one.held), {})[cluster] = since
    if not causes:
        return None
    listed = [_Cause(revision, refused, text, each, held) for (revision, refused, text, held), each in causes.items()]
    return pack(msgspec.json.encode(listed))


def decode(value: str) -> dict[str, FailedWrite]:
    """Read the annotation. What cannot be read is as good as nothing: the servers will say it again."""
    try:
        causes = msgspec.json.decode(unpack(value), type=list[_Cause]) if value else []
        return {
            cluster: FailedWrite(
                cause.revision,
                _EPOCH + timedelta(microseconds=since),
                cause.refused,
                cause.message.replace(_CLUSTER, cluster),
                cause.held,
            )
            for cause in causes
            for cluster, since in cause.clusters.items()
        }
    except (msgspec.MsgspecError, ValueError, OverflowError):
        return {}


def relevant(
    failed: Mapping[str, FailedWrite], revision: str, selected: Iterable[str], current: Iterable[str]
) -> dict[str, FailedWrite]:
    """Return what still matters: failures of this revision on selected clusters that do not have it after all."""
    if not failed:
        return {}
    without = frozenset(selected) - frozenset(current)
    return {cluster: one for cluster, one in failed.items() if one.revision == revision and cluster in without}
