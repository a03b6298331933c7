"""Label and claim selectors, asked of the whole fleet or of one cluster.

Both questions must have the same answer: the first is how a placement starts, the second how it follows changes. A
selector that cannot be understood is refused when it is made, in the words that Kubernetes has for it, so that asking
never fails.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyroaring import BitMap

from echelon.api import labels as label_selectors
from echelon.api.label_terms import Requirement
from echelon.api.labels import SelectorError, from_label_selector
from echelon.api.meta import LabelSelector, LabelSelectorRequirement
from echelon.api.placement import GroupClusterSelector
from echelon.api.scheduling import ClusterClaimSelector
from echelon.engine.placement.facts import Facts
from echelon.engine.placement.fleet import Cluster, FleetIndex

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class Selector:
    """Terms over labels and terms over claims, all of which must hold."""

    labels: tuple[Requirement, ...] = ()
    claims: tuple[Requirement, ...] = ()
    _of_labels: label_selectors.Selector = field(init=False, repr=False, compare=False)
    _of_claims: label_selectors.Selector = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_of_labels", label_selectors.Selector(self.labels))
        object.__setattr__(self, "_of_claims", label_selectors.Selector(self.claims))

    def matches(self, cluster: Cluster) -> bool:
        """Tell whether one cluster matches."""
        return self._of_labels.matches(cluster.labels) and self._of_claims.matches(cluster.claims)

    def among(self, fleet: FleetIndex, clusters: BitMap) -> BitMap:
        """Return those of some clusters that match."""
        found = _narrowed(fleet.labels, self.labels, clusters)
        return _narrowed(fleet.claims, self.claims, found)


def selector(labels: LabelSelector, claims: ClusterClaimSelector | None = None, path: str = "") -> Selector:
    """Make a selector of an object's fields; raise SelectorError, with the path of the field, for what is none."""
    prefix = f"{path}." if path else ""
    terms = _requirements(labels, f"{prefix}labelSelector")
    if claims is None:
        return Selector(terms)
    wanted = LabelSelector(match_expressions=claims.match_expressions)
    return Selector(terms, _requirements(wanted, f"{prefix}claimSelector"))


def group_selector(wanted: GroupClusterSelector, path: str = "") -> Selector:
    """Make the selector of a decision group."""
    return selector(wanted.label_selector, wanted.claim_selector, path)


def _requirements(wanted: LabelSelector, path: str) -> tuple[Requirement, ...]:
    if unknown := _unknown_operators(wanted.match_expressions):
        # Those who read conditions know this text; it comes before all other mistakes.
        raise SelectorError(f'"{unknown[0]}" is not a valid label selector operator')
    return from_label_selector(wanted, path).requirements


def _unknown_operators(terms: Iterable[LabelSelectorRequirement]) -> list[str]:
    return [term.operator for term in terms if term.operator not in _OPERATORS]


def _narrowed(facts: Facts, terms: Iterable[Requirement], clusters: BitMap) -> BitMap:
    for term in terms:
        clusters = _narrow(facts, term, clusters)
    return clusters


def _narrow(facts: Facts, term: Requirement, clusters: BitMap) -> BitMap:
    match term.operator:
        case "=" | "in":
            return clusters & _with_any(facts, term)
        case "notin":
            return clusters - _with_any(facts, term)
        case "exists":
            return clusters & facts.having(term.key)
        case _:
            return clusters - facts.having(term.key)


def _with_any(facts: Facts, term: Requirement) -> BitMap:
    if len(term.values) == 1:
        return facts.equal(term.key, term.values[0])
    return BitMap.union(BitMap(), *(facts.equal(term.key, value) for value in term.values))
