"""The owners of an object's fields: `metadata.managedFields`, decoded.

An owner is told from others by name, operation and subresource; who updates also by API version, because nobody ever
takes stock of an updater's fields, so they stay in the version that they were written in.

Entries are decoded with every write, and most of them are not changed by it. So what is stored is trusted to be as we
write it, and an entry that no write touched goes back as it came; what a client sends is read with care, and written
anew.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from echelon.api.base import JSON, JSONObject
from echelon.hub.apply.fields import FieldSet

APPLY = "Apply"
UPDATE = "Update"
MAX_UPDATERS = 10
OLD_UPDATERS = "ancient-changes"


class Identity(NamedTuple):
    """What tells owners apart; `version` is empty for those that apply."""

    manager: str
    operation: str
    version: str
    subresource: str

    def __str__(self) -> str:
        shown = f'"{self.manager}"'
        if self.subresource:
            shown += f' with subresource "{self.subresource}"'
        return f"{shown} using {self.version}" if self.operation == UPDATE else shown


class Owner(msgspec.Struct, frozen=True):
    """What one owner owns, and since when."""

    fields: FieldSet
    api_version: str
    time: str
    entry: JSONObject | None = None  # as it was read, while nothing about it has changed

    def owning(self, fields: FieldSet) -> "Owner":
        """Return the owner with other fields."""
        return self if fields is self.fields or fields == self.fields else replace(self, fields=fields, entry=None)

    def again(self, time: str) -> "Owner":
        """Return the owner after one more write of the same fields."""
        written = self.entry if self.entry is not None and "time" in self.entry else None
        return Owner(self.fields, self.api_version, time, written and {**written, "time": time})


Owners = Mapping[Identity, Owner]


def identity(manager: str, operation: str, api_version: str, subresource: str) -> Identity:
    """Return who a request is from."""
    version = "" if operation == APPLY else api_version
    return Identity(manager or "unknown", operation, version, subresource)


def stored(entries: JSON) -> Owners:
    """Read `managedFields` that we wrote."""
    return dict(map(_stored, entries or ()))


def _stored(entry: JSONObject) -> tuple[Identity, Owner]:
    operation, api_version = entry["operation"], entry["apiVersion"]
    version = "" if operation == APPLY else api_version
    who = Identity(entry.get("manager", ""), operation, version, entry.get("subresource", ""))
    return who, Owner(FieldSet(entry["fieldsV1"]), api_version, entry.get("time", ""), entry)


def sent(entries: JSON) -> Owners:
    """Read `managedFields` that somebody else wrote; ValueError if they are not well-formed."""
    if not isinstance(entries, list):
        raise ValueError("managedFields must be a list")
    return dict(_sent(entry, index) for index, entry in enumerate(entries))


def _sent(entry: JSON, index: int) -> tuple[Identity, Owner]:
    if not isinstance(entry, dict):
        raise ValueError(f"managed fields entry {index} must be an object")
    operation, api_version = entry.get("operation"), entry.get("apiVersion")
    if operation not in (APPLY, UPDATE):
        raise ValueError("operation must be `Apply` or `Update`")
    if not isinstance(api_version, str) or not api_version:
        raise ValueError("apiVersion must not be empty")
    if not entry.get("fieldsType"):
        raise ValueError(f"missing fieldsType in managed fields entry {index}")
    if entry["fieldsType"] != "FieldsV1":
        raise ValueError(f'invalid fieldsType "{entry["fieldsType"]}" in managed fields entry {index}')
    rest = [entry.get(name) or "" for name in ("manager", "subresource", "time")]
    if not all(isinstance(text, str) for text in rest):
        raise ValueError(f"managed fields entry {index} is not well-formed")
    fields = FieldSet.from_fields_v1(entry.get("fieldsV1") or {})
    version = "" if operation == APPLY else api_version
    return Identity(rest[0], operation, version, rest[1]), Owner(fields, api_version, rest[2])


def encode(owners: Owners) -> list[JSONObject]:
    """Write `managedFields`, in the order that Kubernetes has: who applies first, then by time."""
    order = sorted(owners.items(), key=lambda pair: (pair[0].operation, pair[1].time, pair[0]))
    return [owner.entry if owner.entry is not None else entry_of(who, owner) for who, owner in order]


def entry_of(who: Identity, owner: Owner) -> JSONObject:
    """Write one entry."""
    return entry(who, owner.api_version, owner.time, owner.fields.to_fields_v1())


def entry(who: Identity, api_version: str, time: str, fields: JSONObject) -> JSONObject:
    """Write one entry from its parts."""
    result: JSONObject = {"manager": who.manager, "operation": who.operation, "apiVersion": api_version}
    if time:
        result["time"] = time
    result["fieldsType"] = "FieldsV1"
    result["fieldsV1"] = fields
    if who.subresource:
        result["subresource"] = who.subresource
    return result


def without_fields(owners: Owners, lost: FieldSet, *, but: Identity | None = None) -> dict[Identity, Owner]:
    """Take fields from all owners but one; who has none left is an owner no longer."""
    result = {}
    for who, owner in owners.items():
        left = owner if who == but or lost.is_empty else owner.owning(owner.fields - lost)
        if not left.fields.is_empty:
            result[who] = left
    return result


def capped(owners: Owners) -> Owners:
    """Merge the updaters that were quiet for longest, so that an object that everybody writes to stays small."""
    updaters = [who for who in owners if who.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return owners
    result = dict(owners)
    first: dict[str, Identity] = {}  # per version: the oldest, which only moves if a second one joins it
    for who in sorted(updaters, key=lambda who: (owners[who].time, who)):
        if excess == 0:
            break
        if who.version not in first:
            first[who.version] = who
            continue
        bucket = Identity(OLD_UPDATERS, UPDATE, who.version, "")
        if bucket not in result:
            result[bucket] = result.pop(first[who.version])
        owner = result.pop(who)
        result[bucket] = replace(owner, fields=result[bucket].fields | owner.fields, entry=None)
        excess -= 1
    return result
