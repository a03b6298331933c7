"""Events of a work set: the turns of a rollout that somebody may want to read about afterwards.

There is no memory but the status, so an event is told when the status is about to say something that it did not say
before. After a crash in between it may be told twice. The status does not name every cluster: it lists a hundred, and a
hub with a foreign schema keeps nothing but the conditions. So the condition about clusters that timed out says when the
last of these deadlines was, and what comes after that is new.
"""

from collections.abc import Iterable, Mapping
from itertools import accumulate

from echelon.api.meta import Condition
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.plan import Emit, Reference
from echelon.engine.rollout.model import Phase
from echelon.engine.rollout.reasons import names, title
from echelon.engine.work_set.conditions import (
    ABORT_IGNORED,
    BLOCKED,
    NOT_BOUND,
    REMOVAL_HELD,
    ROLLED_OUT,
    TIMED_OUT,
    VERIFIED,
    blocked,
    missing_group,
    strange,
    timed_out,
    told_until,
    verified_of,
    warnings,
)
from echelon.engine.work_set.leaving import held, listed, removed
from echelon.engine.work_set.rollout import RefRollout, Rollout
from echelon.engine.work_set.view import UnreadWork, WorkSetView, WorkView

_ACTION = "RollOut"
REMOVED = "WorksRemoved"
_NOTE = 900  # characters in the names of an event


def announcements(view: WorkSetView, rollout: Rollout, *, recorded: bool = True) -> list[Emit]:
    """Return what there is to tell. `recorded`: whether the status is about to say it, too."""
    regarding = _regarding(view)

    def told(reason: str, note: str, kind: str = "Normal", *, ends: bool = False) -> Emit:
        return Emit(regarding, reason, _ACTION, note, kind, ends=ends)

    before = {each.type: each for each in view.work_set.status.conditions}
    events = [told("GroupsStarted", note) for ref in rollout.refs if ref.starting and (note := _groups(ref, rollout))]
    said, was = blocked(rollout), before.get(BLOCKED)
    events += [told(reason, note, "Warning") for reason, note in _warnings(view, rollout, before)]
    if ABORT_IGNORED in said.message and (was is None or ABORT_IGNORED not in was.message):
        events.append(told("AbortIgnored", ABORT_IGNORED, "Warning"))
    if said.holds and (was is None or (was.status, was.reason) != ("True", said.reason)):
        reason = "RolloutAborted" if said.reason == "Aborted" else f"Rollout{said.reason}"
        events.append(told(reason, said.message, "Normal" if said.reason == "AwaitingApproval" else "Warning"))
    if not said.holds and was is not None and was.status == "True":
        events.append(told("RolloutContinues", f"no longer held up: {was.reason}"))
    events += [told(REMOVED, note) for note in removed(view, rollout.sharing.gone)]
    events += [told(why, note, "Warning") for why, note in _removal_warnings(view, rollout, before)]
    if recorded and (late := _newly_late(view, rollout)):
        events.append(told("ClustersTimedOut", f"{_as_many_as_fit(late)} missed the deadline", "Warning"))
    done = before.get(ROLLED_OUT)
    if rollout.complete and not rollout.all_had_it and done is not None and done.status != "True":
        count = sum(len(ref.standings) for ref in rollout.refs)
        note = f"{count} clusters have revision {rollout.content.digest}"
        events.append(told("RolloutComplete", note, ends=True))
    return events


def _warnings(view: WorkSetView, rollout: Rollout, before: Mapping[str, Condition]) -> list[tuple[str, str]]:
    """Return what the status is about to say of things that are not as somebody meant them, and did not say before."""
    was, said = before.get(VERIFIED), verified_of(view, rollout)
    missing = missing_group(rollout)
    if missing is not None and said.reason == missing.reason:
        known = was is not None and (was.status, was.reason) == ("False", missing.reason)
        return [] if known else [(missing.reason, missing.message)]
    known_notes = was.message if was is not None else ""
    return [(why, note) for why, note in warnings(rollout) if note in said.message and note not in known_notes]


def _removal_warnings(view: WorkSetView, rollout: Rollout, before: Mapping[str, Condition]) -> list[tuple[str, str]]:
    """Return what is new of removals that are held, and of decisions and clusters that do not count here."""
    found: list[tuple[str, str]] = []
    was, removal = before.get(VERIFIED), rollout.sharing.removal
    if removal.held and not _says(before.get(ROLLED_OUT), REMOVAL_HELD, held(removal)):
        found.append((REMOVAL_HELD, held(removal)))
    if rollout.strangers and not _says(was, NOT_BOUND, strange(view, rollout)):
        found.append((NOT_BOUND, strange(view, rollout)))
    ignored = filter(None, (ref.share.ref.ignored for ref in rollout.refs))
    found += [("DecisionsIgnored", each) for each in ignored if each not in (was.message if was is not None else "")]
    return found


def farewell(view: WorkSetView, works: Iterable[WorkView | UnreadWork]) -> Emit:
    """Tell whose works go because the set goes."""
    note = f"the work of {listed(work.cluster for work in works)} is deleted: the set is deleted"
    return Emit(_regarding(view), REMOVED, _ACTION, note)


def _regarding(view: WorkSetView) -> Reference:
    meta = view.work_set.metadata
    return Reference(MANIFEST_WORK_REPLICA_SET, meta.name, meta.namespace, meta.uid)


def _says(condition: Condition | None, reason: str, text: str) -> bool:
    return condition is not None and condition.reason == reason and text in condition.message


def _groups(ref: RefRollout, rollout: Rollout) -> str:
    """Name the groups in which the first clusters start."""
    begun = {each.group for each in ref.standings if not each.starts and each.phase is not Phase.TO_APPLY}
    starting = [each for each in ref.starting if each.group not in begun]
    if not starting:
        return ""
    groups = names([title(group) for group in dict.fromkeys(each.group for each in starting)])
    clusters = names([each.cluster for each in starting])
    return f"{ref.share.ref.name}: {groups} begins with revision {rollout.content.digest}: {clusters}"


def _newly_late(view: WorkSetView, rollout: Rollout) -> list[str]:
    """Return the clusters that missed their deadline, and of which that was not told yet."""
    late, status = timed_out(rollout), view.work_set.status
    if not late or not any(each.type == TIMED_OUT and each.status == "True" for each in status.conditions):
        return sorted(each.cluster for each in late)
    listed, complete = set[str](), False
    if status.rollout is not None:
        listed = {each.cluster for each in status.rollout.clusters if each.status == Phase.TIMED_OUT.value}
        complete = len(listed) >= status.rollout.timed_out
    until = told_until(status.conditions)
    return sorted(
        each.cluster
        for each in late
        if each.cluster not in listed and (complete or (until is not None and each.until and each.until > until))
    )


def _as_many_as_fit(clusters: list[str]) -> str:
    """Name clusters, as many as an event can, and count the others: nowhere else may they all be named."""
    ends = accumulate(len(cluster) + 2 for cluster in clusters)
    fitting = sum(end <= _NOTE for end in ends)
    more = len(clusters) - fitting
    return ", ".join(clusters[:fitting]) + (f" and {more} more" if more else "")
