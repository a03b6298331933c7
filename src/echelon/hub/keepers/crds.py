"""CRD clean-up: a deleted definition takes its objects with it, then goes."""

from dataclasses import dataclass, field

from echelon.hub.access.identity import User
from echelon.hub.admission import Request, Target
from echelon.hub.cluster import CRDS, LogicalCluster
from echelon.hub.deletion import delete
from echelon.hub.kinds.crds import CLEANUP
from echelon.hub.storage.store import Change, Key
from echelon.hub.writing import store_update
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, EventType

_KEEPER = Request(User("system:apiserver", ("system:masters",)))


@dataclass
class CRDKeeper:
    """Remembers which definitions are being deleted and looks again whenever one of their objects goes."""

    cluster: LogicalCluster
    _terminating: dict[str, None] = field(default_factory=dict)
    _todo: dict[str, None] = field(default_factory=dict)

    def follow(self, change: Change) -> None:
        """Learn of a change."""
        key = change.entry.key
        if key.resource == CRDS:
            self._terminating.pop(key.name, None)
            if change.type is not EventType.DELETED and change.entry.object["metadata"].get("deletionTimestamp"):
                self._terminating[key.name] = self._todo[key.name] = None
        elif key.resource in self._terminating:
            self._todo[key.resource] = None

    @property
    def busy(self) -> bool:
        """Whether there is work to do."""
        return bool(self._todo)

    async def work(self) -> None:
        """Remove the objects of the definitions that are waiting for it."""
        while self._todo:
            name = next(iter(self._todo))
            await self._empty(name)
            self._todo.pop(name, None)

    async def _empty(self, name: str) -> None:
        resource = self.cluster.catalogue.stored().get(name)
        for entry in self.cluster.store.list(name).entries:
            if resource is not None and not entry.object["metadata"].get("deletionTimestamp"):
                await self._delete(Target(resource, entry.key.namespace, entry.key.name))
        crd = self.cluster.store.latest(Key(CRDS, "", name))
        if crd is None or self.cluster.store.count(name):
            return
        meta = dict(crd.object["metadata"])
        meta["finalizers"] = [finalizer for finalizer in meta.get("finalizers", ()) if finalizer != CLEANUP]
        target = Target(self.cluster.catalogue.find("apiextensions.k8s.io", "v1", CRDS.partition(".")[0]), "", name)
        await store_update(self.cluster, target, crd, {**crd.object, "metadata": meta})

    async def _delete(self, target: Target) -> None:
        try:
            await delete(self.cluster, target, DeleteOptions(propagation="Background"), _KEEPER)
        except errors.NotFound:
            return
