"""Pods that wait for a node: those that nobody has looked at yet, and those for which there was none.

Room for one pod is no reason to try ten thousand. Those that found no node are kept by what they ask for, in the order
of their turns: as long as there is no node for the first of a kind, there is none for the others.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import NamedTuple

from echelon.fleet.member.decide.scheduling import Demand
from echelon.hub.storage.store import Key


class Turn(NamedTuple):
    """When somebody's turn is: the smallest is the first."""

    priority: int  # negative
    order: int
    key: Key  # of a pod or of a gang


class Kind(NamedTuple):
    """Pods that are alike. Those beyond the minimum of a gang come after all others."""

    demand: Demand
    beyond: bool


@dataclass
class SchedulingQueue:
    """The pods of one cluster that have no node and may have one."""

    fresh: dict[Key, None] = field(default_factory=dict)
    parked: dict[Kind, list[Turn]] = field(default_factory=dict)
    room_came: bool = False
    nodes_changed: bool = False
    _demands: dict[Key, Demand] = field(default_factory=dict)  # of all that are here
    _places: dict[Key, tuple[Kind, Turn]] = field(default_factory=dict)  # of those that are parked

    def __len__(self) -> int:
        return len(self._demands)

    def add(self, key: Key, demand: Demand) -> bool:
        """Let a pod wait; tell whether it is to be looked at."""
        if self._demands.get(key) is demand:
            return False
        self.drop(key)
        self._demands[key] = demand
        self.fresh[key] = None
        return True

    def drop(self, key: Key) -> None:
        """Let a pod wait no more."""
        self.set_aside(key)
        self._demands.pop(key, None)

    def set_aside(self, key: Key) -> None:
        """Let a pod wait until its gang is looked at."""
        self.fresh.pop(key, None)
        if (place := self._places.pop(key, None)) is not None:
            kind, turn = place
            turns = self.parked[kind]
            del turns[bisect_left(turns, turn)]
            if not turns:
                del self.parked[kind]

    def park(self, turn: Turn, *, beyond: bool) -> None:
        """Let a pod wait until there is room."""
        demand = self._demands.get(turn.key)
        if demand is not None:
            self.set_aside(turn.key)
            kind = Kind(demand, beyond)
            self._places[turn.key] = (kind, turn)
            insort(self.parked.setdefault(kind, []), turn)

    def renew(self, key: Key) -> None:
        """Look at a pod anew."""
        if key in self._demands:
            self.set_aside(key)
            self.fresh[key] = None

    def is_parked(self, key: Key) -> bool:
        """Tell whether there was no node for a pod when it was looked at."""
        return key in self._places

    def after(self, kind: Kind, turn: Turn) -> Turn | None:
        """Return whose turn comes after another one's among those that are alike."""
        turns = self.parked.get(kind, [])
        place = bisect_left(turns, turn)
        place += place < len(turns) and turns[place] == turn
        return turns[place] if place < len(turns) else None
