"""The stories of federated budgets on a simulated fleet, counted by somebody who sees only the members' pods."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from echelon.fleet.loop import run
from echelon.fleet.member.profile import Pace
from tests.fleet.pod_counter import Limits
from tests.fleet.workload_fleet import WorkloadFleet, voluntary, workload_fleet, workload_spec

_NO_LIMIT = Limits(0, 1 << 30)


def told(
    story: Callable[[WorkloadFleet], Awaitable[None]],
    clusters: int = 2,
    *,
    seconds: float = 0.0,
    pace: Pace | None = None,
) -> None:
    async def main() -> None:
        async with workload_fleet(clusters, _NO_LIMIT, seconds=seconds, pace=pace) as here:
            await story(here)

    run(main())


def test_a_deployment_over_two_clusters_keeps_eight_of_ten_pods_and_never_has_twelve() -> None:
    async def story(here: WorkloadFleet) -> None:
        first, second = here.names
        await here.bind("Deployment", {first: 4, second: 6})
        await here.make("Deployment", workload_spec("Deployment", "nginx:v1", 10, 2, 1))
        await here.until(lambda: here.is_complete("nginx:v1", 10))
        assert (here.counter.in_cluster(first), here.counter.in_cluster(second)) == ({"nginx:v1": 4}, {"nginx:v1": 6})
        here.counter.limits = Limits(available=8, pods=11)
        here.counter.measure()
        await here.roll_out("Deployment", "nginx:v2")
        await here.until(lambda: here.is_complete("nginx:v2", 10))
        assert not voluntary(here.counter)
        assert (here.counter.lowest, here.counter.highest) == (8, 11)

    told(story)


def test_a_clone_set_with_a_partition_of_four_stops_at_six_new_pods_and_finishes_without_it() -> None:
    async def story(here: WorkloadFleet) -> None:
        first, second = here.names
        await here.bind("CloneSet", {first: 3, second: 7})
        await here.make("CloneSet", workload_spec("CloneSet", "nginx:v1", 10, 2, 0))
        await here.until(lambda: here.is_complete("nginx:v1", 10))
        await asyncio.sleep(10)  # the hub has to hear that it is complete: before that there is no old template to keep
        here.counter.limits = Limits(available=8, pods=10, updated=6)
        await here.change("CloneSet", updateStrategy={"partition": 4})
        await here.roll_out("CloneSet", "nginx:v2")
        await asyncio.sleep(600)
        assert here.counter.images == {"nginx:v1": 4, "nginx:v2": 6}
        assert (here.counter.in_cluster(first), here.counter.in_cluster(second)) == (
            {"nginx:v1": 1, "nginx:v2": 2},
            {"nginx:v1": 3, "nginx:v2": 4},
        )
        here.counter.limits = Limits(available=8, pods=10)
        await here.change("CloneSet", updateStrategy={"partition": 0})
        await here.until(lambda: here.is_complete("nginx:v2", 10))
        assert not voluntary(here.counter)

    told(story)


@pytest.mark.full
def test_one_pod_at_a_time_over_ten_far_clusters_through_three_templates_and_a_kill() -> None:
    async def story(here: WorkloadFleet) -> None:
        await here.bind("Deployment", dict.fromkeys(here.names, 5))
        await here.make("Deployment", workload_spec("Deployment", "nginx:v1", 50, 1, 0))
        await here.until(lambda: here.is_complete("nginx:v1", 50))
        here.counter.limits = Limits(available=49, pods=50)
        here.counter.measure()
        await here.roll_out("Deployment", "nginx:v2")
        await here.until(lambda: here.counter.images.get("nginx:v2", 0) >= 12)
        await here.roll_out("Deployment", "nginx:v3")
        await here.until(lambda: here.counter.images.get("nginx:v3", 0) >= 3)
        killed = asyncio.create_task(here.kill_after_the_next_ledger())
        await here.roll_out("Deployment", "nginx:v4")
        await killed
        await asyncio.sleep(30)
        here.start_controllers()
        await here.until(lambda: here.is_complete("nginx:v4", 50), within=36_000)
        assert not voluntary(here.counter)
        assert (here.counter.lowest, here.counter.highest) == (49, 50)

    told(story, clusters=10, seconds=5.0)
