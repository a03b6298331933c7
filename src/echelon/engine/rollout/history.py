"""The stored revisions of an object: which to add, to renumber and to forget, and which one to go back to."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.times import parse_time
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.rollout.milestones import NO_MILESTONES, Milestones, read_milestones
from echelon.engine.rollout.secret_data import without_secrets
from echelon.engine.rollout.stored_revision import CAUSE_ANNOTATION, GENERATION_ANNOTATION, StoredRevision
from echelon.engine.rollout.subject import Subject

LIMIT = 10  # revisions that are kept


@dataclass(frozen=True)
class RevisionHistory:
    """The stored revisions, as seen from the content that is wanted now."""

    present: StoredRevision | None
    number: int  # that the present one is to have: its own only if no other is higher
    generation: int  # of the object, as of the newest one
    completed: StoredRevision | None  # what to go back to: of the others that reached every cluster, the last to do so
    obsolete: tuple[StoredRevision, ...]  # the oldest; the present one and those to go back to stay, and count
    milestones: Milestones = NO_MILESTONES  # of the present one


def load(
    revisions: Sequence[StoredRevision],
    revision: str,
    limit: int | None = None,
    owner: str = "",
    in_use: Collection[str] = (),
) -> RevisionHistory:
    """Look back from a revision of the object with the uid `owner`; what is `in_use` stays, however old it is."""
    stored = {each.revision: each for each in revisions}
    present = stored.get(revision)
    others = [each for each in stored.values() if each is not present]
    highest = max((each.number for each in others), default=0)
    number = present.number if present is not None and present.number > highest else highest + 1
    done = [
        (completed, each.number, each)
        for each in others
        if each.content is not None and (completed := parse_time(each.completed)) is not None
    ]
    _, _, back = max(done, key=itemgetter(0, 1), default=(None, 0, None))
    spare = sorted(
        (each for each in others if each is not back and each.revision not in in_use), key=attrgetter("number")
    )
    surplus = max(len(stored) - (LIMIT if limit is None else limit), 0)
    newest = max((each.generation for each in revisions if each.owner == owner), default=0)
    return RevisionHistory(present, number, newest, back, tuple(spare[:surplus]), read_milestones(present, number))


def store(subject: Subject, history: RevisionHistory) -> tuple[Write, ...]:
    """Return what makes the present content the newest revision, if it is not, and all revisions the object's own.

    An object that was deleted and left its revisions behind, and was made again, finds them under the names that it
    would give: they are its past.
    """
    meta = subject.metadata
    owner = {**subject.kind.owner_reference(meta.name, meta.uid), "controller": True}
    owned = {"ownerReferences": [owner]}
    numbered: dict[str, object] = {GENERATION_ANNOTATION: str(meta.generation)}
    cause: dict[str, object] = {CAUSE_ANNOTATION: subject.cause or None}
    writes: list[Write] = [
        _patch(each, meta.namespace, {"metadata": {"annotations": {GENERATION_ANNOTATION: None}, **owned}})
        for each in subject.revisions
        if each.owner != meta.uid and each is not history.present
    ]
    if history.present is None:
        body = {
            **CONTROLLER_REVISION.type_meta,
            "metadata": {
                "name": f"{meta.name}-{subject.revision}",
                "namespace": meta.namespace,
                "labels": dict(subject.revision_labels),
                "annotations": numbered | (cause if subject.cause else {}),
                **owned,
            },
            "data": {"spec": without_secrets(subject.content)[0]},
            "revision": history.number,
        }
        writes.append(Create(CONTROLLER_REVISION, body, meta.namespace))
    elif history.present.number != history.number or history.present.owner != meta.uid:
        change = {"metadata": {"annotations": numbered | cause, **owned}, "revision": history.number}
        writes.append(_patch(history.present, meta.namespace, change))
    elif history.present.cause != subject.cause:  # it is often told only after the change, as with kubectl annotate
        writes.append(_patch(history.present, meta.namespace, {"metadata": {"annotations": cause}}))
    return tuple(writes)


def note(revision: StoredRevision, namespace: str, notes: dict[str, str]) -> Write:
    """Return what notes on a revision what it has gone through."""
    return _patch(revision, namespace, {"metadata": {"annotations": notes}})


def prune(history: RevisionHistory, namespace: str) -> tuple[Write, ...]:
    """Return the deletions of what is no longer kept."""
    return tuple(Delete(CONTROLLER_REVISION, each.name, namespace, uid=each.uid) for each in history.obsolete)


def rollback_patch(revision: StoredRevision) -> list[JSONObject]:
    """Return the JSON patch that makes a stored content the wanted one; nothing else of the spec changes."""
    content = revision.content or {}
    return [{"op": "add", "path": f"/spec/{field}", "value": value} for field, value in content.items()]


def _patch(revision: StoredRevision, namespace: str, body: dict[str, object]) -> Patch:
    return Patch(
        CONTROLLER_REVISION,
        revision.name,
        body,
        namespace,
        uid=revision.uid,
        resource_version=revision.version,
    )
