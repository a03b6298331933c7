"""Which policy claims a template.

Karmada's rules: policies of the template's namespace come before those for all namespaces. Among either, the highest
priority counts, then the most precise selector (a name, labels, all of a kind), then the first name. Who has a template
keeps it, whatever comes later, unless what comes asks to preempt.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TypeAlias

from echelon.api.base import JSONObject
from echelon.api.karmada_selectors import ResourceSelector
from echelon.api.labels import SelectorError, from_label_selector
from echelon.api.meta import ObjectMeta
from echelon.api.propagation import ClusterPropagationPolicy, PropagationPolicy
from echelon.engine.work.health_state import part, text
from echelon.engine.workload.names import EXECUTION_PREFIX

Policy: TypeAlias = PropagationPolicy | ClusterPropagationPolicy
Claimant: TypeAlias = tuple[str, str]  # namespace, empty for a policy for all namespaces, and name

# One object in two versions: a selector may name either.
_SAME = (frozenset({"apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"}),)
_RESERVED_NAMESPACES = ("karmada-system", "karmada-cluster", "echelon-system")
_RESERVED_PREFIXES = (EXECUTION_PREFIX, "kube-")


class Match(IntEnum):
    """How precisely a selector names a template."""

    NONE = 0
    KIND = 1
    LABELS = 2
    NAME = 3


def claimant_of(policy: Policy) -> Claimant:
    """Return what tells a policy from all others."""
    return policy.metadata.namespace, policy.metadata.name


def is_reserved(namespace: str) -> bool:
    """Whether a namespace is one that policies for all namespaces leave alone."""
    return namespace in _RESERVED_NAMESPACES or namespace.startswith(_RESERVED_PREFIXES)


def matched(selectors: Iterable[ResourceSelector], template: JSONObject) -> Match:
    """Return how precisely the best of some selectors names a template."""
    return max((_match(each, template) for each in selectors), default=Match.NONE)


def same_kind(selector: ResourceSelector, api_version: str, kind: str) -> bool:
    """Whether a selector is about a kind."""
    if selector.kind != kind:
        return False
    return selector.api_version == api_version or any({selector.api_version, api_version} <= each for each in _SAME)


def claiming(template: JSONObject, policies: Iterable[Policy], holder: Claimant | None = None) -> Policy | None:
    """Return the policy that a template follows; `holder` is the one that it followed until now."""
    ranked = sorted(_ranked(template, policies), key=lambda pair: pair[0])
    candidates = [policy for _, policy in ranked]
    holding = next((each for each in candidates if claimant_of(each) == holder), None)
    if holding is None:
        return candidates[0] if candidates else None
    return next((each for each in candidates if _preempts(each, holding)), holding)


def _ranked(template: JSONObject, policies: Iterable[Policy]) -> Iterable[tuple[tuple[bool, int, int, str], Policy]]:
    namespace = text(part(template, "metadata"), "namespace")
    for policy in policies:
        meta = policy.metadata
        if meta.deletion_timestamp or not _reaches(meta, namespace):
            continue
        match = matched(policy.spec.resource_selectors, template)
        if match is not Match.NONE:
            yield (not meta.namespace, -policy.spec.priority, -match, meta.name), policy


def _reaches(policy: ObjectMeta, namespace: str) -> bool:
    """Whether a policy may say anything about what is in a namespace."""
    return policy.namespace == namespace if policy.namespace else not is_reserved(namespace)


def _preempts(policy: Policy, holding: Policy) -> bool:
    """Whether a policy takes a template from the one that has it."""
    if policy.spec.preemption != "Always" or policy is holding:
        return False
    own, other = bool(policy.metadata.namespace), bool(holding.metadata.namespace)
    if own != other:
        return own
    return policy.spec.priority > holding.spec.priority


def _match(selector: ResourceSelector, template: JSONObject) -> Match:
    metadata = part(template, "metadata")
    if not same_kind(selector, text(template, "apiVersion"), text(template, "kind")):
        return Match.NONE
    if selector.namespace and selector.namespace != text(metadata, "namespace"):
        return Match.NONE
    if selector.name:
        return Match.NAME if selector.name == text(metadata, "name") else Match.NONE
    if selector.label_selector is None:
        return Match.KIND
    try:
        wanted = from_label_selector(selector.label_selector)
    except SelectorError:  # what it says means nothing, and the policy's own events tell that
        return Match.NONE
    return Match.LABELS if wanted.matches(part(metadata, "labels")) else Match.NONE


def selects_kind(selectors: Sequence[ResourceSelector], api_version: str, kind: str) -> bool:
    """Whether one of some selectors is about a kind."""
    return any(same_kind(each, api_version, kind) for each in selectors)
