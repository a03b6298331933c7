"""CEL, behind a small interface: compile a text once, evaluate it with values.

The runtime that compiles is an optional dependency, and no other module knows it. It cannot be stopped either, so what
would keep it busy for long is refused before it sees it. Evaluation is our own, and metered.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from echelon.engine.cel import mathematics, operators, strings
from echelon.engine.cel.checked import Node, read
from echelon.engine.cel.evaluation import Frame, Planner
from echelon.engine.cel.library import FUNCTIONS, Function
from echelon.engine.cel.metering import Budget, Overrun
from echelon.engine.cel.patterns import PATTERNS_AVAILABLE

try:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings
except ImportError:  # the extra is not installed
    cel = None

CEL_AVAILABLE: Final = cel is not None and PATTERNS_AVAILABLE
MAX_EXPRESSION_BYTES: Final = 5 * 1024
COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"

_LITERAL = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")
_DOUBLING = re.compile(r"\b(?:optMap|optFlatMap)\s*\(")  # macros that repeat what they are called on
_BINDING = re.compile(r"\b(?:bind|map|filter|all|exists|exists_one|optMap|optFlatMap)\s*\(")
_SIGNS = re.compile(r"(?:[!-]\s*){65}")
_LARGEST = 1 << 19  # characters that a text may stand for, when macros and types are written out
_LONGEST_MESSAGE = 4096


class CompileError(ValueError):
    """The text is not an expression; the message says what, and where."""


class EvaluationError(ValueError):
    """The expression has no value for these variables."""


class CostExceeded(EvaluationError):
    """The expression was stopped, because it costs more than it may."""

    def __init__(self) -> None:
        super().__init__(COST_EXCEEDED)


class Program:
    """A compiled expression."""

    def __init__(self, env: Any, planner: Planner, text: str) -> None:
        _check_size(text)
        try:
            expression = env.compile(text)
            self.node: Node = read(expression.serialize())
        except (RuntimeError, TypeError, ValueError) as error:
            raise CompileError(_plain_compile_error(str(error))[:_LONGEST_MESSAGE]) from None
        self.returns: str = expression.return_type().name()
        self._run = planner.plan(self.node)

    def evaluate(self, /, **values: Any) -> Any:
        """Return the value; raise EvaluationError if there is none."""
        return self.run(values)

    def run(self, values: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Return the value for these variables, as far as the budget allows."""
        budget = Budget() if budget is None else budget
        meter = budget.meter()
        try:
            return self._run(Frame(dict(values), meter))
        except Overrun:
            raise CostExceeded from None
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise EvaluationError(str(error)) from None
        finally:
            budget.settle(meter)


def compile_expression(text: str, variables: Iterable[str] = (), functions: Iterable[Function] = ()) -> Program:
    """Compile an expression over variables of any type; `functions` are known besides those of Kubernetes."""
    if not CEL_AVAILABLE:
        raise CompileError("CEL is not available: install the `cel` extra")
    more = tuple(functions)
    return Program(_environment(frozenset(variables), more), _planner(more), text)


def _check_size(text: str) -> None:
    """Refuse what takes the compiler long: it cannot be stopped, and some texts stand for much longer ones."""
    if len(text.encode("utf-8", "replace")) > MAX_EXPRESSION_BYTES:
        raise CompileError(f"expression is longer than {MAX_EXPRESSION_BYTES} bytes")
    bare = _LITERAL.sub("''", text)
    doublings = max(len(_DOUBLING.findall(bare)), min(bare.count("{"), len(_BINDING.findall(bare))))
    if len(bare) << min(doublings, 32) > _LARGEST or _SIGNS.search(bare):
        raise CompileError("expression is too complex: use fewer macros, maps or signs in it")


@lru_cache(maxsize=64)
def _environment(variables: frozenset[str], functions: tuple[Function, ...]) -> Any:
    extensions = [
        ext_bindings.ExtBindings(),
        ext_encoders.ExtEncoders(),
        ext_math.ExtMath(),
        ext_optional.ExtOptional(),
        ext_strings.ExtStrings(),
        _library("kubernetes", tuple(FUNCTIONS)),  # after the strings: it adds overloads to theirs
        *([_library("more", functions)] if functions else []),
    ]
    return cel.NewEnv(variables=dict.fromkeys(sorted(variables), cel.Type.DYN), extensions=extensions)


@lru_cache(maxsize=8)
def _planner(functions: tuple[Function, ...]) -> Planner:
    """Collect what can be called: by name, and then by the kinds of the arguments."""
    tables: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for found, table in zip((operators.FUNCTIONS, operators.METHODS), tables, strict=True):
        table.update({name: dict(each) for name, each in found.items()})
    extensions = ((mathematics.FUNCTIONS, tables[0]), (strings.FUNCTIONS, tables[0]), (strings.METHODS, tables[1]))
    for more, table in extensions:
        for name, each in more.items():
            table.setdefault(name, {}).update(each)
    for function in (*FUNCTIONS, *functions):
        kinds = tuple("map" if kind == "value" else kind for kind in function.parameters)
        tables[function.member].setdefault(function.name, {})[kinds] = function.implementation()
    return Planner(*tables)


@lru_cache(maxsize=8)
def _library(name: str, functions: tuple[Function, ...]) -> Any:
    kinds = {
        "string": cel.Type.STRING,
        "int": cel.Type.INT,
        "bool": cel.Type.BOOL,
        "double": cel.Type.DOUBLE,
        "dyn": cel.Type.DYN,
        "list": cel.Type.List(cel.Type.DYN),
        "value": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
    }
    overloads: dict[str, list[Any]] = {}
    for function in functions:
        overloads.setdefault(function.name, []).append(
            cel.Overload(
                f"k8s_{function.name.replace('.', '_')}_{'_'.join(function.parameters)}_{int(function.member)}",
                return_type=kinds[function.returns],
                parameters=[kinds[kind] for kind in function.parameters],
                is_member=function.member,
                impl=function.run,  # declared, and never called: evaluation is our own
            )
        )
    return cel.CelExtension(name, [cel.FunctionDecl(called, each) for called, each in overloads.items()])


def _plain_compile_error(text: str) -> str:
    text = re.sub(r"^[A-Z_]+: ", "", text)
    return re.sub(r" \[[A-Z_]+\]$", "", text).strip()
