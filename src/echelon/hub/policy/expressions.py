"""The expressions of a policy: compiled once, evaluated for each request that the policy is about.

Compiled policies are shared by all clusters that have the same one. What a policy says of a request are its failures;
what becomes of those is the business of its bindings.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from echelon.api.base import JSONObject
from echelon.engine.cel import Budget, CompileError, EvaluationError, Program, compile_expression
from echelon.hub.policy.authorizer import FUNCTIONS
from echelon.hub.schema import causes
from echelon.kube.errors import Cause

BUDGET: Final = 100_000  # what all expressions of a policy may cost for one request: nobody is served meanwhile
MAX_BYTES: Final = 100_000  # of a policy: compiling a character takes microseconds
MAX_MESSAGE_BYTES: Final = 5 * 1024
MAX_CONDITIONS: Final = 64
REASONS: Final = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}

_REQUEST = ("object", "oldObject", "request", "namespaceObject")
_LITERAL = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")
_TYPED = re.compile(r"\b(?:variables|request|namespaceObject)\b")
_VARIABLE = re.compile(r"\bvariables\s*\.\s*([A-Za-z_][A-Za-z0-9_]*)")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")


class PolicyError(ValueError):
    """A policy with expressions that cannot be used."""

    def __init__(self, found: list[Cause]) -> None:
        super().__init__(", ".join(map(str, found)))
        self.causes = found


@dataclass(frozen=True)
class Failure:
    """A validation that is not true of a request, or that has no value for it."""

    index: int
    message: str
    reason: str


@dataclass(frozen=True)
class _Expression:
    text: str
    program: Program
    variables: tuple[str, ...]  # those that it mentions

    def run(self, bound: "_Bound") -> Any:
        """Return the value; an error has the words that Kubernetes has."""
        try:
            return self.value(bound)
        except EvaluationError as error:
            raise EvaluationError(f"expression '{self.text}' resulted in error: {error}") from None

    def value(self, bound: "_Bound") -> Any:
        """Return the value; an error says only what happened."""
        values = bound.values(self.variables)
        try:
            return self.program.run(values, bound.budget)
        except EvaluationError as error:
            broken = next((bound.broken[name] for name in self.variables if name in bound.broken), str(error))
            raise EvaluationError(broken) from None


@dataclass(frozen=True)
class _Validation:
    expression: _Expression
    message_expression: _Expression | None
    message: str
    reason: str

    def failure(self, index: int, bound: "_Bound") -> Failure | None:
        """Return what is wrong; raise EvaluationError if nobody can tell."""
        if self.expression.run(bound) is True:
            return None
        said = _spoken(self.message_expression, bound) or self.message.strip()
        return Failure(index, said or f"failed expression: {self.expression.text.strip()}", self.reason)


class _Bound:
    """The variables of one request. Those of the policy are evaluated when they are first needed."""

    def __init__(self, values: Mapping[str, Any], variables: Mapping[str, _Expression], budget: Budget) -> None:
        self._values = values
        self._variables = variables
        self._known: dict[str, Any] = {}
        self.budget = budget
        self.broken: dict[str, str] = {}

    def values(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return everything that an expression may see. A variable without a value is missing, as long as it may."""
        for name in names:
            if name not in self._known and name not in self.broken:
                try:
                    self._known[name] = self._variables[name].value(self)
                except EvaluationError as error:
                    self.broken[name] = f'composited variable "{name}" fails to evaluate: {error}'
        return {**self._values, "variables": {name: self._known[name] for name in names if name in self._known}}


@dataclass(frozen=True)
class Expressions:
    """All of a policy's expressions."""

    fails: bool  # what has no value is a failure
    conditions: tuple[_Expression, ...]
    variables: dict[str, _Expression]
    validations: tuple[_Validation, ...]

    def failures(self, values: Mapping[str, Any], budget: Budget | None = None) -> list[Failure]:
        """Return what is wrong with a request, given as the variables that describe it."""
        bound = _Bound(values, self.variables, budget or Budget(BUDGET, BUDGET))
        try:
            if not self._are_met(bound):
                return []
        except EvaluationError as error:
            return [Failure(0, str(error), "Invalid")] if self.fails else []
        return list(self._found(bound))

    def _are_met(self, bound: _Bound) -> bool:
        """Tell whether the policy is about the request; one condition that is false settles it."""
        broken: list[str] = []
        for condition in self.conditions:
            try:
                if condition.run(bound) is not True:
                    return False
            except EvaluationError as error:
                broken.append(str(error))
        if broken:
            raise EvaluationError(broken[0] if len(broken) == 1 else f"[{', '.join(broken)}]")
        return True

    def _found(self, bound: _Bound) -> Iterator[Failure]:
        for index, validation in enumerate(self.validations):
            try:
                found = validation.failure(index, bound)
            except EvaluationError as error:
                found = Failure(index, str(error), "Invalid") if self.fails else None
            if found is not None:
                yield found


