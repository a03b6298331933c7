"""What an object passes before it is stored: is it what the request says, is it complete, is it allowed here.

The order is that of Kubernetes, because the first refusal is the one that the user reads.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from echelon.api.base import JSONObject
from echelon.hub.access.identity import User
from echelon.hub.catalogue.resources import Resource
from echelon.hub.cluster import LogicalCluster
from echelon.hub.kinds.builtin import strategy_of
from echelon.hub.schema import metadata
from echelon.hub.schema.structural import Structural
from echelon.hub.storage.store import Entry, Key
from echelon.hub.verbs import custom
from echelon.kube import errors

T = TypeVar("T")

# CustomResourceDefinitions are checked like the resources that they define.
_WITHOUT_FINALIZER_RULE = "apiextensions.k8s.io"
# What is done with an object as a whole takes up to 1.5 s for each MiB: 25 ms for one of this size.
AT_ONCE: Final = 16 * 1024


class Target(msgspec.Struct, frozen=True):
    """What a write is aimed at."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """Where the object is stored."""
        return Key(self.resource.stored_as, self.namespace, self.name)


class Request(msgspec.Struct, frozen=True):
    """Who writes, and how."""

    user: User
    dry_run: bool = False
    field_manager: str = "unknown"
    field_validation: str = "Warn"
    warnings: list[str] = msgspec.field(default_factory=list)  # for the answer's Warning headers
    duplicate_fields: tuple[str, ...] = ()  # what the decoder found given twice
    annotations: dict[str, str] = msgspec.field(default_factory=dict)  # for the audit log
    size: int = 0  # bytes of what was sent
    # Does what takes long beside the event loop. Without it, as under virtual time, everything is done in one step.
    beside: Callable[[Callable[[], Any]], Awaitable[Any]] | None = None

    def takes_long(self, old: Entry | None = None) -> bool:
        """Whether others are to be served while an object is looked at: it is large, or the one before it was."""
        return self.beside is not None and (self.size > AT_ONCE or (old is not None and old.size > AT_ONCE))

    async def at_length(self, work: Callable[[], T], old: Entry | None = None, *, long: bool = False) -> T:
        """Look at a whole object, or several; of what the event loop changes, `work` must see nothing."""
        if self.beside is None or not (long or self.takes_long(old)):
            return work()
        done: T = await self.beside(work)
        return done


class Undecodable(errors.BadRequest):
    """The body is none of its kind."""


def admit_body(
    resource: Resource, body: object, request: Request, *, admitted: JSONObject | None = None, anew: bool = False
) -> JSONObject:
    """Return a private copy of what the client sent: of the right kind, without unknown fields, with defaults.

    `admitted` is an object that admission would not change. What the body shares with it is taken as it is: a patch
    touches little, and walking through the rest took a tenth of its time. So are parts of new objects that others have
    as well, unless it is looked at `anew`: beside the event loop, which alone knows what others have sent.
    """
    known = resource.known_parts if admitted is None and not resource.kind.builtin and not anew else None
    if known is not None and isinstance(body, dict) and (found := known.recognise(body)):
        body = {**body, **found}
        admitted = {"metadata": {}, **found}
    untouched = _Untouched(body, admitted) if admitted is not None and isinstance(body, dict) else None
    obj, unknown = _decoded(resource, body if untouched is None else untouched.rest())
    findings = [f'duplicate field "{path}"' for path in request.duplicate_fields]
    findings += [f'unknown field "{path}"' for path in unknown]
    if findings and request.field_validation == "Strict":
        raise _undecodable(resource, "strict decoding error: " + ", ".join(findings))
    if request.field_validation != "Ignore":
        request.warnings.extend(findings)
    resource.structural.default(obj)
    fits = not resource.kind.builtin or _fits(obj, resource.kind.type)
    if untouched is not None:
        obj = untouched.with_rest(obj)
    elif known is not None and isinstance(body, dict) and not findings:
        known.admitted(body, obj)
    if not fits:
        # What Kubernetes decodes into a Go type has the right types from then on, and all that follows relies on it.
        _check_types(resource.kind.kind, resource.kind.version, resource.validator.validate(obj))
    return obj


class _Untouched:
    """What a body has in common with an object, and not just equal to it: top-level fields, and those of metadata."""

    def __init__(self, body: JSONObject, admitted: JSONObject) -> None:
        self._body = body
        self._meta = meta if isinstance(meta := body.get("metadata"), dict) else {}
        before = admitted["metadata"]
        self._names = {name for name, value in body.items() if name not in _ABOUT and value is admitted.get(name, body)}
        self._meta_names = {name for name, value in self._meta.items() if value is before.get(name, body)}

    def rest(self) -> JSONObject:
        """Return the body without that."""
        rest = {name: value for name, value in self._body.items() if name not in self._names}
        if self._meta_names:
            rest["metadata"] = {name: value for name, value in self._meta.items() if name not in self._meta_names}
        return rest

    def with_rest(self, rest: JSONObject) -> JSONObject:
        """Return the body again, with what has become of the rest."""
        whole = _together(self._body, self._names, rest)
        if self._meta_names:
            whole["metadata"] = _together(self._meta, self._meta_names, rest["metadata"])
        return whole


def _together(body: JSONObject, untouched: set[str], rest: JSONObject) -> JSONObject:
    """Return fields in the order of the body. The rest may have defaults for what was only taken out of it."""
    order = dict.fromkeys(name for name in body if name in untouched or name in rest)
    return order | rest | {name: body[name] for name in untouched}


# Always looked at: they say whether the rest is what it should be.
_ABOUT = frozenset({"apiVersion", "kind", "metadata"})


def _fits(obj: JSONObject, kind: type) -> bool:
    """Tell quickly whether all fields have the types of their kind."""
    try:
        msgspec.convert(obj, kind)
    except msgspec.ValidationError:
        return False
    return True


def admit_config(resource: Resource, body: JSONObject, request: Request) -> JSONObject:
    """Return a private copy of what a manager wants to apply; nobody could own a field that the schema lacks."""
    kind = resource.kind
    group, _, version = str(body.get("apiVersion") or "").rpartition("/")
    if (body.get("apiVersion"), body.get("kind")) != (kind.api_version, kind.kind):
        raise errors.BadRequest(f"invalid object type: {group}/{version}, Kind={body.get('kind') or ''}")
    obj, unknown = _decoded(resource, body)
    if unknown:
        who = f"/{obj['metadata'].get('name', '')}; {group}/{version}, Kind={kind.kind}"
        why = [f".{path}: field not declared in schema" for path in unknown]
        listed = why[0] if len(why) == 1 else "\n  ".join(["errors:", *why])
        raise errors.BadRequest(f"failed to create typed patch object ({who}): {listed}")
    if request.duplicate_fields and request.field_validation == "Strict":
        listed = ", ".join(f'key "{path}" already set in map' for path in request.duplicate_fields)
        raise errors.BadRequest(f"error strict decoding YAML: {listed}")
    return obj


def _decoded(resource: Resource, body: object) -> tuple[JSONObject, list[str]]:
    kind = resource.kind
    if not isinstance(body, dict):
        raise errors.BadRequest(
            f"the object provided is unrecognized (must be of type {kind.kind}): expected an object"
        )
    _check_kind(resource, body)
    obj: JSONObject
    obj, unknown = resource.structural.prune(body)
    obj |= {"apiVersion": kind.api_version, "kind": kind.kind}
    metadata.check_shape(obj)
    obj["metadata"] = {name: value for name, value in (obj.get("metadata") or {}).items() if value is not None}
    return obj, unknown


def _check_kind(resource: Resource, body: JSONObject) -> None:
    kind = resource.kind
    # Go clients leave out the type of what they send to an address that can only mean one.
    api_version = body.get("apiVersion") or (kind.api_version if kind.builtin else "")
    named = body.get("kind") or (kind.kind if kind.builtin else "")
    if not named:
        raise errors.BadRequest("Object 'Kind' is missing in the request body")
    if api_version != kind.api_version:
        raise errors.BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version ({kind.api_version})"
        )
    if named != kind.kind:
        raise _undecodable(resource, f"converting ({named}) to ({kind.kind}): unknown conversion")


def _undecodable(resource: Resource, why: str) -> Undecodable:
    kind = resource.kind
    return Undecodable(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')


def readable(structural: Structural, kind: str, version: str, body: object) -> JSONObject:
    """Return a body that is answered and not stored, without nulls, if its fields have the types of its kind."""
    if not isinstance(body, dict):
        raise errors.BadRequest(f"the object provided is unrecognized (must be of type {kind}): expected an object")
    obj: JSONObject = structural.prune(body)[0]
    _check_types(kind, version, structural.validate(obj))
    return obj


def _check_types(kind: str, version: str, causes: Iterable[errors.Cause]) -> None:
    mistyped = next((cause for cause in causes if cause.reason == "FieldValueTypeInvalid"), None)
    if mistyped:
        why = f"json: cannot unmarshal {mistyped}"
        raise Undecodable(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def check_name(target: Target, obj: JSONObject) -> None:
    """Hold the name in the body against the one in the address."""
    name = obj["metadata"].get("name") or ""
    if not name:
        text = f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        raise errors.BadRequest(text)
    if name != target.name:
        text = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise errors.BadRequest(text)


def check_namespace(target: Target, obj: JSONObject) -> None:
    """Hold the namespace in the body against the one in the address."""
    kind, meta = target.resource.kind, obj["metadata"]
    given = meta.get("namespace", "")
    if not kind.namespaced:
        meta.pop("namespace", None)
        return
    if given and given != target.namespace:
        raise errors.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    meta["namespace"] = target.namespace


def check_namespace_lifecycle(cluster: LogicalCluster, target: Target, name: str) -> None:
    """Let nothing new into a namespace that does not exist or is on its way out."""
    kind = target.resource.kind
    if not kind.namespaced:
        return
    namespace = cluster.namespace_object(target.namespace)
    if namespace is None:
        raise errors.not_found("namespaces", "", target.namespace)
    if namespace["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
        refused = errors.forbidden(kind.plural, kind.group, name, why)
        message = f"namespace {target.namespace} is being terminated"
        cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
        refused.details["causes"] = [cause]
        raise refused


def check_preconditions(target: Target, old: Entry, uid: str, resource_version: str) -> None:
    """Refuse a write that was meant for another object, or for another state of it."""
    kind = target.resource.kind
    if uid and uid != (actual := old.object["metadata"]["uid"]):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise errors.conflict(kind.plural, kind.group, target.name, why)
    if resource_version and resource_version != str(old.revision):
        raise errors.stale(kind.plural, kind.group, target.name)


async def ready(resource: Resource, request: Request) -> None:
    """Have compiled what a definition says before the first object is held against it: that may take half a second."""
    if request.beside is not None and not resource.is_compiled:
        await request.beside(resource.compile)


async def validate_in_turn(
    target: Target, obj: JSONObject, old: JSONObject | None, request: Request, entry: Entry | None = None
) -> None:
    """Check an object as `validate` does, and let others go on while that takes long. `entry` has the old state."""
    resource = target.resource
    accepted = entry is not None and entry.admitted_by is resource
    if request.beside is not None and (request.takes_long(entry) or strategy_of(resource).compiles):
        await request.beside(lambda: validate(target, obj, old, accepted=accepted, anew=True))
        return
    for _ in _validation(target, obj, old, accepted=accepted, anew=False):
        await asyncio.sleep(0)


def validate(
    target: Target, obj: JSONObject, old: JSONObject | None, *, accepted: bool = False, anew: bool = False
) -> None:
    """Check an object as a whole, against its schema, its rules and, on update, its past.

    `accepted`: the old state was checked against these very rules. `anew`: whatever is known of parts of it.
    """
    for _ in _validation(target, obj, old, accepted=accepted, anew=anew):
        pass


def _validation(
    target: Target, obj: JSONObject, old: JSONObject | None, *, accepted: bool, anew: bool
) -> Iterator[None]:
    resource, strategy = target.resource, strategy_of(target.resource)
    kind = resource.kind
    if old is None:
        causes = metadata.validate_metadata(obj, namespaced=kind.namespaced, style=strategy.name_style)
    else:
        causes = metadata.validate_metadata_update(obj, old)
    if kind.builtin and kind.group != _WITHOUT_FINALIZER_RULE:
        causes += metadata.finalizer_style_errors(obj)
    broken = resource.validator.validate(obj, old)
    if not kind.builtin:
        if target.subresource == "status":
            broken = [custom.seen_from_status(cause) for cause in broken]
        broken += custom.scale_causes(kind, obj, target.subresource)
    causes += broken
    known = resource.known_parts if old is None and not kind.builtin and not anew else None
    sound = known.sound(obj) if known is not None else frozenset()
    ruled: list[errors.Cause] = []
    yield from resource.rules.walk(ruled, obj, old, after=causes, accepted=accepted, sound=sound)
    causes += ruled
    if not causes:  # what is written in Python may assume what the schema promises
        causes += strategy.validate(obj, old)
    if kind.builtin:
        _check_types(kind.kind, kind.version, causes)
    if causes:
        raise errors.invalid(kind.kind, kind.group, obj["metadata"].get("name", ""), causes)
    if known is not None:
        known.accepted(obj)
