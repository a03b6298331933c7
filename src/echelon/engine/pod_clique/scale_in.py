"""Which pods of a clique, and which replicas of a group, go when there are too many.

Under OnDelete an outdated pod is the first choice, because scaling in is one of the few occasions to be rid of it;
under RollingRecreate, where it would be rolled anyway, pods that do not serve go first. Either way a choice that would
break the floor is passed over, which leaves enough others: whoever is passed over is ready, and so many ready pods are
not too many. Groups lose their highest replicas, so that no holes form; there a choice that is passed over waits.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeAlias

from echelon.engine.pod_clique.floor import UnitBudget
from echelon.engine.pod_clique.pod_facts import PodFacts
from echelon.engine.pod_clique.standing import CliqueStanding, GroupStanding, Templates, Unit

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Rank: TypeAlias = tuple[bool, bool, bool, int, float, str]


def excess_pods(
    clique: CliqueStanding, templates: Templates, budget: UnitBudget, *, on_delete: bool
) -> tuple[PodFacts, ...]:
    """Return the pods that go because there are more than wanted, in the order of choice."""
    if clique.view is None or clique.tally.live <= clique.replicas:
        return ()
    name = clique.expected.spec.name
    too_many = clique.tally.live - clique.replicas
    live = (pod for pod in clique.view.pods if pod.live)
    gone: list[PodFacts] = []
    for pod in ranked(live, name, templates, on_delete=on_delete):
        if len(gone) == too_many:
            break
        if budget.scale_in(ready=pod.ready):
            gone.append(pod)
    return tuple(gone)


def ranked(pods: Iterable[PodFacts], clique: str, templates: Templates, *, on_delete: bool) -> list[PodFacts]:
    """Return the live pods of a clique in the order in which a scale-in takes them."""
    current = templates.current[clique]

    def rank(pod: PodFacts) -> Rank:
        fresh, serves = pod.hash in current, (pod.scheduled, pod.ready)
        states = (fresh, *serves) if on_delete else (*serves, fresh)
        age = templates.age(clique, pod.hash)
        return (*states, age, -(pod.created - _EPOCH).total_seconds(), pod.name)

    return sorted(pods, key=rank)


def excess_units(group: GroupStanding, budget: UnitBudget) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
    """Return the replicas of a group that go because there are more than wanted, and those that have to wait."""
    gone: list[Unit] = []
    waiting: list[Unit] = []
    for unit in sorted(group.surplus, key=lambda each: -each.index):
        (gone if budget.scale_in(ready=unit.available) else waiting).append(unit)
    return tuple(gone), tuple(waiting)
