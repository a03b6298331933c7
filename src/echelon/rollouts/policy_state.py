"""What a person wants to know of a policy besides its rollout: how it gets to clusters, and what they say of it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from echelon.api.policy import PolicyStatus
from echelon.engine.policy.bindings import Way, selected_by
from echelon.engine.policy.content import ENFORCE
from echelon.engine.policy.record import SuccessTimes
from echelon.engine.policy.strategy import strategy_of
from echelon.engine.policy.subject import contents_of, is_waiting
from echelon.engine.policy.view import PolicyView
from echelon.engine.rollout.model import Phase
from echelon.engine.rollout.reasons import names
from echelon.rollouts.policies import details_of, is_fresh, kinds_of_templates, newest_message
from echelon.rollouts.policy_reading import PolicyReading

COMPLIANT, NON_COMPLIANT, PENDING, UNKNOWN = "Compliant", "NonCompliant", "Pending", "Unknown"
STATES = (NON_COMPLIANT, PENDING, UNKNOWN, COMPLIANT)  # the worst first
_FAILED = (Phase.FAILED.value, Phase.TIMED_OUT.value)
_NO_TURNS = "no effect: the policy has a rolloutStrategy other than All"


@dataclass(frozen=True)
class WayState:
    """A way by which a policy gets to clusters, and what it changes there."""

    way: Way
    exists: bool  # whether there is such a placement
    clusters: tuple[str, ...]  # to which it leads
    effect: str  # of its override


@dataclass(frozen=True)
class TemplateState:
    """What a cluster says of a template."""

    name: str
    kind: str
    compliant: str
    message: str  # the newest
    at: str


@dataclass(frozen=True)
class ClusterState:
    """How a policy is on a cluster: as the policy's own status tells, and as the replica says."""

    name: str
    compliant: str
    told: str  # the rollout status that the policy's own status has
    stored: str  # that of the replica
    held: bool
    fresh: bool  # whether the replica's report is about what it has now
    templates: tuple[TemplateState, ...]


def ways_of_policy(view: PolicyView) -> list[WayState]:
    """Return the ways of a policy, in the order of their bindings."""
    selected = view.selected
    placed = frozenset[str]().union(*(selected_by(way, selected) for way in view.ways if not way.restricted))
    found = []
    for way in view.ways:
        reached = selected_by(way, selected) & placed if way.restricted else selected_by(way, selected)
        exists = view.placements[way.placement].placement is not None
        found.append(WayState(way, exists, tuple(sorted(reached)), _effect(view, way, reached)))
    return found


def _effect(view: PolicyView, way: Way, reached: frozenset[str]) -> str:
    """Say what a binding changes in the policy, and why perhaps nothing."""
    if not way.override:
        return "no effect: it only overrides, and has nothing to override with" if way.restricted else ""
    strategy = strategy_of(view)
    if strategy.asked_in_turn:
        return f"{way.override}: {_NO_TURNS}"
    if view.content.action.lower() == ENFORCE:
        return f"{way.override}: no effect, the policy enforces everywhere"
    if not reached:
        return f"{way.override}: no effect, no other binding places the policy on its clusters"
    overrides = contents_of(view, strategy).overrides
    there = [cluster for cluster in reached if cluster in overrides]
    return f"{way.override} on {names(there)}"


def clusters_of(reading: PolicyReading) -> list[ClusterState]:
    """Return the clusters that have a replica, the worst first."""
    view, in_turn = reading.view, strategy_of(reading.view).in_turn
    told = {each.clustername: each for each in view.policy.status.status}
    found = []
    for cluster, replica in view.replicas.items():
        entry = told.get(cluster)
        found.append(
            ClusterState(
                cluster,
                replica.compliant or UNKNOWN,
                entry.rollout_status if entry is not None else "",
                replica.stored,
                in_turn and is_waiting(replica, view.content),
                is_fresh(replica),
                tuple(_templates(reading, cluster)),
            )
        )
    return sorted(found, key=_urgency)


def _templates(reading: PolicyReading, cluster: str) -> Iterator[TemplateState]:
    policy = reading.reports.get(cluster)
    if policy is None:
        return
    kinds = kinds_of_templates(policy)
    for name, told in details_of(policy).items():
        at = told.history[0].last_timestamp if told.history else ""
        yield TemplateState(name, kinds[name], told.compliant or UNKNOWN, newest_message(told), at)


def counted(status: PolicyStatus) -> Mapping[str, int]:
    """Return how many clusters are in which state, as the status of a policy tells.

    Of those that a long status leaves out, only this is known: they are all well if the policy is.
    """
    counts = Counter(_known(each.compliant) for each in status.status)
    left_out = max(0, total(status) - len(status.status)) if SuccessTimes.of(status).abridged else 0
    counts[COMPLIANT if status.compliant == COMPLIANT else UNKNOWN] += left_out
    return counts


def total(status: PolicyStatus) -> int:
    """Return how many clusters a policy is about, as its status tells."""
    told = status.rollout
    if told is None:
        return len(status.status)
    return told.to_apply + told.progressing + told.succeeded + told.failed + told.timed_out + told.skipped


def _urgency(each: ClusterState) -> tuple[bool, int, bool, str]:
    """Order clusters: those that failed, then the worst; whoever only looks so far comes later."""
    return each.told not in _FAILED, STATES.index(_known(each.compliant)), each.held, each.name


def _known(compliant: str) -> str:
    return compliant if compliant in STATES else UNKNOWN
