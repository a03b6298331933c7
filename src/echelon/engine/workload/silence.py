"""Clusters to which nothing is sent at the moment, and why; and those of which nothing more is expected.

To such a cluster no grant is given, and all that it has stays charged: it may act on it, whether it is heard or not.
Only one that nobody names any more is given up, when it is detached, or was not heard for longer than the grace, so
that it does not hold up the rest for ever.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from echelon.engine.rollout.state import Rollout
from echelon.engine.workload.alignment import Alignment
from echelon.engine.workload.names import LONGEST_CLUSTER_NAME
from echelon.engine.workload.view import WorkloadView


@dataclass(frozen=True)
class Silence:
    """Who is sent nothing."""

    why: dict[str, str] = field(default_factory=dict)  # by cluster
    suspended: frozenset[str] = frozenset()  # those that somebody wants nothing to be sent to
    written_off: tuple[str, ...] = ()
    put_off: frozenset[str] = frozenset()  # clusters whose work the hub did not let go, until that is tried again
    look_again_after: timedelta | None = None


def silence_of(view: WorkloadView, rollout: Rollout, now: datetime, alignment: Alignment | None = None) -> Silence:
    """Find out who is sent nothing."""
    why: dict[str, str] = {}
    ends: list[datetime] = []
    suspended = _suspended(view)
    for name in sorted({*view.targets, *view.works, *rollout.holdings}):
        work = view.works.get(name)
        if len(name) > LONGEST_CLUSTER_NAME:
            why[name] = (
                f"a cluster whose name has more than {LONGEST_CLUSTER_NAME} characters has no namespace for works"
            )
        elif name in view.unreachable:
            why[name] = view.unreachable[name]
        elif name in view.leaving and name in view.targets:
            why[name] = "it is on its way out of the fleet"
        elif name in view.foreign:
            why[name] = f"the work {view.work_name} there is of {view.foreign[name]}"
        elif name in view.unread:
            why[name] = view.unread[name].message
        elif work is not None and work.terminating is not None:
            why[name] = "its work is being deleted, and is written anew after that"
        elif name in suspended:
            why[name] = "dispatching is suspended"
        elif alignment is not None:
            refused, until = alignment.refused(name, rollout.revision, rollout.control.retried, now)
            if refused and until is not None:
                why[name] = refused
                ends.append(until)
    going = rollout.allocations.to_delete
    outcomes = rollout.subject.outcomes
    return Silence(
        why,
        suspended,
        tuple(each for each in going if each in view.detached),
        frozenset(outcomes.other) if outcomes.next_try is not None else frozenset(),
        min(ends) - now if ends else None,
    )


def _suspended(view: WorkloadView) -> frozenset[str]:
    suspension = view.binding.spec.suspension
    if suspension is None:
        return frozenset()
    if suspension.dispatching:
        return frozenset({*view.targets, *view.works})
    named = suspension.dispatching_on_clusters
    return frozenset(named.cluster_names) if named is not None else frozenset()
