"""The controller of work sets: has the engine plan what was observed, and remembers what came of it.

The status of a large set is large. While a rollout runs it is brought up to date every now and then, and at once when a
condition turns over.

`plan` changes nothing that another plan could depend on. What follows from a plan, and is no write, is done when the
plan is carried out: `planned` asks the server for what no cache can tell.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from echelon.api.keys import Key
from echelon.api.placement import Placement, PlacementDecision
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.controllers.rollout.write_failures import WriteFailures
from echelon.controllers.settings import ControllerSettings
from echelon.controllers.work_set.observation import Caches, Indexes, WorkSetObserver
from echelon.engine.plan import NOTHING, Plan
from echelon.engine.rollout.failed_writes import FAILED_WRITES
from echelon.engine.work_set.plan import plan
from echelon.engine.work_set.view import WorkSet
from echelon.kube.act import Failed, Written
from echelon.kube.cache import key_of
from echelon.kube.clock import Clock
from echelon.kube.informer import Delta

# How often the status of a set may be written while nothing but numbers and texts change in it.
STATUS_SECONDS = 1.0
_STATUS = timedelta(seconds=STATUS_SECONDS)
# Clocks and timers disagree about the last microseconds of a wait, and looking again and again bridges them badly.
_LEAST = timedelta(milliseconds=10)


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
        self._observer = WorkSetObserver(caches, indexes, failures, reader, settings)
        self._eras: dict[Key, int] = {}  # of the caches when the last plan of each set was made
        self._status_written: dict[Key, datetime] = {}
        self._versions: dict[Key, str | None] = {}  # of each set, as it was written by this process
        self._confirmed: set[str] = set()  # uids of sets that this process has written
        self._outdated: Counter[Key] = Counter()  # how often something happened that no plan from before knows of

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one set."""
        work_set = self._caches.sets.get(key)
        if work_set is None:
            return NOTHING
        observed = self._observer.observe(key, work_set, now)
        written = self._status_written.get(key)
        brief_for = written + _STATUS - now if written is not None and now - written < _STATUS else None
        view = replace(observed.view, confirmed=work_set.metadata.uid in self._confirmed)
        found = plan(view, now, brief=brief_for is not None)
        waits = (found.look_again_after, observed.believed_after, brief_for)
        soonest = min((each for each in waits if each is not None), default=None)
        return replace(
            found, look_again_after=max(soonest, _LEAST) if soonest is not None else None, read=observed.read
        )

    def planned(self, key: Key, found: Plan) -> None:
        """Do what follows from a plan that is carried out and is no write."""
        self._eras[key] = self._observer.freshness.era
        work_set = self._caches.sets.get(key)
        if work_set is not None and not self.wrote(work_set):
            self._versions.pop(key, None)  # the plan did not know our own last word, which is news when it comes
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
            self._confirmed.add(written.uid)
        elif written.kind is MANIFEST_WORK and written.resource_version is not None and key in self._eras:
            self._observer.freshness.wrote(written.uid, self._eras[key])

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
            self._confirmed.discard(delta.object.metadata.uid)
        else:
            self._failures.stored(key, delta.new)

    def work_changed(self, delta: Delta[ManifestWork]) -> Iterable[Key]:
        """Follow a work; return the sets to which the change means something."""
        if delta.new is None:
            self._observer.freshness.forget(delta.object.metadata.uid)
        changed = self._indexes.works.changed(delta)
        if delta.new is not None and any(self._indexes.works.has_failed(each, delta.new) for each in changed):
            self._outdated.update(changed)
        return changed

    def decision_changed(self, delta: Delta[PlacementDecision]) -> Iterable[Key]:
        """Follow a decision; return the sets that use its placement."""
        users = [user for key in self._indexes.decisions.decision_changed(delta) for user in self.users_of(key)]
        self._outdated.update(users)
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

    def basis(self, key: Key) -> object:
        """Return what the rest of a plan must not outlive: what people want, other decisions, and new failures.

        A burst of writes can take long where answers are lost, and nothing may start that a failure forbids.
        """
        work_set = self._caches.sets.get(key)
        return None if work_set is None else (intent_of(work_set), self._outdated[key])

    def verify(self) -> Iterator[str | None]:
        """Compare all indexes with the caches; repair what is not the same, and yield what it was, or None to rest."""
        yield from self._indexes.works.verify()
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


def intent_of(work_set: WorkSet) -> tuple[object, ...]:
    """Return all of a set that people write."""
    meta = work_set.metadata
    annotations = {name: value for name, value in meta.annotations.items() if name != FAILED_WRITES}
    return meta.generation, meta.labels, annotations, meta.deletion_timestamp, meta.finalizers
