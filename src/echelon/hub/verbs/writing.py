"""The writing verbs: create, update and patch, on objects and on their status.

A verb reads the latest state, makes a new object of it and hands that to the store, which refuses it if another write
came first: rules and policies that are expensive pause, and others go on meanwhile. Whoever named no state does not
care about the other write, so the verb then begins anew with the newest one, as kube-apiserver does. Each verb returns
what was stored; a dry run does all but store.
"""

import copy
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from echelon.api.base import JSONObject
from echelon.api.json_equality import is_same
from echelon.hub import apply
from echelon.hub.access.rbac import Attributes, refusal
from echelon.hub.cluster import LogicalCluster
from echelon.hub.kinds.builtin import strategy_of
from echelon.hub.kinds.strategy import StatusChange
from echelon.hub.schema import causes
from echelon.hub.storage.store import MAX_OBJECT_BYTES, Entry, Key, ObjectTooLarge, StaleWrite
from echelon.hub.verbs import admission
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.enforcing import enforce
from echelon.kube import errors

T = TypeVar("T")

# As in kube-apiserver: one, and five more.
_TRIES = 6
# A new name collides once in millions; several in a row mean that the prefix is used up.
_NAME_TRIES = 8


class Written(msgspec.Struct, frozen=True):
    """An object as it was stored, or would have been; `entry` is None for a dry run."""

    object: JSONObject
    entry: Entry | None
    created: bool = False


# Makes the new object from the present one.
Change = Callable[[JSONObject], JSONObject]

# Metadata that only the server decides on.
SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


_PRECONDITIONS = ("uid", "resourceVersion")


async def create(cluster: LogicalCluster, target: Target, body: JSONObject, request: Request) -> Written:
    """Store a new object."""
    await admission.ready(target.resource, request)
    obj = await _admitted(target, body, request)
    admission.check_namespace(target, obj)
    if obj["metadata"].get("resourceVersion"):
        # Kubernetes does not take this for the client's mistake, so programs that look at the code see a 500.
        raise errors.ApiError("resourceVersion should not be set on objects to be created")
    obj["metadata"].pop("managedFields", None)
    try:
        return await _create(cluster, target, obj, request)
    except StaleWrite as taken:
        raise errors.already_exists(target.resource.kind.plural, target.resource.kind.group, taken.key.name) from None


async def _admitted(
    target: Target, body: JSONObject, request: Request, old: Entry | None = None, admitted: JSONObject | None = None
) -> JSONObject:
    anew = request.takes_long(old)
    return await request.at_length(
        lambda: admission.admit_body(target.resource, body, request, admitted=admitted, anew=anew), old
    )


async def on_newest(target: Target, request: Request, attempt: Callable[[], Awaitable[T]]) -> T:
    """Write, and do it all again with the newest state if somebody else wrote before it came to that."""
    said = len(request.warnings)
    await admission.ready(target.resource, request)
    for _ in range(_TRIES):
        try:
            return await attempt()
        except StaleWrite:
            del request.warnings[said:]  # the next attempt says its own
    raise errors.stale(target.resource.kind.plural, target.resource.kind.group, target.name)


async def update(cluster: LogicalCluster, target: Target, body: JSONObject, request: Request) -> Written:
    """Replace an object by what the client sends, if it still is in the state that the client names."""
    return await on_newest(target, request, lambda: _replace(cluster, target, body, request))


async def _replace(cluster: LogicalCluster, target: Target, body: JSONObject, request: Request) -> Written:
    kind = target.resource.kind
    new = await _admitted(target, body, request)
    admission.check_namespace(target, new)
    admission.check_name(target, new)
    old = latest(cluster, target)
    if not new["metadata"].get("resourceVersion") and not strategy_of(target.resource).unconditional_update:
        cause = causes.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.invalid(kind.plural, kind.group, target.name, [cause])
    return await _update(cluster, target, old, new, request, before=target.resource.outgoing(old.object))


async def patch(cluster: LogicalCluster, target: Target, change: Change, request: Request) -> Written:
    """Change an object by a function of its present state."""
    return await on_newest(target, request, lambda: _patch(cluster, target, change, request))


