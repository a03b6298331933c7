"""The habits of admission policies and their bindings: what they say must be understood in full, or is refused.

Kubernetes' own checks come first and in its words. After them comes what the embedded hub does not do: parameters,
audit annotations, and subresources besides `status`. A policy that asks for one of these is refused, because one that
is only half in force looks like protection and is none.
"""

import re
from collections.abc import Iterable

from echelon.api import labels
from echelon.api.base import JSONObject
from echelon.hub.kinds.strategy import Strategy
from echelon.hub.policy.expressions import MAX_CONDITIONS, PolicyError, expressions_of
from echelon.hub.schema import causes
from echelon.hub.schema.metadata import name_errors
from echelon.kube.errors import Cause

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_ACTIONS = ("Audit", "Deny", "Warn")
_HERE = "is not supported by the embedded hub"


def _check_policy(new: JSONObject, _old: JSONObject | None) -> list[Cause]:
    spec = new.get("spec") or {}
    found = _one_of("spec.failurePolicy", spec.get("failurePolicy", "Fail"), ("Fail", "Ignore"))
    if spec.get("matchConstraints") is None:
        found.append(causes.required("spec.matchConstraints"))
    else:
        found += _check_matches(spec["matchConstraints"], "spec.matchConstraints")
        if not spec["matchConstraints"].get("resourceRules"):
            found.append(causes.required("spec.matchConstraints.resourceRules"))
    found += _check_conditions(spec.get("matchConditions") or ())
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        why = "validations or auditAnnotations must contain at least one item"
        found += [causes.required("spec.validations", why), causes.required("spec.auditAnnotations", why)]
    for name in ("paramKind", "auditAnnotations"):
        if spec.get(name):
            found.append(causes.forbidden(f"spec.{name}", _HERE))
    try:
        expressions_of(spec)
    except PolicyError as error:
        found += error.causes
    return found


def _check_conditions(conditions: Iterable[JSONObject]) -> list[Cause]:
    found, seen = [], set()
    for index, condition in enumerate(conditions):
        name, path = condition.get("name") or "", f"spec.matchConditions[{index}].name"
        if not name:
            found.append(causes.required(path))
        elif name in seen:
            found.append(causes.duplicate(path, name))
        else:
            found += [causes.invalid(path, name, why) for why in labels.qualified_name_errors(name)]
        seen.add(name)
    if len(seen) > MAX_CONDITIONS:
        found.append(causes.too_many("spec.matchConditions", len(seen), MAX_CONDITIONS))
    return found


def _check_binding(new: JSONObject, _old: JSONObject | None) -> list[Cause]:
    spec = new.get("spec") or {}
    name = spec.get("policyName") or ""
    found = [causes.invalid("spec.policyName", name, why) for why in name_errors(name, "subdomain")] if name else []
    if not name:
        found.append(causes.required("spec.policyName"))
    if spec.get("paramRef") is not None:
        found.append(causes.forbidden("spec.paramRef", _HERE))
    if spec.get("matchResources") is not None:
        found += _check_matches(spec["matchResources"], "spec.matchResources")
    return found + _check_actions(spec.get("validationActions") or [])


def _check_actions(actions: list[str]) -> list[Cause]:
    path = "spec.validationActions"
    found = []
    for index, action in enumerate(actions):
        found += _one_of(f"{path}[{index}]", action, _ACTIONS)
    if "Deny" in actions and "Warn" in actions:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        found.append(causes.invalid(path, actions, why))
    if not actions:
        found.append(causes.required(path, "at least one validation action is required"))
    return found


def _check_matches(wire: JSONObject, path: str) -> list[Cause]:
    found = _one_of(f"{path}.matchPolicy", wire.get("matchPolicy", "Equivalent"), ("Equivalent", "Exact"))
    for name in ("namespaceSelector", "objectSelector"):
        try:
            labels.from_label_selector(wire.get(name) or {}, f"{path}.{name}")
        except labels.SelectorError as error:
            found += [Cause(*text.split(": ", 1)) for text in error.args]
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(wire.get(name) or ()):
            found += _check_rule(rule, f"{path}.{name}[{index}]")
    return found


def _check_rule(rule: JSONObject, path: str) -> list[Cause]:
    found = []
    for name, what in (("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(name) or []
        if not values:
            found.append(causes.required(f"{path}.{name}"))
        elif len(values) > 1 and "*" in values:
            found.append(causes.invalid(f"{path}.{name}", values, f"if '*' is present, must not specify other {what}"))
    for index, operation in enumerate(rule.get("operations") or ()):
        found += _one_of(f"{path}.operations[{index}]", operation, _OPERATIONS)
    found += _one_of(f"{path}.scope", rule.get("scope", "*"), ("*", "Cluster", "Namespaced"))
    return found + _check_resources(rule.get("resources") or [], f"{path}.resources")


def _check_resources(resources: list[str], path: str) -> list[Cause]:
    found = [] if resources else [causes.required(path)]
    plain = [name for name in resources if "/" not in name]
    if "*" in plain and len(plain) > 1:
        why = "if '*' is present, must not specify other resources without subresources"
        found.append(causes.invalid(path, resources, why))
    for index, name in enumerate(resources):
        if not name:
            found.append(causes.required(f"{path}[{index}]"))
        elif re.fullmatch(r"[^/]+(/status)?", name) is None:
            why = f"{causes.quoted(name)} {_HERE}, which asks policies about objects and their status only"
            found.append(causes.forbidden(f"{path}[{index}]", why))
    return found


def _one_of(path: str, value: str, supported: tuple[str, ...]) -> list[Cause]:
    return [] if value in supported else [causes.not_supported(path, value, supported)]


STRATEGIES: dict[str, Strategy] = {
    "validatingadmissionpolicies.admissionregistration.k8s.io": Strategy(
        counts_generations=True, compiles=True, validate=_check_policy
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": Strategy(
        counts_generations=True, validate=_check_binding
    ),
}
