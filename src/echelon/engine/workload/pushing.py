"""Whether a cluster may be given what a work says: whose the object is, and the fence against older pushes.

Budgets are counted push by push, so a member must never go back to an earlier one, whatever an agent's cache shows and
whichever backup a hub was restored from. An object carries the id of its push and the uid of the binding that the id is
of; a push whose id is lower, or the same with another content, is fenced off. Each push is one write, for the version
of the object that was read: if somebody else writes in between, it fails and everything is looked at again.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.engine.align.budgets import BadStrategy, resolve_budgets
from echelon.engine.align.grant import Grant
from echelon.engine.align.interpreters import Interpreter, interpreter_of
from echelon.engine.rollout.revision import revision_of
from echelon.engine.work.health_state import number, part, text
from echelon.engine.work.order import is_readable
from echelon.engine.work.updating import DesiredObject, LastApplied, lacks_content
from echelon.engine.workload.names import BINDING_UID, CONFLICT_RESOLUTION, MANAGED, PUSH_ID, RETAIN_REPLICAS

PUSH_HASH = "echelon.dev/push-hash"  # of what the push permits: one id stands for one content
FENCED = "Fenced"
FAILED = "AppliedFailed"

_HIGHEST_ID = 1 << 53
_NOBODY: JSONObject = {"uid": ""}
# What a manifest may say of an object's identity; the rest is for the server to give.
_METADATA = ("name", "namespace", "annotations")


class BadWork(ValueError):
    """A work whose manifest cannot be applied, whoever tries; `push_id` is the push that it carries."""

    def __init__(self, why: str, push_id: int | None = None) -> None:
        super().__init__(why)
        self.push_id = push_id


@dataclass(frozen=True, slots=True)
class Push:
    """A manifest, as it is to be on the cluster. Without an id it is passed through, and nothing is fenced.

    `content` is a hash of what it permits, `template` one of its pod template.
    """

    manifest: JSONObject
    interpreter: Interpreter | None = None
    id: int | None = None
    binding: str = ""
    content: str = ""
    template: str = ""

    @property
    def keeps_replicas(self) -> bool:
        """Whether the member owns the number of replicas."""
        meta = part(self.manifest, "metadata")
        return "true" in (text(part(meta, "labels"), RETAIN_REPLICAS), text(part(meta, "annotations"), RETAIN_REPLICAS))

    @property
    def overwrites(self) -> bool:
        """Whether an object that is there and not ours is taken over."""
        return text(part(self.manifest, "metadata", "annotations"), CONFLICT_RESOLUTION).lower() == "overwrite"


@dataclass(frozen=True, slots=True)
class WriteObject:
    """The object is to be written: by server-side apply, for the version that was looked at."""

    body: JSONObject


@dataclass(frozen=True, slots=True)
class Keep:
    """The object is as the work says."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing is to be written. `refused`: nobody will ever act on this push, so its budget is free again."""

    reason: str
    message: str
    refused: bool = False
    ours: bool = False  # the object is what an earlier push of the same binding made of it


Decision: TypeAlias = WriteObject | Keep | Hold
KEEP = Keep()


def read_push(manifests: list[Any]) -> Push:
    """Read what a work is to bring to its cluster. Raises BadWork."""
    if len(manifests) != 1:
        raise BadWork(f"it has {len(manifests)} manifests, and must have one")
    manifest = manifests[0]
    if not is_readable(manifest):
        raise BadWork("its manifest has no apiVersion, kind or metadata.name")
    meta = part(manifest, "metadata")
    if not isinstance(meta.get("namespace", ""), str):
        raise BadWork("metadata.namespace of its manifest is no text")
    for name in ("labels", "annotations"):
        if not isinstance(meta.get(name) or {}, dict):
            raise BadWork(f"metadata.{name} of its manifest is no object")
    annotations = part(manifest, "metadata", "annotations")
    if PUSH_ID not in annotations:
        return Push(manifest, binding=text(annotations, BINDING_UID))
    said = text(annotations, PUSH_ID)
    pushed, interpreter = _number(said), interpreter_of(manifest)
    if pushed is None:
        raise BadWork(f"the annotation {PUSH_ID} of its manifest is {said[:32]!r}, and must be a number")
    if interpreter is None:
        why = f"its manifest carries a push, and {manifest['kind']} of {manifest['apiVersion']} is not aligned"
        raise BadWork(why, pushed)
    try:
        template = interpreter.template_hash(manifest)
        content = _content_hash(manifest, interpreter, template)
    except RecursionError as error:
        raise BadWork("its manifest is nested too deeply", pushed) from error
    return Push(manifest, interpreter, pushed, text(annotations, BINDING_UID), content, template)


