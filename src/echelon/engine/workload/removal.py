"""The end of a workload: what is done when its binding is deleted, when it is gone, and when its template is.

Deleting a template deletes what was made of it, everywhere, unless the binding says that the clusters keep it. A work
is deleted at once, and is gone when the agent has taken its object away, or has let go of it.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.keys import Key
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.engine.plan import NOTHING, Action, Delete, Emit, Patch, Plan, Reference, Together
from echelon.engine.rollout.bookkeeping import LOOK_AGAIN
from echelon.engine.rollout.departures import listed
from echelon.engine.rollout.events import ACTION
from echelon.engine.workload.conditions import held_conditions, karmada_conditions
from echelon.engine.workload.names import BINDING_FINALIZER
from echelon.engine.workload.status import binding_status
from echelon.engine.workload.view import WorkloadView
from echelon.engine.workload.works import WorkView
from echelon.engine.workload.writes import delete_works

REMOVED = "WorksRemoved"


def finalize(view: WorkloadView, now: datetime) -> Plan:
    """Take the works of a binding that is deleted away, and let it go when they are gone."""
    meta, outcomes = view.binding.metadata, view.outcomes
    if BINDING_FINALIZER not in meta.finalizers:
        return NOTHING
    if outcomes.next_try is not None and (why := outcomes.own or next(iter(outcomes.other.values()), "")):
        message = f"{len(view.works)} works are left, and the hub does not let them go: {why}"
        drafts = [*karmada_conditions(view), *held_conditions("WriteFailed", message)]
        return Plan(status=binding_status(view, drafts, now), look_again_after=outcomes.next_try - now)
    staying = _staying(view.works.values())
    if staying:
        return Plan((_event(view, staying, "the binding is deleted"), Together(delete_works(staying))))
    if view.works or view.unread:
        return NOTHING  # the agents are at it
    others = [each for each in meta.finalizers if each != BINDING_FINALIZER]
    let_go = Patch.of(RESOURCE_BINDING, meta, {"metadata": {"finalizers": others}})
    return Plan((*delete_ledger(view), let_go))


def delete_ledger(view: WorkloadView) -> tuple[Delete, ...]:
    """Return the deletion of the ledger of a workload of which nothing is left, or that is not aligned any more."""
    if view.ledger is None:
        return ()
    meta = view.ledger.metadata
    return (Delete(ROLLOUT_LEDGER, meta.name, meta.namespace, uid=meta.uid),)


def remove_all(view: WorkloadView, now: datetime) -> tuple[Action, ...]:
    """Return what takes the works of a template that was deleted away.

    Only those that carry an object of that name: a binding that names another template now may be a slip of the pen.
    """
    outcomes, resource = view.outcomes, view.binding.spec.resource
    put_off = outcomes.other if outcomes.next_try is not None and outcomes.next_try > now else {}
    named = Key(resource.namespace, resource.name)
    found = [each for each in _staying(view.works.values()) if each.key == named and each.cluster not in put_off]
    if not found:  # what is gone is owed to nobody
        return () if view.works or view.unread else delete_ledger(view)
    why = f"{resource.kind} {resource.name} is deleted"
    return (_event(view, found, why), Together(delete_works(found)))


def plan_gone(works: Iterable[WorkView], *, doubtful: bool = False) -> Plan:
    """Return what is to be done when a binding is gone without having been finalized: its works go, too.

    Not what was written meanwhile: it may be for a binding of the same name that is not known yet. If there are
    `doubtful` ones, this is looked at again.
    """
    seen = {each.uid: each for each in works}
    left = tuple(replace(each, resource_version=seen[each.uid].version) for each in delete_works(seen.values()))
    return Plan((Together(left),) if left else (), look_again_after=LOOK_AGAIN if doubtful else None)


def _staying(works: Iterable[WorkView]) -> list[WorkView]:
    return [each for each in works if each.terminating is None]


def _event(view: WorkloadView, works: Iterable[WorkView], why: str) -> Emit:
    meta = view.binding.metadata
    kept = " (the clusters keep their objects)" if view.binding.spec.preserve_resources_on_deletion else ""
    note = f"the work of {listed(each.cluster for each in works)} is deleted: {why}{kept}"
    regarding = Reference(RESOURCE_BINDING, meta.name, meta.namespace, meta.uid)
    return Emit(regarding, REMOVED, ACTION, note)
