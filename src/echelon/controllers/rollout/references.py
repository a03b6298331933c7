"""Placements as those who roll out see them: which decisions count, and what is too old to take anything away.

Caches and the answers of the server are read here into the values from which the engine decides; nothing is kept.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from echelon.api.keys import Key
from echelon.api.rollout import RolloutStrategy
from echelon.api.versions import newer
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.controllers.rollout.decision_cache import DecisionCache
from echelon.engine.rollout.decisions import KnownDecisions, confirms, ignored, may_be_torn
from echelon.engine.rollout.references import PlacementReference
from echelon.kube.freshness import Freshness


class References:
    """Reads the placements of objects."""

    def __init__(self, decisions: DecisionCache, reader: ConsistentReader, freshness: Freshness) -> None:
        self._decisions = decisions
        self._reader = reader
        self._freshness = freshness

    def known(self, namespace: str, names: Iterable[str]) -> dict[str, KnownDecisions]:
        """Return what is known of placements and their decisions."""
        return {name: self._decisions.known(Key(namespace, name)) for name in dict.fromkeys(names)}

    def reference(
        self, key: Key, name: str, strategy: RolloutStrategy, known: KnownDecisions, now: datetime
    ) -> PlacementReference:
        """Return the reference of an object to a placement."""
        answer, error = self._reader.answer(key), self._reader.error(key)
        view = self._decisions.view(Key(key.namespace, name), known, now)
        left_out = view.left_out if view is not None else ""
        return PlacementReference(
            name,
            strategy,
            view,
            may_be_torn(known, answer, now),
            "; ".join(filter(None, (ignored(known), left_out))),
            f"{name}: the hub does not tell which decisions there are: {error}" if error else "",
        )

    def stale(
        self,
        key: Key,
        generation: int,
        known: Mapping[str, KnownDecisions],
        held: Iterable[tuple[str, str]],
        others: Mapping[str, Mapping[str, str]],
    ) -> frozenset[str]:
        """Return the uids of what may have been written by somebody who knew more than caches, and the server, told.

        `held` are uids and versions of what clusters hold; `others` the versions of what else was looked at, by
        resource and name. Who wrote it knew why. What we wrote, we wrote with these caches.
        """
        behind = [each for each in held if self._freshness.is_behind(each[1], each[0])]
        answer = self._reader.answer(key)
        if behind and answer is not None and confirms(answer, generation, known, others):
            behind = [each for each in behind if newer(each[1], answer.resource_version)]
        return frozenset(uid for uid, _ in behind)
