"""The status of a PodClique: counters of live pods, conditions, and how far its update is.

Grove's fields with Grove's meaning, but for this: only live pods count, everywhere, so no counter can exceed the number
of replicas for long; the current hashes advance only when enough of the pods that have them are ready, so that they
always name something that worked; and a condition that has been what it is since the clique was made says so, which
tells "never scheduled" from "lost its nodes" without guessing by seconds.
"""

from collections.abc import Sequence

import msgspec

from echelon.api.grovestatus import LastError, PodCliqueStatus, PodCliqueUpdateProgress, PodsSelectedToUpdate
from echelon.api.meta import Condition
from echelon.api.times import format_time
from echelon.engine.conditions import ConditionStamp, find_condition, set_condition
from echelon.engine.pod_clique.names import CLIQUE, MANAGED_BY, OPERATOR, PART_OF
from echelon.engine.pod_clique.pod_facts import EPOCH
from echelon.engine.pod_clique.standing import POD_REFUSED, CliqueStanding, refusal_text
from echelon.engine.pod_clique.view import CliqueView

BREACHED = "MinAvailableBreached"
SCHEDULED = "PodCliqueScheduled"

UPDATING = "UpdateInProgress"
FEW_SCHEDULED = "ScheduledReplicasBelowMinAvailable"
FEW_READY = "InsufficientReadyPods"
ENOUGH_READY = "SufficientReadyPods"

POD_INDEX = "ERR_POD_INDEX"  # the code of an error

MOST_NAMES = 100  # of pods in a status; the count beside them is exact


def say(before: Sequence[Condition], word: Condition, since: str = "") -> list[Condition]:
    """Return conditions with one of them said; its time moves only if its status does.

    A condition that was never said before has been what it is since `since`.
    """
    if since and find_condition(before, word.type) is None:
        word = msgspec.structs.replace(word, last_transition_time=since)
    return set_condition(before, word)


def unsay(before: Sequence[Condition], kind: str) -> list[Condition]:
    """Return conditions without one of them."""
    return [each for each in before if each.type != kind]


def breach(clique: CliqueStanding, progress: PodCliqueUpdateProgress | None) -> tuple[str, str, str]:
    """Return whether a clique has too few pods: status, reason and message of its condition."""
    tally, need = clique.tally, clique.need
    if progress is not None and not progress.update_ended_at:
        return "Unknown", UPDATING, "its pods are being replaced"
    if tally.scheduled < need:
        return "True", FEW_SCHEDULED, f"{tally.scheduled} of {need} pods that are needed have a node"
    healthy = tally.scheduled - tally.failing - tally.unhealthy
    if healthy < need:
        return "True", FEW_READY, f"{healthy} of {need} pods that are needed are ready or on their way"
    return "False", ENOUGH_READY, f"{healthy} pods are ready or on their way, {need} are needed"


def was_scheduled(view: CliqueView, conditions: Sequence[Condition]) -> bool:
    """Whether a clique has, or ever had, nodes for as many pods as it needs."""
    known = find_condition(conditions, SCHEDULED)
    if known is None:
        return False
    return known.status == "True" or known.last_transition_time > format_time(view.created)


def settled_status(view: CliqueView, key: object) -> PodCliqueStatus | None:
    """Return the status that a clique has, if an earlier look has shown that it is right; `key` is what it hangs on.

    A status that is right says nothing about the present time, so it stays right until what it hangs on changes.
    """
    return view.status if view.derived.get("status") == key else None


def note_settled(view: CliqueView, key: object) -> None:
    """Remember that the status of a clique is right."""
    view.derived["status"] = key


