"""The values of an object that come back to the hub.

Values that were found are reported even if others could not be read: people look at them to find out what is wrong.
The paths are the users'; one that does not compile, or leads to something that the wire has no type for, is an error
in the status of the manifest and nothing else.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.api.jsonpath import JSONPath, JSONPathError
from echelon.api.jsonpath import compile as compile_path
from echelon.api.manifest_config import FeedbackRule, JsonPath
from echelon.api.work import FeedbackValue, FieldValue
from echelon.engine.cel.metering import Budget, Overrun

_INT64 = 2**63
_READING = 10  # for each path, however short

_WELL_KNOWN: dict[tuple[str, str], dict[str, str]] = {
    ("apps/v1", "Deployment"): {
        "ReadyReplicas": ".status.readyReplicas",
        "Replicas": ".status.replicas",
        "AvailableReplicas": ".status.availableReplicas",
    },
    ("apps/v1", "DaemonSet"): {
        "NumberReady": ".status.numberReady",
        "DesiredNumberScheduled": ".status.desiredNumberScheduled",
        "NumberAvailable": ".status.numberAvailable",
    },
    ("batch/v1", "Job"): {
        "JobComplete": '.status.conditions[?(@.type=="Complete")].status',
        "JobSucceeded": ".status.succeeded",
    },
    ("v1", "Pod"): {
        "PodReady": '.status.conditions[?(@.type=="Ready")].status',
        "PodPhase": ".status.phase",
    },
}


class Unreported(ValueError):
    """A value that cannot be reported; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """What was read, and what could not be."""

    values: tuple[FeedbackValue, ...] = ()
    errors: tuple[str, ...] = ()


def read_feedback(
    rules: Iterable[FeedbackRule], obj: JSONObject, raw_limit: int | None = None, budget: Budget | None = None
) -> Feedback:
    """Read what rules ask for. Lists and objects become JSON of at most `raw_limit` bytes; without one, an error.

    When the budget is used up, the rest is not read, and one error says so.
    """
    budget = Budget() if budget is None else budget
    values: dict[str, FeedbackValue] = {}
    errors: list[str] = []
    for rule in rules:
        try:
            paths = list(_paths(rule, obj))
        except Unreported as error:
            errors.append(str(error))
            continue
        for path in paths:
            try:
                budget.spend(_READING)
                found = _read(path, obj, raw_limit, budget)
            except Unreported as error:
                errors.append(str(error))
                continue
            except Overrun:
                errors.append(f"reading {path.name[:64]} and what comes after it costs too much")
                return Feedback(tuple(values.values()), tuple(errors))
            if found is not None:
                # Names are unique on the wire; a status with a name twice would be refused as a whole.
                values.setdefault(path.name, FeedbackValue(name=path.name, field_value=found))
    return Feedback(tuple(values.values()), tuple(errors))


def _paths(rule: FeedbackRule, obj: JSONObject) -> Iterator[JsonPath]:
    if rule.type == "JSONPaths":
        yield from rule.json_paths
        return
    version, kind = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
    if rule.type != "WellKnownStatus":
        raise Unreported(f"unknown type of feedback rule {rule.type}")
    if (version, kind) not in _WELL_KNOWN:
        raise Unreported(f"cannot find the wellknown statuses for resource with gvk {version}, Kind={kind}")
    for name, path in _WELL_KNOWN[version, kind].items():
        yield JsonPath(name=name, path=path)


def _read(path: JsonPath, obj: JSONObject, raw_limit: int | None, budget: Budget) -> FieldValue | None:
    version = str(obj.get("apiVersion", "")).rpartition("/")[2]
    if path.version and path.version != version:
        raise Unreported(f"version set in the path {path.name} is not matched for the related resource")
    compiled = _compiled(path.path)
    if isinstance(compiled, JSONPathError):
        raise Unreported(f"failed to parse json path {path.path} of {path.name} with error: {compiled}")
    found = compiled.find(obj, budget.spend)
    if raw_limit is not None and len(found) > 1:
        return _raw(path, found, raw_limit)
    if not found or found[0] is None:
        return None
    return _typed(path, found[0], raw_limit)


@lru_cache(maxsize=1024)
def _compiled(path: str) -> JSONPath | JSONPathError:
    try:
        return compile_path(path)
    except JSONPathError as error:
        return error


def _typed(path: JsonPath, value: JSON, raw_limit: int | None) -> FieldValue:
    if isinstance(value, bool):
        return FieldValue(type="Boolean", boolean=value)
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return FieldValue(type="Integer", integer=value)
    if isinstance(value, str):
        return FieldValue(type="String", string=value)
    if raw_limit is None:
        raise Unreported(f"the type {type(value).__name__} of the value for {path.name} is not supported")
    return _raw(path, value, raw_limit)


def _raw(path: JsonPath, value: JSON | Sequence[JSON], limit: int) -> FieldValue:
    encoded = msgspec.json.encode(value, order="sorted")
    if len(encoded) > limit:
        raise Unreported(f"the length of the value for {path.name} is {len(encoded)}, more than {limit}")
    return FieldValue(type="JsonRaw", json_raw=encoded.decode())
