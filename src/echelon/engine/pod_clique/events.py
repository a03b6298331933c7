"""What people are told about a set: its turns, and whatever keeps it from going on.

There is no memory but the objects, so something is told when a status is about to say it that did not say it before.
After a crash in between it may be told twice.
"""

from collections.abc import Sequence

from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.grovestatus import PodCliqueScalingGroupStatus, PodCliqueSetStatus, PodCliqueStatus
from echelon.api.meta import Condition, ObjectMeta
from echelon.engine.conditions import find_condition
from echelon.engine.plan import Emit, Reference
from echelon.engine.pod_clique.clique_status import POD_INDEX
from echelon.engine.pod_clique.group_status import SCALE_IN_HELD
from echelon.engine.pod_clique.set_status import ACCEPTED, OVERDUE, PAUSED, UPDATE, errors_of
from echelon.engine.pod_clique.termination import HELD, Termination
from echelon.engine.pod_clique.view import CliqueView, FailedWrite, GroupView

ACTION = "Reconcile"


def set_events(
    metadata: ObjectMeta, before: PodCliqueSetStatus, after: PodCliqueSetStatus, termination: Termination
) -> list[Emit]:
    """Return what there is to tell about a set."""
    regarding = Reference(POD_CLIQUE_SET, metadata.name, metadata.namespace, metadata.uid)

    def told(reason: str, note: str, kind: str = "Normal", *, ends: bool = False) -> Emit:
        return Emit(regarding, reason, ACTION, note, kind, ends=ends)

    events = [
        told("GangTerminated", f"{gang.name} had too few pods for too long", "Warning") for gang in termination.begun
    ]
    events += [told(HELD, f"{gang.name} is not terminated: {why}", "Warning") for gang, why in termination.held]
    was, now = before.update_progress, after.update_progress
    if now is not None and (was is None or was.update_started_at != now.update_started_at):
        at_once = now.update_started_at == now.update_ended_at
        count = after.outdated_pods_count
        note = (
            f"{count} pods run an older template, and stay until they are deleted" if at_once else "pods are replaced"
        )
        events.append(told("UpdateStarted", note))
    if now is not None and now.update_ended_at and was is not None and not was.update_ended_at:
        events.append(told("UpdateEnded", "nothing is left to be replaced by the controller", ends=True))
    for kind, status, reasons in ((UPDATE, "True", (OVERDUE, PAUSED)), (ACCEPTED, "False", None)):
        word = find_condition(after.conditions, kind)
        if word is None or word.status != status or (reasons is not None and word.reason not in reasons):
            continue
        if not _said_so(before.conditions, word):
            events.append(told(word.reason, word.message, "Normal" if word.reason == PAUSED else "Warning"))
    return events


def clique_events(view: CliqueView, after: PodCliqueStatus) -> list[Emit]:
    """Return what there is to tell about a clique."""
    regarding = Reference(POD_CLIQUE, view.name, view.metadata.namespace, view.metadata.uid)
    events = []
    if view.status.scheduled_replicas and not after.scheduled_replicas and view.replicas:
        note = f"none of {view.status.scheduled_replicas} pods that had a node is left"
        events.append(Emit(regarding, "AllScheduledReplicasLost", ACTION, note, "Warning"))
    known = {each.description for each in view.status.last_errors}
    events += [
        Emit(regarding, "PodIndexConflict", ACTION, each.description, "Warning")
        for each in after.last_errors
        if each.code == POD_INDEX and each.description not in known
    ]
    return events


def group_events(view: GroupView, after: PodCliqueScalingGroupStatus) -> list[Emit]:
    """Return what there is to tell about a group."""
    regarding = Reference(POD_CLIQUE_SCALING_GROUP, view.name, view.metadata.namespace, view.metadata.uid)
    events = []
    if view.status.scheduled_replicas and not after.scheduled_replicas and view.replicas:
        note = f"none of {view.status.scheduled_replicas} replicas that had nodes is left"
        events.append(Emit(regarding, "AllScheduledReplicasLost", ACTION, note, "Warning"))
    held = find_condition(after.conditions, SCALE_IN_HELD)
    if held is not None and not _said_so(view.status.conditions, held):
        events.append(Emit(regarding, SCALE_IN_HELD, ACTION, held.message, "Warning"))
    return events


def failure_events(metadata: ObjectMeta, before: PodCliqueSetStatus, failed: Sequence[FailedWrite]) -> list[Emit]:
    """Return what there is to tell about writes that were not taken."""
    regarding = Reference(POD_CLIQUE_SET, metadata.name, metadata.namespace, metadata.uid)
    known = {each.description for each in before.last_errors}
    return [
        Emit(regarding, "WriteFailed", ACTION, error.description, "Warning")
        for error in errors_of(failed)
        if error.description not in known
    ]


def _said_so(before: Sequence[Condition], word: Condition) -> bool:
    known = find_condition(before, word.type)
    return known is not None and (known.status, known.reason) == (word.status, word.reason)
