"""CRD clean-up: a deleted definition takes its objects with it, then goes."""

import asyncio

from echelon.api.base import JSONObject
from echelon.hub.access.identity import User
from echelon.hub.cluster import CRDS, LogicalCluster
from echelon.hub.controllers.terminating import Terminating, delete_content
from echelon.hub.controllers.todo import Todo
from echelon.hub.kinds.crds import CLEANUP
from echelon.hub.storage.store import Entry, Key
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.breaks import Breaks
from echelon.hub.verbs.writing import store_update
from echelon.kube import errors

_CONTROLLER = Request(User("system:apiserver", ("system:masters",)))


class CRDController:
    """Looks at definitions that are being deleted, and again whenever one of their objects changes."""

    def __init__(self, cluster: LogicalCluster) -> None:
        self.cluster = cluster
        self.todo: Todo[str] = Todo(f"{cluster.title}: clean-up of definition", self._empty)
        self.follow = Terminating(CRDS, lambda key: key.resource, self.todo).follow
        self.work = self.todo.work

    async def _empty(self, name: str) -> None:
        """Delete all objects of a definition; what cannot be deleted stays, and does not keep the rest."""
        resource = self.cluster.catalogue.stored().get(name)
        failures, breaks = [], Breaks()
        for entry in self.cluster.store.list(name).entries:
            await breaks.maybe()
            if resource is not None and not entry.metadata.get("deletionTimestamp"):
                try:
                    target = Target(resource, entry.key.namespace, entry.key.name)
                    await delete_content(self.cluster, target, _CONTROLLER)
                except errors.ApiError as error:
                    failures.append(f"{'/'.join(filter(None, entry.key[1:]))}: {error}")
                await asyncio.sleep(0)
        crd = self.cluster.store.latest(Key(CRDS, "", name))
        if crd is None:
            return
        if failures:
            why = f"could not delete all instances, {len(failures)} failed, the first: {failures[0]}"
            await self._store(crd, self._terminating_because(crd.object, "InstanceDeletionFailed", why))
            raise errors.ApiError(why)
        if self.cluster.store.count(name):
            why = "CustomResource deletion is in progress"
            await self._store(crd, self._terminating_because(crd.object, "InstanceDeletionInProgress", why))
            return
        meta = dict(crd.object["metadata"])
        meta["finalizers"] = [finalizer for finalizer in meta.get("finalizers", ()) if finalizer != CLEANUP]
        await self._store(crd, {**crd.object, "metadata": meta})

    async def _store(self, crd: Entry, new: JSONObject) -> None:
        if new != crd.object:
            resource = self.cluster.catalogue.find("apiextensions.k8s.io", "v1", CRDS.partition(".")[0])
            await store_update(self.cluster, Target(resource, "", crd.key.name), crd, new)

    def _terminating_because(self, crd: JSONObject, reason: str, message: str) -> JSONObject:
        """Return a definition that says why it is still there."""
        status = crd.get("status") or {}
        before = status.get("conditions") or []
        others = [condition for condition in before if condition["type"] != "Terminating"]
        said = self.cluster.condition(before, "Terminating", "True", reason, message)
        return {**crd, "status": {**status, "conditions": [*others, said]}}
