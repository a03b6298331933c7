"""Reads all that is known of a work set into one value that does not change any more.

A set of ten thousand works is planned whenever one of them says something, so nothing is read twice: a work becomes a
view when it changes, a placement with its decisions when one of them does, a template once for each generation.
Observing changes nothing but what is kept for that: observed again, at the same moment, it is the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from echelon.api.controller_revisions import ControllerRevision
from echelon.api.keys import Key
from echelon.api.placement import Placement, PlacementDecision
from echelon.api.times import parse_time
from echelon.api.work import ManifestWork
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.controllers.rollout.reconciler import Indexes, Observation
from echelon.controllers.rollout.references import References
from echelon.controllers.rollout.revisions import revisions_of
from echelon.controllers.rollout.write_failures import WriteFailures
from echelon.controllers.settings import ControllerSettings
from echelon.controllers.work_set.work_index import WorkIndex
from echelon.engine.rollout.annotations import WRITTEN_ANNOTATION
from echelon.engine.rollout.decisions import questions
from echelon.engine.rollout.references import PlacementReference
from echelon.engine.rollout.secret_data import restored
from echelon.engine.rollout.stored_revision import StoredRevision, believed_revisions, is_revision_of
from echelon.engine.work_set.content import Content, read_content
from echelon.engine.work_set.names import SET_LABEL
from echelon.engine.work_set.view import (
    UnreadWork,
    WorkSet,
    WorkSetView,
    read_revision,
)
from echelon.kube.freshness import Freshness
from echelon.kube.informer import Informer


@dataclass(frozen=True)
class Caches:
    """The informers that work sets are planned from."""

    sets: Informer[WorkSet]
    placements: Informer[Placement]
    decisions: Informer[PlacementDecision]
    works: Informer[ManifestWork]
    revisions: Informer[ControllerRevision]


class WorkSetObserver:
    """Observes work sets."""

    def __init__(
        self,
        caches: Caches,
        indexes: Indexes[WorkIndex],
        failures: WriteFailures,
        reader: ConsistentReader,
        settings: ControllerSettings,
    ) -> None:
        self.freshness = Freshness((caches.sets, caches.placements, caches.decisions))
        self._caches = caches
        self._indexes = indexes
        self._references = References(indexes.decisions, reader, self.freshness)
        self._failures = failures
        self._settings = settings
        self._contents: dict[Key, tuple[str, int, Content]] = {}  # with uid and generation

    def observe(self, key: Key, found: WorkSet, now: datetime, *, confirmed: bool) -> Observation[WorkSetView]:
        """Return what is known of a set; `confirmed`: this process has written it, and so has seen its present."""
        work_set, bound = found, self._indexes.bound
        works = self._indexes.holdings.of(key)
        known = self._references.known(key.namespace, (ref.name for ref in work_set.spec.placement_refs))
        refs = tuple(
            self._references.reference(key, ref.name, ref.rollout_strategy, known[ref.name], now)
            for ref in work_set.spec.placement_refs
        )
        placements = [ref.placement for ref in refs]
        listed = frozenset[str]().union(*(each.groups.clusters for each in placements if each is not None))
        having = frozenset(works)
        departed = having - listed
        # Where a placement is missing, clusters may be taken from another one that lists them, too.
        candidates = departed if None not in placements else having
        held = [(work.uid, work.version) for each in candidates for work in works[each]]
        stale = self._references.stale(key, work_set.metadata.generation, known, held, {})
        view = WorkSetView(
            work_set,
            self._content(key, work_set),
            refs,
            works,
            self._revisions(key, work_set),
            self._name_conflicts(key, refs, works),
            self._failures.outcomes(key, work_set.metadata, now),
            stale,
            self._unread(f"{key.namespace}.{key.name}"),
            bound.unbound(key.namespace, listed, having),
            bound.leaving(listed),
            bound.spared(departed, self._settings.removal_grace, now),
            self._settings.max_removals,
            confirmed,
        )
        losing = [work.uid for each in departed for work in works[each] if not work.terminating]
        forgotten = view.outcomes.content.keys() - listed  # whose failures would be
        asked, after = questions(known, refs, stale, [*losing, *forgotten], now)
        return Observation(view, asked, after)

    def forget(self, key: Key) -> None:
        """Let go of a set that is gone."""
        self._contents.pop(key, None)

    def _content(self, key: Key, work_set: WorkSet) -> Content:
        meta = work_set.metadata
        known = self._contents.get(key)
        if known is None or known[:2] != (meta.uid, meta.generation):
            known = (meta.uid, meta.generation, read_content(work_set.spec.manifest_work_template))
            self._contents[key] = known
        return known[2]

    def _revisions(self, key: Key, work_set: WorkSet) -> tuple[StoredRevision, ...]:
        stored = revisions_of(self._caches.revisions, MANIFEST_WORK_REPLICA_SET, key)
        found = [
            read_revision(each) for each in stored if is_revision_of(each, MANIFEST_WORK_REPLICA_SET, work_set.metadata)
        ]
        meta, known = work_set.metadata, self._caches.sets.reached
        believed = believed_revisions(found, owner=meta.uid, generation=meta.generation, known=known, objects=known)
        return restored(believed, meta.annotations)

    def _name_conflicts(
        self, key: Key, refs: Iterable[PlacementReference], works: Mapping[str, object]
    ) -> frozenset[str]:
        """Return where a work of the set's name exists that is not of this set."""
        get = self._caches.works.get
        return frozenset(
            cluster
            for ref in refs
            if ref.placement is not None
            for cluster in ref.placement.groups.clusters
            if cluster not in works
            and (get(Key(cluster, key.name)) is not None or (cluster, key.name) in self._caches.works.unreadable)
        )

    def _unread(self, label: str) -> tuple[UnreadWork, ...]:
        """Return the works of a set that cannot be read."""
        found = ((each.metadata, each.why) for each in self._caches.works.unreadable.values())
        return tuple(
            UnreadWork(
                meta.namespace,
                meta.name,
                meta.uid,
                why,
                parse_time(meta.annotations.get(WRITTEN_ANNOTATION)) or parse_time(meta.creation_timestamp),
                bool(meta.deletion_timestamp),
            )
            for meta, why in found
            if meta.labels.get(SET_LABEL) == label
        )
