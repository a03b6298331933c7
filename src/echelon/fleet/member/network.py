"""The way to a member from outside: it can be slow, or cut.

Inside a cluster that is cut off everything goes on; only those who come from outside see nothing of it. Their requests
fail, and their watches break at the moment of the cut, as connections do.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from echelon.api.kinds import Kind
from echelon.hub.client import InProcessClient
from echelon.kube import errors
from echelon.kube.client import Event, Page, Patch

T = TypeVar("T")


class Network:
    """Whether, and how fast, a member is reached."""

    __slots__ = ("_interrupt", "cuts", "delay", "offline")

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self.offline = False
        self.cuts = 0  # how often the way was cut: a watch does not survive one, however short
        self.delay: Callable[[], float] = lambda: 0.0
        self._interrupt = interrupt

    def set(self, *, offline: bool) -> None:
        """Cut the way, or repair it."""
        if offline and not self.offline:
            self.cuts += 1
            self.offline = True
            self._interrupt()
        self.offline = offline


class MemberClient:
    """A client of a member, for those who are not part of it."""

    def __init__(self, inner: InProcessClient, network: Network, name: str) -> None:
        self._inner = inner
        self._network = network
        self._name = name

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object."""
        await self._travel()
        return await self._inner.get(kind, name, namespace)

    async def list(self, kind: Kind[T], namespace: str = "", **query: Any) -> Page[T]:
        """Return the objects of a namespace, or of all when it is empty."""
        await self._travel()
        return await self._inner.list(kind, namespace, **query)

    async def watch(self, kind: Kind[T], namespace: str = "", **query: Any) -> AsyncIterator[Event[T]]:
        """Follow changes after a resource version."""
        await self._travel()
        cuts = self._network.cuts
        stream = self._inner.watch(kind, namespace, **query)
        async with aclosing(stream) as events:  # type: ignore[type-var]  # it is a generator, whatever its type says
            async for event in events:
                if self._network.cuts != cuts:
                    raise self._lost()
                yield event

    async def create(self, kind: Kind[T], body: dict[str, Any], namespace: str = "", **more: Any) -> T:
        """Create an object."""
        await self._travel()
        return await self._answered(self._inner.create(kind, body, namespace, **more))

    async def patch(self, kind: Kind[T], name: str, patch: Patch, namespace: str = "", **more: Any) -> T:
        """Change the fields that the patch names."""
        await self._travel()
        return await self._answered(self._inner.patch(kind, name, patch, namespace, **more))

    async def delete(self, kind: Kind[T], name: str, namespace: str = "", **more: Any) -> None:
        """Ask for the end of an object."""
        await self._travel()
        await self._answered(self._inner.delete(kind, name, namespace, **more))

    async def _travel(self) -> None:
        if delay := self._network.delay():
            await asyncio.sleep(delay)
        if self._network.offline:
            raise self._lost()

    async def _answered(self, write: Awaitable[T]) -> T:
        """Wait for an answer; one that comes after a cut is lost, and the write was made all the same."""
        result = await write
        if self._network.offline:
            raise self._lost()
        return result

    def _lost(self) -> errors.Unavailable:
        return errors.Unavailable(f"cluster {self._name}: connection refused")
