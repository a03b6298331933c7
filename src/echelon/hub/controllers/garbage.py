"""Garbage collection by owner references: background, foreground and orphan."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from echelon.api.base import JSONObject
from echelon.hub.access.identity import User
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers.todo import Todo
from echelon.hub.schema.metadata import name_errors
from echelon.hub.storage.store import Change, Key, Store
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.breaks import Breaks
from echelon.hub.verbs.deletion import FOREGROUND, ORPHAN, delete
from echelon.hub.verbs.writing import create, patch
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, EventType, Preconditions

_COLLECTOR = Request(
    User("system:serviceaccount:kube-system:generic-garbage-collector", ("system:masters",)),
    field_manager="garbage-collector",
    field_validation="Ignore",
)

LOOKED_AT_AT_ONCE: Final = 1000  # dependents of one owner; more would take too long for one step of the event loop
_MOST_NAMED: Final = 10  # owners in one message, of which each may have a long name
_LONGEST_MESSAGE: Final = 4096


class GarbageCollector:
    """Knows who owns whom, and removes what nobody owns any more."""

    def __init__(self, cluster: LogicalCluster) -> None:
        self.cluster = cluster
        self._request = msgspec.structs.replace(_COLLECTOR, beside=cluster.beside)
        self.todo: Todo[Key] = Todo(f"{cluster.title}: garbage collection of", self._settle)
        self._uids: dict[Key, str] = {}
        self._keys: dict[str, Key] = {}
        self._owners: dict[Key, tuple[str, ...]] = {}
        self._dependents: dict[str, dict[Key, None]] = {}  # dicts as ordered sets: replays are exact
        self._reported: dict[Key, frozenset[str]] = {}  # owners about which it was said that they cannot be any

    def follow(self, change: Change) -> None:
        """Learn of a change."""
        key = change.entry.key
        if change.type is EventType.DELETED:
            self._forget(key)
            return
        meta = change.entry.metadata
        uid = meta["uid"]
        if self._uids.get(key) != uid:
            self._forget(key)
            self._uids[key], self._keys[uid] = uid, key
        owners = tuple(ref["uid"] for ref in meta.get("ownerReferences") or ())
        self._link(key, owners)
        if owners or (meta.get("deletionTimestamp") and _collecting(meta)):
            self.todo.add(key)

    def _link(self, key: Key, owners: tuple[str, ...]) -> None:
        for uid in self._owners.pop(key, ()):
            dependents = self._dependents.get(uid)
            if dependents is not None:
                dependents.pop(key, None)
                self._wake(uid)
                if not dependents:
                    del self._dependents[uid]
        if owners:
            self._owners[key] = owners
            for uid in owners:
                self._dependents.setdefault(uid, {})[key] = None

    def _forget(self, key: Key) -> None:
        uid = self._uids.pop(key, None)
        if uid is None:
            return
        self._keys.pop(uid, None)
        self._reported.pop(key, None)
        self.todo.discard(key)
        for dependent in self._dependents.get(uid, ()):
            self.todo.add(dependent)
        self._link(key, ())

    def _wake(self, uid: str) -> None:
        """Look again at an owner that may be waiting for its dependents."""
        key = self._keys.get(uid)
        if key is not None:
            self.todo.add(key)

    async def work(self) -> None:
        """Bring everything in doubt to its end."""
        await self.todo.work()

    async def _settle(self, key: Key) -> None:
        entry = self.cluster.store.latest(key)
        target = self._target(key)
        if entry is None or target is None:
            return
        meta = entry.metadata
        if meta.get("deletionTimestamp"):
            if ORPHAN in meta.get("finalizers", ()):
                await self._orphan_dependents(target, meta)
            elif FOREGROUND in meta.get("finalizers", ()):
                await self._delete_dependents_first(target, meta)
        elif meta.get("ownerReferences"):
            await self._settle_dependent(target, meta)

    async def _settle_dependent(self, target: Target, meta: JSONObject) -> None:
        references = meta["ownerReferences"]
        state, look, breaks = dict[str, str](), _Look(self.cluster.store), Breaks()
        for ref in references:
            state[ref["uid"]] = self._owner_state(target, ref, look)
            await breaks.maybe()
        if impossible := [ref for ref in references if state[ref["uid"]] == "impossible"]:
            await self._report(target, meta, impossible)
        elif "solid" in state.values():
            lost = [uid for uid, what in state.items() if what != "solid"]
            if lost:
                await self._drop_references(target, lost)
        elif "unknown" not in state.values():
            if "waiting" not in state.values() or not self._dependents.get(meta["uid"]):
                await self._delete(target, meta, "Background")
                return
            if await self._in_circle(meta["uid"]):
                await self._unblock(target)
                entry = self.cluster.store.latest(target.key)
                meta = entry.metadata if entry is not None else meta
            await self._delete(target, meta, "Foreground")

    async def _in_circle(self, uid: str) -> bool:
        """Tell whether an object that is about to wait for its dependents has one that waits itself, maybe for it.

        There may be no circle. Then an owner that waits goes a little before what it waited for, as in Kubernetes.
        """
        look, breaks = _Look(self.cluster.store), Breaks()
        for key in list(self._dependents.get(uid, ())):
            if look.waits(key):
                return True
            await breaks.maybe()
        return False

    def _owner_state(self, target: Target, reference: JSONObject, look: "_Look") -> str:
        """Tell whether an owner stands, is waiting for its dependents to go, is gone, or is of a kind not served.

        What has no namespace cannot have an owner in one. That is a mistake, and no reason to delete anything.
        """
        owner = self._keys.get(reference["uid"])
        if owner is None:
            group, _, version = reference["apiVersion"].rpartition("/")
            served = self.cluster.catalogue.of_kind(group, version, reference["kind"])
            if served is None:
                return "unknown"
            if served.kind.namespaced and not target.namespace:
                return "impossible"
            # One that was made a moment ago may not be known here yet: the store has the last word.
            owner = Target(served, target.namespace if served.kind.namespaced else "", reference["name"]).key
            if look.uid(owner) != reference["uid"]:
                return "gone"
        if owner.namespace not in ("", target.namespace):
            return "gone" if target.namespace else "impossible"  # an owner in another namespace cannot be one
        if look.waits(owner):
            return "waiting"
        return "solid" if look.uid(owner) else "gone"

    async def _delete_dependents_first(self, target: Target, meta: JSONObject) -> None:
        blocked, breaks = False, Breaks()
        for number, key in enumerate(list(self._dependents.get(meta["uid"], ())), 1):
            if number % LOOKED_AT_AT_ONCE == 0:
                await asyncio.sleep(0)
            await breaks.maybe()
            dependent = self.cluster.store.latest(key)
            if dependent is None or self._target(key) is None or (key.namespace == "" and target.namespace):
                continue
            if key == target.key:
                continue  # what owns itself would wait for itself
            its = dependent.metadata
            references = its.get("ownerReferences") or ()
            blocked |= any(r["uid"] == meta["uid"] and r.get("blockOwnerDeletion") for r in references)
            if not its.get("deletionTimestamp"):
                self.todo.remind(key)
        if not blocked:
            await self._drop_finalizer(target, FOREGROUND)

    async def _orphan_dependents(self, target: Target, meta: JSONObject) -> None:
        failure: errors.ApiError | None = None
        for key in list(self._dependents.get(meta["uid"], ())):
            place = self._target(key)
            if place is not None:
                try:
                    await self._drop_references(place, [meta["uid"]])
                except errors.ApiError as error:
                    failure = failure or errors.ApiError(f"{key.resource} {key.name}: {error}")
                await asyncio.sleep(0)
        if failure is not None:
            raise failure
        await self._drop_finalizer(target, ORPHAN)

    async def _report(self, target: Target, meta: JSONObject, references: list[JSONObject]) -> None:
        """Say once, where people look, that an object names an owner that cannot be one."""
        told = frozenset(ref["uid"] for ref in references)
        if self._reported.get(target.key) == told:
            return
        where = f"namespace: {target.namespace}"
        listed = ", ".join(
            f"[{ref['apiVersion']}/{ref['kind']}, {where}, name: {ref['name']}, uid: {ref['uid']}]"
            for ref in references[:_MOST_NAMED]
        )
        message = f'ownerRef {listed[:_LONGEST_MESSAGE]} does not exist in namespace "{target.namespace}"'
        event = _warning(self.cluster, target, meta, "OwnerRefInvalidNamespace", message)
        place = Target(self.cluster.catalogue.find("", "v1", "events"), "default")
        await create(self.cluster, place, event, self._request)
        self._reported[target.key] = told

    async def _delete(self, target: Target, meta: JSONObject, propagation: str) -> None:
        if ORPHAN in meta.get("finalizers", ()):
            propagation = "Orphan"
        options = DeleteOptions(Preconditions(meta["uid"], meta["resourceVersion"]), propagation)
        try:
            await delete(self.cluster, target, options, self._request)
        except (errors.NotFound, errors.Conflict):
            return  # gone, or another one by now, or with other owners: then it is looked at once more

    async def _drop_references(self, target: Target, uids: list[str]) -> None:
        lost = set(uids)

        def without(obj: JSONObject) -> JSONObject:
            kept = [ref for ref in obj["metadata"].get("ownerReferences") or () if ref["uid"] not in lost]
            return _with_metadata(obj, "ownerReferences", kept)

        await self._patch(target, without)

    async def _unblock(self, target: Target) -> None:
        """Let the owners of an object go before it."""

        def without(obj: JSONObject) -> JSONObject:
            references = obj["metadata"].get("ownerReferences") or ()
            free = [{name: value for name, value in ref.items() if name != "blockOwnerDeletion"} for ref in references]
            return _with_metadata(obj, "ownerReferences", free)

        await self._patch(target, without)

    async def _drop_finalizer(self, target: Target, name: str) -> None:
        def without(obj: JSONObject) -> JSONObject:
            kept = [finalizer for finalizer in obj["metadata"].get("finalizers") or () if finalizer != name]
            return _with_metadata(obj, "finalizers", kept)

        await self._patch(target, without)

    async def _patch(self, target: Target, change: Callable[[JSONObject], JSONObject]) -> None:
        try:
            await patch(self.cluster, target, change, self._request)
        except errors.NotFound:
            return

    def _target(self, key: Key) -> Target | None:
        resource = self.cluster.catalogue.stored().get(key.resource)
        return Target(resource, key.namespace, key.name) if resource else None


class _Look:
    """What objects are, each read once: whoever names an owner ten thousand times has it read as often as others."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[Key, tuple[str, bool]] = {}

    def uid(self, key: Key) -> str:
        """Return which object has a key now; empty if none has."""
        return self._at(key)[0]

    def waits(self, key: Key) -> bool:
        """Tell whether an object waits for its dependents to go."""
        return self._at(key)[1]

    def _at(self, key: Key) -> tuple[str, bool]:
        if key not in self._seen:
            entry = self._store.latest(key)
            meta = entry.metadata if entry is not None else {}
            waits = bool(meta.get("deletionTimestamp")) and FOREGROUND in meta.get("finalizers", ())
            self._seen[key] = meta.get("uid", ""), waits
        return self._seen[key]


def _collecting(meta: JSONObject) -> bool:
    return any(name in meta.get("finalizers", ()) for name in (ORPHAN, FOREGROUND))


def _with_metadata(obj: JSONObject, name: str, value: list[Any]) -> JSONObject:
    meta = {**obj["metadata"], name: value}
    if not value:
        del meta[name]
    return {**obj, "metadata": meta}


def _warning(cluster: LogicalCluster, target: Target, meta: JSONObject, reason: str, message: str) -> JSONObject:
    """Return an event about an object; some kinds have names that an event may not have."""
    kind, now = target.resource.kind, cluster.timestamp()
    about = target.name if not name_errors(f"{target.name}.0123456789abcdef") else kind.plural
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about}.{cluster.random.getrandbits(64):016x}"},
        "involvedObject": {
            **kind.type_meta,
            "name": target.name,
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": "garbage-collector-controller"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
