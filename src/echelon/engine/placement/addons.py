"""AddOnScores that add-ons give to clusters, by the resource that carries them.

They change far more often than clusters do and expire by themselves, so they are kept beside the fleet, not in it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from echelon.api.cluster import AddOnPlacementScore
from echelon.engine.placement.taints import instant


@dataclass(frozen=True, slots=True)
class AddOnScores:
    """The scores that one resource has for one cluster."""

    values: Mapping[str, int]
    valid_until: datetime | None = None

    def expired(self, now: datetime) -> bool:
        """Tell whether these scores count no longer."""
        return self.valid_until is not None and now > self.valid_until


class ScoreIndex:
    """All AddOnPlacementScores, by cluster and by name of the resource."""

    def __init__(self) -> None:
        self._scores: dict[tuple[str, str], AddOnScores] = {}
        self._by_cluster: dict[str, set[str]] = {}

    def update(self, source: AddOnPlacementScore) -> bool:
        """Take a resource as it is now; tell whether a score or its end is different."""
        cluster, resource = source.metadata.namespace, source.metadata.name
        scores = _read(source)
        changed = self._scores.get((cluster, resource)) != scores
        self._scores[cluster, resource] = scores
        self._by_cluster.setdefault(cluster, set()).add(resource)
        return changed

    def remove(self, cluster: str, resource: str) -> bool:
        """Forget a resource; tell whether it was known."""
        known = self._scores.pop((cluster, resource), None) is not None
        if known:
            self._by_cluster[cluster].discard(resource)
            if not self._by_cluster[cluster]:
                del self._by_cluster[cluster]
        return known

    def get(self, cluster: str, resource: str) -> AddOnScores | None:
        """Return the scores of a cluster from one resource."""
        return self._scores.get((cluster, resource))

    def of(self, cluster: str) -> Iterator[tuple[str, AddOnScores]]:
        """Walk all resources that score a cluster."""
        for resource in sorted(self._by_cluster.get(cluster, ())):
            yield resource, self._scores[cluster, resource]

    def resources(self) -> list[tuple[str, str]]:
        """Return all resources that are known, as cluster and name."""
        return list(self._scores)

    def differences(self, cluster: str, resource: str, source: AddOnPlacementScore | None) -> Iterator[str]:
        """Tell what is known of a resource and should not be, given what it is now."""
        due = None if source is None else _read(source)
        if self._scores.get((cluster, resource)) != due:
            yield f"scores {cluster}/{resource} are known in another state"
        if (resource in self._by_cluster.get(cluster, ())) != (source is not None):
            yield f"scores {cluster}/{resource} are not found by their cluster"


def _read(source: AddOnPlacementScore) -> AddOnScores:
    return AddOnScores(
        {item.name: item.value for item in source.status.scores},
        instant(source.status.valid_until) if source.status.valid_until else None,
    )
