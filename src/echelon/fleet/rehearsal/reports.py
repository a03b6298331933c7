"""A hub that takes reports by a short way.

Most of what is written during a rollout are the statuses that agents and controllers report. They are made from types,
and a rehearsal has nobody who would report something else, so that the server would only find out, each time, that it
has nothing to complain about, and who owns which field, which nobody asks. Preconditions hold as always, and whatever
is not plainly a new status takes the long way. Tests compare what both ways store.
"""

from typing import Any, TypeVar

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.hub.client import InProcessClient
from echelon.hub.storage.store import Entry, Key
from echelon.hub.verbs.patch import merge_patch
from echelon.kube.client import MergePatch, Patch, WriteOptions

T = TypeVar("T")


class ReportingClient(InProcessClient):
    """A client that writes statuses straight into the store."""

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> T:
        """Change the fields that the patch names."""
        if subresource == "status" and isinstance(patch, MergePatch) and not (options and options.dry_run):
            entry = self._cluster.store.latest(Key(kind.resource, namespace, name))
            status = _reported(kind, entry, patch.body) if entry is not None else None
            if entry is not None and status is not None:
                new = {**entry.object, "status": status}
                written = await self._cluster.store.put(
                    entry.key, new, expected=entry.revision, admitted_by=entry.admitted_by
                )
                return written.read_as(kind.type)
        return await super().patch(kind, name, patch, namespace, subresource=subresource, options=options)


def _reported(kind: Kind[Any], entry: Entry, body: JSONObject) -> JSONObject | None:
    """Return a new status; nothing if the patch is about more, is refused, or says nothing new."""
    obj, meta = entry.object, body.get("metadata") or {}
    if kind.builtin or set(body) - {"status", "metadata"} or not isinstance(body.get("status"), dict):
        return None
    if any(obj["metadata"].get(name) != value for name, value in meta.items()):
        return None
    if obj.get("apiVersion") != kind.api_version:
        return None
    status = merge_patch(obj.get("status") or {}, body["status"])
    return status if status != obj.get("status") else None
