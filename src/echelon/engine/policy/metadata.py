"""Labels and annotations of replicas: those of the policy, those by which replicas are found, and our own notes.

A replica has exactly these. What somebody adds or changes there is put back.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.meta import ObjectMeta
from echelon.api.policy import GROUP
from echelon.engine.policy.names import (
    CLUSTER_NAME_LABEL,
    CLUSTER_NAMESPACE_LABEL,
    COMPARE_OPTIONS,
    NOTES,
    OWN_PREFIX,
    ROOT_LABEL,
    TRIGGER_ANNOTATION,
    replica_name,
)
from echelon.engine.policy.replica import Replica

_FRAMEWORK = f"{GROUP}/"
_OF_REPLICA = NOTES | {TRIGGER_ANNOTATION}  # annotations that a replica has by itself, or never
_OF_CLUSTER = frozenset((CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL))


@dataclass(frozen=True)
class ReplicaMetadata:
    """What all replicas of a policy have in common."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @classmethod
    def of(cls, meta: ObjectMeta, spec: JSONObject) -> "ReplicaMetadata":
        """Return what a policy gives to its replicas."""
        everything = spec.get("copyPolicyMetadata") is not False
        name = replica_name(Key(meta.namespace, meta.name))
        labels = {
            key: each
            for key, each in meta.labels.items()
            if (everything or key.startswith(_FRAMEWORK)) and key not in _OF_CLUSTER
        }
        annotations = {
            key: each
            for key, each in meta.annotations.items()
            if (everything or key.startswith(_FRAMEWORK)) and not key.startswith(OWN_PREFIX) and key not in _OF_REPLICA
        }
        return cls(name, {**labels, ROOT_LABEL: name}, {**annotations, COMPARE_OPTIONS[0]: COMPARE_OPTIONS[1]})

    def new(self, cluster: str, notes: Mapping[str, str]) -> JSONObject:
        """Return the metadata of a new replica."""
        return {
            "name": self.name,
            "namespace": cluster,
            "labels": self._labels(cluster),
            "annotations": {**self.annotations, **notes},
        }

    def patch(self, replica: Replica, notes: Mapping[str, str | None]) -> JSONObject:
        """Return what changes in the metadata of a replica that is also to get, or to lose, some notes."""
        change: JSONObject = {}
        if labels := _changes(replica.labels, self._labels(replica.cluster)):
            change["labels"] = labels
        annotations = _changes(replica.copied_annotations, self.annotations)
        annotations |= {key: each for key, each in notes.items() if replica.annotations.get(key) != each}
        if annotations:
            change["annotations"] = annotations
        return change

    def _labels(self, cluster: str) -> dict[str, str]:
        return {**self.labels, CLUSTER_NAME_LABEL: cluster, CLUSTER_NAMESPACE_LABEL: cluster}


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    gone: dict[str, str | None] = {key: None for key in before if key not in after}
    return gone | {key: each for key, each in after.items() if before.get(key) != each}
