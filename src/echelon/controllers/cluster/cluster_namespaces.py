"""Which namespaces are a cluster's, so that its agent may have rights there.

A cluster may have the name of a namespace that is somebody's: `kube-system`, or a tenant's. So there are rights only in
namespaces that were made for the cluster, or that an administrator has labelled for it. Until the one with its name is
so, the agent has no rights at all: whoever makes accounts in that namespace could make the agent's.
"""

import re
from collections.abc import Iterable, Mapping

from echelon.api import name_patterns
from echelon.api.meta import Condition
from echelon.api.namespaces import NAMESPACE, Namespace
from echelon.controllers.cluster.belongings import DesiredObject
from echelon.controllers.cluster.leaving import CLUSTER_LABEL
from echelon.engine.conditions import ConditionStamp, find_condition

NAMESPACE_READY = "NamespaceReady"
EXECUTION_READY = "WorkloadNamespaceReady"
_LONGEST_LABEL = 63


def strange_namespaces(cluster: str, namespaces: Mapping[str, Namespace | None]) -> dict[str, str]:
    """Return the namespaces of a cluster that are not its own, and why; `namespaces` are there, or None, by name."""
    if not re.fullmatch(name_patterns.LABEL, cluster) or len(cluster) > _LONGEST_LABEL:
        return {cluster: "its name is no DNS label, so no namespace can have it"}
    return {
        name: f"namespace {name} was not made for the cluster; if it is to be the cluster's: "
        f"kubectl label namespace {name} {CLUSTER_LABEL}={cluster}"
        for name, live in namespaces.items()
        if live is not None and live.metadata.labels.get(CLUSTER_LABEL) != cluster
    }


def is_barred(desired: DesiredObject, strange: Mapping[str, str], cluster: str) -> bool:
    """Whether an object of a cluster must not be there because of namespaces that are not the cluster's."""
    where = desired.name if desired.kind is NAMESPACE else desired.namespace or cluster
    return where in strange or cluster in strange


def namespace_conditions(
    stamp: ConditionStamp, before: list[Condition], names: Iterable[tuple[str, str]], strange: Mapping[str, str]
) -> list[Condition]:
    """Say of which namespaces an agent has no rights, and of which it has them now; `names` with their conditions."""
    said: list[Condition] = []
    for kind, name in names:
        if why := strange.get(name):
            text = f"The agent has no rights there: {why}"
            said.append(stamp.condition(kind, "False", "NamespaceNotOfCluster", text))
        elif find_condition(before, kind) is not None:
            said.append(stamp.condition(kind, "True", "NamespaceOfCluster", f"Namespace {name} is the cluster's"))
    return said
