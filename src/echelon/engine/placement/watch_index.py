"""Which placements a change could concern.

A hub has many placements, and nearly every change matters to few of them. Placements say beforehand what they look at;
then a change is looked up by what changed, and costs neither the fleet nor the placements that look elsewhere.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyroaring import BitMap

from echelon.api.cluster import SET_LABEL
from echelon.api.keys import Key
from echelon.api.label_terms import Requirement
from echelon.engine.placement.compiled import CompiledPlacement
from echelon.engine.placement.fleet import Cluster, ClusterChange, FleetIndex
from echelon.engine.placement.scores import AddOn, Allocatable, PreferNoSelect
from echelon.engine.placement.sets import ClusterSet, Eligibility

# What can be looked at: a word for the part of a cluster, and then a key, a key and a value, or nothing.
Fact = tuple[Any, ...]


@dataclass(frozen=True)
class _Watch:
    compiled: CompiledPlacement | None  # none if misconfigured: then it only matters whether there are clusters
    eligibility: Eligibility
    facts: frozenset[Fact]
    anywhere: bool  # sets do not limit what may be chosen

    def could_select(self, cluster: Cluster) -> bool:
        """Tell whether the cluster could be chosen, as far as sets, labels and claims go."""
        if self.compiled is None or not self.compiled.could_want(cluster):
            return False
        return self.anywhere or self.eligibility.contains(cluster)


@dataclass
class _Watchers:
    """Who watches which facts."""

    by_fact: dict[Fact, set[Key]] = field(default_factory=dict)

    def add(self, key: Key, facts: Iterable[Fact]) -> None:
        for fact in facts:
            self.by_fact.setdefault(fact, set()).add(key)

    def remove(self, key: Key, facts: Iterable[Fact]) -> None:
        for fact in facts:
            self.by_fact[fact].discard(key)
            if not self.by_fact[fact]:
                del self.by_fact[fact]

    def of(self, facts: Iterable[Fact]) -> set[Key]:
        found: set[Key] = set()
        for fact in facts:
            found |= self.by_fact.get(fact, set())
        return found


class WatchIndex:
    """All placements, by what they look at."""

    def __init__(self) -> None:
        self._watches: dict[Key, _Watch] = {}
        self._watchers = _Watchers()
        self._in_set: dict[str, set[Key]] = {}
        self._anywhere: set[Key] = set()
        self._sets: dict[str, tuple[ClusterSet, int]] = {}  # of sets with a selector: how many placements use them

    def register(self, key: Key, compiled: CompiledPlacement | None, eligibility: Eligibility) -> None:
        """Take what a placement looks at, instead of what it looked at before; one that is misconfigured
        looks only at whether there are clusters."""
        self.remove(key)
        anywhere = eligibility.everything or bool(eligibility.malformed)
        watch = _Watch(compiled, eligibility, frozenset(_watched_facts(compiled) if compiled else ()), anywhere)
        self._watches[key] = watch
        self._watchers.add(key, watch.facts)
        if anywhere:
            self._anywhere.add(key)
        for each in eligibility.sets:
            self._in_set.setdefault(each.name, set()).add(key)
            if each.selector is not None:
                self._sets[each.name] = (each, self._sets.get(each.name, (each, 0))[1] + 1)

    def remove(self, key: Key) -> None:
        """Forget a placement."""
        watch = self._watches.pop(key, None)
        if watch is None:
            return
        self._watchers.remove(key, watch.facts)
        self._anywhere.discard(key)
        for each in watch.eligibility.sets:
            self._in_set[each.name].discard(key)
            if not self._in_set[each.name]:
                del self._in_set[each.name]
            if each.selector is not None:
                used = self._sets[each.name][1] - 1
                if used:
                    self._sets[each.name] = (self._sets[each.name][0], used)
                else:
                    del self._sets[each.name]

    def differences(self, key: Key, compiled: CompiledPlacement | None, eligibility: Eligibility) -> Iterator[str]:
        """Tell whether a placement is known to look at something else than this."""
        watch = self._watches.get(key)
        if watch is None or (watch.compiled, watch.eligibility) != (compiled, eligibility):
            yield f"placement {key} is known to look at something else"
            return
        found = all(key in self._watchers.of([fact]) for fact in watch.facts)
        if not found or any(key not in self._in_set.get(each.name, ()) for each in eligibility.sets):
            yield f"placement {key} is not found by what it looks at"

    def concerned(self, change: ClusterChange, fleet: FleetIndex) -> set[Key]:
        """Return the placements whose choice, groups or conditions a change of a cluster could alter."""
        if not change.any:
            return set()
        moved = set(self._moved(change))
        candidates = self._watchers.of(_changed(change))
        for name in moved:
            candidates |= self._in_set[name]
        if change.presence or change.taints:
            candidates |= self._anywhere
            for side in change.sides:
                for name in self._sets_of(side):
                    candidates |= self._in_set[name]
        sides = change.sides
        found = {key for key in candidates if any(self._watches[key].could_select(side) for side in sides)}
        return found | self._emptied_or_filled(moved, fleet)

    def concerned_by_score(self, cluster: Cluster | None, resource: str) -> set[Key]:
        """Return the placements that a change of an add-on's scores for a cluster could concern."""
        if cluster is None or cluster.deleting:
            return set()
        candidates = self._watchers.of([("add-on", resource), ("everything",)])
        return {key for key in candidates if self._watches[key].could_select(cluster)}

    def _sets_of(self, cluster: Cluster) -> Iterator[str]:
        """Walk the sets in use that contain a cluster."""
        exclusive = cluster.labels.get(SET_LABEL)
        if exclusive in self._in_set and exclusive not in self._sets:
            yield exclusive
        yield from (name for name, (each, _) in self._sets.items() if each.contains(cluster))

    def _moved(self, change: ClusterChange) -> set[str]:
        """Return the sets in use that the cluster joined or left."""
        if not change.presence and not change.labels:
            return set()
        before, after = (
            set(self._sets_of(side)) if side is not None and not side.deleting else set()
            for side in (change.before, change.after)
        )
        return before ^ after

    def _emptied_or_filled(self, moved: set[str], fleet: FleetIndex) -> set[Key]:
        """Return placements to which it matters that there is, or is not, any cluster at all."""
        found: set[Key] = set()
        for name in moved:
            for key in self._in_set[name]:
                eligibility = self._watches[key].eligibility
                members = next(each for each in eligibility.sets if each.name == name).members(fleet)
                if len(members) > 1:
                    break  # the same for all placements that use the set
                if len(eligibility.clusters(fleet, BitMap())) <= 1:
                    found.add(key)
        return found


