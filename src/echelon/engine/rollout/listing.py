"""What a status says of the clusters of a rollout: how many stand where, and each that needs a look, with the reason.

The list is as long as an object can bear, so those come first that somebody has to care about.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from itertools import islice

import msgspec

from echelon.api.rollout import MAX_LISTED_CLUSTERS, ClusterRollout, RolloutSummary
from echelon.api.times import format_time
from echelon.engine.rollout.conditions import NOT_BOUND, state_of
from echelon.engine.rollout.departures import staying
from echelon.engine.rollout.model import ClusterDecision, Phase, Wait
from echelon.engine.rollout.state import ReferenceRollout, Rollout

DEADLINE = "ProgressDeadlineExceeded"
_MESSAGE = 1024
_WORST_FIRST = ("timed out", "failed", "progressing", "soaking", "waiting", "done", "skipped")
_DONE = _WORST_FIRST.index("done")
# Looking up the value of a member takes ten times as long as looking up a name, and this is done for each cluster.
_SUCCEEDED, _SOAK = Phase.SUCCEEDED.value, Wait.SOAK.value
_UNWELL = frozenset((Phase.FAILED.value, Phase.TIMED_OUT.value))
_PLACE = {Phase.TIMED_OUT: 0, Phase.FAILED: 1, Phase.PROGRESSING: 2, Phase.TO_APPLY: 4, Phase.SUCCEEDED: 5}


def summary_of(rollout: Rollout, now: datetime) -> RolloutSummary:
    """Tell where the clusters stand, the worst first."""
    lines: list[list[tuple[ReferenceRollout, ClusterDecision]]] = [[] for _ in _WORST_FIRST]
    counted, done = Counter[Phase](), 0
    for ref in rollout.references:
        for entry in ref.cluster_decisions:
            phase = Phase.PROGRESSING if entry.starts else entry.phase
            counted[phase] += 1
            place = 4 if entry.cluster in rollout.unbound else _PLACE.get(phase, 6)
            place = 3 if place == 5 and entry.wait is Wait.SOAK else place
            line, done = lines[place], done + (place == _DONE)
            if len(line) < MAX_LISTED_CLUSTERS:  # no more are shown, and there may be ten thousand
                line.append((ref, entry))
    worst = islice((each for line in lines for each in line), MAX_LISTED_CLUSTERS)
    return RolloutSummary(
        state=state_of(rollout),
        done=f"{done}/{sum(counted.values())}",
        to_apply=counted[Phase.TO_APPLY],
        progressing=counted[Phase.PROGRESSING],
        succeeded=counted[Phase.SUCCEEDED],
        failed=counted[Phase.FAILED],
        timed_out=counted[Phase.TIMED_OUT],
        skipped=counted[Phase.SKIPPED],
        clusters=_merged(_line(rollout, ref, entry, now) for ref, entry in worst),
    )


def _merged(lines: Iterable[ClusterRollout]) -> list[ClusterRollout]:
    """Let clusters of which the same is said share a line, or a hundred of them would hide the few that matter.

    When each of those came to be done is of no interest. What failed has a line of its own, which is for programs, too.
    """
    found: dict[tuple[object, ...], list[ClusterRollout]] = {}
    for each in lines:
        time = "" if each.status == _SUCCEEDED and each.reason != _SOAK else each.last_transition_time
        own = each.cluster if each.status in _UNWELL else ""
        what = (own, each.placement, each.group, each.group_index, each.status, each.reason, each.message, time)
        found.setdefault(what, []).append(each)
    return [_one(alike) for alike in found.values()]


def _one(alike: list[ClusterRollout]) -> ClusterRollout:
    first = alike[0]
    if len(alike) == 1:
        return first
    others = ", ".join(each.cluster for each in alike[1:])
    latest = max(each.last_transition_time for each in alike)
    return msgspec.structs.replace(first, others=others, last_transition_time=latest)


def _line(rollout: Rollout, ref: ReferenceRollout, entry: ClusterDecision, now: datetime) -> ClusterRollout:
    since = now if entry.starts else entry.since if entry.phase is not Phase.TO_APPLY else None
    reason, message = _why(rollout, ref, entry)
    return ClusterRollout(
        cluster=entry.cluster,
        placement=entry.group.placement or ref.name,
        group=entry.group.name,
        group_index=entry.group.index,
        status=(Phase.PROGRESSING if entry.starts else entry.phase).value,
        reason=reason[:_MESSAGE],
        message=message[:_MESSAGE],
        last_transition_time=format_time(since) if since is not None else "",
    )


def _why(rollout: Rollout, ref: ReferenceRollout, entry: ClusterDecision) -> tuple[str, str]:
    """Say why a cluster is where it is. No text has an age in it, which would be another one at every look."""
    reason, message = _own_reason(rollout, ref, entry)
    if entry.cluster in ref.allocation.undecided:
        stay, text = staying(rollout.allocations.removal, entry.cluster, rollout.subject.noun)
        return reason if entry.failed else stay or reason, "; ".join(filter(None, (text, message)))
    if entry.phase is Phase.SKIPPED and entry.cluster in rollout.unbound:
        return NOT_BOUND, "it is in no cluster set that is bound to the namespace"
    return reason, message


def _own_reason(rollout: Rollout, ref: ReferenceRollout, entry: ClusterDecision) -> tuple[str, str]:
    if entry.starts:
        return Wait.REPORT.value, "it was written, and the agent has not reported on it yet"
    if entry.phase is Phase.TO_APPLY:
        error = ref.allocation.error
        return (error.reason, error.message) if error else (entry.wait.value, entry.message)
    until = format_time(entry.until) if entry.until is not None else ""
    if entry.wait is Wait.SOAK:
        return Wait.SOAK.value, f"soaks until {until}"
    found = rollout.failed_writes.get(entry.cluster) or rollout.holdings.get(entry.cluster)
    reason, message = (found.reason, found.message) if found is not None else ("", "")
    if entry.phase is not Phase.TIMED_OUT:
        return reason, message
    return DEADLINE, ": ".join(filter(None, (f"its deadline was {until}", message)))
