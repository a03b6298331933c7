"""What the controller of PodCliqueSets measures beside what all controllers do."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from echelon.engine.pod_clique.view import SetView

_STATES = ("live", "ready", "scheduled", "gated", "outdated")


class PodCliqueMetrics:
    """The metrics of one controller."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._pods = Gauge(
            "echelon_pod_clique_set_pods", "Pods of a set.", ["namespace", "name", "state"], registry=registry
        )
        self.rereads = Counter(
            "echelon_pod_clique_set_rereads", "Sets read past the cache, for a pod that had gone.", registry=registry
        )
        self.rival = Gauge("echelon_pod_clique_rival", "Whether Grove's own operator is at work.", registry=registry)

    def show(self, view: SetView) -> None:
        """Show the pods of a set."""
        meta = view.set.metadata
        live = ready = scheduled = gated = current = 0
        for clique in view.cliques.values():
            tally = clique.tally
            live += tally.live
            ready += tally.ready
            scheduled += tally.scheduled
            gated += tally.gated
            current += tally.hashes.get(clique.hash, 0)
        for state, number in zip(_STATES, (live, ready, scheduled, gated, live - current), strict=True):
            self._pods.labels(meta.namespace, meta.name, state).set(number)

    def forget(self, namespace: str, name: str) -> None:
        """Show nothing more of a set."""
        for state in _STATES:
            self._pods.remove(namespace, name, state)
