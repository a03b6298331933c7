"""Evaluates the rules of a schema over one object, and says which it breaks.

Nobody else is served while one rule is evaluated, so it may cost less than in Kubernetes (1,000,000 and 10,000,000),
and a walk pauses from time to time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from echelon.api.base import JSON, JSONObject
from echelon.engine.cel import Budget, CostExceeded, EvaluationError
from echelon.hub.schema import causes
from echelon.hub.schema.explaining import MISSING, correlated, unchanged
from echelon.hub.schema.rule_tree import Old, Rule, RuleNode
from echelon.kube.errors import Cause

PER_RULE: Final = 100_000
BUDGET: Final = 4_000_000  # for all rules about one object
_PAUSE: Final = 10_000
_ASKING: Final = 5  # for each rule, however cheap
MAX_MESSAGE_BYTES: Final = 5 * 1024

_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class RuleWalk:
    """One walk over one object."""

    def __init__(self, found: list[Cause], *, accepted: bool, sound: frozenset[str]) -> None:
        self.found = found
        self._accepted = accepted
        self._sound = sound
        self._budget = Budget(BUDGET, PER_RULE)
        self._paused = BUDGET  # what was left when it last paused
        self._over = False  # nothing more is looked at, and what was found says why

    def node(self, node: RuleNode, value: JSON, old: JSON, path: str, ratchet: JSON) -> Iterator[None]:
        """Check a value. `old` is what rules see as oldSelf; `ratchet` is what it must differ from to be blamed."""
        if value is None or self._over:
            return
        if self._accepted and value is old and value is ratchet and node.ratchets:
            return
        # What was taken is true of a whole object, for there nothing is excused.
        if node.rules and not (self._accepted and not path and node.says_the_same(value, old)):
            yield from self._check(node, value, old, path, ratchet)
        for each in node.all_of:
            yield from self.node(each, value, old, path, MISSING)
        if value.__class__ is dict:
            before = old if old.__class__ is dict else {}
            for name, each in value.items():
                part = node.part(name)
                if part is not None and (path or name not in self._sound):
                    was = before.get(name, MISSING)
                    step, excuse = node.step(path, name), _deeper(ratchet, value, old, was)
                    yield from self.node(part, each, was, step, excuse)
        elif value.__class__ is list and node.items is not None:
            find = correlated(node.schema, old)
            for index, each in enumerate(value):
                was = find(each)
                excuse = _deeper(ratchet, value, old, was)
                yield from self.node(node.items, each, was, f"{path}[{index}]", excuse)

    def _check(self, node: RuleNode, value: JSON, old: JSON, path: str, ratchet: JSON) -> Iterator[None]:
        bound: dict[Old, JSONObject] = {}
        for rule in node.rules:
            absent = old is MISSING or old is None
            if rule.old == "plain" and absent:
                continue
            self._budget.left -= _ASKING
            if self._paused - self._budget.left > _PAUSE:
                self._paused = self._budget.left
                yield
            try:
                if rule.old not in bound:
                    bound[rule.old] = _values(node, rule.old, value, None if absent else old, absent)
                if rule.program.run(bound[rule.old], self._budget) is True:
                    continue
            except EvaluationError as error:
                self._over = isinstance(error, CostExceeded)
                spent = self._over and self._budget.is_spent
                self._broken(node, path, _OUT_OF_BUDGET if spent else _evaluation_failure(str(error), rule))
                if self._over:
                    return
                continue
            same = rule.old == "none" and ratchet is not MISSING and _is_same(node.schema, value, ratchet)
            if not same:
                detail = _spoken(rule, bound[rule.old], self._budget)
                self.found.append(_failure(rule, detail, node, value, path))

    def _broken(self, node: RuleNode, path: str, detail: str) -> None:
        self.found.append(causes.invalid(path or "<nil>", node.schema.get("type") or "", detail))


@dataclass(frozen=True)
class _Ancestor:
    """Stands for an item that cannot be told from others: it is unchanged if the whole that it is part of is."""

    new: JSON
    old: JSON


def _deeper(ratchet: JSON, value: JSON, old: JSON, was: JSON) -> JSON:
    if ratchet is MISSING or was is not MISSING:
        return was
    return ratchet if isinstance(ratchet, _Ancestor) else _Ancestor(value, old)


def _is_same(schema: JSONObject, value: JSON, ratchet: JSON) -> bool:
    if isinstance(ratchet, _Ancestor):
        return unchanged(None, ratchet.new, ratchet.old)
    return unchanged(schema, value, ratchet)


def _values(node: RuleNode, old: Old, value: JSON, before: JSON, absent: bool) -> dict[str, JSON]:
    if old == "none":
        return {"self": node.shown(value)}
    convert = node.convert or (lambda each: each)
    values = {"self": convert(value)}
    if old == "plain":
        values["oldSelf"] = convert(before)
    elif old == "optional":
        values["previous"] = [] if absent else [convert(before)]
    return values


def _evaluation_failure(error: str, rule: Rule) -> str:
    if "no such overload" in error:
        why = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error}': {why}: {rule.title}"
    if error.startswith("operation cancelled"):
        return (
            f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule.title}"
        )
    return f"{error} evaluating rule: {rule.title}"


def _failure(rule: Rule, detail: str, node: RuleNode, value: JSON, path: str) -> Cause:
    if not detail:
        message = str(rule.wire.get("message") or "").strip()
        detail = message or f"failed rule: {rule.wire['rule'].strip()}"
    at = f"{path}{rule.at}".lstrip(".") or "<nil>"
    reason = rule.wire.get("reason") or "FieldValueInvalid"
    if reason == "FieldValueForbidden":
        return causes.forbidden(at, detail)
    if reason == "FieldValueRequired":
        return causes.required(at, detail)
    whole = node.schema.get("type") in {"object", "array"}
    if reason == "FieldValueDuplicate":
        return Cause(at, "Duplicate value", reason) if whole else causes.duplicate(at, value)
    return Cause(at, f"Invalid value: {detail}") if whole else causes.invalid(at, value, detail)


def _spoken(rule: Rule, values: JSONObject, budget: Budget) -> str:
    """Evaluate the message; an expression that fails, or says nothing fit for one line, has no say."""
    if rule.message_program is None:
        return ""
    try:
        text = rule.message_program.run(values, budget)
    except EvaluationError:
        return ""
    text = text.strip() if isinstance(text, str) else ""
    return "" if "\n" in text or len(text.encode()) > MAX_MESSAGE_BYTES else text
