"""Which objects are to go, and how.

Deleting what still belongs to another work, or an object that only has the name of one that was ours, would be the
worst that an agent can do. So an object goes only if it is the very one that was recorded, carries our owner
reference, and no other record's.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import msgspec

from echelon.api.base import JSONObject
from echelon.api.work import AppliedResource, ManifestResourceMeta
from echelon.engine.work.ownership import has_owner, is_kept_namespace, is_record, owner_references, without_owner

ResourceKey: TypeAlias = tuple[str, str, str, str]  # group, resource, namespace and name; the version is only a view


class RemovalAction(Enum):
    """What becomes of an object that is no longer wanted."""

    FORGET = "forget"  # it is gone, another one, or not ours
    DISOWN = "disown"  # others have it too, or nobody deletes it
    DELETE = "delete"
    WAIT = "wait"  # its end has been asked for


@dataclass(frozen=True)
class Removal:
    """What to do with an object; `owners` are those that it keeps when it is disowned."""

    action: RemovalAction
    owners: tuple[JSONObject, ...] = ()


def resource_key_of(thing: AppliedResource | ManifestResourceMeta) -> ResourceKey:
    """Return what names an object, whatever its version."""
    return thing.group, thing.resource, thing.namespace, thing.name


def split_by_wanted(
    recorded: Iterable[AppliedResource], wanted: Iterable[ManifestResourceMeta]
) -> tuple[list[AppliedResource], list[AppliedResource]]:
    """Divide what was recorded into what is still wanted and what is not.

    A manifest whose kind the cluster does not know has no resource. What was recorded in its group under its name may
    be its object, so that stays; everything else can be judged as usual.
    """
    known: set[ResourceKey] = set()
    vague: set[tuple[str, str]] = set()
    for meta in wanted:
        if meta.resource:
            known.add(resource_key_of(meta))
        else:
            vague.add((meta.group, meta.name))
    kept: list[AppliedResource] = []
    dropped: list[AppliedResource] = []
    for resource in recorded:
        stays = resource_key_of(resource) in known or (resource.group, resource.name) in vague
        (kept if stays else dropped).append(resource)
    return kept, dropped


def decide_removal(
    resource: AppliedResource, live: JSONObject | None, owner: JSONObject, kept_namespaces: Collection[str] = ()
) -> Removal:
    """Decide what becomes of an object that a work no longer wants.

    `kept_namespaces` are never deleted, besides those that nobody's are: what an earlier version made ours is given up.
    """
    if live is None or not has_owner(live, owner):
        return _FORGET
    uid = live["metadata"].get("uid", "")
    if resource.uid and resource.uid != uid:
        return _FORGET
    others = without_owner(owner_references(live), owner)
    kept = is_kept_namespace(resource.group, resource.resource, resource.name, kept_namespaces)
    if kept or any(is_record(reference) for reference in others):
        return Removal(RemovalAction.DISOWN, tuple(others))
    if live["metadata"].get("deletionTimestamp"):
        return _WAIT
    return _DELETE


def merged_resources(resources: Sequence[AppliedResource]) -> list[AppliedResource]:
    """Return resources as a record lists them: each once, in an order that does not depend on how they came.

    Where two entries name different objects, nobody knows which of them is there, and neither is named.
    """
    by_key: dict[ResourceKey, AppliedResource] = {}
    for resource in resources:
        known = by_key.get(resource_key_of(resource))
        if known is not None and known.uid != resource.uid:
            resource = msgspec.structs.replace(resource, uid="")  # noqa: PLW2901 - it is one entry
        by_key[resource_key_of(resource)] = resource
    return sorted(
        by_key.values(), key=lambda each: (each.group, each.version, each.resource, each.namespace, each.name)
    )


_FORGET, _WAIT, _DELETE = Removal(RemovalAction.FORGET), Removal(RemovalAction.WAIT), Removal(RemovalAction.DELETE)
