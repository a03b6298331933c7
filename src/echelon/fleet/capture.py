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

from echelon.api import registry
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.times import format_time, parse_time
from echelon.api.yaml_documents import UnreadableYaml, read_documents
from echelon.engine.rollout.secret_data import SECRET_DATA
from echelon.kube.snapshot import Snapshot

API_VERSION, KIND = "echelon.dev/v1alpha1", "FleetCapture"
SHARED = "echelon.dev/shared"  # stands instead of a content, with the name that it has among the shared ones
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SECRET = {"apiVersion": "v1", "kind": "Secret"}
_OF_SECRETS = ("SecretList",)  # whose items need not say what they are
_OF_SECRET = ("/data", "/stringData")  # where an override would put something into a Secret
_RAW = "object-templates-raw"  # of a configuration policy: a text that may have Secrets anywhere
_SMALL = 200  # characters that are not worth a name


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
        documents = read_documents(text.decode())
    except (msgspec.DecodeError, UnreadableYaml, UnicodeDecodeError, RecursionError) as error:
        raise BadCapture(f"it cannot be read: {error}") from error
    return documents[0] if len(documents) == 1 else None


def _whole(each: Any, shared: Mapping[str, Any], number: int) -> JSONObject:
    """Return an object with the content that it shares with others."""
    metadata = each.get("metadata") if isinstance(each, dict) else None
    if not isinstance(metadata, dict):
        raise BadCapture(f"objects[{number}] must be an object with metadata")
    texts = {"apiVersion": each.get("apiVersion"), "kind": each.get("kind"), "metadata.name": metadata.get("name")}
    for path, value in texts.items():
        if not isinstance(value, str) or not value:
            raise BadCapture(f"objects[{number}].{path} must be a text")
    if not isinstance(metadata.get("namespace", ""), str):
        raise BadCapture(f"objects[{number}].metadata.namespace must be a text")
    spec = each.get("spec")
    if not isinstance(spec, dict) or SHARED not in spec:
        return dict(each)
    if not isinstance(spec[SHARED], str) or spec[SHARED] not in shared:
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
        annotations = metadata.pop("annotations", None)
        return {**found, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}

    def _annotations(self, annotations: JSONObject) -> JSONObject:
        """Return what people noted on an object, wherever it stands, without what tools keep of Secrets there."""
        found = {name: value for name, value in annotations.items() if name != SECRET_DATA}
        if _LAST_APPLIED in found:
            found[_LAST_APPLIED] = self._text(found[_LAST_APPLIED])
        return found

    def _text(self, text: Any) -> str:
        """Return an object that is written as a text: nothing of it if it cannot be read."""
        try:
            return msgspec.json.encode(self._walk(msgspec.json.decode(text))).decode()
        except (msgspec.MsgspecError, RecursionError, TypeError, UnicodeError):
            return ""

    def _walk(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._walk(each) for each in value]
        if not isinstance(value, dict):
            return value
        found = {name: self._walk(each) for name, each in value.items()}
        if isinstance(found.get("annotations"), dict):
            found["annotations"] = self._annotations(found["annotations"])
        if value.get("kind") in _OF_SECRETS and isinstance(value.get("items"), list):
            found["items"] = [
                self._walk({**_SECRET, **each} if isinstance(each, dict) else each) for each in value["items"]
            ]
        if value.get("kind") == _SECRET["kind"]:  # of whichever version: a template may leave that to the cluster
            self._hide(found, value)
        if isinstance(found.get("overriders"), dict):
            found["overriders"] = self._overriders(found["overriders"])
        if _RAW in found:
            found[_RAW] = self._word(found[_RAW])
        return found

    def _hide(self, found: JSONObject, secret: JSONObject) -> None:
        if "data" in found:
            found["data"] = _each(secret["data"], lambda text: base64.b64encode(self._word(text).encode()).decode())
        if "stringData" in found:
            found["stringData"] = _each(secret["stringData"], self._word)
        metadata = found.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("annotations"), dict):
            metadata["annotations"].pop(_LAST_APPLIED, None)

    def _overriders(self, overriders: JSONObject) -> JSONObject:
        """Return what is put into the place of something, without what may be a Secret's."""
        texts = overriders.get("plaintext")
        if not isinstance(texts, list):
            return overriders
        hidden = [
            {**each, "value": self._word(each["value"])}
            if isinstance(each, dict) and "value" in each and str(each.get("path", "")).startswith(_OF_SECRET)
            else each
            for each in texts
        ]
        return {**overriders, "plaintext": hidden}

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