def clique_status(
    clique: CliqueStanding,
    view: CliqueView,
    progress: PodCliqueUpdateProgress | None,
    *,
    generation_hash: str,
    set_name: str,
    now: str,
    refused: bool = False,
) -> PodCliqueStatus:
    """Return the status of a clique; `refused` says that the server does not take its pods."""
    before, tally = view.status, clique.tally
    stamp = ConditionStamp(view.metadata.generation, now)
    conditions = _conditions(clique, view, progress, stamp)
    converged = clique.converged and (progress is None or bool(progress.update_ended_at))
    names, count, since = outdated_pods(clique, before, now)
    return PodCliqueStatus(
        observed_generation=stamp.generation,
        last_errors=_errors(clique, before, now, refused=refused),
        replicas=tally.live,
        ready_replicas=tally.ready,
        updated_replicas=clique.updated,
        schedule_gated_replicas=tally.gated,
        scheduled_replicas=tally.scheduled,
        outdated_pods=names,
        outdated_pods_count=count,
        outdated_since=since,
        hpa_pod_selector=selector(set_name, view.name) if clique.expected.key.standalone else "",
        conditions=conditions,
        current_pod_clique_set_generation_hash=(
            generation_hash if converged else before.current_pod_clique_set_generation_hash
        ),
        current_pod_template_hash=clique.expected.spec.hash if converged else before.current_pod_template_hash,
        update_progress=progress,
    )


def selector(set_name: str, clique: str) -> str:
    """Return the selector by which an autoscaler finds the pods of a clique."""
    return f"{MANAGED_BY}={OPERATOR},{PART_OF}={set_name},{CLIQUE}={clique}"


def outdated_pods(clique: CliqueStanding, before: PodCliqueStatus, now: str) -> tuple[list[str], int, str]:
    """Return which live pods run another template, how many, and since when there have been any."""
    if not clique.outdated or clique.view is None:
        return [], 0, ""
    return outdated_names(clique), clique.outdated, before.outdated_since or now


def outdated_names(clique: CliqueStanding) -> list[str]:
    """Return live pods that run another template by name, as many as a status tells."""
    pods = clique.view.pods if clique.view is not None else ()
    return [pod.name for pod in pods if pod.live and not clique.is_current(pod.hash)][:MOST_NAMES]


def selected(progress: PodCliqueUpdateProgress, taken: Sequence[str]) -> PodCliqueUpdateProgress:
    """Return progress with pods that were just taken: the last of them is the present one, the others are behind it."""
    if not taken or progress.update_ended_at:
        return progress
    before = progress.ready_pods_selected_to_update
    done = [] if before is None else [*before.completed, before.current]
    row = [each for each in done if each not in taken] + list(taken)
    chosen = PodsSelectedToUpdate(current=row[-1], completed=row[:-1][-MOST_NAMES:])
    return msgspec.structs.replace(progress, ready_pods_selected_to_update=chosen)


def _conditions(
    clique: CliqueStanding,
    view: CliqueView,
    progress: PodCliqueUpdateProgress | None,
    stamp: ConditionStamp,
) -> list[Condition]:
    tally, need = clique.tally, clique.need
    born = format_time(view.created) if view.created != EPOCH else stamp.now
    status, reason, message = breach(clique, progress)
    conditions = say(view.status.conditions, stamp.condition(BREACHED, status, reason, message), born)
    enough = tally.scheduled >= need
    why = "SufficientScheduledPods" if enough else "InsufficientScheduledPods"
    text = f"{tally.scheduled} pods have a node, {need} are needed"
    return say(conditions, stamp.condition(SCHEDULED, str(enough), why, text), "" if enough else born)


def _errors(clique: CliqueStanding, before: PodCliqueStatus, now: str, *, refused: bool) -> list[LastError]:
    """Return what keeps pods from being made: the server, or that two of them have one index, or one has none."""
    told = []
    if doubled := clique.tally.doubled:
        text = f"no pod is made while {', '.join(doubled[:5])} share an index with another pod, or have none"
        told.append((POD_INDEX, text))
    if refused and clique.lacking:
        told.append((POD_REFUSED, refusal_text(clique.lacking, clique.replicas)))
    known = {(each.code, each.description): each for each in before.last_errors}
    return [known.get(each) or LastError(code=each[0], description=each[1], observed_at=now) for each in told]
