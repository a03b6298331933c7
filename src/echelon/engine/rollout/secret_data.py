"""What Secrets in a content hold, kept apart from the stored revisions.

Many may read ControllerRevisions: Kubernetes' role `view` does, which is kept from Secrets on purpose. So a revision is
stored without what the Secrets in it hold, and that is kept on the rolled out object itself, in an annotation: whoever
may read it there may read the present template, Secrets and all. A revision that is put back gets it from there. What
is too much for an annotation is left out, the oldest first, and a revision without it is none to go back to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.engine.rollout.stored_revision import StoredRevision

SECRET_DATA = "echelon.dev/secret-data"  # noqa: S105 - the name of an annotation
LONGEST = 128_000  # of the 262,144 characters that all annotations of an object may have
# Stands in a stored revision for what a Secret holds.
WITHHELD = {"echelon.dev/withheld": ""}
_FIELDS = ("data", "stringData")

_Held = list[tuple[list[str | int], Any]]  # where something was, and what


def without_secrets(content: JSONObject) -> tuple[JSONObject, _Held]:
    """Return a content without what its Secrets hold, and that."""
    held: _Held = [
        ([*path, field], secret[field])
        for path, secret in _secrets(content, [])
        for field in _FIELDS
        if secret.get(field)
    ]
    if not held:
        return content, held
    public: JSONObject = msgspec.json.decode(msgspec.json.encode(content))
    for path, _ in held:
        _parent(public, path)[path[-1]] = dict(WITHHELD)
    return public, held


def restored(revisions: Sequence[StoredRevision], annotations: Mapping[str, str]) -> tuple[StoredRevision, ...]:
    """Return revisions with what their Secrets hold; without any content where that is not known."""
    if not any(each.content is not None and _is_withheld(each.content) for each in revisions):
        return tuple(revisions)
    known = _decoded(annotations.get(SECRET_DATA, ""))
    return tuple(_restored(each, known.get(each.revision, [])) for each in revisions)


def encode(revision: str, content: JSONObject, revisions: Sequence[StoredRevision]) -> str | None:
    """Return what the annotation is to say, for the present content and the revisions that are kept; None for nothing.

    `revisions` are as `restored` returned them, oldest first.
    """
    found = {each.revision: held for each in revisions if each.content and (held := without_secrets(each.content)[1])}
    found.pop(revision, None)
    if held := without_secrets(content)[1]:
        found[revision] = held  # the last to be left out
    while found:
        text = msgspec.json.encode(found).decode()
        if len(text) <= LONGEST:
            return text
        del found[next(iter(found))]
    return None


def _restored(revision: StoredRevision, held: _Held) -> StoredRevision:
    if revision.content is None or not _is_withheld(revision.content):
        return revision
    content: JSONObject = msgspec.json.decode(msgspec.json.encode(revision.content))
    for path, value in held:
        try:
            parent = _parent(content, path)
            if parent[path[-1]] == WITHHELD:
                parent[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue
    if _is_withheld(content):
        return replace(revision, content=None, secrets_lost=True)
    return replace(revision, content=content)


def _secrets(value: Any, path: list[str | int]) -> Iterator[tuple[list[str | int], JSONObject]]:
    if isinstance(value, dict):
        if value.get("kind") == "Secret" and value.get("apiVersion") == "v1":
            yield path, value
            return
        for name, inside in value.items():
            yield from _secrets(inside, [*path, name])
    elif isinstance(value, list):
        for number, inside in enumerate(value):
            yield from _secrets(inside, [*path, number])


def _parent(value: Any, path: Sequence[str | int]) -> Any:
    for step in path[:-1]:
        value = value[step]
    return value


def _is_withheld(content: JSONObject) -> bool:
    return any(secret.get(field) == WITHHELD for _, secret in _secrets(content, []) for field in _FIELDS)


def _decoded(text: str) -> dict[str, _Held]:
    try:
        return msgspec.json.decode(text, type=dict[str, _Held])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}
