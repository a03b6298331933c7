"""Who did what to a rollout, written down beside it: the user as the server sees them, not as they call themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from echelon.api.authentication import SELF_SUBJECT_REVIEW
from echelon.api.kinds import Kind
from echelon.engine.rollout.actions import note_action
from echelon.engine.rollout.control import Annotations
from echelon.engine.rollout.stored_revision import CAUSE_ANNOTATION, StoredRevision
from echelon.kube.client import Client, MergePatch
from echelon.kube.errors import ApiError, Forbidden, MethodNotAllowed, NotFound
from echelon.rollouts.reading import Found


@dataclass(frozen=True)
class Noted:
    """Words about a change, which are no part of it."""

    kind: Kind[Any]
    name: str
    uid: str  # empty where it is not known
    annotations: Annotations

    @property
    def patch(self) -> MergePatch:
        """The write."""
        return MergePatch({"metadata": {"annotations": self.annotations, **({"uid": self.uid} if self.uid else {})}})


async def user_of(client: Client) -> str:
    """Return who asks, as the server sees them; nothing if it does not tell, which is no reason to do nothing."""
    try:
        seen = await client.create(SELF_SUBJECT_REVIEW, dict(SELF_SUBJECT_REVIEW.type_meta))
    except (NotFound, Forbidden, MethodNotAllowed):
        return ""
    return seen.status.user_info.username


def records_of(found: Found, verb: str, back: StoredRevision | None, now: datetime, by: str) -> tuple[Noted, ...]:
    """Return what to write down when a revision was brought back.

    It is wanted again for the reason for which it was wanted then, so the object says that again, too.
    """
    meta, detail = found.subject.metadata, f"to revision {back.number}" if back is not None else ""
    noted = note_action(meta.annotations, verb, by, now, revision=found.subject.revision, detail=detail)
    cause: Annotations = {CAUSE_ANNOTATION: (back.cause if back is not None else "") or None}
    if found.template is None:
        return (Noted(found.subject.kind, meta.name, meta.uid, {**cause, **noted}),)
    own = Noted(found.subject.kind, meta.name, meta.uid, noted)
    return (Noted(found.template.kind, found.template.name, "", cause), own)


async def write_down(client: Client, namespace: str, records: Sequence[Noted]) -> str:
    """Write down who did what is done. Return what to say if that does not work: it undoes nothing."""
    for each in records:
        try:
            await client.patch(each.kind.untyped(), each.name, each.patch, namespace)
        except ApiError as error:
            return f"who did it, and why, could not be written down: {error}"
    return ""
