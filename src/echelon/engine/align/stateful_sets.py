"""How a StatefulSet says what it does. It has neither a surge nor a pause."""

from echelon.api.base import JSONObject
from echelon.engine.align.budgets import RollingStrategy
from echelon.engine.align.rolling_status import RollingStatus, counted
from echelon.engine.work.health_state import part, text


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
    """Return the counts. A pod that is being deleted is among those that exist and, while it lasts, are available."""
    return counted(status)
