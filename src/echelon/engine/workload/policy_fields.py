"""What of a propagation policy is understood here, and what is not.

A field without effect is told to whoever wrote it. One that restricts where a workload may run is more than that: to
leave it out of account would bring the workload to clusters that were meant to be left out. A policy with such a field
chooses nothing.
"""

from collections.abc import Iterator
from typing import Any

from echelon.api.apps import DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from echelon.api.kinds import Kind
from echelon.api.kruise import CLONE_SET
from echelon.api.labels import SelectorError, from_label_selector
from echelon.api.scheduling import Toleration
from echelon.engine.placement.taints import TolerationError, validate
from echelon.engine.workload.affinity import affinity_match
from echelon.engine.workload.names import PLACEMENT
from echelon.engine.workload.selecting import Policy, same_kind

TEMPLATE_KINDS: tuple[Kind[Any], ...] = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET, CLONE_SET)
# Taints of clusters have other effects than those of nodes.
_EFFECTS = {"NoExecute": "NoSelect", "NoSchedule": "NoSelectIfNew", "PreferNoSchedule": "PreferNoSelect"}
_SCHEDULERS = ("", "default-scheduler")


def placement_of(policy: Policy) -> str:
    """Return the placement that a policy takes its clusters from, in the template's namespace; empty if from none."""
    return policy.metadata.annotations.get(PLACEMENT, "")


def tolerations_of(policy: Policy) -> list[Toleration]:
    """Return the tolerations of a policy, in the words that the taints of clusters have. Raises TolerationError."""
    found = [
        Toleration(
            key=each.key,
            operator=each.operator or "Equal",
            value=each.value,
            effect=_EFFECTS.get(each.effect, each.effect),
            toleration_seconds=each.toleration_seconds,
        )
        for each in policy.spec.placement.cluster_tolerations
    ]
    validate(found)
    return found


def without_effect(policy: Policy) -> tuple[str, ...]:
    """Return the fields of a policy that are set and change nothing."""
    return tuple(_without_effect(policy))


def _without_effect(policy: Policy) -> Iterator[str]:
    spec, placement = policy.spec, policy.spec.placement
    said = {
        "association": spec.association,
        "propagateDeps": spec.propagate_deps,
        "dependentOverrides": spec.dependent_overrides,
        "schedulerName": spec.scheduler_name not in _SCHEDULERS,
        "failover": spec.failover,
        "activationPreference": spec.activation_preference,
        "schedulePriority": spec.schedule_priority,
    }
    yield from (f"spec.{name}" for name, value in said.items() if value)
    if placement_of(policy):
        chosen = {
            "clusterAffinity": placement.cluster_affinity,
            "clusterAffinities": placement.cluster_affinities,
            "clusterTolerations": placement.cluster_tolerations,
            "spreadConstraints": placement.spread_constraints,
        }
        yield from (f"spec.placement.{name}" for name, value in chosen.items() if value)
    for number, selector in enumerate(spec.resource_selectors):
        if not any(same_kind(selector, kind.api_version, kind.kind) for kind in TEMPLATE_KINDS):
            yield f"spec.resourceSelectors[{number}] ({selector.kind} of {selector.api_version} is not propagated)"


def mistakes(policy: Policy) -> tuple[str, ...]:
    """Return what keeps a policy from choosing clusters, each with its field."""
    return tuple(_mistakes(policy))


def _mistakes(policy: Policy) -> Iterator[str]:
    placement = policy.spec.placement
    for number, selector in enumerate(policy.spec.resource_selectors):
        try:
            if selector.label_selector is not None:
                from_label_selector(selector.label_selector, f"spec.resourceSelectors[{number}].labelSelector")
        except SelectorError as mistake:
            yield str(mistake)
    if placement_of(policy):
        return
    for name, value in (
        ("clusterAffinities", placement.cluster_affinities),
        ("spreadConstraints", placement.spread_constraints),
    ):
        if value:
            yield (
                f"spec.placement.{name} is not honoured, and without it the workload would go to more clusters than"
                f" were meant: take it out, or name a Placement in the annotation {PLACEMENT}"
            )
    try:
        affinity_match(placement.cluster_affinity, "spec.placement.clusterAffinity")
    except SelectorError as mistake:
        yield str(mistake)
    try:
        tolerations_of(policy)
    except TolerationError as mistake:
        yield f"spec.placement.clusterTolerations: {mistake}"
    scheduling = placement.replica_scheduling
    weights = scheduling.weight_preference.static_weight_list if scheduling and scheduling.weight_preference else []
    for number, rule in enumerate(weights):
        where = f"spec.placement.replicaScheduling.weightPreference.staticWeightList[{number}].targetCluster"
        try:
            affinity_match(rule.target_cluster, where)
        except SelectorError as mistake:
            yield str(mistake)
