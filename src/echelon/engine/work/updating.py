"""The strategies Update and CreateOnly: what to write so that an object is what a manifest says.

Update replaces: what the manifest does not have goes. Labels, annotations, owners and finalizers are the exception,
because others put theirs there. So are fields that the server filled in and lets nobody change: without them in the
manifest, a replacement would be refused each time. A replacement whose fields the server fills in again changes
nothing, but it is a write; whoever makes it remembers what came of it (`Memory`) and spares the next one.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.work.ownership import owners_after, references

_HEAD = ("apiVersion", "kind", "metadata", "status")
# How many pods there are is often for an autoscaler to say; then the manifest does not say it.
_SCALED = (("spec", "replicas"),)
_HOOKED = (("webhooks", "*", "clientConfig", "caBundle"),)
# Fields that the server gives to an object for good, or that somebody else has if the manifest does not: who scales,
# who issues certificates. A star stands for the items of a list, which are known by their names.
_GIVEN: dict[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("apps", "Deployment"): _SCALED,
    ("apps", "ReplicaSet"): _SCALED,
    ("apps", "StatefulSet"): _SCALED,
    ("", "ReplicationController"): _SCALED,
    ("apps.kruise.io", "CloneSet"): _SCALED,
    ("apps.kruise.io", "StatefulSet"): _SCALED,
    ("", "Service"): (
        ("spec", "clusterIP"),
        ("spec", "clusterIPs"),
        ("spec", "ipFamilies"),
        ("spec", "ipFamilyPolicy"),
        ("spec", "healthCheckNodePort"),
    ),
    ("", "ServiceAccount"): (("secrets",), ("imagePullSecrets",)),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _HOOKED,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _HOOKED,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        ("spec", "conversion", "webhook", "clientConfig", "caBundle"),
    ),
    ("apiregistration.k8s.io", "APIService"): (("spec", "caBundle"),),
}
# Nearly nothing of these may change once they exist: what the manifest does not mention is left alone.
_OVERLAID = frozenset({("batch", "Job"), ("", "Pod"), ("", "PersistentVolumeClaim"), ("", "PersistentVolume")})
_ONLY_METADATA = frozenset({("", "Namespace")})
_UNSAID: tuple[Any, ...] = (None, "", [], {})


@dataclass(frozen=True)
class Memory:
    """What a manifest was when it was written, and what the server made of it."""

    manifest: str
    result: str


def remember(manifest: JSONObject, live: JSONObject) -> Memory:
    """Note what a server made of a manifest, besides what others may say there."""
    content, said = _content(live), _content(manifest)
    for path in _GIVEN.get(_name(manifest), ()):
        content = _ours(content, said, path)
    return Memory(_digest(manifest), _digest(content))


@dataclass(frozen=True)
class Wanted:
    """A manifest, and where it goes. `owner` is our record; the object `belongs` to it or is left alone by it."""

    kind: Kind[Any]
    manifest: JSONObject
    namespace: str
    owner: JSONObject
    belongs: bool

    @property
    def name(self) -> str:
        """Name of the object."""
        name: str = self.manifest["metadata"]["name"]
        return name


def update(wanted: Wanted, live: JSONObject | None, memory: Memory | None = None) -> tuple[Write, ...]:
    """Return what makes an object equal to its manifest; nothing if it is."""
    if live is None:
        return (creation(wanted),)
    if _other_type(wanted, live):
        meta = live["metadata"]
        gone = Delete(wanted.kind, wanted.name, wanted.namespace, uid=meta.get("uid", ""))
        return gone, creation(wanted)
    known = memory is not None and memory == remember(wanted.manifest, live)
    body = {} if known else _difference(_content(live), _target(wanted, live))
    metadata = _metadata_difference(wanted, live)
    if not body and not metadata:
        return ()
    return (_patch(wanted, live, {**body, "metadata": metadata}),)


def loses(wanted: Wanted, live: JSONObject, memory: Memory | None = None) -> bool:
    """Whether an object lacks something that the manifest says; what it has besides is others'."""
    if _metadata_difference(wanted, live):
        return True
    if memory is not None and memory == remember(wanted.manifest, live):
        return False
    content = _content(live)
    return bool(_overlay(content, _content(wanted.manifest)) != content)


def same(one: JSONObject, other: JSONObject) -> bool:
    """Whether two states of an object differ in nothing that a manifest could say."""
    named = ("uid", "labels", "annotations", "ownerReferences")
    before, after = ([state["metadata"].get(name) or None for name in named] for state in (one, other))
    return before == after and _content(one) == _content(other)


def create_only(wanted: Wanted, live: JSONObject | None) -> tuple[Write, ...]:
    """Return what creates an object, or makes an existing one ours."""
    return (creation(wanted),) if live is None else ownership(wanted, live)


def ownership(wanted: Wanted, live: JSONObject) -> tuple[Write, ...]:
    """Return what gives an object the owners that it should have, and nothing else."""
    owners = owners_after(live, wanted.owner, keep=wanted.belongs)
    if owners == references(live):
        return ()
    return (_patch(wanted, live, {"metadata": {"ownerReferences": owners}}),)


def creation(wanted: Wanted) -> Create:
    """Return what creates the object of a manifest."""
    body = with_metadata(wanted, {})
    if wanted.belongs:
        body["metadata"]["ownerReferences"] = [wanted.owner]
    return Create(wanted.kind, body, wanted.namespace)


