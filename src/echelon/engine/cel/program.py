"""CEL, behind a small interface: compile a text once, evaluate it with values.

The runtime is an optional dependency, and no other module knows it. Evaluation is bounded: by the length of the text,
and by the runtime's own limits on nesting and iterations.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from echelon.api.base import JSON
from echelon.engine.cel.library import FUNCTIONS, Function

try:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings
except ImportError:  # the extra is not installed
    cel = None

CEL_AVAILABLE: Final = cel is not None
MAX_EXPRESSION_BYTES: Final = 5 * 1024

# What this runtime calls a mistake, and what people know it as.
_MISTAKES = (
    (re.compile(r'Key not found in map : "?(?P<what>.*?)"?$'), "no such key: {what}"),
    (re.compile(r"Index error: index=(?P<what>-?\d+)"), "index out of bounds: {what}"),
    (re.compile(r"divide by zero(?P<what>)"), "division by zero{what}"),
    (re.compile(r"modulus by zero(?P<what>)"), "modulus by zero{what}"),
    (re.compile(r"No matching overloads found(?P<what>)"), "no such overload{what}"),
    (re.compile(r"no_such_overload(?P<what>)"), "no such overload{what}"),
    (re.compile(r"Iteration budget exceeded(?P<what>)"), "operation cancelled: actual cost limit exceeded{what}"),
)


class CompileError(ValueError):
    """The text is not an expression; the message says what, and where."""


class EvaluationError(ValueError):
    """The expression has no value for these variables."""


class Program:
    """A compiled expression."""

    def __init__(self, env: Any, text: str) -> None:
        if len(text.encode("utf-8", "replace")) > MAX_EXPRESSION_BYTES:
            raise CompileError(f"expression is longer than {MAX_EXPRESSION_BYTES} bytes")
        try:
            self._expression = env.compile(text)
        except (RuntimeError, TypeError, ValueError) as error:
            raise CompileError(_plain_compile_error(str(error))) from None
        self._env = env
        self.returns: str = self._expression.return_type().name()

    def evaluate(self, /, **values: JSON) -> JSON:
        """Return the value; raise EvaluationError if there is none."""
        return self.run(self.bind(values))

    def bind(self, values: Mapping[str, JSON]) -> Any:
        """Convert variables once, for several programs of the same kind."""
        try:
            return self._env.Activation(dict(values))
        except (RuntimeError, TypeError, ValueError, RecursionError) as error:
            raise EvaluationError(str(error)) from None

    def run(self, bound: Any) -> JSON:
        """Evaluate with variables that were converted before."""
        try:
            result = self._expression.eval(bound)
            if result.type() == cel.Type.ERROR:
                raise EvaluationError(_plain_error(str(result.value())))
            return result.plain_value()
        except EvaluationError:
            raise
        except (RuntimeError, TypeError, ValueError, RecursionError) as error:
            raise EvaluationError(_plain_error(str(error))) from None


def compile_expression(text: str, variables: Iterable[str] = (), functions: Iterable[Function] = ()) -> Program:
    """Compile an expression over variables of any type; `functions` are known besides those of Kubernetes."""
    if not CEL_AVAILABLE:
        raise CompileError("CEL is not available: install the `cel` extra")
    return Program(_environment(frozenset(variables), tuple(functions)), text)


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
                impl=function.run,
            )
        )
    return cel.CelExtension(name, [cel.FunctionDecl(called, each) for called, each in overloads.items()])


def _plain_compile_error(text: str) -> str:
    text = re.sub(r"^[A-Z_]+: ", "", text)
    return re.sub(r" \[[A-Z_]+\]$", "", text).strip()


def _plain_error(text: str) -> str:
    text = re.sub(r"^[A-Z_]+: ", "", _plain_compile_error(text))
    for pattern, plain in _MISTAKES:
        if found := pattern.search(text):
            return plain.format(what=found["what"])
    return text
