"""What the placement controller knows besides its caches: the engine's scheduler, which follows every change.

Handlers keep it up to date, one for each kind, and return the placements that a change concerns. All of it follows from
the caches, but for one thing: when a taint was first seen that says no time itself. So it can be compared with them,
cluster by cluster, and made again.

What a placement has is what its decisions say, read whenever it is planned; and from the beginning of a plan's writes
until it is planned again, what the plan intends: other placements share its clusters and need not wait for the writes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from echelon.api.cluster import (
    GROUP,
    AddOnPlacementScore,
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
)
from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT, Placement, PlacementDecision
from echelon.engine.placement.current import PLACEMENT_LABEL, CurrentSlices, clusters_of, current_slices, slot_of
from echelon.engine.placement.fleet import STEP
from echelon.engine.placement.scheduler import Observed, Scheduler
from echelon.kube.cache import key_of
from echelon.kube.clock import Clock
from echelon.kube.informer import Delta, Informer

OPT_OUT_ANNOTATION = f"{GROUP}/experimental-scheduling-disable"

_FOREIGN = "/"  # before the name of a decision
_Versions = tuple[str, tuple[str, ...]]  # the uid of a placement, and the versions of its decisions


@dataclass(frozen=True)
class PlacementCaches:
    """What placements and their decisions follow from, and what they are."""

    clusters: Informer[ManagedCluster]
    sets: Informer[ManagedClusterSet]
    bindings: Informer[ManagedClusterSetBinding]
    scores: Informer[AddOnPlacementScore]
    placements: Informer[Placement]
    decisions: Informer[PlacementDecision]  # indexed by "owner" and "slot"

    @property
    def sources(self) -> list[Informer[Any]]:
        """All that decisions follow from."""
        return [getattr(self, each.name) for each in fields(self) if each.name != "decisions"]


class PlacementIndex:
    """A scheduler that follows caches."""

    def __init__(self, caches: PlacementCaches, clock: Clock) -> None:
        self.scheduler = Scheduler()
        self._caches = caches
        self._clock = clock
        self._complete = False  # whether it knows placements; not before the caches have everything
        self._counted: dict[Key, _Versions] = {}  # whose clusters are counted as these decisions say

    def observe(self, placement: Placement) -> list[PlacementDecision]:
        """Return the decisions of a placement, and see that the clusters are counted which they list."""
        key, uid = key_of(placement), placement.metadata.uid
        ours = self._caches.decisions.by_index("owner", uid)
        versions = (uid, tuple(decision.metadata.resource_version for decision in ours))
        if self._counted.get(key) != versions:
            self.scheduler.decided(key, self.current(placement, ours).memory.clusters)
            self._counted[key] = versions
        return ours

    def intend(self, key: Key, clusters: Iterable[str]) -> None:
        """Count other clusters for a placement, because they begin to be written."""
        self._counted.pop(key, None)
        self.scheduler.decided(key, clusters)

    def current(self, placement: Placement, ours: Iterable[PlacementDecision]) -> CurrentSlices:
        """Understand the decisions of a placement."""
        meta = placement.metadata
        return current_slices(ours, self._caches.decisions.by_index("slot", (meta.namespace, meta.name)))

    def follow_placements(self) -> None:
        """Know all placements from now on. Those who call this have waited for the caches."""
        if self._complete:
            return
        self._complete = True
        for placement in self._caches.placements.values():
            if is_scheduled(placement):
                self.scheduler.placement(placement)
                self.observe(placement)
        for decision in self._caches.decisions.values():
            self._count_foreign(decision)

    def cluster_changed(self, delta: Delta[ManagedCluster]) -> Iterable[Key]:
        """Follow a cluster."""
        new, gone = delta.new, delta.object.metadata.name
        return sorted(
            self.scheduler.cluster(new, self._clock.now()) if new is not None else self.scheduler.cluster_gone(gone)
        )

    def set_changed(self, delta: Delta[ManagedClusterSet]) -> Iterable[Key]:
        """Follow a set."""
        old, new = delta.old, delta.new
        if new is None:
            return sorted(self.scheduler.cluster_set_gone(delta.object.metadata.name))
        return sorted(self.scheduler.cluster_set(new)) if old is None or old.spec != new.spec else ()

    def binding_changed(self, delta: Delta[ManagedClusterSetBinding]) -> Iterable[Key]:
        """Follow a binding."""
        new, gone = delta.new, key_of(delta.object)
        return sorted(self.scheduler.binding(new) if new is not None else self.scheduler.binding_gone(*gone))

    def score_changed(self, delta: Delta[AddOnPlacementScore]) -> Iterable[Key]:
        """Follow scores of an add-on."""
        new, gone = delta.new, key_of(delta.object)
        return sorted(self.scheduler.score(new) if new is not None else self.scheduler.score_gone(*gone))

    def placement_changed(self, delta: Delta[Placement]) -> Iterable[Key]:
        """Follow a placement. One that people changed is planned at once anyhow."""
        old, new, key = delta.old, delta.new, key_of(delta.object)
        concerned = () if is_asked_for(delta) else (key,)
        if not self._complete:
            return concerned
        was, is_ = (each is not None and is_scheduled(each) for each in (old, new))
        if was and not is_:
            self.scheduler.placement_gone(key)
            self._counted.pop(key, None)
        if new is not None and is_ and (not was or old is None or old.spec != new.spec):
            self.scheduler.placement(new)
        uids = {each.metadata.uid for each in (old, new) if each is not None}
        if was != is_ or len(uids) > 1:
            for uid in uids:
                for decision in self._caches.decisions.by_index("owner", uid):
                    self._count_foreign(decision)
        return concerned

    def decision_changed(self, delta: Delta[PlacementDecision]) -> Iterable[Key]:
        """Follow a decision; here only those are counted that are not ours."""
        if self._complete:
            self._count_foreign(delta.object, gone=delta.new is None)
        if delta.initial:  # its placement is new to us, too
            return ()
        return [key for each in (delta.old, delta.new) if each is not None for key in _placements_of(each)]

    def _count_foreign(self, decision: PlacementDecision, *, gone: bool = False) -> None:
        """Count the clusters of a decision that nobody here makes, each under a name that no placement can have."""
        self.scheduler.decided(_foreign_key(key_of(decision)), self._foreign(None if gone else decision))

    def _foreign(self, decision: PlacementDecision | None) -> Iterable[str]:
        """Return the clusters of a decision if nobody here makes it."""
        return () if decision is None or self._is_ours(decision) else clusters_of(decision)

    def _is_ours(self, decision: PlacementDecision) -> bool:
        owners = [owner for owner in decision.metadata.owner_references if owner.kind == PLACEMENT.kind]
        keys = ((Key(decision.metadata.namespace, owner.name), owner.uid) for owner in owners)
        found = ((self._caches.placements.get(key), uid) for key, uid in keys)
        return any(placement and placement.metadata.uid == uid and is_scheduled(placement) for placement, uid in found)

    def differences(self) -> Iterator[str | None]:
        """Tell what is known otherwise than from the caches; None where one may pause.

        Each thing is compared with what it is at that moment, so pauses do no harm.
        """
        if not self._complete:
            return
        caches, scheduler = self._caches, self.scheduler
        yield from scheduler.sets.differences(caches.sets.values(), caches.bindings.values())
        names = [cluster.metadata.name for cluster in caches.clusters.values()]
        yield from scheduler.fleet.differences(names, lambda name: caches.clusters.get(Key("", name)))
        scores = {*map(key_of, caches.scores.values()), *(Key(*each) for each in scheduler.addons.resources())}
        for number, key in enumerate(sorted(scores)):
            yield from scheduler.addons.differences(*key, caches.scores.get(key))
            if number % STEP == 0:
                yield None
        for key in sorted({*map(key_of, caches.placements.values()), *scheduler.placements()}):
            yield from self._placement_differences(key)
            yield None
        foreign = (key for key in scheduler.decisions.placements() if key.name.startswith(_FOREIGN))
        decisions = {*map(key_of, caches.decisions.values()), *(Key(key.namespace, key.name[1:]) for key in foreign)}
        for number, key in enumerate(sorted(decisions)):
            yield from scheduler.decisions.differences(_foreign_key(key), self._foreign(caches.decisions.get(key)))
            if number % STEP == 0:
                yield None
        for numbers in scheduler.slices():
            yield from scheduler.decisions.miscounted(numbers)
            yield None

    def _placement_differences(self, key: Key) -> Iterator[str | None]:
        placement = self._caches.placements.get(key)
        ours = placement if placement is not None and is_scheduled(placement) else None
        yield from self.scheduler.differences(key, ours)
        placement = self._caches.placements.get(key)
        if placement is None or not is_scheduled(placement):
            return
        decisions = self._caches.decisions.by_index("owner", placement.metadata.uid)
        versions = tuple(decision.metadata.resource_version for decision in decisions)
        if self._counted.get(key) == (placement.metadata.uid, versions):  # else it is still to be planned
            yield from self.scheduler.decisions.differences(key, self.current(placement, decisions).memory.clusters)

    def verify(self) -> Iterator[str | None]:
        """Tell the differences, and make all of it again if there are any; None where one may pause."""
        wrong = False
        for difference in self.differences():
            wrong = wrong or difference is not None
            yield difference
        if wrong:
            self.rebuild()

    def rebuild(self) -> None:
        """Make all of it again from the caches."""
        caches = self._caches
        placements = [placement for placement in caches.placements.values() if is_scheduled(placement)]
        observed = Observed(
            caches.clusters.values(),
            caches.sets.values(),
            caches.bindings.values(),
            caches.scores.values(),
            placements,
            {_foreign_key(key_of(decision)): self._foreign(decision) for decision in caches.decisions.values()},
        )
        self.scheduler = Scheduler.of(observed, self._clock.now(), self.scheduler)
        self._counted.clear()
        for placement in placements:
            self.observe(placement)


def is_scheduled(placement: Placement) -> bool:
    """Whether a placement is ours to schedule."""
    meta = placement.metadata
    return not meta.deletion_timestamp and meta.annotations.get(OPT_OUT_ANNOTATION) != "true"


def is_asked_for(delta: Delta[Placement]) -> bool:
    """Whether people changed a placement, and wait for the answer."""
    old, new = delta.old, delta.new
    return old is None or new is None or old.spec != new.spec or old.metadata.annotations != new.metadata.annotations


def _foreign_key(decision: Key) -> Key:
    """Return a key to count a decision by, which no placement can have."""
    return Key(decision.namespace, _FOREIGN + decision.name)


def _placements_of(decision: PlacementDecision) -> Iterator[Key]:
    """Walk the placements that care about a decision: its owner, and whoever its label or its name suggests."""
    meta = decision.metadata
    names = [owner.name for owner in meta.owner_references if owner.kind == PLACEMENT.kind]
    names += [meta.labels.get(PLACEMENT_LABEL, ""), *(name for _, name in slot_of(decision))]
    return (Key(meta.namespace, name) for name in dict.fromkeys(names) if name)
