"""What the PodCliques, scaling groups and gangs of a set look like, and what to patch where one differs.

Of a child that exists, what the set says is put right and everything else is left alone: its size, which people and
autoscalers change there, and labels and annotations of others. Which labels and annotations came from the set is noted
on the child, so that those that the set drops can be told from those of others.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from echelon.api.base import JSONObject
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.podgangs import POD_GANG
from echelon.engine.merge_patch import merge_difference
from echelon.engine.pod_clique import names
from echelon.engine.pod_clique.names import TEMPLATE_HASH, TEMPLATE_KEYS
from echelon.engine.pod_clique.pods import group_variables, with_variables
from echelon.engine.pod_clique.set_spec import AutoScaling, SetSpec
from echelon.engine.pod_clique.shape import ExpectedClique, ExpectedGang, ExpectedGroup
from echelon.engine.pod_clique.startup import parents
from echelon.engine.pod_clique.template import CONTAINER_LISTS, TemplateKeys, read_template_keys
from echelon.engine.work.health_state import part, text

# Not mirrored from a set to its gangs: how Grove and Echelon talk to it, and what kubectl notes on it.
_NOT_MIRRORED = ("grove.io/", "echelon.dev/", "kubectl.kubernetes.io/")


def clique_body(set_body: JSONObject, spec: SetSpec, wanted: ExpectedClique, owner: JSONObject) -> JSONObject:
    """Return a PodClique as it is created; its owner is the set, or the scaling group that it is in."""
    key, template = wanted.key, wanted.spec.template
    set_name = text(part(set_body, "metadata"), "name")
    labels = managed(set_name, wanted.name, names.STANDALONE_CLIQUE if key.standalone else names.MEMBER_CLIQUE)
    labels |= {names.REPLICA_INDEX: str(key.replica), names.GANG: wanted.gang, TEMPLATE_HASH: wanted.spec.hash}
    pod_spec = template.pod_spec
    if not key.standalone:
        labels |= {names.GROUP: wanted.group, names.GROUP_INDEX: str(key.group_replica)}
        pod_spec = _in_group(pod_spec, wanted.group, spec, key.group)
    if wanted.base_gang:
        labels[names.BASE_GANG] = wanted.base_gang
    body: JSONObject = {
        "roleName": wanted.spec.role,
        "podSpec": pod_spec,
        "replicas": wanted.replicas,
        "minAvailable": wanted.spec.min_available,
    }
    if before := parents(spec, set_name, key):
        body["startsAfter"] = [each.name for each in before]
    if wanted.spec.autoscaling is not None:
        body["autoScalingConfig"] = _autoscaling(wanted.spec.autoscaling)
    given = _Given(template.labels, template.annotations)
    return _child(POD_CLIQUE, _named(wanted.name, set_body, owner), labels, given, body)


def clique_patch(existing: JSONObject, wanted: JSONObject, *, keep_template: bool = False) -> JSONObject | None:
    """Return what to merge into a PodClique, or None; its size is never touched.

    With `keep_template` its pods are to stay as they are: a clique of a group that is rolled replica by replica.
    """
    if not keep_template:
        return _patch(existing, wanted, _without(wanted, "replicas"), owned=("replicas",))
    ours = {**wanted, "metadata": {**wanted["metadata"], "annotations": {}}}
    keys = {name: value for name, value in part(wanted, "metadata", "labels").items() if name in names.MANAGED_LABELS}
    keys.pop(TEMPLATE_HASH)
    ours["metadata"]["labels"] = keys
    return _patch(existing, ours, _without(wanted, "replicas", "podSpec"), owned=("replicas", "podSpec"), removes=False)


def group_body(set_body: JSONObject, wanted: ExpectedGroup) -> JSONObject:
    """Return a PodCliqueScalingGroup as it is created."""
    set_name = text(part(set_body, "metadata"), "name")
    labels = managed(set_name, wanted.name, names.SCALING_GROUP) | {names.REPLICA_INDEX: str(wanted.key.replica)}
    spec = {
        "replicas": wanted.replicas,
        "minAvailable": wanted.spec.min_available,
        "cliqueNames": list(wanted.spec.clique_names),
    }
    owner = owner_of(POD_CLIQUE_SET, set_body)
    metadata = _named(wanted.name, set_body, owner)
    return _child(POD_CLIQUE_SCALING_GROUP, metadata, labels, _Given({}, wanted.spec.annotations), spec)


def group_patch(existing: JSONObject, wanted: JSONObject) -> JSONObject | None:
    """Return what to merge into a PodCliqueScalingGroup, or None; its size is never touched."""
    return _patch(existing, wanted, _without(wanted, "replicas"), owned=("replicas",))


def gang_body(
    set_body: JSONObject, spec: SetSpec, wanted: ExpectedGang, pods: Mapping[str, Sequence[str]]
) -> JSONObject:
    """Return a PodGang as it is created; `pods` has the names of the pods to list for each PodClique."""
    metadata = part(set_body, "metadata")
    namespace = text(metadata, "namespace")
    labels = {
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: text(metadata, "name"),
        names.COMPONENT: names.POD_GANG,
        names.SCHEDULER: spec.scheduler,
    }
    body: JSONObject = {
        "podgroups": [
            {
                "name": each.name,
                "podReferences": [{"namespace": namespace, "name": pod} for pod in sorted(pods.get(each.name, ()))],
                "minReplicas": each.spec.min_available,
            }
            for each in wanted.cliques
        ]
    }
    if spec.priority_class:
        body["priorityClassName"] = spec.priority_class
    given = _Given(_mirrored(part(metadata, "labels")), _mirrored(part(metadata, "annotations")))
    return _child(POD_GANG, _named(wanted.name, set_body, owner_of(POD_CLIQUE_SET, set_body)), labels, given, body)


def gang_patch(existing: JSONObject, wanted: JSONObject) -> JSONObject | None:
    """Return what to merge into a PodGang, or None; what schedulers put into it stays."""
    spec = {"priorityClassName": None, **wanted["spec"]}
    return _patch(existing, wanted, spec, owned=tuple(part(existing, "spec").keys() - spec.keys()))


def owner_of(kind: Kind[Any], body: JSONObject) -> JSONObject:
    """Return the reference by which a child belongs to an object."""
    metadata = part(body, "metadata")
    reference = kind.owner_reference(text(metadata, "name"), text(metadata, "uid"))
    return {**reference, "controller": True, "blockOwnerDeletion": True}


def managed(set_name: str, name: str, component: str) -> dict[str, str]:
    """Return the labels of a child."""
    return {
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: set_name,
        names.NAME: name.replace(":", "-"),
        names.COMPONENT: component,
    }


class _Given(NamedTuple):
    """Labels and annotations that a set gives to a child."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def _child(
    kind: Kind[Any], metadata: JSONObject, labels: Mapping[str, str], given: _Given, spec: JSONObject
) -> JSONObject:
    """Return a child. What the set gives never wins over what the controller goes by."""
    keys = TemplateKeys(frozenset(given.labels) - labels.keys(), frozenset(given.annotations))
    return {
        **kind.type_meta,
        "metadata": {
            **metadata,
            "labels": {**given.labels, **labels},
            "annotations": {**given.annotations, TEMPLATE_KEYS: keys.written},
        },
        "spec": spec,
    }


