"""Policies: strategies without an effect, and templates that do something else than they seem to.

What a template means is the business of whoever enforces it. Three things are said all the same, because everybody gets
them wrong once: a list that is added to, a name that makes all beside it meaningless, and templates in templates.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.guards import MAX_POLICY_NAME
from echelon.api.policy import ROOT_LABEL
from echelon.engine.lint.bindings import placements_of
from echelon.engine.lint.documents import WARNING, Document, Documents, Finding, mapping, sequence
from echelon.engine.lint.placements import group_names
from echelon.engine.lint.strategies import asked_concurrency, lint_control, lint_mandatory, lint_strategy, readable
from echelon.engine.policy.names import STRATEGY_ANNOTATION
from echelon.engine.rollout.strategy import StrategyType

_ONE = "one cluster is enforced at a time"
_IDENTITY = {"apiVersion", "kind", "metadata"}


def lint_policy(one: Document, known: Documents) -> Iterator[Finding]:
    """Look at a policy, and at the placements that it is bound to."""
    length = len(one.namespace) + len(one.name)
    if length > MAX_POLICY_NAME and ROOT_LABEL not in one.labels:
        problem = f"namespace and name must be no more than {MAX_POLICY_NAME} characters together, and have {length}"
        yield one.finds("metadata.name", problem)
    yield from lint_control(one)
    for at, strategy in _strategies(one):
        if not isinstance(strategy, dict):
            yield one.finds(at, "it must be the JSON of a rolloutStrategy")
            continue
        yield from lint_strategy(one, strategy, at, f"zero is no number of clusters: {_ONE}")
        yield from _effects(one, strategy, at)
        placements = placements_of(one, known)
        groups = {name: group_names(each) for name, each in placements.items() if each is not None}
        if groups and len(groups) == len(placements):  # any other one might have the group
            yield from lint_mandatory(one, strategy, at, ", ".join(sorted(groups)), set().union(*groups.values()))
    for number, each in enumerate(sequence(one.spec.get("policy-templates"))):
        definition = mapping(each).get("objectDefinition")
        at = f"spec.policy-templates[{number}].objectDefinition"
        yield from _template(one, mapping(definition), at)


def _strategies(one: Document) -> Iterator[tuple[str, Any]]:
    """Return the strategies that a policy has: its own, and the one for hubs that drop it."""
    if one.spec.get("rolloutStrategy") is not None:
        yield "spec.rolloutStrategy", mapping(one.spec["rolloutStrategy"])
    written = one.annotations.get(STRATEGY_ANNOTATION)
    if written is not None:
        try:
            yield f"metadata.annotations[{STRATEGY_ANNOTATION}]", msgspec.json.decode(written.encode())
        except msgspec.DecodeError:
            yield f"metadata.annotations[{STRATEGY_ANNOTATION}]", None


def _effects(one: Document, strategy: JSONObject, at: str) -> Iterator[Finding]:
    read = readable(strategy)
    if read is None or read.type is StrategyType.ALL:
        return
    if not _enforces(one):
        yield one.finds(at, "nothing of this policy is enforced, so it goes everywhere at once", WARNING)
    elif read.type is StrategyType.PROGRESSIVE and asked_concurrency(strategy) is None:
        yield one.finds(f"{at}.progressive.maxConcurrency", f"it is not given: {_ONE}", WARNING)


def _enforces(one: Document) -> bool:
    """Whether a policy enforces anything: its own word counts, and that of its templates if it has none."""
    templates = (mapping(each) for each in sequence(one.spec.get("policy-templates")))
    specs = (mapping(mapping(each.get("objectDefinition")).get("spec")) for each in templates)
    own = one.spec.get("remediationAction")
    actions = [own] if own else [each.get("remediationAction") for each in specs]
    return any(str(each).lower() == "enforce" for each in actions)


def _template(one: Document, definition: JSONObject, at: str) -> Iterator[Finding]:
    for word in ("apiVersion", "kind"):
        if not definition.get(word):
            yield one.finds(f"{at}.{word}", "a template needs it: nobody could create its object")
    yield from _braces(one, definition, at)
    if definition.get("kind") == "ConfigurationPolicy":
        for number, each in enumerate(sequence(mapping(definition.get("spec")).get("object-templates"))):
            yield from _object_template(one, mapping(each), f"{at}.spec.object-templates[{number}]")


def _braces(one: Document, value: Any, at: str) -> Iterator[Finding]:
    """Find templates in a template: they are not filled in, and what has one is never enforced as it is."""
    if isinstance(value, str) and "{{" in value:
        what = "hub templates ({{hub" if "{{hub" in value else "templates ({{"
        yield one.finds(at, f"{what}) are not filled in: this is reported as a template error, and never enforced")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _braces(one, each, f"{at}[{number}]")
    for key, each in mapping(value).items():
        yield from _braces(one, each, f"{at}.{key}")


def _object_template(one: Document, template: JSONObject, at: str) -> Iterator[Finding]:
    definition, kind = mapping(template.get("objectDefinition")), str(template.get("complianceType", "")).lower()
    at = f"{at}.objectDefinition"
    meta = mapping(definition.get("metadata"))
    if kind == "mustnothave" and meta.get("name"):
        beside = [f"metadata.{key}" for key in meta if key not in ("name", "namespace")]
        ignored = [*(key for key in definition if key not in _IDENTITY), *beside]
        if ignored:
            problem = "with a name, mustnothave asks only whether there is an object of that name; the rest is ignored"
            yield one.finds(at, f"{problem}: {', '.join(map(str, ignored))}", WARNING)
    if kind == "musthave":
        for key, each in definition.items():
            if key not in _IDENTITY:
                yield from _nameless(one, each, f"{at}.{key}")


def _nameless(one: Document, value: Any, at: str) -> Iterator[Finding]:
    """Find the outermost lists whose items nobody can tell apart by a name."""
    if isinstance(value, list):
        if any(not mapping(each).get("name") for each in value):
            problem = "items without a name are added to those that an object has, and replace none of them"
            yield one.finds(at, f"musthave: {problem}; mustonlyhave replaces", WARNING)
            return
        for number, each in enumerate(value):
            yield from _nameless(one, each, f"{at}[{number}]")
    for key, each in mapping(value).items():
        yield from _nameless(one, each, f"{at}.{key}")
