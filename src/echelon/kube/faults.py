"""A client that misbehaves on purpose, in the ways in which real API servers, networks and processes do.

Controllers are correct when they survive what production does to them, so the faults are part of the package and not
of one test. Each one stands for something that happens; what cannot happen is not simulated. An event that vanishes
from a stream that goes on, for example, does not exist in Kubernetes: what exists is a stream that falls silent, is
closed and resumed, or resumed elsewhere. The comment at each field of `Faults` names the original.
"""

import asyncio
import contextvars
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias, TypeVar, Unpack

from echelon.api.kinds import Kind
from echelon.kube import errors
from echelon.kube.client import (
    Client,
    DeleteOptions,
    Event,
    ListOptions,
    Page,
    Patch,
    Preconditions,
    WatchOptions,
    WriteOptions,
)

T = TypeVar("T")
R = TypeVar("R")
Range: TypeAlias = tuple[float, float]
_Refusal: TypeAlias = Callable[[], errors.Conflict]  # made only where it is needed: writes that go well are many

_TOO_LARGE_SECONDS = 3.0  # how long a server waits for a version that it has not reached
_FATED_EVENTS = 8  # a stream that is to break does so within this many events


class Crash(BaseException):
    """The process ends here and now. Not an `Exception`: nobody may handle it."""


@dataclass(frozen=True)
class Faults:
    """How often things go wrong: rates are per request unless said otherwise, ranges are in seconds."""

    # Somebody else wrote between our read and our write; also etcd giving up after too many retries of a patch.
    conflict: float = 0.0
    # Priority and fairness: the server is busy and says when to come back.
    too_many_requests: float = 0.0
    # The server restarts, etcd loses its leader, a proxy in between gives up: nothing was written.
    server_error: float = 0.0
    # The write was committed and the connection broke before the answer came, at once or after a long silence.
    lost_answer: float = 0.0
    lost_seconds: Range = (0.0, 30.0)
    # The caller gave up or died while its request was on the wire: it is carried out all the same.
    late_write: float = 0.0
    # The way to the server, and the way back: always, also when it is calm.
    latency: Range = (0.0, 0.0)
    # A read is answered by a replica that has not heard of the newest revisions, and all further reads too until it
    # catches up: a lagging API server behind a load balancer, or one that a restarted process happened to connect to
    # ("time travel" in Sieve). Streams from it are silent about what it does not know yet.
    stale: float = 0.0
    stale_revisions: int = 30
    stale_seconds: Range = (1.0, 60.0)
    # The version to resume from was compacted. After a silence, the changes of that window are never seen one by one
    # ("unobserved state" in Sieve): only their result is, in the next list.
    gone: float = 0.0
    # Per stream: it falls silent without an error and is closed much later; a half-open connection.
    stall: float = 0.0
    stall_seconds: Range = (5.0, 300.0)
    # Per stream: it ends early, cleanly or with an error; a rolling restart of API servers.
    close: float = 0.0
    # Per stream: events come once more from before the version that was asked for. Delivery is at least once.
    repeat: float = 0.0
    repeat_revisions: int = 20
    # Per event: it is late, and with it everything behind it in the stream. Streams of other kinds are not, so changes
    # of two kinds can be seen in either order.
    delay: float = 0.0
    delay_seconds: Range = (0.0, 10.0)
    # Per write: the process dies before it, or after it was committed and before the answer is used.
    crash: float = 0.0
    # The same at one write exactly, counted from 1 over all lives of the process. Zero is never.
    crash_before: int = 0
    crash_after: int = 0

    @classmethod
    def swarm(cls, random: Random) -> "Faults":
        """Return a mixture in which about half of the faults occur, each at a rate of its own.

        Runs that have every fault at once look all alike: one fault hides another.
        """
        most = {
            "conflict": 0.3,
            "too_many_requests": 0.2,
            "server_error": 0.2,
            "lost_answer": 0.2,
            "late_write": 0.5,
            "stale": 0.2,
            "gone": 0.3,
            "stall": 0.3,
            "close": 0.5,
            "repeat": 0.5,
            "delay": 0.3,
            "crash": 0.1,
        }
        rates = {name: random.uniform(0, limit) for name, limit in most.items() if random.random() < 0.5}
        latency = (0.0, random.choice((0.0, 0.01, 0.5)))
        return cls(latency=latency, **rates)  # type: ignore[arg-type]  # mypy takes the rates for any field


NO_FAULTS = Faults()


