"""The placement controller: chooses clusters for placements and publishes the choice as decision objects.

Observing is `PlacementIndex`, which follows the caches; a plan is a function of that and of the time, and leaves no
trace. What is to be remembered of a plan is in the plan, and is taken down when it begins to be carried out.

Our own writes come back as changes. Looking at everything again for each of them would cost more than the change did,
so a placement that was found settled, and of which nothing is different, is not worked out again.
"""

import logging
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT, Placement, PlacementDecision, PlacementStatus
from echelon.controllers.placement.decision_writes import DecisionWrites, decision_writes
from echelon.controllers.placement.index import PlacementCaches, PlacementIndex, is_scheduled
from echelon.controllers.placement.metrics import MeasuringRecorder, PlacementMetrics
from echelon.controllers.placement.removals import LOOK_AGAIN, RemovalBarrier, RemovalCheck, RemovalPlan
from echelon.controllers.placement.write_failures import DecisionFailures, Retry
from echelon.engine.placement import status
from echelon.engine.placement.compiled import MAX_NAME, Unfinished
from echelon.engine.placement.current import PLACEMENT_LABEL
from echelon.engine.placement.desired import REGROUP_ANNOTATION, DesiredSlices, desired_slices
from echelon.engine.placement.schedule import Schedule
from echelon.engine.plan import NOTHING, Patch, Plan
from echelon.kube.act import Failed, Written
from echelon.kube.cache import key_of

