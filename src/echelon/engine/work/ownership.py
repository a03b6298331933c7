"""Whose the objects on a cluster are.

An object belongs to every work that made it or found it with another work, through owner references to the records of
those works; it goes when the last of them goes. Whoever removes or orphans an object may take away only its own
reference.

An object that was there before is foreign: a work that names it, by mistake or by a guess, must not take somebody's
database or namespace along when it goes. It is brought in line with its manifest, and stays.
"""

from collections.abc import Collection, Mapping, Sequence

from echelon.api.base import JSONObject
from echelon.api.manifest_config import DeleteOption
from echelon.api.work import APPLIED_MANIFEST_WORK, AppliedManifestWork, ManifestResourceMeta

# On a work: what was there before goes with it, too.
ADOPT = "echelon.dev/adopt"
# On an object that cannot be given its owner by the request that makes it: the uid of the work that it was made for.
MADE_FOR = "echelon.dev/made-for-work"
ALWAYS_KEPT = ("default",)  # namespaces, and all that begin with:
ALWAYS_KEPT_PREFIX = "kube-"


def adopts(annotations: Mapping[str, str]) -> bool:
    """Whether a work is to own, and to delete, also what was there before it."""
    return annotations.get(ADOPT) == "delete"


def is_kept_namespace(group: str, resource: str, name: str, others: Collection[str] = ()) -> bool:
    """Whether an object is a namespace that no work ever owns or deletes."""
    if (group, resource) != ("", "namespaces"):
        return False
    return name in ALWAYS_KEPT or name.startswith(ALWAYS_KEPT_PREFIX) or name in others


def belongs_to_works(live: JSONObject, recorded_uid: str, work_uid: str) -> bool:
    """Whether an object was made for works: one of them owns it, or a work's record or its own mark says so."""
    if any(is_record(reference) for reference in owner_references(live)):
        return True
    meta = live.get("metadata", {})
    if recorded_uid and meta.get("uid") == recorded_uid:
        return True
    return bool(work_uid) and (meta.get("annotations") or {}).get(MADE_FOR) == work_uid


def without_mark(manifest: JSONObject) -> JSONObject:
    """Return a manifest that does not say of itself for which work it was made."""
    annotations = manifest["metadata"].get("annotations")
    if not isinstance(annotations, dict) or MADE_FOR not in annotations:
        return manifest
    kept = {name: value for name, value in annotations.items() if name != MADE_FOR}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": kept}}


def is_record(reference: JSONObject) -> bool:
    """Whether an owner is the record of a work."""
    group = str(reference.get("apiVersion", "")).partition("/")[0]
    return reference.get("kind") == APPLIED_MANIFEST_WORK.kind and group == APPLIED_MANIFEST_WORK.group


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
