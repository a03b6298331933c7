"""The strategies Update and CreateOnly: what to write so that an object is what a manifest says.

Update replaces: what the manifest does not have goes. Labels, annotations, owners and finalizers are the exception,
because others put theirs there. So are fields that the server filled in and lets nobody change: without them in the
manifest, a replacement would be refused each time. A replacement whose fields the server fills in again changes
nothing, but it is a write; whoever makes it remembers what came of it (`LastApplied`) and spares the next one.
"""

from hashlib import sha256
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.engine.merge_patch import merge_difference
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.work.ownership import belongs_to_works, has_owner, owner_references, owners_after

_NOT_CONTENT = ("apiVersion", "kind", "metadata", "status")
# How many pods there are is often for an autoscaler to say; then the manifest does not say it.
_REPLICAS = (("spec", "replicas"),)
_WEBHOOK_CERTIFICATES = (("webhooks", "*", "clientConfig", "caBundle"),)
# Fields that the server gives to an object for good, or that somebody else has if the manifest does not: who scales,
# who issues certificates. A star stands for the items of a list, which are known by their names.
_OTHERS_FIELDS: dict[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("apps", "Deployment"): _REPLICAS,
    ("apps", "ReplicaSet"): _REPLICAS,
    ("apps", "StatefulSet"): _REPLICAS,
    ("", "ReplicationController"): _REPLICAS,
    ("apps.kruise.io", "CloneSet"): _REPLICAS,
    ("apps.kruise.io", "StatefulSet"): _REPLICAS,
    ("", "Service"): (
        ("spec", "clusterIP"),
        ("spec", "clusterIPs"),
        ("spec", "ipFamilies"),
        ("spec", "ipFamilyPolicy"),
        ("spec", "healthCheckNodePort"),
    ),
    ("", "ServiceAccount"): (("secrets",), ("imagePullSecrets",)),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOK_CERTIFICATES,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOK_CERTIFICATES,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        ("spec", "conversion", "webhook", "clientConfig", "caBundle"),
    ),
    ("apiregistration.k8s.io", "APIService"): (("spec", "caBundle"),),
}
# Nearly nothing of these may change once they exist: what the manifest does not mention is left alone.
_MOSTLY_IMMUTABLE = frozenset({("batch", "Job"), ("", "Pod"), ("", "PersistentVolumeClaim"), ("", "PersistentVolume")})
_ONLY_METADATA = frozenset({("", "Namespace")})
_EMPTY: tuple[Any, ...] = (None, "", [], {})


class LastApplied(msgspec.Struct, frozen=True):
    """What a manifest was when it was written, and what the server made of it."""

    manifest: str
    result: str


def last_applied_of(manifest: JSONObject, live: JSONObject) -> LastApplied:
    """Note what a server made of a manifest, besides what others may say there."""
    content, stated = _content(live), _content(manifest)
    for path in _OTHERS_FIELDS.get(_name(manifest), ()):
        content = _without_others_field(content, stated, path)
    return LastApplied(_digest(manifest), _digest(content))


class DesiredObject(msgspec.Struct, frozen=True):
    """A manifest and where it goes; `owner` is our record. An object that is not `owned_by_work` outlives the work.

    So does one that was there before, unless the work `adopts` it. `recorded_uid` is that of the object that was
    applied for the work before, `work_uid` that of the work itself.
    """

    kind: Kind[Any]
    manifest: JSONObject
    namespace: str
    owner: JSONObject
    owned_by_work: bool
    recorded_uid: str = ""
    work_uid: str = ""
    adopts: bool = False

    @property
    def name(self) -> str:
        """Name of the object."""
        name: str = self.manifest["metadata"]["name"]
        return name

    def is_foreign(self, live: JSONObject) -> bool:
        """Whether an object was there before, and is not to be made ours."""
        known = has_owner(live, self.owner) or belongs_to_works(live, self.recorded_uid, self.work_uid)
        return not self.adopts and not known

    def owns(self, live: JSONObject) -> bool:
        """Whether an object is to go with the work."""
        return self.owned_by_work and not self.is_foreign(live)


