"""Names of revisions: a short hash of a pod template, the same wherever and whenever it is made."""

import hashlib

import msgspec

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.pods import HASH_LABEL

# The letters of generated names: no vowels, so no words.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 10


def template_hash(template: JSONObject, collisions: int = 0) -> str:
    """Return the hash of a template; after a collision there is another one."""
    text = msgspec.json.encode(template, order="sorted") + b"#%d" % collisions
    number = int.from_bytes(hashlib.sha256(text).digest()[:8])
    letters = []
    for _ in range(_LENGTH):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)


def without_hash(template: JSONObject) -> JSONObject:
    """Return the template of a ReplicaSet as its Deployment had it."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    kept = {name: value for name, value in labels.items() if name != HASH_LABEL}
    return {**template, "metadata": {**(template.get("metadata") or {}), "labels": kept}}


def with_label(template: JSONObject, name: str, value: str) -> JSONObject:
    """Return a template with one more label."""
    meta = template.get("metadata") or {}
    return {**template, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), name: value}}}
