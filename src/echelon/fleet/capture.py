"""A fleet in one file: what is known of its clusters, placements and rollouts, to be looked at where there is no hub.

The file is a document of the kind FleetCapture. It has objects as the hub has them, without what only the server keeps
books of, and nothing that a Secret holds. A value of a Secret is replaced by a word that is the same for the same value
within one capture, so that what differs still differs: with a key that is thrown away, nobody can try values against
it. The works of a thousand clusters mostly have one content, which is written once.
"""

import base64
import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
import yaml

from echelon.api import registry
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.times import format_time, parse_time
from echelon.engine.rollout.secret_data import SECRET_DATA
from echelon.kube.snapshot import Snapshot

API_VERSION, KIND = "echelon.dev/v1alpha1", "FleetCapture"
SHARED = "echelon.dev/shared"  # stands instead of a content, with the name that it has among the shared ones
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SMALL = 200  # characters that are not worth a name


# An alias stands for a whole tree, and a page of aliases of aliases for more than any memory holds.
MOST_PARTS = 20_000_000


class BadCapture(ValueError):
    """A file that is no capture, or one of another version."""


@dataclass(frozen=True)
class Capture:
    """What was seen of a fleet at one moment."""

    taken: datetime
    objects: tuple[JSONObject, ...] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)  # resources that could not be read, and why

    def snapshot(self) -> Snapshot:
        """Return a reader of what was seen. Objects of kinds that are not known here are left out."""
        known = ((kind_of(each), each) for each in self.objects)
        return Snapshot(((kind, each) for kind, each in known if kind is not None), self.unseen)

    def of(self, kind: Kind[Any]) -> list[JSONObject]:
        """Return the objects of a kind."""
        return [each for each in self.objects if (each["apiVersion"], each["kind"]) == (kind.api_version, kind.kind)]


def kind_of(document: JSONObject) -> Kind[Any] | None:
    """Return the kind of an object, if it is known here."""
    group, _, version = str(document.get("apiVersion", "")).rpartition("/")
    return registry.by_gvk(group, version, str(document.get("kind", "")))


def to_document(capture: Capture) -> JSONObject:
    """Return a capture as it is written."""
    redact = _Redaction(secrets.token_bytes(32))
    objects = [redact.object(each) for each in capture.objects]
    counts = Counter(_digest(each["spec"]) for each in objects if isinstance(each.get("spec"), dict))
    shared: dict[str, Any] = {}
    for each in objects:
        if isinstance(each.get("spec"), dict) and counts[name := _digest(each["spec"])] > 1 and name:
            shared[name] = each["spec"]
            each["spec"] = {SHARED: name}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "capturedAt": format_time(capture.taken),
        "unseen": dict(capture.unseen),
        "shared": shared,
        "objects": objects,
    }


def read_capture(text: bytes) -> Capture:
    """Read a capture, from JSON or YAML. Raises BadCapture."""
    document = _decoded(text)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise BadCapture(f"it is no {KIND}: echelon fleet capture writes one")
    if document.get("apiVersion") != API_VERSION:
        raise BadCapture(f'apiVersion is "{document.get("apiVersion")}": only {API_VERSION} can be read')
    shared, objects = document.get("shared") or {}, document.get("objects") or []
    taken = parse_time(str(document.get("capturedAt") or ""))
    if taken is None:
        raise BadCapture(
            f'capturedAt is "{document.get("capturedAt")}": it must be a time, such as 2026-11-01T12:00:00Z'
        )
    if not isinstance(shared, dict) or not isinstance(objects, list):
        raise BadCapture("shared must be an object, and objects a list")
    unseen = document.get("unseen") or {}
    if not isinstance(unseen, dict):
        raise BadCapture("unseen must be an object")
    found = tuple(_whole(each, shared, number) for number, each in enumerate(objects))
    return Capture(taken, found, {str(name): str(why) for name, why in unseen.items()})


def _decoded(text: bytes) -> Any:
    try:
        if text.lstrip()[:1] == b"{":
            return msgspec.json.decode(text)
        found = yaml.load(text, Loader=_LOADER)  # noqa: S506 - both are safe loaders
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadCapture(f"it cannot be read: {error}") from error
    if not is_bounded(found, MOST_PARTS):
        raise BadCapture(f"it has more than {MOST_PARTS} parts; its aliases may repeat")
    return found


