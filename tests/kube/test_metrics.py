"""Metrics that are more than a number to add to."""

import asyncio
import time
from contextlib import suppress

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from echelon.fleet.loop import run
from echelon.kube.health import Heartbeat
from echelon.kube.metrics import Metrics, QueueStats, Tally


def test_a_loop_that_is_blocked_shows() -> None:
    metrics = Metrics()

    async def story() -> None:
        task = asyncio.create_task(Heartbeat(metrics).run())
        await asyncio.sleep(0.1)
        time.sleep(0.6)  # noqa: ASYNC251 - this is what is to be found
        await asyncio.sleep(0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(story())
    value = metrics.registry.get_sample_value
    assert (value("echelon_event_loop_lag_seconds_sum") or 0) > 0.3


def test_a_loop_that_is_free_has_no_lag() -> None:
    metrics = Metrics()

    async def story() -> None:
        task = asyncio.create_task(Heartbeat(metrics).run())
        await asyncio.sleep(60)
        task.cancel()

    run(story())
    assert metrics.registry.get_sample_value("echelon_event_loop_lag_seconds_sum") == 0


def test_durations_are_counted_in_buckets_that_include_the_smaller_ones() -> None:
    tally = Tally()
    for seconds in (0.0005, 0.001, 0.3, 9999.0):
        tally.add(seconds)
    buckets = dict(tally.buckets())
    assert buckets["0.001"] == 2
    assert buckets["0.5"] == 3
    assert buckets["600.0"] == 3
    assert buckets["+Inf"] == 4


def test_everything_can_be_scraped_and_two_registries_do_not_meet() -> None:
    first, second = Metrics(), Metrics()
    stats = QueueStats(lambda: 3, lambda: 1.5, adds=7)
    stats.waited.add(0.2)
    first.show_queue("placement", stats)
    first.writes.labels("create", "configmaps", "200").inc()
    families = {
        family.name: family for family in text_string_to_metric_families(generate_latest(first.registry).decode())
    }
    assert {sample.value for sample in families["workqueue_depth"].samples} == {3}
    assert {sample.value for sample in families["workqueue_adds"].samples} == {7}
    assert "workqueue_queue_duration_seconds" in families
    assert second.registry.get_sample_value("workqueue_depth", {"name": "placement"}) is None
