"""How many pods of each clique are ready at this moment, from a list and the changes after it.

A pod belongs to the clique that its label names, in full: names that begin or end alike are others. One that is being
deleted is on its way out and counts no more, whatever it still says of itself.
"""

from collections.abc import Iterable, Mapping

from echelon.api.base import JSONObject
from echelon.engine.pod_clique.names import CLIQUE
from echelon.engine.work.health_state import condition, part, text


class Readiness:
    """What is known of the pods of some cliques; `wanted` says how many must be ready of each."""

    def __init__(self, wanted: Mapping[str, int]) -> None:
        self._wanted = dict(wanted)
        self._ready: dict[str, set[str]] = {clique: set() for clique in wanted}

    def begin(self, pods: Iterable[JSONObject]) -> None:
        """Forget everything and take a whole list: what it does not have is not there."""
        for ready in self._ready.values():
            ready.clear()
        for pod in pods:
            self.take(pod)

    def take(self, pod: JSONObject, *, gone: bool = False) -> None:
        """Take a pod as it is now."""
        metadata = part(pod, "metadata")
        name, clique = text(metadata, "name"), text(part(metadata, "labels"), CLIQUE)
        for ready in self._ready.values():
            ready.discard(name)
        counts = not gone and not metadata.get("deletionTimestamp")
        if counts and clique in self._ready and condition(part(pod, "status"), "Ready").get("status") == "True":
            self._ready[clique].add(name)

    @property
    def lacking(self) -> tuple[str, ...]:
        """What is waited for, a phrase a clique; nothing if all are up."""
        return tuple(
            f"{clique} ({len(self._ready[clique])} of {least} pods ready)"
            for clique, least in sorted(self._wanted.items())
            if len(self._ready[clique]) < least
        )