async def _patch(cluster: LogicalCluster, target: Target, change: Change, request: Request) -> Written:
    resource, old = target.resource, latest(cluster, target)
    before = resource.outgoing(old.object)
    changed = await request.at_length(lambda: change(before), old)
    if old.admitted_by is resource and resource.rules.are_content and _is_untouched(changed, before):
        return await _confirm(cluster, target, old, changed["metadata"], request)
    try:
        new = await _admitted(target, changed, request, old, before if old.admitted_by is resource else None)
    except errors.BadRequest as error:
        raise _bad_patch(error) from None
    admission.check_namespace(target, new)
    admission.check_name(target, new)
    _check_same(target, before, new)
    try:
        return await _update(cluster, target, old, new, request, before=before)
    except admission.Undecodable as error:
        raise _bad_patch(error) from None


def _is_untouched(changed: JSONObject, before: JSONObject) -> bool:
    """Whether a patch says at most which object it is meant for, and in which state."""
    if changed.keys() != before.keys():
        return False
    if any(value is not before[name] for name, value in changed.items() if name != "metadata"):
        return False
    meta, known = changed["metadata"], before["metadata"]
    return (
        meta.__class__ is dict
        and meta.keys() == known.keys()
        and all(value is known[name] or (name in _PRECONDITIONS and type(value) is str) for name, value in meta.items())
    )


async def _confirm(cluster: LogicalCluster, target: Target, old: Entry, meta: JSONObject, request: Request) -> Written:
    """Answer a patch that changes nothing: whoever sends one wants to know whether this is still the object."""
    before = target.resource.outgoing(old.object)
    _check_same(target, before, {"metadata": meta})
    admission.check_preconditions(target, old, meta["uid"], meta["resourceVersion"])
    await enforce(cluster, target, request, new=before, old=before)
    return Written(before, old)


def _bad_patch(error: errors.BadRequest) -> errors.Invalid:
    """Say that it was the patch that made something unreadable of a good object."""
    return errors.invalid("", "", "", [errors.Cause("patch", f"Invalid value: {error.message}")])


def _check_same(target: Target, before: JSONObject, new: JSONObject) -> None:
    """Refuse a patch that was meant for an object that had this name before."""
    uid = new["metadata"].get("uid")
    if uid and uid != before["metadata"]["uid"]:
        kind, cause = target.resource.kind, causes.invalid("metadata.uid", uid, "field is immutable")
        raise errors.invalid(kind.kind, kind.group, target.name, [cause])


async def server_side_apply(
    cluster: LogicalCluster, target: Target, config: JSONObject, request: Request, *, force: bool
) -> Written:
    """Make the object have what a manager wants, and forget what that manager no longer wants."""
    return await on_newest(target, request, lambda: _apply(cluster, target, config, request, force=force))


async def _apply(
    cluster: LogicalCluster, target: Target, config: JSONObject, request: Request, *, force: bool
) -> Written:
    resource, kind, sent = target.resource, target.resource.kind, config
    config = await request.at_length(lambda: admission.admit_config(resource, sent, request))
    _check_size(config)
    config["metadata"].setdefault("name", target.name)
    admission.check_namespace(target, config)
    admission.check_name(target, config)
    old = cluster.store.latest(target.key)
    if old is None and target.subresource:
        raise errors.not_found(kind.plural, kind.group, target.name)
    if old is None and (uid := config["metadata"].get("uid")):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise errors.conflict(kind.plural, kind.group, target.name, why)
    before = resource.outgoing(old.object) if old else None

    def merge() -> tuple[JSONObject, list[JSONObject]]:
        merged = apply.apply(
            before,
            config,
            resource.schema,
            manager=request.field_manager,
            api_version=kind.api_version,
            subresource=target.subresource,
            force=force,
            now=cluster.timestamp(),
            reset=apply.reset_fields(target.subresource, has_status=kind.status),
        )
        managed = merged["metadata"]["managedFields"]
        merged = resource.structural.prune(merged)[0]
        resource.structural.default(merged)
        return merged, managed

    merged, managed = await request.at_length(merge, old)
    if old is None or before is None:
        _check_may_create(cluster, target, request)
        return await _create(cluster, target, merged, request, managed)
    _check_same(target, before, config)
    for name in ("uid", "resourceVersion"):  # preconditions of the config, not fields to merge
        merged["metadata"][name] = config["metadata"].get(name, "")
    return await _update(cluster, target, old, merged, request, before=before, managed=managed)


