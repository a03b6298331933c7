"""The stored revisions of an object: which to add, to renumber and to forget, and which one to go back to."""

from collections.abc import Sequence
from dataclasses import dataclass

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.times import parse_time
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.rollout.milestones import NO_MILESTONES, Milestones, read_milestones
from echelon.engine.rollout.revision import LIMIT, History, Revision
from echelon.engine.rollout.stored_revision import GENERATION_ANNOTATION, StoredRevision
from echelon.engine.rollout.subject import Subject


@dataclass(frozen=True)
class RevisionHistory:
    """The stored revisions, as seen from the content that is wanted now."""

    present: StoredRevision | None
    number: int  # that the present one is to have
    generation: int  # of the object, as of the newest one
    completed: StoredRevision | None  # what to go back to
    obsolete: tuple[StoredRevision, ...]
    milestones: Milestones = NO_MILESTONES  # of the present one


def load(
    revisions: Sequence[StoredRevision], revision: str, limit: int | None = None, owner: str = ""
) -> RevisionHistory:
    """Look back from a revision of the object with the uid `owner`."""
    stored = {each.revision: each for each in revisions}
    kept = tuple(
        Revision(each.number, each.revision, parse_time(each.completed) if each.content is not None else None)
        for each in stored.values()
    )
    known = History(revision, kept)
    done = known.last_completed
    obsolete = tuple(stored[each.hash] for each in known.obsolete(LIMIT if limit is None else limit))
    newest = max((each.generation for each in revisions if each.owner == owner), default=0)
    present = stored.get(revision)
    return RevisionHistory(
        present,
        known.number,
        newest,
        stored[done.hash] if done is not None else None,
        obsolete,
        read_milestones(present, known.number),
    )


def store(subject: Subject, history: RevisionHistory) -> tuple[Write, ...]:
    """Return what makes the present content the newest revision, if it is not, and all revisions the object's own.

    An object that was deleted and left its revisions behind, and was made again, finds them under the names that it
    would give: they are its past.
    """
    meta = subject.metadata
    owned = {"ownerReferences": [_owner(subject)]}
    numbered = {GENERATION_ANNOTATION: str(meta.generation)}
    writes: list[Write] = [
        _patch(each, meta.namespace, {"metadata": {"annotations": {GENERATION_ANNOTATION: None}, **owned}})
        for each in subject.revisions
        if each.owner != meta.uid and each is not history.present
    ]
    if history.present is None:
        body = {
            "apiVersion": CONTROLLER_REVISION.api_version,
            "kind": CONTROLLER_REVISION.kind,
            "metadata": {
                "name": f"{meta.name}-{subject.revision}",
                "namespace": meta.namespace,
                "labels": dict(subject.revision_labels),
                "annotations": numbered,
                **owned,
            },
            "data": {"spec": subject.content},
            "revision": history.number,
        }
        writes.append(Create(CONTROLLER_REVISION, body, meta.namespace))
    elif history.present.number != history.number or history.present.owner != meta.uid:
        change = {"metadata": {"annotations": numbered, **owned}, "revision": history.number}
        writes.append(_patch(history.present, meta.namespace, change))
    return tuple(writes)


def _owner(subject: Subject) -> JSONObject:
    return {
        "apiVersion": subject.kind.api_version,
        "kind": subject.kind.kind,
        "name": subject.metadata.name,
        "uid": subject.metadata.uid,
        "controller": True,
    }


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
