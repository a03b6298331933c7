"""Placements: groups that are written as they once were, and clusters that are dropped when they are away."""

from collections.abc import Iterator

from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP
from echelon.engine.lint.documents import WARNING, Document, Finding, mapping, sequence

_TAINTS = (f"{GROUP}/unreachable", f"{GROUP}/unavailable")


def lint_placement(one: Document) -> Iterator[Finding]:
    """Look at a placement."""
    yield from _older_grouping(one)
    yield from _intolerant(one)


def group_names(one: Document) -> set[str]:
    """Return the names of the decision groups that a placement has."""
    return {str(group.get("groupName", group.get("GroupName", ""))) for _, group in _groups(one)}


def _older_grouping(one: Document) -> Iterator[Finding]:
    if "DecisionStrategy" in one.spec:
        yield one.is_now("spec.DecisionStrategy", "decisionStrategy")
    strategy = mapping(one.spec.get("decisionStrategy"))
    for word in ("decisionGroups", "clustersPerDecisionGroup"):
        if word in strategy:
            yield one.is_now(f"spec.decisionStrategy.{word}", f"spec.decisionStrategy.groupStrategy.{word}")
    if "DecisionGroups" in mapping(strategy.get("groupStrategy")):
        yield one.is_now("spec.decisionStrategy.groupStrategy.DecisionGroups", "decisionGroups")
    for at, group in _groups(one):
        if "clusterSelector" in group:
            yield one.is_now(f"{at}.clusterSelector", "groupClusterSelector.labelSelector")
        if "GroupName" in group:
            yield one.is_now(f"{at}.GroupName", "groupName")


def _groups(one: Document) -> Iterator[tuple[str, JSONObject]]:
    """Walk over decision groups, wherever somebody may have put them."""
    for word in ("decisionStrategy", "DecisionStrategy"):
        strategy = mapping(one.spec.get(word))
        places = ((f"spec.{word}", strategy), (f"spec.{word}.groupStrategy", mapping(strategy.get("groupStrategy"))))
        for at, place in places:
            for spelling in ("decisionGroups", "DecisionGroups"):
                for number, group in enumerate(sequence(place.get(spelling))):
                    yield f"{at}.{spelling}[{number}]", mapping(group)


def _intolerant(one: Document) -> Iterator[Finding]:
    tolerations = [mapping(each) for each in sequence(one.spec.get("tolerations"))]
    for taint in _TAINTS:
        if not any(each.get("key", "") in ("", taint) for each in tolerations):
            problem = f"nothing tolerates {taint}: a cluster that is away for a while loses what it runs"
            yield one.finds("spec.tolerations", problem, WARNING)
