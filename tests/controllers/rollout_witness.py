"""What a controller could have known when it wrote: every list and every event that reached it, and nothing later.

A cache is behind sometimes, and nobody can obey a word that has not arrived. But a word that has arrived counts from
then on. So whatever a client hands to its controller is noted, kind by kind, as the revision that the controller has
come to; and each write is noted with the moment at which it was sent.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.controllers.rollout.write_failures import CONFLICTS_IN_A_ROW
from echelon.fleet.loop import running
from echelon.kube.cache import identity_of
from echelon.kube.client import Client, DeleteOptions, Event, Page, Patch, WriteOptions
from echelon.kube.errors import ApiError, Conflict, NotFound, ServerTimeout
from echelon.kube.guard import GUARD_SECONDS
from echelon.kube.informer import OLDER_LISTS_REFUSED
from tests.controllers.rollout_people import SEEN
from tests.controllers.rollout_rules import Attempt

T = TypeVar("T")
R = TypeVar("R")
SLIP = 0.001  # timers and clocks disagree about the last microseconds of a wait


@dataclass(frozen=True)
class Watched:
    """What clusters get: its kind, and which content the body of a write brings, if it brings any."""

    resource: str
    version: Callable[[JSONObject], str]
    home: str = ""  # a namespace where the kind is something else


@dataclass
class Life:
    """One life of a process, from its start to its death."""

    reached: dict[str, int] = field(default_factory=dict)  # the revision of each kind that it has come to
    log: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    confirmed: dict[str, tuple[int, float]] = field(default_factory=dict)  # its last write to each cluster, and when
    written: dict[int, JSONObject] = field(default_factory=dict)  # works as it wrote them, by revision
    attempts: dict[str, Attempt] = field(default_factory=dict)  # of its own that were not taken, by cluster
    faster: Counter[str] = field(default_factory=Counter)  # how often in a row somebody else was, by cluster
    untold: set[str] = field(default_factory=set)  # clusters whose status was not taken

    def came_to(self, resource: str, version: str, *, listed: bool = False) -> None:
        """Note that a kind is known up to a version. A list that goes back is believed at last."""
        revision, known = int(version), self.reached.get(resource, 0)
        if listed and revision < known:
            self.refused[resource] = self.refused.get(resource, 0) + 1
            if self.refused[resource] <= OLDER_LISTS_REFUSED:
                return
        elif revision <= known:
            return
        if listed:
            self.refused[resource] = 0
        self.reached[resource] = revision
        self.log.append((asyncio.get_running_loop().time(), dict(self.reached)))

    def is_blind(self, resource: str, cluster: str) -> bool:
        """Whether it would write again before it can have seen its own last write there, or has waited for that."""
        revision, when = self.confirmed.get(cluster, (0, -GUARD_SECONDS))
        waited = asyncio.get_running_loop().time() - when
        return waited < GUARD_SECONDS - SLIP and all(
            known.get(resource, 0) < revision for _, known in reversed(self.log)
        )

    def knew(self, since: float) -> list[tuple[float, float, dict[str, int]]]:
        """Return what it knew since a moment: from when, until when, what."""
        ends = [when for when, _ in self.log[1:]] + [asyncio.get_running_loop().time()]
        return [
            (max(when, since), end, known) for (when, known), end in zip(self.log, ends, strict=True) if end >= since
        ]


@dataclass(frozen=True)
class Call:
    """A write for a cluster that was sent; of the object itself, or of its status."""

    life: Life
    when: float
    status: bool = False

    def basis(self, patience: float) -> Iterator[tuple[dict[str, int], float, float]]:
        """Return what the sender knew when it may have decided to write: what, and since and until when it decided."""
        for since, until, known in self.life.knew(self.when - patience):
            first, last = (min(max(each, since), self.when) + SLIP for each in (since, until))
            yield known, first, last


@dataclass(frozen=True)
class Refusal:
    """What a server says to every write of content for a cluster, until it takes them again."""

    error: type[ApiError]
    until: float = math.inf
    parts: tuple[str, ...] = ("spec",)  # of an object, of which none is taken


@dataclass
class Register:
    """The writes for clusters that are under way, by cluster, and those that were not taken."""

    calls: dict[str, list[Call]] = field(default_factory=dict)
    blind: set[str] = field(default_factory=set)  # clusters that somebody wrote to again without looking
    refusals: dict[str, Refusal] = field(default_factory=dict)  # by cluster
    attempts: dict[str, Attempt] = field(default_factory=dict)  # of anybody, by cluster
    failures: set[tuple[str, str]] = field(default_factory=set)  # cluster and version of whatever was ever not taken
    latest: Life | None = None  # of the process that was started last

    def sent(self, cluster: str, call: Call) -> None:
        self.calls.setdefault(cluster, []).append(call)

    def failed(self, cluster: str, call: Call) -> None:
        if call in self.calls.get(cluster, ()):
            self.calls[cluster].remove(call)

    def arrived(self, cluster: str, *, status: bool = False) -> list[Call]:
        """Return who may have made a write that was committed."""
        calls = self.calls.pop(cluster, [])
        self.calls[cluster] = [each for each in calls if each.status is not status]
        return [each for each in calls if each.status is status]


class Witness:
    """The client protocol over a client of a simulated process."""

    def __init__(self, client: Client, register: Register, watched: Watched) -> None:
        """`watched` is the kind whose writes are registered; what else is written is nobody's business here."""
        self._client = client
        self._register = register
        self._watched = watched
        self._life = register.latest = Life()

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        return await self._client.get(kind, name, namespace)

    async def list(self, kind: Kind[T], namespace: str = "", **options: Any) -> Page[T]:
        page = await self._client.list(kind, namespace, **options)
        if not page.continue_ and not options.get("labels") and not namespace:  # what somebody asks for is no cache
            self._life.came_to(kind.resource, page.resource_version, listed=True)
        return page

    async def watch(self, kind: Kind[T], namespace: str = "", **options: Any) -> AsyncIterator[Event[T]]:
        async with aclosing(self._client.watch(kind, namespace, **options)) as stream:  # type: ignore[type-var]
            async for event in stream:
                self._life.came_to(kind.resource, event.resource_version)
                yield event

    async def create(
        self, kind: Kind[T], body: dict[str, Any], namespace: str = "", *, options: WriteOptions | None = None
    ) -> T:
        request = self._client.create(kind, body, namespace, options=options)
        return await self._write(kind, namespace, request, body)

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
        request = self._client.patch(kind, name, patch, namespace, subresource=subresource, options=options)
        return await self._write(kind, namespace, request, getattr(patch, "body", {}), status=bool(subresource))

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, options: DeleteOptions | None = None
    ) -> None:
        await self._write(kind, namespace, self._client.delete(kind, name, namespace, options=options))

    async def _write(
        self,
        kind: Kind[Any],
        namespace: str,
        request: Awaitable[R],
        body: JSONObject | None = None,
        *,
        status: bool = False,
    ) -> R:
        if kind.resource != self._watched.resource or namespace == self._watched.home:
            return await request
        call = Call(self._life, asyncio.get_running_loop().time(), status)
        self._register.sent(namespace, call)
        # A status may follow at once upon what it is about.
        blind = {namespace} if not status and self._life.is_blind(kind.resource, namespace) else set[str]()
        try:
            answer = await self._refused(namespace, request, body or {})
        except ApiError as error:  # a process that dies on the way has forgotten already what it wrote
            self._register.blind |= blind
            self._attempted(namespace, body or {}, error)
            self._life.untold |= {namespace} if status else set()
            if not isinstance(error, ServerTimeout):  # which may have been carried out, or be so yet
                self._register.failed(namespace, call)
            raise
        self._register.blind |= blind
        self._life.attempts.pop(namespace, None)
        self._life.faster.pop(namespace, None)
        self._life.untold.discard(namespace)
        if answer is not None:
            revision = int(identity_of(answer).resource_version)
            self._life.confirmed[namespace] = (revision, asyncio.get_running_loop().time())
        return answer

    async def _refused(self, cluster: str, request: Awaitable[R], body: JSONObject) -> R:
        """Answer in place of the server, if it does not take content for a cluster."""
        refusal = self._register.refusals.get(cluster)
        if (
            refusal is None
            or asyncio.get_running_loop().time() >= refusal.until
            or body.keys().isdisjoint(refusal.parts)
        ):
            return await request
        if isinstance(request, Coroutine):
            request.close()
        SEEN["refusal"] += 1
        SEEN[refusal.error.__name__] += 1
        raise refusal.error(f"{cluster} takes nothing")

    def _attempted(self, cluster: str, body: JSONObject, error: ApiError) -> None:
        """Take note of content that was not taken. Where somebody was only faster, there are more tries at once."""
        if not (version := self._watched.version(body)):
            return
        if isinstance(error, Conflict) or (isinstance(error, NotFound) and "kind" not in body):
            self._life.faster[cluster] += 1
            if self._life.faster[cluster] < CONFLICTS_IN_A_ROW:
                return
        refused = 400 <= error.status_code < 500 and error.status_code not in (409, 429)
        attempt = Attempt(version, running().clock.now().timestamp(), refused)
        self._register.failures.add((cluster, version))
        for attempts in (self._life.attempts, self._register.attempts):
            before = attempts.get(cluster)
            since = before.since if before is not None and before.version == attempt.version else attempt.since
            attempts[cluster] = replace(attempt, since=since)
