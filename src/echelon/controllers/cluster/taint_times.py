"""The taints of clusters with the times that they had last."""

from datetime import datetime

from echelon.api.cluster import ManagedCluster, Taint
from echelon.engine.placement.taint_times import with_times
from echelon.kube.informer import Delta, Informer


class TaintTimes:
    """Since when clusters have their taints; who applies the same file again takes the times away."""

    def __init__(self, clusters: Informer[ManagedCluster]) -> None:
        self._clusters = clusters
        self._taints: dict[str, tuple[Taint, ...]] = {}  # with the times that they had last

    def cluster_changed(self, delta: Delta[ManagedCluster]) -> None:
        """Follow a cluster."""
        name, new = delta.object.metadata.name, delta.new
        if new is None:
            self._taints.pop(name, None)
        else:
            self._taints[name] = with_times(new.spec.taints, self._taints.get(name, ()), None)

    def taints(self, cluster: ManagedCluster, now: datetime) -> tuple[Taint, ...]:
        """Return the taints of a cluster, all of them with a time."""
        return with_times(cluster.spec.taints, self._taints.get(cluster.metadata.name, ()), now)

    def rebuilt(self) -> dict[str, tuple[Taint, ...]]:
        """Return what this should be; times that were taken away are in no cache."""
        return {
            name: with_times(each.spec.taints, self._taints.get(name, ()), None)
            for each in self._clusters.values()
            for name in (each.metadata.name,)
        }

    def differences(self) -> list[str]:
        """Say where this is not what the cache shows; it always should be."""
        rebuilt = self.rebuilt()
        names = [name for name in rebuilt | self._taints if rebuilt.get(name) != self._taints.get(name)]
        return [f"taints of {sorted(names)} were missed"] if names else []

    def rebuild(self) -> None:
        """Take everything from the cache, but for the times that it does not have."""
        self._taints = self.rebuilt()
