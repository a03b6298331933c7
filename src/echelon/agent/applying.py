"""Brings one manifest to the cluster: asks what is there, lets the engine decide, and writes.

Between asking and writing somebody else may have written; then everything is done again, a few times. What the server
made of a manifest is handed back, so that whoever remembers it only has to look at a work at rest.
"""

from dataclasses import dataclass
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.manifest_config import ManifestUpdateStrategy, ServerSideApplyConfig
from echelon.engine.plan import Apply, Create, Delete, Write
from echelon.engine.work.ignoring import server_side_apply
from echelon.engine.work.updating import Memory, Wanted, create_only, ownership, remember, same, update
from echelon.kube.client import ApplyPatch, Client, DeleteOptions, MergePatch, Preconditions, WriteOptions
from echelon.kube.errors import AlreadyExists, ApiError, Conflict, NotFound

ATTEMPTS = 4
_SSA = ServerSideApplyConfig()


class FieldConflict(Exception):
    """Another manager has a field. Trying again is of no use before somebody changes something."""


@dataclass(frozen=True)
class Written:
    """An object after its manifest was applied; None if it is only to be read and is not there.

    `memory` is what the server made of the manifest; `changed`: the object was not so before.
    """

    live: JSONObject | None
    memory: Memory | None = None
    changed: bool = False


class Applier:
    """Applies manifests to one cluster in the name of a field manager."""

    def __init__(self, member: Client, manager: str) -> None:
        self._member = member
        self._options = WriteOptions(field_manager=manager)

    async def get(self, kind: Kind[Any], name: str, namespace: str) -> JSONObject | None:
        """Return an object, if there is one."""
        try:
            found: JSONObject = await self._member.get(kind, name, namespace)
        except NotFound:
            return None
        return found

    async def apply(
        self, wanted: Wanted, strategy: ManifestUpdateStrategy, memory: Memory | None, *, new: bool
    ) -> Written:
        """Apply a manifest.

        `memory` is of the last time; `new`: as far as is known the object is not there yet. Raises `ApiError`,
        `FieldConflict` and `IgnoreFieldError`.
        """
        if strategy.type == "ReadOnly":
            return Written(await self.get(wanted.kind, wanted.name, wanted.namespace))
        server_side = strategy.type == "ServerSideApply"
        live = None if new and not server_side else await self.get(wanted.kind, wanted.name, wanted.namespace)
        if server_side:
            after = await self._server_side(wanted, strategy.server_side_apply or _SSA, live)
            return _written(wanted, live, after)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return _written(wanted, live, await self._client_side(wanted, strategy, live, memory))
            except (AlreadyExists, Conflict, NotFound) as error:
                if attempt == ATTEMPTS or (isinstance(error, NotFound) and live is None):
                    raise
                live = await self.get(wanted.kind, wanted.name, wanted.namespace)
        raise AssertionError("the last attempt returns or raises")

    async def _client_side(
        self, wanted: Wanted, strategy: ManifestUpdateStrategy, live: JSONObject | None, memory: Memory | None
    ) -> JSONObject | None:
        writes = create_only(wanted, live) if strategy.type == "CreateOnly" else update(wanted, live, memory)
        return await self._write(writes, live)

    async def _server_side(
        self, wanted: Wanted, config: ServerSideApplyConfig, live: JSONObject | None
    ) -> JSONObject | None:
        writes = server_side_apply(wanted, config, live)
        options = WriteOptions(field_manager=config.field_manager or self._options.field_manager)
        try:
            after = await self._write(writes, live, options)
        except Conflict as error:
            raise FieldConflict(error.message) from error
        for attempt in range(1, ATTEMPTS + 1):
            if after is None:
                return None
            try:
                return await self._write(ownership(wanted, after), after)
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
                after = await self.get(wanted.kind, wanted.name, wanted.namespace)
        raise AssertionError("the last attempt returns or raises")

    async def _write(
        self, writes: tuple[Write, ...], live: JSONObject | None, options: WriteOptions | None = None
    ) -> JSONObject | None:
        """Make writes and return what they led to."""
        for write in writes:
            live = await self._one(write, options or self._options)
        return live

    async def _one(self, write: Write, options: WriteOptions) -> JSONObject | None:
        member, kind, namespace = self._member, write.kind, write.namespace
        if isinstance(write, Create):
            return _plain(await member.create(kind, write.body, namespace, options=options))
        if isinstance(write, Delete):
            how = DeleteOptions(Preconditions(write.uid, write.resource_version), write.propagation)
            await member.delete(kind, write.name, namespace, options=how)
            return None
        if isinstance(write, Apply):
            applied = ApplyPatch(write.body, options.field_manager, write.force)
            return _plain(await member.patch(kind, write.name, applied, namespace, options=options))
        metadata = {**write.body.get("metadata", {}), "resourceVersion": write.resource_version, "uid": write.uid}
        body = MergePatch({**write.body, "metadata": metadata})
        return _plain(await member.patch(kind, write.name, body, namespace, options=options))


def _written(wanted: Wanted, before: JSONObject | None, after: JSONObject | None) -> Written:
    if after is None:
        return Written(None)
    return Written(after, remember(wanted.manifest, after), before is None or not same(before, after))


def reason(error: Exception) -> str:
    """Say why a manifest could not be applied."""
    return error.message if isinstance(error, ApiError) else str(error)


def _plain(obj: Any) -> JSONObject:
    found: JSONObject = obj
    return found
