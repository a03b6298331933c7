"""What works hold: a template, its digest, and the patch that turns one content into another.

Whether a work is up to date is decided by its content and nothing else, so that one that was edited by hand, or written
by another hub, is judged by what is in it. Two contents are equal if they mean the same to Echelon: a field that a
server filled with its default, or the empty creation time that Go clients send, makes no difference. What is *written*
is the template as the user gave it, with fields that Echelon does not know.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.work import ManifestWorkSpec
from echelon.engine.rollout.revision import revision_of

TEMPLATE = "manifestWorkTemplate"  # the field of the spec
MAX_BYTES = 500 * 1024
_DELETE_OPTIONS = ("propagationPolicy", "selectivelyOrphans", "ttlSecondsAfterFinished")


@dataclass(frozen=True)
class Content:
    """A template as it was given, the digest of what it means, and what is wrong with it."""

    template: JSONObject
    digest: str
    problem: str = ""


NO_CONTENT = Content({}, "", "spec.manifestWorkTemplate: there is none, and a work needs at least one manifest")


def read_content(template: JSONObject | None) -> Content:
    """Read a template."""
    if template is None:
        return NO_CONTENT
    try:
        spec = msgspec.convert(template, ManifestWorkSpec)
    except msgspec.ValidationError as error:
        return Content(template, "", f"spec.manifestWorkTemplate: {error}")
    return Content(template, digest_of(spec), _problem(template, spec))


def digest_of(spec: ManifestWorkSpec) -> str:
    """Return the digest of what a work holds."""
    return revision_of(_meaning(spec))


def patch_to(before: ManifestWorkSpec, after: JSONObject) -> JSONObject:
    """Return the merge patch that replaces a spec. A merge keeps what is not named, so what is to go is named, too."""
    gone: JSONObject = {field.encode_name: None for field in msgspec.structs.fields(ManifestWorkSpec)}
    patch = gone | after
    options = after.get("deleteOption")
    if before.delete_option is not None and isinstance(options, dict):
        patch["deleteOption"] = dict.fromkeys(_DELETE_OPTIONS) | options
        keep = options.get("selectivelyOrphans")
        if isinstance(keep, dict):
            patch["deleteOption"]["selectivelyOrphans"] = {"orphaningRules": None} | keep
    if before.executor is not None and isinstance(after.get("executor"), dict):
        patch["executor"] = _replaced(msgspec.to_builtins(before.executor), after["executor"])
    return patch


def _replaced(before: JSONObject, after: JSONObject) -> JSONObject:
    patch: JSONObject = dict.fromkeys(before) | after
    for name, value in after.items():
        if isinstance(value, dict) and isinstance(before.get(name), dict):
            patch[name] = _replaced(before[name], value)
    return patch


def _meaning(spec: ManifestWorkSpec) -> JSONObject:
    found: JSONObject = msgspec.to_builtins(spec)
    workload = found.get("workload", {})
    manifests = workload.get("manifests", [])
    if any("creationTimestamp" in place for manifest in manifests for place in _metadata(manifest)):
        workload["manifests"] = [_without_times(manifest) for manifest in manifests]
    return found


def _metadata(manifest: JSONObject) -> list[JSONObject]:
    """Return the metadata of an object, and of the template in it."""
    places: list[Any] = [manifest.get("metadata")]
    spec = manifest.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    places.append(template.get("metadata") if isinstance(template, dict) else None)
    return [place for place in places if isinstance(place, dict)]


def _without_times(manifest: JSONObject) -> JSONObject:
    # Through JSON and back: what the cache holds must not be changed.
    copied: JSONObject = msgspec.json.decode(msgspec.json.encode(manifest))
    for place in _metadata(copied):
        place.pop("creationTimestamp", None)
    return copied


def _problem(template: JSONObject, spec: ManifestWorkSpec) -> str:
    """Return what a server with upstream's admission would have refused."""
    where, manifests = "spec.manifestWorkTemplate.workload.manifests", spec.workload.manifests
    if not manifests:
        return f"{where}: a work needs at least one manifest"
    if (size := len(msgspec.json.encode(template["workload"]["manifests"]))) > MAX_BYTES:
        return f"{where}: {size} bytes, and no more than {MAX_BYTES} are allowed"
    seen: dict[tuple[str, ...], int] = {}
    for number, manifest in enumerate(manifests):
        metadata = manifest.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        if not metadata.get("name") or metadata.get("generateName"):
            return (
                f"{where}[{number}].metadata.name: a manifest needs a name of its own, and generateName gives it none"
            )
        named = (manifest.get("apiVersion"), manifest.get("kind"), metadata.get("namespace"), metadata["name"])
        identity = tuple(str(part or "") for part in named)
        if identity in seen:
            return f"{where}[{number}]: the same object as [{seen[identity]}]: {' '.join(filter(None, identity))}"
        seen[identity] = number
    return ""
