"""Conditions that users make from the state of an object.

A rule says False when it cannot be evaluated: a condition that steers a rollout must not become true by a mistake.
Only what is no fault of the rule, a missing CEL runtime or a kind of rule that this agent does not know, is Unknown.
Works are reported again and again, so a program is compiled once, and so is the mistake in one that does not compile.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from echelon.api.base import JSON, JSONObject
from echelon.api.manifest_config import ConditionRule
from echelon.engine.cel import (
    CEL_AVAILABLE,
    Budget,
    CompileError,
    CostExceeded,
    EvaluationError,
    Function,
    Program,
    compile_expression,
)
from echelon.engine.work.health_state import condition, part, text

EVALUATED, INVALID = "ConditionRuleEvaluated", "ConditionRuleInvalid"
EXPRESSION_ERROR, INTERNAL_ERROR = "ConditionRuleExpressionError", "ConditionRuleInternalError"
BUDGET: Final = 50_000  # what all rules about one object may cost, if there is no other limit
_ASKING = 5  # for each expression, however cheap
_COMPILING = 8  # for each character of an expression, the first time that it is met
RULE_REASONS = "ConditionRule"  # by this prefix, conditions of rules are told from all others


class RuleBudget(Budget):
    """What the rules of a work may cost. Compiling counts, whether it was done before or not: a report is a report."""

    __slots__ = ("_met",)

    def __init__(self, total: int, per_call: int) -> None:
        super().__init__(total, per_call)
        self._met: set[str] = set()

    def take(self, expression: str) -> None:
        """Pay for an expression that is evaluated next. Raises CostExceeded."""
        cost = _ASKING if expression in self._met else _ASKING + len(expression) * _COMPILING
        self._met.add(expression)
        self.left = max(0, self.left - cost)
        if not self.left:
            raise CostExceeded


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What a rule says about an object."""

    condition: str
    status: str  # True, False or Unknown
    reason: str
    message: str


def evaluate(
    rules: Iterable[ConditionRule], obj: JSONObject, budget: "RuleBudget | None" = None
) -> tuple[RuleResult, ...]:
    """Evaluate rules; those that have nothing to say about the object are left out.

    A rule for which the budget does not suffice is an error like any other in it.
    """
    budget = RuleBudget(BUDGET, BUDGET) if budget is None else budget
    found = (
        _well_known(rule, obj, budget) if rule.type == "WellKnownConditions" else _cel(rule, obj, budget)
        for rule in rules
    )
    return tuple(finding for finding in found if finding is not None)


def _well_known(rule: ConditionRule, obj: JSONObject, budget: RuleBudget) -> RuleResult | None:
    status = part(obj, "status")
    if rule.condition != "Complete":
        return None
    match (obj.get("apiVersion"), obj.get("kind")):
        case ("batch/v1", "Job"):
            over = any(condition(status, kind).get("status") == "True" for kind in ("Complete", "Failed"))
        case ("v1", "Pod"):
            over = text(status, "phase") in ("Succeeded", "Failed")
        case _:
            return None
    return RuleResult(rule.condition, str(over), EVALUATED, _message(rule, obj, over, budget))


def _cel(rule: ConditionRule, obj: JSONObject, budget: RuleBudget) -> RuleResult:
    if rule.type != "CEL":
        return RuleResult(rule.condition, "Unknown", INVALID, f"unrecognized condition rule type {rule.type}")
    if not CEL_AVAILABLE:
        return RuleResult(rule.condition, "Unknown", INTERNAL_ERROR, "CEL is not available on this agent")
    try:
        result = all(_holds(expression, obj, budget) for expression in rule.cel_expressions)
    except (CompileError, EvaluationError) as error:
        return RuleResult(rule.condition, "False", EXPRESSION_ERROR, str(error))
    return RuleResult(rule.condition, str(result), EVALUATED, _message(rule, obj, result, budget))


def _holds(expression: str, obj: JSONObject, budget: RuleBudget) -> bool:
    budget.take(expression)
    program = _program(expression, ("object",))
    value = program.run({"object": obj}, budget)
    if not isinstance(value, bool):
        raise EvaluationError(f"expected bool result, got {program.returns}: {expression}")
    return value


def _message(rule: ConditionRule, obj: JSONObject, result: bool, budget: RuleBudget) -> str:
    if rule.message_expression and CEL_AVAILABLE:
        try:
            budget.take(rule.message_expression)
            program = _program(rule.message_expression, ("object", "result"))
            message = program.run({"object": obj, "result": result}, budget)
        except (CompileError, EvaluationError):
            message = ""  # the status is known; a message that cannot be made must not hide it
        if isinstance(message, str) and message:
            return message
    return rule.message or f"Manifest is {'' if result else 'not '}{rule.condition}"


def _program(expression: str, variables: tuple[str, ...]) -> Program:
    compiled = _compiled(expression, variables)
    if isinstance(compiled, str):
        raise CompileError(compiled)
    return compiled


@lru_cache(maxsize=1024)
def _compiled(expression: str, variables: tuple[str, ...]) -> Program | str:
    try:
        return compile_expression(expression, variables, _FUNCTIONS)
    except CompileError as error:
        return str(error)


def _has_conditions(value: JSON) -> bool:
    conditions = value.get("conditions") if isinstance(value, dict) else None
    return isinstance(conditions, list) and bool(conditions)


_FUNCTIONS = (Function("hasConditions", ("dyn",), "bool", _has_conditions, member=False),)
