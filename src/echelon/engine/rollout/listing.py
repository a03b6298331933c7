"""What a status says of the clusters of a rollout: how many stand where, and each that needs a look, with the reason.

The list is as long as an object can bear, so those come first that somebody has to care about.
"""

from collections import Counter
from datetime import datetime
from itertools import islice

from echelon.api.rollout import MAX_LISTED_CLUSTERS, ClusterRollout, RolloutSummary
from echelon.api.times import format_time
from echelon.engine.rollout.conditions import NOT_BOUND
from echelon.engine.rollout.departures import staying
from echelon.engine.rollout.model import Phase, Standing, Wait
from echelon.engine.rollout.state import ReferenceRollout, Rollout

DEADLINE = "ProgressDeadlineExceeded"
_MESSAGE = 1024
_WORST_FIRST = ("timed out", "failed", "progressing", "soaking", "waiting", "done", "skipped")
_PLACE = {Phase.TIMED_OUT: 0, Phase.FAILED: 1, Phase.PROGRESSING: 2, Phase.TO_APPLY: 4, Phase.SUCCEEDED: 5}


def summary_of(rollout: Rollout, now: datetime) -> RolloutSummary:
    """Tell where the clusters stand, the worst first."""
    lines: list[list[tuple[ReferenceRollout, Standing]]] = [[] for _ in _WORST_FIRST]
    counted: Counter[Phase] = Counter()
    for ref in rollout.references:
        for standing in ref.standings:
            phase = Phase.PROGRESSING if standing.starts else standing.phase
            counted[phase] += 1
            place = 4 if standing.cluster in rollout.unbound else _PLACE.get(phase, 6)
            lines[3 if place == 5 and standing.wait is Wait.SOAK else place].append((ref, standing))
    worst = islice((each for line in lines for each in line), MAX_LISTED_CLUSTERS)
    return RolloutSummary(
        to_apply=counted[Phase.TO_APPLY],
        progressing=counted[Phase.PROGRESSING],
        succeeded=counted[Phase.SUCCEEDED],
        failed=counted[Phase.FAILED],
        timed_out=counted[Phase.TIMED_OUT],
        skipped=counted[Phase.SKIPPED],
        clusters=[_entry(rollout, ref, standing, now) for ref, standing in worst],
    )


def _entry(rollout: Rollout, ref: ReferenceRollout, standing: Standing, now: datetime) -> ClusterRollout:
    since = now if standing.starts else standing.since if standing.phase is not Phase.TO_APPLY else None
    reason, message = _why(rollout, ref, standing)
    return ClusterRollout(
        cluster=standing.cluster,
        placement=ref.name,
        group=standing.group.name,
        group_index=standing.group.index,
        status=(Phase.PROGRESSING if standing.starts else standing.phase).value,
        reason=reason[:_MESSAGE],
        message=message[:_MESSAGE],
        last_transition_time=format_time(since) if since is not None else "",
    )


def _why(rollout: Rollout, ref: ReferenceRollout, standing: Standing) -> tuple[str, str]:
    """Say why a cluster is where it is. No text has an age in it, which would be another one at every look."""
    reason, message = _own_reason(rollout, ref, standing)
    if standing.cluster in ref.allocation.undecided:
        stay, text = staying(rollout.allocations.removal, standing.cluster, rollout.subject.noun)
        return reason if standing.failed else stay or reason, "; ".join(filter(None, (text, message)))
    if standing.phase is Phase.SKIPPED and standing.cluster in rollout.unbound:
        return NOT_BOUND, "it is in no cluster set that is bound to the namespace"
    return reason, message


def _own_reason(rollout: Rollout, ref: ReferenceRollout, standing: Standing) -> tuple[str, str]:
    if standing.starts:
        return Wait.REPORT.value, "it was written, and the agent has not reported on it yet"
    if standing.phase is Phase.TO_APPLY:
        error = ref.allocation.error
        return (error.reason, error.message) if error else (standing.wait.value, standing.message)
    until = format_time(standing.until) if standing.until is not None else ""
    if standing.wait is Wait.SOAK:
        return Wait.SOAK.value, f"soaks until {until}"
    found = rollout.failed_writes.get(standing.cluster) or rollout.holdings.get(standing.cluster)
    reason, message = (found.reason, found.message) if found is not None else ("", "")
    if standing.phase is not Phase.TIMED_OUT:
        return reason, message
    return DEADLINE, ": ".join(filter(None, (f"its deadline was {until}", message)))
