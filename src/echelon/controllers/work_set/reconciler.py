"""The controller of work sets: sees the set, its placements and its works, and has the engine plan.

A set of ten thousand works is planned whenever one of them says something, so nothing is read twice: a work becomes a
view when it changes, a placement with its decisions when one of them does, a template once for each generation. The
status of a large set is large, too. While a rollout runs it is brought up to date every now and then, and at once when
a condition turns over.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from echelon.api.daemonsets import ControllerRevision
from echelon.api.keys import Key
from echelon.api.placement import Placement, PlacementDecision
from echelon.api.times import parse_time
from echelon.api.versions import newer
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET, PlacementRef
from echelon.controllers.settings import ControllerSettings
from echelon.controllers.work_set.asking import Answer, Asking
from echelon.controllers.work_set.bound_clusters import BoundClusters
from echelon.controllers.work_set.decided import Decided
from echelon.controllers.work_set.write_failures import WriteFailures
from echelon.engine.plan import NOTHING, Plan
from echelon.engine.rollout.failed_writes import FAILED_WRITES
from echelon.engine.work_set.content import Content, read_content
from echelon.engine.work_set.names import SET_LABEL, WRITTEN_ANNOTATION, set_of
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
    read_work,
)
from echelon.kube.act import Written
from echelon.kube.cache import key_of
from echelon.kube.informer import Delta, Informer

# How often the status of a set may be written while nothing but numbers and texts change in it.
STATUS_SECONDS = 1.0
# Clocks and timers disagree about the last microseconds of a wait, and looking again and again bridges them badly.
LEAST_SECONDS = 0.01


@dataclass(frozen=True)
class Caches:
    """What the reconciler reads."""

    sets: Informer[WorkSet]
    placements: Informer[Placement]
    decisions: Informer[PlacementDecision]
    works: Informer[ManifestWork]
    revisions: Informer[ControllerRevision]  # with the index "set"


@dataclass(frozen=True)
class Knowledge:
    """What is known besides: of decisions, of the clusters that a namespace has a say about, and by asking."""

    decided: Decided
    bound: BoundClusters
    asking: Asking


class WorkSetReconciler:
    """Plans work sets."""

    def __init__(
        self, caches: Caches, failures: WriteFailures, knowledge: Knowledge, settings: ControllerSettings
    ) -> None:
        self._caches = caches
        self._failures = failures
        self._asking, self._bound, self._decided = knowledge.asking, knowledge.bound, knowledge.decided
        self._settings = settings
        self._works: dict[Key, dict[str, tuple[WorkView, ...]]] = {}  # of each set, by cluster
        self._contents: dict[Key, tuple[str, int, Content]] = {}  # with uid and generation
        self._told: dict[Key, float] = {}  # when the status was written last
        self._versions: dict[Key, str | None] = {}  # of each set, as it was written by this process
        self._own: set[str] = set()  # uids of the works that were written by this process
        self._backs = 0  # how often a cache went back to an older state

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one set."""
        work_set = self._caches.sets.get(key)
        if work_set is None:
            self._forget(key)
            return NOTHING
        loop_time = asyncio.get_running_loop().time()
        since_told = loop_time - self._told.get(key, -math.inf)
        brief = since_told < STATUS_SECONDS
        found = plan(self._view(key, work_set, now), now, brief=brief)
        waits = [STATUS_SECONDS - since_told] if brief else []
        placements = (Key(key.namespace, ref.name) for ref in work_set.spec.placement_refs)
        waits += [each for each in map(self._decided.believed_in, placements) if each is not None]
        waits += [found.look_again_after.total_seconds()] if found.look_again_after is not None else []
        return replace(found, look_again_after=timedelta(seconds=max(min(waits), LEAST_SECONDS)) if waits else None)

    def written(self, key: Key, written: Written) -> None:
        """Hear of a write that was made."""
        self._failures.written(key, written)
        if written.kind is MANIFEST_WORK_REPLICA_SET:
            self._told[key] = asyncio.get_running_loop().time()
            self._versions[key] = written.resource_version
        elif written.kind is MANIFEST_WORK and written.resource_version is not None:
            self._own.add(written.uid)

    def wrote(self, work_set: WorkSet) -> bool:
        """Whether a set is as this process wrote it."""
        meta = work_set.metadata
        return self._versions.get(Key(meta.namespace, meta.name)) == meta.resource_version

    def work_changed(self, delta: Delta[ManifestWork]) -> Iterable[Key]:
        """Follow a work; return the sets to which the change means something."""
        concerned: dict[Key, None] = {}
        old = owner_of(delta.old) if delta.old is not None else None
        new = owner_of(delta.new) if delta.new is not None else None
        meta = delta.object.metadata
        if delta.new is None:
            self._own.discard(meta.uid)
        if old is not None and old != new:
            self._put(old, meta.namespace, meta.name, None)
            concerned[old] = None
        if new is not None and delta.new is not None:
            before = self._known(new, meta.namespace, meta.name)
            view = read_work(delta.new, before)
            self._put(new, meta.namespace, meta.name, view)
            if before is None or _essence(before) != _essence(view):
                concerned[new] = None
        return concerned

    def decision_changed(self, delta: Delta[PlacementDecision]) -> Iterable[Key]:
        """Follow a decision; return the sets that use its placement."""
        users = [user for key in self._decided.decision_changed(delta) for user in self.users_of(key)]
        for user in users:
            self._asking.changed(user)
        return users

    def placement_changed(self, delta: Delta[Placement]) -> Iterable[Key]:
        """Follow a placement; return the sets that use it."""
        self._decided.placement_changed(delta)
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

    def _view(self, key: Key, work_set: WorkSet, now: datetime) -> WorkSetView:
        """Return what is seen of a set."""
        works: Mapping[str, tuple[WorkView, ...]] = self._works.get(key, {})
        answer = self._asking.answer(key)
        refs = tuple(self._ref(ref, key, answer) for ref in work_set.spec.placement_refs)
        listed = frozenset[str]().union(*(ref.placement.groups.clusters for ref in refs if ref.placement is not None))
        having = frozenset(works)
        departed = having - listed
        certain = answer.resource_version if answer and self._is_certain(key, work_set, answer) else None
        behind = partial(self._behind, certain)
        if losing := [work for each in departed for work in works[each] if not work.terminating]:
            self._ask(key, refs, losing, behind)
        return WorkSetView(
            work_set,
            self._content(key, work_set),
            refs,
            works,
            self._revisions(key, work_set),
            self._taken(key, refs, works),
            self._failures.outcomes(key, work_set, now),
            behind,
            self._unread(f"{key.namespace}.{key.name}"),
            self._bound.outside(key.namespace, listed, having),
            self._bound.leaving(listed),
            self._bound.spared(departed, self._settings.removal_grace),
            self._settings.max_removals,
        )

    def _ref(self, ref: PlacementRef, key: Key, answer: Answer | None) -> RefView:
        placement, decided = Key(key.namespace, ref.name), self._decided
        trouble = self._asking.trouble(key)
        return RefView(
            ref.name,
            ref.rollout_strategy,
            decided.view(placement),
            decided.doubtful(placement, answer),
            decided.ignored(placement),
            f"{ref.name}: the hub does not tell which decisions there are: {trouble}" if trouble else "",
        )

    def _is_certain(self, key: Key, work_set: WorkSet, answer: Answer) -> bool:
        """Whether the server was asked, and has just what is known of a set, its placements and decisions."""
        if answer.generation != work_set.metadata.generation:
            return False
        for name, version in answer.placements.items():
            placement = self._caches.placements.get(Key(key.namespace, name))
            known = placement.metadata.resource_version if placement is not None else ""
            if known != version or not self._decided.matches(Key(key.namespace, name), answer):
                return False
        return True

    def _ask(
        self,
        key: Key,
        refs: Sequence[RefView],
        losing: Iterable[WorkView],
        behind: Callable[[WorkView], bool],
    ) -> None:
        """Have the server asked if somebody would lose a work, were it known that what is known is all there is."""
        doubtful = [ref.name for ref in refs if ref.doubtful and ref.placement is not None and ref.placement.settled]
        if doubtful or any(map(behind, losing)):
            due = max((self._decided.settles_at(Key(key.namespace, name)) for name in doubtful), default=0.0)
            self._asking.want(key, [ref.name for ref in refs], due)

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

    def _behind(self, certain: str | None, work: WorkView) -> bool:
        """Whether the caches may be older than what its writer knew. What we wrote, we wrote with these caches."""
        caches = (self._caches.sets, self._caches.placements, self._caches.decisions)
        backs = sum(each.went_back for each in caches)
        if backs != self._backs:
            self._backs = backs
            self._own.clear()
        if work.uid in self._own or not any(newer(work.version, each.reached) for each in caches):
            return False
        return certain is None or newer(work.version, certain)

    def _known(self, key: Key, cluster: str, name: str) -> WorkView | None:
        return next((each for each in self._works.get(key, {}).get(cluster, ()) if each.name == name), None)

    def _put(self, key: Key, cluster: str, name: str, view: WorkView | None) -> None:
        works = self._works.setdefault(key, {})
        others = tuple(each for each in works.get(cluster, ()) if each.name != name)
        after = others if view is None else (*others, view)
        if after:
            works[cluster] = after
            return
        works.pop(cluster, None)
        if not works:
            del self._works[key]

    def _forget(self, key: Key) -> None:
        self._contents.pop(key, None)
        self._told.pop(key, None)
        self._versions.pop(key, None)
        self._asking.forget(key)
        self._failures.forget(key)


def intent_of(work_set: WorkSet) -> tuple[object, ...]:
    """Return all of a set that people write."""
    meta = work_set.metadata
    annotations = {name: value for name, value in meta.annotations.items() if name != FAILED_WRITES}
    return meta.generation, meta.labels, annotations, meta.deletion_timestamp, meta.finalizers


def owner_of(work: ManifestWork) -> Key | None:
    """Return the set that a work is labelled with."""
    found = set_of(work.metadata.labels.get(SET_LABEL, ""))
    return Key(*found) if found is not None else None


def _essence(view: WorkView) -> tuple[object, ...]:
    """Return all of a work that a plan depends on, but for its version."""
    return (
        view.uid,
        view.digest,
        view.progress,
        view.placement,
        view.labels,
        view.set_labels,
        view.written,
        view.retried,
        view.terminating,
        view.turned,
        view.turned_noted,
    )
