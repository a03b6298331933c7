"""Reading everything around several rollouts, and nothing twice."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar, Unpack

from echelon.api.kinds import Kind
from echelon.kube.client import Event, ListOptions, Page, Reader, WatchOptions

T = TypeVar("T")


class OneLook:
    """A reader that asks for nothing twice. It is for one look: what it says grows old."""

    def __init__(self, client: Reader, *, contents: bool = False) -> None:
        """With `contents`, what is in the namespaces of all clusters is kept, too."""
        self._client = client
        self._contents = contents
        self._known: dict[object, asyncio.Future[Any]] = {}

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object."""
        return await self._once((kind, name, namespace), lambda: self._client.get(kind, name, namespace))

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        """Return the objects of a namespace, or of all when it is empty."""
        if (
            kind.namespaced and not namespace and not self._contents
        ):  # the contents of a fleet, of which everybody asks for others
            return await self._client.list(kind, namespace, **options)
        what = (kind, namespace, *sorted(options.items()))
        return await self._once(what, lambda: self._client.list(kind, namespace, **options))

    def watch(self, kind: Kind[T], namespace: str = "", **options: Unpack[WatchOptions]) -> AsyncIterator[Event[T]]:
        """Follow changes, as the reader behind this one does."""
        return self._client.watch(kind, namespace, **options)

    async def _once(self, what: object, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if what not in self._known:
            self._known[what] = asyncio.ensure_future(ask())
        found: T = await self._known[what]
        return found
