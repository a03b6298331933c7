"""How a Deployment says what it does."""

from dataclasses import replace

from echelon.api.base import JSONObject
from echelon.engine.align.budgets import RollingStrategy
from echelon.engine.align.rolling_status import RollingStatus, counted
from echelon.engine.work.health_state import number, part, text


def get_rolling_strategy(obj: JSONObject) -> RollingStrategy | None:
    """Return the strategy; None for `Recreate`, which has no budgets."""
    strategy = part(obj, "spec", "strategy")
    if text(strategy, "type") not in ("", "RollingUpdate"):
        return None
    rolling = part(strategy, "rollingUpdate")
    return RollingStrategy(
        paused=bool(part(obj, "spec").get("paused")),
        max_unavailable=rolling.get("maxUnavailable"),
        max_surge=rolling.get("maxSurge"),
    )


def revise_rolling_strategy(obj: JSONObject, strategy: RollingStrategy) -> JSONObject:
    """Return the Deployment with another strategy, every governed field explicit."""
    spec = part(obj, "spec")
    rolling = {"maxUnavailable": strategy.max_unavailable, "maxSurge": strategy.max_surge}
    revised = {**part(spec, "strategy"), "type": "RollingUpdate", "rollingUpdate": rolling}
    return {**obj, "spec": {**spec, "paused": strategy.paused, "strategy": revised}}


def interpret_rolling_status(status: JSONObject) -> RollingStatus:
    """Return the counts. What ReplicaSets are told to have is what is available and what is unavailable together.

    If nothing is unavailable they may be told to have less than is available, and to delete the rest.
    """
    found = counted(status)
    return replace(found, told=found.available + number(status, "unavailableReplicas"))
