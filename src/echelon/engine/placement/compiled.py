"""What a placement asks for, understood once and then used many times.

Whatever a user can get wrong in a spec is found here, before any cluster is looked at: a mistake is reported on an
empty fleet too, and evaluating what was compiled cannot fail.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from pyroaring import BitMap

from echelon.api.labels import SelectorError
from echelon.api.placement import Placement, PlacementSpec
from echelon.api.scheduling import SpreadConstraint, Toleration
from echelon.engine.placement import taints
from echelon.engine.placement.fleet import Cluster, FleetIndex
from echelon.engine.placement.groups import NotAPercentage, group_size
from echelon.engine.placement.scores import PolicyError, WeightedPrioritizers, compile_prioritizers
from echelon.engine.placement.selection import Selector, group_selector, selector

if TYPE_CHECKING:
    from echelon.engine.cel import Program

MAX_TERMS: Final = 5_000  # of all selectors, and the values in them
MAX_EXPRESSIONS: Final = 64
MAX_CHARACTERS: Final = 8 * 1024  # of all expressions
MAX_NAME = 63  # decisions carry the name of their placement as the value of a label


class Unfinished(Exception):
    """As much was done as was allowed, and something is left to do."""


class Misconfigured(ValueError):
    """A spec that means nothing; `plugin` is the step that found out."""

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(message)
        self.plugin = plugin
        self.message = message


@dataclass(frozen=True)
class Predicate:
    """One way to be eligible: a selector, and expressions that must all be true."""

    selector: Selector
    programs: tuple["Program", ...] = ()
    index: int = 0  # among the predicates of its placement


Agrees: TypeAlias = Callable[[Predicate, Cluster], bool]  # whether all expressions of a predicate are true of a cluster


@dataclass(frozen=True)
class CompiledPlacement:
    """A placement's spec in the form in which it is evaluated."""

    predicates: tuple[Predicate, ...]
    tolerations: tuple[Toleration, ...]
    prioritizers: WeightedPrioritizers
    constraints: tuple[SpreadConstraint, ...]
    limit: int | None
    groups: tuple[tuple[str, Selector], ...]
    sorts_by_score: bool

    @property
    def uses_expressions(self) -> bool:
        """Whether any field of a cluster may matter."""
        return any(predicate.programs for predicate in self.predicates)

    def wants(self, cluster: Cluster, agrees: "Agrees") -> bool:
        """Tell whether a cluster matches any predicate, or there is none; expressions are asked last."""
        return not self.predicates or any(
            predicate.selector.matches(cluster) and (not predicate.programs or agrees(predicate, cluster))
            for predicate in self.predicates
        )

    def wanted(self, fleet: FleetIndex, clusters: BitMap, agrees: "Agrees") -> BitMap:
        """Return those of some clusters that match any predicate."""
        if not self.predicates:
            return clusters
        found = BitMap()
        for predicate in self.predicates:
            chosen = predicate.selector.among(fleet, clusters - found)
            if predicate.programs:
                asked = (fleet.get(number) for number in chosen)
                chosen = BitMap([cluster.id for cluster in asked if cluster and agrees(predicate, cluster)])
            found |= chosen
        return found

    def could_want(self, cluster: Cluster) -> bool:
        """Tell whether a cluster matches by labels and claims, whatever expressions say."""
        return not self.predicates or any(predicate.selector.matches(cluster) for predicate in self.predicates)


def compile_placement(placement: Placement) -> CompiledPlacement:
    """Compile a placement; raise Misconfigured if the spec cannot be understood."""
    spec = placement.spec
    _check_limits(placement)
    _check_terms(spec)
    predicates = _predicates(spec)
    try:
        taints.validate(spec.tolerations)
    except taints.TolerationError as error:
        raise Misconfigured("TaintToleration", str(error)) from None
    try:
        prioritizers = compile_prioritizers(spec.prioritizer_policy)
    except PolicyError as error:
        raise Misconfigured("", str(error)) from None
    return CompiledPlacement(
        predicates=predicates,
        tolerations=tuple(spec.tolerations),
        prioritizers=prioritizers,
        constraints=tuple(spec.spread_policy.spread_constraints),
        limit=spec.number_of_clusters,
        groups=_groups(spec),
        sorts_by_score=spec.sort_by == "Score",
    )


