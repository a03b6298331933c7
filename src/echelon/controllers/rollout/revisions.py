"""The cache of stored revisions, shared by all kinds of rollout: a revision says by a label whose it is."""

from collections.abc import Iterator
from typing import Any

from echelon.api.controller_revisions import CONTROLLER_REVISION, ControllerRevision
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.policy import POLICY
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.context import ControllerContext
from echelon.engine.policy.names import POLICY_LABEL
from echelon.engine.work_set.names import SET_LABEL
from echelon.engine.workload.names import BINDING_LABEL
from echelon.kube.informer import Informer

_LABELS: dict[str, Kind[Any]] = {
    SET_LABEL: MANIFEST_WORK_REPLICA_SET,
    POLICY_LABEL: POLICY,
    BINDING_LABEL: RESOURCE_BINDING,
}


def revisions_informer(context: ControllerContext) -> Informer[ControllerRevision]:
    """Return the cache of revisions, by the object that each is of."""
    return context.informer(CONTROLLER_REVISION, indexers={"object": _objects})


def revisions_of(revisions: Informer[ControllerRevision], kind: Kind[Any], key: Key) -> list[ControllerRevision]:
    """Return the revisions with the label of an object, in its namespace: elsewhere others may write."""
    labelled = revisions.by_index("object", _index(kind, f"{key.namespace}.{key.name}"))
    return [each for each in labelled if each.metadata.namespace == key.namespace]


def objects_of(revision: ControllerRevision, kind: Kind[Any]) -> list[Key]:
    """Return the object of a kind that a revision is of. A namespace has no dots, a name may have some."""
    label = next(label for label, each in _LABELS.items() if each.resource == kind.resource)
    namespace, _, name = revision.metadata.labels.get(label, "").partition(".")
    return [Key(namespace, name)] if namespace and name else []


def _objects(revision: ControllerRevision) -> Iterator[str]:
    for label, kind in _LABELS.items():
        if value := revision.metadata.labels.get(label):
            yield _index(kind, value)


def _index(kind: Kind[Any], value: str) -> str:
    return f"{kind.resource}/{value}"
