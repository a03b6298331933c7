"""The works of a cluster as the hub has them, also where the cache does not show it yet."""

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.engine.plan import Patch
from echelon.kube.client import Client, WriteOptions
from echelon.kube.errors import Conflict, NotFound
from echelon.kube.freshness import OwnWrites
from echelon.kube.informer import Informer
from echelon.kube.write import write


class HubWorks:
    """Reads and writes works on the hub."""

    def __init__(self, hub: Client, informer: Informer[ManifestWork], manager: str) -> None:
        self._hub = hub
        self._namespace = informer.namespace
        self._works = OwnWrites(informer)
        self._options = WriteOptions(field_manager=manager)

    def newest(self, name: str) -> ManifestWork | None:
        """Return a work in the newest state that is known."""
        return self._works.get(Key(self._namespace, name))

    async def patch(self, work: ManifestWork, body: JSONObject, subresource: str = "") -> ManifestWork:
        """Write some fields of a work that is still as we know it, and return what it is then."""
        meta = work.metadata
        patch = Patch(MANIFEST_WORK, meta.name, body, meta.namespace, meta.uid, meta.resource_version, subresource)
        try:
            after: ManifestWork = await write(patch, self._hub, self._options)
        except Conflict:
            await self._read_newest(meta.name)
            raise
        self._works.wrote(after)
        return after

    def forget(self, name: str) -> None:
        """Let go of what is remembered about a work."""
        self._works.forget(Key(self._namespace, name))

    async def _read_newest(self, name: str) -> None:
        """Learn the newest state of a work from the hub itself, so that the next try does not meet the same fate."""
        try:
            self._works.wrote(await self._hub.get(MANIFEST_WORK, name, self._namespace))
        except NotFound:
            self.forget(name)
