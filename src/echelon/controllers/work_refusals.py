"""Notes which clusters' works the hub does not take.

A cluster's namespace may be missing or on its way out, and a quota or a policy may be in the way. A rollout must show
that, count it as a failure and go on elsewhere; it must not hang on one cluster that can never be written. The server
says no only when asked, so the one who asks takes notes. They are not kept across restarts: then the server is asked
again.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, TypeVar

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.work import MANIFEST_WORK
from echelon.engine.work_set.names import SET_LABEL
from echelon.engine.work_set.view import Refusal
from echelon.kube.client import DeleteOptions, MergePatch, Patch, WriteOptions, Writer
from echelon.kube.clock import Clock
from echelon.kube.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound, TooLarge

T = TypeVar("T")

FIRST_TRY_SECONDS, LAST_TRY_SECONDS = 1.0, 60.0
_NO = (BadRequest, Forbidden, Invalid, TooLarge)


@dataclass(frozen=True)
class _Note:
    refusal: Refusal
    wait: float  # before the server is asked again
    until: float


class Refusals:
    """A writer that remembers, for a while, which works were refused."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._notes: dict[tuple[str, str], _Note] = {}  # by set label and cluster

    def of(self, label: str) -> tuple[dict[str, Refusal], float | None]:
        """Return what was refused to a set and is not to be tried now, and in how many seconds there is a next try."""
        now = asyncio.get_running_loop().time()
        found = {cluster: note for (owner, cluster), note in self._notes.items() if owner == label and note.until > now}
        refused = {cluster: note.refusal for cluster, note in found.items()}
        return refused, min((note.until - now for note in found.values()), default=None)

    def forget(self, label: str) -> None:
        """Let the notes of a set go."""
        for key in [key for key in self._notes if key[0] == label]:
            del self._notes[key]

    async def create(
        self, kind: Kind[T], body: dict[str, Any], namespace: str = "", *, options: WriteOptions | None = None
    ) -> T:
        """Create an object."""
        try:
            made = await self._writer.create(kind, body, namespace, options=options)
        except (NotFound, *_NO) as error:
            self._note(kind, body, namespace, error)
            raise
        self._taken(kind, body, namespace)
        return made

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
        """Change an object."""
        body = patch.body if isinstance(patch, MergePatch) else {}
        try:
            changed = await self._writer.patch(kind, name, patch, namespace, subresource=subresource, options=options)
        except _NO as error:
            self._note(kind, body, namespace, error)
            raise
        self._taken(kind, body, namespace)
        return changed

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, options: DeleteOptions | None = None
    ) -> None:
        """Ask for the end of an object."""
        await self._writer.delete(kind, name, namespace, options=options)

    def _note(self, kind: Kind[Any], body: JSONObject, namespace: str, error: ApiError) -> None:
        if (label := _label(kind, body)) is None:
            return
        before = self._notes.get((label, namespace))
        since = before.refusal.since if before is not None else self._clock.now()
        wait = min(before.wait * 2, LAST_TRY_SECONDS) if before is not None else FIRST_TRY_SECONDS
        until = asyncio.get_running_loop().time() + wait
        self._notes[label, namespace] = _Note(Refusal(str(error), since), wait, until)

    def _taken(self, kind: Kind[Any], body: JSONObject, namespace: str) -> None:
        if self._notes and (label := _label(kind, body)) is not None:
            self._notes.pop((label, namespace), None)


def _label(kind: Kind[Any], body: JSONObject) -> str | None:
    """Return whose work is written, if it is one whose content is written."""
    if kind.resource != MANIFEST_WORK.resource or "spec" not in body:
        return None
    label: str | None = body["metadata"]["labels"].get(SET_LABEL)
    return label
