"""What becomes of the clusters of a template: who gets how many replicas, or why everything stays as it is.

A policy that suddenly means nobody is more often a typo than a wish, so that what runs goes on until somebody says that
it may go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from echelon.api.karmada import ResourceBinding, TargetCluster
from echelon.engine.rollout.control import BadControl
from echelon.engine.rollout.reasons import names
from echelon.engine.rollout.removal import read_removal
from echelon.engine.workload import hub_runs
from echelon.engine.workload.choosing import UNSETTLED, Chosen
from echelon.engine.workload.dividing import Division, divide, pod_requests
from echelon.engine.workload.policy_fields import mistakes
from echelon.engine.workload.propagation_view import PropagationView

REMOVAL_HELD = "RemovalHeld"


@dataclass(frozen=True)
class BindingOutcome:
    """What becomes of the clusters, as a condition tells it."""

    clusters: list[TargetCluster] | None  # None: they stay as they are
    status: bool
    reason: str
    message: str
    warns: bool = False
    passing: bool = False  # it will be over in a moment, and is not worth a word


def decide(view: PropagationView) -> BindingOutcome:
    """Decide what becomes of the clusters."""
    binding, policy, chosen = view.binding, view.policy, view.chosen
    has = {each.name: each.replicas for each in _targets(binding)}
    if found := hub_runs.hub_runs(view.template, propagated=bool(has)):
        why = f"{found}, so that it would run there, too: nothing is propagated"
        return BindingOutcome(None, False, hub_runs.REASON, why, warns=True)
    if policy is not None and (wrong := mistakes(policy)):
        return BindingOutcome(None, False, "PolicyNotUnderstood", "; ".join(wrong), warns=True)
    if binding is not None and binding.spec.suspension is not None and binding.spec.suspension.scheduling:
        return BindingOutcome(None, False, "Suspended", "spec.suspension.scheduling: clusters are not chosen")
    if chosen.doubt:
        return BindingOutcome(None, False, chosen.doubt, chosen.why, passing=bool(has) and chosen.doubt == UNSETTLED)
    losing = {name: replicas for name, replicas in has.items() if name not in chosen.kept}
    if not chosen.clusters and (losing or not has):
        return _nobody(chosen, binding, losing, kept=[each for each in _targets(binding) if each.name in chosen.kept])
    scheduling = policy.spec.placement.replica_scheduling if policy is not None else None
    kept = {name: has[name] for name in sorted(chosen.kept) if name in has}
    requests = pod_requests(view.template)
    divided = divide(view.replicas, scheduling, chosen.clusters, has, requests=requests, kept=kept)
    targets = [TargetCluster(name=name, replicas=divided.shares[name]) for name in sorted(divided.shares)]
    return BindingOutcome(targets, True, *_success(chosen, divided, view.replicas))


def _targets(binding: ResourceBinding | None) -> list[TargetCluster]:
    return binding.spec.clusters if binding is not None else []


def _nobody(
    chosen: Chosen, binding: ResourceBinding | None, losing: Mapping[str, int], kept: list[TargetCluster]
) -> BindingOutcome:
    """Decide what becomes of a template that no cluster is chosen for; some may keep what they have."""
    none = "no cluster is selected"
    if chosen.unbound:
        none += f": none of the {chosen.unbound} that are meant is in a set that is bound to the namespace"
    why = "; ".join((none, *_notes(chosen)))
    if not losing or binding is None or chosen.none_meant:
        return BindingOutcome(kept, False, "NoClusterFit", why, warns=True)
    try:
        covered = read_removal(binding.metadata.annotations, paused=False).approved.covers(losing)
    except BadControl as mistake:
        covered, why = frozenset(), f"{why}; {mistake}"
    if covered == losing.keys():
        return BindingOutcome(kept, False, "NoClusterFit", f"{why}; that nobody has it any more was approved")
    resource = binding.spec.resource
    command = f"echelon rollout approve {resource.kind.lower()}/{resource.name} -n {resource.namespace} --removal"
    held = (
        f"{why}: {names(list(losing))} keep it, because that may be a mistake. Correct the policy, delete the template,"
        f" or let them lose it: {command}"
    )
    return BindingOutcome(None, False, REMOVAL_HELD, held, warns=True)


def _success(chosen: Chosen, divided: Division, replicas: int) -> tuple[str, str, bool]:
    """Return reason and message of clusters that were chosen, and whether people should look at it."""
    count = len(divided.shares)
    said = ["1 cluster" if count == 1 else f"{count} clusters"]
    reasons = []
    if chosen.kept:
        reasons.append("ClusterNotBound")
        said.append(
            f"{names(sorted(chosen.kept))} are in no set that is bound to the namespace, and keep what they have"
        )
    if divided.crowded:
        reasons.append("NotEnoughCapacity")
        said.append(f"clusters report room for {replicas - divided.crowded} of {replicas} replicas")
    if divided.without:
        if replicas < count + len(divided.without):
            reasons.append("FewerReplicasThanClusters")
        said.append(f"{names(divided.without)} get no replica of {replicas}")
    reasons += ["ClusterNotFound"] if chosen.missing else []
    reasons += ["ClusterNotEligible"] if chosen.barred else []
    said += _notes(chosen)
    return (reasons or ["Success"])[0], "; ".join(said), bool(reasons)


def _notes(chosen: Chosen) -> Iterator[str]:
    if chosen.missing:
        yield f"there is no cluster {names(chosen.missing)}"
    if chosen.barred:
        yield (
            f"{names(sorted(chosen.barred))} get nothing: in no set that is bound to the namespace, not accepted,"
            " leaving, or with a name of more than 52 letters"
        )
