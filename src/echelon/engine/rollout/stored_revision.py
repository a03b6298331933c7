"""A revision as it is stored: a ControllerRevision that the rolled out object owns.

Its data has the part of the object's spec that is rolled out, as the user gave it. Its labels say whose it is and which
content it has; each kind has its own. Its annotations say what the revision has gone through.

Others may write such objects, too. One that says what cannot be is worth nothing, and must not stop anything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import ControllerRevision
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.api.versions import newer

COMPLETED_ANNOTATION = "echelon.dev/completed-at"  # when it had reached every cluster
# With the number that it had then: an old revision that is wanted again goes through all of it anew.
COMPLETED_NUMBER_ANNOTATION = "echelon.dev/completed-number"
PASSED_ANNOTATION = "echelon.dev/completed-groups"  # which named groups have had it, all of them
STOPPED_ANNOTATION = "echelon.dev/stopped-at"  # when too many clusters failed, where that is final
GENERATION_ANNOTATION = "echelon.dev/set-generation"  # since which generation of its object it is wanted
CAUSE_ANNOTATION = "kubernetes.io/change-cause"  # why, in the words of whoever changed the object, as Kubernetes has it
_LONGEST_CAUSE = 1000  # characters; a history is read, and revisions are many
_DIGITS = 18  # of a generation; none has more
# One a second for thirty years. What is numbered higher was not numbered by us, and leaves no number to go on with.
HIGHEST_NUMBER = 1_000_000_000


@dataclass(frozen=True)
class StoredRevision:
    """A stored content."""

    name: str
    uid: str
    version: str
    number: int
    revision: str  # the hash of its content
    completed: str
    content: JSONObject | None  # the fields of the spec that are rolled out; None if they cannot be read
    generation: int = 0  # of the object, when this became its content
    owner: str = ""  # the uid of the object that owns it
    completed_number: str = ""  # the number that it had when it was completed
    passed: str = ""  # as its annotations say, with the number that it had then
    stopped: str = ""
    strange: str = ""  # what it says and cannot be
    created: str = ""
    cause: str = ""  # why it is wanted
    secrets_lost: bool = False  # it has no content because nobody knows any more what the Secrets in it held


def read_revision(stored: ControllerRevision, hash_label: str) -> StoredRevision:
    """Read a stored revision; the label says which content it has."""
    meta = stored.metadata
    content = (stored.data or {}).get("spec")
    generation = meta.annotations.get(GENERATION_ANNOTATION, "")
    return StoredRevision(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        number=stored.revision,
        revision=meta.labels.get(hash_label, ""),
        completed=meta.annotations.get(COMPLETED_ANNOTATION, ""),
        content=content if isinstance(content, dict) else None,
        generation=int(generation) if generation.isdecimal() and len(generation) <= _DIGITS else 0,
        owner=next((each.uid for each in meta.owner_references if each.controller), ""),
        completed_number=meta.annotations.get(COMPLETED_NUMBER_ANNOTATION, ""),
        passed=meta.annotations.get(PASSED_ANNOTATION, ""),
        stopped=meta.annotations.get(STOPPED_ANNOTATION, ""),
        created=meta.creation_timestamp or "",
        cause=meta.annotations.get(CAUSE_ANNOTATION, ""),
    )


def cause_of(annotations: Mapping[str, Any]) -> str:
    """Return why the content of an object is wanted, as far as it is kept with its revision."""
    return str(annotations.get(CAUSE_ANNOTATION) or "")[:_LONGEST_CAUSE]


def is_revision_of(stored: ControllerRevision, kind: Kind[Any], meta: ObjectMeta) -> bool:
    """Whether a revision with the label of an object is its own, or was that of an earlier object of the name."""
    owner = next((each for each in stored.metadata.owner_references if each.controller), None)
    if owner is None:
        return True
    return owner.uid == meta.uid or (owner.kind, owner.name) == (kind.kind, meta.name)


def believed_revisions(
    stored: Iterable[StoredRevision], *, owner: str, generation: int, known: str, objects: str
) -> tuple[StoredRevision, ...]:
    """Return revisions as far as they can be believed, by the object with the uid `owner` in its present `generation`.

    `known`: up to which version the object's content is known; `objects`: up to which version it is known which objects
    there are. One that was let go after that may have been let go by the end of the object, and does not count.
    """
    return tuple(
        _plausible(each, generation, known)
        for each in stored
        if each.owner == owner or not newer(each.version, objects)
    )


def _plausible(revision: StoredRevision, generation: int, known: str) -> StoredRevision:
    if revision.number > HIGHEST_NUMBER:
        strange = f"it has the number {revision.number}, which is none of ours"
        return replace(revision, number=0, generation=0, completed="", passed="", stopped="", strange=strange)
    # Whoever stored it later than all that is known here may have seen a generation that is not known here.
    if revision.generation > generation and not newer(revision.version, known):
        strange = f"it says that it is of generation {revision.generation}, and there is none after {generation}"
        return replace(revision, generation=0, strange=strange)
    return revision