class ForeignObjectError(ValueError):
    """An object cannot be changed without being deleted, and is not ours to delete."""

    def __init__(self) -> None:
        super().__init__(
            "it was there before this work and is of another type, which cannot be changed; "
            "it would have to be deleted and made anew, and is not the work's to delete"
        )


def update(
    desired: DesiredObject, live: JSONObject | None, last_applied: LastApplied | None = None
) -> tuple[Write, ...]:
    """Return what makes an object equal to its manifest; nothing if it is. Raises `ForeignObjectError`."""
    if live is None:
        return (creation(desired),)
    if _other_type(desired, live):
        if desired.is_foreign(live):
            raise ForeignObjectError
        meta = live["metadata"]
        gone = Delete(desired.kind, desired.name, desired.namespace, uid=meta.get("uid", ""))
        return gone, creation(desired)
    known = last_applied is not None and last_applied == last_applied_of(desired.manifest, live)
    body = {} if known else merge_difference(_content(live), _target(desired, live), empty_is_absent=True)
    metadata = _metadata_difference(desired, live)
    if not body and not metadata:
        return ()
    return (_patch(desired, live, {**body, "metadata": metadata}),)


def lacks_content(desired: DesiredObject, live: JSONObject, last_applied: LastApplied | None = None) -> bool:
    """Whether an object lacks something that the manifest says; what it has besides is others'."""
    if _metadata_difference(desired, live):
        return True
    if last_applied is not None and last_applied == last_applied_of(desired.manifest, live):
        return False
    content = _content(live)
    return bool(_overlay(content, _content(desired.manifest)) != content)


def same_content(one: JSONObject, other: JSONObject) -> bool:
    """Whether two states of an object differ in nothing that a manifest could say."""
    named = ("uid", "labels", "annotations", "ownerReferences")
    before, after = ([state["metadata"].get(name) or None for name in named] for state in (one, other))
    return before == after and _content(one) == _content(other)


def create_only(desired: DesiredObject, live: JSONObject | None) -> tuple[Write, ...]:
    """Return what creates an object, or makes an existing one ours."""
    return (creation(desired),) if live is None else owner_writes(desired, live)


def owner_writes(desired: DesiredObject, live: JSONObject) -> tuple[Write, ...]:
    """Return what gives an object the owners that it should have, and nothing else."""
    owners = owners_after(live, desired.owner, keep=desired.owns(live))
    if owners == owner_references(live):
        return ()
    return (_patch(desired, live, {"metadata": {"ownerReferences": owners}}),)


def creation(desired: DesiredObject) -> Create:
    """Return what creates the object of a manifest."""
    body = with_metadata(desired, {})
    if desired.owned_by_work:
        body["metadata"]["ownerReferences"] = [desired.owner]
    return Create(desired.kind, body, desired.namespace)


def with_metadata(desired: DesiredObject, more: JSONObject) -> JSONObject:
    """Return the manifest as it is sent: in its place, without an identity that is for the server to give."""
    refused = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences")
    metadata = {name: value for name, value in desired.manifest["metadata"].items() if name not in refused}
    metadata.pop("namespace", None)
    for name in ("labels", "annotations"):
        if kept := {key: value for key, value in (metadata.get(name) or {}).items() if not key.endswith("-")}:
            metadata[name] = kept
        else:
            metadata.pop(name, None)
    if desired.namespace:
        metadata["namespace"] = desired.namespace
    return {**desired.manifest, "metadata": {**metadata, **more}}


def _target(desired: DesiredObject, live: JSONObject) -> JSONObject:
    """Return the content that an object should have."""
    name = (desired.kind.group, desired.kind.kind)
    content, before = _content(desired.manifest), _content(live)
    if name in _ONLY_METADATA:
        return before
    if name in _MOSTLY_IMMUTABLE:
        overlaid: JSONObject = _overlay(before, content)
        return overlaid
    if name == ("", "Secret"):
        content = with_plain_data(content)
    for path in _OTHERS_FIELDS.get(name, ()):
        content = _keep(content, before, path)
    return content


