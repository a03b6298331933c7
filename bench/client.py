"""A client that gets out of the way: no retries, no decoding, connections kept open, the event loop of the server.

What it costs by itself is measured with every phase, because on a small machine client and server share the cores.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import msgspec

from bench.servers import Server

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class Refused(Exception):
    """The server answered with something else than success."""


@dataclass(frozen=True)
class Timing:
    """When an answer began and when it was complete, in seconds after the request, and its size."""

    first_byte: float
    last_byte: float
    size: int


class Client:
    """Talks to one server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def send(self, method: str, path: str, body: object = None, content_type: str = JSON) -> bytes:
        """Send a request and return the whole answer; everything but success is an error."""
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content_type} if data is not None else None
        async with self._session.request(method, self._url + path, data=data, headers=headers) as response:
            answer = await response.read()
        if response.status >= 300:
            raise Refused(f"{method} {path}: {response.status} {answer[:300].decode(errors='replace')}")
        return answer

    async def exists(self, path: str) -> bool:
        """Tell whether there is something at an address."""
        async with self._session.get(self._url + path) as response:
            await response.read()
        return response.status < 300

    async def timed(self, path: str) -> Timing:
        """Get something large, and note when it came."""
        start, size = time.perf_counter(), 0
        async with self._session.get(self._url + path) as response:
            first = time.perf_counter() - start
            async for chunk in response.content.iter_any():
                size += len(chunk)
        if response.status >= 300:
            raise Refused(f"GET {path}: {response.status}")
        return Timing(first, time.perf_counter() - start, size)

    async def follow(
        self, path: str, revision: str, events: int, begun: asyncio.Event, counted: Callable[[int], None]
    ) -> None:
        """Watch until so many events have come; each is one line. Servers drop watches that lag: these go on."""
        while events > 0:
            line = rest = b""
            async with self._session.get(f"{self._url}{path}?watch=1&resourceVersion={revision}") as response:
                if response.status >= 300:
                    raise Refused(f"GET {path}: {response.status}")
                begun.set()
                async for chunk in response.content.iter_any():
                    seen = chunk.count(b"\n")
                    if seen:
                        *_, line, rest = (rest + chunk).rsplit(b"\n", 2)
                        counted(seen)
                        events -= seen
                    else:
                        rest += chunk
                    if events <= 0:
                        return
            if line:
                revision = msgspec.json.decode(line)["object"]["metadata"]["resourceVersion"]


@asynccontextmanager
async def connect(server: Server) -> AsyncIterator[Client]:
    """Open a client for a server."""
    context = ssl.create_default_context(cadata=server.authority)
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    headers = {"Authorization": f"Bearer {server.token}", "User-Agent": "bench/1"}
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
        yield Client(session, server.url)


async def in_flight(limit: int, jobs: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Run jobs, always so many at once; the first failure ends them all."""
    waiting = iter(jobs)

    async def worker() -> None:
        for job in waiting:
            await job()

    async with asyncio.TaskGroup() as group:
        for _ in range(limit):
            group.create_task(worker())