def _named(name: str, set_body: JSONObject, owner: JSONObject) -> JSONObject:
    return {"name": name, "namespace": text(part(set_body, "metadata"), "namespace"), "ownerReferences": [owner]}


def _patch(
    existing: JSONObject, wanted: JSONObject, spec: JSONObject, *, owned: Collection[str], removes: bool = True
) -> JSONObject | None:
    """Return what makes a child what is wanted, or None. `owned` are fields of its spec that others own."""
    metadata: JSONObject = {}
    noted = read_template_keys(part(existing, "metadata", "annotations")) if removes else None
    for field, came in (("labels", noted and noted.labels), ("annotations", noted and noted.annotations)):
        there, ours = part(existing, "metadata", field), part(wanted, "metadata", field)
        change: JSONObject = {name: None for name in came or () if name in there and name not in ours}
        change |= {name: value for name, value in ours.items() if there.get(name) != value}
        if change:
            metadata[field] = change
    others = {name: value for name, value in part(existing, "spec").items() if name not in owned}
    patch: JSONObject = {"metadata": metadata} if metadata else {}
    if change := merge_difference(others, spec):
        patch["spec"] = change
    return patch or None


def _without(wanted: JSONObject, *fields: str) -> JSONObject:
    return {name: value for name, value in wanted["spec"].items() if name not in fields}


def _in_group(pod_spec: JSONObject, group: str, spec: SetSpec, group_name: str) -> JSONObject:
    """Return the spec of pods of a group's clique, with the variables by which they learn about their group."""
    pods = sum(each.replicas for each in spec.members(spec.group[group_name]))
    variables = group_variables(group, pods)
    found = dict(pod_spec)
    for field in CONTAINER_LISTS:
        if isinstance(containers := found.get(field), list):
            found[field] = [with_variables(each, variables) for each in containers]
    return found


def _autoscaling(config: AutoScaling) -> JSONObject:
    found: JSONObject = {"minReplicas": config.min_replicas, "maxReplicas": config.max_replicas}
    return {**found, "metrics": list(config.metrics)} if config.metrics else found


def _mirrored(entries: JSONObject) -> JSONObject:
    return {name: value for name, value in entries.items() if not name.startswith(_NOT_MIRRORED)}
