"""ReplicaSet: so many pods, no fewer and no more."""

from collections.abc import Sequence

import msgspec

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.pods import PodView, least_missed_first


class Correction(msgspec.Struct, frozen=True):
    """How to come from the pods that are there to those that are wanted."""

    create: int = 0
    delete: tuple[str, ...] = ()


def correct(replicas: int, pods: Sequence[PodView]) -> Correction:
    """Decide which pods come or go; those that have ended or are ending count for nothing."""
    active = [pod for pod in pods if pod.active]
    surplus = len(active) - replicas
    if surplus > 0:
        return Correction(delete=tuple(pod.name for pod in least_missed_first(active)[:surplus]))
    return Correction(create=-surplus)


def status(pods: Sequence[PodView], min_ready_seconds: float, generation: int, now: float) -> JSONObject:
    """Report on the pods."""
    active = [pod for pod in pods if pod.active]
    ready = sum(pod.ready for pod in active)
    available = sum(pod.available(min_ready_seconds, now) for pod in active)
    report: JSONObject = {"replicas": len(active), "observedGeneration": generation}
    if active:
        report["fullyLabeledReplicas"] = len(active)
    if ready:
        report["readyReplicas"] = ready
    if available:
        report["availableReplicas"] = available
    return report
