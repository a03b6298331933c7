"""Whose the objects on a cluster are.

An object belongs to every work that asks for it, through owner references to the records of those works; it goes when
the last of them goes. Whoever removes or orphans an object may take away only its own reference.
"""

from collections.abc import Sequence

from echelon.api.base import JSONObject
from echelon.api.manifest_config import DeleteOption
from echelon.api.work import APPLIED_MANIFEST_WORK, AppliedManifestWork, ManifestResourceMeta


def owner_reference(record: AppliedManifestWork) -> JSONObject:
    """Return the reference by which an object belongs to the record of a work."""
    return APPLIED_MANIFEST_WORK.owner_reference(record.metadata.name, record.metadata.uid)


def owned_by_work(option: DeleteOption | None, meta: ManifestResourceMeta) -> bool:
    """Whether an object is to go with its work."""
    if option is None or option.propagation_policy == "Foreground":
        return True
    if option.propagation_policy == "Orphan":
        return False
    rules = option.selectively_orphans.orphaning_rules if option.selectively_orphans is not None else []
    return not any(
        (rule.group, rule.resource, rule.namespace, rule.name) == (meta.group, meta.resource, meta.namespace, meta.name)
        for rule in rules
    )


def owner_references(live: JSONObject) -> list[JSONObject]:
    """Return the owners of an object."""
    found: list[JSONObject] = live.get("metadata", {}).get("ownerReferences") or []
    return found


def has_owner(live: JSONObject, owner: JSONObject) -> bool:
    """Whether an object has an owner."""
    return any(reference.get("uid") == owner["uid"] for reference in owner_references(live))


def with_owner(before: Sequence[JSONObject], owner: JSONObject) -> list[JSONObject]:
    """Return owners with one more, which is what it says of itself now."""
    if any(reference.get("uid") == owner["uid"] for reference in before):
        return [{**reference, **owner} if reference.get("uid") == owner["uid"] else reference for reference in before]
    return [*before, owner]


def without_owner(before: Sequence[JSONObject], owner: JSONObject) -> list[JSONObject]:
    """Return owners without one."""
    return [reference for reference in before if reference.get("uid") != owner["uid"]]


def owners_after(live: JSONObject, owner: JSONObject, *, keep: bool) -> list[JSONObject]:
    """Return the owners that an object should have: with ours if it belongs to us, else without."""
    return with_owner(owner_references(live), owner) if keep else without_owner(owner_references(live), owner)
