"""The controller of work sets: observes the set, its placements and its works, and has the engine plan.

A set of ten thousand works is planned whenever one of them says something, so nothing is read twice: a work becomes a
view when it changes, a placement with its decisions when one of them does, a template once for each generation. The
status of a large set is large, too. While a rollout runs it is brought up to date every now and then, and at once when
a condition turns over.

`plan` changes nothing that another plan could depend on. What follows from a plan, and is no write, is done when the
plan is carried out: `planned` asks the server for what no cache can tell.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from echelon.api.daemonsets import ControllerRevision
from echelon.api.keys import Key
from echelon.api.placement import Placement, PlacementDecision
from echelon.api.times import parse_time
from echelon.api.versions import newer
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.settings import ControllerSettings
from echelon.controllers.work_set.bound_clusters import BoundClusters
from echelon.controllers.work_set.consistent_reader import ConsistentReader
from echelon.controllers.work_set.decision_cache import DecisionCache
from echelon.controllers.work_set.work_index import WorkIndex
from echelon.controllers.work_set.write_failures import WriteFailures
from echelon.engine.plan import NOTHING, Plan, ReadRequest
from echelon.engine.rollout.decisions import (
    KnownDecisions,
    believed_after,
    confirms,
    ignored,
    may_be_torn,
    read_request,
)
from echelon.engine.rollout.failed_writes import FAILED_WRITES
from echelon.engine.work_set.content import Content, read_content
from echelon.engine.work_set.names import SET_LABEL, WRITTEN_ANNOTATION
from echelon.engine.work_set.plan import plan
from echelon.engine.work_set.view import (
    RefView,
    RevisionView,
    UnreadWork,
    WorkSet,
    WorkSetView,
    WorkView,
    is_revision_of,
    read_revision,
)
from echelon.kube.act import Failed, Written
from echelon.kube.cache import key_of
from echelon.kube.clock import Clock
from echelon.kube.freshness import Freshness
from echelon.kube.informer import Delta, Informer

# How often the status of a set may be written while nothing but numbers and texts change in it.
STATUS_SECONDS = 1.0
_STATUS = timedelta(seconds=STATUS_SECONDS)
# Clocks and timers disagree about the last microseconds of a wait, and looking again and again bridges them badly.
_LEAST = timedelta(milliseconds=10)


@dataclass(frozen=True)
class Caches:
    """The informers that the reconciler reads."""

    sets: Informer[WorkSet]
    placements: Informer[Placement]
    decisions: Informer[PlacementDecision]
    works: Informer[ManifestWork]
    revisions: Informer[ControllerRevision]  # with the index "set"


@dataclass(frozen=True)
class Indexes:
    """What is derived from informers, change by change."""

    works: WorkIndex
    decisions: DecisionCache
    bound: BoundClusters


@dataclass(frozen=True)
class _Observed:
    """All that is known of a set at a moment, what the server is to be asked, and when other decisions count."""

    view: WorkSetView
    read: ReadRequest | None
    believed_after: timedelta | None


class WorkSetReconciler:
    """Plans work sets."""

    def __init__(
        self,
        caches: Caches,
        indexes: Indexes,
        failures: WriteFailures,
        reader: ConsistentReader,
        *,
        clock: Clock,
        settings: ControllerSettings,
    ) -> None:
        self._caches = caches
        self._indexes = indexes
        self._failures = failures
        self._reader = reader
        self._clock = clock
        self._settings = settings
        self._freshness = Freshness((caches.sets, caches.placements, caches.decisions))
        self._eras: dict[Key, int] = {}  # in which the last plan of each set was made
        self._contents: dict[Key, tuple[str, int, Content]] = {}  # with uid and generation
        self._status_written: dict[Key, datetime] = {}
        self._versions: dict[Key, str | None] = {}  # of each set, as it was written by this process

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one set."""
        work_set = self._caches.sets.get(key)
        if work_set is None:
            return NOTHING
        observed = self._observe(key, work_set, now)
        written = self._status_written.get(key)
        brief = written is not None and now - written < _STATUS
        found = plan(observed.view, now, brief=brief)
        waits = [found.look_again_after, observed.believed_after]
        if brief and written is not None:
            waits.append(written + _STATUS - now)
        soonest = min((each for each in waits if each is not None), default=None)
        return replace(
            found, look_again_after=max(soonest, _LEAST) if soonest is not None else None, read=observed.read
        )

    def planned(self, key: Key, found: Plan) -> None:
        """Do what follows from a plan that is carried out and is no write."""
        self._eras[key] = self._freshness.era
        if found.read is not None:
            self._reader.request(key, found.read)

    def written(self, key: Key, written: Written) -> None:
        """Hear of a write that was made."""
        if self._caches.sets.get(key) is None:  # it was the last one
            return
        self._failures.written(key, written)
        if written.kind is MANIFEST_WORK_REPLICA_SET:
            self._status_written[key] = self._clock.now()
            self._versions[key] = written.resource_version
        elif written.kind is MANIFEST_WORK and written.resource_version is not None and key in self._eras:
            self._freshness.wrote(written.uid, self._eras[key])

    def failed(self, key: Key, failed: Failed) -> bool:
        """Hear of a write that failed; return whether the next plan knows what to do about it."""
        return self._caches.sets.get(key) is not None and self._failures.failed(key, failed)

    def wrote(self, work_set: WorkSet) -> bool:
        """Whether a set is as this process wrote it."""
        meta = work_set.metadata
        return self._versions.get(Key(meta.namespace, meta.name)) == meta.resource_version

    def set_changed(self, delta: Delta[WorkSet]) -> None:
        """Follow a set."""
        key = key_of(delta.object)
        if delta.new is None:
            self._forget(key)
        else:
            self._failures.stored(key, delta.new)

    def work_changed(self, delta: Delta[ManifestWork]) -> Iterable[Key]:
        """Follow a work; return the sets to which the change means something."""
        if delta.new is None:
            self._freshness.forget(delta.object.metadata.uid)
        return self._indexes.works.changed(delta)

    def decision_changed(self, delta: Delta[PlacementDecision]) -> Iterable[Key]:
        """Follow a decision; return the sets that use its placement."""
        users = [user for key in self._indexes.decisions.decision_changed(delta) for user in self.users_of(key)]
        for user in users:
            self._reader.changed(user)
        return users

    def placement_changed(self, delta: Delta[Placement]) -> Iterable[Key]:
        """Follow a placement; return the sets that use it."""
        self._indexes.decisions.placement_changed(delta)
        return self.users_of(key_of(delta.object))

    def users_of(self, placement: Key) -> list[Key]:
        """Return the sets that refer to a placement."""
        return [
            Key(each.metadata.namespace, each.metadata.name)
            for each in self._caches.sets.values(placement.namespace)
            if any(ref.name == placement.name for ref in each.spec.placement_refs)
        ]

    def intent(self, key: Key) -> object:
        """Return what people want of a set, which is everything but what this controller writes on it."""
        work_set = self._caches.sets.get(key)
        return None if work_set is None else intent_of(work_set)

    def verify(self) -> Iterator[str | None]:
        """Compare all indexes with the caches; repair what is not the same, and yield what it was, or None to rest."""
        yield from self._indexes.works.verify()
        yield from self._indexes.decisions.verify()
        yield from self._indexes.bound.verify()

    def _observe(self, key: Key, work_set: WorkSet, now: datetime) -> _Observed:
        """Read the caches."""
        decisions, bound = self._indexes.decisions, self._indexes.bound
        works = self._indexes.works.of(key)
        names = dict.fromkeys(ref.name for ref in work_set.spec.placement_refs)
        known = {name: decisions.known(Key(key.namespace, name)) for name in names}
        refs = self._refs(key, work_set, known, now)
        placements = [ref.placement for ref in refs]
        listed = frozenset[str]().union(*(each.groups.clusters for each in placements if each is not None))
        having = frozenset(works)
        departed = having - listed
        # Where a placement is missing, clusters may be taken from another one that lists them, too.
        stale = self._stale(key, work_set, known, works, departed if None not in placements else having)
        losing = [work.uid for cluster in departed for work in works[cluster] if not work.terminating]
        torn = [ref.name for ref in refs if ref.doubtful and ref.placement is not None and ref.placement.settled]
        view = WorkSetView(
            work_set,
            self._content(key, work_set),
            refs,
            works,
            self._revisions(key, work_set),
            self._taken(key, refs, works),
            self._failures.outcomes(key, work_set, now),
            stale,
            self._unread(f"{key.namespace}.{key.name}"),
            bound.outside(key.namespace, listed, having),
            bound.leaving(listed),
            bound.spared(departed, self._settings.removal_grace, now),
            self._settings.max_removals,
        )
        waits = [each for each in (believed_after(one, now) for one in known.values()) if each is not None]
        read = read_request(known, torn, stale=not stale.isdisjoint(losing)) if losing else None
        return _Observed(view, read, min(waits, default=None))

    def _refs(
        self, key: Key, work_set: WorkSet, known: Mapping[str, KnownDecisions], now: datetime
    ) -> tuple[RefView, ...]:
        answer, error = self._reader.answer(key), self._reader.error(key)
        return tuple(
            RefView(
                ref.name,
                ref.rollout_strategy,
                self._indexes.decisions.view(Key(key.namespace, ref.name), known[ref.name], now),
                may_be_torn(known[ref.name], answer, now),
                ignored(known[ref.name]),
                f"{ref.name}: the hub does not tell which decisions there are: {error}" if error else "",
            )
            for ref in work_set.spec.placement_refs
        )

    def _stale(
        self,
        key: Key,
        work_set: WorkSet,
        known: Mapping[str, KnownDecisions],
        works: Mapping[str, tuple[WorkView, ...]],
        clusters: Iterable[str],
    ) -> frozenset[str]:
        """Return the works of clusters whose writer may have known more than the caches, and more than the server said.

        Who wrote a work knew why; what we wrote, we wrote with these caches.
        """
        is_behind = self._freshness.is_behind
        behind = [work for each in clusters for work in works[each] if is_behind(work.version, work.uid)]
        answer = self._reader.answer(key)
        if behind and answer is not None and confirms(answer, work_set.metadata.generation, known):
            behind = [work for work in behind if newer(work.version, answer.resource_version)]
        return frozenset(work.uid for work in behind)

    def _content(self, key: Key, work_set: WorkSet) -> Content:
        meta = work_set.metadata
        known = self._contents.get(key)
        if known is None or known[:2] != (meta.uid, meta.generation):
            known = (meta.uid, meta.generation, read_content(work_set.spec.manifest_work_template))
            self._contents[key] = known
        return known[2]

    def _revisions(self, key: Key, work_set: WorkSet) -> tuple[RevisionView, ...]:
        stored = self._caches.revisions.by_index("set", f"{key.namespace}.{key.name}")
        found = [read_revision(each) for each in stored if is_revision_of(each, work_set)]
        # One that was let go after all that is known of the set may have been let go by the end of the set.
        known, uid = self._caches.sets.reached, work_set.metadata.uid
        return tuple(each for each in found if each.owner == uid or not newer(each.version, known))

    def _taken(self, key: Key, refs: Iterable[RefView], works: Mapping[str, object]) -> frozenset[str]:
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

    def _forget(self, key: Key) -> None:
        self._contents.pop(key, None)
        self._status_written.pop(key, None)
        self._versions.pop(key, None)
        self._eras.pop(key, None)
        self._reader.forget(key)
        self._failures.forget(key)


def intent_of(work_set: WorkSet) -> tuple[object, ...]:
    """Return all of a set that people write."""
    meta = work_set.metadata
    annotations = {name: value for name, value in meta.annotations.items() if name != FAILED_WRITES}
    return meta.generation, meta.labels, annotations, meta.deletion_timestamp, meta.finalizers