def is_bounded(document: Any, most: int) -> bool:
    """Whether a document has at most so many parts, however often it has one of them."""
    left, parts = [document], 0
    while left:
        value = left.pop()
        parts += 1
        if parts > most:
            return False
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    return True


def _whole(each: Any, shared: Mapping[str, Any], number: int) -> JSONObject:
    """Return an object with the content that it shares with others."""
    if not isinstance(each, dict) or not isinstance(each.get("metadata"), dict):
        raise BadCapture(f"objects[{number}] must be an object with metadata")
    for field_, value in (
        ("apiVersion", each.get("apiVersion")),
        ("kind", each.get("kind")),
        ("metadata.name", each["metadata"].get("name")),
    ):
        if not isinstance(value, str) or not value:
            raise BadCapture(f"objects[{number}].{field_} must be a text")
    if not isinstance(each["metadata"].get("namespace", ""), str):
        raise BadCapture(f"objects[{number}].metadata.namespace must be a text")
    spec = each.get("spec")
    if not isinstance(spec, dict) or SHARED not in spec:
        return each
    if spec[SHARED] not in shared:
        raise BadCapture(f'objects[{number}].spec: nothing is shared under the name "{spec[SHARED]}"')
    return {**each, "spec": shared[spec[SHARED]]}


def _digest(value: Any) -> str:
    """Return a name for a content; none for one that is not worth it."""
    text = msgspec.json.encode(value, order="sorted")
    return hashlib.sha256(text).hexdigest()[:12] if len(text) > _SMALL else ""


@dataclass(frozen=True)
class _Redaction:
    """Puts words in the place of what Secrets hold."""

    key: bytes

    def object(self, document: JSONObject) -> JSONObject:
        """Return an object without Secrets and without what a server keeps books of."""
        found: JSONObject = self._walk(document)
        metadata = dict(found["metadata"])
        metadata.pop("managedFields", None)
        annotations = dict(metadata.get("annotations") or {})
        annotations.pop(SECRET_DATA, None)
        metadata["annotations"] = annotations
        return {**found, "metadata": metadata}

    def _applied(self, text: str) -> str:
        try:
            return msgspec.json.encode(self._walk(msgspec.json.decode(text))).decode()
        except msgspec.DecodeError:
            return ""

    def _walk(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._walk(each) for each in value]
        if not isinstance(value, dict):
            return value
        found = {name: self._walk(each) for name, each in value.items()}
        if isinstance(applied := value.get(_LAST_APPLIED), str):
            found[_LAST_APPLIED] = self._applied(applied)
        if value.get("kind") == "SecretList" and isinstance(value.get("items"), list):
            found["items"] = [
                self._walk({"kind": "Secret", **each}) for each in value["items"] if isinstance(each, dict)
            ]
        if value.get("kind") == "Secret":  # of whichever version: a template may leave that to the cluster
            if "data" in found:
                found["data"] = _each(value["data"], lambda text: base64.b64encode(self._word(text).encode()).decode())
            if "stringData" in found:
                found["stringData"] = _each(value["stringData"], self._word)
            metadata = found.get("metadata")
            if isinstance(metadata, dict) and isinstance(metadata.get("annotations"), dict):
                metadata["annotations"].pop(_LAST_APPLIED, None)
        return found

    def _word(self, value: Any) -> str:
        return f"redacted-{hmac.new(self.key, msgspec.json.encode(value), 'sha256').hexdigest()[:12]}"


def _each(values: Any, word: Callable[[Any], str]) -> Any:
    """Return what stands for the values of a Secret; whatever is no map of values is one value."""
    return {name: word(value) for name, value in values.items()} if isinstance(values, dict) else word(values)


def captured(taken: datetime, objects: Iterable[JSONObject], unseen: Mapping[str, str]) -> Capture:
    """Return what was seen, in an order that does not depend on who listed it."""

    def order(each: JSONObject) -> tuple[str, ...]:
        meta = each["metadata"]
        return each["apiVersion"], each["kind"], meta.get("namespace", ""), meta["name"]

    return Capture(taken, tuple(sorted(objects, key=order)), dict(unseen))
