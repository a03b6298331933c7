"""What is different in the manifest of one cluster, because override policies say so.

Those for all namespaces come first, then those of the template's namespace; among either the less precise selector
first, then by name: what is said later wins. An override that cannot be made leaves the manifest as it was, with the
reason: half an override is something that nobody has asked for.

Replicas and rolling strategy are governed: they are how the budgets of a federated workload are kept. An override that
changes one of them is told, and it is for the caller to write nothing then. So are overrides of what an object is.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from echelon.api.base import JSON, JSONObject
from echelon.api.cluster import ManagedCluster, ManagedClusterSpec
from echelon.api.labels import SelectorError
from echelon.api.meta import ObjectMeta
from echelon.api.override import (
    ClusterOverridePolicy,
    CommandArgsOverrider,
    ImageOverrider,
    LabelAnnotationOverrider,
    OverridePolicy,
    Overriders,
    RuleWithCluster,
)
from echelon.engine.align import interpreter_of
from echelon.engine.work.health_state import items, part, text
from echelon.engine.workload.affinity import ClusterMatch, affinity_match
from echelon.engine.workload.images import changed_image
from echelon.engine.workload.json_patch import PatchError, found_at, patched
from echelon.engine.workload.selecting import Match, matched

AnyOverridePolicy: TypeAlias = OverridePolicy | ClusterOverridePolicy

_CONTAINERS = "/spec/template/spec/containers"
_IDENTITY = ("apiVersion", "kind", "metadata.name", "metadata.namespace")
# Of kinds that have an interpreter: the fields that it revises, and the number of replicas.
_GOVERNED = ("spec.replicas", "spec.paused", "spec.strategy", "spec.updateStrategy")


@dataclass(frozen=True)
class Overridden:
    """A manifest after overrides."""

    manifest: JSONObject
    applied: tuple[str, ...] = ()  # names of the policies, `namespace/name` or `name`, in the order in which they came
    touched: tuple[str, ...] = ()  # fields that no override may change, and that were changed
    failed: str = ""  # which policy could not be applied, and why; then nothing was


class Overrides:
    """Override policies, ready to be asked about many clusters: those for which the same is said share a manifest."""

    def __init__(self, policies: Iterable[AnyOverridePolicy]) -> None:
        self._policies = tuple(policies)
        self._compiled: dict[int, _Compiled] = {}  # by the identity of the manifest

    def __call__(self, manifest: JSONObject, cluster: ManagedCluster) -> Overridden:
        """Return a manifest as a cluster gets it. The manifest itself stays as it is."""
        if not self._policies:
            return Overridden(manifest)
        known = self._compiled.get(id(manifest))
        if known is None:
            known = self._compiled[id(manifest)] = _Compiled(manifest, _in_order(manifest, self._policies))
        return known.for_cluster(cluster)


def overridden(manifest: JSONObject, cluster: ManagedCluster, policies: Iterable[AnyOverridePolicy]) -> Overridden:
    """Return a manifest as a cluster gets it. The manifest itself stays as it is."""
    return Overrides(policies)(manifest, cluster)


@dataclass(frozen=True)
class _Rule:
    """A rule of a policy, with what tells whether a cluster is meant."""

    policy: AnyOverridePolicy
    matches: ClusterMatch
    overriders: Overriders

    @property
    def name(self) -> str:
        """The name of the policy."""
        return "/".join(filter(None, (self.policy.metadata.namespace, self.policy.metadata.name)))


class _Compiled:
    """One manifest, and what it becomes by each choice of rules."""

    def __init__(self, manifest: JSONObject, policies: Iterable[AnyOverridePolicy]) -> None:
        self._manifest = manifest
        self._made: dict[tuple[int, ...], Overridden] = {}
        self._rules: list[_Rule] = []
        self._mistake = ""
        for policy in policies:
            try:
                compiled = [
                    _Rule(policy, affinity_match(each.target_cluster), each.overriders) for each in _rules(policy)
                ]
            except SelectorError as mistake:
                self._mistake = f"{policy.kind} {policy.metadata.name}: {mistake}"
                return
            self._rules += compiled

    def for_cluster(self, cluster: ManagedCluster) -> Overridden:
        if self._mistake:
            return Overridden(self._manifest, failed=self._mistake)
        choice = tuple(number for number, rule in enumerate(self._rules) if rule.matches(cluster))
        made = self._made.get(choice)
        if made is None:
            made = self._made[choice] = self._make([self._rules[number] for number in choice])
        return made

    def _make(self, rules: Sequence[_Rule]) -> Overridden:
        result = self._manifest
        for rule in rules:
            try:
                result = _apply(result, rule.overriders)
            except PatchError as mistake:
                return Overridden(self._manifest, failed=f"{rule.policy.kind} {rule.name}: {mistake}")
        applied = tuple(dict.fromkeys(rule.name for rule in rules))
        return Overridden(result, applied, _touched(self._manifest, result))


def _in_order(manifest: JSONObject, policies: Iterable[AnyOverridePolicy]) -> list[AnyOverridePolicy]:
    """Return the policies about a manifest; the last one has the last word."""
    namespace = text(part(manifest, "metadata"), "namespace")
    ranked = []
    for policy in policies:
        meta, selectors = policy.metadata, policy.spec.resource_selectors
        if meta.deletion_timestamp or meta.namespace not in ("", namespace):
            continue
        match = matched(selectors, manifest) if selectors else Match.KIND
        if match is not Match.NONE:
            ranked.append(((bool(meta.namespace), match, meta.name), policy))
    return [policy for _, policy in sorted(ranked, key=lambda pair: pair[0])]


def _rules(policy: AnyOverridePolicy) -> Sequence[RuleWithCluster]:
    spec = policy.spec
    return spec.override_rules or [RuleWithCluster(target_cluster=spec.target_cluster, overriders=spec.overriders)]


def _apply(manifest: JSONObject, overriders: Overriders) -> JSONObject:
    for image in overriders.image_overrider:
        manifest = _with_image(manifest, image)
    for change in overriders.command_overrider:
        manifest = _with_items(manifest, "command", change)
    for change in overriders.args_overrider:
        manifest = _with_items(manifest, "args", change)
    for labels in overriders.labels_overrider:
        manifest = _with_words(manifest, "labels", labels)
    for annotations in overriders.annotations_overrider:
        manifest = _with_words(manifest, "annotations", annotations)
    for unsupported in overriders.field_overrider:
        raise PatchError(text(unsupported, "fieldPath"), "fieldOverrider is not supported")
    for each in overriders.plaintext:
        manifest = _object(patched(manifest, each.operator, each.path, each.value), each.path)
    return manifest


def _with_image(manifest: JSONObject, change: ImageOverrider) -> JSONObject:
    def revised(name: JSON) -> str:
        return changed_image(str(name), change.component, change.operator, change.value)

    if change.predicate is None:
        return _with_containers(manifest, lambda each: {**each, "image": revised(each.get("image", ""))})
    path = change.predicate.path
    return _object(patched(manifest, "replace", path, revised(found_at(manifest, path))), path)


def _with_items(manifest: JSONObject, name: str, change: CommandArgsOverrider) -> JSONObject:
    def revised(container: JSONObject) -> JSONObject:
        if container.get("name") != change.container_name or not change.value:
            return container
        before = container.get(name) or []
        if change.operator == "remove":
            return {**container, name: [each for each in before if each not in change.value]}
        return {**container, name: [*before, *change.value]}

    return _with_containers(manifest, revised)


def _with_words(manifest: JSONObject, name: str, change: LabelAnnotationOverrider) -> JSONObject:
    """Return a manifest with other labels or annotations; only those that are there can be replaced or removed."""
    metadata = part(manifest, "metadata")
    words = dict(part(metadata, name))
    for key, value in change.value.items():
        if change.operator == "remove":
            words.pop(key, None)
        elif change.operator == "add" or key in words:
            words[key] = value
    return {**manifest, "metadata": {**metadata, name: words}}


def _with_containers(manifest: JSONObject, revised: Callable[[JSONObject], JSONObject]) -> JSONObject:
    containers = items(part(manifest, "spec", "template", "spec"), "containers")
    if not containers:
        return manifest
    return _object(patched(manifest, "replace", _CONTAINERS, [revised(each) for each in containers]), _CONTAINERS)


def _object(document: JSON, path: str) -> JSONObject:
    if not isinstance(document, dict):
        raise PatchError(path, "nothing is left of the object")
    return document


def _touched(before: JSONObject, after: JSONObject) -> tuple[str, ...]:
    governed = _GOVERNED if interpreter_of(before) is not None else ()
    return tuple(path for path in (*_IDENTITY, *governed) if value_at(before, path) != value_at(after, path))


def value_at(document: JSONObject, path: str) -> JSON:
    """Return the field of a document, by its path with dots."""
    *above, last = path.split(".")
    return part(document, *above).get(last)


def unknown_cluster(name: str) -> ManagedCluster:
    """Return a cluster of which nothing but the name is known."""
    return ManagedCluster(metadata=ObjectMeta(name=name), spec=ManagedClusterSpec())
