"""Objects of a namespace in their newest state, also where the cache does not show it yet."""

from typing import Any, Generic, TypeVar

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.engine.plan import Patch, Write
from echelon.kube.cache import identity_of
from echelon.kube.client import Client, WriteOptions
from echelon.kube.errors import AlreadyExists, Conflict, NotFound
from echelon.kube.freshness import OwnWrites
from echelon.kube.informer import Informer
from echelon.kube.write import write

T = TypeVar("T")


class NewestObjects(Generic[T]):
    """Reads and writes the objects of an informer of one namespace."""

    def __init__(self, client: Client, informer: Informer[T], options: WriteOptions) -> None:
        self.informer = informer
        self._client = client
        self._own = OwnWrites(informer)
        self._options = options

    def newest(self, name: str) -> T | None:
        """Return an object in the newest state that is known."""
        return self._own.get(Key(self.informer.namespace, name))

    def knows(self, obj: T) -> bool:
        """Whether a state of an object is no news for whoever made our last write of it."""
        return self._own.knows(obj)

    async def patch(self, obj: T, body: JSONObject, subresource: str = "") -> T:
        """Write some fields of an object that is still as we know it, and return what it is then."""
        (namespace, name), uid, version = identity_of(obj)
        after: T = await self.write(Patch(self.informer.kind, name, body, namespace, uid, version, subresource))
        return after

    async def write(self, action: Write) -> Any:
        """Make a write and return the object that it led to; None for a deletion.

        What stands in the way is learnt from the server itself, so that the next try does not meet the same fate.
        """
        try:
            after = await write(action, self._client, self._options)
        except (Conflict, AlreadyExists):
            await self._read(action.name)
            raise
        if after is not None:
            self._own.wrote(after)
        return after

    def forget(self, name: str) -> None:
        """Let go of what is remembered about an object."""
        self._own.forget(Key(self.informer.namespace, name))

    async def _read(self, name: str) -> None:
        try:
            self._own.wrote(await self._client.get(self.informer.kind, name, self.informer.namespace))
        except NotFound:
            self.forget(name)
