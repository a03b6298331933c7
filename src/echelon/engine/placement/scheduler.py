"""All placements against the fleet, following every change.

This is what a controller holds: it is told what changed, answers which placements are concerned, and schedules them one
by one. It does no input or output and knows no time but the one that it is given, so it can be replayed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyroaring import BitMap

from echelon.api.cluster import AddOnPlacementScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from echelon.api.keys import Key
from echelon.api.placement import Placement
from echelon.engine.placement.addons import ScoreIndex
from echelon.engine.placement.balance import DecisionCounter
from echelon.engine.placement.fleet import STEP, ClusterChange, FleetIndex
from echelon.engine.placement.placement_scheduler import PlacementScheduler
from echelon.engine.placement.schedule import Schedule
from echelon.engine.placement.sets import ClusterSets
from echelon.engine.placement.watch_index import WatchIndex


@dataclass(frozen=True)
class Observed:
    """All that a scheduler follows, as it is at one moment."""

    clusters: Iterable[ManagedCluster] = ()
    sets: Iterable[ManagedClusterSet] = ()
    bindings: Iterable[ManagedClusterSetBinding] = ()
    scores: Iterable[AddOnPlacementScore] = ()
    placements: Iterable[Placement] = ()
    decided: Mapping[Key, Iterable[str]] = field(default_factory=dict)


class Scheduler:
    """Follows clusters, sets, bindings, scores, placements and decisions; answers with the placements concerned."""

    def __init__(self) -> None:
        self.fleet = FleetIndex()
        self.sets = ClusterSets()
        self.addons = ScoreIndex()
        self.decisions = DecisionCounter(self.fleet.names)
        self._watches = WatchIndex()
        self._placements: dict[str, dict[str, PlacementScheduler]] = {}  # by namespace and name

    @classmethod
    def of(cls, observed: Observed, seen: datetime, before: "Scheduler | None" = None) -> "Scheduler":
        """Make a scheduler that has followed everything up to now. Only `before` knows since when taints were seen."""
        made = cls()
        for cluster in observed.clusters:
            known = before.fleet.find(cluster.metadata.name) if before is not None else None
            made.fleet.update(cluster, seen, known.taints if known is not None else ())
        for cluster_set in observed.sets:
            made.cluster_set(cluster_set)
        for binding in observed.bindings:
            made.binding(binding)
        for score in observed.scores:
            made.score(score)
        for placement in observed.placements:
            made.placement(placement)
        for key, clusters in observed.decided.items():
            made.decided(key, clusters)
        return made

    def cluster(self, source: ManagedCluster, seen: datetime | None = None) -> set[Key]:
        """Take a cluster as it is now, and was seen at a time from which taints count that have none."""
        return self._follow(self.fleet.update(source, seen))

    def cluster_gone(self, name: str) -> set[Key]:
        """Forget a cluster."""
        return self._follow(self.fleet.remove(name))

    def score(self, source: AddOnPlacementScore) -> set[Key]:
        """Take the scores that an add-on gives to a cluster."""
        if not self.addons.update(source):
            return set()
        return self._scored(source.metadata.namespace, source.metadata.name)

    def score_gone(self, cluster: str, resource: str) -> set[Key]:
        """Forget scores of an add-on."""
        return self._scored(cluster, resource) if self.addons.remove(cluster, resource) else set()

    def cluster_set(self, source: ManagedClusterSet) -> set[Key]:
        """Take a set as it is now."""
        self.sets.update(source)
        return self._choose_again(self.sets.namespaces(source.metadata.name))

    def cluster_set_gone(self, name: str) -> set[Key]:
        """Forget a set."""
        self.sets.remove(name)
        return self._choose_again(self.sets.namespaces(name))

    def binding(self, source: ManagedClusterSetBinding) -> set[Key]:
        """Take a binding of a set to a namespace."""
        self.sets.bind(source)
        return self._choose_again([source.metadata.namespace])

    def binding_gone(self, namespace: str, name: str) -> set[Key]:
        """Forget a binding."""
        self.sets.unbind(namespace, name)
        return self._choose_again([namespace])

    def placement(self, source: Placement) -> set[Key]:
        """Take a placement as it is now."""
        scheduler = PlacementScheduler(source, self.fleet, self.decisions, self.addons)
        namespace, name = scheduler.key
        self._placements.setdefault(namespace, {})[name] = scheduler
        scheduler.choose_from(self.sets.eligibility(namespace, source.spec.cluster_sets))
        self._register(scheduler)
        return {scheduler.key}

    def placement_gone(self, key: Key) -> None:
        """Forget a placement and its decisions."""
        namespace, name = key
        self._placements.get(namespace, {}).pop(name, None)
        self._watches.remove(key)
        self.decisions.forget(key)

    def decided(self, key: Key, clusters: Iterable[str]) -> None:
        """Hear which clusters a placement is meant to have now; it concerns no other until that is scheduled again."""
        changed = self.decisions.replace(key, clusters)
        scheduler = self._find(key)
        if scheduler is not None:
            scheduler.decided(changed)

    def schedule(self, key: Key, now: datetime, slice_cost: int | None = None) -> Schedule | None:
        """Schedule a placement; nothing if there is none of this name.

        With a limit to what its expressions may cost, raises `Unfinished`, and `advance` is to be called.
        """
        scheduler = self._find(key)
        return None if scheduler is None else scheduler.schedule(now, slice_cost)

    def advance(self, key: Key, now: datetime, slice_cost: int) -> None:
        """Go on with what expressions say of clusters, for at most so much."""
        scheduler = self._find(key)
        if scheduler is not None:
            scheduler.advance(now, slice_cost)

    def placements(self) -> list[Key]:
        """Return the placements that are known."""
        return [scheduler.key for placements in self._placements.values() for scheduler in placements.values()]

    def differences(self, key: Key, placement: Placement | None) -> Iterator[str | None]:
        """Tell what is known of a placement and should not be, given what it is now; None where one may pause."""
        scheduler = self._find(key)
        if scheduler is None or placement is None:
            if scheduler is not None or placement is not None:
                yield f"placement {key} is {'missing' if scheduler is None else 'gone, and still known'}"
            return
        eligibility = self.sets.eligibility(key.namespace, placement.spec.cluster_sets)
        if scheduler.spec != placement.spec or scheduler.eligibility != eligibility:
            yield f"placement {key} is known in another state"
        yield from self._watches.differences(key, scheduler.compiled, eligibility)
        for numbers in self.slices():
            # What was paused for may have replaced it.
            if self._find(key) is scheduler:
                yield from scheduler.differences(numbers)
            yield None

    def slices(self) -> Iterator[BitMap]:
        """Walk the numbers of all clusters, so many at a time."""
        for first in range(0, self.fleet.names.limit, STEP):
            yield BitMap(range(first, first + STEP))

    def _find(self, key: Key) -> PlacementScheduler | None:
        namespace, name = key
        return self._placements.get(namespace, {}).get(name)

    def _follow(self, change: ClusterChange) -> set[Key]:
        concerned = self._watches.concerned(change, self.fleet)
        for key in concerned:
            self._touch(key, change.id)
        return concerned

    def _scored(self, cluster: str, resource: str) -> set[Key]:
        found = self.fleet.find(cluster)
        if found is None:
            return set()
        concerned = self._watches.concerned_by_score(found, resource)
        for key in concerned:
            self._touch(key, found.id)
        return concerned

    def _touch(self, key: Key, number: int) -> None:
        scheduler = self._find(key)
        if scheduler is not None:
            scheduler.touch([number])

    def _choose_again(self, namespaces: Iterable[str]) -> set[Key]:
        """Let placements of some namespaces choose from what is bound there now."""
        concerned = set()
        for namespace in namespaces:
            for scheduler in self._placements.get(namespace, {}).values():
                if scheduler.choose_from(self.sets.eligibility(namespace, scheduler.spec.cluster_sets)):
                    self._register(scheduler)
                    concerned.add(scheduler.key)
        return concerned

    def _register(self, scheduler: PlacementScheduler) -> None:
        self._watches.register(scheduler.key, scheduler.compiled, scheduler.eligibility)
