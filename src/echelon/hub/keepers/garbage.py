"""Garbage collection by owner references: background, foreground and orphan."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from echelon.api.base import JSONObject
from echelon.hub.access.identity import User
from echelon.hub.admission import Request, Target
from echelon.hub.cluster import LogicalCluster
from echelon.hub.deletion import FOREGROUND, ORPHAN, delete
from echelon.hub.storage.store import Change, Key
from echelon.hub.writing import patch
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, EventType, Preconditions

_COLLECTOR = Request(
    User("system:serviceaccount:kube-system:generic-garbage-collector", ("system:masters",)),
    field_manager="garbage-collector",
    field_validation="Ignore",
)


@dataclass
class GarbageKeeper:
    """Knows who owns whom, and removes what nobody owns any more."""

    cluster: LogicalCluster
    _uids: dict[Key, str] = field(default_factory=dict)
    _keys: dict[str, Key] = field(default_factory=dict)
    _owners: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    _dependents: dict[str, dict[Key, None]] = field(default_factory=dict)  # dicts as ordered sets: replays are exact
    _todo: dict[Key, None] = field(default_factory=dict)

    def follow(self, change: Change) -> None:
        """Learn of a change."""
        key = change.entry.key
        if change.type is EventType.DELETED:
            self._forget(key)
            return
        meta = change.entry.object["metadata"]
        uid = meta["uid"]
        if self._uids.get(key) != uid:
            self._forget(key)
            self._uids[key], self._keys[uid] = uid, key
        owners = tuple(ref["uid"] for ref in meta.get("ownerReferences") or ())
        self._link(key, owners)
        if owners or (meta.get("deletionTimestamp") and _collecting(meta)):
            self._todo[key] = None

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
        self._todo.pop(key, None)
        self._todo.update(self._dependents.get(uid, {}))
        self._link(key, ())

    def _wake(self, uid: str) -> None:
        """Look again at an owner that may be waiting for its dependents."""
        key = self._keys.get(uid)
        if key is not None:
            self._todo[key] = None

    @property
    def busy(self) -> bool:
        """Whether there is work to do."""
        return bool(self._todo)

    async def work(self) -> None:
        """Bring everything in doubt to its end."""
        while self._todo:
            key = next(iter(self._todo))
            await self._settle(key)
            self._todo.pop(key, None)

    async def _settle(self, key: Key) -> None:
        entry = self.cluster.store.latest(key)
        target = self._target(key)
        if entry is None or target is None:
            return
        meta = entry.object["metadata"]
        if meta.get("deletionTimestamp"):
            if ORPHAN in meta.get("finalizers", ()):
                await self._orphan_dependents(target, meta)
            elif FOREGROUND in meta.get("finalizers", ()):
                await self._delete_dependents_first(target, meta)
        elif meta.get("ownerReferences"):
            await self._settle_dependent(target, meta)

    async def _settle_dependent(self, target: Target, meta: JSONObject) -> None:
        references = meta["ownerReferences"]
        state = {ref["uid"]: self._owner_state(target, ref) for ref in references}
        if "solid" in state.values():
            lost = [uid for uid, what in state.items() if what != "solid"]
            if lost:
                await self._drop_references(target, lost)
        elif "unknown" not in state.values():
            waiting = "waiting" in state.values() and self._dependents.get(meta["uid"])
            await self._delete(target, meta, "Foreground" if waiting else "Background")

    def _owner_state(self, target: Target, reference: JSONObject) -> str:
        """Tell whether an owner stands, is waiting for its dependents to go, is gone, or is of a kind not served."""
        owner = self._keys.get(reference["uid"])
        if owner is None:
            group, _, version = reference["apiVersion"].rpartition("/")
            served = self.cluster.catalogue.of_kind(group, version, reference["kind"])
            return "gone" if served else "unknown"
        if owner.namespace not in ("", target.namespace):
            return "gone"  # an owner in another namespace cannot be one
        entry = self.cluster.store.latest(owner)
        meta = entry.object["metadata"] if entry else {}
        if meta.get("deletionTimestamp") and FOREGROUND in meta.get("finalizers", ()):
            return "waiting"
        return "solid" if entry else "gone"

    async def _delete_dependents_first(self, target: Target, meta: JSONObject) -> None:
        blocked = False
        for key in list(self._dependents.get(meta["uid"], ())):
            dependent, place = self.cluster.store.latest(key), self._target(key)
            if dependent is None or place is None:
                continue
            its = dependent.object["metadata"]
            references = its.get("ownerReferences") or ()
            blocked |= any(r["uid"] == meta["uid"] and r.get("blockOwnerDeletion") for r in references)
            if not its.get("deletionTimestamp"):
                await self._settle_dependent(place, its)
        if not blocked:
            await self._drop_finalizer(target, FOREGROUND)

    async def _orphan_dependents(self, target: Target, meta: JSONObject) -> None:
        for key in list(self._dependents.get(meta["uid"], ())):
            place = self._target(key)
            if place is not None:
                await self._drop_references(place, [meta["uid"]])
        await self._drop_finalizer(target, ORPHAN)

    async def _delete(self, target: Target, meta: JSONObject, propagation: str) -> None:
        if ORPHAN in meta.get("finalizers", ()):
            propagation = "Orphan"
        options = DeleteOptions(Preconditions(uid=meta["uid"]), propagation)
        try:
            await delete(self.cluster, target, options, _COLLECTOR)
        except (errors.NotFound, errors.Conflict):
            return  # gone, or another object by now

    async def _drop_references(self, target: Target, uids: list[str]) -> None:
        def without(obj: JSONObject) -> JSONObject:
            kept = [ref for ref in obj["metadata"].get("ownerReferences") or () if ref["uid"] not in uids]
            return _with_metadata(obj, "ownerReferences", kept)

        await self._patch(target, without)

    async def _drop_finalizer(self, target: Target, name: str) -> None:
        def without(obj: JSONObject) -> JSONObject:
            kept = [finalizer for finalizer in obj["metadata"].get("finalizers") or () if finalizer != name]
            return _with_metadata(obj, "finalizers", kept)

        await self._patch(target, without)

    async def _patch(self, target: Target, change: Callable[[JSONObject], JSONObject]) -> None:
        try:
            await patch(self.cluster, target, change, _COLLECTOR)
        except errors.NotFound:
            return

    def _target(self, key: Key) -> Target | None:
        resource = self.cluster.catalogue.stored().get(key.resource)
        return Target(resource, key.namespace, key.name) if resource else None


def _collecting(meta: JSONObject) -> bool:
    return any(name in meta.get("finalizers", ()) for name in (ORPHAN, FOREGROUND))


def _with_metadata(obj: JSONObject, name: str, value: list[Any]) -> JSONObject:
    meta = {**obj["metadata"], name: value}
    if not value:
        del meta[name]
    return {**obj, "metadata": meta}
