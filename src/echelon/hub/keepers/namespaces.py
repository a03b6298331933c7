"""Namespace termination: a deleted namespace empties itself, then goes."""

from collections import Counter
from dataclasses import dataclass, field

from echelon.api.base import JSONObject
from echelon.hub.access.identity import User
from echelon.hub.admission import Request, Target
from echelon.hub.cluster import NAMESPACES, LogicalCluster
from echelon.hub.deletion import delete
from echelon.hub.storage.store import Change, Entry, Key
from echelon.hub.writing import store_update
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, EventType

_KEEPER = Request(User("system:serviceaccount:kube-system:namespace-controller", ("system:masters",)))


@dataclass
class NamespaceKeeper:
    """Remembers which namespaces are terminating and looks again whenever something in them changes."""

    cluster: LogicalCluster
    _terminating: dict[str, None] = field(default_factory=dict)
    _todo: dict[str, None] = field(default_factory=dict)

    def follow(self, change: Change) -> None:
        """Learn of a change."""
        key = change.entry.key
        if key.resource == NAMESPACES:
            self._terminating.pop(key.name, None)
            if change.type is not EventType.DELETED and change.entry.object["metadata"].get("deletionTimestamp"):
                self._terminating[key.name] = self._todo[key.name] = None
        elif key.namespace in self._terminating:
            self._todo[key.namespace] = None

    @property
    def busy(self) -> bool:
        """Whether there is work to do."""
        return bool(self._todo)

    async def work(self) -> None:
        """Empty the namespaces that are waiting for it."""
        while self._todo:
            name = next(iter(self._todo))
            await self._empty(name)
            self._todo.pop(name, None)

    async def _empty(self, name: str) -> None:
        resources = {n: r for n, r in self.cluster.catalogue.stored().items() if r.kind.namespaced}
        remaining: Counter[str] = Counter()
        finalizers: Counter[str] = Counter()
        for stored, resource in resources.items():
            for entry in self.cluster.store.list(stored, name).entries:
                target = Target(resource, name, entry.key.name)
                if not entry.object["metadata"].get("deletionTimestamp"):
                    await self._delete(target)
                left = self.cluster.store.latest(target.key)
                if left is not None:
                    remaining[stored] += 1
                    finalizers.update(left.object["metadata"].get("finalizers") or ())
        namespace = self.cluster.store.latest(Key(NAMESPACES, "", name))
        if namespace is not None and namespace.object["metadata"].get("deletionTimestamp"):
            await self._report(namespace, remaining, finalizers)

    async def _delete(self, target: Target) -> None:
        try:
            await delete(self.cluster, target, DeleteOptions(propagation="Background"), _KEEPER)
        except errors.NotFound:
            return

    async def _report(self, namespace: Entry, remaining: Counter[str], finalizers: Counter[str]) -> None:
        """Let an empty namespace go; say of another what keeps it."""
        obj = dict(namespace.object)
        if not remaining:
            kept = [name for name in (obj.get("spec") or {}).get("finalizers", ()) if name != "kubernetes"]
            obj["spec"] = {"finalizers": kept} if kept else {}
        contents = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(remaining.items()))
        holders = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        conditions = [
            self._condition(
                obj, "NamespaceContentRemaining", "SomeResourcesRemain", "Some resources are remaining: ", contents
            ),
            self._condition(
                obj,
                "NamespaceFinalizersRemaining",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: ",
                holders,
            ),
        ]
        if remaining:
            obj["status"] = {**(obj.get("status") or {}), "conditions": conditions}
        if obj != namespace.object:
            resource = self.cluster.catalogue.find("", "v1", "namespaces")
            await store_update(self.cluster, Target(resource, "", namespace.key.name), namespace, obj)

    def _condition(self, obj: JSONObject, kind: str, reason: str, intro: str, what: str) -> JSONObject:
        status = "True" if what else "False"
        said = {"type": kind, "status": status, "reason": reason if what else "ContentRemoved"}
        said["message"] = intro + what if what else "All content successfully removed"
        old = next((c for c in (obj.get("status") or {}).get("conditions") or () if c["type"] == kind), None)
        since = old["lastTransitionTime"] if old and old["status"] == status else self.cluster.timestamp()
        return {**said, "lastTransitionTime": since}
