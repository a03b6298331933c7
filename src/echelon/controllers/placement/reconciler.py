"""The placement controller: chooses clusters for placements and publishes the choice as decision objects.

Changes of clusters, sets, bindings and scores go into the engine as they are seen, and the engine answers with the
placements that could care; nothing else is planned. What a placement has is what its decisions say, read whenever it
is planned; that of all placements before the first is planned, because they share clusters. From the beginning of a
plan's writes until the placement is planned again it is what the plan intends: others need not wait for the writes.
Planning itself leaves no trace, so `begin` is where that, and all else that is remembered of a plan, is taken down.

Our own writes come back as changes. Looking at everything again for each of them would cost more than the change did,
so a placement that was found settled, and of which nothing is different, is not worked out again.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP
from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT, Placement, PlacementDecision
from echelon.controllers.placement.decision_writes import DecisionWrites, decision_writes
from echelon.controllers.placement.metrics import MeasuringRecorder, PlacementMetrics
from echelon.controllers.placement.removals import LOOK_AGAIN, RemovalBarrier, RemovalPlan, Verdict
from echelon.engine.placement import status
from echelon.engine.placement.current import PLACEMENT_LABEL, CurrentSlices, current_slices
from echelon.engine.placement.desired import REGROUP_ANNOTATION, DesiredSlices, desired_slices
from echelon.engine.placement.recipe import MAX_NAME
from echelon.engine.placement.schedule import Schedule
from echelon.engine.placement.scheduler import Scheduler
from echelon.engine.plan import NOTHING, Patch, Plan
from echelon.kube.cache import key_of
from echelon.kube.informer import Delta, Informer

OPT_OUT_ANNOTATION = f"{GROUP}/experimental-scheduling-disable"

_Versions = tuple[str, tuple[str, ...]]  # the uid of a placement, and the versions of its decisions

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlacementPlan(RemovalPlan):
    """A plan, and what is to be remembered of it when it is carried out."""

    members: frozenset[str] | None = None  # which the placement is to have, if others than its decisions say
    writes: DecisionWrites = field(default_factory=DecisionWrites)
    scheduling_seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class _Settled:
    """A placement of which the decisions are as they should be, and what that was found from."""

    uid: str
    generation: int
    request: str
    failed: bool
    versions: tuple[str, ...]
    desired: DesiredSlices


class PlacementReconciler:
    """Plans the decisions and the status of placements."""

    def __init__(
        self,
        placements: Informer[Placement],
        decisions: Informer[PlacementDecision],
        metrics: PlacementMetrics,
        recorder: MeasuringRecorder,
        removals: RemovalBarrier[PlacementDecision],
    ) -> None:
        self.scheduler = Scheduler()
        self._placements = placements
        self._decisions = decisions
        self._metrics = metrics
        self._recorder = recorder
        self._removals = removals
        self._begun = False
        self._counted: dict[Key, _Versions] = {}  # of which decisions the engine has the clusters; none if intended
        self._settled: dict[Key, _Settled] = {}

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one placement."""
        self._follow_placements()
        placement = self._placements.get(key)
        if placement is None or not _is_scheduled(placement):
            return NOTHING
        ours = self._observe(placement)
        started = time.perf_counter()
        schedule = self.scheduler.schedule(key, now)
        seconds = time.perf_counter() - started
        if schedule is None:
            return NOTHING
        if len(placement.metadata.name) > MAX_NAME:  # no decision can say whose it is
            return PlacementPlan(status=self._status(placement, schedule, None, now), scheduling_seconds=seconds)
        desired, writes = self._publication(placement, schedule, ours)
        verdict = None
        if writes.actions:
            wanted = {name for one in desired.slices for name in one.clusters}
            verdict = self._removals.judge(key, ours, wanted, now, hidden=self._hides_decisions(key))
            if verdict.must_wait:
                return self._wait(placement, verdict)
        return PlacementPlan(
            writes.actions,
            self._status(placement, schedule, desired, now),
            None if schedule.look_again is None else max(schedule.look_again - now, timedelta()),
            status_waits=True,
            verdict=verdict,
            members=schedule.members if schedule.added or schedule.removed else None,
            writes=writes,
            scheduling_seconds=seconds,
        )

    def begin(self, key: Key, plan: Plan) -> None:
        """Hear that a plan begins to be carried out."""
        verdict = plan.verdict if isinstance(plan, RemovalPlan) else None
        if verdict is not None and verdict.must_wait and not self._removals.waits(key):
            self._metrics.held.inc()
            _log.warning("placement %s: caches are behind its decisions, which are kept", key)
        self._removals.begin(key, verdict)
        if not isinstance(plan, PlacementPlan):
            return
        self._metrics.scheduling.observe(plan.scheduling_seconds)
        self._recorder.begin(key, plan.writes)
        if plan.members is not None:
            self._counted.pop(key, None)
            self.scheduler.decided(key, plan.members)

    def _wait(self, placement: Placement, verdict: Verdict) -> Plan:
        """Plan nothing for now, because the caches do not know enough; say so once."""
        told = () if self._removals.waits(key_of(placement)) else (status.held(placement),)
        return RemovalPlan(told, look_again_after=LOOK_AGAIN, verdict=verdict)

    def _hides_decisions(self, key: Key) -> bool:
        """Whether a placement has decisions that cannot be read: it cannot be known who is in them."""
        return any(
            meta.namespace == key.namespace
            and (meta.labels.get(PLACEMENT_LABEL) == key.name or meta.name.rpartition("-decision-")[0] == key.name)
            for meta in (misfit.metadata for misfit in self._decisions.unreadable.values())
        )

    def _observe(self, placement: Placement) -> list[PlacementDecision]:
        """Return the decisions of a placement, and see that the engine knows which clusters they list."""
        key, uid = key_of(placement), placement.metadata.uid
        ours = self._decisions.by_index("owner", uid)
        versions = (uid, tuple(decision.metadata.resource_version for decision in ours))
        if self._counted.get(key) != versions:
            self.scheduler.decided(key, self._current(placement, ours).memory.clusters)
            self._counted[key] = versions
        return ours

    def _publication(
        self, placement: Placement, schedule: Schedule, ours: list[PlacementDecision]
    ) -> tuple[DesiredSlices, DecisionWrites]:
        """Return the decisions that there are to be, and how to get there."""
        key, meta = key_of(placement), placement.metadata
        request = meta.annotations.get(REGROUP_ANNOTATION, "")
        versions = tuple(decision.metadata.resource_version for decision in ours)
        facts = (meta.uid, meta.generation, request, schedule.outcome.failed, versions)
        settled = self._settled.get(key)
        if (
            settled is not None
            and (settled.uid, settled.generation, settled.request, settled.failed, settled.versions) == facts
            and not (schedule.added or schedule.removed)
            and not (schedule.recipe and schedule.recipe.groups)  # whose members change with their labels
        ):
            return settled.desired, DecisionWrites()
        current = self._current(placement, ours)
        desired = desired_slices(placement, schedule, current)
        writes = decision_writes(placement, schedule, current, desired)
        self._settled.pop(key, None)
        if not writes.actions:
            self._settled[key] = _Settled(*facts, desired)
        return desired, writes

    def _current(self, placement: Placement, ours: Iterable[PlacementDecision]) -> CurrentSlices:
        meta = placement.metadata
        return current_slices(ours, self._decisions.by_index("slot", (meta.namespace, meta.name)))

    def _status(
        self, placement: Placement, schedule: Schedule, desired: DesiredSlices | None, now: datetime
    ) -> Patch | None:
        """Return the write of what is different in a placement's status."""
        slices = desired.slices if desired is not None else ()
        selected = sum(len(one.clusters) for one in slices)
        before = placement.status
        after = msgspec.structs.replace(
            before,
            number_of_selected_clusters=selected,
            decision_groups=status.decision_groups(slices),
            conditions=status.conditions(placement, schedule, selected, now),
        )
        was, is_ = _wire(before), _wire(after)
        changed = {name: value for name, value in is_.items() if was.get(name) != value}
        if not changed:
            return None
        meta = placement.metadata
        return Patch(
            PLACEMENT,
            meta.name,
            {"status": changed},
            meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            subresource="status",
        )

    def _follow_placements(self) -> None:
        """Let the engine know all placements, once the caches have everything."""
        if self._begun:
            return
        self._begun = True
        for placement in self._placements.values():
            if _is_scheduled(placement):
                self.scheduler.placement(placement)
                self._observe(placement)
        for decision in self._decisions.values():
            self._count_foreign(decision)

    def placement_changed(self, delta: Delta[Placement]) -> None:
        """Follow a placement."""
        if not self._begun:
            return
        old, new = delta.old, delta.new
        if old is not None and _is_scheduled(old) and (new is None or not _is_scheduled(new)):
            self._forget(old)
        if new is not None and _is_scheduled(new) and (old is None or not _is_scheduled(old) or old.spec != new.spec):
            self.scheduler.placement(new)
        if old is None or new is None or _is_scheduled(old) != _is_scheduled(new):
            for decision in self._decisions.by_index("owner", delta.object.metadata.uid):
                self._count_foreign(decision)

    def _forget(self, placement: Placement) -> None:
        key = key_of(placement)
        self.scheduler.placement_gone(key)
        self._counted.pop(key, None)
        self._settled.pop(key, None)
        self._recorder.forget(key)
        self._removals.forget(key)

    def decision_changed(self, delta: Delta[PlacementDecision]) -> None:
        """Follow a decision, which matters to the balance if it is not one of ours."""
        if delta.new is None:
            self._removals.gone(delta.object)
        if self._begun:
            self._count_foreign(delta.object, gone=delta.new is None)

    def _count_foreign(self, decision: PlacementDecision, *, gone: bool = False) -> None:
        """Count the clusters of a decision that nobody here makes, each under a name that no placement can have."""
        meta = decision.metadata
        key = Key(meta.namespace, f"/{meta.name}")
        listed = decision.status.decisions if decision.status and not gone and not self._is_ours(decision) else ()
        self.scheduler.decided(key, [entry.cluster_name for entry in listed])

    def _is_ours(self, decision: PlacementDecision) -> bool:
        owners = [owner for owner in decision.metadata.owner_references if owner.kind == PLACEMENT.kind]
        found = ((self._placements.get(Key(decision.metadata.namespace, owner.name)), owner.uid) for owner in owners)
        return any(placement and placement.metadata.uid == uid and _is_scheduled(placement) for placement, uid in found)


def _is_scheduled(placement: Placement) -> bool:
    """Whether a placement is ours to schedule."""
    meta = placement.metadata
    return not meta.deletion_timestamp and meta.annotations.get(OPT_OUT_ANNOTATION) != "true"


def _wire(of: msgspec.Struct) -> JSONObject:
    wire: JSONObject = msgspec.to_builtins(of)
    return wire
