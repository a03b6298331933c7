"""The reconciler of PodCliqueSets: has the engine plan what was observed, and remembers what came of it.

`plan` leaves no trace. What follows from a plan, and is no write, is in it, and is done when it is carried out:
`planned` has the set read past its cache if the plan asks for that.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.keys import Key
from echelon.api.meta import ObjectMeta
from echelon.api.times import format_micro_time
from echelon.api.versions import newer
from echelon.controllers.pod_clique.clique_index import CliqueIndex
from echelon.controllers.pod_clique.metrics import PodCliqueMetrics
from echelon.controllers.pod_clique.observation import SetObserver
from echelon.controllers.pod_clique.ownership import uid_of
from echelon.controllers.pod_clique.refusals import Refusals, What, writes_of
from echelon.controllers.pod_clique.rival import Rival
from echelon.controllers.pod_clique.set_reader import Answer, SetReader
from echelon.engine.plan import NOTHING, Delete, Emit, Patch, Plan, Reference
from echelon.engine.pod_clique.plan import plan as plan_set
from echelon.engine.pod_clique.view import SetView
from echelon.kube.act import Failed, Written
from echelon.kube.cache import key_of
from echelon.kube.clock import Clock
from echelon.kube.informer import Delta, Informer

STANDING_BY = "GroveAtWork"
CLAIMED = "echelon.dev/claimed-at"  # on a revision: when a process that makes pods had to know that it sees the present


class Unreadable(Exception):
    """Something that belongs to a set does not fit its type, so nobody can tell what is there."""


@dataclass(frozen=True)
class SetPlan(Plan):
    """A plan, what it was made from, and what it wants of all that failed before, tried or not."""

    view: SetView | None = field(default=None, compare=False)
    wanted: frozenset[What] = frozenset()


class PodCliqueSetReconciler:
    """Plans sets."""

    def __init__(
        self,
        sets: Informer[JSONObject],
        *,
        observer: SetObserver,
        index: CliqueIndex,
        reader: SetReader,
        refusals: Refusals,
        rival: Rival,
        metrics: PodCliqueMetrics,
        clock: Clock,
        tell: Callable[[Emit], None],
    ) -> None:
        self._sets = sets
        self._observer = observer
        self._index = index
        self._reader = reader
        self._refusals = refusals
        self._rival = rival
        self._metrics = metrics
        self._clock = clock
        self._tell = tell
        self._shown: set[Key] = set()  # sets of which there are metrics
        self._wrote: dict[Key, str] = {}  # the version of the first write of this process for each set
        self._told: dict[str, str] = {}  # by uid of sets: what stands in their way
        self.deleting: dict[Key, frozenset[str]] = {}  # uids of pods that the plan under way deletes

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one set."""
        found = self._sets.get(key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return NOTHING
        if (holding := self._rival.current(now)) is not None:
            return Plan(look_again_after=holding.until - now)
        try:
            view = self._observer.observe(key, found, now)
        except msgspec.ValidationError as error:
            raise Unreadable(str(error)) from error
        plan = plan_set(view, now)
        if plan.read is not None and key not in self._wrote:
            plan = replace(plan, actions=(*plan.actions, *_claim(view, now)))
        wanted = self._refusals.wanted(key, plan)
        made = self._refusals.hold_back(key, plan, now)
        return SetPlan(
            made.actions,
            made.status,
            made.look_again_after,
            made.status_waits,
            made.stops_at_failure,
            made.read,
            view,
            wanted,
        )

    def planned(self, key: Key, plan: Plan) -> bool:
        """Hear of a plan that is about to be carried out; return whether to plan again soon."""
        found = self._sets.get(key)
        if found is None:
            return False
        self._say_rival(found)
        view = plan.view if isinstance(plan, SetPlan) else None
        if view is not None:
            self._metrics.show(view)
            self._shown.add(key)
        writes = writes_of(plan.actions)
        self.deleting[key] = frozenset(
            each.uid for each in writes if isinstance(each, Delete) and each.kind.resource == POD.resource
        )
        if plan.read is not None and view is not None and key in self._wrote:
            self._metrics.rereads.inc()
            gone, wrote = self._index.gone_at(key), self._wrote[key]
            since = wrote if newer(wrote, gone) else gone
            self._reader.request(key, since, self._observer.unconfirmed(view.cliques.values()))
        # While something is to be read first, pods are not planned, and not because nobody wants them.
        return isinstance(plan, SetPlan) and plan.read is None and self._refusals.settle(key, plan.wanted)

    def answered(self, answer: Answer) -> None:
        """Hear what the server has of cliques."""
        for uid, pods in answer.pods.items():
            self._index.confirm(uid, pods)

    def written(self, key: Key, written: Written) -> None:
        """Hear of a write that was made."""
        self._refusals.written(key, written)
        if written.resource_version is not None:
            self._wrote.setdefault(key, written.resource_version)

    def failed(self, key: Key, failed: Failed) -> bool:
        """Hear of a write that failed; return whether the next plan knows what to do about it."""
        return self._sets.get(key) is not None and self._refusals.failed(key, failed)

    def set_changed(self, delta: Delta[JSONObject]) -> None:
        """Follow a set."""
        key = key_of(delta.object)
        if delta.new is not None:
            if delta.old is not None and is_asked_for(delta):
                self._refusals.try_again(key)
            return
        self._observer.forget(key)
        self._reader.forget(key)
        self._refusals.forget(key)
        self._told.pop(uid_of(delta.object), None)
        self._wrote.pop(key, None)
        self.deleting.pop(key, None)
        if key in self._shown:
            self._shown.discard(key)
            self._metrics.forget(*key)

    def pod_changed(self, delta: Delta[JSONObject]) -> Iterable[Key]:
        """Follow a pod; return the sets to which the change means something."""
        ours = frozenset[str]().union(*(self.deleting.get(key, ()) for key in self._index.sets(delta)))
        return self._index.pod_changed(delta, ours)

    def basis(self, key: Key) -> object:
        """Return what the rest of a plan must not outlive: what people want, and pods that stopped serving.

        A burst of writes can take long, and no pod may be deleted that others have come to need.
        """
        found = self._sets.get(key)
        return None if found is None else (intent_of(found), self._index.lost(key))

    def verify(self) -> Iterator[str | None]:
        """Compare the index with the caches; repair what is not the same, and yield what it was, or None to rest."""
        yield from self._index.verify()

    def _say_rival(self, found: JSONObject) -> None:
        """Tell of each set, once for each holder of the lease, that Grove's operator is at work on it."""
        key, uid, holding = key_of(found), uid_of(found), self._rival.current(self._clock.now())
        self._metrics.rival.set(1 if holding else 0)
        holder = holding.holder if holding is not None else ""
        if self._told.get(uid, "") == holder:
            return
        self._told[uid] = holder
        if holding is not None:
            note = f"Grove's own operator looks after sets here, so nothing is done: {holding}"
            regarding = Reference(POD_CLIQUE_SET, key.name, key.namespace, uid)
            self._tell(Emit(regarding, STANDING_BY, "Wait", note, "Warning"))


def _claim(view: SetView, now: datetime) -> tuple[Patch, ...]:
    """Return a write that changes nothing but a version: what is read after it is not from before this process.

    Without a revision to write, the plan makes one, and that is as good.
    """
    meta = view.set.metadata
    body = {"metadata": {"annotations": {CLAIMED: format_micro_time(now)}}}
    return tuple(
        Patch(CONTROLLER_REVISION, each.name, body, meta.namespace, each.uid, each.version)
        for each in view.set.revisions[-1:]
    )


def intent_of(found: JSONObject) -> tuple[Any, ...]:
    """Return all of a set that people write; its content by its generation."""
    meta = msgspec.convert(found["metadata"], ObjectMeta)
    return meta.uid, meta.generation, meta.labels, meta.annotations, meta.deletion_timestamp


def is_asked_for(delta: Delta[JSONObject]) -> bool:
    """Whether somebody wants something else of a set. What its status says is our own word."""
    return delta.old is None or delta.new is None or intent_of(delta.old) != intent_of(delta.new)
