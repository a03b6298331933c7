"""The reconciler of every kind of rollout: has the engine plan what was observed, and remembers what came of it.

The status of a large rollout is large. While it runs it is brought up to date every now and then, and at once when a
condition turns over.

`plan` changes nothing that another plan could depend on. What follows from a plan, and is no write, is done when the
plan is carried out: `planned` asks the server for what no cache can tell.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.api.placement import Placement, PlacementDecision
from echelon.controllers.rollout.bound_clusters import BoundClusters
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.controllers.rollout.decision_cache import DecisionCache
from echelon.controllers.rollout.write_failures import WriteFailures
from echelon.engine.plan import NOTHING, Plan, ReadRequest
from echelon.engine.rollout.annotations import STATUS_ANNOTATION
from echelon.engine.rollout.failed_writes import FAILED_WRITES
from echelon.engine.rollout.secret_data import SECRET_DATA
from echelon.kube.act import Failed, Written
from echelon.kube.cache import key_of
from echelon.kube.clock import Clock
from echelon.kube.freshness import Freshness
from echelon.kube.informer import Delta, Informer

# How often the status of an object may be written while nothing but numbers and texts change in it.
STATUS_SECONDS = 1.0
_STATUS = timedelta(seconds=STATUS_SECONDS)
# Clocks and timers disagree about the last microseconds of a wait, and looking again and again bridges them badly.
_LEAST = timedelta(milliseconds=10)
_OWN_WORDS = frozenset((FAILED_WRITES, SECRET_DATA, STATUS_ANNOTATION))  # annotations that nobody but us writes


class HasMetadata(Protocol):
    """An object of a kind that can be rolled out, or that a cluster gets."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""
        ...


