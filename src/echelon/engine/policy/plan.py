"""What is to be done about a policy: replicas to hold, to release, to put right and to delete, revisions, a status.

Content decides, so a crash after any of the writes leads to the same world: a replica that has the content to look at
waits for its turn, whatever its status says; one that has it in force was released, and is never taken back because
somebody else's turn came first.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from echelon.engine.plan import NOTHING, Action, Emit, Plan, Together
from echelon.engine.policy.kept_status import with_whole_status
from echelon.engine.policy.names import replica_name
from echelon.engine.policy.replica import Replica, is_reported_by_another
from echelon.engine.policy.status import StatusWrites, disabled_status, refused_status, status_of
from echelon.engine.policy.strategy import strategy_of
from echelon.engine.policy.subject import OVERRIDES_IGNORED, contents_of, subject_of
from echelon.engine.policy.view import PolicyView
from echelon.engine.policy.writes import MOST_WRITES, ReplicaWrite, ReplicaWrites, delete
from echelon.engine.rollout.bookkeeping import LOOK_AGAIN, after_content, before_content, look_again_after, patch_of
from echelon.engine.rollout.conditions import VERIFIED
from echelon.engine.rollout.departures import listed
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.events import announcements, regarding_of
from echelon.engine.rollout.subject import Subject

PROPAGATION = "PolicyPropagation"
_LONGEST_NAME = 63  # of a label


def plan(view: PolicyView, now: datetime, *, brief: bool = False) -> Plan:
    """Plan a policy. With `brief` the status is left alone unless one of its conditions changes."""
    if view.is_replica:
        return NOTHING  # the policy that it is of puts it right
    if view.in_cluster_namespace and is_reported_by_another(view.policy.status):
        # Whose status this is, and who takes away what he does not know.
        view = replace(view, keeps_status=False)
    view = with_whole_status(view)
    meta = view.policy.metadata
    strategy = strategy_of(view)
    contents = contents_of(view, strategy)
    subject = subject_of(view, strategy, contents, now)
    if meta.deletion_timestamp:
        return _remove_all(view, subject, "the policy is deleted", now)
    if refusal := refusal_of(view):
        return _with_status(Plan(), refused_status(view, subject, *refusal, now))
    if view.policy.spec.get("disabled"):
        removed = _remove_all(view, subject, "the policy is disabled", now)
        if removed.actions:
            # It may be enabled again, and a process that is born into the past would take it off everywhere.
            removed = replace(removed, actions=(patch_of(subject, {}), *removed.actions))
        return _with_status(removed, disabled_status(view, subject, now))
    rollout = roll_out(subject, now)
    if rollout.history.generation > meta.generation:
        # Somebody has rolled out a newer content than the one that we see. Ours would take the fleet back.
        return Plan(look_again_after=LOOK_AGAIN)
    writes = ReplicaWrites(view, strategy, contents, rollout, now)
    replicas = tuple(islice(writes, MOST_WRITES))
    is_part = len(replicas) == MOST_WRITES  # the rest comes with the next plan, and so does what there is to tell
    phases = {each.cluster: each.phase for each in replicas if each.phase}
    status = status_of(view, rollout, phases, now, brief=brief or is_part)
    due = look_again_after(rollout, now)
    if rollout.not_stored:
        # The rest would rely on it.
        return _with_status(Plan(look_again_after=due), status)
    actions: list[Action] = [*before_content(rollout), *announcements(rollout, recorded=status.any)]
    # Who is tried again is told of in the conditions: an event at every try would say that it was done.
    actions += _told(view, subject, [each for each in replicas if each.cluster not in rollout.failed_writes])
    if replicas or rollout.allocations.to_delete:
        if not view.confirmed and any(each.new for each in replicas):
            # A process may be born into the past, where a cluster has no replica yet, and would make one.
            # A write of the policy that changes nothing costs nothing, and fails if this is not its newest state.
            actions.insert(0, patch_of(subject, {}))
        actions.append(Together((*(each.writes for each in replicas), *writes.deletions())))
    actions += after_content(rollout, now)
    due = timedelta() if is_part else due
    found = Plan(tuple(actions), look_again_after=due, status_waits=True, stops_at_failure=rollout.is_limited)
    return _with_status(found, status)


def plan_gone(replicas: Iterable[Replica]) -> Plan:
    """Return what is to be done when a policy is gone: what was made for it goes, too.

    Not what was written meanwhile: it may be for a policy of the same name that is not known yet.
    """
    left = tuple(replace(delete(each), resource_version=each.version) for each in replicas if each.terminating is None)
    return Plan((Together(left),)) if left else NOTHING


def _with_status(found: Plan, status: StatusWrites) -> Plan:
    """Return a plan that also tells what there is to tell."""
    if status.annotation is None:
        return replace(found, status=status.status)
    first = () if status.status is None else (status.status,)
    return replace(found, actions=(*found.actions, *first), status=status.annotation)


def refusal_of(view: PolicyView) -> tuple[str, str] | None:
    """Return why a policy cannot be rolled out: a reason, and a message."""
    if view.in_cluster_namespace:
        namespace = view.policy.metadata.namespace
        return "InClusterNamespace", (
            f"namespace {namespace} is that of a managed cluster, where only replicas belong: nothing is rolled out"
            " from here; move the policy to another namespace"
        )
    if len(name := replica_name(view.key)) > _LONGEST_NAME:
        return "NameTooLong", (
            f"metadata.name: namespace and name together, {name}, have {len(name)} characters, and no label can have"
            f" more than {_LONGEST_NAME}"
        )
    return ("InvalidTemplate", view.content.problem) if view.content.problem else None


def _remove_all(view: PolicyView, subject: Subject, why: str, now: datetime) -> Plan:
    """Take the policy off every cluster."""
    outcomes = view.outcomes
    staying = [each for each in view.replicas.values() if each.terminating is None]
    if outcomes.next_try is not None:
        staying = [each for each in staying if each.cluster not in outcomes.other]
    wait = outcomes.next_try - now if outcomes.next_try is not None and outcomes.other else None
    if not staying:
        return Plan(look_again_after=wait)
    note = f"the replica of {listed(each.cluster for each in staying)} is deleted: {why}"
    told = Emit(regarding_of(subject), PROPAGATION, PROPAGATION, note)
    return Plan((told, Together(tuple(map(delete, staying)))), look_again_after=wait)


def _told(view: PolicyView, subject: Subject, writes: Iterable[ReplicaWrite]) -> list[Emit]:
    """Return what there is to tell of replicas, and of what a binding says in vain."""
    regarding, called = regarding_of(subject), f"Policy {view.key}"
    new = [each.cluster for each in writes if each.new]
    changed = [each.cluster for each in writes if each.phase is not None and not each.new]
    events = []
    if new:
        note = f"{called} was propagated to cluster{'s' if len(new) > 1 else ''} {listed(new)}"
        events.append(Emit(regarding, PROPAGATION, PROPAGATION, note))
    if changed:
        note = f"{called} was updated for cluster{'s' if len(changed) > 1 else ''} {listed(changed)}"
        events.append(Emit(regarding, PROPAGATION, PROPAGATION, note))
    known = next((each.message for each in subject.conditions if each.type == VERIFIED), "")
    if OVERRIDES_IGNORED not in known and any(OVERRIDES_IGNORED in each.note for each in subject.references):
        events.append(Emit(regarding, "BindingOverridesIgnored", PROPAGATION, OVERRIDES_IGNORED, "Warning"))
    return events
