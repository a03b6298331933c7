"""Brings one manifest to the cluster: asks what is there, lets the engine decide, and writes.

Between asking and writing somebody else may have written; then everything is done again, a few times. What the server
made of a manifest is handed back, so that whoever remembers it only has to look at a work at rest.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.manifest_config import ManifestUpdateStrategy, ServerSideApplyConfig
from echelon.engine.plan import Delete, Write
from echelon.engine.work.ignoring import server_side_apply
from echelon.engine.work.updating import (
    DesiredObject,
    LastApplied,
    create_only,
    last_applied_of,
    owner_writes,
    same_content,
    update,
)
from echelon.kube.client import Client, WriteOptions
from echelon.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from echelon.kube.write import write

ATTEMPTS = 4
_SSA = ServerSideApplyConfig()


class FieldConflict(Exception):
    """Another manager has a field. Trying again is of no use before somebody changes something."""


class AppliedObject(msgspec.Struct, frozen=True):
    """An object after its manifest was applied; None if it is only to be read and is not there.

    `last_applied` is what the server made of the manifest; `changed`: the object was not so before; `foreign`: it was
    there before the work, and stays when the work goes; `warnings`: what the server said to the write, None if there
    was none.
    """

    live: JSONObject | None
    last_applied: LastApplied | None = None
    changed: bool = False
    foreign: bool = False
    warnings: tuple[str, ...] | None = None


class ObjectApplier:
    """Applies manifests to one cluster in the name of a field manager."""

    def __init__(self, member: Client, manager: str) -> None:
        self._member = member
        self._manager = manager

    async def get(self, kind: Kind[Any], name: str, namespace: str) -> JSONObject | None:
        """Return an object, if there is one."""
        try:
            found: JSONObject = await self._member.get(kind, name, namespace)
        except NotFound:
            return None
        return found

    async def apply(
        self,
        desired: DesiredObject,
        strategy: ManifestUpdateStrategy,
        last_applied: LastApplied | None,
        *,
        new: bool,
        before_deletion: Callable[[], Awaitable[None]] | None = None,
    ) -> AppliedObject:
        """Apply a manifest.

        `last_applied` is of the last time; `new`: as far as is known the object is not there yet; `before_deletion` is
        asked before an object is deleted to be made anew, and may raise. Raises `ApiError`, `FieldConflict`,
        `IgnoreFieldError` and `ForeignObjectError`.
        """
        if strategy.type == "ReadOnly":
            return AppliedObject(await self.get(desired.kind, desired.name, desired.namespace))
        server_side = strategy.type == "ServerSideApply"
        live = None if new and not server_side else await self.get(desired.kind, desired.name, desired.namespace)
        if server_side:
            return await self._server_side(desired, strategy.server_side_apply or _SSA, live)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                writes = _client_side(desired, strategy, live, last_applied)
                if before_deletion is not None and any(isinstance(each, Delete) for each in writes):
                    await before_deletion()
                after, warnings = await self._write(writes, live)
                return _applied_object(desired, live, after, warnings)
            except (AlreadyExists, Conflict, NotFound) as error:
                if attempt == ATTEMPTS or (isinstance(error, NotFound) and live is None):
                    raise
                live = await self.get(desired.kind, desired.name, desired.namespace)
        raise AssertionError("the last attempt returns or raises")

    async def _server_side(
        self, desired: DesiredObject, config: ServerSideApplyConfig, live: JSONObject | None
    ) -> AppliedObject:
        writes = server_side_apply(desired, config, live)
        try:
            after, warnings = await self._write(writes, live, config.field_manager)
        except Conflict as error:
            raise FieldConflict(error.message) from error
        for attempt in range(1, ATTEMPTS + 1):
            if after is None:
                break
            try:
                after, _ = await self._write(owner_writes(desired, after), after)
                break
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
                after = await self.get(desired.kind, desired.name, desired.namespace)
        return _applied_object(desired, live, after, warnings)

    async def _write(
        self, writes: tuple[Write, ...], live: JSONObject | None, manager: str = ""
    ) -> tuple[JSONObject | None, tuple[str, ...] | None]:
        """Make writes; return what they led to, and what the server warned of, None if there was nothing to write."""
        warnings: list[str] = []
        # Fields that the server does not know are dropped, and somebody has to hear of that.
        options = WriteOptions(field_manager=manager or self._manager, field_validation="Warn", warn=warnings.append)
        for planned in writes:
            live = await write(planned, self._member, options)
        return live, tuple(warnings) if writes else None


def _client_side(
    desired: DesiredObject,
    strategy: ManifestUpdateStrategy,
    live: JSONObject | None,
    last_applied: LastApplied | None,
) -> tuple[Write, ...]:
    return create_only(desired, live) if strategy.type == "CreateOnly" else update(desired, live, last_applied)


def _applied_object(
    desired: DesiredObject, before: JSONObject | None, after: JSONObject | None, warnings: tuple[str, ...] | None
) -> AppliedObject:
    if after is None:
        return AppliedObject(None)
    changed = before is None or not same_content(before, after)
    foreign = before is not None and desired.is_foreign(before)
    return AppliedObject(after, last_applied_of(desired.manifest, after), changed, foreign, warnings)


def message_of(error: Exception) -> str:
    """Say why a manifest could not be applied."""
    return error.message if isinstance(error, ApiError) else str(error)
