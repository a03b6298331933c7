"""What is measured of rollouts is what their status says, and nothing of it outlives them."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from prometheus_client import generate_latest

from echelon.api.meta import Condition, ObjectMeta
from echelon.api.rollout import RolloutSummary
from echelon.api.times import format_time
from echelon.controllers.rollout.metrics import RolloutMetrics, RolloutStatus
from echelon.engine.rollout.conditions import APPROVAL, BLOCKED, BREACH, EMPTY, REMOVAL_HELD, ROLLED_OUT, VERIFIED
from echelon.engine.rollout.overall import RolloutStanding, overall
from echelon.kube.metrics import Metrics

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


class Clock:
    def now(self) -> datetime:
        return NOW


def said(kind: str, status: bool, reason: str = "", ago: float = 0) -> Condition:
    when = format_time(NOW - timedelta(seconds=ago))
    return Condition(type=kind, status=str(status), reason=reason, message="", last_transition_time=when)


def rollout(name: str, *conditions: Condition, summary: RolloutSummary | None = None) -> RolloutStatus:
    return RolloutStatus(ObjectMeta(name=name, namespace="shop"), conditions, summary)


def test_what_is_shown_goes_with_the_object_and_with_the_leadership() -> None:
    metrics = Metrics()
    measures = RolloutMetrics.of(metrics)
    there = [rollout("web", said(ROLLED_OUT, False, "Progressing"), said(BLOCKED, True, BREACH, 90))]
    where = {"kind": "ManifestWorkReplicaSet", "namespace": "shop", "name": "web"}

    def value(name: str, **more: str) -> float | None:
        return metrics.registry.get_sample_value(name, {**where, **more})

    async def story() -> None:
        shown = asyncio.ensure_future(measures.showing(where["kind"], lambda: list(there), Clock())())
        await asyncio.sleep(0)
        assert value("echelon_rollout_state", state="stopped") == 1
        assert value("echelon_rollout_blocked_seconds") == 90
        assert value("echelon_rollout_clusters", phase="failed") is None
        summary = RolloutSummary(succeeded=3, failed=2)
        there[:] = [rollout("web", said(ROLLED_OUT, False, REMOVAL_HELD), summary=summary)]
        assert value("echelon_rollout_state", state="stopped") is None
        assert value("echelon_rollout_removals_held") == 1
        assert value("echelon_rollout_blocked_seconds") == 0
        assert [value("echelon_rollout_clusters", phase=phase) for phase in ("succeeded", "failed")] == [3, 2]
        there.clear()
        assert b'name="web"' not in generate_latest(metrics.registry)
        there[:] = [rollout("web", said(ROLLED_OUT, True, "Complete"))]
        assert value("echelon_rollout_state", state="complete") == 1
        shown.cancel()
        with suppress(asyncio.CancelledError):
            await shown
        assert b'name="web"' not in generate_latest(metrics.registry)

    asyncio.run(story())


def test_failures_and_durations_are_counted_when_they_happen() -> None:
    metrics = Metrics()
    measures = RolloutMetrics.of(metrics)
    assert RolloutMetrics.of(metrics) is measures
    states = [
        rollout("web", said(ROLLED_OUT, False, "Progressing", 600), summary=RolloutSummary(progressing=3)),
        rollout("web", said(ROLLED_OUT, False, "Progressing", 600), summary=RolloutSummary(failed=2, progressing=1)),
        rollout("web", said(ROLLED_OUT, False, "Progressing", 600), summary=RolloutSummary(timed_out=2, succeeded=1)),
        rollout("web", said(ROLLED_OUT, True, "Complete", 0), summary=RolloutSummary(succeeded=3)),
        rollout("web", said(ROLLED_OUT, True, "Complete", 0), summary=RolloutSummary(succeeded=3)),
    ]
    for before, after in pairwise(states):
        measures.changed("Policy", before, after)

    def value(name: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"kind": "Policy"})

    assert value("echelon_rollout_cluster_failures_total") == 2
    assert value("echelon_rollout_duration_seconds_count") == 1
    assert value("echelon_rollout_duration_seconds_sum") == 600


@pytest.mark.parametrize(
    ("conditions", "standing"),
    [
        ((), RolloutStanding.PENDING),
        ((said(ROLLED_OUT, False, "Progressing"), said(BLOCKED, False, "NotBlocked")), RolloutStanding.PROGRESSING),
        ((said(ROLLED_OUT, True, "Complete"),), RolloutStanding.COMPLETE),
        ((said(ROLLED_OUT, False, "Progressing"), said(BLOCKED, True, "Paused")), RolloutStanding.PAUSED),
        ((said(ROLLED_OUT, False, "Progressing"), said(BLOCKED, True, "Aborted")), RolloutStanding.ABORTED),
        ((said(ROLLED_OUT, False, "Progressing"), said(BLOCKED, True, APPROVAL)), RolloutStanding.AWAITING_APPROVAL),
        ((said(ROLLED_OUT, False, "Progressing"), said(BLOCKED, True, "WriteFailed")), RolloutStanding.BLOCKED),
        ((said(ROLLED_OUT, False, EMPTY), said(VERIFIED, False, EMPTY)), RolloutStanding.NO_CLUSTERS),
        ((said(ROLLED_OUT, False, "Progressing"), said(VERIFIED, False, "NotFound")), RolloutStanding.MISCONFIGURED),
    ],
)
def test_where_a_rollout_stands_is_what_its_conditions_say(
    conditions: tuple[Condition, ...], standing: RolloutStanding
) -> None:
    assert overall(conditions).standing is standing
