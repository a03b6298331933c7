"""What a work set says of its clusters itself, for those who may not see the works.

Works are in the namespaces of clusters, which are no business of a team that has a namespace of its own. The status of
the set is in that namespace, and tells where each cluster stands; of large fleets it lists those that need a look.
"""

from datetime import UTC, datetime

from echelon.api.rollout import ClusterRollout, RolloutSummary
from echelon.api.times import parse_time
from echelon.engine.rollout.conditions import VERIFIED
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.model import ClusterStatus, Phase
from echelon.engine.rollout.subject import Holding
from echelon.engine.work_set.subject import content_of, subject_of
from echelon.engine.work_set.view import WorkSetView

UNSEEN = "the works in the namespaces of clusters may not be listed: this is what the status says"
_HAVING = frozenset((Phase.PROGRESSING, Phase.SUCCEEDED, Phase.FAILED, Phase.TIMED_OUT))
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def told_holdings(view: WorkSetView, now: datetime) -> dict[str, Holding]:
    """Return what clusters hold of a set, as its status tells; nothing if that is about the set as it was before."""
    summary = view.work_set.status.rollout
    if summary is None or not _is_of_present(view):
        return {}
    revision = content_of(view, roll_out(subject_of(view, {}), now)).digest
    found = {
        name: _holding(each, name, revision)
        for each in summary.clusters
        if Phase(each.status) in _HAVING
        for name in each.names
    }
    for cluster in _only_counted(view, summary):
        status = ClusterStatus(cluster, Phase.SUCCEEDED, _LONG_AGO)
        found[cluster] = Holding(cluster=cluster, revision=revision, status=status)
    return found


def _is_of_present(view: WorkSetView) -> bool:
    meta = view.work_set.metadata
    told = [each for each in view.work_set.status.conditions if each.type == VERIFIED]
    return all(each.observed_generation == meta.generation for each in told)


def _holding(told: ClusterRollout, cluster: str, revision: str) -> Holding:
    since = parse_time(told.last_transition_time)
    status = ClusterStatus(cluster, Phase(told.status), since)
    return Holding(
        cluster=cluster,
        revision=revision,
        status=status,
        reason=told.reason,
        message=told.message,
        placement=told.placement,
        written=since,
    )


def _only_counted(view: WorkSetView, summary: RolloutSummary) -> frozenset[str]:
    """Return the clusters that are not listed and are done; none if some of those that are not listed wait."""
    if summary.to_apply > sum(len(each.names) for each in summary.clusters if each.status == Phase.TO_APPLY.value):
        return frozenset()
    placed = (ref.placement.groups.clusters for ref in view.refs if ref.placement is not None)
    return frozenset[str]().union(*placed) - {name for each in summary.clusters for name in each.names}
