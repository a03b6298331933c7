"""What the pods of a clique get of its template.

This is what is hashed, so it has nothing that no pod gets: labels, scheduling gates, names and environment variables
that the controller sets are left out, and the priority class of the set is in where it wins over the clique's. A pod
and its PodClique have exactly this, apart from what the controller adds.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.engine.pod_clique.names import MANAGED_LABELS, TEMPLATE_KEYS, TOPOLOGY_NAME
from echelon.engine.work.health_state import items, part, text

# Environment variables of every container; a user's entries of these names give way.
POD_VARIABLES = (
    "GROVE_PCS_NAME",
    "GROVE_PCS_INDEX",
    "GROVE_PCLQ_NAME",
    "GROVE_HEADLESS_SERVICE",
    "GROVE_PCLQ_POD_INDEX",
)
# And of the cliques of a scaling group.
GROUP_VARIABLES = ("GROVE_PCSG_NAME", "GROVE_PCSG_INDEX", "GROVE_PCSG_TEMPLATE_NUM_PODS")

_SET_BY_CONTROLLER = frozenset(("schedulingGates", "hostname", "subdomain"))
CONTAINER_LISTS = ("initContainers", "containers")


@dataclass(frozen=True)
class CliqueTemplate:
    """The labels, annotations and spec that a clique's pods have by its template."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod_spec: JSONObject

    @property
    def content(self) -> JSONObject:
        """All of it, as one object."""
        return {"labels": dict(self.labels), "annotations": dict(self.annotations), "podSpec": self.pod_spec}


def members_of(template: JSONObject) -> frozenset[str]:
    """Return the names of the cliques that are in a scaling group, from the `spec.template` of a set."""
    groups = items(template, "podCliqueScalingGroups")
    return frozenset(name for group in groups for name in group.get("cliqueNames") or () if isinstance(name, str))


def read_templates(template: JSONObject, members: Collection[str]) -> dict[str, CliqueTemplate]:
    """Return the templates of a set's cliques by name, from its `spec.template` or from that of a stored revision."""
    priority_class = text(template, "priorityClassName")
    return {
        name: read_template(clique, priority_class, member=name in members)
        for clique in items(template, "cliques")
        if (name := text(clique, "name"))
    }


def read_template(clique: JSONObject, priority_class: str, *, member: bool) -> CliqueTemplate:
    """Return the template of one clique, from its entry in a set."""
    pod_spec = part(clique, "spec", "podSpec")
    if priority_class:
        pod_spec = {**pod_spec, "priorityClassName": priority_class}
    return _template(part(clique, "labels"), part(clique, "annotations"), pod_spec, member=member)


def read_clique_template(clique_body: JSONObject, *, member: bool) -> CliqueTemplate:
    """Return the template that a PodClique was made from, whoever made it."""
    labels, annotations = read_clique_metadata(clique_body)
    return _template(labels, annotations, part(clique_body, "spec", "podSpec"), member=member)


def read_clique_metadata(clique_body: JSONObject) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that a PodClique has by its template.

    Others may have put labels and annotations on a PodClique. If it tells which ones its template has, those count.
    """
    metadata = part(clique_body, "metadata")
    labels, annotations = part(metadata, "labels"), part(metadata, "annotations")
    if (keys := read_template_keys(annotations)) is not None:
        labels = {name: value for name, value in labels.items() if name in keys.labels}
        annotations = {name: value for name, value in annotations.items() if name in keys.annotations}
    return _labels(labels), _annotations(annotations)


class TemplateKeys(NamedTuple):
    """The labels and annotations that an object has because a set says so."""

    labels: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()

    @property
    def written(self) -> str:
        """As it is noted in an annotation."""
        noted = {"labels": sorted(self.labels), "annotations": sorted(self.annotations)}
        return json.dumps(noted, separators=(",", ":"))


def read_template_keys(annotations: JSONObject) -> TemplateKeys | None:
    """Return what is noted on a child; None if nothing is, or nothing that can be read."""
    try:
        noted = json.loads(annotations[TEMPLATE_KEYS])
        return TemplateKeys(frozenset(map(str, noted["labels"])), frozenset(map(str, noted["annotations"])))
    except (KeyError, TypeError, ValueError):
        return None


def _template(labels: JSONObject, annotations: JSONObject, pod_spec: JSONObject, *, member: bool) -> CliqueTemplate:
    given = frozenset(POD_VARIABLES + GROUP_VARIABLES if member else POD_VARIABLES)
    # Nulls are rare, and looking for them costs a fiftieth of taking them out.
    if b"null" in msgspec.json.encode(pod_spec):
        pod_spec = _without_nulls(pod_spec)
    spec: JSONObject = {name: value for name, value in pod_spec.items() if name not in _SET_BY_CONTROLLER}
    for name in CONTAINER_LISTS:
        if isinstance(containers := spec.get(name), list):
            spec[name] = [_without_variables(each, given) for each in containers]
    return CliqueTemplate(_labels(labels), _annotations(annotations), spec)


def _labels(labels: JSONObject) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name not in MANAGED_LABELS}


def _annotations(annotations: JSONObject) -> dict[str, str]:
    return {name: value for name, value in annotations.items() if name not in (TOPOLOGY_NAME, TEMPLATE_KEYS)}


def _without_nulls(value: JSON) -> JSON:
    """Return a value without fields that are null: no patch could ever bring them about."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _without_variables(container: JSON, names: frozenset[str]) -> JSON:
    """Return a container without variables of these names."""
    env = container.get("env") if isinstance(container, dict) else None
    if not isinstance(env, list) or not any(_variable(each) in names for each in env):
        return container
    kept = [each for each in env if _variable(each) not in names]
    rest = {name: value for name, value in container.items() if name != "env"}
    return {**rest, "env": kept} if kept else rest


def _variable(entry: JSON) -> str:
    return text(entry, "name") if isinstance(entry, dict) else ""