def _check_limits(placement: Placement) -> None:
    name, limit = placement.metadata.name, placement.spec.number_of_clusters
    if len(name) > MAX_NAME:
        raise Misconfigured("Placement", f'metadata.name: Invalid value: "{name}": must be no more than 63 characters')
    if limit is not None and limit < 0:
        rule = "must be greater than or equal to 0"
        raise Misconfigured("Placement", f"spec.numberOfClusters: Invalid value: {limit}: {rule}")


def _check_terms(spec: PlacementSpec) -> None:
    """Refuse more than can be understood in one go."""
    groups = spec.decision_strategy.group_strategy.decision_groups
    wanted = [each.required_cluster_selector for each in spec.predicates]
    grouped = [each.group_cluster_selector for each in groups]
    selectors = [(each.label_selector, each.claim_selector) for each in wanted]
    selectors += [(each.label_selector, each.claim_selector) for each in grouped]
    count = sum(len(of_labels.match_labels) for of_labels, _ in selectors)
    for of_labels, of_claims in selectors:
        count += sum(1 + len(term.values) for term in (*of_labels.match_expressions, *of_claims.match_expressions))
    if count > MAX_TERMS:
        rule = f"the selectors of a placement may have at most {MAX_TERMS} terms and values"
        raise Misconfigured("Predicate", f"spec.predicates: Too many: {count}: {rule}")


def _predicates(spec: PlacementSpec) -> tuple[Predicate, ...]:
    found = []
    _check_expressions(
        [predicate.required_cluster_selector.cel_selector.cel_expressions for predicate in spec.predicates]
    )
    for index, predicate in enumerate(spec.predicates):
        wanted = predicate.required_cluster_selector
        path = f"spec.predicates[{index}].requiredClusterSelector"
        try:
            chosen = selector(wanted.label_selector, wanted.claim_selector, path)
        except SelectorError as error:
            raise Misconfigured("Predicate", _located(error, path)) from None
        programs = _programs(wanted.cel_selector.cel_expressions, f"{path}.celSelector")
        found.append(Predicate(chosen, programs, index))
    return tuple(found)


def _check_expressions(texts: Sequence[Sequence[str]]) -> None:
    """Refuse more than can be compiled in one go."""
    count = sum(map(len, texts))
    if count > MAX_EXPRESSIONS or sum(len(text) for each in texts for text in each) > MAX_CHARACTERS:
        rule = f"a placement may have at most {MAX_EXPRESSIONS} expressions, of {MAX_CHARACTERS} characters together"
        raise Misconfigured("Predicate", f"spec.predicates: Too many: {count}: {rule}")


def _programs(texts: Sequence[str], path: str) -> tuple["Program", ...]:
    if not texts:
        return ()
    # Few placements have expressions, and a start should not wait for what it does not need.
    from echelon.engine.cel import CompileError  # noqa: PLC0415
    from echelon.engine.placement import expressions  # noqa: PLC0415

    found = []
    for index, text in enumerate(texts):
        try:
            found.append(expressions.compile_predicate(text))
        except CompileError as error:
            raise Misconfigured("Predicate", _located(error, f"{path}.celExpressions[{index}]")) from None
    return tuple(found)


def _located(error: ValueError, path: str) -> str:
    """Return what is wrong, and where; those who compare texts know only what comes before that."""
    text = str(error)
    return text if path in text else f"{text}, at {path}"


def _groups(spec: PlacementSpec) -> tuple[tuple[str, Selector], ...]:
    strategy = spec.decision_strategy.group_strategy
    size = strategy.clusters_per_decision_group
    field = "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup"
    try:
        group_size(size, 1)
    except NotAPercentage as error:
        raise Misconfigured("", _located(error, field)) from None
    if isinstance(size, int) and size < 0:
        raise Misconfigured("", f"{field}: Invalid value: {size}: must be greater than or equal to 0")
    found = []
    for index, group in enumerate(strategy.decision_groups):
        path = f"spec.decisionStrategy.groupStrategy.decisionGroups[{index}].groupClusterSelector"
        try:
            found.append((group.group_name, group_selector(group.group_cluster_selector, path)))
        except SelectorError as error:
            raise Misconfigured("", _located(error, path)) from None
    return tuple(found)
