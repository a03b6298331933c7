"""Label and field selectors, as they travel in URLs and in objects.

Selectors come from users, through kubectl and through specs, so what is accepted and how a mistake is named must be
what Kubernetes accepts and says. Everything here is a pure value: parsed once, then matched against many objects.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.label_terms import Requirement, Terms, int64
from echelon.api.meta import LabelSelector, LabelSelectorRequirement
from echelon.api.name_patterns import LABEL_NAME, SUBDOMAIN

_VALUE = f"({LABEL_NAME})?"
_FEW = 8  # terms, or values of one, that are asked one by one sooner than they are sorted
_NAME_PATTERN, _VALUE_PATTERN, _SUBDOMAIN_PATTERN = re.compile(LABEL_NAME), re.compile(_VALUE), re.compile(SUBDOMAIN)

_ALPHANUMERIC = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)


class SelectorError(ValueError):
    """A selector that cannot be understood or that can never match; `errors` has one text a mistake."""

    def __init__(self, *errors: str) -> None:
        self.errors = errors
        super().__init__(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


def qualified_name_errors(text: str) -> list[str]:
    """Return what is wrong with a label or annotation key: a name, with an optional DNS prefix before a slash."""
    if len(text) <= 63 and _NAME_PATTERN.fullmatch(text):
        return []
    rule = _broken_rule(f"must consist of {_ALPHANUMERIC}", LABEL_NAME, "MyName", "my.name", "123-abc")
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [f"a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        errors += [f"prefix part {error}" for error in subdomain_errors(prefix)]
    if not name:
        errors.append("name part must be non-empty")
    elif _bytes(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not _NAME_PATTERN.fullmatch(name):
        errors.append(f"name part {rule}")
    return errors


def label_value_errors(text: str) -> list[str]:
    """Return what is wrong with the value of a label."""
    errors = ["must be no more than 63 bytes"] if _bytes(text) > 63 else []
    if not _VALUE_PATTERN.fullmatch(text):
        rule = f"a valid label must be an empty string or consist of {_ALPHANUMERIC}"
        errors.append(_broken_rule(rule, _VALUE, "MyValue", "my_value", "12345"))
    return errors


def subdomain_errors(text: str) -> list[str]:
    """Return what is wrong with a DNS subdomain, which prefixes and most object names are."""
    errors = ["must be no more than 253 bytes"] if _bytes(text) > 253 else []
    if not _SUBDOMAIN_PATTERN.fullmatch(text):
        errors.append(_broken_rule(_SUBDOMAIN_RULE, SUBDOMAIN, "example.com"))
    return errors


def _broken_rule(rule: str, pattern: str, *examples: str) -> str:
    # The stray spaces are Kubernetes' own.
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; without any, everything matches."""

    requirements: tuple[Requirement, ...] = ()
    _terms: Terms | None = field(init=False, repr=False, compare=False)  # if there are more than one would ask singly

    def __post_init__(self) -> None:
        many = len(self.requirements) > _FEW or any(len(each.values) > _FEW for each in self.requirements)
        object.__setattr__(self, "_terms", Terms(self.requirements) if many else None)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the labels are selected. Many terms take no longer than the labels are many."""
        if self._terms is not None:
            return self._terms.match(labels)
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


@lru_cache(maxsize=8)  # a request looks at its selector several times, and one may have thousands of terms
def parse(text: str) -> Selector:
    """Parse a label selector as kubectl sends it: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1`."""
    requirements = _Parser(text).selector()
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


_OPERATORS = {"in": "in", "notin": "notin", "=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt"}
_SYMBOLS = "=!(),><"
_TOKEN = re.compile(rf"[=!]=|[{_SYMBOLS}]|[^{_SYMBOLS} \t\r\n]+")
_END = ""


def _is_word(token: str) -> bool:
    return token != _END and token[0] not in _SYMBOLS


class _Parser:
    """Walks the tokens once, from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]  # with an end, so that there is always one ahead
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def selector(self) -> list[Requirement]:
        found: list[Requirement] = []
        if self._peek() == _END:
            return found
        if not self._starts_requirement():
            raise SelectorError(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            after = self._next()
            if after == _END:
                return found
            if after != ",":
                raise SelectorError(f"found '{after}', expected: ',' or 'end of string'")
            if not self._starts_requirement():
                raise SelectorError(f"found '{self._peek()}', expected: identifier after ','")

    def _starts_requirement(self) -> bool:
        return self._peek() == "!" or _is_word(self._peek())

    def _requirement(self) -> Requirement:
        key = self._next()
        absent = key == "!"
        if absent:
            key = self._next()
        if not _is_word(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        if errors := qualified_name_errors(key):
            # Kubernetes has no field path to show here, and says so in its own way.
            raise SelectorError(f"<nil>: Invalid value: {_quote(key)}: {'; '.join(errors)}")
        if absent:
            return Requirement(key, "!")
        if self._peek() in (_END, ","):
            return Requirement(key, "exists")
        token = self._next()
        if token not in _OPERATORS:
            raise SelectorError(f"found '{token}', expected: in, notin, =, ==, !=, gt, lt")
        operator = _OPERATORS[token]
        values = self._value_set() if operator in ("in", "notin") else {self._value()}
        return _checked(key, operator, tuple(sorted(values)))

    def _value(self) -> str:
        if self._peek() in (_END, ","):
            return ""
        token = self._next()
        if not _is_word(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def _value_set(self) -> set[str]:
        """Parse `(x,y)`; a comma without a word beside it stands for the empty value."""
        if (token := self._next()) != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        if self._peek() not in (",", ")") and not _is_word(self._peek()):
            raise SelectorError(f"found '{self._peek()}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            values.add(self._next() if _is_word(self._peek()) else "")
            after = self._next()
            if after == ")":
                return values
            if after != ",":
                expected = "',' or ')'" if values != {""} else "',', or identifier"
                raise SelectorError(f"found '{after}', expected: {expected}")
            if self._peek() not in (",", ")") and not _is_word(self._peek()):
                raise SelectorError(f"found '{self._peek()}', expected: ',', or identifier")


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    errors = []
    for index, value in enumerate(values):
        if operator in ("gt", "lt") and int64(value) is None:
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(f"values[{index}]: Invalid value: {_quote(value)}: {why}")
    for index, value in enumerate(values):
        if wrong := label_value_errors(value):
            errors.append(f"values[{index}][{key}]: Invalid value: {_quote(value)}: {'; '.join(wrong)}")
    if errors:
        raise SelectorError(*errors)
    return Requirement(key, operator, values)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_SELECTOR_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def from_label_selector(selector: LabelSelector | JSONObject, path: str = "") -> Selector:
    """Turn the selector of an object into one that matches; `path` is where it stands in the object.

    An empty selector matches everything. What a missing one means is the caller's business: APIs differ.
    """
    if not isinstance(selector, LabelSelector):
        try:
            selector = msgspec.convert(selector, LabelSelector)
        except msgspec.ValidationError as error:
            raise SelectorError(f"{path}: Invalid value: {error}" if path else str(error)) from None
    prefix = f"{path}." if path else ""
    errors: list[str] = []
    for key, value in selector.match_labels.items():
        errors += _invalid(f"{prefix}matchLabels", key, qualified_name_errors(key))
        errors += _invalid(f"{prefix}matchLabels", value, label_value_errors(value))
    for index, term in enumerate(selector.match_expressions):
        errors += _term_errors(term, f"{prefix}matchExpressions[{index}]")
    if errors:
        raise SelectorError(*errors)
    exact = [Requirement(key, "=", (value,)) for key, value in selector.match_labels.items()]
    terms = [
        Requirement(term.key, _SELECTOR_OPERATORS[term.operator], tuple(sorted(set(term.values))))
        for term in selector.match_expressions
    ]
    return Selector(tuple(sorted(exact + terms, key=lambda requirement: requirement.key)))


def _term_errors(term: LabelSelectorRequirement, path: str) -> list[str]:
    errors = []
    if term.operator not in _SELECTOR_OPERATORS:
        errors += _invalid(f"{path}.operator", term.operator, ["not a valid selector operator"])
    elif term.operator in ("In", "NotIn") and not term.values:
        errors.append(f"{path}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'")
    elif term.operator in ("Exists", "DoesNotExist") and term.values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(f"{path}.values: Forbidden: {why}")
    errors += _invalid(f"{path}.key", term.key, qualified_name_errors(term.key))
    for index, value in enumerate(term.values):
        errors += _invalid(f"{path}.values[{index}]", value, label_value_errors(value))
    return errors


def _invalid(path: str, value: Any, errors: list[str]) -> list[str]:
    return [f"{path}: Invalid value: {_quote(value)}: {error}" for error in errors]


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector."""

    field: str
    value: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms must hold; without any, everything matches. Each field is looked up once, however many terms it has."""

    terms: tuple[FieldTerm, ...] = ()
    _fields: frozenset[str] = field(init=False, repr=False, compare=False)
    _wanted: frozenset[tuple[str, str]] = field(init=False, repr=False, compare=False)
    _unwanted: frozenset[tuple[str, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_fields", frozenset(term.field for term in self.terms))
        for name, negated in (("_wanted", False), ("_unwanted", True)):
            pairs = frozenset((term.field, term.value) for term in self.terms if term.negated == negated)
            object.__setattr__(self, name, pairs)

    def matches(self, lookup: Callable[[str], str]) -> bool:
        """Tell whether an object is selected; `lookup` gives its fields, the empty string for one that is not set."""
        if len(self.terms) <= _FEW:
            return all((lookup(term.field) == term.value) != term.negated for term in self.terms)
        found = {(name, lookup(name)) for name in self._fields}
        return self._wanted <= found and not self._unwanted & found

    def by_field(self) -> Callable[[Callable[[str], str]], bool]:
        """Return the same question in a form that looks up each field once, however many terms are about it."""
        wanted: dict[str, set[str]] = {}
        refused: dict[str, set[str]] = {}
        for term in self.terms:
            (refused if term.negated else wanted).setdefault(term.field, set()).add(term.value)

        def matches(lookup: Callable[[str], str]) -> bool:
            return all(values == {lookup(path)} for path, values in wanted.items()) and not any(
                lookup(path) in values for path, values in refused.items()
            )

        return matches


def parse_fields(text: str) -> FieldSelector:
    r"""Parse a field selector: `metadata.name=x,status.phase!=Running`; in values, `\` escapes `,`, `=` and itself."""
    terms = []
    for part in sorted(filter(None, _split_terms(text))):
        at = min((found for found in (part.find("="), part.find("!=")) if found >= 0), default=-1)
        if at < 0:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        operator = next(symbol for symbol in ("!=", "==", "=") if part.startswith(symbol, at))
        value = _unescaped(part[at + len(operator) :])
        if part[:at] or value:  # Kubernetes ignores a bare operator
            terms.append(FieldTerm(part[:at], value, negated=operator == "!="))
    return FieldSelector(tuple(terms))


def _split_terms(text: str) -> list[str]:
    terms, start, escaped = [], 0, False
    for at, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            terms.append(text[start:at])
            start = at + 1
    return [*terms, text[start:]]


def _unescaped(text: str) -> str:
    value, chars = "", iter(text)
    for char in chars:
        if char == "\\":
            escaped = next(chars, "")
            if escaped not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            value += escaped
        elif char in (",", "="):
            # A number where one expects the character: that is how Kubernetes prints it.
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            value += char
    return value