def decide(
    push: Push, kind: Kind[Any], live: JSONObject | None, *, last: LastApplied | None = None, at_least: int = 0
) -> Decision:
    """Decide what is to be done about an object.

    `last` is what the server made of the manifest the last time, `at_least` the highest push of the binding that was
    written so far.
    """
    if push.id is not None and push.id < at_least:
        return Hold(FENCED, f"push {push.id} is older than push {at_least}, which the cluster has had", ours=True)
    if live is None:
        return WriteObject(body_of(push, kind))
    meta = part(live, "metadata")
    if "deletionTimestamp" in meta:
        return Hold(FAILED, "the object on the cluster is being deleted", ours=is_of_binding(live, push))
    annotations = part(meta, "annotations")
    if not is_managed(live) and not push.overwrites:
        why = "an object of that name is there, and not managed by a binding; conflictResolution is Abort"
        return Hold(FAILED, why, refused=push.id is not None)
    fenced = _fenced(push, annotations) if text(annotations, BINDING_UID) == push.binding else None
    if fenced is not None:
        return fenced
    body = body_of(push, kind, live)
    desired = DesiredObject(kind, body, text(meta, "namespace"), _NOBODY, owned_by_work=False)
    return WriteObject({**body, "metadata": _for_version(body, live)}) if lacks_content(desired, live, last) else KEEP


def body_of(push: Push, kind: Kind[Any], live: JSONObject | None = None) -> JSONObject:
    """Return the manifest as it is sent, for an object that may be there."""
    manifest, stated = push.manifest, part(push.manifest, "metadata")
    metadata = {name: stated[name] for name in _METADATA if name in stated}
    metadata["labels"] = {**part(stated, "labels"), MANAGED: "true"}
    if not kind.namespaced:
        metadata.pop("namespace", None)
    elif not metadata.get("namespace"):
        metadata["namespace"] = "default"
    if push.id is not None:
        metadata["annotations"] = {**part(stated, "annotations"), PUSH_HASH: push.content}
    body = {name: value for name, value in manifest.items() if name not in ("metadata", "status")}
    replicas = part(live, "spec").get("replicas") if live is not None else None
    if push.keeps_replicas and replicas is not None and "spec" in body:
        # It is said and not left out: what nobody says any more, a server fills in with one.
        body["spec"] = {**part(body, "spec"), "replicas": replicas}
    return {**body, "metadata": metadata}


def is_managed(live: JSONObject) -> bool:
    """Tell whether an object was brought by a binding."""
    return text(part(live, "metadata", "labels"), MANAGED) == "true"


def is_of_binding(live: JSONObject, push: Push) -> bool:
    """Tell whether an object is there for the binding of a push, so that it goes when that goes."""
    return is_managed(live) and text(part(live, "metadata", "annotations"), BINDING_UID) == push.binding


def carried_push(live: JSONObject) -> int | None:
    """Return the id of the push that an object carries."""
    return _number(text(part(live, "metadata", "annotations"), PUSH_ID))


def drift_of(push: Push, live: JSONObject, template: str | None) -> Grant | None:
    """Return what an object permits, where that is not what its push does; None if it is.

    `template` is the hash of the template that the server had made of the push; the template counts as unchanged if it
    is not known.
    """
    interpreter, carried = push.interpreter, carried_push(live)
    if interpreter is None or push.id is None or carried != push.id:
        return None
    found = interpreter.template_hash(live)
    revision = push.template if template is None or template == found else found
    replicas = number(part(live, "spec"), "replicas", 1) if push.keeps_replicas else None
    asked = permitted(push.manifest, interpreter, push.id, push.template, replicas=replicas)
    has = permitted(live, interpreter, push.id, revision)
    return None if has == asked else has


def permitted(
    obj: JSONObject, interpreter: Interpreter, push_id: int, revision: str, *, replicas: int | None = None
) -> Grant:
    """Return what the spec of an object permits, with its percentages resolved. What makes no sense permits all."""
    wanted = max(0, number(part(obj, "spec"), "replicas", 1)) if replicas is None else replicas
    try:
        strategy = interpreter.get_rolling_strategy(obj)
        if strategy is None:  # Recreate, OnDelete
            return Grant(push_id, revision, wanted, unavailable=wanted)
        found = resolve_budgets(strategy, interpreter.contract, wanted)
    except BadStrategy:
        return Grant(push_id, revision, wanted, unavailable=wanted, surge=wanted)
    return Grant(push_id, revision, wanted, found.unavailable, found.surge, found.partition, strategy.paused)


def _fenced(push: Push, annotations: JSONObject) -> Hold | None:
    carried, content, wanted = _number(text(annotations, PUSH_ID)), text(annotations, PUSH_HASH), push.id
    if carried is None or wanted is None or wanted > carried:
        return None
    if wanted < carried:
        return Hold(FENCED, f"the object carries push {carried}, and push {wanted} is older", ours=True)
    if content and content != push.content:
        return Hold(FENCED, f"the object carries push {carried} with another content", ours=True)
    return None


def _content_hash(manifest: JSONObject, interpreter: Interpreter, template: str) -> str:
    strategy = interpreter.get_rolling_strategy(manifest)
    said = (
        None
        if strategy is None
        else [strategy.paused, strategy.partition, strategy.max_unavailable, strategy.max_surge]
    )
    return revision_of([template, part(manifest, "spec").get("replicas"), said])


def _number(said: str) -> int | None:
    """Read the id of a push; None for what is none."""
    short = said.isascii() and said.isdecimal() and len(said) <= len(str(_HIGHEST_ID))
    return int(said) if short and int(said) < _HIGHEST_ID else None


def _for_version(body: JSONObject, live: JSONObject) -> JSONObject:
    return {**part(body, "metadata"), "resourceVersion": text(part(live, "metadata"), "resourceVersion")}
