"""Reading and writing the rolling strategy of a kind: the public registry of interpreters.

A kind is added by four functions and the contract that its pods follow:

    register(Interpreter("example.io/v1", "Fleet", contract=CLONE_SET, get_rolling_strategy=..., ...))

Nothing else in the engine knows a kind by name. A kind without an interpreter is passed through as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from echelon.api.base import JSONObject
from echelon.engine.align import clone_sets, deployments, stateful_sets
from echelon.engine.align.budgets import RollingStrategy
from echelon.engine.align.contract import CLONE_SET, CLONE_SET_V1BETA1, DEPLOYMENT, STATEFUL_SET, Contract
from echelon.engine.align.rolling_status import RollingStatus
from echelon.engine.align.template import template_hash

GetRollingStrategy: TypeAlias = Callable[[JSONObject], RollingStrategy | None]
ReviseRollingStrategy: TypeAlias = Callable[[JSONObject, RollingStrategy], JSONObject]
TemplateHash: TypeAlias = Callable[[JSONObject], str]
InterpretRollingStatus: TypeAlias = Callable[[JSONObject], RollingStatus]


@dataclass(frozen=True, slots=True)
class Interpreter:
    """How a kind says what it does. All four take the object as it is, after overrides.

    `get_rolling_strategy` returns None for an object that does not roll: `Recreate`, `OnDelete`. `strategy_path` is
    where people find the fields of the strategy.
    """

    api_version: str
    kind: str
    contract: Contract
    get_rolling_strategy: GetRollingStrategy
    revise_rolling_strategy: ReviseRollingStrategy
    interpret_rolling_status: InterpretRollingStatus
    template_hash: TemplateHash = template_hash
    strategy_path: str = "spec"


class AlreadyInterpreted(ValueError):
    """A kind that has an interpreter."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f"{kind} of {api_version} has an interpreter")


_INTERPRETERS: dict[tuple[str, str], Interpreter] = {}


def register(interpreter: Interpreter) -> None:
    """Make a kind known. Raises AlreadyInterpreted."""
    key = interpreter.api_version, interpreter.kind
    if key in _INTERPRETERS:
        raise AlreadyInterpreted(*key)
    _INTERPRETERS[key] = interpreter


def unregister(api_version: str, kind: str) -> None:
    """Forget a kind."""
    _INTERPRETERS.pop((api_version, kind), None)


def interpreter_of(obj: JSONObject) -> Interpreter | None:
    """Return the interpreter of an object's kind; None if there is none."""
    return _INTERPRETERS.get((str(obj.get("apiVersion", "")), str(obj.get("kind", ""))))


register(
    Interpreter(
        "apps/v1",
        "Deployment",
        contract=DEPLOYMENT,
        get_rolling_strategy=deployments.get_rolling_strategy,
        revise_rolling_strategy=deployments.revise_rolling_strategy,
        interpret_rolling_status=deployments.interpret_rolling_status,
        strategy_path="spec.strategy.rollingUpdate",
    )
)
register(
    Interpreter(
        "apps/v1",
        "StatefulSet",
        contract=STATEFUL_SET,
        get_rolling_strategy=stateful_sets.get_rolling_strategy,
        revise_rolling_strategy=stateful_sets.revise_rolling_strategy,
        interpret_rolling_status=stateful_sets.interpret_rolling_status,
        strategy_path="spec.updateStrategy.rollingUpdate",
    )
)
register(
    Interpreter(
        "apps.kruise.io/v1alpha1",
        "CloneSet",
        contract=CLONE_SET,
        get_rolling_strategy=clone_sets.get_rolling_strategy,
        revise_rolling_strategy=clone_sets.revise_rolling_strategy,
        interpret_rolling_status=clone_sets.interpret_rolling_status,
        strategy_path="spec.updateStrategy",
    )
)
register(
    Interpreter(
        "apps.kruise.io/v1beta1",
        "CloneSet",
        contract=CLONE_SET_V1BETA1,
        get_rolling_strategy=clone_sets.get_rolling_strategy_v1beta1,
        revise_rolling_strategy=clone_sets.revise_rolling_strategy_v1beta1,
        interpret_rolling_status=clone_sets.interpret_rolling_status,
        strategy_path="spec.updateStrategy.rollingUpdate",
    )
)
