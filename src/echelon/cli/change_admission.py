"""What a hub would make of objects that somebody applies: as `kubectl apply` merges them, and as admission lets them.

With a hub, each object is sent as a dry run with the rights of whoever asks, so defaults, schemas, admission policies
and refusals are the hub's own. Without one, the schemas and rules that Echelon comes with have the word.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from echelon.api.base import JSONObject
from echelon.api.json_equality import is_same
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.cli.change_files import Document
from echelon.engine.merge_patch import merge_difference
from echelon.kube.client import Client, MergePatch, Reader, WriteOptions
from echelon.kube.errors import ApiError, Forbidden, NotFound
from echelon.rollouts.on_demand import on_demand

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SERVER_OWNED = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
_MANAGER = "echelon-plan"
_admit_offline = on_demand("echelon.cli.offline_admission", "admit_offline")  # who has a hub needs no rules of one
# Beside what the hub refuses, these are no fault of the object.
_DRY_RUN = WriteOptions(dry_run=True, field_manager=_MANAGER)


@dataclass(frozen=True)
class Changed:
    """An object of a file, as it is now and as it would be."""

    document: Document
    kind: Kind[Any]
    before: JSONObject | None
    after: JSONObject | None  # None if it is refused
    refusal: ApiError | None = None

    @property
    def key(self) -> Key:
        """Where it is."""
        return self.document.key

    @property
    def is_new(self) -> bool:
        """Whether there is none yet."""
        return self.before is None

    @property
    def differs(self) -> bool:
        """Whether it would be another one than it is, but for what a server keeps books of."""
        if self.before is None or self.after is None:
            return self.after is not None
        return not is_same(_wanted(self.before), _wanted(self.after))


class Admission(Protocol):
    """Says what becomes of an object, or raises an `ApiError`."""

    async def admit(self, kind: Kind[Any], key: Key, before: JSONObject | None, after: JSONObject) -> JSONObject:
        """Return the object as it would be stored."""
        ...


class HubAdmission:
    """A hub's own word, with the caller's rights."""

    def __init__(self, client: Client, new_namespaces: frozenset[str]) -> None:
        """`new_namespaces` are in the same files: a hub knows nothing of them, and would refuse what is in them."""
        self._client = client
        self._new = new_namespaces

    async def admit(self, kind: Kind[Any], key: Key, before: JSONObject | None, after: JSONObject) -> JSONObject:
        """Return the object as the hub would store it."""
        if key.namespace in self._new:
            return await OfflineAdmission().admit(kind, key, before, after)
        untyped = kind.untyped()
        if before is None:
            return await self._client.create(untyped, after, key.namespace, options=_DRY_RUN)
        patch = MergePatch(merge_difference(before, after))
        if not patch.body:
            return before
        return await self._client.patch(untyped, key.name, patch, key.namespace, options=_DRY_RUN)


class OfflineAdmission:
    """The schemas and rules that Echelon comes with."""

    async def admit(self, kind: Kind[Any], key: Key, before: JSONObject | None, after: JSONObject) -> JSONObject:
        """Return the object as a hub with Echelon's own definitions would store it."""
        found: JSONObject = _admit_offline(kind, key, before, after)
        return found


async def apply_files(reader: Reader, documents: Sequence[Document], admission: Admission) -> list[Changed]:
    """Return what becomes of objects that somebody applies."""
    return [await _applied(reader, each, each.kind, admission) for each in documents if each.kind is not None]


def new_namespaces(documents: Sequence[Document]) -> frozenset[str]:
    """Return the namespaces that are in the files themselves."""
    return frozenset(each.key.name for each in documents if each.kind == NAMESPACE)


async def _applied(reader: Reader, document: Document, kind: Kind[Any], admission: Admission) -> Changed:
    key = document.key
    before: JSONObject | None = None
    try:
        before = await reader.get(kind.untyped(), key.name, key.namespace)
    except NotFound:
        pass
    except Forbidden as refusal:
        return Changed(document, kind, None, None, refusal)
    try:
        admitted = await admission.admit(kind, key, before, merged(before, document.body, builtin=kind.builtin))
    except ApiError as refusal:
        if isinstance(refusal, NotFound | Forbidden) or 400 <= refusal.code < 500:
            return Changed(document, kind, before, None, refusal)
        raise
    meta = admitted["metadata"]
    meta.setdefault("uid", f"planned-{kind.singular}-{key.namespace}-{key.name}")
    return Changed(document, kind, before, {**kind.type_meta, **admitted})


def merged(before: JSONObject | None, wanted: JSONObject, *, builtin: bool = False) -> JSONObject:
    """Return an object as it is after somebody applied a file to it.

    What the file has is set, what it had when it was applied last and has no more is removed, and what others wrote
    stays. The status is not for whoever applies.
    """
    asked = copy.deepcopy({name: value for name, value in wanted.items() if name != "status"})
    for name in _SERVER_OWNED:
        asked["metadata"].pop(name, None)
    if before is None:
        return asked
    last = _last_applied(before)
    found: JSONObject = _merged(copy.deepcopy(before), asked, last, by_name=builtin)
    return found


def _merged(before: Any, wanted: Any, last: Any, *, by_name: bool) -> Any:
    if isinstance(before, dict) and isinstance(wanted, dict):
        known = last if isinstance(last, dict) else {}
        found = {name: value for name, value in before.items() if name in wanted or name not in known}
        for name, value in wanted.items():
            if value is None:
                found.pop(name, None)
            else:
                found[name] = _merged(found.get(name), value, known.get(name), by_name=by_name)
        return found
    if by_name and (there := _named(before)) and (named := _named(wanted)):
        # Lists of containers, ports and volumes are merged by name; a file has all of what it names.
        return [_merged(there.get(name), each, None, by_name=True) for name, each in named.items()]
    return wanted


def _named(value: Any) -> dict[str, Any]:
    if not isinstance(value, list) or not all(isinstance(each, dict) and "name" in each for each in value):
        return {}
    found = {each["name"]: each for each in value}
    return found if len(found) == len(value) else {}


def _last_applied(before: JSONObject) -> Any:
    text = (before["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    try:
        return msgspec.json.decode(text) if isinstance(text, str) else None
    except msgspec.DecodeError:
        return None


def content_of(document: JSONObject) -> JSONObject:
    """Return what a generation counts."""
    return {name: value for name, value in document.items() if name not in ("metadata", "status", "apiVersion", "kind")}


def _wanted(document: JSONObject) -> JSONObject:
    """Return what people decide of an object."""
    meta = document["metadata"]
    notes = {name: value for name, value in (meta.get("annotations") or {}).items() if name != _LAST_APPLIED}
    return {**content_of(document), "labels": meta.get("labels") or {}, "annotations": notes}