@dataclass
class Process:
    """What the clients of one simulated process share, through all its lives."""

    calm: bool = False  # no new faults from now on
    writes: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    life: int = 0
    dead: bool = False
    died: asyncio.Event = field(default_factory=asyncio.Event)

    def die(self) -> None:
        """End this life: no client of it will reach a server any more, whatever its `finally` blocks try."""
        self.dead = True
        self.died.set()

    def restart(self) -> None:
        """Begin a new life, which needs new clients."""
        self.life += 1
        self.dead = False
        self.died.clear()


class FaultyClient:
    """The client protocol over any client, with faults. `process` ties the clients of one process together."""

    def __init__(self, client: Client, faults: Faults, random: Random, process: Process | None = None) -> None:
        self.process = process or Process()
        self._client = client
        self._plan = faults
        self._random = random
        self._life = self.process.life
        self._pin = 0  # the revision that the replica behind this connection is stuck at
        self._pinned_until = 0.0
        self._on_the_wire: dict[asyncio.Task[Any], None] = {}

    @property
    def injected(self) -> Counter[str]:
        """How often each fault occurred, by the name of its field."""
        return self.process.injected

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object, maybe as it was."""
        await self._request()
        if pin := await self._replica(kind, namespace):
            only = f"metadata.name={name}"
            try:
                page = await self._client.list(
                    kind, namespace, fields=only, resource_version=str(pin), resource_version_match="Exact"
                )
            except errors.Gone:
                self._pin = 0
            else:
                return await self._answer(_only(kind, name, page))
        return await self._answer(await self._client.get(kind, name, namespace))

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        """Return objects, maybe as they were."""
        await self._request()
        continued, version = bool(options.get("continue_")), options.get("resource_version", "")
        if continued and self._happens("gone", self._faults.gone):
            raise errors.Gone("The provided continue parameter is too old to display a consistent list result.")
        pin = 0 if continued else await self._replica(kind, namespace)
        asked = options
        if pin and version in ("", "0"):
            asked = {**options, "resource_version": str(pin), "resource_version_match": "Exact"}
        elif pin and int(version) > pin:
            await asyncio.sleep(_TOO_LARGE_SECONDS)
            raise errors.ServerTimeout(f"Timeout: Too large resource version: {version}, current: {pin}")
        try:
            page = await self._client.list(kind, namespace, **asked)
        except errors.Gone:
            if asked is options:
                raise
            self._pin = 0
            page = await self._client.list(kind, namespace, **options)
        return await self._answer(page)

    async def watch(
        self, kind: Kind[T], namespace: str = "", **options: Unpack[WatchOptions]
    ) -> AsyncGenerator[Event[T], None]:
        """Follow changes, with everything that happens to long connections, until fate has it otherwise."""
        start = await self._start(kind, namespace, options.get("resource_version", ""))
        asked: WatchOptions = {**options, "resource_version": start}
        stream = self._client.watch(kind, namespace, **asked)
        faults, random = self._faults, self._random
        stalls, closes = self._happens("stall", faults.stall), self._happens("close", faults.close)
        left = random.randint(0, _FATED_EVENTS) if stalls or closes else -1
        pin, pinned_until = self._pin, self._pinned_until
        async with aclosing(stream) as events:  # type: ignore[type-var]  # all clients have generators here
            while left:
                event = await anext(events, None)
                self._check_alive()
                if event is None:
                    return
                loop = asyncio.get_running_loop()
                if pin and int(event.resource_version) > pin and loop.time() < pinned_until:
                    await asyncio.sleep(pinned_until - loop.time())
                if self._happens("delay", self._faults.delay):
                    await asyncio.sleep(random.uniform(*faults.delay_seconds))
                self._check_alive()
                left -= 1
                yield event
        if stalls and not self.process.calm:
            await asyncio.sleep(random.uniform(*faults.stall_seconds))
        elif random.random() < 0.5:
            raise errors.Unavailable("the connection was lost")

    async def create(
        self, kind: Kind[T], body: dict[str, Any], namespace: str = "", *, options: WriteOptions | None = None
    ) -> T:
        """Create an object, or not, or die."""
        return await self._write(
            lambda: self._client.create(kind, body, namespace, options=options), dry=bool(options and options.dry_run)
        )

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> T:
        """Change an object, or not, or die."""
        return await self._write(
            lambda: self._client.patch(kind, name, patch, namespace, subresource=subresource, options=options),
            dry=bool(options and options.dry_run),
            conflict=lambda: errors.stale(kind.plural, kind.group, name),
        )

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, options: DeleteOptions | None = None
    ) -> None:
        """Delete an object, or not, or die."""
        guarded = options is not None and options.preconditions != Preconditions()
        await self._write(
            lambda: self._client.delete(kind, name, namespace, options=options),
            dry=bool(options and options.dry_run),
            conflict=(lambda: errors.stale(kind.plural, kind.group, name)) if guarded else None,
        )

    @property
    def _faults(self) -> Faults:
        return NO_FAULTS if self.process.calm else self._plan

    def _happens(self, what: str, rate: float) -> bool:
        if rate <= 0 or self._random.random() >= rate:
            return False
        self.injected[what] += 1
        return True

    def _check_alive(self) -> None:
        if self.process.dead or self.process.life != self._life:
            raise Crash("this process has ended")

    def _crash(self, where: str) -> Crash:
        self.injected["crash"] += 1
        self.process.die()
        return Crash(f"{where} write {self.process.writes}")

    async def _travel(self) -> None:
        low, high = self._plan.latency
        if high > 0:
            await asyncio.sleep(self._random.uniform(low, high))
        self._check_alive()

    async def _request(self) -> None:
        """Reach the server, which may refuse to do anything."""
        self._check_alive()
        await self._travel()
        faults = self._faults
        if self._happens("too_many_requests", faults.too_many_requests):
            text = "the server has received too many requests and has asked us to try again later"
            raise errors.TooManyRequests(text, details={"retryAfterSeconds": self._random.randint(1, 3)})
        if self._happens("server_error", faults.server_error):
            refusals = (
                errors.ApiError("etcdserver: leader changed"),
                errors.ServerTimeout("the server was unable to return a response in the time allotted"),
                errors.Unavailable("apiserver is shutting down"),
            )
            raise self._random.choice(refusals)

    async def _answer(self, answer: R) -> R:
        await self._travel()
        return answer

    async def _write(self, request: Callable[[], Awaitable[R]], *, dry: bool, conflict: _Refusal | None = None) -> R:
        self._check_alive()
        late = self._faults.late_write
        if not late or self._random.random() >= late:
            return await self._deliver(request, dry, conflict)
        # The context is an empty one: a request on the wire belongs to no process, and no pause or end stops it.
        task = asyncio.create_task(self._deliver(request, dry, conflict), context=contextvars.Context())
        self._on_the_wire[task] = None
        task.add_done_callback(self._landed)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.injected["late_write"] += not task.done()
            raise

    def _landed(self, task: asyncio.Task[Any]) -> None:
        del self._on_the_wire[task]
        if not task.cancelled():
            task.exception()  # whoever asked hears of it, and nobody else has to

    async def _deliver(self, request: Callable[[], Awaitable[R]], dry: bool, conflict: _Refusal | None) -> R:
        await self._request()
        faults = self._faults
        if conflict is not None and self._happens("conflict", faults.conflict):
            raise conflict()
        number = self.process.writes = self.process.writes + (not dry)
        dies = not dry and faults.crash > 0 and self._random.random() < faults.crash
        before = dies and self._random.random() < 0.5
        if not dry and (before or number == faults.crash_before):
            raise self._crash("before")
        answer = await request()
        if not dry and (dies or number == faults.crash_after):
            raise self._crash("after")
        if self._happens("lost_answer", faults.lost_answer):
            await asyncio.sleep(self._random.uniform(*faults.lost_seconds))
            self._check_alive()
            raise errors.ServerTimeout("the connection was lost before the answer came")
        return await self._answer(answer)

    async def _replica(self, kind: Kind[Any], namespace: str) -> int:
        """Return the revision at which reads are stuck, 0 when they are up to date."""
        loop, faults = asyncio.get_running_loop(), self._faults
        if self._pin and loop.time() >= self._pinned_until:
            self._pin = 0
        if not self._pin and self._happens("stale", faults.stale):
            newest = int((await self._client.list(kind, namespace, limit=1)).resource_version)
            self._pin = max(1, newest - self._random.randint(1, faults.stale_revisions))
            self._pinned_until = loop.time() + self._random.uniform(*faults.stale_seconds)
        return self._pin

    async def _start(self, kind: Kind[Any], namespace: str, version: str) -> str:
        """Return from where a stream begins that was to begin at a version."""
        await self._request()
        faults = self._faults
        resumes = version not in ("", "0")
        if resumes and self._happens("gone", faults.gone):
            raise errors.Gone(f"too old resource version: {version} ({int(version) + 1})")
        await self._replica(kind, namespace)
        if resumes and self._happens("repeat", faults.repeat):
            return str(max(1, int(version) - self._random.randint(1, faults.repeat_revisions)))
        return version


def _only(kind: Kind[Any], name: str, page: Page[T]) -> T:
    if not page.items:
        raise errors.not_found(kind.plural, kind.group, name)
    return page.items[0]