def _metadata_difference(desired: DesiredObject, live: JSONObject) -> JSONObject:
    """Return what to merge into the metadata. A key that ends in a dash asks for the removal of that key."""
    changed: JSONObject = {}
    for field in ("labels", "annotations"):
        before = live["metadata"].get(field) or {}
        stated = desired.manifest["metadata"].get(field) or {}
        merged = {key: value for key, value in stated.items() if not key.endswith("-") and before.get(key) != value}
        merged |= {key[:-1]: None for key in stated if key.endswith("-") and key[:-1] in before}
        if merged:
            changed[field] = merged
    owners = owners_after(live, desired.owner, keep=desired.owns(live))
    if owners != owner_references(live):
        changed["ownerReferences"] = owners
    return changed


def _patch(desired: DesiredObject, live: JSONObject, body: JSONObject) -> Patch:
    meta = live["metadata"]
    stated = {name: value for name, value in body.items() if value or name != "metadata"}
    return Patch(
        desired.kind, desired.name, stated, desired.namespace, meta.get("uid", ""), meta.get("resourceVersion", "")
    )


def _other_type(desired: DesiredObject, live: JSONObject) -> bool:
    """Whether it is a secret of a type that an update cannot give it."""
    if (desired.kind.group, desired.kind.kind) != ("", "Secret"):
        return False
    return (desired.manifest.get("type") or "Opaque") != (live.get("type") or "Opaque")


def with_plain_data(content: JSONObject) -> JSONObject:
    """Fold `stringData`, which no server ever shows, into `data`; or every look would find a difference."""
    plain = content.get("stringData")
    if not plain:
        return content
    encoded = {key: msgspec.to_builtins(str(value).encode()) for key, value in plain.items()}
    data = {**(content.get("data") or {}), **encoded}
    return {**{name: value for name, value in content.items() if name != "stringData"}, "data": data}


def _content(obj: JSONObject) -> JSONObject:
    return {name: value for name, value in obj.items() if name not in _NOT_CONTENT}


def _overlay(before: Any, stated: Any) -> Any:
    """Put what is said over what is there: objects by key, lists item by item if they have the same length."""
    if isinstance(before, dict) and isinstance(stated, dict):
        return {**before, **{name: _overlay(before.get(name), value) for name, value in stated.items()}}
    if isinstance(before, list) and isinstance(stated, list) and len(before) == len(stated):
        return [_overlay(old, new) for old, new in zip(before, stated, strict=True)]
    return stated


def _keep(content: Any, before: Any, path: tuple[str, ...]) -> Any:
    """Return content with what the object has at a path, unless the content says something there."""
    name, rest = path[0], path[1:]
    if name == "*":
        known = _by_name(before)
        return [_keep(item, known.get(_item_name(item)), rest) for item in content] if _is_list(content) else content
    if not isinstance(content, dict) or not isinstance(before, dict) or name not in before:
        return content
    if not rest:
        return content if content.get(name) not in _EMPTY else {**content, name: before[name]}
    return {**content, name: _keep(content[name], before[name], rest)} if name in content else content


def _without_others_field(content: Any, stated: Any, path: tuple[str, ...]) -> Any:
    """Return content without what it has at a path where nothing is said."""
    name, rest = path[0], path[1:]
    if name == "*":
        known = _by_name(stated)
        return (
            [_without_others_field(item, known.get(_item_name(item)), rest) for item in content]
            if _is_list(content)
            else content
        )
    if not isinstance(content, dict) or name not in content:
        return content
    inside = stated.get(name) if isinstance(stated, dict) else None
    if rest:
        return {**content, name: _without_others_field(content[name], inside, rest)}
    return {key: value for key, value in content.items() if key != name or inside not in _EMPTY}


def _by_name(items: Any) -> dict[Any, Any]:
    return {_item_name(item): item for item in items} if _is_list(items) else {}


def _item_name(item: Any) -> str:
    return str(item.get("name", "")) if isinstance(item, dict) else ""


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _name(manifest: JSONObject) -> tuple[str, str]:
    return str(manifest.get("apiVersion", "")).rpartition("/")[0], str(manifest.get("kind", ""))


def _digest(obj: JSONObject) -> str:
    return sha256(msgspec.json.encode(obj, order="sorted")).hexdigest()