def _check_may_create(cluster: LogicalCluster, target: Target, request: Request) -> None:
    """Raise Forbidden if a patch would make an object that its sender may only change."""
    kind = target.resource.kind
    asked = Attributes(
        user=request.user,
        verb="create",
        group=kind.group,
        resource=kind.plural,
        namespace=target.namespace,
        name=target.name,
    )
    decision = cluster.authorizer.authorize(asked)
    if not decision.allowed:
        raise refusal(asked, decision)


async def _create(
    cluster: LogicalCluster, target: Target, obj: JSONObject, request: Request, managed: list[JSONObject] | None = None
) -> Written:
    resource, kind, meta = target.resource, target.resource.kind, obj["metadata"]
    key = Key(resource.stored_as, target.namespace, _choose_name(cluster, target, meta))
    admission.check_namespace_lifecycle(cluster, target, key.name)
    _check_size(obj)
    for name in SERVER_OWNED:
        meta.pop(name, None)
    meta.update(uid=cluster.new_uid(), creationTimestamp=cluster.timestamp())
    strategy = strategy_of(resource)
    if strategy.counts_generations:
        meta["generation"] = 1
    if kind.status:
        obj.pop("status", None)
    if strategy.first_status is not None:
        obj["status"] = copy.deepcopy(strategy.first_status)
    strategy.prepare_create(cluster, obj, request.user)
    await admission.validate_in_turn(target, obj, None, request)
    if managed is None:
        managed = await request.at_length(lambda: _managed(cluster, target, None, obj, request))
    _own(meta, managed)
    await enforce(cluster, target, request, new=obj)
    # Again: all that may have taken its time.
    admission.check_namespace_lifecycle(cluster, target, key.name)
    _check_served(cluster, target)
    if request.dry_run:
        if cluster.store.latest(key) is not None:
            raise errors.already_exists(kind.plural, kind.group, key.name)
        return Written(obj, None, created=True)
    entry = await _put(cluster, target, key, obj, expected=0, as_admitted=strategy.stores_as_admitted)
    return Written(obj, entry, created=True)


def _choose_name(cluster: LogicalCluster, target: Target, meta: JSONObject) -> str:
    """Return the new object's name: the given one, or one made from `generateName`."""
    kind, prefix = target.resource.kind, meta.get("generateName") or ""
    name = meta.get("name") or ""
    if not name and not prefix:
        cause = errors.Cause("metadata.name", "Required value: name or generateName is required", "FieldValueRequired")
        raise errors.invalid(kind.kind, kind.group, "", [cause])
    if name:
        return str(name)
    for _ in range(_NAME_TRIES):
        chosen = cluster.generated_name(prefix)
        if cluster.store.latest(Key(target.resource.stored_as, target.namespace, chosen)) is None:
            meta["name"] = chosen
            return chosen
    raise errors.already_exists(kind.plural, kind.group, chosen)


