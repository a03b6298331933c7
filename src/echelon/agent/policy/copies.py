"""The copies of replicas on the cluster."""

from collections.abc import Hashable
from contextlib import suppress

from echelon.agent.member_kinds import ensure_served
from echelon.agent.newest_objects import NewestObjects
from echelon.api.base import JSONObject
from echelon.api.namespaces import NAMESPACE
from echelon.api.policy import POLICY
from echelon.engine.plan import Create, Delete
from echelon.engine.policy_member.copies import copy_write, in_step, kept_of
from echelon.engine.policy_member.documents import POLICY_DOCUMENT, PolicyDocument, content_mark
from echelon.engine.work.updating import LastApplied
from echelon.kube.client import Client, WriteOptions
from echelon.kube.errors import AlreadyExists, NotFound
from echelon.kube.informer import Informer


class Copies:
    """Reads and writes the copies of one cluster."""

    def __init__(self, member: Client, informer: Informer[PolicyDocument], manager: str) -> None:
        self._member = member
        self._namespace = informer.namespace
        self._newest = NewestObjects(member, informer, WriteOptions(field_manager=manager))
        self._kept: dict[str, LastApplied] = {}
        self._confirmed: dict[str, Hashable] = {}  # what the cluster had when it was last asked, by name

    def newest(self, name: str) -> PolicyDocument | None:
        """Return a copy in the newest state that is known."""
        return self._newest.newest(name)

    def knows(self, copy: PolicyDocument) -> bool:
        """Whether a state of a copy is no news for whoever made our last write of it."""
        return self._newest.knows(copy)

    def differs(self, replica: PolicyDocument, copy: PolicyDocument | None) -> bool:
        """Whether a copy is to be written."""
        return copy_write(replica, copy, self._namespace, self._kept.get(replica.metadata.name)) is not None

    def is_in_step(self, replica: PolicyDocument, copy: PolicyDocument) -> bool:
        """Whether what is found on the cluster is about this replica."""
        return in_step(replica, copy, self._kept.get(replica.metadata.name))

    async def equalise(self, replica: PolicyDocument, copy: PolicyDocument | None) -> PolicyDocument | None:
        """Make a copy equal to its replica, and return it as it is then."""
        name = replica.metadata.name
        write = copy_write(replica, copy, self._namespace, self._kept.get(name))
        if write is None:
            return copy
        try:
            after: PolicyDocument = await self._newest.write(write)
        except NotFound:
            if not isinstance(write, Create):
                self._newest.forget(name)
                raise
            await self._make_room()
            after = await self._newest.write(write)
        self._confirmed[name] = content_mark(after)
        if (kept := kept_of(replica, after)) is not None:
            self._kept[name] = kept
        else:
            self._kept.pop(name, None)
        return after

    async def confirm(self, copy: PolicyDocument) -> None:
        """Make sure that this is what the cluster has. Raises `Conflict` if it is not."""
        if self._confirmed.get(copy.metadata.name) != content_mark(copy):
            await self.patch(copy, {})

    async def patch_status(self, copy: PolicyDocument, body: JSONObject) -> PolicyDocument:
        """Write some fields of the status of a copy."""
        return await self.patch(copy, {"status": body}, "status")

    async def patch(self, copy: PolicyDocument, body: JSONObject, subresource: str = "") -> PolicyDocument:
        """Write some fields of a copy that is still as we know it."""
        after = await self._newest.patch(copy, body, subresource)
        self._confirmed[after.metadata.name] = content_mark(after)
        return after

    async def delete(self, copy: PolicyDocument) -> None:
        """End a copy."""
        meta = copy.metadata
        with suppress(NotFound):
            await self._newest.write(Delete(POLICY_DOCUMENT, meta.name, meta.namespace, meta.uid))

    def forget(self, name: str) -> None:
        """Let go of what is remembered about a copy."""
        self._newest.forget(name)
        self._kept.pop(name, None)
        self._confirmed.pop(name, None)

    async def _make_room(self) -> None:
        """See that there is a place for copies: the namespace, and the definition of their kind."""
        with suppress(AlreadyExists):
            await self._member.create(NAMESPACE.untyped(), {"metadata": {"name": self._namespace}})
        await ensure_served(self._member, POLICY)