def with_metadata(wanted: Wanted, more: JSONObject) -> JSONObject:
    """Return the manifest as it is sent: in its place, without an identity that is for the server to give."""
    refused = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences")
    metadata = {name: value for name, value in wanted.manifest["metadata"].items() if name not in refused}
    metadata.pop("namespace", None)
    for name in ("labels", "annotations"):
        if kept := {key: value for key, value in (metadata.get(name) or {}).items() if not key.endswith("-")}:
            metadata[name] = kept
        else:
            metadata.pop(name, None)
    if wanted.namespace:
        metadata["namespace"] = wanted.namespace
    return {**wanted.manifest, "metadata": {**metadata, **more}}


def _target(wanted: Wanted, live: JSONObject) -> JSONObject:
    """Return the content that an object should have."""
    name = (wanted.kind.group, wanted.kind.kind)
    content, before = _content(wanted.manifest), _content(live)
    if name in _ONLY_METADATA:
        return before
    if name in _OVERLAID:
        overlaid: JSONObject = _overlay(before, content)
        return overlaid
    if name == ("", "Secret"):
        content = _with_plain_data(content)
    for path in _GIVEN.get(name, ()):
        content = _keep(content, before, path)
    return content


def _metadata_difference(wanted: Wanted, live: JSONObject) -> JSONObject:
    """Return what to merge into the metadata. A key that ends in a dash asks for the removal of that key."""
    changed: JSONObject = {}
    for field in ("labels", "annotations"):
        before = live["metadata"].get(field) or {}
        said = wanted.manifest["metadata"].get(field) or {}
        merged = {key: value for key, value in said.items() if not key.endswith("-") and before.get(key) != value}
        merged |= {key[:-1]: None for key in said if key.endswith("-") and key[:-1] in before}
        if merged:
            changed[field] = merged
    owners = owners_after(live, wanted.owner, keep=wanted.belongs)
    if owners != references(live):
        changed["ownerReferences"] = owners
    return changed


def _patch(wanted: Wanted, live: JSONObject, body: JSONObject) -> Patch:
    meta = live["metadata"]
    said = {name: value for name, value in body.items() if value or name != "metadata"}
    return Patch(wanted.kind, wanted.name, said, wanted.namespace, meta.get("uid", ""), meta.get("resourceVersion", ""))


def _other_type(wanted: Wanted, live: JSONObject) -> bool:
    """Whether it is a secret of a type that an update cannot give it."""
    if (wanted.kind.group, wanted.kind.kind) != ("", "Secret"):
        return False
    return (wanted.manifest.get("type") or "Opaque") != (live.get("type") or "Opaque")


def _with_plain_data(content: JSONObject) -> JSONObject:
    """Fold `stringData`, which no server ever shows, into `data`; or every look would find a difference."""
    plain = content.get("stringData")
    if not plain:
        return content
    encoded = {key: msgspec.to_builtins(str(value).encode()) for key, value in plain.items()}
    data = {**(content.get("data") or {}), **encoded}
    return {**{name: value for name, value in content.items() if name != "stringData"}, "data": data}


def _content(obj: JSONObject) -> JSONObject:
    return {name: value for name, value in obj.items() if name not in _HEAD}


def _difference(before: JSONObject, after: JSONObject) -> JSONObject:
    """Return the merge patch between two objects; null removes."""
    patch: JSONObject = {name: None for name in before if after.get(name) is None and before[name] is not None}
    for name, value in after.items():
        old = before.get(name)
        if value is None or value == old:
            continue
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := _difference(old, value):
                patch[name] = inner
        elif value not in ({}, []) or old:
            patch[name] = value
    return patch


def _overlay(before: Any, said: Any) -> Any:
    """Put what is said over what is there: objects by key, lists item by item if they have the same length."""
    if isinstance(before, dict) and isinstance(said, dict):
        return {**before, **{name: _overlay(before.get(name), value) for name, value in said.items()}}
    if isinstance(before, list) and isinstance(said, list) and len(before) == len(said):
        return [_overlay(old, new) for old, new in zip(before, said, strict=True)]
    return said


def _keep(content: Any, before: Any, path: tuple[str, ...]) -> Any:
    """Return content with what the object has at a path, unless the content says something there."""
    name, rest = path[0], path[1:]
    if name == "*":
        known = _by_name(before)
        return [_keep(item, known.get(_item_name(item)), rest) for item in content] if _is_list(content) else content
    if not isinstance(content, dict) or not isinstance(before, dict) or name not in before:
        return content
    if not rest:
        return content if content.get(name) not in _UNSAID else {**content, name: before[name]}
    return {**content, name: _keep(content[name], before[name], rest)} if name in content else content


def _ours(content: Any, said: Any, path: tuple[str, ...]) -> Any:
    """Return content without what it has at a path where nothing is said."""
    name, rest = path[0], path[1:]
    if name == "*":
        known = _by_name(said)
        return [_ours(item, known.get(_item_name(item)), rest) for item in content] if _is_list(content) else content
    if not isinstance(content, dict) or name not in content:
        return content
    inside = said.get(name) if isinstance(said, dict) else None
    if rest:
        return {**content, name: _ours(content[name], inside, rest)}
    return {key: value for key, value in content.items() if key != name or inside not in _UNSAID}


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
