"""What a template finds of one object, and what enforcing would do about it.

A finding is made from what is there, and completed by what the server says to the write that would mend it: whether it
would change anything at all, into what, or why it would be refused. Informing and enforcing share all of this, so what
is announced is what would be done.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.times import parse_time
from echelon.engine.configuration_policy.comparison import compare, desired_content
from echelon.engine.configuration_policy.requests import Cause, Refusal
from echelon.engine.configuration_policy.templates import Must, Template
from echelon.engine.merge_patch import merge_difference
from echelon.engine.plan import Create, Delete, Patch
from echelon.engine.work.redaction import redact_secrets
from echelon.engine.work.updating import same_content

_SERVERS_METADATA = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")


class State(Enum):
    """How an object stands to what a template asks for."""

    MATCHES = "matches"
    MISSING = "missing"
    DIFFERS = "differs"
    STATUS_DIFFERS = "status differs"  # and nothing else, so there is nothing to write
    UNWANTED = "unwanted"
    ENDING = "ending"  # unwanted, and already asked to go
    ABSENT = "absent"  # as it should be


@dataclass(frozen=True)
class Target:
    """An object that a template is about, whether it exists or not."""

    template: Template
    kind: Kind[Any]
    namespace: str
    name: str


@dataclass(frozen=True)
class Finding:
    """What was found of an object.

    `base` is the object as the templates before this one would leave it, `live` as the server has it now. `fix` is the
    write that would mend it, and `after` what that leads to as far as one knows.
    """

    target: Target
    state: State
    live: JSONObject | None = None
    base: JSONObject | None = None
    fix: Create | Patch | Delete | None = None
    after: JSONObject | None = None
    doubt_only: bool = False
    status_differs: bool = False
    matches_after_dry_run: bool = False
    refusal: str = ""  # why the server would not let it be mended
    in_time: bool = False  # of one that ends: it still may

    @property
    def must_ask(self) -> bool:
        """Whether only the server knows what there is to mend."""
        return isinstance(self.fix, Patch) or (isinstance(self.fix, Create) and self.base is not None)

    @property
    def can_ask(self) -> bool:
        """Whether the server can say what the fix would lead to."""
        return isinstance(self.fix, Patch) or (isinstance(self.fix, Create) and self.live is None)

    @property
    def wants_replacement(self) -> bool:
        """Whether the template wants the object replaced rather than updated, which nobody here does."""
        return self.state is State.DIFFERS and self.target.template.recreate == "Always"

    @property
    def is_mendable(self) -> bool:
        """Whether enforcing changes the object."""
        return self.fix is not None and not self.wants_replacement

    @property
    def change(self) -> str:
        """What the fix does to the object, as the templates before this one leave it."""
        if isinstance(self.fix, Delete):
            return "Delete"
        return "Create" if self.base is None else "Update"


def inspect(target: Target, live: JSONObject | None, base: JSONObject | None, now: datetime) -> Finding:
    """Compare an object with what a template asks for it. Raises `TooMuchEffort`."""
    template = target.template
    if template.must is Must.NOT_HAVE:
        return _unwanted(target, live, base, now)
    if base is None:
        body = _new_object(target)
        fix, to_come = Create(target.kind, body, target.namespace), "status" in template.definition
        return Finding(target, State.MISSING, live, fix=fix, after=body, status_differs=to_come)
    found = compare(template, base)
    if not found.differs and not found.doubt:
        state = State.STATUS_DIFFERS if found.status_differs else State.MATCHES
        return Finding(target, state, live, base, after=base, status_differs=found.status_differs)
    return Finding(
        target,
        State.DIFFERS,
        live,
        base,
        fix=_update(target, live, found.wanted),
        after=found.wanted,
        doubt_only=not found.differs,
        status_differs=found.status_differs,
    )


def answered(finding: Finding, answer: JSONObject | Refusal) -> Finding:
    """Complete a finding by what the server says to its fix."""
    if isinstance(answer, Refusal):
        # What the server cannot be asked, and a namespace that the policy itself is yet to make, prove nothing.
        if answer.cause is Cause.NO_DRY_RUN or (answer.cause is Cause.NOT_FOUND and isinstance(finding.fix, Create)):
            return _settled(finding) if finding.doubt_only else finding
        return replace(finding, fix=None, after=finding.base, refusal=told(finding, answer.message))
    if finding.base is not None and same_content(finding.base, _as_seen(answer, finding.base)):
        return replace(_settled(finding), matches_after_dry_run=True)
    return replace(finding, after=answer)


def told(finding: Finding, words: str) -> str:
    """Return what a server said, without the data of Secrets."""
    for known in (finding.target.template.definition, finding.live or {}, finding.after or {}):
        words = redact_secrets(words, {**known, **finding.target.kind.type_meta})
    return words


def _settled(finding: Finding) -> Finding:
    """Return a finding of which there is nothing to mend."""
    state = State.STATUS_DIFFERS if finding.status_differs else State.MATCHES
    return replace(finding, state=state, fix=None, after=finding.base)


def _as_seen(answer: JSONObject, base: JSONObject) -> JSONObject:
    """Return what a server would make of an object, as if it were the object: one that is to be made has no uid yet."""
    return {**answer, "metadata": {**answer["metadata"], "uid": base["metadata"].get("uid")}}


def _unwanted(target: Target, live: JSONObject | None, base: JSONObject | None, now: datetime) -> Finding:
    if base is None:
        return Finding(target, State.ABSENT, live)
    metadata = live["metadata"] if live is not None else {}
    if end := parse_time(metadata.get("deletionTimestamp")):
        return Finding(target, State.ENDING, live, base, after=base, in_time=end > now)
    fix = Delete(
        target.kind, target.name, target.namespace, metadata.get("uid", ""), metadata.get("resourceVersion", "")
    )
    return Finding(target, State.UNWANTED, live, base, fix=fix)


def _update(target: Target, live: JSONObject | None, wanted: JSONObject) -> Create | Patch:
    if live is None:
        return Create(target.kind, wanted, target.namespace)
    metadata = live["metadata"]
    uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    return Patch(target.kind, target.name, merge_difference(live, wanted), target.namespace, uid, version)


def _new_object(target: Target) -> JSONObject:
    """Return the object that a definition describes, in its place, without what is for others to say."""
    content = desired_content(target.template)
    stated = content.get("metadata") or {}
    refused = (*_SERVERS_METADATA, "namespace")
    metadata = {key: value for key, value in stated.items() if key not in refused and value is not None}
    metadata["name"] = target.name
    if target.kind.namespaced:
        metadata["namespace"] = target.namespace
    return {**{key: value for key, value in content.items() if key != "status"}, "metadata": metadata}