SLICE = 60_000  # what expressions may cost in one go: some 25 ms

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlacementPlan(RemovalPlan):
    """A plan, and what is to be remembered of it when it is carried out."""

    members: frozenset[str] | None = None  # which the placement is to have, if others than its decisions say
    writes: DecisionWrites = field(default_factory=DecisionWrites)
    publishes: DesiredSlices | None = None  # which decisions the writes lead to, if there are any
    must_retry: bool = False  # decisions could not be written, and that is tried again later
    scheduling_seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class AskingPlan(Plan):
    """Nothing to do yet: expressions are being asked about the clusters, so many at a time."""

    now: datetime | None = None


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
        index: PlacementIndex,
        caches: PlacementCaches,
        metrics: PlacementMetrics,
        recorder: MeasuringRecorder,
        *,
        removals: RemovalBarrier[PlacementDecision],
        failures: DecisionFailures,
    ) -> None:
        self._index = index
        self._placements = caches.placements
        self._decisions = caches.decisions
        self._metrics = metrics
        self._recorder = recorder
        self._removals = removals
        self._failures = failures
        self._settled: dict[Key, _Settled] = {}  # saves work, and changes no plan

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one placement."""
        self._index.follow_placements()
        placement = self._placements.get(key)
        if placement is None or not is_scheduled(placement):
            return NOTHING
        ours = self._index.observe(placement)
        started = time.perf_counter()
        try:
            schedule = self._index.scheduler.schedule(key, now, SLICE)
        except Unfinished:
            return AskingPlan(look_again_after=timedelta(), now=now)
        seconds = time.perf_counter() - started
        if schedule is None:
            return NOTHING
        if len(placement.metadata.name) > MAX_NAME:  # no decision can say whose it is
            return PlacementPlan(status=self._status(placement, schedule, None, now), scheduling_seconds=seconds)
        desired, writes = self._publication(placement, schedule, ours)
        look_again = schedule.look_again
        verdict = None
        if writes.actions:
            if (retry := self._failures.retry(key, desired, now)) is not None:
                soonest = retry.at if look_again is None else min(retry.at, look_again)
                return self._tell(placement, retry, now, max(soonest - now, timedelta()))
            wanted = {name for one in desired.slices for name in one.clusters}
            verdict = self._removals.judge(key, ours, wanted, now, hidden=self._hides_decisions(key))
            if verdict.must_wait:
                return self._wait(placement, verdict)
        return PlacementPlan(
            writes.actions,
            self._status(placement, schedule, desired, now),
            None if look_again is None else max(look_again - now, timedelta()),
            status_waits=True,
            verdict=verdict,
            members=schedule.members if schedule.added or schedule.removed else None,
            writes=writes,
            publishes=desired if writes.actions else None,
            scheduling_seconds=seconds,
        )

    def begin(self, key: Key, plan: Plan) -> None:
        """Hear that a plan begins to be carried out."""
        if isinstance(plan, AskingPlan):
            if plan.now is not None:
                self._index.scheduler.advance(key, plan.now, SLICE)
            return
        if not isinstance(plan, RemovalPlan):  # there is nothing to plan any more
            self._settled.pop(key, None)
            self._recorder.forget(key)
            self._removals.begin(key, None)
            self._failures.forget(key)
            return
        if plan.verdict is not None and plan.verdict.must_wait and not self._removals.waits(key):
            self._metrics.held.inc()
            _log.warning("placement %s: caches are behind its decisions, which are kept", key)
        self._removals.begin(key, plan.verdict)
        if isinstance(plan, PlacementPlan):
            self._metrics.scheduling.observe(plan.scheduling_seconds)
            self._recorder.begin(key, plan.writes)
            if plan.members is not None:
                self._index.intend(key, plan.members)
            if plan.publishes is not None:
                self._failures.begin(key, plan.publishes)
            elif not plan.must_retry:
                self._failures.forget(key)

    def written(self, key: Key, written: Written) -> None:
        """Hear of a write that the server confirmed."""
        self._removals.wrote(key, written)
        self._failures.written(key, written)

    def failed(self, key: Key, failed: Failed) -> bool:
        """Hear of a write that failed; return whether the next plan knows of it."""
        return self._failures.failed(key, failed)

    def _wait(self, placement: Placement, verdict: RemovalCheck) -> Plan:
        """Plan nothing for now, because the caches do not know enough; say so once."""
        told = () if self._removals.waits(key_of(placement)) else (status.held(placement),)
        return RemovalPlan(told, look_again_after=LOOK_AGAIN, verdict=verdict)

    def _tell(self, placement: Placement, retry: Retry, now: datetime, after: timedelta) -> Plan:
        """Plan no decision for now, because some could not be written; say so once."""
        told = status.is_unpublished(placement)
        conditions = status.unpublished(placement, retry.failures, now)
        return PlacementPlan(
            () if told else (status.write_failed(placement, retry.failures),),
            _status_patch(placement, msgspec.structs.replace(placement.status, conditions=conditions)),
            after,
            must_retry=True,
        )

    def _hides_decisions(self, key: Key) -> bool:
        """Whether a placement has decisions that cannot be read: it cannot be known who is in them."""
        return any(
            meta.namespace == key.namespace
            and (meta.labels.get(PLACEMENT_LABEL) == key.name or meta.name.rpartition("-decision-")[0] == key.name)
            for meta in (misfit.metadata for misfit in self._decisions.unreadable.values())
        )

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
            and not (schedule.compiled and schedule.compiled.groups)  # whose members change with their labels
        ):
            return settled.desired, DecisionWrites()
        current = self._index.current(placement, ours)
        desired = desired_slices(placement, schedule, current)
        writes = decision_writes(placement, schedule, current, desired)
        self._settled.pop(key, None)
        if not writes.actions:
            self._settled[key] = _Settled(*facts, desired)
        return desired, writes

    def _status(
        self, placement: Placement, schedule: Schedule, desired: DesiredSlices | None, now: datetime
    ) -> Patch | None:
        """Return the write of a placement's status, once its decisions are as they are desired."""
        slices = desired.slices if desired is not None else ()
        selected = sum(len(one.clusters) for one in slices)
        after = msgspec.structs.replace(
            placement.status,
            number_of_selected_clusters=selected,
            decision_groups=status.decision_groups(slices),
            conditions=status.conditions(placement, schedule, selected, now),
        )
        return _status_patch(placement, after)


def _status_patch(placement: Placement, after: PlacementStatus) -> Patch | None:
    """Return the write of what is different in a placement's status."""
    was, is_ = _wire(placement.status), _wire(after)
    changed = {name: value for name, value in is_.items() if was.get(name) != value}
    return Patch.of(PLACEMENT, placement.metadata, {"status": changed}, "status") if changed else None


def _wire(of: msgspec.Struct) -> JSONObject:
    wire: JSONObject = msgspec.to_builtins(of)
    return wire
