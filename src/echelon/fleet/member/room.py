"""The room on a member's nodes, so that the best node for a pod is found without a walk over all of them.

Pods with the same demand see the same nodes in the same order, and a pod changes one node. So for each demand that was
asked for lately there is a heap of the nodes that fit, and only nodes that have changed since are looked at again.
What it finds is what `choose` would: tests hold one against the other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from echelon.fleet.member.decide.scheduling import (
    Demand,
    NodeView,
    Requests,
    Usage,
    closed,
    explanation,
    load,
    rank,
    shortage,
)

_MOST_SEARCHES = 64
_UNUSED = Usage()
_Candidate = tuple[int, float, str, int]  # rank, load, name, and the version of the node that this is about


@dataclass(eq=False)
class _Search:
    """The nodes that fit one demand, best first; nodes in `stale` have changed since."""

    demand: Demand
    stale: dict[str, None]
    ranks: dict[str, int | None] = field(default_factory=dict)  # None for nodes that it may not use
    heap: list[_Candidate] = field(default_factory=list)
    said: tuple[int, str] = (-1, "")  # why there is no node, and when that was


@dataclass
class Room:
    """Nodes by name, and what is used of them."""

    nodes: dict[str, NodeView] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    changes: int = 0
    _versions: dict[str, int] = field(default_factory=dict)
    _searches: dict[Demand, _Search] = field(default_factory=dict)

    def set_node(self, name: str, node: NodeView | None) -> None:
        """Learn of a node, or with None of its end."""
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node
        for search in self._searches.values():
            search.ranks.pop(name, None)
        self._changed(name)

    def take(self, name: str, requests: Requests, sign: int = 1) -> None:
        """Use room on a node, or with -1 give it back."""
        used = self.usage.get(name)
        if used is None:
            used = self.usage[name] = Usage()
        used.add(requests, sign)
        self._changed(name)

    def find(self, demand: Demand) -> str:
        """Return the best node for a pod; empty if there is none."""
        search = self._searches.pop(demand, None) or _Search(demand, dict.fromkeys(self._candidates(demand)))
        self._searches[demand] = search  # the newest is the last
        if len(self._searches) > _MOST_SEARCHES:
            del self._searches[next(iter(self._searches))]
        self._refresh(search)
        heap, versions = search.heap, self._versions
        while heap:
            _, _, name, version = heap[0]
            if versions.get(name) == version:
                return name
            heappop(heap)
        return ""

    def fits(self, demand: Demand, name: str) -> bool:
        """Tell whether a pod for which room was taken may still go to a node."""
        node = self.nodes.get(name)
        return node is not None and not closed(demand, node)

    def why_not(self, demand: Demand) -> str:
        """Say why there is no node for a pod."""
        search = self._searches.get(demand)
        if search is None:
            return explanation(demand, self.nodes.values(), self.usage)
        if search.said[0] != self.changes:
            search.said = (self.changes, explanation(demand, self.nodes.values(), self.usage))
        return search.said[1]

    def _candidates(self, demand: Demand) -> Iterable[str]:
        names = demand.place.names
        return self.nodes if names is None else names

    def _changed(self, name: str) -> None:
        self.changes += 1
        self._versions[name] = self.changes
        for search in self._searches.values():
            search.stale[name] = None

    def _refresh(self, search: _Search) -> None:
        demand, heap = search.demand, search.heap
        for name in search.stale:
            node = self.nodes.get(name)
            if node is None:
                continue
            if name not in search.ranks:
                search.ranks[name] = None if closed(demand, node) else rank(demand, node)
            ranked = search.ranks[name]
            used = self.usage.get(name, _UNUSED)
            if ranked is not None and not shortage(demand.requests, node, used):
                heappush(heap, (ranked, load(demand, node, used), name, self._versions.get(name, 0)))
        search.stale.clear()
        if len(heap) > 4 * len(self.nodes) + _MOST_SEARCHES:  # nodes that have changed often are in it often
            search.heap = [each for each in heap if self._versions.get(each[2]) == each[3]]
            heapify(search.heap)
