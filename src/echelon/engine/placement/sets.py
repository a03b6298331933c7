"""Cluster sets and bindings: from which clusters the placements of a namespace may choose.

Sets and bindings are written by other people than placements are. A set that cannot be understood therefore must not
disturb any placement: it contributes no new clusters, and those that a placement has already are not taken away,
because nobody can tell whether they still belong to the set.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap

from echelon.api.cluster import SET_LABEL, ManagedClusterSet, ManagedClusterSetBinding
from echelon.api.labels import SelectorError
from echelon.engine.placement.fleet import Cluster, ClusterChange, FleetIndex
from echelon.engine.placement.selection import Selector, selector


@dataclass(frozen=True, slots=True)
class ClusterSet:
    """One set: the clusters whose label names it, or those that a selector matches."""

    name: str
    selector: Selector | None = None  # of an exclusive set: none
    nothing: bool = False  # a selector that was left out matches no cluster

    def contains(self, cluster: Cluster) -> bool:
        """Tell whether a cluster is a member."""
        if self.selector is None:
            return not self.nothing and cluster.labels.get(SET_LABEL) == self.name
        return self.selector.matches(cluster)

    def members(self, fleet: FleetIndex) -> BitMap:
        """Return all members that are not being deleted."""
        if self.selector is None:
            return BitMap() if self.nothing else fleet.live & fleet.labels.equal(SET_LABEL, self.name)
        return self.selector.among(fleet, fleet.live)

    def moved(self, change: ClusterChange) -> bool:
        """Tell whether a change lets a cluster join or leave."""
        return self._has(change.before) != self._has(change.after)

    def _has(self, cluster: Cluster | None) -> bool:
        return cluster is not None and not cluster.deleting and self.contains(cluster)


def cluster_set(source: ManagedClusterSet) -> ClusterSet:
    """Understand a set; raise SelectorError if that cannot be done."""
    name, wanted = source.metadata.name, source.spec.cluster_selector
    if wanted.selector_type in ("", "ExclusiveClusterSetLabel"):
        return ClusterSet(name)
    if wanted.selector_type != "LabelSelector":
        raise SelectorError(f"selectorType is not right: {wanted.selector_type}")
    if wanted.label_selector is None:
        return ClusterSet(name, nothing=True)
    return ClusterSet(name, selector(wanted.label_selector, path="spec.clusterSelector"))


@dataclass(frozen=True, slots=True)
class Eligibility:
    """From what a placement may choose."""

    bound: tuple[str, ...]  # sets that exist and are bound to the namespace
    names: tuple[str, ...]  # those of them that the placement wants, sorted
    sets: tuple[ClusterSet, ...]  # those of them that can be understood
    malformed: Mapping[str, str] = field(default_factory=dict)  # set to what is wrong with it
    everything: bool = False

    def contains(self, cluster: Cluster, *, decided: bool = False) -> bool:
        """Tell whether a cluster may be chosen; `decided` if the placement has it already."""
        if cluster.deleting:
            return False
        if self.everything or (decided and self.malformed):
            return True
        return any(each.contains(cluster) for each in self.sets)

    def clusters(self, fleet: FleetIndex, decided: BitMap) -> BitMap:
        """Return all clusters that may be chosen."""
        if self.everything:
            return fleet.live.copy()
        found = BitMap.union(BitMap(), *(each.members(fleet) for each in self.sets))
        return found | (decided & fleet.live) if self.malformed else found


# For those who choose from all clusters, without sets.
EVERYTHING = Eligibility((), (), (), everything=True)


class ClusterSets:
    """All sets, and which of them are bound to which namespace."""

    def __init__(self) -> None:
        self._sets: dict[str, ClusterSet] = {}
        self._malformed: dict[str, str] = {}
        self._bound: dict[str, set[str]] = {}

    def update(self, source: ManagedClusterSet) -> None:
        """Take a set as it is now."""
        name = source.metadata.name
        self.remove(name)
        try:
            self._sets[name] = cluster_set(source)
        except SelectorError as error:
            self._malformed[name] = str(error)

    def remove(self, name: str) -> None:
        """Forget a set."""
        self._sets.pop(name, None)
        self._malformed.pop(name, None)

    def bind(self, binding: ManagedClusterSetBinding) -> None:
        """Take a binding; its name, not its spec, says which set it binds."""
        self._bound.setdefault(binding.metadata.namespace, set()).add(binding.metadata.name)

    def unbind(self, namespace: str, name: str) -> None:
        """Forget a binding."""
        self._bound.get(namespace, set()).discard(name)

    def namespaces(self, name: str) -> list[str]:
        """Return the namespaces to which a set is bound, whether it exists or not."""
        return [namespace for namespace, bound in self._bound.items() if name in bound]

    @property
    def names(self) -> list[str]:
        """The sets that can be understood."""
        return list(self._sets)

    def get(self, name: str) -> ClusterSet | None:
        """Return a set that can be understood."""
        return self._sets.get(name)

    def eligibility(self, namespace: str, wanted: Iterable[str]) -> Eligibility:
        """Tell from what a placement may choose that lists these sets, or none."""
        bound = tuple(sorted(n for n in self._bound.get(namespace, ()) if n in self._sets or n in self._malformed))
        listed = set(wanted)
        names = tuple(name for name in bound if not listed or name in listed)
        return Eligibility(
            bound,
            names,
            tuple(self._sets[name] for name in names if name in self._sets),
            {name: self._malformed[name] for name in names if name in self._malformed},
        )

    def described(self) -> dict[str, object]:
        """Return all that is known, by what to call it."""
        known: dict[str, object] = {f"cluster set {name}": each for name, each in self._sets.items()}
        known |= {f"cluster set {name}": why for name, why in self._malformed.items()}
        return known | {
            f"binding {namespace}/{name}": name for namespace, names in self._bound.items() for name in names
        }

    def differences(
        self, sets: Iterable[ManagedClusterSet], bindings: Iterable[ManagedClusterSetBinding]
    ) -> Iterator[str]:
        """Tell which sets and bindings are known otherwise than they are."""
        due = ClusterSets()
        for source in sets:
            due.update(source)
        for binding in bindings:
            due.bind(binding)
        known, wanted = self.described(), due.described()
        for what in sorted(known | wanted):
            if known.get(what) != wanted.get(what):
                yield f"{what} is known in another state"
