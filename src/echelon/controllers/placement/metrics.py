"""What the placement controller measures, under the names that dashboards of the field know.

Decisions are written by the runtime after the plan was made, so how long that takes can only be learned on the way: the
events of a plan come between its writes, and are handed through here.
"""

import asyncio
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from echelon.api.keys import Key
from echelon.controllers.placement.decision_writes import DecisionWrites
from echelon.engine.plan import Emit
from echelon.kube.act import Recorder

NAME = "placement_scheduling"
_SECONDS = tuple(1e-6 * 10**power for power in range(10))


class PlacementMetrics:
    """The metrics of one placement controller."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, what: str) -> Histogram:
            return Histogram(f"scheduling_{name}_duration_seconds", what, ["name"], registry=registry, buckets=_SECONDS)

        self.scheduling = histogram("scheduling", "How long it took to choose clusters.").labels(NAME)
        self.bind = histogram("bind", "How long it took to write decisions.").labels(NAME)
        self.held = Counter(
            "scheduling_removals_held", "Plans that waited because caches were behind decisions.", registry=registry
        )
        self.surges = Counter("scheduling_surges", "Updates that needed a surge.", registry=registry)
        self.surging = Gauge("scheduling_surges_running", "Surges that have begun and are not over.", registry=registry)
        self.surge = Histogram(
            "scheduling_surge_duration_seconds", "How long surges took.", registry=registry, buckets=_SECONDS
        )
        self.over_limit = Counter(
            "scheduling_surge_decisions_over_limit", "Decisions over the limit in surges.", registry=registry
        )


@dataclass
class _Underway:
    writes: DecisionWrites
    began: float
    events: int  # that are still to come
    surged: float | None = None


class MeasuringRecorder:
    """Passes events on, and measures what happens between them."""

    def __init__(self, recorder: Recorder, metrics: PlacementMetrics) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._underway: dict[Key, _Underway] = {}

    def begin(self, key: Key, writes: DecisionWrites) -> None:
        """Expect the events of a plan that is about to be acted on; those of an earlier one will not come any more."""
        self.forget(key)
        if writes.events:
            self._underway[key] = _Underway(writes, asyncio.get_running_loop().time(), writes.events)

    def forget(self, key: Key) -> None:
        """Expect no more events for a placement."""
        before = self._underway.pop(key, None)
        if before is not None and before.surged is not None:
            self._metrics.surging.dec()

    async def emit(self, event: Emit) -> None:
        """Pass an event on."""
        self._measure(event)
        await self._recorder.emit(event)

    def _measure(self, event: Emit) -> None:
        underway = self._underway.get(Key(event.regarding.namespace, event.regarding.name))
        if underway is None:
            return
        now = asyncio.get_running_loop().time()
        begun, over = underway.writes.surge or (None, None)
        if event is begun:
            underway.surged = now
            self._metrics.surges.inc()
            self._metrics.surging.inc()
            self._metrics.over_limit.inc(underway.writes.over_limit)
        if event is over and underway.surged is not None:
            self._metrics.surge.observe(now - underway.surged)
        underway.events -= 1
        if not underway.events:
            self._metrics.bind.observe(now - underway.began)
            self.forget(Key(event.regarding.namespace, event.regarding.name))
