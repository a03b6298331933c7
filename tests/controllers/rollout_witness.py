"""What a controller could have known when it wrote: every list and every event that reached it, and nothing later.

A cache is behind sometimes, and nobody can obey a word that has not arrived. But a word that has arrived counts from
then on. So whatever a client hands to its controller is noted, kind by kind, as the revision that the controller has
come to; and each write is noted with the moment at which it was sent.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.kube.cache import identity_of
from echelon.kube.client import Client, DeleteOptions, Event, Page, Patch, WriteOptions
from echelon.kube.errors import ApiError, ServerTimeout
from echelon.kube.guard import GUARD_SECONDS
from echelon.kube.informer import OLDER_LISTS_REFUSED

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class Life:
    """One life of a process, from its start to its death."""

    reached: dict[str, int] = field(default_factory=dict)  # the revision of each kind that it has come to
    log: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    confirmed: dict[str, tuple[int, float]] = field(default_factory=dict)  # its last write to each cluster, and when
    written: dict[int, JSONObject] = field(default_factory=dict)  # works as it wrote them, by revision

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
        patience = GUARD_SECONDS - 0.001  # timers disagree about the last microseconds
        return waited < patience and all(known.get(resource, 0) < revision for _, known in reversed(self.log))

    def knew(self, since: float) -> list[tuple[float, float, dict[str, int]]]:
        """Return what it knew since a moment: from when, until when, what."""
        ends = [when for when, _ in self.log[1:]] + [asyncio.get_running_loop().time()]
        return [
            (max(when, since), end, known) for (when, known), end in zip(self.log, ends, strict=True) if end >= since
        ]


@dataclass(frozen=True)
class Call:
    """A write of a work that was sent."""

    life: Life
    when: float


@dataclass
class Register:
    """The writes of works that are under way, by cluster."""

    calls: dict[str, list[Call]] = field(default_factory=dict)
    blind: set[str] = field(default_factory=set)  # clusters that somebody wrote to again without looking

    def sent(self, cluster: str, call: Call) -> None:
        self.calls.setdefault(cluster, []).append(call)

    def failed(self, cluster: str, call: Call) -> None:
        if call in self.calls.get(cluster, ()):
            self.calls[cluster].remove(call)

    def arrived(self, cluster: str) -> list[Call]:
        """Return who may have made a write that was committed."""
        return self.calls.pop(cluster, [])


class Witness:
    """The client protocol over a client of a simulated process."""

    def __init__(self, client: Client, register: Register, resource: str) -> None:
        """`resource` is the kind whose writes are registered; what else is written is nobody's business here."""
        self._client = client
        self._register = register
        self._resource = resource
        self._life = Life()

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        return await self._client.get(kind, name, namespace)

    async def list(self, kind: Kind[T], namespace: str = "", **options: Any) -> Page[T]:
        page = await self._client.list(kind, namespace, **options)
        if not page.continue_:
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
        return await self._write(kind, namespace, self._client.create(kind, body, namespace, options=options))

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
        return await self._write(kind, namespace, request)

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, options: DeleteOptions | None = None
    ) -> None:
        await self._write(kind, namespace, self._client.delete(kind, name, namespace, options=options))

    async def _write(self, kind: Kind[Any], namespace: str, request: Awaitable[R]) -> R:
        if kind.resource != self._resource:
            return await request
        call = Call(self._life, asyncio.get_running_loop().time())
        self._register.sent(namespace, call)
        blind = {namespace} if self._life.is_blind(self._resource, namespace) else set[str]()
        try:
            answer = await request
        except ApiError as error:  # a process that dies on the way has forgotten already what it wrote
            self._register.blind |= blind
            if not isinstance(error, ServerTimeout):  # which may have been carried out, or be so yet
                self._register.failed(namespace, call)
            raise
        self._register.blind |= blind
        if answer is not None:
            revision = int(identity_of(answer).resource_version)
            self._life.confirmed[namespace] = (revision, asyncio.get_running_loop().time())
        return answer
