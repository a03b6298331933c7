"""Namespace termination: a deleted namespace empties itself, then goes."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from echelon.api.base import JSONObject
from echelon.hub.access.identity import User
from echelon.hub.cluster import NAMESPACES, LogicalCluster
from echelon.hub.keepers.todo import Todo
from echelon.hub.storage.store import Change, Entry, Key
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.deletion import delete
from echelon.hub.verbs.writing import store_update
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, EventType

_KEEPER = Request(User("system:serviceaccount:kube-system:namespace-controller", ("system:masters",)))
_MOST_FAILURES = 5


class NamespaceKeeper:
    """Remembers which namespaces are terminating and looks again whenever something in them changes."""

    def __init__(self, cluster: LogicalCluster) -> None:
        self.cluster = cluster
        self.todo: Todo[str] = Todo(f"{cluster.title}: termination of namespace", self._empty)
        self._terminating: dict[str, None] = {}

    def follow(self, change: Change) -> None:
        """Learn of a change."""
        key = change.entry.key
        if key.resource == NAMESPACES:
            self._terminating.pop(key.name, None)
            if change.type is EventType.DELETED:
                self.todo.discard(key.name)
            elif change.entry.object["metadata"].get("deletionTimestamp"):
                self._terminating[key.name] = None
                self.todo.remind(key.name)
        elif key.namespace in self._terminating:
            self.todo.add(key.namespace)

    async def work(self) -> None:
        """Empty the namespaces that are waiting for it."""
        await self.todo.work()

    async def _empty(self, name: str) -> None:
        """Delete what is in a namespace; what cannot be deleted stays, and does not keep the rest."""
        resources = {n: r for n, r in self.cluster.catalogue.stored().items() if r.kind.namespaced}
        left = _Left()
        for stored, resource in resources.items():
            for entry in self.cluster.store.list(stored, name).entries:
                target = Target(resource, name, entry.key.name)
                if not entry.object["metadata"].get("deletionTimestamp"):
                    try:
                        await self._delete(target)
                    except errors.ApiError as error:
                        left.failures.append(f"{stored} {target.name}: {error}")
                    await asyncio.sleep(0)
                after = self.cluster.store.latest(target.key)
                if after is not None:
                    left.remaining[stored] += 1
                    left.finalizers.update(after.object["metadata"].get("finalizers") or ())
        namespace = self.cluster.store.latest(Key(NAMESPACES, "", name))
        if namespace is not None and namespace.object["metadata"].get("deletionTimestamp"):
            await self._report(namespace, left)
        if left.failures:
            raise errors.ApiError(left.failed)

    async def _delete(self, target: Target) -> None:
        try:
            await delete(self.cluster, target, DeleteOptions(propagation="Background"), _KEEPER)
        except errors.NotFound:
            return

    async def _report(self, namespace: Entry, left: "_Left") -> None:
        """Let an empty namespace go; say of another what keeps it."""
        obj = dict(namespace.object)
        if not left.remaining:
            kept = [name for name in (obj.get("spec") or {}).get("finalizers", ()) if name != "kubernetes"]
            obj["spec"] = {"finalizers": kept} if kept else {}
        else:
            conditions = [self._condition(obj, *condition) for condition in left.conditions()]
            obj["status"] = {**(obj.get("status") or {}), "conditions": conditions}
        if obj != namespace.object:
            resource = self.cluster.catalogue.find("", "v1", "namespaces")
            await store_update(self.cluster, Target(resource, "", namespace.key.name), namespace, obj)

    def _condition(self, obj: JSONObject, kind: str, problem: bool, reason: str, message: str) -> JSONObject:
        status = "True" if problem else "False"
        old = next((c for c in (obj.get("status") or {}).get("conditions") or () if c["type"] == kind), None)
        since = old["lastTransitionTime"] if old and old["status"] == status else self.cluster.timestamp()
        return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


@dataclass
class _Left:
    """What is still in a namespace, and why."""

    remaining: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def failed(self) -> str:
        """What could not be deleted; nobody reads a thousand of them."""
        more = len(self.failures) - _MOST_FAILURES
        listed = ", ".join(self.failures[:_MOST_FAILURES]) + (f" and {more} more" if more > 0 else "")
        return f"Failed to delete all resource types, {len(self.failures)} remaining: {listed}"

    def conditions(self) -> Iterator[tuple[str, bool, str, str]]:
        """Return type, whether something is wrong, reason and message of each condition."""
        if self.failures:
            yield "NamespaceDeletionContentFailure", True, "ContentDeletionFailed", self.failed
        else:
            why = "All content successfully deleted, may be waiting on finalization"
            yield "NamespaceDeletionContentFailure", False, "ContentDeleted", why
        contents = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(self.remaining.items()))
        text = f"Some resources are remaining: {contents}"
        yield "NamespaceContentRemaining", True, "SomeResourcesRemain", text
        if self.finalizers:
            held = sorted(self.finalizers.items())
            holders = ", ".join(f"{name} in {count} resource instances" for name, count in held)
            text = f"Some content in the namespace has finalizers remaining: {holders}"
            yield "NamespaceFinalizersRemaining", True, "SomeFinalizersRemain", text
        else:
            yield (
                "NamespaceFinalizersRemaining",
                False,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            )
