"""What is measured from outside, one phase after the other, on the same fleet.

Every phase notes the CPU seconds of server and client. Wall-clock time depends on who else uses the machine; CPU time
hardly does, and says which of the two would have been the bottleneck.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles

import msgspec

from bench import fleet
from bench.client import MERGE_PATCH, Client, Timing, in_flight
from bench.processes import usage
from bench.progress import Progress
from bench.servers import NoServer
from echelon.api import registry

IN_FLIGHT = 48
LISTS = 7
GETS = 1000
WATCHERS = 100
WATCHED_UPDATES = 1000

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ESTABLISH_SECONDS = 60.0


@dataclass
class Spent:
    """What a phase took."""

    seconds: float = 0.0
    server_cpu: float = 0.0
    client_cpu: float = 0.0


@dataclass
class Bench:
    """A run against one server."""

    client: Client
    pids: tuple[int, ...]
    progress: Progress
    spent: dict[str, Spent] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str, steps: int = 0) -> Iterator[Spent]:
        """Measure what happens inside."""
        self.progress.begin(name, steps)
        took = self.spent[name] = Spent()
        server, client, start = usage(self.pids).cpu, time.process_time(), time.perf_counter()
        yield took
        took.seconds = time.perf_counter() - start
        took.client_cpu = time.process_time() - client
        took.server_cpu = usage(self.pids).cpu - server
        self.progress.end()

    async def prepare(self) -> None:
        """Apply the CRDs and see that the fleet is empty."""
        self.progress.begin("applying the CRDs")
        for crd in registry.crds():
            if not await self.client.exists(f"{_CRDS}/{crd['metadata']['name']}"):
                await self.client.send("POST", _CRDS, crd)
        deadline = time.monotonic() + _ESTABLISH_SECONDS
        while not await self.client.exists(fleet.COLLECTION):
            if time.monotonic() > deadline:
                raise NoServer("the server does not serve ManagedClusters although their CRD is there")
            await asyncio.sleep(0.1)
        listed = msgspec.json.decode(await self.client.send("GET", f"{fleet.COLLECTION}?limit=1"))
        if listed["items"]:
            raise NoServer("the server has ManagedClusters already; the figures would not be comparable")

    async def create(self, clusters: int) -> float:
        """Create the fleet; return creates per second."""
        with self.phase("create", clusters) as took:
            await in_flight(IN_FLIGHT, (self._job(self._create, number) for number in range(clusters)))
        return clusters / took.seconds

    async def _create(self, number: int) -> None:
        await self.client.send("POST", fleet.COLLECTION, fleet.cluster(number))

    async def list(self) -> list[Timing]:
        """List the whole fleet several times; one more goes ahead that does not count."""
        await self.client.timed(fleet.COLLECTION)
        with self.phase("list", LISTS):
            found = []
            for _ in range(LISTS):
                found.append(await self.client.timed(fleet.COLLECTION))
                self.progress.step()
        return found

    async def get(self, clusters: int) -> tuple[float, float]:
        """Get one cluster after the other; return the median and the 99th percentile, in seconds."""
        taken = []
        with self.phase("get", GETS):
            for number in range(GETS):
                start = time.perf_counter()
                await self.client.send("GET", fleet.address_of(number % clusters))
                taken.append(time.perf_counter() - start)
                self.progress.step()
        return median(taken), quantiles(taken, n=100)[98]

    async def update(self, clusters: int) -> float:
        """Patch the status of each cluster; return patches per second."""
        with self.phase("update status", clusters) as took:
            await in_flight(IN_FLIGHT, (self._job(self._report, number, number) for number in range(clusters)))
        return clusters / took.seconds

    async def _report(self, number: int, beat: int) -> None:
        path = fleet.address_of(number) + "/status"
        await self.client.send("PATCH", path, fleet.heartbeat(beat), MERGE_PATCH)

    async def fan_out(self, clusters: int) -> float:
        """Let many watch while clusters change; return the seconds until all have seen everything."""
        page = msgspec.json.decode(await self.client.send("GET", f"{fleet.COLLECTION}?limit=1"))
        now = page["metadata"]["resourceVersion"]
        begun = [asyncio.Event() for _ in range(WATCHERS)]
        numbers = range(WATCHED_UPDATES)
        jobs = (self._job(self._report, number % clusters, clusters + number) for number in numbers)
        async with asyncio.TaskGroup() as group:
            watches = [
                group.create_task(self.client.follow(fleet.COLLECTION, now, WATCHED_UPDATES, event, self.progress.step))
                for event in begun
            ]
            await asyncio.gather(*(event.wait() for event in begun))
            with self.phase("watch fan-out", WATCHED_UPDATES * (WATCHERS + 1)) as took:
                await in_flight(IN_FLIGHT, jobs)
                await asyncio.gather(*watches)
        return took.seconds

    async def delete(self, clusters: int) -> None:
        """Delete the fleet, one by one: as a collection it would take longer than a request may take."""
        self.progress.begin("deleting the clusters", clusters)
        await in_flight(IN_FLIGHT, (self._job(self._delete, number) for number in range(clusters)))

    async def _delete(self, number: int) -> None:
        if await self.client.exists(fleet.address_of(number)):
            await self.client.send("DELETE", fleet.address_of(number))

    def _job(self, act: Callable[..., Awaitable[None]], *values: int) -> Callable[[], Awaitable[None]]:
        async def job() -> None:
            await act(*values)
            self.progress.step()

        return job