def _spoken(expression: _Expression | None, bound: _Bound) -> str:
    """Evaluate a message; an expression that fails, or says nothing fit for one line, has no say."""
    if expression is None:
        return ""
    try:
        text = expression.run(bound)
    except EvaluationError:
        return ""
    text = text.strip() if isinstance(text, str) else ""
    return "" if "\n" in text or len(text.encode()) > MAX_MESSAGE_BYTES else text


def expressions_of(spec: JSONObject) -> Expressions:
    """Compile the expressions of a policy; raise PolicyError with everything that is wrong with them."""
    return _compiled(msgspec.json.encode(spec, order="sorted"))


@lru_cache(maxsize=256)
def _compiled(spec_json: bytes) -> Expressions:
    spec = msgspec.json.decode(spec_json)
    compiler = _Compiler()
    if len(spec_json) > MAX_BYTES:
        raise PolicyError([causes.invalid("spec", f"{len(spec_json)} bytes", f"must have at most {MAX_BYTES} bytes")])
    conditions = tuple(
        compiler.compiled(each, "expression", f"spec.matchConditions[{index}]", "BOOL", composed=False)
        for index, each in enumerate(spec.get("matchConditions") or ())
    )
    for index, each in enumerate(spec.get("variables") or ()):
        compiler.declare(each, f"spec.variables[{index}]")
    validations = tuple(
        compiler.validation(each, f"spec.validations[{index}]")
        for index, each in enumerate(spec.get("validations") or ())
    )
    if compiler.found:
        raise PolicyError(compiler.found)
    return Expressions(
        spec.get("failurePolicy", "Fail") != "Ignore",
        tuple(filter(None, conditions)),
        compiler.variables,
        tuple(filter(None, validations)),
    )


class _Compiler:
    """Compiles one policy, and collects what is wrong with it."""

    def __init__(self) -> None:
        self.found: list[Cause] = []
        self.variables: dict[str, _Expression] = {}

    def declare(self, variable: JSONObject, path: str) -> None:
        """Compile a variable. It can be used by what comes after it."""
        name = variable.get("name") or ""
        if not name.strip():
            self.found.append(causes.required(f"{path}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name):
            self.found.append(causes.invalid(f"{path}.name", name, "must be a valid CEL identifier"))
        elif name in self.variables:
            self.found.append(causes.duplicate(f"{path}.name", name))
        elif (compiled := self.compiled(variable, "expression", path, "")) is not None:
            self.variables[name] = compiled

    def validation(self, validation: JSONObject, path: str) -> _Validation | None:
        """Compile a validation."""
        expression = self.compiled(validation, "expression", path, "BOOL")
        speaks, message = None, validation.get("message") or ""
        if validation.get("messageExpression"):
            speaks = self.compiled(validation, "messageExpression", path, "STRING", authorized=False)
        if message and not message.strip():
            self.found.append(causes.invalid(f"{path}.message", message, "must be non-empty if specified"))
        elif re.search(r"[\n\r]", message.strip()):
            self.found.append(causes.invalid(f"{path}.message", message, "must not contain line breaks"))
        reason = validation.get("reason") or "Invalid"
        if reason not in REASONS:
            self.found.append(causes.not_supported(f"{path}.reason", reason, REASONS))
        return None if expression is None else _Validation(expression, speaks, message, reason)

    def compiled(
        self, holder: JSONObject, field: str, path: str, returns: str, *, composed: bool = True, authorized: bool = True
    ) -> _Expression | None:
        """Compile the text in a field. `returns` is the type that it must have, if it must have one."""
        text = holder.get(field) or ""
        where = f"{path}.{field}"
        if not text.strip():
            why = "expression is not specified" if composed else ""
            blank = causes.invalid(where, text, "must be non-empty if specified")
            self.found.append(blank if field == "messageExpression" else causes.required(where, why))
            return None
        known = (*_REQUEST, *(["variables"] if composed else []), *(["authorizer"] if authorized else []))
        try:
            bare = _LITERAL.sub(lambda found: " " * len(found[0]), text)
            mentioned = self._mentioned(bare) if composed else ()
            program = compile_expression(text, known, FUNCTIONS if authorized else ())
            # Kubernetes knows the types of these, and refuses only what is not known to be of the right one.
            unknown = program.returns == "DYN" and _TYPED.search(bare) is not None
            if returns and program.returns != returns and not unknown:
                raise CompileError(f"must evaluate to {returns.lower()}")
        except CompileError as error:
            why = str(error)
            self.found.append(
                causes.invalid(where, text, why if why.startswith("must") else f"compilation failed: {why}")
            )
            return None
        return _Expression(text, program, mentioned)

    def _mentioned(self, bare: str) -> tuple[str, ...]:
        """Return the variables that a text without literals mentions; all must be known by now."""
        names = tuple(dict.fromkeys(_VARIABLE.findall(bare)))
        if unknown := [name for name in names if name not in self.variables]:
            raise CompileError(f"undefined field '{unknown[0]}' of variables")
        return names
