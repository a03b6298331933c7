"""CEL predicates: expressions over a whole cluster.

An expression that does not compile makes its placement misconfigured, and so does one that costs too much. Nothing else
fails: whatever goes wrong with one cluster means that this cluster does not match.
"""

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.engine.cel import (
    Budget,
    CompileError,
    CostExceeded,
    EvaluationError,
    Function,
    Program,
    compile_expression,
)
from echelon.engine.placement.addons import ScoreIndex
from echelon.engine.placement.fleet import Cluster

VARIABLE = "managedCluster"
MAX_PARSED = 64 * 1024  # characters of JSON that an expression may parse

# Where the scores of a cluster travel in its own value: no field of an object can have a name with a space.
_SCORES = "add-on scores"


def compile_predicate(text: str) -> Program:
    """Compile an expression; raise CompileError with the text that conditions have."""
    return _compiled(text)


def matches(program: Program, view: JSONObject, budget: Budget | None = None) -> bool:
    """Tell whether an expression is true of a cluster; anything but true is no.

    Raises CostExceeded.
    """
    try:
        return program.run(view, budget) is True
    except CostExceeded:
        raise
    except EvaluationError:
        return False


def all_match(programs: Iterable[Program], cluster: Cluster, scores: ScoreIndex) -> bool:
    """Tell whether all expressions are true of a cluster."""
    seen = view(cluster, scores)
    return all(matches(program, seen) for program in programs)


def view(cluster: Cluster, scores: ScoreIndex) -> JSONObject:
    """Return what expressions see of a cluster."""
    value = as_json(cluster)
    value[_SCORES] = {
        resource: [{"name": name, "value": value} for name, value in found.values.items()]
        for resource, found in scores.of(cluster.name)
    }
    return {VARIABLE: value}


def as_json(cluster: Cluster) -> JSONObject:
    """Return a cluster as the API shows it, with the parts that it always shows."""
    value: JSONObject = msgspec.to_builtins(cluster.source)
    value["spec"].setdefault("leaseDurationSeconds", cluster.source.spec.lease_duration_seconds)
    status = value.setdefault("status", {})
    status.setdefault("conditions", [])
    status.setdefault("version", {})
    return value


def _scores(cluster: JSONObject, resource: str) -> JSON:
    found = cluster.get(_SCORES, {})
    if resource not in found:
        raise ValueError(f"AddOnPlacementScore {resource!r} was not found")
    return found[resource]


def _parse_json(text: str) -> JSON:
    if len(text) > MAX_PARSED:
        raise ValueError(f"text of more than {MAX_PARSED} characters cannot be parsed")
    return _numbers_as_doubles(msgspec.json.decode(text))


def _numbers_as_doubles(value: JSON) -> JSON:
    if isinstance(value, bool) or not isinstance(value, int | list | dict):
        return value
    if isinstance(value, int):
        return float(value)
    if isinstance(value, list):
        return [_numbers_as_doubles(each) for each in value]
    return {key: _numbers_as_doubles(each) for key, each in value.items()}


_FUNCTIONS = (
    Function("scores", ("dyn", "string"), "dyn", _scores),
    Function("parseJSON", ("string",), "dyn", _parse_json),
)


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Program:
    try:
        return compile_expression(text, [VARIABLE], _FUNCTIONS)
    except CompileError as error:
        raise CompileError(f"compilation failed: {error}") from None
