"""How a CloneSet says what it does; v1beta1 moved the strategy into `rollingUpdate`."""

from echelon.api.base import JSONObject
from echelon.engine.align.budgets import RollingStrategy
from echelon.engine.align.rolling_status import RollingStatus, counted
from echelon.engine.work.health_state import part, text

_NESTED = "rollingUpdate"


def get_rolling_strategy(obj: JSONObject) -> RollingStrategy:
    """Return the strategy of a v1alpha1 CloneSet."""
    return _read(part(obj, "spec", "updateStrategy"))


def get_rolling_strategy_v1beta1(obj: JSONObject) -> RollingStrategy | None:
    """Return the strategy of a v1beta1 CloneSet; None if it only changes pods that somebody deletes."""
    strategy = part(obj, "spec", "updateStrategy")
    return None if text(strategy, "type") == "OnDelete" else _read(part(strategy, _NESTED))


def revise_rolling_strategy(obj: JSONObject, strategy: RollingStrategy) -> JSONObject:
    """Return the v1alpha1 CloneSet with another strategy, every governed field explicit."""
    spec = part(obj, "spec")
    return {**obj, "spec": {**spec, "updateStrategy": {**part(spec, "updateStrategy"), **_fields(strategy)}}}


def revise_rolling_strategy_v1beta1(obj: JSONObject, strategy: RollingStrategy) -> JSONObject:
    """Return the v1beta1 CloneSet with another strategy, every governed field explicit."""
    spec = part(obj, "spec")
    update = part(spec, "updateStrategy")
    revised = {**update, _NESTED: {**part(update, _NESTED), **_fields(strategy)}}
    return {**obj, "spec": {**spec, "updateStrategy": revised}}


def interpret_rolling_status(status: JSONObject) -> RollingStatus:
    """Return the counts."""
    return counted(status)


def _read(fields: JSONObject) -> RollingStrategy:
    return RollingStrategy(
        paused=bool(fields.get("paused")),
        partition=fields.get("partition"),
        max_unavailable=fields.get("maxUnavailable"),
        max_surge=fields.get("maxSurge"),
    )


def _fields(strategy: RollingStrategy) -> JSONObject:
    return {
        "paused": strategy.paused,
        "partition": strategy.partition,
        "maxUnavailable": strategy.max_unavailable,
        "maxSurge": strategy.max_surge,
    }
