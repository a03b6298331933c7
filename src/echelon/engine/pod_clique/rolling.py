"""Which pods a roll takes next: within the replica whose turn it is, pod by pod and group replica by group replica.

What is not ready goes at once, because replacing it takes nothing away. Ready units go as far as their budget lets
them: the oldest template first, then the oldest pod; of groups the lowest replica. A clique's pods go only after the
clique has the new template, or they would come back as they were. The cliques of a group keep the old template until
their replica is taken, so that a pod which crashes before comes back like its neighbours; then all pods of the replica
go together, those of unchanged cliques too, because a replica works as a whole. Pods that were made since the update
began stay.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from echelon.api.times import parse_time
from echelon.engine.pod_clique.floor import ReplicaTurns, UnitBudget
from echelon.engine.pod_clique.pod_facts import EPOCH, PodFacts
from echelon.engine.pod_clique.standing import CliqueStanding, GroupStanding, ReplicaStanding, Templates, Unit
from echelon.engine.pod_clique.strategy_change import Update, is_rolled


@dataclass(frozen=True)
class RollLimits:
    """What limits a roll."""

    budgets: Mapping[str, UnitBudget]  # by clique or group
    turns: ReplicaTurns
    busy: Collection[str]  # cliques of which something goes already in this plan
    now: datetime

    def gave_up(self, since: datetime | None, deadline: timedelta) -> bool:
        """Whether nobody waits any more for something that is down."""
        return since is not None and self.now - since >= deadline


@dataclass
class Roll:
    """What a roll does in one plan."""

    pods: dict[str, list[PodFacts]] = field(default_factory=dict)  # to delete, by clique
    ready_pods: dict[str, list[str]] = field(default_factory=dict)  # the ready ones of standalone cliques, by clique
    ready_units: dict[str, list[int]] = field(default_factory=dict)  # ready replicas, by group
    retemplated: set[str] = field(default_factory=set)  # cliques of groups that get the new template now
    stuck: set[int] = field(default_factory=set)  # replicas in which nothing moves and nothing is waited for


def roll_replica(
    replica: ReplicaStanding,
    update: Update,
    templates: Templates,
    limits: RollLimits,
    roll: Roll,
) -> None:
    """Take what may go of a replica that is rolled."""
    budgets, busy = limits.budgets, limits.busy
    moved, waits = False, False
    for clique in replica.cliques:
        if clique.view is None:
            waits = True
            continue
        budget = budgets[clique.expected.name]
        if is_rolled(clique.view.status.update_progress, update, replica.index):
            taken = clique.expected.name in busy or _roll_clique(clique, templates, budget, limits, roll)
            moved |= taken
        else:
            waits |= bool(clique.outdated)  # its status does not say yet that it is rolled
        waits |= budget.out > 0 or not clique.synced or (clique.lags and budget.may_roll)
    for group in replica.groups:
        if group.view is None:
            waits = True
            continue
        budget = budgets[group.expected.name]
        if is_rolled(group.view.status.update_progress, update, replica.index):
            moved |= _roll_group(group, budget, limits, roll)
        else:
            waits |= group.lags
        waits |= budget.out > 0 or (group.lags and budget.may_roll)
    if not moved and not waits and not replica.converged:
        roll.stuck.add(replica.index)


def _roll_clique(
    clique: CliqueStanding, templates: Templates, budget: UnitBudget, limits: RollLimits, roll: Roll
) -> bool:
    if clique.view is None or not clique.outdated or not clique.synced:
        return False
    name, replica, turns = clique.expected.name, clique.expected.key.replica, limits.turns
    outdated = [pod for pod in clique.view.pods if pod.live and not clique.is_current(pod.hash)]

    def rank(pod: PodFacts) -> tuple[bool, int, datetime, str]:
        return (pod.ready, templates.age(clique.expected.spec.name, pod.hash), pod.created, pod.name)

    taken: list[PodFacts] = []
    for pod in sorted(outdated, key=rank):
        waited = limits.gave_up(pod.since, clique.expected.spec.progress_deadline)
        if not budget.roll(ready=pod.ready, turn=turns.may_roll(replica), given_up=waited):
            continue
        taken.append(pod)
        if pod.ready:
            turns.took(replica)
            roll.ready_pods.setdefault(name, []).append(pod.name)
    if taken:
        roll.pods[name] = taken
    return bool(taken)


def _roll_group(group: GroupStanding, budget: UnitBudget, limits: RollLimits, roll: Roll) -> bool:
    if group.view is None or group.view.status.update_progress is None:
        return False
    if any(each.expected.name in limits.busy for unit in group.units for each in unit.cliques):
        return True
    replica, moved, turns = group.expected.key.replica, False, limits.turns
    began = parse_time(group.view.status.update_progress.update_started_at) or EPOCH
    outdated = [unit for unit in group.units if unit.lags]
    for unit in sorted(outdated, key=_unit_rank):
        ready = unit.available
        waited = not ready and limits.gave_up(unit.down_since(), group.spec.progress_deadline)
        if not budget.roll(ready=ready, turn=turns.may_roll(replica), given_up=waited):
            continue
        moved = True
        if ready:
            turns.took(replica)
            roll.ready_units.setdefault(group.expected.name, []).append(unit.index)
        _take_unit(unit, began, roll)
    return moved


def _take_unit(unit: Unit, began: datetime, roll: Roll) -> None:
    """Give a replica of a group the new template, and once it has it, take its pods."""
    lagging = [each for each in unit.cliques if each.view is not None and not each.synced]
    if lagging:
        roll.retemplated.update(each.expected.name for each in lagging)
        return
    for clique in unit.cliques:
        pods = clique.view.pods if clique.view is not None else ()
        old = [pod for pod in pods if pod.live and (not clique.is_current(pod.hash) or pod.created < began)]
        if old:
            roll.pods[clique.expected.name] = old


def _unit_rank(unit: Unit) -> tuple[bool, bool, int]:
    """What is not ready first, then what was begun, then the lowest."""
    begun = all(each.view is None or each.synced for each in unit.cliques)
    return (unit.available, not begun, unit.index)
