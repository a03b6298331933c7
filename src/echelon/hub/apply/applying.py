"""Server-side apply: a manager states all that it wants, and the server works out the rest.

Three things follow from a statement. What it says is set, unless another owner would be contradicted. What the same
manager said before and says no longer is removed, unless another owner still wants it. And what it says is owned from
then on, shared with whoever said the same.
"""

import msgspec
from msgspec.structs import replace

from echelon.api.base import JSONObject
from echelon.hub.apply.contents import UNOWNED, compare, same, stated
from echelon.hub.apply.fields import FieldSet, Path, readable
from echelon.hub.apply.last_applied import agreed_before, refreshed
from echelon.hub.apply.merge import merged, removed, with_named_parents
from echelon.hub.apply.owners import APPLY, Identity, Owner, Owners, encode, identity, stored, without_fields
from echelon.hub.apply.shape import Shape, shape_of
from echelon.hub.apply.tracking import first_apply, managed_fields, with_managed_fields
from echelon.hub.apply.typed import check
from echelon.hub.storage.store import MAX_OBJECT_BYTES
from echelon.kube.errors import BadRequest, Conflict, TooLarge

KUBECTL = "kubectl"
_NOT_OWNED_BYTES = 1024  # more than what is stated of an object and never owned: what it is, and its name


def apply(
    live: JSONObject | None,
    config: JSONObject,
    schema: JSONObject,
    *,
    manager: str,
    api_version: str,
    subresource: str,
    force: bool,
    now: str,
    reset: FieldSet | None = None,
) -> JSONObject:
    """Return the live object with what the configuration states, and with its new owners.

    `live` is None if there is no object yet. Raises Conflict if another owner has set a field to something else,
    unless `force` says to take it.
    """
    if managed_fields(config) is not None:
        raise BadRequest("metadata.managedFields must be nil")
    shape = shape_of(schema)
    check(config, shape, api_version=api_version)
    who = identity(manager, APPLY, api_version, subresource)
    owners = stored(managed_fields(live)) if live is not None else {}
    if live is not None and not owners:
        owners = first_apply(live, shape, api_version=api_version, subresource=subresource, now=now, reset=reset)
    base = live if live is not None else _bare(config)

    mine = stated(config, shape)
    if reset:
        mine = mine.without(reset)
    _check_size(config, mine)
    previous = owners.get(who)
    result = _forgotten(merged(base, config, shape), mine, previous, owners, shape)
    changes, removals = compare(base, result, shape)
    if reset:
        changes, removals = changes.without(reset), removals.without(reset)

    others = {other: owner for other, owner in owners.items() if other != who}
    if not force and (conflicts := _conflicts(others, changes)):
        allowed = agreed_before(base, shape, api_version=api_version) if manager == KUBECTL else FieldSet()
        if refused := [(other, path) for other, path in conflicts if not allowed.has(path)]:
            raise _conflict(refused)

    unchanged = live is not None and same(live, result)
    after = without_fields(others, changes | removals)
    if not (owned := mine - UNOWNED).is_empty:
        time = (previous.time if previous else "") if unchanged else now
        after[who] = _kept(previous, Owner(owned, api_version, time))
    if manager == KUBECTL:
        result = refreshed(result, config)
    return with_managed_fields(result, encode(after))


def _check_size(config: JSONObject, mine: FieldSet) -> None:
    """Refuse what cannot be stored together with who owns it, before it is merged: that takes three times as long."""
    if len(msgspec.json.encode(config)) + len(msgspec.json.encode(mine.root)) > MAX_OBJECT_BYTES + _NOT_OWNED_BYTES:
        raise TooLarge("etcdserver: request is too large")


def _bare(config: JSONObject) -> JSONObject:
    """Return the object that there is before anything was said about it."""
    return {name: value for name, value in config.items() if name in ("apiVersion", "kind")}


def _kept(previous: Owner | None, owner: Owner) -> Owner:
    """Return the previous owner if nothing about it is new, so that its entry stays the same."""
    return previous if previous is not None and replace(previous, entry=None) == owner else owner


def _forgotten(result: JSONObject, mine: FieldSet, previous: Owner | None, owners: Owners, shape: Shape) -> JSONObject:
    """Remove what the manager stated last time and does not state now, where nobody else owns it.

    A list item goes with all that is in it, unless another owner has the item too; to have set a field in it is not
    enough. A field that the schema names goes when nobody owns anything in it. Besides, what belongs to nobody stays.
    """
    if previous is None or (previous.fields - mine).is_empty:
        return result
    wanted = mine
    for owner in owners.values():
        if owner is not previous:
            wanted |= owner.fields
    last = with_named_parents(previous.fields, shape)
    wanted = with_named_parents(wanted, shape)
    everything = with_named_parents(stated(result, shape), shape)
    kept = with_named_parents(stated(removed(result, last, shape), shape), shape)
    result_kept = removed(result, everything - (kept | wanted), shape)
    kept = with_named_parents(stated(result_kept, shape), shape)
    return removed(result, (everything - kept) & last, shape)


def _conflicts(others: Owners, changes: FieldSet) -> list[tuple[Identity, Path]]:
    """Return the fields that would change and who owns them."""
    return [(other, path) for other in sorted(others) for path in (others[other].fields & changes).paths()]


def _conflict(conflicts: list[tuple[Identity, Path]]) -> Conflict:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {other}", "field": readable(path)}
        for other, path in conflicts
    ]
    if len(conflicts) == 1:
        text = f"Apply failed with 1 conflict: conflict with {conflicts[0][0]}: {readable(conflicts[0][1])}"
    else:
        lines: list[str] = []
        for index, (other, path) in enumerate(conflicts):
            if index == 0 or conflicts[index - 1][0] != other:
                lines.append(f"conflicts with {other}:")
            lines.append(f"- {readable(path)}")
        text = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return Conflict(text, details={"causes": causes})
