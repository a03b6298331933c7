"""The stored templates of a work set: which to add, to renumber and to forget, and which one an abort goes back to."""

from collections.abc import Sequence
from dataclasses import dataclass

from echelon.api.apps import CONTROLLER_REVISION
from echelon.api.base import JSONObject
from echelon.api.times import parse_time
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.rollout.revision import LIMIT, History, Revision
from echelon.engine.work_set.content import Content
from echelon.engine.work_set.milestones import NO_MILESTONES, Milestones, read_milestones
from echelon.engine.work_set.names import GENERATION_ANNOTATION, HASH_LABEL, SET_LABEL
from echelon.engine.work_set.view import RevisionView, WorkSet


@dataclass(frozen=True)
class Past:
    """The revisions of a set, as seen from its present template."""

    present: RevisionView | None
    number: int  # that the present one is to have
    generation: int  # of the set, as of the newest one
    completed: RevisionView | None  # what to go back to
    obsolete: tuple[RevisionView, ...]
    milestones: Milestones = NO_MILESTONES  # of the present one


def recall(revisions: Sequence[RevisionView], digest: str, limit: int | None, owner: str = "") -> Past:
    """Look back from a template of the set with the uid `owner`."""
    stored = {each.revision: each for each in revisions}
    kept = tuple(
        Revision(each.number, each.revision, parse_time(each.completed) if each.template is not None else None)
        for each in stored.values()
    )
    known = History(digest, kept)
    done = known.last_completed
    obsolete = tuple(stored[each.hash] for each in known.obsolete(LIMIT if limit is None else limit))
    newest = max((each.generation for each in revisions if each.owner == owner), default=0)
    present = stored.get(digest)
    return Past(
        present,
        known.number,
        newest,
        stored[done.hash] if done is not None else None,
        obsolete,
        read_milestones(present, known.number),
    )


def store(
    work_set: WorkSet, content: Content, revisions: Sequence[RevisionView], past: Past, label: str
) -> tuple[Write, ...]:
    """Return what makes the present template the newest revision, if it is not, and all revisions the set's own.

    A set that was deleted and left its revisions behind, and was made again, finds them under the names that it would
    give: they are its past.
    """
    meta = work_set.metadata
    owned = {"ownerReferences": [_owner(work_set)]}
    numbered = {GENERATION_ANNOTATION: str(meta.generation)}
    writes: list[Write] = [
        _patch(each, meta.namespace, {"metadata": {"annotations": {GENERATION_ANNOTATION: None}, **owned}})
        for each in revisions
        if each.owner != meta.uid and each is not past.present
    ]
    if past.present is None:
        body = {
            "apiVersion": CONTROLLER_REVISION.api_version,
            "kind": CONTROLLER_REVISION.kind,
            "metadata": {
                "name": f"{meta.name}-{content.digest}",
                "namespace": meta.namespace,
                "labels": {HASH_LABEL: content.digest, SET_LABEL: label},
                "annotations": numbered,
                **owned,
            },
            "data": {"spec": {"manifestWorkTemplate": content.template}},
            "revision": past.number,
        }
        writes.append(Create(CONTROLLER_REVISION, body, meta.namespace))
    elif past.present.number != past.number or past.present.owner != meta.uid:
        change = {"metadata": {"annotations": numbered, **owned}, "revision": past.number}
        writes.append(_patch(past.present, meta.namespace, change))
    return tuple(writes)


def _owner(work_set: WorkSet) -> JSONObject:
    return {
        "apiVersion": MANIFEST_WORK_REPLICA_SET.api_version,
        "kind": MANIFEST_WORK_REPLICA_SET.kind,
        "name": work_set.metadata.name,
        "uid": work_set.metadata.uid,
        "controller": True,
    }


def note(revision: RevisionView, namespace: str, notes: dict[str, str]) -> Write:
    """Return what notes on a revision what it has gone through."""
    return _patch(revision, namespace, {"metadata": {"annotations": notes}})


def forget(past: Past, namespace: str) -> tuple[Write, ...]:
    """Return the deletions of what is no longer kept."""
    return tuple(Delete(CONTROLLER_REVISION, each.name, namespace, uid=each.uid) for each in past.obsolete)


def _patch(revision: RevisionView, namespace: str, body: dict[str, object]) -> Patch:
    return Patch(
        CONTROLLER_REVISION,
        revision.name,
        body,
        namespace,
        uid=revision.uid,
        resource_version=revision.version,
    )
