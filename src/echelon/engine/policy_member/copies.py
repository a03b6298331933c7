"""The copy of a replica on its cluster: what makes it equal to what the hub has.

A copy has the labels, annotations and spec of its replica and nothing else: whatever is edited there is put back. How
a rollout goes on is the hub's business and none of the cluster's: a copy without `rolloutStrategy`, which the
definitions of others prune, is as good as one with it.
"""

from echelon.api.base import JSONObject
from echelon.engine.merge_patch import merge_difference
from echelon.engine.plan import Create, Patch
from echelon.engine.policy.names import CLUSTER_NAMESPACE_LABEL
from echelon.engine.policy_member.documents import POLICY_DOCUMENT, PolicyDocument
from echelon.engine.work.updating import LastApplied, last_applied_of

_HUBS_BUSINESS = "rolloutStrategy"


def copy_write(
    replica: PolicyDocument, copy: PolicyDocument | None, namespace: str, kept: LastApplied | None = None
) -> Create | Patch | None:
    """Return what makes the copy equal to its replica; `kept` is what the cluster made of the last one."""
    if copy is None:
        meta: JSONObject = {
            "name": replica.metadata.name,
            "namespace": namespace,
            "labels": _labels(replica, namespace),
            "annotations": dict(replica.metadata.annotations),
        }
        return Create(POLICY_DOCUMENT, {**POLICY_DOCUMENT.type_meta, "metadata": meta, "spec": replica.spec}, namespace)
    body: JSONObject = {}
    if metadata := _metadata_difference(replica, copy, namespace):
        body["metadata"] = metadata
    if (spec := merge_difference(copy.spec, replica.spec)) and not _is_kept(replica, copy, kept):
        body["spec"] = spec
    return Patch.of(POLICY_DOCUMENT, copy.metadata, body) if body else None


def in_step(replica: PolicyDocument, copy: PolicyDocument | None, kept: LastApplied | None = None) -> bool:
    """Whether the copy has the annotations and the spec of its replica, so that what is found there is about it."""
    if copy is None or copy.metadata.deletion_timestamp or copy.metadata.annotations != replica.metadata.annotations:
        return False
    difference = merge_difference(copy.spec, replica.spec)
    return not difference.keys() - {_HUBS_BUSINESS} or _is_kept(replica, copy, kept)


def kept_of(replica: PolicyDocument, copy: PolicyDocument) -> LastApplied | None:
    """Note what the cluster made of a spec, if that is something else: definitions of others prune and fill in."""
    return _kept(replica, copy) if merge_difference(copy.spec, replica.spec) else None


def _is_kept(replica: PolicyDocument, copy: PolicyDocument, kept: LastApplied | None) -> bool:
    return kept is not None and kept == _kept(replica, copy)


def _kept(replica: PolicyDocument, copy: PolicyDocument) -> LastApplied:
    return last_applied_of({"spec": replica.spec}, {"spec": copy.spec})


def _metadata_difference(replica: PolicyDocument, copy: PolicyDocument, namespace: str) -> JSONObject:
    before = {"labels": copy.metadata.labels, "annotations": copy.metadata.annotations}
    after = {"labels": _labels(replica, namespace), "annotations": replica.metadata.annotations}
    return merge_difference(before, after)


def _labels(replica: PolicyDocument, namespace: str) -> dict[str, str]:
    return {**replica.metadata.labels, CLUSTER_NAMESPACE_LABEL: namespace}
