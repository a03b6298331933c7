"""Events of a rollout: the turns of a rollout that somebody may want to read about afterwards.

There is no memory but the status, so an event is told when the status is about to say something that it did not say
before. After a crash in between it may be told twice. The status does not name every cluster: it lists a hundred, and a
hub with a foreign schema keeps nothing but the conditions. So the condition about clusters that timed out says when the
last of these deadlines was, and what comes after that is new.
"""

from collections.abc import Mapping
from itertools import accumulate

from echelon.api.meta import Condition
from echelon.engine.plan import Emit, Reference
from echelon.engine.rollout.conditions import (
    ABORT_IGNORED,
    BLOCKED,
    NOT_BOUND,
    REMOVAL_HELD,
    ROLLED_OUT,
    TIMED_OUT,
    VERIFIED,
    blocked,
    missing_group,
    timed_out,
    told_until,
    unbound_clusters,
    verified_of,
    warnings,
)
from echelon.engine.rollout.departures import held, removed
from echelon.engine.rollout.model import Phase
from echelon.engine.rollout.reasons import names, title
from echelon.engine.rollout.state import ReferenceRollout, Rollout
from echelon.engine.rollout.subject import Subject

ACTION = "RollOut"
_NOTE = 900  # characters in the names of an event


def announcements(rollout: Rollout, *, recorded: bool = True) -> list[Emit]:
    """Return what there is to tell. `recorded`: whether the status is about to say it, too."""
    subject = rollout.subject
    regarding = regarding_of(subject)

    def told(reason: str, note: str, kind: str = "Normal", *, ends: bool = False) -> Emit:
        return Emit(regarding, reason, ACTION, note, kind, ends=ends)

    before = {each.type: each for each in subject.conditions}
    events = [
        told("GroupsStarted", note) for ref in rollout.references if ref.starting and (note := _groups(ref, rollout))
    ]
    said, was = blocked(rollout), before.get(BLOCKED)
    events += [told(reason, note, "Warning") for reason, note in _warnings(rollout, before)]
    if ABORT_IGNORED in said.message and (was is None or ABORT_IGNORED not in was.message):
        events.append(told("AbortIgnored", ABORT_IGNORED, "Warning"))
    if said.holds and (was is None or (was.status, was.reason) != ("True", said.reason)):
        reason = "RolloutAborted" if said.reason == "Aborted" else f"Rollout{said.reason}"
        events.append(told(reason, said.message, "Normal" if said.reason == "AwaitingApproval" else "Warning"))
    if not said.holds and was is not None and was.status == "True":
        events.append(told("RolloutContinues", f"no longer held up: {was.reason}"))
    events += [told(removed_reason(subject), note) for note in removed(subject, rollout.allocations.to_delete)]
    events += [told(why, note, "Warning") for why, note in _removal_warnings(rollout, before)]
    if recorded and (late := _newly_late(rollout)):
        events.append(told("ClustersTimedOut", f"{_as_many_as_fit(late)} missed the deadline", "Warning"))
    done = before.get(ROLLED_OUT)
    if rollout.complete and not rollout.all_had_it and done is not None and done.status != "True":
        count = sum(len(ref.cluster_decisions) for ref in rollout.references)
        note = f"{count} {'cluster has' if count == 1 else 'clusters have'} revision {rollout.revision}"
        events.append(told("RolloutComplete", note, ends=True))
    return events


def _warnings(rollout: Rollout, before: Mapping[str, Condition]) -> list[tuple[str, str]]:
    """Return what the status is about to say of things that are not as somebody meant them, and did not say before."""
    was, said = before.get(VERIFIED), verified_of(rollout)
    missing = missing_group(rollout)
    if missing is not None and said.reason == missing.reason:
        known = was is not None and (was.status, was.reason) == ("False", missing.reason)
        return [] if known else [(missing.reason, missing.message)]
    known_notes = was.message if was is not None else ""
    return [(why, note) for why, note in warnings(rollout) if note in said.message and note not in known_notes]


def _removal_warnings(rollout: Rollout, before: Mapping[str, Condition]) -> list[tuple[str, str]]:
    """Return what is new of removals that are held, and of decisions and clusters that do not count here."""
    found: list[tuple[str, str]] = []
    was, removal = before.get(VERIFIED), rollout.allocations.removal
    if removal.held and not _says(before.get(ROLLED_OUT), REMOVAL_HELD, held(removal)):
        found.append((REMOVAL_HELD, held(removal)))
    if rollout.unbound and not _says(was, NOT_BOUND, unbound_clusters(rollout)):
        found.append((NOT_BOUND, unbound_clusters(rollout)))
    ignored = filter(None, (ref.allocation.reference.ignored for ref in rollout.references))
    found += [("DecisionsIgnored", each) for each in ignored if each not in (was.message if was is not None else "")]
    return found


def regarding_of(subject: Subject) -> Reference:
    """Return the object that events of a rollout are about."""
    meta = subject.metadata
    return Reference(subject.kind, meta.name, meta.namespace, meta.uid)


def removed_reason(subject: Subject) -> str:
    """Return the reason of an event that tells who loses what it holds."""
    return f"{subject.noun.capitalize()}sRemoved"


def _says(condition: Condition | None, reason: str, text: str) -> bool:
    return condition is not None and condition.reason == reason and text in condition.message


def _groups(ref: ReferenceRollout, rollout: Rollout) -> str:
    """Name the groups in which the first clusters start."""
    begun = {each.group for each in ref.cluster_decisions if not each.starts and each.phase is not Phase.TO_APPLY}
    starting = [each for each in ref.starting if each.group not in begun]
    if not starting:
        return ""
    groups = names([title(group) for group in dict.fromkeys(each.group for each in starting)])
    clusters = names([each.cluster for each in starting])
    return f"{ref.name}: {groups} begins with revision {rollout.revision}: {clusters}"


def _newly_late(rollout: Rollout) -> list[str]:
    """Return the clusters that missed their deadline, and of which that was not told yet."""
    late, subject = timed_out(rollout), rollout.subject
    if not late or not any(each.type == TIMED_OUT and each.status == "True" for each in subject.conditions):
        return sorted(each.cluster for each in late)
    listed, complete = set[str](), False
    if subject.reported is not None:
        listed = {each.cluster for each in subject.reported.clusters if each.status == Phase.TIMED_OUT.value}
        complete = len(listed) >= subject.reported.timed_out
    until = told_until(subject.conditions)
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
