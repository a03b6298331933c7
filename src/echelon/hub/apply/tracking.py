"""Who owns what after a create, an update or a patch.

Such a write says nothing about ownership, so it is read off the difference: who changes a field owns it, and whoever
owned it before does not any longer.
"""

from echelon.api.base import JSON, JSONObject
from echelon.hub.apply.contents import UNOWNED, appeared, compare
from echelon.hub.apply.fields import FieldSet
from echelon.hub.apply.owners import (
    UPDATE,
    Owner,
    Owners,
    capped,
    encode,
    entry,
    identity,
    sent,
    stored,
    without_fields,
)
from echelon.hub.apply.shape import Shape, shape_of
from echelon.hub.schema.metadata import FORGET_OWNERS

STATUS = FieldSet.of(("f:status",))
ALL_BUT_STATUS = FieldSet.of(("f:metadata",), ("f:spec",))
_NOTHING = FieldSet()


def reset_fields(subresource: str, *, has_status: bool) -> FieldSet:
    """Return the fields that the endpoint does not let anybody change, and so nobody own."""
    if subresource in ("status", "approval"):
        return ALL_BUT_STATUS
    return STATUS if has_status else _NOTHING


def track_update(
    old: JSONObject | None,
    new: JSONObject,
    schema: JSONObject,
    *,
    manager: str,
    api_version: str,
    subresource: str,
    now: str,
    reset: FieldSet | None = None,
) -> list[JSONObject]:
    """Return `managedFields` of the object that is about to be stored.

    `old` is None for a create. An object without owners stays without them until somebody applies to it.
    """
    shape, who = shape_of(schema), identity(manager, UPDATE, api_version, subresource)
    if old is None and not managed_fields(new):
        fields = appeared(new, shape)
        if reset:
            fields = FieldSet(fields).without(reset).root
        return [entry(who, api_version, now, fields)] if fields else []
    owners = _present(old or {}, new, trusted=not subresource)
    if not owners and old is not None:
        return []
    changes, removals = compare(_unmanaged(old or {}), _unmanaged(new), shape)
    if reset:
        changes, removals = changes.without(reset), removals.without(reset)
    lost, mine = changes | removals, changes - UNOWNED
    owner = owners.get(who)
    if owner is not None and mine and _keeps_its_fields(owner, mine, lost):
        after = without_fields(owners, lost, but=who)
        after[who] = owner.again(now)
    else:
        after = without_fields(owners, lost)
        if mine:
            before = after[who].fields if who in after else FieldSet()
            after[who] = Owner(mine | before, api_version, now)
    return encode(capped(after))


def _keeps_its_fields(owner: Owner, mine: FieldSet, lost: FieldSet) -> bool:
    """Tell whether a writer owns the same as before: it loses only what it takes again. Most writes are like that."""
    return owner.fields.covers(mine) and (mine == lost or mine.covers(owner.fields & lost))


def first_apply(
    live: JSONObject, shape: Shape, *, api_version: str, subresource: str, now: str, reset: FieldSet | None
) -> Owners:
    """Return the owners of an object that had none: everything is of an unknown updater from before."""
    who = identity("before-first-apply", UPDATE, api_version, subresource)
    fields = FieldSet(appeared(live, shape)).without(reset or FieldSet())
    return {who: Owner(fields, api_version, now)} if fields else {}


def managed_fields(obj: JSONObject) -> JSON:
    """Return the object's `managedFields`, whatever they are."""
    return obj.get("metadata", {}).get("managedFields")


def with_managed_fields(obj: JSONObject, entries: list[JSONObject]) -> JSONObject:
    """Return the object with other `managedFields`."""
    return {**obj, "metadata": {**obj.get("metadata", {}), "managedFields": entries}}


def _unmanaged(obj: JSONObject) -> JSONObject:
    """Return the object without `managedFields`, which are large and never compared."""
    if not managed_fields(obj):
        return obj
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def _present(old: JSONObject, new: JSONObject, *, trusted: bool) -> Owners:
    """Return the owners before the write: those that the writer sends, if it sends any, or the stored ones."""
    present, given = managed_fields(old), managed_fields(new)
    if not trusted or given is None or given == present:
        return stored(present)
    if given in ([], FORGET_OWNERS):
        return {}
    try:
        return sent(given) or stored(present)
    except ValueError:
        return stored(present)
