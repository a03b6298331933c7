"""The records of works on the cluster: what was applied for which work, and the end of it.

A record outlives the agent and the connection to the hub, and the objects belong to it, not to the work. It goes only
when everything that it lists is gone; until then it shows what is still in the way.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from echelon.agent.adoption import Adoption
from echelon.agent.recorded_object import is_gone, kind_of, metadata_patch
from echelon.agent.settings import RECORD_FINALIZER
from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.work import (
    APPLIED_MANIFEST_WORK,
    AppliedManifestWork,
    AppliedManifestWorkSpec,
    AppliedResource,
    ManifestWork,
)
from echelon.engine.plan import Delete, Patch
from echelon.engine.work import intent
from echelon.engine.work.identity import CLUSTER_UID, WORK_UID, Identity
from echelon.engine.work.ownership import owner_reference
from echelon.engine.work.removal import RemovalAction, decide_removal, merged_resources
from echelon.kube.client import Client, WriteOptions
from echelon.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from echelon.kube.freshness import OwnWrites
from echelon.kube.informer import Delta, Informer
from echelon.kube.write import write

_log = logging.getLogger(__name__)


class RecordBeingDeleted(Exception):
    """What was applied before is still being removed; nothing can be applied until that is over."""


class Records:
    """Reads and writes the records of one agent's works."""

    def __init__(
        self,
        member: Client,
        informer: Informer[AppliedManifestWork],
        identity: Identity,
        adoption: Adoption,
        manager: str,
        *,
        kept_namespaces: Collection[str] = (),
    ) -> None:
        self._member = member
        self._identity = identity
        self._adoption = adoption
        self._kept_namespaces = kept_namespaces
        self._options = WriteOptions(field_manager=manager)
        self._newest = OwnWrites(informer)
        self._confirmed: set[str] = set()  # records that this process has written
        informer.on_change(self._record_changed)

    def name_of(self, work: str) -> str:
        """Return the name of a work's record."""
        return self._identity.name_of(work)

    def is_ours(self, record: AppliedManifestWork) -> bool:
        """Whether this agent takes care of a record."""
        return self._identity.is_ours(record)

    def get(self, name: str) -> AppliedManifestWork | None:
        """Return a record in the newest state that is known."""
        return self._newest.get(Key("", name))

    async def ensure(self, work: ManifestWork, *, settled: bool) -> AppliedManifestWork:
        """Return the record of a work, which says what is about to be applied. Raises `RecordBeingDeleted`.

        What was applied under earlier addresses of the hub is listed there, too. What of it cannot be taken over stays
        with its earlier record until the next time: it is no reason not to apply the rest.

        `settled`: nothing of what was intended before can have been left behind.
        """
        record = await self._present(work, settled=settled)
        try:
            return await self._adopt(work, record)
        except ApiError as error:
            _log.warning("what was applied for %s before the hub moved: %s", work.metadata.name, error)
            return self.get(record.metadata.name) or record

    async def _adopt(self, work: ManifestWork, record: AppliedManifestWork) -> AppliedManifestWork:
        for old in self._adoption.earlier_records(work):
            found = await self._adoption.resources_of(old)
            record = await self.list_resources(record, [*found, *record.status.applied_resources])
            await self._adoption.take_over(old, record, merged_resources(found))
        return record

    async def _present(self, work: ManifestWork, *, settled: bool) -> AppliedManifestWork:
        """Return the record of a work under the hub's present address."""
        name, spec = self.name_of(work.metadata.name), self._spec(work)
        wanted = intent.intended(work.spec.workload.manifests)
        record = self.get(name) or await self._create(name, work, spec, intent.written(wanted))
        if record.metadata.deletion_timestamp:
            if not self.is_ours(record):  # whoever made it is not here any more to end it
                await self._patch(record, {"spec": msgspec.to_builtins(spec)})
            raise RecordBeingDeleted(f"what was applied for {work.metadata.name} before is still being removed")
        changes: JSONObject = {} if record.spec == spec else {"spec": msgspec.to_builtins(spec)}
        notes: JSONObject = {}
        marks = self._marks(work)
        notes |= {name: uid for name, uid in marks.items() if record.metadata.annotations.get(name) != uid}
        known = intent.read(record.metadata.annotations)
        if not wanted <= known and (text := intent.written(wanted if settled else wanted | known)):
            notes[intent.ANNOTATION] = text
        metadata: JSONObject = {"annotations": notes} if notes else {}
        if not work.metadata.labels.items() <= record.metadata.labels.items():
            metadata["labels"] = work.metadata.labels
        if metadata:
            changes["metadata"] = metadata
        if changes or name not in self._confirmed:
            # A process may be born into the past; what it makes there would be missing in the record of the present.
            # A write that changes nothing costs nothing, and fails if the record is not the newest.
            record = await self._patch(record, changes)
        self._newest.wrote(record)
        self._confirmed.add(name)
        return record

    async def _create(
        self, name: str, work: ManifestWork, spec: AppliedManifestWorkSpec, applying: str
    ) -> AppliedManifestWork:
        metadata: JSONObject = {"name": name, "labels": work.metadata.labels, "finalizers": [RECORD_FINALIZER]}
        metadata["annotations"] = self._marks(work) | ({intent.ANNOTATION: applying} if applying else {})
        body: JSONObject = {**APPLIED_MANIFEST_WORK.type_meta, "metadata": metadata, "spec": msgspec.to_builtins(spec)}
        try:
            made = await self._member.create(APPLIED_MANIFEST_WORK, body, options=self._options)
            self._confirmed.add(name)
            return made
        except AlreadyExists:
            return await self._member.get(APPLIED_MANIFEST_WORK, name)

    async def list_resources(
        self, record: AppliedManifestWork, resources: Sequence[AppliedResource]
    ) -> AppliedManifestWork:
        """Write down what was applied, if that has changed; return the record as it is then."""
        listed = merged_resources(resources)
        if listed == record.status.applied_resources:
            return record
        body = {"status": {"appliedResources": [msgspec.to_builtins(each) for each in listed]}}
        return await self._patch(record, body, "status")

    async def request_deletion(self, work: ManifestWork) -> bool:
        """Ask for the end of a work's record; tell whether it is gone."""
        name = self.name_of(work.metadata.name)
        known = self.get(name)
        if self._adoption.earlier_records(work) or (known is not None and not self.is_ours(known)):
            try:
                await self._adopt(work, await self._present(work, settled=False))
            except RecordBeingDeleted:
                return False
        try:
            # A read may be of the past, and what it does not show would stay behind; a write is always of now.
            await self._member.delete(APPLIED_MANIFEST_WORK, name)
        except NotFound:
            return True
        return False

    async def release(self, record: AppliedManifestWork, left: Sequence[AppliedResource]) -> None:
        """Show what is still in the way of a record's end, or let it go."""
        if left:
            await self.list_resources(record, left)
            return
        kept = [name for name in record.metadata.finalizers if name != RECORD_FINALIZER]
        await self._patch(record, {"metadata": {"finalizers": kept or None}})

    async def remove(self, record: AppliedManifestWork, resources: Iterable[AppliedResource]) -> list[AppliedResource]:
        """Remove objects that are no longer wanted. Return those that are not gone yet."""
        owner, left = owner_reference(record), list[AppliedResource]()
        for resource in resources:
            kind = kind_of(resource)
            try:
                live = await self._member.get(kind, resource.name, resource.namespace)
            except NotFound:
                if not await is_gone(self._member, resource):
                    left.append(resource)
                continue
            decided = decide_removal(resource, live, owner, self._kept_namespaces)
            if decided.action is RemovalAction.FORGET:
                await self._confirm(kind, live)
                continue
            if decided.action is RemovalAction.DISOWN:
                without = metadata_patch(kind, live, {"ownerReferences": list(decided.owners)})
                await write(without, self._member, self._options)
                continue
            if decided.action is RemovalAction.WAIT or not await self._delete(kind, resource, live):
                left.append(resource)
        return left

    async def _confirm(self, kind: Kind[Any], live: JSONObject) -> None:
        """Make sure that an object is as it was read: in the past it may have been another record's. Raises `Conflict`.

        A write that changes nothing costs nothing, and is always of now.
        """
        with suppress(NotFound, Forbidden):  # who may not write it cannot have made it
            await write(metadata_patch(kind, live, {}), self._member, self._options)

    async def _delete(self, kind: Kind[Any], resource: AppliedResource, live: JSONObject) -> bool:
        """Delete an object that is still as we saw it, or another work may just have made it its own."""
        meta = live["metadata"]
        request_deletion = Delete(kind, resource.name, resource.namespace, meta["uid"], meta["resourceVersion"])
        try:
            await write(request_deletion, self._member, self._options)
            # Most objects have no finalizer and are gone already.
            await self._member.get(kind, resource.name, resource.namespace)
        except NotFound:
            return True
        except Conflict:
            return False
        return False

    async def _patch(self, record: AppliedManifestWork, body: JSONObject, subresource: str = "") -> AppliedManifestWork:
        patch = Patch.of(APPLIED_MANIFEST_WORK, record.metadata, body, subresource)
        try:
            after: AppliedManifestWork = await write(patch, self._member, self._options)
        except Conflict:
            self._newest.forget(Key("", record.metadata.name))
            raise
        self._newest.wrote(after)
        return after

    def _marks(self, work: ManifestWork) -> dict[str, str]:
        """Return what tells whose a record is under any address of the hub."""
        cluster = {CLUSTER_UID: self._identity.cluster_uid} if self._identity.cluster_uid else {}
        return {WORK_UID: work.metadata.uid, **cluster}

    def _spec(self, work: ManifestWork) -> AppliedManifestWorkSpec:
        return AppliedManifestWorkSpec(
            hub_hash=self._identity.hub_hash,
            agent_id=self._identity.agent_id,
            manifest_work_name=work.metadata.name,
        )

    def _record_changed(self, delta: Delta[AppliedManifestWork]) -> None:
        if delta.new is None:
            self._confirmed.discard(delta.object.metadata.name)
