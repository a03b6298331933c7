"""What is remembered of leases and taints follows the caches, and no clock but our own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from random import Random
from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.api.coordination import LEASE, Lease
from echelon.controllers.cluster.heartbeats import Heartbeats, SteadyClock
from echelon.controllers.cluster.taint_times import TaintTimes
from echelon.engine.cluster_health import LEASE_NAME
from echelon.kube.errors import ApiError
from echelon.kube.informer import Delta, Informer
from tests.controllers.hub import Hub, told
from tests.controllers.test_health import joined, renew, state


@dataclass
class Followed:
    """What is remembered of a hub's clusters, and what decides whether it hears of a change."""

    clusters: Informer[ManagedCluster]
    leases: Informer[Lease]
    heartbeats: Heartbeats
    taint_times: TaintTimes
    deaf: bool = False

    def lease_changed(self, delta: Delta[Lease]) -> None:
        if not self.deaf:
            self.heartbeats.lease_changed(delta)

    def cluster_changed(self, delta: Delta[ManagedCluster]) -> None:
        if not self.deaf:
            self.heartbeats.cluster_changed(delta, recovered=False)
            self.taint_times.cluster_changed(delta)

    def differences(self) -> list[str]:
        return [*self.heartbeats.differences(), *self.taint_times.differences()]


@asynccontextmanager
async def followed(hub: Hub) -> AsyncIterator[Followed]:
    clusters = Informer(hub.client, MANAGED_CLUSTER, random=Random(1))  # noqa: S311 - repeatable on purpose
    leases = Informer(hub.client, LEASE, fields=f"metadata.name={LEASE_NAME}", random=Random(1))  # noqa: S311 - as above
    heartbeats = Heartbeats(clusters, leases, SteadyClock(hub.clock))
    here = Followed(clusters, leases, heartbeats, TaintTimes(clusters))
    clusters.on_change(here.cluster_changed)
    leases.on_change(here.lease_changed)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each.run()) for each in (clusters, leases)]
        await clusters.wait_synced()
        await leases.wait_synced()
        yield here
        for task in tasks:
            task.cancel()


async def anything(hub: Hub, chance: Random, name: str) -> None:
    """Do one of the things that happen to clusters and their leases."""
    taints = [{"key": chance.choice("ab"), "effect": "NoSelect"} for _ in range(chance.randrange(2))]
    what = chance.randrange(7)
    if what == 0:
        await joined(hub, name)
    elif what == 1:
        await hub.delete(MANAGED_CLUSTER, name)
    elif what == 2:
        await hub.delete(LEASE, LEASE_NAME, name)
    elif what == 3:
        await hub.patch(MANAGED_CLUSTER, name, {"spec": {"hubAcceptsClient": chance.random() < 0.5}})
    elif what == 4:
        await hub.patch(MANAGED_CLUSTER, name, {"spec": {"taints": taints}})
    elif what == 5:
        await hub.create(LEASE, LEASE_NAME, name, spec={"renewTime": "2020-01-01T00:00:00.000000Z"})
    else:
        await renew(hub, name)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_remembered_is_what_caches_show_whatever_happens(seed: int) -> None:
    async def story(hub: Hub) -> None:
        chance = Random(seed)  # noqa: S311 - repeatable on purpose
        async with followed(hub) as here:
            for _ in range(150):
                try:
                    await anything(hub, chance, chance.choice("abc"))
                except ApiError:
                    continue  # it is not there, or there already
                await asyncio.sleep(chance.choice((0, 1, 60)))
                assert here.differences() == []

    told(story)


def test_a_change_that_was_missed_is_found_and_made_good() -> None:
    async def story(hub: Hub) -> None:
        await joined(hub, "a")
        await joined(hub, "gone")
        async with followed(hub) as here:
            await hub.settle()
            here.deaf = True
            await asyncio.sleep(200)
            await renew(hub, "a")
            await hub.delete(MANAGED_CLUSTER, "gone")
            await hub.delete(LEASE, LEASE_NAME, "gone")
            await hub.patch(MANAGED_CLUSTER, "a", {"spec": {"taints": [{"key": "k", "effect": "NoSelect"}]}})
            await hub.settle()
            assert here.differences() == [
                "accepted are ['a'], and not ['a', 'gone']",
                "renewals of ['a'] were missed",
                "['gone'] are not forgotten",
                "taints of ['a', 'gone'] were missed",
            ]
            cluster = await hub.client.get(MANAGED_CLUSTER, "a")
            assert here.heartbeats.grace_left(cluster, hub.clock.now(), -inf) == pytest.approx(90)
            here.heartbeats.rebuild()
            here.taint_times.rebuild()
            assert here.differences() == []
            assert here.heartbeats.grace_left(cluster, hub.clock.now(), -inf) == pytest.approx(300)

    told(story)


class Jumping:
    """A clock that somebody sets."""

    def __init__(self, hub: Hub) -> None:
        self._inner = hub.clock
        self.ahead = timedelta()

    def now(self) -> datetime:
        return self._inner.now() + self.ahead


@pytest.mark.parametrize("jump", [timedelta(days=2), timedelta(days=-2)])
def test_nobody_is_given_up_sooner_or_later_because_a_clock_is_set(jump: timedelta) -> None:
    async def story(hub: Hub) -> None:
        clock: Any = Jumping(hub)
        hub.clock = clock
        await joined(hub)
        hub.start("cluster-health")
        await renew(hub)
        await asyncio.sleep(200)
        clock.ahead = jump
        await hub.patch(MANAGED_CLUSTER, "c", {"spec": {"taints": [{"key": "k", "effect": "NoSelect"}]}})
        await asyncio.sleep(90)
        assert (await state(hub))[0] == "True"
        await asyncio.sleep(15)
        assert (await state(hub))[0] == "Unknown"
        await hub.stop()

    told(story)
