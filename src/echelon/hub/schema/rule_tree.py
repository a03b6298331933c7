"""Compiles the validation rules of a schema (`x-kubernetes-validations`) into a tree beside that of the schema.

A rule belongs to a node and sees that node's value as `self`; on updates, `oldSelf` is what the value was, if that can
be told. Most nodes have no rules, so the tree has only the paths that lead to one, and each node knows how its values
are turned into what rules see of them.

Fields with a format of time are strings here, where Kubernetes has timestamps and durations: `timestamp(self.time)` is
what works in both. Lists compare in order even if they are sets.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from echelon.api.base import JSON, JSONObject
from echelon.engine.cel import CompileError, Program, compile_expression
from echelon.hub.schema import causes, rule_costs
from echelon.hub.schema.seen_fields import View, fields_seen

_RESERVED = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void|while"
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_PATH_PART = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")

_Convert = Callable[[JSON], JSON]
Old = Literal["none", "plain", "optional"]


class RuleError(ValueError):
    """A rule that does not compile."""

    def __init__(self, path: str, rule: JSONObject, detail: str) -> None:
        super().__init__(f"{path}.rule: Invalid value: {rule!r}: compilation failed: {detail}")
        self.path = path  # of the rule within the schema, like properties[spec].x-kubernetes-validations[0]
        self.rule = str(rule.get("rule") or "")
        self.detail = detail


@dataclass(frozen=True)
class Rule:
    """A rule, compiled."""

    program: Program
    message_program: Program | None
    wire: JSONObject
    old: Old
    at: str  # the path below the node that a failure is reported at
    path: str = ""  # where the schema has it

    @property
    def title(self) -> str:
        """What people call it: its message, or what it says."""
        return str(self.wire.get("message") or self.wire["rule"]).strip()

    @property
    def texts(self) -> tuple[str, str]:
        """Its expressions: what has to be true, and what is said otherwise."""
        return str(self.wire["rule"]), str(self.wire.get("messageExpression") or "")


@dataclass(frozen=True)
class RuleNode:
    """A node with rules, or on the way to one."""

    schema: JSONObject
    convert: _Convert | None
    rules: tuple[Rule, ...] = ()
    properties: dict[str, "RuleNode"] = field(default_factory=dict)
    others: "RuleNode | None" = None
    items: "RuleNode | None" = None
    all_of: tuple["RuleNode", ...] = ()

    def part(self, name: str) -> "RuleNode | None":
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


def all_rules(schema: JSON) -> Iterator[JSONObject]:
    """Walk the rules of a schema as they are written."""
    if isinstance(schema, dict):
        yield from schema.get("x-kubernetes-validations") or ()
        for part in (schema.get("properties") or {}).values():
            yield from all_rules(part)
        for word in ("items", "additionalProperties"):
            yield from all_rules(schema.get(word))
        for part in schema.get("allOf") or ():
            yield from all_rules(part)


def escape(name: str) -> str | None:
    """Return how a rule spells a property; None if it cannot."""
    if not _NAME.fullmatch(name):
        return None
    if _RESERVED.fullmatch(name):
        return f"__{name}__"
    return re.sub(r"__|[-./]", lambda found: _ESCAPES[found[0]], name)


def compile_node(rules_from: JSONObject, schema: JSONObject, path: str) -> RuleNode | None:
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
        if name in known and (node := compile_node(part, known[name], f"{path}.properties[{name}]")) is not None
    }
    others, items = (
        compile_node(rules_from[word], schema[word], f"{path}.{word}")
        if isinstance(rules_from.get(word), dict) and isinstance(schema.get(word), dict)
        else None
        for word in ("additionalProperties", "items")
    )
    all_of = tuple(
        node
        for index, part in enumerate(rules_from.get("allOf") or ())
        if (node := compile_node(part, schema, f"{path}.allOf[{index}]")) is not None
    )
    if not rules and not properties and others is None and items is None and not all_of:
        return None
    return RuleNode(schema, _converter(schema), rules, properties, others, items, all_of)


def _compile_rule(rule: JSONObject, schema: JSONObject, path: str) -> Rule:
    text = str(rule["rule"]).strip()
    old: Old = "none"
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
    return Rule(program, speaks, rule, old, _below(str(rule.get("fieldPath") or ""), schema), path)


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


def _variables(old: Old) -> tuple[str, ...]:
    return {"none": ("self",), "plain": ("self", "oldSelf"), "optional": ("self", "previous")}[old]


def _with_old(text: str, old: Old) -> str:
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
