"""A client that is far from its server: whatever is sent or received takes a while, and stays in order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from echelon.api.kinds import Kind
from echelon.kube.client import Client, Event, Page, Patch

T = TypeVar("T")


class LateClient:
    """A client of a server that is so many seconds away in each direction."""

    def __init__(self, inner: Client, seconds: Callable[[], float]) -> None:
        self._inner = inner
        self._seconds = seconds

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object, as it was when the server was asked."""
        await self._travel()
        found = await self._inner.get(kind, name, namespace)
        await self._travel()
        return found

    async def list(self, kind: Kind[T], namespace: str = "", **options: Any) -> Page[T]:
        """Return objects, as they were when the server was asked."""
        await self._travel()
        found = await self._inner.list(kind, namespace, **options)
        await self._travel()
        return found

    async def watch(self, kind: Kind[T], namespace: str = "", **options: Any) -> AsyncIterator[Event[T]]:
        """Follow changes; each comes late, and none before another that happened earlier."""
        await self._travel()
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[tuple[float, Event[T] | BaseException | None]] = asyncio.Queue()

        async def follow() -> None:
            try:
                stream = self._inner.watch(kind, namespace, **options)
                async with aclosing(stream) as events:  # type: ignore[type-var]  # it is a generator
                    async for event in events:
                        arrived.put_nowait((loop.time() + self._seconds(), event))
                arrived.put_nowait((loop.time(), None))
            except Exception as error:  # noqa: BLE001 - it is raised where the events are read
                arrived.put_nowait((loop.time(), error))

        following = asyncio.create_task(follow(), name="late watch")
        try:
            while True:
                due, event = await arrived.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if event is None:
                    return
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            following.cancel()

    async def create(self, kind: Kind[T], body: dict[str, Any], namespace: str = "", **more: Any) -> T:
        """Create an object."""
        await self._travel()
        made = await self._inner.create(kind, body, namespace, **more)
        await self._travel()
        return made

    async def patch(self, kind: Kind[T], name: str, patch: Patch, namespace: str = "", **more: Any) -> T:
        """Change an object."""
        await self._travel()
        after = await self._inner.patch(kind, name, patch, namespace, **more)
        await self._travel()
        return after

    async def delete(self, kind: Kind[T], name: str, namespace: str = "", **more: Any) -> None:
        """Ask for the end of an object."""
        await self._travel()
        await self._inner.delete(kind, name, namespace, **more)
        await self._travel()

    async def _travel(self) -> None:
        if seconds := self._seconds():
            await asyncio.sleep(seconds)
