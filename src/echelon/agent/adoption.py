"""Taking over what was applied under an earlier address of the hub.

Objects belong to a record, and go with it. So the new record lists them before it owns them, each object changes its
owner in one write, and the old record goes only when nothing is its any more. Whoever dies in between has left objects
with one owner or the other, and both records; the next one begins again and finds most of it done.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from echelon.agent.recorded_object import is_gone, kind_of, metadata_patch
from echelon.agent.settings import RECORD_FINALIZER
from echelon.api.base import JSONObject
from echelon.api.work import APPLIED_MANIFEST_WORK, AppliedManifestWork, AppliedResource, ManifestWork
from echelon.engine.plan import Delete, Patch
from echelon.engine.work.identity import Identity
from echelon.engine.work.ownership import has_owner, owner_reference, owner_references, with_owner, without_owner
from echelon.kube.client import Client, WriteOptions
from echelon.kube.errors import ApiError, Conflict, NotFound
from echelon.kube.informer import Informer
from echelon.kube.write import write

# The index of records by the work that they are of.
BY_WORK = "work"
# A record that is back so soon was made by an agent that lives. Two that took from each other would never end.
RECREATED_SECONDS = 600.0

LeftoversOf = Callable[[AppliedManifestWork], Awaitable[list[AppliedResource]]]

_log = logging.getLogger(__name__)


class Adoption:
    """Finds records of earlier addresses and takes over what they list.

    `informer` has the index `BY_WORK`; `leftovers_of` tells what may have been applied for a record without being
    listed.
    """

    def __init__(
        self,
        member: Client,
        informer: Informer[AppliedManifestWork],
        identity: Identity,
        leftovers_of: LeftoversOf,
        manager: str,
    ) -> None:
        self._member = member
        self._informer = informer
        self._identity = identity
        self._leftovers_of = leftovers_of
        self._options = WriteOptions(field_manager=manager)
        self._taken_over: dict[str, tuple[str, float]] = {}  # uid and time, by the name of the record

    def earlier_records(self, work: ManifestWork) -> list[AppliedManifestWork]:
        """Return the records of a work that were made under other addresses."""
        found = self._informer.by_index(BY_WORK, work.metadata.name)
        return [each for each in found if self._identity.continues(work, each) and not self._was_taken_over(each)]

    async def resources_of(self, old: AppliedManifestWork) -> list[AppliedResource]:
        """Return everything that may belong to a record."""
        return [*await self._leftovers_of(old), *old.status.applied_resources]

    async def take_over(
        self, old: AppliedManifestWork, new: AppliedManifestWork, resources: Iterable[AppliedResource]
    ) -> None:
        """Make objects of one record those of another, and let the first one go. Raises `ApiError` if some are left.

        The new record must list them already.
        """
        failure: ApiError | None = None
        for resource in resources:
            try:
                await self._move(resource, old, new)
            except ApiError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        await self._release(old)
        now = asyncio.get_running_loop().time()
        self._taken_over = {name: each for name, each in self._taken_over.items() if now - each[1] < RECREATED_SECONDS}
        self._taken_over[old.metadata.name] = (old.metadata.uid, now)
        _log.info("%s goes on with what %s lists", new.metadata.name, old.metadata.name)

    async def _move(self, resource: AppliedResource, old: AppliedManifestWork, new: AppliedManifestWork) -> None:
        kind, before, after = kind_of(resource), owner_reference(old), owner_reference(new)
        try:
            live = await self._member.get(kind, resource.name, resource.namespace)
        except NotFound:
            if await is_gone(self._member, resource):
                return
            raise Conflict(f"{resource.resource} {resource.name} was not there and is again") from None
        metadata: JSONObject = {}
        if has_owner(live, before):
            metadata["ownerReferences"] = with_owner(without_owner(owner_references(live), before), after)
        # Also if there is nothing to change: only a write makes sure that it is not the past of an object that goes
        # with the old record.
        await write(metadata_patch(kind, live, metadata), self._member, self._options)

    async def _release(self, old: AppliedManifestWork) -> None:
        """Let a record go that has nothing any more, unless somebody has written to it since it was read."""
        meta = old.metadata
        kept = [name for name in meta.finalizers if name != RECORD_FINALIZER]
        body = {"metadata": {"finalizers": kept or None}}
        version = meta.resource_version
        patch = Patch(APPLIED_MANIFEST_WORK, meta.name, body, uid=meta.uid, resource_version=version)
        try:
            await write(patch, self._member, self._options)
            await write(Delete(APPLIED_MANIFEST_WORK, meta.name, uid=meta.uid), self._member, self._options)
        except NotFound:
            return

    def _was_taken_over(self, record: AppliedManifestWork) -> bool:
        """Whether a record was taken over already: the cache does not know yet, or somebody makes it again."""
        name = record.metadata.name
        uid, since = self._taken_over.get(name, ("", 0.0))
        if not uid or asyncio.get_running_loop().time() - since >= RECREATED_SECONDS:
            return False
        if uid != record.metadata.uid:
            _log.warning(
                "%s is there again: another agent works for the same hub under another address; stop it, or give each "
                "of them an --agent-id",
                name,
            )
        return True
