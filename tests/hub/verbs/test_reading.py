"""Reads that ask for more than there is yet. In virtual time, so how long they wait is exact."""

import asyncio

import pytest

from echelon.api.core import CONFIG_MAP
from echelon.fleet.loop import run
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.hub.verbs import reading
from echelon.kube.errors import ServerTimeout, Unavailable
from tests.hub.api import config_map


async def busy_cluster() -> tuple[LogicalCluster, asyncio.Task[None]]:
    """Return a cluster in which something is written all the time."""
    cluster = memory_cluster(seed=1)
    await bootstrap(cluster)

    async def write() -> None:
        for number in range(1000):
            await InProcessClient(cluster, ROOT).create(CONFIG_MAP, config_map(f"m{number}"), "default")
            await asyncio.sleep(0.1)

    return cluster, asyncio.create_task(write())


def test_a_read_of_a_version_that_never_comes_ends_on_a_busy_hub_too() -> None:
    async def main() -> None:
        cluster, writing = await busy_cluster()
        client, loop = InProcessClient(cluster, ROOT), asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(ServerTimeout, match=r"^Timeout: Too large resource version: 1000000, current: ") as refused:
            await client.list(CONFIG_MAP, "default", resource_version="1000000")
        assert loop.time() - began == pytest.approx(reading.FUTURE_REVISION_SECONDS)
        assert refused.value.status_code == 504
        assert refused.value.status_reason == "Timeout"
        assert refused.value.retry_after == 1
        assert refused.value.details["causes"] == [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        ]
        writing.cancel()

    run(main())


def test_a_read_waits_for_a_version_that_comes() -> None:
    async def main() -> None:
        cluster, writing = await busy_cluster()
        wanted = cluster.store.revision + 10
        page = await InProcessClient(cluster, ROOT).list(CONFIG_MAP, resource_version=str(wanted))
        assert int(page.resource_version) >= wanted
        writing.cancel()

    run(main())


def test_a_read_that_waits_is_told_when_the_hub_stops() -> None:
    async def main() -> None:
        cluster, writing = await busy_cluster()
        waiting = asyncio.create_task(InProcessClient(cluster, ROOT).list(CONFIG_MAP, resource_version="1000000"))
        await asyncio.sleep(1)
        writing.cancel()
        cluster.store.close()
        with pytest.raises(Unavailable):
            await waiting

    run(main())
