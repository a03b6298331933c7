"""The works of a cluster as the hub has them, also where the cache does not show it yet."""

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.kube.client import Client, MergePatch, WriteOptions
from echelon.kube.errors import Conflict, NotFound
from echelon.kube.informer import Informer


class HubWorks:
    """Reads and writes works on the hub."""

    def __init__(self, hub: Client, informer: Informer[ManifestWork], manager: str) -> None:
        self._hub = hub
        self._informer = informer
        self._options = WriteOptions(field_manager=manager)
        self._own: dict[str, ManifestWork] = {}  # as we wrote them, until the cache shows it

    def newest(self, name: str) -> ManifestWork | None:
        """Return a work in the newest state that is known."""
        cached = self._informer.get(Key(self._informer.namespace, name))
        own = self._own.get(name)
        if own is None:
            return cached
        if self._informer.shows(Key(self._informer.namespace, name), own.metadata.resource_version):
            del self._own[name]
            return cached
        return own

    async def patch(self, work: ManifestWork, body: JSONObject, subresource: str = "") -> ManifestWork:
        """Write some fields of a work that is still as we know it, and return what it is then."""
        meta = work.metadata
        expected = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        wanted = MergePatch({**body, "metadata": {**body.get("metadata", {}), **expected}})
        try:
            after = await self._hub.patch(
                MANIFEST_WORK, meta.name, wanted, meta.namespace, subresource=subresource, options=self._options
            )
        except Conflict:
            await self._ask(meta.name, meta.namespace)
            raise
        self._own[meta.name] = after
        return after

    def forget(self, name: str) -> None:
        """Let go of what is remembered about a work."""
        self._own.pop(name, None)

    async def _ask(self, name: str, namespace: str) -> None:
        """Learn the newest state of a work from the hub itself, so that the next try does not meet the same fate."""
        try:
            self._own[name] = await self._hub.get(MANIFEST_WORK, name, namespace)
        except NotFound:
            self._own.pop(name, None)
