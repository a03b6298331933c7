"""What goes of a set: pods and replicas that are too many, gangs that are broken, and what is rolled.

In this order: a scale-in is what a user asked for; a gang that has been broken for hours comes before an update; and
all of them draw on the same budgets, so that what one takes the next one misses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from echelon.api.grovestatus import PodCliqueScalingGroupStatus, PodCliqueStatus
from echelon.api.times import format_time
from echelon.engine.pod_clique.floor import ReplicaTurns, UnitBudget
from echelon.engine.pod_clique.interruption import interrupted, rolled
from echelon.engine.pod_clique.names import base_gang_name
from echelon.engine.pod_clique.pod_facts import PodFacts
from echelon.engine.pod_clique.rolling import Roll, RollLimits, roll_replica
from echelon.engine.pod_clique.scale_in import excess_pods, excess_units
from echelon.engine.pod_clique.set_spec import SetSpec
from echelon.engine.pod_clique.shape import Shape, expected
from echelon.engine.pod_clique.standing import (
    CliqueStanding,
    ReplicaStanding,
    Templates,
    Unit,
    clique_ledger,
    group_ledger,
    standings,
    templates_of,
)
from echelon.engine.pod_clique.strategy_change import Update, observed_update
from echelon.engine.pod_clique.syncing import Beyond, beyond, sizes
from echelon.engine.pod_clique.termination import ANNOTATION, Termination, gangs_of, is_out, noted, terminate
from echelon.engine.pod_clique.view import SetView
from echelon.engine.rollout.control import PAUSED


@dataclass(frozen=True)
class Facts:
    """What a plan goes by, read off the view."""

    view: SetView
    spec: SetSpec
    templates: Templates
    shape: Shape
    beyond: Beyond
    replicas: tuple[ReplicaStanding, ...]
    cliques: Mapping[str, CliqueStanding]  # by name
    update: Update
    paused: str  # why nothing is rolled
    now: datetime
    stamp: str  # the same, as statuses have it

    @property
    def set_name(self) -> str:
        """The name of the set."""
        return self.view.set.metadata.name


@dataclass
class Moves:
    """What goes, and what has to wait."""

    pods: dict[str, dict[str, PodFacts]] = field(default_factory=dict)  # to delete, by clique and name
    excess: dict[str, dict[str, PodFacts]] = field(default_factory=dict)  # those of them that are too many, the same
    units: dict[str, tuple[Unit, ...]] = field(default_factory=dict)  # replicas that are too many, to delete, by group
    held: dict[str, tuple[Unit, ...]] = field(default_factory=dict)  # those that have to stay, by group
    roll: Roll = field(default_factory=Roll)
    turns: ReplicaTurns = field(default_factory=ReplicaTurns)
    out: set[int] = field(default_factory=set)  # replicas of which something is missing that is expected back
    interrupted: dict[int, datetime] = field(default_factory=dict)  # replicas whose roll was, and since when, if noted
    budgets: dict[str, UnitBudget] = field(default_factory=dict)  # by clique or group
    due: list[datetime] = field(default_factory=list)  # when something is to be looked at again
    more: bool = False  # there is more to be told than one plan tells

    def take(self, clique: str, pods: Iterable[PodFacts]) -> None:
        """Delete pods of a clique."""
        for pod in pods:
            self.pods.setdefault(clique, {})[pod.name] = pod


def read_facts(view: SetView, spec: SetSpec, now: datetime) -> Facts:
    """Read off a view what a plan goes by."""
    templates, shape = _shape(view, spec)
    extra = beyond(view, spec, shape, templates)
    replicas = standings(shape, view, templates, extra.surplus)
    return Facts(
        view,
        spec,
        templates,
        shape,
        extra,
        replicas,
        {each.expected.name: each for replica in replicas for each in replica.everything},
        observed_update(spec, view.set.status),
        why_paused(view.set.metadata.annotations),
        now,
        format_time(now),
    )


def _shape(view: SetView, spec: SetSpec) -> tuple[Templates, Shape]:
    """Return what should exist; it is the same until the set changes, or the size of a child."""
    groups, cliques = sizes(view)
    known = view.set.derived.get("shape")
    if known is None or known[:2] != (groups, cliques):
        shape = expected(spec, view.set.metadata.name, groups, cliques)
        known = view.set.derived["shape"] = (groups, cliques, templates_of(spec, view.set.revisions), shape)
    found: tuple[Templates, Shape] = known[2:]
    return found


def why_paused(annotations: Mapping[str, str]) -> str:
    """Return why nothing is rolled; nothing if it is. Who mistypes a pause wants one."""
    value = annotations.get(PAUSED, "false")
    if value == "false":
        return ""
    if value == "true":
        return f"annotation {PAUSED} says so"
    return f'annotation {PAUSED} is "{value}": it must be true or false'


def scale_in(facts: Facts) -> Moves:
    """Choose what goes because there is more than wanted."""
    moves, spec = Moves(), facts.spec
    for replica in facts.replicas:
        for clique in replica.everything:
            if clique.tally.live > clique.replicas and clique.view is not None:
                budget = clique_ledger(clique, facts.now)
                moves.budgets[clique.expected.name] = budget
                gone = excess_pods(clique, facts.templates, budget, on_delete=spec.on_delete)
                moves.excess[clique.expected.name] = {pod.name: pod for pod in gone}
                moves.take(clique.expected.name, gone)
        for group in replica.groups:
            if group.surplus:
                budget = group_ledger(group, facts.now)
                moves.budgets[group.expected.name] = budget
                moves.units[group.expected.name], held = excess_units(group, budget)
                if held:
                    moves.held[group.expected.name] = held
    _wait_for(facts, moves)
    return moves


def _wait_for(facts: Facts, moves: Moves) -> None:
    """Note which replicas have something out that was rolled or terminated, and until when they are waited for."""
    now, update, status = facts.now, facts.update, facts.view.set.status
    moves.interrupted = interrupted(facts.set_name, facts.replicas, status.pod_gang_statuses, now)
    waited = rolled(status) | moves.interrupted.keys()
    everyone = update.rolling or (update.starting and not update.on_delete)
    for replica in facts.replicas if everyone or waited else ():
        if not everyone and replica.index not in waited:
            continue
        if replica.index in moves.interrupted:
            moves.due.append(moves.interrupted[replica.index] + replica.deadline)
        for clique in replica.cliques:
            budget = moves.budgets.setdefault(clique.expected.name, clique_ledger(clique, now))
            deadline = clique.expected.spec.progress_deadline
            moves.due += [since + deadline for since in clique.down if since + deadline > now][:1]
            if budget.out:
                moves.out.add(replica.index)
        for group in replica.groups:
            budget = moves.budgets.setdefault(group.expected.name, group_ledger(group, now))
            times = [unit.down_since() for unit in group.units if not unit.available]
            moves.due += [at for each in times if each and (at := each + group.spec.progress_deadline) > now]
            if budget.out:
                moves.out.add(replica.index)
        if replica.index in moves.out and replica.index in waited:
            moves.turns.took(replica.index)
    notes = noted(status.pod_gang_statuses)
    for replica in facts.replicas if notes else ():
        for gang in gangs_of(facts.set_name, replica):
            if gang.name in notes and is_out(gang, notes[gang.name], now):
                moves.turns.took(replica.index)
                moves.due.append(notes[gang.name] + gang.deadline)


def end_gangs(
    facts: Facts,
    moves: Moves,
    cliques: Mapping[str, PodCliqueStatus],
    groups: Mapping[str, PodCliqueScalingGroupStatus],
) -> Termination:
    """Choose what goes because its gang has been broken for too long."""
    reading = facts.view.set
    found = terminate(
        facts.set_name,
        facts.spec,
        facts.replicas,
        cliques,
        groups,
        before=reading.status.pod_gang_statuses,
        turns=moves.turns,
        annotation=reading.metadata.annotations.get(ANNOTATION),
        now=facts.now,
        has_older=len(reading.revisions) > 1,
    )
    for clique, pods in found.pods.items():
        moves.take(clique, pods)
    if found.due is not None:
        moves.due.append(found.due)
    return found


def roll_on(facts: Facts, moves: Moves) -> None:
    """Choose what goes because it runs an older template."""
    if facts.paused or not facts.update.rolling:
        return
    progress = facts.view.set.status.update_progress
    order = [each.replica_index for each in progress.currently_updating] if progress is not None else []
    by_index = {replica.index: replica for replica in facts.replicas}
    for index in order:
        if index in by_index:
            limits = RollLimits(moves.budgets, moves.turns, moves.pods.keys(), facts.now)
            roll_replica(by_index[index], facts.update, facts.templates, limits, moves.roll)
    for clique, pods in moves.roll.pods.items():
        moves.take(clique, pods)


def is_terminated(facts: Facts, replica: int) -> bool:
    """Whether a replica as a whole was terminated and is not back."""
    name = base_gang_name(facts.set_name, replica)
    return name in noted(facts.view.set.status.pod_gang_statuses)