def _watched_facts(compiled: CompiledPlacement) -> Iterator[Fact]:
    selectors = [*(each.selector for each in compiled.predicates), *(each for _, each in compiled.groups)]
    for selector in selectors:
        for term in selector.labels:
            yield from _of_term("label", term)
        for term in selector.claims:
            yield from _of_term("claim", term)
    for constraint in compiled.constraints:
        yield ("claim" if constraint.topology_key_type == "Claim" else "label"), constraint.topology_key, "any"
    scores_decide = compiled.limit is not None or bool(compiled.constraints) or compiled.sorts_by_score
    for prioritizer, _ in compiled.prioritizers.weighted:
        match prioritizer:
            case AddOn():
                yield "add-on", prioritizer.resource  # expired scores are reported even if they decide nothing
            case Allocatable() if scores_decide:
                yield "resource", prioritizer.resource
            case PreferNoSelect() if scores_decide:
                yield ("preference",)
    if compiled.uses_expressions:
        yield ("everything",)


def _of_term(part: str, term: Requirement) -> Iterator[Fact]:
    if term.operator in ("exists", "!"):
        yield part, term.key, "presence"
    else:
        yield from ((part, term.key, "value", value) for value in term.values)


def _changed(change: ClusterChange) -> Iterator[Fact]:
    """Walk the facts that a change touches."""
    for part, keys in (("label", change.labels), ("claim", change.claims)):
        for key in keys:
            old, new = _value(change.before, part, key), _value(change.after, part, key)
            yield part, key, "any"
            yield from ((part, key, "value", value) for value in (old, new) if value is not None)
            if (old is None) != (new is None):
                yield part, key, "presence"
    yield from (("resource", resource) for resource in change.resources)
    if change.preferences:
        yield ("preference",)
    yield ("everything",)


def _value(cluster: Cluster | None, part: str, key: str) -> str | None:
    if cluster is None:
        return None
    return (cluster.labels if part == "label" else cluster.claims).get(key)
