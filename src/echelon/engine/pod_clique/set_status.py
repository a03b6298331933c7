"""The status of a PodCliqueSet: how many replicas work and are updated, which pods are outdated, what went wrong."""

from collections.abc import Sequence

import msgspec

from echelon.api.grovestatus import (
    LastError,
    PodCliqueSetStatus,
    PodCliqueSetUpdateProgress,
    PodGangStatusItem,
)
from echelon.api.meta import Condition
from echelon.api.times import format_time
from echelon.engine.conditions import ConditionStamp, find_condition
from echelon.engine.pod_clique.accepting import NotAccepted
from echelon.engine.pod_clique.clique_status import MOST_NAMES, outdated_names, say
from echelon.engine.pod_clique.names import MANAGED_BY, OPERATOR, PART_OF
from echelon.engine.pod_clique.revisions import present
from echelon.engine.pod_clique.set_spec import SetSpec
from echelon.engine.pod_clique.standing import ReplicaStanding
from echelon.engine.pod_clique.view import FailedWrite, SetReading

ACCEPTED = "Accepted"
UPDATE = "UpdateInProgress"
TOPOLOGY = "TopologyLevelsUnavailable"

PROGRESSING, PAUSED, OVERDUE, COMPLETED = "Progressing", "Paused", "ProgressDeadlineExceeded", "Completed"

_MOST_ERRORS = 20


def set_status(
    reading: SetReading,
    spec: SetSpec,
    replicas: Sequence[ReplicaStanding],
    progress: PodCliqueSetUpdateProgress | None,
    *,
    gangs: Sequence[PodGangStatusItem],
    failed: Sequence[FailedWrite],
    now: str,
    stuck: Sequence[int],
    paused: str,
    settled: bool,
) -> PodCliqueSetStatus:
    """Return the status of a set.

    `stuck` are replicas whose roll is overdue; `paused` says why nothing is rolled; `settled` that every child is as
    the set says.
    """
    before = reading.status
    stamp = ConditionStamp(reading.metadata.generation, now)
    if progress is not None:
        progress = _counted(progress, replicas)
    names, count, since = _outdated(replicas, before, now)
    stored = present(reading.revisions, spec.generation_hash)
    return PodCliqueSetStatus(
        observed_generation=stamp.generation if settled else before.observed_generation,
        conditions=_conditions(reading, progress, stamp, stuck, paused),
        last_errors=errors_of(failed),
        replicas=spec.replicas,
        updated_replicas=sum(each.available and each.converged for each in replicas),
        available_replicas=sum(each.available for each in replicas),
        hpa_pod_selector=f"{MANAGED_BY}={OPERATOR},{PART_OF}={reading.metadata.name}",
        pod_gang_statuses=list(gangs),
        current_generation_hash=spec.generation_hash,
        current_revision=stored.name if stored is not None else before.current_revision,
        update_progress=progress,
        outdated_pods=names,
        outdated_pods_count=count,
        outdated_since=since,
    )


def not_accepted_status(reading: SetReading, failed: Sequence[FailedWrite], now: str) -> PodCliqueSetStatus:
    """Return the status of a set of which nothing can be made: as it was, and why."""
    before = reading.status
    conditions = _accepted(reading, ConditionStamp(reading.metadata.generation, now))
    return msgspec.structs.replace(before, conditions=conditions, last_errors=errors_of(failed))


def errors_of(failed: Sequence[FailedWrite]) -> list[LastError]:
    """Return what went wrong, the oldest first."""
    ordered = sorted(failed, key=lambda each: (each.since, each.kind.kind, each.name))
    return [
        LastError(
            code=each.code,
            description=f"{each.verb} {each.kind.kind} {each.name}: {each.message}"[:1024],
            observed_at=format_time(each.since),
        )
        for each in ordered[:_MOST_ERRORS]
    ]


def _counted(progress: PodCliqueSetUpdateProgress, replicas: Sequence[ReplicaStanding]) -> PodCliqueSetUpdateProgress:
    return msgspec.structs.replace(
        progress,
        updated_pod_cliques_count=sum(each.converged for replica in replicas for each in replica.cliques),
        total_pod_cliques_count=sum(len(replica.cliques) for replica in replicas),
        updated_pod_clique_scaling_groups_count=sum(each.converged for replica in replicas for each in replica.groups),
        total_pod_clique_scaling_groups_count=sum(len(replica.groups) for replica in replicas),
    )


def _outdated(replicas: Sequence[ReplicaStanding], before: PodCliqueSetStatus, now: str) -> tuple[list[str], int, str]:
    """Return which pods run another template, clique by clique, how many, and since when there have been any."""
    drifted = [each for replica in replicas if replica.lags for each in replica.everything if each.outdated]
    if not drifted:
        return [], 0, ""
    names: list[str] = []
    for each in drifted:
        if len(names) < MOST_NAMES:
            names += outdated_names(each)
    return sorted(names[:MOST_NAMES]), sum(each.outdated for each in drifted), before.outdated_since or now


def _conditions(
    reading: SetReading,
    progress: PodCliqueSetUpdateProgress | None,
    stamp: ConditionStamp,
    stuck: Sequence[int],
    paused: str,
) -> list[Condition]:
    conditions = _accepted(reading, stamp)
    if progress is None:
        return conditions
    if progress.update_ended_at:
        word = stamp.condition(UPDATE, "False", COMPLETED, "nothing is left for the controller to do")
    elif paused:
        word = stamp.condition(UPDATE, "True", PAUSED, paused)
    elif stuck:
        word = stamp.condition(UPDATE, "True", OVERDUE, overdue(stuck))
    else:
        word = stamp.condition(UPDATE, "True", PROGRESSING, "pods are being replaced")
    return say(conditions, word)


def overdue(stuck: Sequence[int]) -> str:
    """Return what to say about replicas whose roll is overdue."""
    named = ", ".join(map(str, sorted(stuck)))
    return f"replica {named} is not back within the progress deadline, and is not waited for any longer"


def _accepted(reading: SetReading, stamp: ConditionStamp) -> list[Condition]:
    found, before = reading.accepted, reading.status.conditions
    if isinstance(found, NotAccepted):
        conditions = say(before, stamp.condition(ACCEPTED, "False", found.reason, found.message))
        if found.reason == TOPOLOGY:
            conditions = say(conditions, stamp.condition(TOPOLOGY, "True", found.reason, found.message))
        return conditions
    conditions = say(before, stamp.condition(ACCEPTED, "True", "Accepted", "it can be carried out"))
    if find_condition(conditions, TOPOLOGY) is not None:
        word = stamp.condition(TOPOLOGY, "False", "NotNeeded", "no topology is asked for")
        conditions = say(conditions, word)
    return conditions
