"""The replicas of policies that the hub has for a cluster, and when they can be believed.

Caches and reads may be of the past, and acting on the past would put old content back, or delete what is wanted. A
write is always of now: one that changes nothing costs nothing, and fails where the hub has another state.
"""

from collections.abc import Hashable

from echelon.agent.newest_objects import NewestObjects
from echelon.agent.settings import HUB_MANAGER
from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.versions import newer
from echelon.engine.policy_member.documents import POLICY_DOCUMENT, PolicyDocument, content_mark
from echelon.kube.client import Client, MergePatch, WriteOptions
from echelon.kube.errors import Forbidden, NotFound
from echelon.kube.informer import Informer


class Replicas:
    """Reads replicas, and writes what is the agent's of their status."""

    def __init__(self, hub: Client, informer: Informer[PolicyDocument]) -> None:
        self._hub = hub
        self._informer = informer
        self._options = WriteOptions(field_manager=HUB_MANAGER)
        self._newest = NewestObjects(hub, informer, self._options)
        self._confirmed: dict[str, Hashable] = {}  # what the hub had when it was last asked, by name
        self._ended: dict[str, str] = {}  # the last versions of those whose end was heard of

    def newest(self, name: str) -> PolicyDocument | None:
        """Return a replica in the newest state that is known."""
        return self._newest.newest(name)

    def knows(self, replica: PolicyDocument) -> bool:
        """Whether a state of a replica is no news for whoever made our last write of it."""
        return self._newest.knows(replica)

    def is_unreadable(self, name: str) -> bool:
        """Whether there is a replica of which nobody can tell what it says."""
        return Key(self._informer.namespace, name) in self._informer.unreadable

    async def confirm(self, replica: PolicyDocument) -> None:
        """Make sure that this is what the hub has. Raises `Conflict` if it is not."""
        if self._confirmed.get(replica.metadata.name) != content_mark(replica):
            await self.patch_status(replica, {})

    async def patch_status(self, replica: PolicyDocument, body: JSONObject) -> PolicyDocument:
        """Write some fields of the status of a replica that is still as we know it."""
        after = await self._newest.patch(replica, {"status": body} if body else {}, "status")
        self._confirmed[after.metadata.name] = content_mark(after)
        return after

    def ended(self, replica: PolicyDocument) -> None:
        """Hear of the end of a replica."""
        self._ended[replica.metadata.name] = replica.metadata.resource_version

    async def is_gone(self, name: str) -> bool:
        """Ask whether the hub has a replica no more."""
        try:
            return await self._ask_whether_gone(name)
        except Forbidden:
            # A cluster that leaves the fleet loses its replicas, and with them the right to ask. What was heard of the
            # end has to do then, or they would be enforced for ever; unless it is older than the replica was.
            if name in self._ended and newer(self._informer.reached, self._ended[name]):
                return True
            raise

    async def _ask_whether_gone(self, name: str) -> bool:
        # A hub that serves no policies has not deleted any: it may have been replaced, and not be ready yet.
        await self._hub.list(POLICY_DOCUMENT, self._informer.namespace, limit=1)
        try:
            await self._hub.patch(
                POLICY_DOCUMENT,
                name,
                MergePatch({}),
                self._informer.namespace,
                subresource="status",
                options=self._options,
            )
        except NotFound:
            return True
        return False

    def forget(self, name: str) -> None:
        """Let go of what is remembered about a replica."""
        self._newest.forget(name)
        self._confirmed.pop(name, None)
        self._ended.pop(name, None)
