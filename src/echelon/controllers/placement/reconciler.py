"""The placement controller: chooses clusters for placements and publishes the choice as decision objects.

Changes of clusters, sets, bindings and scores go into the engine as they are seen, and the engine answers with the
placements that could care; nothing else is planned. A plan knows what was *intended* before (the surge of an update
that is under way is no memory); after a restart that is read from the decisions once, of all placements before the
first is planned, because they share clusters.

Our own writes come back as changes. Looking at everything again for each of them would cost more than the change did,
so a placement that was found settled, and of which nothing is different, is not worked out again.
"""

import asyncio
import logging
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP
from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT, Placement, PlacementDecision
from echelon.controllers.placement.decision_writes import DecisionWrites, decision_writes
from echelon.controllers.placement.doubt import LOOK_AGAIN, Doubt
from echelon.controllers.placement.metrics import MeasuringRecorder, PlacementMetrics
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

_log = logging.getLogger(__name__)


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
        doubt: Doubt[PlacementDecision],
    ) -> None:
        self.scheduler = Scheduler()
        self._placements = placements
        self._decisions = decisions
        self._metrics = metrics
        self._recorder = recorder
        self._doubt = doubt
        self._begun = False
        self._recalled: set[Key] = set()  # placements whose decisions the engine knows
        self._settled: dict[Key, _Settled] = {}
        self._wrote: dict[Key, float] = {}

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one placement."""
        self._begin()
        placement = self._placements.get(key)
        if placement is None or not _is_scheduled(placement):
            return NOTHING
        known = key_of(placement)
        ours = self._decisions.by_index("owner", placement.metadata.uid)
        if known not in self._recalled:
            self._recall(placement)
        schedule = self._schedule(known, now)
        if schedule is None:
            return NOTHING
        if len(placement.metadata.name) > MAX_NAME:  # no decision can say whose it is
            return Plan(status=self._status(placement, schedule, None, now))
        desired, writes = self._publication(placement, schedule, ours)
        if writes.actions:
            waits = self._doubt.waits(key)
            wanted = {name for one in desired.slices for name in one.clusters}
            if self._doubt.about(key, ours, wanted, hidden=self._hides_decisions(key)):
                return self._wait(placement, first=not waits)
        if schedule.added or schedule.removed:
            self.scheduler.decided(known, schedule.members)
        self._recorder.begin(key, writes)
        if writes.actions:
            self._wrote[key] = asyncio.get_running_loop().time()
        look_again = None if schedule.look_again is None else max(schedule.look_again - now, timedelta())
        return Plan(writes.actions, self._status(placement, schedule, desired, now), look_again, status_waits=True)

    def _wait(self, placement: Placement, *, first: bool) -> Plan:
        """Plan nothing for now, because the caches do not know enough; say so once."""
        if not first:
            return Plan(look_again_after=LOOK_AGAIN)
        meta = placement.metadata
        self._metrics.held.inc()
        _log.warning("placement %s/%s: caches are behind its decisions, which are kept", meta.namespace, meta.name)
        return Plan((status.held(placement),), look_again_after=LOOK_AGAIN)

    def _hides_decisions(self, key: Key) -> bool:
        """Whether a placement has decisions that cannot be read: it cannot be known who is in them."""
        return any(
            meta.namespace == key.namespace
            and (meta.labels.get(PLACEMENT_LABEL) == key.name or meta.name.rpartition("-decision-")[0] == key.name)
            for meta in (misfit.metadata for misfit in self._decisions.unreadable.values())
        )

    def wrote_at(self, key: Key) -> float:
        """Return when decisions of a placement were last to be written, on the clock of the event loop."""
        return self._wrote.get(key, -math.inf)

    def _schedule(self, key: Key, now: datetime) -> Schedule | None:
        started = time.perf_counter()
        try:
            return self.scheduler.schedule(key, now)
        finally:
            self._metrics.scheduling.observe(time.perf_counter() - started)

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

    def _begin(self) -> None:
        """Let the engine know all placements, once the caches have everything."""
        if self._begun:
            return
        self._begun = True
        for placement in self._placements.values():
            if _is_scheduled(placement):
                self.scheduler.placement(placement)
                self._recall(placement)
        for decision in self._decisions.values():
            self._count_foreign(decision)

    def _recall(self, placement: Placement) -> None:
        """Tell the engine what the decisions of a placement say."""
        key = key_of(placement)
        self._recalled.add(key)
        ours = self._decisions.by_index("owner", placement.metadata.uid)
        self.scheduler.decided(key, self._current(placement, ours).memory.clusters)

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
        self._recalled.discard(key)
        self._settled.pop(key, None)
        self._wrote.pop(key_of(placement), None)
        self._recorder.forget(key_of(placement))
        self._doubt.forget(key_of(placement))

    def decision_changed(self, delta: Delta[PlacementDecision]) -> None:
        """Follow a decision, which matters to the balance if it is not one of ours."""
        if delta.new is None:
            self._doubt.gone(delta.object)
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
