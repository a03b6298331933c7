"""CEL for everything that users may write expressions in: rules of a schema, predicates of a placement.

The runtime is an optional dependency, so importing this never fails; compiling says what is missing.
"""

from echelon.engine.cel.library import Function
from echelon.engine.cel.metering import PER_CALL, PER_OBJECT, Budget, Overrun
from echelon.engine.cel.program import (
    CEL_AVAILABLE,
    CompileError,
    CostExceeded,
    EvaluationError,
    Program,
    compile_expression,
)

__all__ = [
    "CEL_AVAILABLE",
    "PER_CALL",
    "PER_OBJECT",
    "Budget",
    "CompileError",
    "CostExceeded",
    "EvaluationError",
    "Function",
    "Overrun",
    "Program",
    "compile_expression",
]
