"""Validation rules of a schema (`x-kubernetes-validations`).

A rule belongs to a node and sees that node's value as `self`; on updates, `oldSelf` is what the value was, if that can
be told. Most nodes have no rules, so only the paths that lead to one are walked, and a node's variables are converted
once for all of its rules, as far as these look at them.

Fields with a format of time are strings here, where Kubernetes has timestamps and durations: `timestamp(self.time)` is
what works in both. Lists compare in order even if they are sets.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from echelon.api.base import JSON, JSONObject
from echelon.engine.cel import (
    CEL_AVAILABLE,
    Budget,
    CompileError,
    CostExceeded,
    EvaluationError,
    Program,
    compile_expression,
)
from echelon.hub.schema import causes, rule_costs
from echelon.hub.schema.explaining import MISSING, correlated, unchanged
from echelon.hub.schema.seen_fields import View, fields_seen
from echelon.kube.errors import Cause

__all__ = ["CEL_AVAILABLE", "CompileError", "EvaluationError", "Program", "RuleError", "Rules", "compile_expression"]

# Nobody else is served while one rule is evaluated, so it may cost less than in Kubernetes (1,000,000 and 10,000,000).
PER_RULE: Final = 100_000
BUDGET: Final = 4_000_000  # for all rules about one object
_PAUSE: Final = 10_000
_ASKING: Final = 5  # for each rule, however cheap
MAX_RULES: Final = 1_000
MAX_CHARACTERS: Final = 100_000  # of all rules: compiling a character takes microseconds
MAX_MESSAGE_BYTES: Final = 5 * 1024

_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_BLOCKING = frozenset(f"FieldValue{kind}" for kind in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"))
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)

_RESERVED = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void|while"
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_PATH_PART = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")

_Convert = Callable[[JSON], JSON]
_Old = Literal["none", "plain", "optional"]


class RuleError(ValueError):
    """A rule that does not compile."""

    def __init__(self, path: str, rule: JSONObject, detail: str) -> None:
        super().__init__(f"{path}.rule: Invalid value: {rule!r}: compilation failed: {detail}")
        self.path = path  # of the rule within the schema, like properties[spec].x-kubernetes-validations[0]
        self.rule = str(rule.get("rule") or "")
        self.detail = detail


@dataclass(frozen=True)
class _Rule:
    program: Program
    message_program: Program | None
    wire: JSONObject
    old: _Old
    at: str  # the path below the node that a failure is reported at
    path: str = ""  # where the schema has it

    @property
    def title(self) -> str:
        return str(self.wire.get("message") or self.wire["rule"]).strip()

    @property
    def texts(self) -> tuple[str, str]:
        return str(self.wire["rule"]), str(self.wire.get("messageExpression") or "")


@dataclass(frozen=True)
class _Node:
    """A node with rules, or on the way to one."""

    schema: JSONObject
    convert: _Convert | None
    rules: tuple[_Rule, ...] = ()
    properties: dict[str, "_Node"] = field(default_factory=dict)
    others: "_Node | None" = None
    items: "_Node | None" = None
    all_of: tuple["_Node", ...] = ()

    def part(self, name: str) -> "_Node | None":
        """Return what a field of an object is checked by; None if that is nothing."""
        if (part := self.properties.get(name)) is not None or self.others is None:
            return part
        return self.others if name not in (self.schema.get("properties") or {}) else None

    def step(self, path: str, name: str) -> str:
        """Return the path of a field."""
        step = causes.step(name)
        if name not in self.properties:
            return f"{path}[{step}]"
        return f"{path}.{step}" if path else step

    def costs(self, times: int | None) -> Iterator[tuple[str, int]]:
        """Return what the rules here and below could cost, evaluated for so many values."""
        for rule in self.rules:
            cost = rule_costs.estimate(rule.program.node, self.schema)
            yield rule.path, rule_costs.repeated(cost, self.schema, times)
        for each in (*self.all_of, *self.properties.values()):
            yield from each.costs(times)
        for part, word in ((self.items, "items"), (self.others, "additionalProperties")):
            if part is not None:
                yield from part.costs(rule_costs.below(self.schema, word, times))

    @cached_property
    def view(self) -> View | None:
        """What the rules see that do not look back; None if that is everything."""
        seen = fields_seen(text for rule in self.rules if rule.old == "none" for text in rule.texts)
        return None if seen is None else View(seen, self.schema, escape)

    def shown(self, value: JSON) -> JSON:
        """Return what the rules see that do not look back, as they see it."""
        seen = value if self.view is None else self.view.of(value)
        return seen if self.convert is None else self.convert(seen)

    def says_the_same(self, value: JSON, old: JSON) -> bool:
        """Whether the rules here, without those below, see nothing that they did not see in the old value."""
        same = self.view is not None and self.view.is_same(value, old)
        return same and all(rule.old == "none" for rule in self.rules)

    @cached_property
    def ratchets(self) -> bool:
        """Whether no rule here or below can find anything in a value that it has accepted, and that did not change.

        A failure of what did not change is nobody's mistake; but rules about the change itself, and those under allOf,
        are not so lenient.
        """
        below = [*self.properties.values(), *filter(None, (self.others, self.items))]
        return (
            not self.all_of and all(rule.old == "none" for rule in self.rules) and all(each.ratchets for each in below)
        )


class Rules:
    """The compiled rules of a schema."""

    def __init__(self, root: _Node | None, unenforced: int = 0) -> None:
        self._root = root
        self.unenforced = unenforced  # rules that nobody checks, because CEL is not installed

    @classmethod
    def compile(cls, schema: JSONObject) -> "Rules":
        """Compile all rules of a schema; raise RuleError for the first that cannot be."""
        count = sum(1 for _ in _all_rules(schema))
        if not count or not CEL_AVAILABLE:
            return cls(None, count)
        if count > MAX_RULES:
            raise RuleError("", {}, f"a schema may have at most {MAX_RULES} rules, this one has {count}")
        length = sum(
            len(str(rule.get("rule"))) + len(str(rule.get("messageExpression"))) for rule in _all_rules(schema)
        )
        if length > MAX_CHARACTERS:
            raise RuleError("", {}, f"the rules of a schema may have at most {MAX_CHARACTERS} characters together")
        return cls(_compile(schema, schema, ""))

    def costs(self) -> Iterator[tuple[str, int]]:
        """Return what each rule could cost for one object, by its path within the schema."""
        return iter(()) if self._root is None else self._root.costs(1)

    @property
    def are_content(self) -> bool:
        """Whether they can find nothing in an object that they accepted, and that did not change."""
        return self._root is None or self._root.ratchets

    def evaluate(
        self,
        obj: JSON,
        old: JSON = None,
        *,
        after: Iterable[Cause] = (),
        accepted: bool = False,
        sound: frozenset[str] = frozenset(),
    ) -> list[Cause]:
        """Return which rules an object breaks, as an update of `old` if there is one.

        `after` is what the schema found: rules may rely on types and sizes, so some findings keep them from being run.
        `accepted` says that `old` was taken under these very rules. Else they may have come later, and then one that
        has no value for what did not change, as opposed to a bad one, is told all the same. `sound` are fields
        at the top of a new object about which nobody complained when another one had the same.
        """
        found: list[Cause] = []
        for _ in self.walk(found, obj, old, after=after, accepted=accepted, sound=sound):
            pass
        return found

    def walk(
        self,
        found: list[Cause],
        obj: JSON,
        old: JSON = None,
        *,
        after: Iterable[Cause] = (),
        accepted: bool = False,
        sound: frozenset[str] = frozenset(),
    ) -> Iterator[None]:
        """Evaluate as `evaluate` does, and add to `found` what is wrong; pause from time to time."""
        if self._root is None:
            return
        if any(cause.reason in _BLOCKING for cause in after):
            found.append(causes.invalid("<nil>", None, _NOT_CHECKED))
            return
        walk = _Evaluation(found, accepted=accepted, sound=sound)
        # An object as a whole is never excused: Kubernetes finds it changed even where nothing was.
        yield from walk.node(self._root, obj, MISSING if old is None else old, "", ratchet=MISSING)


def _all_rules(schema: JSON) -> Iterator[JSONObject]:
    if isinstance(schema, dict):
        yield from schema.get("x-kubernetes-validations") or ()
        for part in (schema.get("properties") or {}).values():
            yield from _all_rules(part)
        for word in ("items", "additionalProperties"):
            yield from _all_rules(schema.get(word))
        for part in schema.get("allOf") or ():
            yield from _all_rules(part)


def escape(name: str) -> str | None:
    """Return how a rule spells a property; None if it cannot."""
    if not _NAME.fullmatch(name):
        return None
    if _RESERVED.fullmatch(name):
        return f"__{name}__"
    return re.sub(r"__|[-./]", lambda found: _ESCAPES[found[0]], name)


def _compile(rules_from: JSONObject, schema: JSONObject, path: str) -> _Node | None:
    """Compile the rules of one node over the values of another; they differ only inside `allOf`."""
    rules = tuple(
        _compile_rule(rule, schema, f"{path}.x-kubernetes-validations[{index}]".lstrip("."))
        for index, rule in enumerate(rules_from.get("x-kubernetes-validations") or ())
        if str(rule.get("rule") or "").strip()
    )
    known = schema.get("properties") or {}
    properties = {
        name: node
        for name, part in (rules_from.get("properties") or {}).items()
        if name in known and (node := _compile(part, known[name], f"{path}.properties[{name}]")) is not None
    }
    others, items = (
        _compile(rules_from[word], schema[word], f"{path}.{word}")
        if isinstance(rules_from.get(word), dict) and isinstance(schema.get(word), dict)
        else None
        for word in ("additionalProperties", "items")
    )
    all_of = tuple(
        node
        for index, part in enumerate(rules_from.get("allOf") or ())
        if (node := _compile(part, schema, f"{path}.allOf[{index}]")) is not None
    )
    if not rules and not properties and others is None and items is None and not all_of:
        return None
    return _Node(schema, _converter(schema), rules, properties, others, items, all_of)


def _compile_rule(rule: JSONObject, schema: JSONObject, path: str) -> _Rule:
    text = str(rule["rule"]).strip()
    old: _Old = "none"
    try:
        program = _try_without_old(text)
        if program is None:
            old = "optional" if rule.get("optionalOldSelf") else "plain"
            program = compile_expression(_with_old(text, old), _variables(old))
        if program.returns not in {"BOOL", "DYN"}:
            raise CompileError("cel expression must evaluate to a bool")
        message = str(rule.get("messageExpression") or "").strip()
        speaks = compile_expression(_with_old(message, old), _variables(old)) if message else None
        if speaks is not None and speaks.returns not in {"STRING", "DYN"}:
            raise CompileError("messageExpression must evaluate to a string")
    except CompileError as error:
        raise RuleError(path, rule, str(error)) from None
    return _Rule(program, speaks, rule, old, _below(str(rule.get("fieldPath") or ""), schema), path)


def _try_without_old(text: str) -> Program | None:
    """Compile a rule that does not look back; None if it does."""
    if "oldSelf" not in text:
        return compile_expression(text, ("self",))
    try:
        return compile_expression(text, ("self",))
    except CompileError as error:
        if re.search(r"reference to 'oldSelf['.]", str(error)):
            return None
        raise


def _variables(old: _Old) -> tuple[str, ...]:
    return {"none": ("self",), "plain": ("self", "oldSelf"), "optional": ("self", "previous")}[old]


def _with_old(text: str, old: _Old) -> str:
    # An optional cannot be passed in, but made inside, from a list with at most one item.
    return f"cel.bind(oldSelf, previous[?0], {text})" if old == "optional" else text


def _below(field_path: str, schema: JSONObject) -> str:
    """Spell a fieldPath as error paths are: properties with a dot, keys of maps in brackets."""
    spelled = ""
    node: JSONObject = schema
    for found in _PATH_PART.finditer(field_path):
        name = found[1] or re.sub(r"\\(.)", r"\1", found[2] or "")
        properties, more = node.get("properties") or {}, node.get("additionalProperties")
        named = bool(properties) or not isinstance(more, dict)
        spelled += f".{name}" if named else f"[{name}]"
        node = (properties.get(name) if named else more) or {}
    return spelled


def _converter(schema: JSON) -> _Convert | None:
    """Make a function that turns a value into what its type is in CEL; None if it already is."""
    if not isinstance(schema, dict):
        return None
    kind = schema.get("type")
    if kind == "number":
        return lambda value: float(value) if value.__class__ is int else value
    if kind == "string" and schema.get("format") == "byte":
        return _as_bytes
    if kind == "array":
        item = _converter(schema.get("items"))
        return (lambda value: [item(each) for each in value] if value.__class__ is list else value) if item else None
    parts = schema.get("properties") or {}
    convert = {name: each for name, part in parts.items() if (each := _converter(part)) is not None}
    rename = {name: escaped for name in parts if (escaped := escape(name)) is not None and escaped != name}
    others = _converter(schema.get("additionalProperties"))
    if not convert and not rename and others is None:
        return None

    def converted(value: JSON) -> JSON:
        if value.__class__ is not dict:
            return value
        return {
            rename.get(name, name): each if (make := convert.get(name, others)) is None else make(each)
            for name, each in value.items()
        }

    return converted


def _as_bytes(value: JSON) -> JSON:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except (binascii.Error, ValueError):
        return value


class _Evaluation:
    """One walk over one object."""

    def __init__(self, found: list[Cause], *, accepted: bool, sound: frozenset[str]) -> None:
        self.found = found
        self._accepted = accepted
        self._sound = sound
        self._budget = Budget(BUDGET, PER_RULE)
        self._paused = BUDGET  # what was left when it last paused
        self._over = False  # nothing more is looked at, and what was found says why

    def node(self, node: _Node, value: JSON, old: JSON, path: str, ratchet: JSON) -> Iterator[None]:
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

    def _check(self, node: _Node, value: JSON, old: JSON, path: str, ratchet: JSON) -> Iterator[None]:
        bound: dict[_Old, JSONObject] = {}
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

    def _broken(self, node: _Node, path: str, detail: str) -> None:
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


def _values(node: _Node, old: _Old, value: JSON, before: JSON, absent: bool) -> dict[str, JSON]:
    if old == "none":
        return {"self": node.shown(value)}
    convert = node.convert or (lambda each: each)
    values = {"self": convert(value)}
    if old == "plain":
        values["oldSelf"] = convert(before)
    elif old == "optional":
        values["previous"] = [] if absent else [convert(before)]
    return values


def _evaluation_failure(error: str, rule: _Rule) -> str:
    if "no such overload" in error:
        why = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error}': {why}: {rule.title}"
    if error.startswith("operation cancelled"):
        return (
            f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule.title}"
        )
    return f"{error} evaluating rule: {rule.title}"


def _failure(rule: _Rule, detail: str, node: _Node, value: JSON, path: str) -> Cause:
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


def _spoken(rule: _Rule, values: JSONObject, budget: Budget) -> str:
    """Evaluate the message; an expression that fails, or says nothing fit for one line, has no say."""
    if rule.message_program is None:
        return ""
    try:
        text = rule.message_program.run(values, budget)
    except EvaluationError:
        return ""
    text = text.strip() if isinstance(text, str) else ""
    return "" if "\n" in text or len(text.encode()) > MAX_MESSAGE_BYTES else text
