"""What expressions say of clusters, asked once and remembered until a cluster changes.

An expression is a tenant's, the process is everybody's. So asking is done in slices: who asks says how much a slice may
cost, and goes on later from where it ended. What one expression may cost for one cluster is a part of a slice, and what
a placement may cost for the whole fleet is limited, too: more of either is a mistake in the placement.
"""

from dataclasses import dataclass
from typing import Final

from echelon.engine.cel import Budget, CostExceeded
from echelon.engine.placement import expressions
from echelon.engine.placement.addons import ScoreIndex
from echelon.engine.placement.compiled import Misconfigured, Predicate, Unfinished
from echelon.engine.placement.fleet import Cluster

PER_CLUSTER: Final = 20_000  # for one expression, of one cluster
PER_FLEET: Final = 5_000_000  # for all expressions of a placement, and for each cluster:
ON_AVERAGE: Final = 300
_VIEW = 60  # for showing a cluster to expressions
_ASKING = 5  # for each expression, however cheap


@dataclass(frozen=True, slots=True)
class _Opinion:
    cost: int
    agrees: bool = False
    fault: Misconfigured | None = None  # why there is none


class Opinions:
    """The results of one placement's expressions."""

    def __init__(self, addons: ScoreIndex) -> None:
        self._addons = addons
        self._known: dict[int, dict[int, _Opinion]] = {}  # by cluster and predicate
        self._tried: dict[int, dict[int, _Opinion]] = {}  # in a slice that may have to be forgotten
        self._cost = 0  # of all that is known
        self._spent = 0  # in this slice
        self._limit: int | None = None

    def forget(self, cluster: int) -> None:
        """Hear that a cluster is another than it was."""
        self._cost -= sum(opinion.cost for opinion in self._known.pop(cluster, {}).values())

    def begin(self, slice_cost: int | None) -> None:
        """Begin to ask, for at most so much; with None, for as long as it takes."""
        self._limit, self._spent, self._tried = slice_cost, 0, {}

    def keep(self) -> None:
        """Remember what was found since `begin`; else, the next `begin` forgets it."""
        for cluster, found in self._tried.items():
            self._known.setdefault(cluster, {}).update(found)
        self._cost += self._spent
        self.begin(self._limit)

    def agrees(self, predicate: Predicate, cluster: Cluster) -> bool:
        """Tell whether all expressions of a predicate are true of a cluster.

        Raises Unfinished if the slice is over, and Misconfigured if the expressions cost too much.
        """
        known = self._known.get(cluster.id, {}).get(predicate.index)
        found = self._tried.get(cluster.id, {}).get(predicate.index) if known is None else known
        if found is None:
            found = self._ask(predicate, cluster)
            self._spent += found.cost
            self._tried.setdefault(cluster.id, {})[predicate.index] = found
        if found.fault is not None:
            raise found.fault
        return found.agrees

    def _ask(self, predicate: Predicate, cluster: Cluster) -> _Opinion:
        seen, cost = expressions.view(cluster, self._addons), _VIEW
        if self._cost + self._spent > PER_FLEET + ON_AVERAGE * len(self._known):
            why = "the expressions of this placement cost too much for so many clusters"
            return _Opinion(cost, fault=_too_expensive(predicate, 0, why))
        for index, program in enumerate(predicate.programs):
            if self._limit is not None and self._limit - self._spent - cost < PER_CLUSTER:
                raise Unfinished
            budget = Budget(PER_CLUSTER, PER_CLUSTER)
            try:
                holds = expressions.matches(program, seen, budget)
            except CostExceeded as error:
                why = f"{error} for cluster {cluster.name}"
                return _Opinion(cost + PER_CLUSTER, fault=_too_expensive(predicate, index, why))
            cost += _ASKING + PER_CLUSTER - budget.left
            if not holds:
                return _Opinion(cost)
        return _Opinion(cost, agrees=True)


def _too_expensive(predicate: Predicate, index: int, why: str) -> Misconfigured:
    path = f"spec.predicates[{predicate.index}].requiredClusterSelector.celSelector.celExpressions[{index}]"
    return Misconfigured("Predicate", f"{why}, at {path}")
