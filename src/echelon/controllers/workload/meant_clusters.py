"""Which clusters each policy means, kept between plans.

Ten thousand clusters would be compared with a selector for each template of a policy, whenever one of them changes. So
the answer for a policy is kept, and only clusters that changed since it was given are compared anew.
"""

from collections.abc import Iterator

from echelon.api.cluster import ManagedCluster
from echelon.api.keys import Key
from echelon.api.labels import SelectorError
from echelon.engine.workload.affinity import ClusterMatch, affinity_match
from echelon.engine.workload.selecting import Claimant, Policy, claimant_of
from echelon.kube.informer import Delta, Informer

BATCH = 250  # so many are compared before others have their turn on the event loop
_LONGEST = 20_000  # changes that are remembered; beyond, all policies are compared anew


class _Meant:
    """The clusters of one policy, as of some number of changes."""

    def __init__(self, version: object, matches: ClusterMatch, names: set[str], at: int) -> None:
        self.version, self.matches, self.names, self.at = version, matches, names, at


class MeantClusters:
    """The clusters that the affinities of policies mean."""

    def __init__(self, clusters: Informer[ManagedCluster]) -> None:
        self._clusters = clusters
        self._changed: list[str] = []  # names, in the order of their changes
        self._policies: dict[Claimant, _Meant] = {}

    def cluster_changed(self, delta: Delta[ManagedCluster]) -> list[Claimant]:
        """Follow a cluster; return the policies that mean it, or did, if it has changed for them.

        Those that nobody has asked about are not known here, and need not be told.
        """
        if delta.old is not None and delta.new is not None and looks(delta.old) == looks(delta.new):
            return []
        if len(self._changed) >= _LONGEST:
            self._changed.clear()
            self._policies.clear()
        self._changed.append(delta.object.metadata.name)
        states = [each for each in (delta.old, delta.new) if each is not None]
        return [name for name, meant in self._policies.items() if any(map(meant.matches, states))]

    def forget(self, claimant: Claimant) -> None:
        """Let go of a policy that is gone."""
        self._policies.pop(claimant, None)

    def of(self, policy: Policy) -> list[ManagedCluster]:
        """Return the clusters that a policy means; nobody, if it cannot be understood."""
        version = policy.metadata.uid, policy.metadata.generation
        known = self._policies.get(claimant_of(policy))
        if known is None or known.version != version:
            known = self._policies[claimant_of(policy)] = self._compared(policy, version)
        for name in dict.fromkeys(self._changed[known.at :]):
            cluster = self._clusters.get(Key("", name))
            if cluster is not None and known.matches(cluster):
                known.names.add(name)
            else:
                known.names.discard(name)
        known.at = len(self._changed)
        found = (self._clusters.get(Key("", name)) for name in known.names)
        return [each for each in found if each is not None]

    def verify(self) -> Iterator[str | None]:
        """Compare with the caches; forget what is not the same, and yield what it was, or None to rest."""
        for claimant, known in list(self._policies.items()):
            fresh = set(self._changed[known.at :])
            for number, cluster in enumerate(self._clusters.values(), start=1):
                name = cluster.metadata.name
                if name not in fresh and known.matches(cluster) != (name in known.names):
                    self._policies.pop(claimant, None)
                    yield f"policy {'/'.join(filter(None, claimant))} and cluster {name}"
                    break
                if number % BATCH == 0:
                    yield None
                    if self._policies.get(claimant) is not known:
                        break
                    fresh = set(self._changed[known.at :])

    def _compared(self, policy: Policy, version: object) -> _Meant:
        try:
            matches = affinity_match(policy.spec.placement.cluster_affinity)
        except SelectorError:  # the conditions of its bindings tell that
            matches = _nobody
        names = {each.metadata.name for each in self._clusters.values() if matches(each)}
        return _Meant(version, matches, names, len(self._changed))


def looks(cluster: ManagedCluster) -> tuple[object, ...]:
    """Return all of a cluster that decides whether it is chosen. What it has room for decides nothing by itself."""
    meta, spec = cluster.metadata, cluster.spec
    accepted = spec.hub_accepts_client
    return meta.labels, meta.deletion_timestamp, meta.uid, spec.taints, accepted, cluster.status.cluster_claims


def _nobody(_: ManagedCluster) -> bool:
    return False
