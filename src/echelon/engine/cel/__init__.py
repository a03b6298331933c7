"""CEL for everything that users may write expressions in: rules of a schema, predicates of a placement.

The runtime is an optional dependency, so importing this never fails; compiling says what is missing.
"""

from echelon.engine.cel.library import Function
from echelon.engine.cel.program import CEL_AVAILABLE, CompileError, EvaluationError, Program, compile_expression

__all__ = ["CEL_AVAILABLE", "CompileError", "EvaluationError", "Function", "Program", "compile_expression"]
