"""How many ready units a deletion may take, and from where: the one budget for all that a controller deletes.

A *unit* is a pod of a standalone clique, or a replica of a scaling group; a *component* is that clique or that group in
one replica of the set. Whatever wants something deleted (a roll, a scale-in, a broken gang, pods that have ended) asks
the budget of its component, one after the other in one plan, so that deletions of one plan count for the next wish, and
deletions in flight count because whatever is being deleted is not ready. The decision that this keeps, word by word:

*After each deletion, ready units ≥ min(minAvailable, replicas - maxUnavailable); at scale-in ≥ min(minAvailable, new
replicas).* That is `rolling_floor` and `scale_in_floor`. A clique whose minAvailable equals its replicas is rolled one
unit at a time, because the first term of the minimum is never reached before the second.

*Below that only unready units go.* A unit that is not ready may always go: replacing it takes nothing away, and a
budget that is used up by pods which cannot start must not keep the update away that would let them start. A unit is
ready when its Ready condition says so now, whatever happened to its containers before.

*One replica of a set is rolled and one gang terminated at a time; no other ready unit goes until it is back or
progressDeadline (10 min if unset) is over.* "It" is what was taken. Within a component: a roll takes no ready unit
while maxUnavailable units are missing, but for those that have been down for longer than the deadline; these are given
up waiting for, and the floor alone limits what goes then. Between replicas of the set: while a replica that is rolled,
or a gang that was terminated, has something out within its deadline, ready units of other replicas stay
(`ReplicaTurns`). After the deadline a Warning is given and the next replica is rolled. Cliques and groups of one
replica are rolled side by side, each within its own floor.

A gang is terminated because it has been broken for longer than the termination delay: it is one unit that is not ready,
so the floor does not keep the pods alive that still run in it; that only one goes at a time does.

What is taken at scale-in is what a user asked to be gone. It keeps the floor and does not wait for its turn.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta


def rolling_floor(min_available: int, replicas: int, max_unavailable: int) -> int:
    """Return how many ready units a roll leaves at least."""
    return max(0, min(min_available, replicas - max_unavailable))


def scale_in_floor(min_available: int, new_replicas: int) -> int:
    """Return how many ready units a scale-in leaves at least."""
    return max(0, min(min_available, new_replicas))


def given_up(down: Sequence[datetime], deadline: timedelta, now: datetime) -> int:
    """Return how many units have been down for so long that nobody waits for them; `down` is sorted."""
    return bisect_right(down, now - deadline)


@dataclass
class UnitBudget:
    """What may still go from one component in one plan."""

    replicas: int  # units that are wanted
    min_available: int
    max_unavailable: int
    ready: int  # units that are ready and stay so, as far as is known
    given_up: int = 0  # units that are not ready, and have been so for longer than the deadline
    scaled_in: bool = False  # a ready unit goes because it is too many: the higher floor holds for the rest of the plan

    @property
    def out(self) -> int:
        """How many units are missing that are expected back."""
        return max(0, self.replicas - self.ready - self.given_up)

    def scale_in(self, *, ready: bool) -> bool:
        """Take a unit that is too many; False if it has to stay."""
        taken = self._take(ready, self.ready > scale_in_floor(self.min_available, self.replicas))
        self.scaled_in = self.scaled_in or (ready and taken)
        return taken

    @property
    def may_roll(self) -> bool:
        """Whether a ready unit could be replaced, if it were its turn."""
        floor = rolling_floor(self.min_available, self.replicas, self.max_unavailable)
        if self.scaled_in:
            floor = scale_in_floor(self.min_available, self.replicas)
        return self.out < self.max_unavailable and self.ready > floor

    def roll(self, *, ready: bool, turn: bool = True, given_up: bool = False) -> bool:
        """Take a unit to replace it; False if it has to stay. Only a unit that is not ready goes out of turn.

        One that nobody waited for any more (`given_up`) is expected back from now on.
        """
        self.given_up -= given_up and not ready
        return self._take(ready, turn and self.may_roll)

    def _take(self, ready: bool, allowed: bool) -> bool:
        if ready and not allowed:
            return False
        self.ready -= ready
        return True


@dataclass
class ReplicaTurns:
    """Which replicas of the set have something out that is expected back, because it was rolled or terminated."""

    out: set[int] = field(default_factory=set)

    def may_roll(self, replica: int) -> bool:
        """Whether a ready unit of a replica may go."""
        return not self.out - {replica}

    def may_terminate(self) -> bool:
        """Whether a gang may be terminated."""
        return not self.out

    def took(self, replica: int) -> None:
        """Note that something of a replica is out."""
        self.out.add(replica)
