"""Pods, made from their PodClique.

A pod has what its PodClique has, so the template hash on it and its spec always agree, whatever has become of the set
meanwhile. To that come its place in the gang, the variables by which its program learns who it is, and the scheduling
gate that holds it until its gang is complete.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count, islice

from echelon.api.base import JSON, JSONObject
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE
from echelon.api.groverules import MOST_PODS
from echelon.engine.pod_clique.names import (
    CLIQUE,
    GATE,
    GROUP_INDEX,
    MANAGED_BY,
    MANAGED_LABELS,
    OPERATOR,
    PART_OF,
    POD_INDEX,
    CliqueKey,
    pod_hostname,
    pod_name,
    service_address,
    service_name,
)
from echelon.engine.pod_clique.set_spec import SetSpec, Settings
from echelon.engine.pod_clique.startup import parents, waiter, waiter_volumes
from echelon.engine.pod_clique.template import CONTAINER_LISTS, read_clique_metadata
from echelon.engine.work.health_state import part, text


@dataclass(frozen=True)
class PodMaker:
    """What the pods of a PodClique have in common, so that a plan with a hundred of them finds it out once."""

    clique: str
    uid: str
    metadata: JSONObject
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: JSONObject

    def pod(self, index: int, predecessor_uid: str, annotations: Mapping[str, str] | None = None) -> JSONObject:
        """Return a pod.

        `predecessor_uid` is that of the pod that had the index before, as far as anybody knows; `annotations` are for
        the controller's own notes.
        """
        made: JSONObject = {
            "name": pod_name(self.clique, self.uid, index, predecessor_uid),
            **self.metadata,
            "labels": {**self.labels, POD_INDEX: str(index)},
        }
        if noted := {**self.annotations, **(annotations or {})}:
            made["annotations"] = noted
        return {
            **POD.type_meta,
            "metadata": made,
            "spec": {**self.spec, "hostname": pod_hostname(self.clique, index)},
        }


def pod_maker(
    clique_body: JSONObject, set_body: JSONObject, spec: SetSpec, key: CliqueKey, settings: Settings
) -> PodMaker:
    """Return what makes pods of a PodClique."""
    metadata = part(clique_body, "metadata")
    clique, uid, namespace = (text(metadata, field) for field in ("name", "uid", "namespace"))
    set_name = text(part(set_body, "metadata"), "name")
    labels, given = read_clique_metadata(clique_body)
    managed = {name: value for name, value in part(metadata, "labels").items() if name in MANAGED_LABELS}
    pod_spec = dict(part(clique_body, "spec", "podSpec"))
    variables = _variables(set_name, key, clique, namespace)
    for field in CONTAINER_LISTS:
        if isinstance(containers := pod_spec.get(field), list):
            pod_spec[field] = [with_variables(each, variables) for each in containers]
    if waits_for := parents(spec, set_name, key):
        pod_spec["initContainers"] = [*(pod_spec.get("initContainers") or ()), waiter(waits_for, settings.init_image)]
        pod_spec["volumes"] = [*(pod_spec.get("volumes") or ()), *waiter_volumes(set_name)]
    pod_spec |= {"schedulingGates": [{"name": GATE}], "subdomain": service_name(set_name, key.replica)}
    owner = {**POD_CLIQUE.owner_reference(clique, uid), "controller": True, "blockOwnerDeletion": True}
    return PodMaker(
        clique,
        uid,
        {"namespace": namespace, "ownerReferences": [owner]},
        {MANAGED_BY: OPERATOR, PART_OF: set_name, **labels, **managed, CLIQUE: clique},
        given,
        pod_spec,
    )


def free_indices(taken: Collection[int], wanted: int) -> tuple[int, ...]:
    """Return the lowest indices that no live pod has, holes first; never more than a clique may have pods."""
    used = frozenset(taken)
    return tuple(islice((index for index in count() if index not in used), min(max(wanted, 0), MOST_PODS)))


def with_variables(container: JSON, variables: list[JSONObject]) -> JSON:
    """Return a container with variables before its own; its own of the same names give way."""
    if not isinstance(container, dict):
        return container
    names = {each["name"] for each in variables}
    own = [each for each in container.get("env") or () if not (isinstance(each, dict) and each.get("name") in names)]
    return {**container, "env": [*variables, *own]}


def label_variable(name: str, label: str) -> JSONObject:
    """Return a variable that has the value of a label of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}


def group_variables(group: str, pods: int) -> list[JSONObject]:
    """Return the variables of the pods of a scaling group, which their PodCliques have."""
    return [
        {"name": "GROVE_PCSG_NAME", "value": group},
        label_variable("GROVE_PCSG_INDEX", GROUP_INDEX),
        {"name": "GROVE_PCSG_TEMPLATE_NUM_PODS", "value": str(pods)},
    ]


def _variables(set_name: str, key: CliqueKey, clique: str, namespace: str) -> list[JSONObject]:
    return [
        {"name": "GROVE_PCS_NAME", "value": set_name},
        {"name": "GROVE_PCS_INDEX", "value": str(key.replica)},
        {"name": "GROVE_PCLQ_NAME", "value": clique},
        {"name": "GROVE_HEADLESS_SERVICE", "value": service_address(set_name, key.replica, namespace)},
        label_variable("GROVE_PCLQ_POD_INDEX", POD_INDEX),
    ]