T = TypeVar("T", bound=HasMetadata)  # what is rolled out
C = TypeVar("C", bound=HasMetadata)  # what clusters get of it
C_contra = TypeVar("C_contra", contravariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
V = TypeVar("V")  # what is observed
V_co = TypeVar("V_co", covariant=True)
V_contra = TypeVar("V_contra", contravariant=True)


class HoldingIndex(Protocol[C_contra]):
    """What clusters hold of each object, kept up to date change by change."""

    def changed(self, delta: Delta[Any]) -> Collection[Key]:
        """Follow what a cluster holds; return the objects to which the change means something."""
        ...

    def has_failed(self, key: Key, content: C_contra) -> bool:
        """Whether a cluster reports a failure of what it holds of an object."""
        ...

    def verify(self) -> Iterator[str | None]:
        """Compare with the cache; repair what is not the same, and yield what it was, or None to rest."""
        ...


@dataclass(frozen=True)
class Observation(Generic[V_co]):
    """All that is known of an object at a moment, what the server is to be asked, and when other decisions count."""

    view: V_co
    read: ReadRequest | None
    believed_after: timedelta | None


class Observer(Protocol[T_contra, V_co]):
    """Reads all that is known of an object into one value."""

    freshness: Freshness

    def observe(self, key: Key, found: T_contra, now: datetime, *, confirmed: bool) -> Observation[V_co]:
        """Return what is known of an object; `confirmed`: this process has written it, and so has seen its present."""
        ...

    def forget(self, key: Key) -> None:
        """Let go of an object that is gone."""
        ...


class Planner(Protocol[V_contra]):
    """Decides what is to be done: a function of the engine."""

    def __call__(self, view: V_contra, now: datetime, *, brief: bool = False) -> Plan:
        """Plan an object. With `brief` the status is left alone unless one of its conditions changes."""
        ...


I_co = TypeVar("I_co", bound=HoldingIndex[Any], covariant=True)


@dataclass(frozen=True)
class Indexes(Generic[I_co]):
    """What is derived from informers, change by change."""

    holdings: I_co
    decisions: DecisionCache
    bound: BoundClusters


def plan_nothing(_: Key) -> Plan:
    """Return an empty plan, for a kind whose objects leave nothing behind."""
    return NOTHING


class RolloutReconciler(Generic[T, C, V]):
    """Plans objects of one kind, of which clusters get content of another."""

    def __init__(
        self,
        kind: Kind[Any],
        content: Kind[Any],
        *,
        objects: Informer[T],
        indexes: Indexes[HoldingIndex[C]],
        observer: Observer[T, V],
        planner: Planner[V],
        failures: WriteFailures,
        reader: ConsistentReader,
        users_of: Callable[[Key], Iterable[Key]],
        clock: Clock,
        plan_gone: Callable[[Key], Plan] = plan_nothing,
        knowing: Iterable[Kind[Any]] = (),
    ) -> None:
        """`users_of` returns the objects that refer to a placement, `plan_gone` what is to be done after an end.

        What is `knowing` was, like content, written by somebody who knew which clusters are meant.
        """
        self._kind = kind
        self._content = content
        self._knowing = frozenset((content.resource, *(each.resource for each in knowing)))
        self._objects = objects
        self._indexes = indexes
        self._observer = observer
        self._planner = planner
        self._failures = failures
        self._reader = reader
        self._users_of = users_of
        self._clock = clock
        self._plan_gone = plan_gone
        self._eras: dict[Key, int] = {}  # of the caches when the last plan of each object was made
        self._status_written: dict[Key, datetime] = {}
        self._versions: dict[Key, str | None] = {}  # of each object, as it was written by this process
        self._confirmed: set[str] = set()  # uids of objects that this process has written
        self._outdated: Counter[Key] = Counter()  # how often something happened that no plan from before knows of

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one object."""
        found = self._objects.get(key)
        if found is None:
            return self._plan_gone(key)
        observed = self._observer.observe(key, found, now, confirmed=found.metadata.uid in self._confirmed)
        written = self._status_written.get(key)
        brief_for = written + _STATUS - now if written is not None else None
        if brief_for is not None and brief_for <= _LEAST:  # or it would be planned again at once
            brief_for = None
        plan = self._planner(observed.view, now, brief=brief_for is not None)
        waits = (plan.look_again_after, observed.believed_after, brief_for)
        soonest = min((each for each in waits if each is not None), default=None)
        return replace(plan, look_again_after=max(soonest, _LEAST) if soonest is not None else None, read=observed.read)

    def planned(self, key: Key, plan: Plan) -> None:
        """Do what follows from a plan that is carried out and is no write."""
        self._eras[key] = self._observer.freshness.era
        found = self._objects.get(key)
        if found is not None and not self.wrote(found):
            self._versions.pop(key, None)  # the plan did not know our own last word, which is news when it comes
        if plan.read is not None:
            self._reader.request(key, plan.read)

    def written(self, key: Key, written: Written) -> None:
        """Hear of a write that was made."""
        if self._objects.get(key) is None:  # it was the last one
            return
        self._failures.written(key, written)
        if written.kind.resource == self._kind.resource and (written.namespace, written.name) == key:
            self._status_written[key] = self._clock.now()
            self._versions[key] = written.resource_version
            self._confirmed.add(written.uid)
        elif written.kind.resource in self._knowing and written.resource_version is not None and key in self._eras:
            self._observer.freshness.wrote(written.uid, self._eras[key])

    def failed(self, key: Key, failed: Failed) -> bool:
        """Hear of a write that failed; return whether the next plan knows what to do about it."""
        return self._objects.get(key) is not None and self._failures.failed(key, failed)

    def wrote(self, found: T) -> bool:
        """Whether an object is as this process wrote it."""
        meta = found.metadata
        return self._versions.get(Key(meta.namespace, meta.name)) == meta.resource_version

    def object_changed(self, delta: Delta[T]) -> None:
        """Follow an object."""
        key = key_of(delta.object)
        if delta.new is None:
            self._forget(key)
            self._confirmed.discard(delta.object.metadata.uid)
        else:
            self._failures.stored(key, delta.new.metadata)

    def content_changed(self, delta: Delta[C]) -> Iterable[Key]:
        """Follow what a cluster holds; return the objects to which the change means something."""
        if delta.new is None:
            self._observer.freshness.forget(delta.object.metadata.uid)
        changed = self._indexes.holdings.changed(delta)
        if delta.new is not None and any(self._indexes.holdings.has_failed(each, delta.new) for each in changed):
            self._outdated.update(changed)
        return changed

    def decision_changed(self, delta: Delta[PlacementDecision]) -> Iterable[Key]:
        """Follow a decision; return the objects that use its placement."""
        users = [user for key in self._indexes.decisions.decision_changed(delta) for user in self._users_of(key)]
        self.outdate(users)
        return users

    def placement_changed(self, delta: Delta[Placement]) -> Iterable[Key]:
        """Follow a placement; return the objects that use it."""
        self._indexes.decisions.placement_changed(delta)
        return self._users_of(key_of(delta.object))

    def outdate(self, keys: Iterable[Key]) -> None:
        """Hear that other clusters are meant: plans from before must not go on, and another answer may help."""
        for key in keys:
            self._outdated[key] += 1
            self._reader.changed(key)

    def basis(self, key: Key) -> object:
        """Return what the rest of a plan must not outlive: what people want, other decisions, and new failures.

        A burst of writes can take long where answers are lost, and nothing may start that a failure forbids.
        """
        found = self._objects.get(key)
        return None if found is None else (intent_of(found.metadata), self._outdated[key])

    def verify(self) -> Iterator[str | None]:
        """Compare all indexes with the caches; repair what is not the same, and yield what it was, or None to rest."""
        yield from self._indexes.holdings.verify()
        yield from self._indexes.decisions.verify()
        yield from self._indexes.bound.verify()

    def _forget(self, key: Key) -> None:
        self._observer.forget(key)
        self._status_written.pop(key, None)
        self._versions.pop(key, None)
        self._eras.pop(key, None)
        self._outdated.pop(key, None)
        self._reader.forget(key)
        self._failures.forget(key)


def intent_of(meta: ObjectMeta) -> tuple[object, ...]:
    """Return all of an object that people write; its content by its generation."""
    annotations = {name: value for name, value in meta.annotations.items() if name not in _OWN_WORDS}
    return meta.generation, meta.labels, annotations, meta.deletion_timestamp, meta.finalizers


def is_asked_for(delta: Delta[T]) -> bool:
    """Whether somebody wants something else of an object. What the status says about it is our own word."""
    old, new = delta.old, delta.new
    if old is None or new is None:
        return True
    return intent_of(old.metadata) != intent_of(new.metadata)
