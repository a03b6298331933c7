"""Namespace termination: a deleted namespace empties itself, then goes."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from echelon.hub.access.identity import User
from echelon.hub.cluster import NAMESPACES, LogicalCluster
from echelon.hub.controllers.terminating import Terminating, delete_content
from echelon.hub.controllers.todo import Todo
from echelon.hub.storage.store import Entry, Key
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.breaks import Breaks
from echelon.hub.verbs.writing import store_update
from echelon.kube import errors

_CONTROLLER = Request(User("system:serviceaccount:kube-system:namespace-controller", ("system:masters",)))
_MOST_FAILURES = 5
_MOST_NAMES = 100


class NamespaceController:
    """Looks at namespaces that are being deleted, and again whenever something in them changes."""

    def __init__(self, cluster: LogicalCluster) -> None:
        self.cluster = cluster
        self.todo: Todo[str] = Todo(f"{cluster.title}: termination of namespace", self._empty)
        self.follow = Terminating(NAMESPACES, lambda key: key.namespace, self.todo).follow
        self.work = self.todo.work

    async def _empty(self, name: str) -> None:
        """Delete what is in a namespace; what cannot be deleted stays, and does not keep the rest."""
        resources = {n: r for n, r in self.cluster.catalogue.stored().items() if r.kind.namespaced}
        left, breaks = _Left(), Breaks()
        for stored, resource in resources.items():
            for entry in self.cluster.store.list(stored, name).entries:
                target = Target(resource, name, entry.key.name)
                await breaks.maybe()
                if not entry.metadata.get("deletionTimestamp"):
                    try:
                        await delete_content(self.cluster, target, _CONTROLLER)
                    except errors.ApiError as error:
                        left.failures.append(f"{stored} {target.name}: {error}")
                    await asyncio.sleep(0)
                after = self.cluster.store.latest(target.key)
                if after is not None:
                    left.remaining[stored] += 1
                    left.finalizers.update(after.metadata.get("finalizers") or ())
        namespace = self.cluster.store.latest(Key(NAMESPACES, "", name))
        if namespace is not None and namespace.object["metadata"].get("deletionTimestamp"):
            await self._report(namespace, left)
        if left.failures:
            raise errors.ApiError(left.failed)

    async def _report(self, namespace: Entry, left: "_Left") -> None:
        """Let an empty namespace go; say of another what keeps it."""
        obj = dict(namespace.object)
        if not left.remaining:
            kept = [name for name in (obj.get("spec") or {}).get("finalizers", ()) if name != "kubernetes"]
            obj["spec"] = {"finalizers": kept} if kept else {}
        else:
            status = obj.get("status") or {}
            before = status.get("conditions") or ()
            obj["status"] = {
                **status,
                "conditions": [self.cluster.condition(before, *said) for said in left.conditions()],
            }
        if obj != namespace.object:
            resource = self.cluster.catalogue.find("", "v1", "namespaces")
            await store_update(self.cluster, Target(resource, "", namespace.key.name), namespace, obj)


@dataclass
class _Left:
    """What is still in a namespace, and why."""

    remaining: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def failed(self) -> str:
        """What could not be deleted; nobody reads a thousand of them."""
        listed = _some(self.failures, _MOST_FAILURES)
        return f"Failed to delete all resource types, {len(self.failures)} remaining: {listed}"

    def conditions(self) -> Iterator[tuple[str, str, str, str]]:
        """Return type, status, reason and message of each condition; "True" means that something is wrong."""
        if self.failures:
            yield "NamespaceDeletionContentFailure", "True", "ContentDeletionFailed", self.failed
        else:
            why = "All content successfully deleted, may be waiting on finalization"
            yield "NamespaceDeletionContentFailure", "False", "ContentDeleted", why
        contents = _some([f"{name} has {count} resource instances" for name, count in sorted(self.remaining.items())])
        text = f"Some resources are remaining: {contents}"
        yield "NamespaceContentRemaining", "True", "SomeResourcesRemain", text
        if self.finalizers:
            held = sorted(self.finalizers.items())
            holders = _some([f"{name} in {count} resource instances" for name, count in held])
            text = f"Some content in the namespace has finalizers remaining: {holders}"
            yield "NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", text
        else:
            yield (
                "NamespaceFinalizersRemaining",
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            )


def _some(texts: Sequence[str], most: int = _MOST_NAMES) -> str:
    """List texts; a tenant decides how many there are, and a namespace has to have room for them."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")
