"""What stories about PodCliqueSets on a simulated cluster are told with: machines that open, and somebody who counts.

The workloads are those of Grove's own tests: a standalone clique `pc-a` of two pods, and a scaling group `sg-x` of two
replicas, in each of which one pod of `pc-b` leads and three of `pc-c` work. In full all of it has to start together; at
its least one pod of each clique and one replica of the group are enough.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.core import NODE, POD
from echelon.fleet.member.profile import NodeShape
from echelon.hub.storage.store import Change
from echelon.kube.client import MergePatch
from tests.controllers.clique_world import CliqueWorld, clique, group, is_ready, set_of

SLOT = NodeShape(cpu="1")  # room for one pod
ONE = {"containers": [{"name": "main", "image": "v1", "resources": {"requests": {"cpu": "1"}}}]}


def in_full(**template: Any) -> JSONObject:
    """Return a set of ten pods a replica that start together or not at all."""
    cliques = (clique("pc-a", 2, pods=ONE), clique("pc-b", 1, pods=ONE), clique("pc-c", 3, pods=ONE))
    return set_of(*cliques, podCliqueScalingGroups=[group("sg-x", "pc-b", "pc-c", least=2)], **template)


def at_least(**template: Any) -> JSONObject:
    """Return a set of ten pods a replica of which three start together, and two of the group's other replica."""
    few: dict[str, Any] = {"minAvailable": 1, "pods": ONE}
    cliques = (clique("pc-a", 2, **few), clique("pc-b", 1, **few), clique("pc-c", 3, **few))
    return set_of(*cliques, podCliqueScalingGroups=[group("sg-x", "pc-b", "pc-c")], **template)


@dataclass
class Machines:
    """Machines with room for one pod each, of which so many are open as somebody says."""

    world: CliqueWorld
    opened: int = 0

    async def close_all(self) -> None:
        """Let no pod come any more; those that are there stay."""
        await self._cordon(self._names(), closed=True)
        self.opened = 0

    async def open(self, count: int) -> None:
        """Let so many more be used, and time pass until they are."""
        await self._cordon(self._names()[self.opened : self.opened + count], closed=False)
        self.opened += count
        await self.world.settle(30)

    async def open_all(self) -> None:
        await self.open(len(self._names()) - self.opened)

    def _names(self) -> list[str]:
        return sorted(self.world.member.context.index.nodes, key=lambda name: int(name.rpartition("-")[2]))

    async def _cordon(self, names: Iterable[str], *, closed: bool) -> None:
        for name in names:
            patch = MergePatch({"spec": {"unschedulable": closed or None}})
            await self.world.client.patch(NODE.untyped(), name, patch)


def placed(world: CliqueWorld) -> Counter[str]:
    """Return how many pods of each gang have a node, for the gangs that have any."""
    return Counter(pod["metadata"]["labels"]["grove.io/podgang"] for pod in world.pods() if pod["spec"].get("nodeName"))


def placed_of(world: CliqueWorld, clique_name: str) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in world.pods(clique_name))


def uids(world: CliqueWorld, *cliques: str) -> set[str]:
    """Return the uids of the live pods of some cliques, or of all."""
    found = [pod for each in cliques for pod in world.pods(each)] if cliques else world.pods()
    return {pod["metadata"]["uid"] for pod in found}


@dataclass
class Watch:
    """The least that served of each unit, at every committed state since it began to look.

    A standalone clique serves with each ready pod, a scaling group with each replica all of whose cliques have as many
    ready pods as `needed` says.
    """

    world: CliqueWorld
    needed: dict[str, int] = field(default_factory=lambda: {"pc-b": 1, "pc-c": 3})
    served: dict[str, int] = field(default_factory=dict)  # by clique or group: now
    least: dict[str, int] = field(default_factory=dict)  # by clique or group: the least
    at_once: set[frozenset[str]] = field(default_factory=set)  # replicas of the set with less than they had, together

    def __post_init__(self) -> None:
        self._had = self.look()
        self.world.member.cluster.store.on_commit(self._committed)

    def look(self) -> dict[str, int]:
        cliques: Counter[str] = Counter()
        members: dict[str, dict[str, Counter[str]]] = {}
        for pod in self.world.log.living.values():
            labels, ready = pod["metadata"]["labels"], is_ready(pod)
            name, owner = labels["grove.io/podclique"], labels.get("grove.io/podcliquescalinggroup")
            if owner is None:
                cliques[name] += ready
                continue
            index = labels["grove.io/podcliquescalinggroup-replica-index"]
            counts = members.setdefault(owner, {}).setdefault(index, Counter())
            counts[name.removeprefix(f"{owner}-{index}-")] += ready
        works = {
            owner: sum(all(counts[each] >= need for each, need in self.needed.items()) for counts in units.values())
            for owner, units in members.items()
        }
        return {**cliques, **works}

    def _committed(self, change: Change) -> None:
        if change.entry.key.resource != POD.resource:
            return
        self.served = self.look()
        lacking = {name for name, had in self._had.items() if self.served.get(name, 0) < had}
        self.at_once.add(frozenset(name.split("-")[1] for name in lacking))
        for name in self._had:
            now = self.served.get(name, 0)
            self.least[name] = min(self.least.get(name, now), now)

    def again(self) -> None:
        """Look from now on."""
        self._had = self.look()
        self.least, self.at_once = dict(self._had), set()

    def one_replica_at_a_time(self) -> bool:
        return all(len(each) <= 1 for each in self.at_once)
