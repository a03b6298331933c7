"""In which order a policy is enforced: by its own strategy, if there is anything to enforce.

A hub whose definition of policies is somebody else's drops `spec.rolloutStrategy` without a word, and what was meant to
go cluster by cluster would be enforced everywhere at once. There an annotation carries the strategy, and a policy
without that annotation is held: nobody can know whether it had one.
"""

from dataclasses import dataclass

import msgspec

from echelon.api.rollout import RolloutStrategy
from echelon.engine.policy.names import STRATEGY_ANNOTATION
from echelon.engine.policy.view import PolicyView
from echelon.engine.rollout.strategy import StrategyType

FIELD = "rolloutStrategy"
CONCURRENCY = 1  # clusters at a time, if nobody says how many

_EVERYWHERE = RolloutStrategy(type=StrategyType.ALL.value)
_ONE_BY_ONE = RolloutStrategy(type=StrategyType.PROGRESSIVE.value)


@dataclass(frozen=True)
class PolicyStrategy:
    """How a policy is rolled out."""

    strategy: RolloutStrategy  # for its clusters
    in_turn: bool  # clusters get the content to look at first, and are released one after the other
    asked_in_turn: bool  # whether the policy asks for that, also if there is nothing to enforce
    held: str = ""  # why nobody is released


def strategy_of(view: PolicyView) -> PolicyStrategy:
    """Return how a policy is rolled out."""
    asked, held = _asked(view)
    in_turn = asked.type != StrategyType.ALL.value
    if not view.content.enforceable:
        return PolicyStrategy(_EVERYWHERE, False, in_turn)
    return PolicyStrategy(asked, in_turn, in_turn, held)


def _asked(view: PolicyView) -> tuple[RolloutStrategy, str]:
    """Return what a policy asks for, and why that cannot be begun."""
    spec = view.policy.spec.get(FIELD)
    said = view.policy.metadata.annotations.get(STRATEGY_ANNOTATION, "")
    try:
        if spec:
            return msgspec.convert(spec, RolloutStrategy), ""
        if said:
            return msgspec.json.decode(said, type=RolloutStrategy), ""
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        where = f"spec.{FIELD}" if spec else f"annotation {STRATEGY_ANNOTATION}"
        return _ONE_BY_ONE, f"{where} cannot be understood, so nobody is enforced: {error}"
    if not view.keeps_strategy and not view.allow_all:
        return _ONE_BY_ONE, (
            f"this hub's definition of policies does not keep spec.{FIELD}, so nobody can know whether this policy had"
            f" one: say it in annotation {STRATEGY_ANNOTATION}, as JSON, or run the controllers with --allow-all"
        )
    return _EVERYWHERE, ""
