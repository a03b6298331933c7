"""How a StatefulSet says what it does. It has neither a surge nor a pause."""

from dataclasses import replace

from echelon.api.base import JSONObject
from echelon.engine.align.budgets import RollingStrategy
from echelon.engine.align.rolling_status import RollingStatus, counted
from echelon.engine.work.health_state import number, part, text


def get_rolling_strategy(obj: JSONObject) -> RollingStrategy | None:
    """Return the strategy; None for `OnDelete`, under which only people update pods."""
    strategy = part(obj, "spec", "updateStrategy")
    if text(strategy, "type") not in ("", "RollingUpdate"):
        return None
    rolling = part(strategy, "rollingUpdate")
    return RollingStrategy(partition=rolling.get("partition"), max_unavailable=rolling.get("maxUnavailable"))


def revise_rolling_strategy(obj: JSONObject, strategy: RollingStrategy) -> JSONObject:
    """Return the StatefulSet with another strategy, every governed field explicit."""
    spec = part(obj, "spec")
    rolling = {"partition": strategy.partition, "maxUnavailable": strategy.max_unavailable}
    revised = {**part(spec, "updateStrategy"), "type": "RollingUpdate", "rollingUpdate": rolling}
    return {**obj, "spec": {**spec, "updateStrategy": revised}}


def interpret_rolling_status(status: JSONObject) -> RollingStatus:
    """Return the counts. A pod that is being deleted still counts as available there, and must not here.

    It is in none of the counts by revision, so what these leave out may be pods that are on their way out. Where pods
    have a third revision this takes more away than it has to.
    """
    found = counted(status)
    by_revision = found.updated
    if text(status, "currentRevision") != text(status, "updateRevision"):
        by_revision += number(status, "currentReplicas")
    ending = max(0, found.replicas - by_revision)
    return replace(found, ready=max(0, found.ready - ending), available=max(0, found.available - ending))