async def _update(
    cluster: LogicalCluster,
    target: Target,
    old: Entry,
    new: JSONObject,
    request: Request,
    *,
    before: JSONObject,
    managed: list[JSONObject] | None = None,
) -> Written:
    """Take a whole new object, as admitted, through what every update has in common."""
    resource, strategy = target.resource, strategy_of(target.resource)
    meta = new["metadata"]
    admission.check_preconditions(target, old, meta.get("uid", ""), meta.get("resourceVersion", ""))
    new = _only_through(target, new, before)
    _check_size(new)
    _keep_server_owned(new["metadata"], before["metadata"])
    if target.subresource in strategy.status_endpoints:
        strategy.prepare_status(cluster, StatusChange(target.subresource, new, before, request.user))
    else:
        strategy.prepare_update(cluster, new, before, request.user)
    if strategy.counts_generations and await request.at_length(
        lambda: strategy.desired_state_changed(new, before), old
    ):
        new["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
    await admission.validate_in_turn(target, new, before, request, old)

    def own() -> bool:
        """Say who owns what, and whether anything is as it was not."""
        if new != before:
            _own(new["metadata"], _managed(cluster, target, before, new, request) if managed is None else managed)
        return is_same(new, before)

    same = await request.at_length(own, old)
    await enforce(cluster, target, request, new=new, old=before)
    if same:
        return Written(before, old)
    _check_served(cluster, target)
    if request.dry_run:
        return Written(new, None)
    # An endpoint of several puts together what it admitted and what was there.
    as_admitted = strategy.stores_as_admitted and (old.admitted_by is resource or not resource.kind.status)
    return Written(new, await store_update(cluster, target, old, new, as_admitted=as_admitted))


def _check_served(cluster: LogicalCluster, target: Target) -> None:
    """Store nothing of a kind whose definition has gone meanwhile: nobody would ever see it, or delete it."""
    kind = target.resource.kind
    cluster.catalogue.find(kind.group, kind.version, kind.plural)


def _check_size(obj: JSONObject) -> None:
    """Refuse what will be too large before it is looked at closely: that takes a hundred times as long."""
    if len(msgspec.json.encode(obj)) > MAX_OBJECT_BYTES:
        raise _too_large()


def _too_large() -> errors.TooLarge:
    return errors.TooLarge("etcdserver: request is too large")


def _only_through(target: Target, new: JSONObject, before: JSONObject) -> JSONObject:
    """Limit an update to what its endpoint may change: the status through `status`, the rest through the object."""
    if target.subresource in strategy_of(target.resource).status_endpoints:
        meta = {key: value for key, value in before["metadata"].items() if key != "managedFields"}
        if "managedFields" in new["metadata"]:
            meta["managedFields"] = new["metadata"]["managedFields"]
        limited, source = {**before, "metadata": meta}, new
    elif target.resource.kind.status:
        limited, source = new, before
    else:
        return new
    limited.pop("status", None)
    if "status" in source:
        limited["status"] = source["status"]
    return limited


def _keep_server_owned(meta: JSONObject, before: JSONObject) -> None:
    for name in SERVER_OWNED:
        if name in before:
            meta[name] = before[name]
        else:
            meta.pop(name, None)


def _managed(
    cluster: LogicalCluster, target: Target, before: JSONObject | None, new: JSONObject, request: Request
) -> list[JSONObject]:
    return apply.track_update(
        before,
        new,
        target.resource.schema,
        manager=request.field_manager,
        api_version=target.resource.kind.api_version,
        subresource=target.subresource,
        now=cluster.timestamp(),
        reset=apply.reset_fields(target.subresource, has_status=target.resource.kind.status),
    )


def _own(meta: JSONObject, managed: list[JSONObject]) -> None:
    meta.pop("managedFields", None)
    if managed:
        meta["managedFields"] = managed


def latest(cluster: LogicalCluster, target: Target) -> Entry:
    """Return what the next write builds on."""
    entry = cluster.store.latest(target.key)
    if entry is None:
        raise errors.not_found(target.resource.kind.plural, target.resource.kind.group, target.name)
    return entry


async def store_update(
    cluster: LogicalCluster, target: Target, old: Entry, new: JSONObject, *, as_admitted: bool = False
) -> Entry:
    """Store a new state; the last finalizer of a deleted object takes the object with it.

    `as_admitted`: admitting the state once more would not change it. Raises `StaleWrite` if the old state is no longer
    the latest.
    """
    if new["metadata"].get("deletionTimestamp") and strategy_of(target.resource).may_go(new):
        return await cluster.store.remove(old.key, target.resource.incoming(new), expected=old.revision)
    return await _put(cluster, target, old.key, new, expected=old.revision, as_admitted=as_admitted)


async def _put(
    cluster: LogicalCluster, target: Target, key: Key, obj: JSONObject, *, expected: int, as_admitted: bool
) -> Entry:
    resource = target.resource
    # What is converted on the way in and out may come back different.
    admitted_by = resource if as_admitted and resource.to_storage is None else None
    try:
        return await cluster.store.put(key, resource.incoming(obj), expected=expected, admitted_by=admitted_by)
    except ObjectTooLarge:
        raise _too_large() from None
