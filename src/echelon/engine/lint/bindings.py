"""Bindings of policies: overrides that nobody honours, and which policies and placements of the files they join."""

from collections.abc import Iterator

from echelon.api.cluster import GROUP as CLUSTER_GROUP
from echelon.engine.lint.documents import (
    BINDING,
    PLACEMENT,
    POLICY,
    POLICY_SET,
    WARNING,
    Document,
    Documents,
    Finding,
    mapping,
    sequence,
)
from echelon.engine.lint.strategies import readable
from echelon.engine.policy.bindings import RESTRICTED
from echelon.engine.rollout.strategy import StrategyType


def lint_binding(one: Document, known: Documents) -> Iterator[Finding]:
    """Look at a binding, and at the policies that it binds."""
    overrides = mapping(one.content.get("bindingOverrides"))
    if "remediationActionOverride" in overrides:
        yield one.is_now("bindingOverrides.remediationActionOverride", "remediationAction")
    if "remediationActionOverride" in one.content:
        yield one.is_now("remediationActionOverride", "bindingOverrides.remediationAction")
    if isinstance(one.content.get("subFilter"), bool):
        yield one.is_now("subFilter", f"subFilter: {RESTRICTED}")
    if overrides.get("remediationAction"):
        for policy in _bound_policies(one, known):
            strategy = readable(mapping(policy.spec.get("rolloutStrategy")))
            if strategy is not None and strategy.type is not StrategyType.ALL:
                problem = f"policy {policy.name} has a strategy of type {strategy.type}, so this is ignored for it"
                yield one.finds("bindingOverrides.remediationAction", problem, WARNING)
    elif one.content.get("subFilter") == RESTRICTED:
        problem = "a restricted binding places nothing, and this one overrides nothing either: it has no effect"
        yield one.finds("subFilter", problem, WARNING)


def _bound_policies(one: Document, known: Documents) -> Iterator[Document]:
    for policy in known.of(POLICY, one.namespace):
        if _binds(one, policy, known):
            yield policy


def placements_of(policy: Document, known: Documents) -> dict[str, Document | None]:
    """Return the placements that a policy is bound to, by name; None where one is not in the files."""
    found: dict[str, Document | None] = {}
    for each in known.of(BINDING, policy.namespace):
        ref = mapping(each.content.get("placementRef"))
        if each.content.get("subFilter") != RESTRICTED and _binds(each, policy, known):
            name = str(ref.get("name", ""))
            is_placement = (ref.get("apiGroup"), ref.get("kind")) == (CLUSTER_GROUP, PLACEMENT)
            found[name] = known.get(PLACEMENT, policy.namespace, name) if is_placement else None
    return found


def _binds(binding: Document, policy: Document, known: Documents) -> bool:
    """Whether a binding is about a policy, by its name or by that of a set which has it."""
    for each in map(mapping, sequence(binding.content.get("subjects"))):
        name = str(each.get("name", ""))
        if each.get("kind") == POLICY and name == policy.name:
            return True
        listed = known.get(POLICY_SET, binding.namespace, name) if each.get("kind") == POLICY_SET else None
        if listed is not None and policy.name in sequence(listed.spec.get("policies")):
            return True
    return False
