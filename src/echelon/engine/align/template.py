"""The revision of a pod template in one cluster, as a hash of canonical JSON.

It is taken of what is sent, after overrides, so it differs between clusters where overrides do. What a member's server
makes of the template (defaults, labels) has another hash: that shows drift, and says nothing about revisions, which
are known by the push that carried them.
"""

from echelon.api.base import JSONObject
from echelon.engine.rollout.revision import revision_of
from echelon.engine.work.health_state import part

_SET_BY_CONTROLLERS = "pod-template-hash"


def template_hash(obj: JSONObject) -> str:
    """Return the hash of an object's `spec.template`."""
    template = dict(part(obj, "spec", "template"))
    labels = part(template, "metadata", "labels")
    if _SET_BY_CONTROLLERS in labels:
        kept = {name: value for name, value in labels.items() if name != _SET_BY_CONTROLLERS}
        template["metadata"] = {**part(template, "metadata"), "labels": kept}
    return revision_of(template)
