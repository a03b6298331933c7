"""What could stop a rollout, and what already does: every limit that somebody set, in words, before it is reached."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from echelon.engine.forecast.model import Forecast, Pods
from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.conditions import unbound_clusters
from echelon.engine.rollout.departures import held as held_removal
from echelon.engine.rollout.durations import elapsed
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.model import Wait
from echelon.engine.rollout.removal import MAX_REMOVALS
from echelon.engine.rollout.stages import Stage, stages
from echelon.engine.rollout.state import ReferenceRollout, Rollout
from echelon.engine.rollout.strategy import StrategyType
from echelon.engine.rollout.subject import Subject

_NAMED = 3  # so many groups are named before the rest is counted


class Stopper(StrEnum):
    """What kind of thing stops a rollout; the word for programs."""

    MISCONFIGURED = "Misconfigured"
    PAUSED = "Paused"
    ABORTED = "Aborted"
    HELD = "Held"
    NOT_BOUND = "NotBound"
    REMOVAL_HELD = "RemovalHeld"
    REMOVAL_LIMIT = "RemovalLimit"
    APPROVAL = "Approval"
    MANDATORY = "MandatoryGroup"
    BUDGET = "FailureBudget"
    NO_BUDGET = "NoFailureBudget"
    NO_DEADLINE = "NoDeadline"
    POD_BUDGET = "PodBudget"
    PARTITION = "Partition"
    NO_PODS = "NoPods"
    GANG = "Gang"
    ON_DELETE = "OnDelete"


_NOW = (Stopper.MISCONFIGURED, Stopper.PAUSED, Stopper.ABORTED, Stopper.HELD, Stopper.NOT_BOUND, Stopper.REMOVAL_HELD)


@dataclass(frozen=True)
class Obstacle:
    """Something that stops a rollout, or would."""

    kind: Stopper
    message: str

    @property
    def stops_now(self) -> bool:
        """Whether it is in the way already, and not only if something happens."""
        return self.kind in _NOW


def obstacles(subject: Subject, now: datetime, pods: Pods | None = None) -> tuple[Obstacle, ...]:
    """Return what could stop a rollout, first what already does; `pods` are those of a federated workload."""
    rollout = roll_out(subject, now)
    found = [*_of_subject(rollout), *(each for ref in rollout.references for each in _of_reference(rollout, ref))]
    if pods is not None:  # without groups, nobody waits for a cluster, and the budget of pods alone says what goes on
        unlimited = (Stopper.NO_BUDGET, Stopper.NO_DEADLINE)
        found = [*(each for each in found if each.kind not in unlimited), *pod_obstacles(pods)]
    return tuple(sorted(dict.fromkeys(found), key=lambda each: not each.stops_now))


def pod_obstacles(pods: Pods) -> Iterator[Obstacle]:
    """Tell what of a budget over all clusters could stop a federated workload, or keeps it from being everywhere."""
    budgets = pods.budgets
    missing = "a pod is" if budgets.unavailable == 0 else f"more than {budgets.unavailable} of {budgets.total} pods are"
    text = f"no cluster takes an available pod away while {missing} not available, whichever cluster that is in"
    yield Obstacle(Stopper.POD_BUDGET, text)
    if budgets.both_were_zero:
        yield Obstacle(Stopper.POD_BUDGET, "maxUnavailable and maxSurge both come to zero, so one pod may be missing")
    if budgets.partition:
        yield Obstacle(Stopper.PARTITION, f"{budgets.partition} of {budgets.total} pods stay old: partition")
    if empty := [each.cluster for each in pods.clusters if not each.before and not each.pods and not each.wait]:
        names = ", ".join(empty[:_NAMED]) + (f" and {len(empty) - _NAMED} more" if len(empty) > _NAMED else "")
        yield Obstacle(Stopper.NO_PODS, f"there are fewer replicas than clusters: none for {names}")


def longest(subject: Subject, now: datetime, foreseen: Forecast) -> timedelta | None:
    """Return how long a forecast may take if every cluster needs all the time that it has; None if nothing ends it.

    Clusters of one wave run against their deadlines together, those of different references side by side.
    """
    rollout = roll_out(subject, now)
    found = foreseen.ends
    for ref in rollout.references:
        waves = sum(any(each.placement in ref.allocation.placements for each in wave.starts) for wave in foreseen.waves)
        strategy = ref.allocation.strategy
        if not waves:
            continue
        if strategy is None or strategy.deadline is None:
            return None
        found = max(found, foreseen.ends + waves * strategy.deadline)
    return found


def _of_subject(rollout: Rollout) -> Iterator[Obstacle]:
    subject, control, removal = rollout.subject, rollout.control, rollout.allocations.removal
    for why in (subject.problem, rollout.malformed, rollout.not_stored):
        if why:
            yield Obstacle(Stopper.MISCONFIGURED, why)
    if control.paused and not rollout.malformed:
        yield Obstacle(Stopper.PAUSED, "it is paused: nothing starts before echelon rollout resume")
    if control.aborted:
        yield Obstacle(Stopper.ABORTED, "this revision was aborted: nothing of it starts before echelon rollout retry")
    if subject.hold is not None and subject.hold.wait is not Wait.INSPECTION:
        yield Obstacle(Stopper.HELD, subject.hold.message)
    if rollout.unbound:
        yield Obstacle(Stopper.NOT_BOUND, unbound_clusters(rollout))
    if removal.held:
        yield Obstacle(Stopper.REMOVAL_HELD, held_removal(removal))
    if removal.pending and not control.paused:
        limited = f"{len(removal.going)} clusters lose what they have at a time ({MAX_REMOVALS})"
        yield Obstacle(Stopper.REMOVAL_LIMIT, limited)


def _of_reference(rollout: Rollout, ref: ReferenceRollout) -> Iterator[Obstacle]:
    allocation = ref.allocation
    if allocation.error is not None:
        yield Obstacle(Stopper.MISCONFIGURED, allocation.error.message)
    if ref.missing is not None:
        yield Obstacle(Stopper.HELD, ref.missing.message)
    strategy, control = allocation.strategy, allocation.control_of(rollout.control)
    if strategy is None or not allocation.groups.clusters:
        return
    gated = [key for key in sorted(allocation.groups.groups) if control.holds_back(key)]
    if gated and rollout.rollback_to is None:
        yield Obstacle(Stopper.APPROVAL, f"{_named(gated)} of {ref.name}: nobody starts there without an approval")
    yield from _limits(ref.name, stages(strategy, allocation.groups), strategy.type)
    if strategy.deadline is None:
        endless = f"{ref.name}: there is no progressDeadline, so a cluster that never reports is waited for for ever"
        yield Obstacle(Stopper.NO_DEADLINE, endless)
    else:
        late = f"{ref.name}: a cluster that does not work {elapsed(strategy.deadline)} after its turn has failed"
        yield Obstacle(Stopper.BUDGET, late)


def _limits(name: str, way: tuple[Stage, ...], kind: StrategyType) -> Iterator[Obstacle]:
    """Tell how many failures the stages of a walk bear."""
    if kind is StrategyType.ALL:
        yield Obstacle(Stopper.NO_BUDGET, f"{name}: strategy All starts everywhere at once, whatever fails")
        return
    first = [stage.groups[0] for stage in way if stage.mandatory]
    if first:
        text = f"{_named(first)} of {name}: mandatory, so all of it has to work before anybody else starts"
        yield Obstacle(Stopper.MANDATORY, text)
    rest = [stage for stage in way if not stage.mandatory and stage.groups]
    if not rest:
        return
    tolerated = {stage.tolerated for stage in rest}
    where = "in a group" if kind is StrategyType.PER_GROUP else "in all"
    few = str(max(tolerated)) if len(tolerated) == 1 else f"{min(tolerated)} to {max(tolerated)}, by the group's size,"
    noun = "cluster fails" if tolerated == {1} else "clusters fail"
    count = "any cluster fails" if tolerated == {0} else f"more than {few} {noun} {where}"
    yield Obstacle(Stopper.BUDGET, f"{name}: nobody starts any more when {count}")


def _named(groups: list[GroupKey]) -> str:
    names = [f"{key.name} ({key.index})" if key.name else str(key.index) for key in groups]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{'group' if len(names) == 1 else 'groups'} {', '.join(names[:_NAMED])}{more}"
