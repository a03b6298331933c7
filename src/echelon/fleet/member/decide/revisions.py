"""Names of revisions: a short hash of a pod template, the same wherever and whenever it is made."""

import msgspec

from echelon.api.base import JSONObject
from echelon.api.short_hash import short_hash
from echelon.fleet.member.decide.pods import HASH_LABEL


def template_hash(template: JSONObject, collisions: int = 0) -> str:
    """Return the hash of a template; after a collision there is another one."""
    text = msgspec.json.encode(template, order="sorted") + b"#%d" % collisions
    return short_hash(text)


def without_hash(template: JSONObject) -> JSONObject:
    """Return the template of a ReplicaSet as its Deployment had it."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    kept = {name: value for name, value in labels.items() if name != HASH_LABEL}
    return {**template, "metadata": {**(template.get("metadata") or {}), "labels": kept}}


def is_made_from(made: JSONObject, template: JSONObject) -> bool:
    """Tell whether the template of a ReplicaSet is this one of a Deployment."""
    return bool(made.get("spec") == template.get("spec")) and without_hash(made) == without_hash(template)


def with_label(template: JSONObject, name: str, value: str) -> JSONObject:
    """Return a template with one more label."""
    meta = template.get("metadata") or {}
    return {**template, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), name: value}}}
