"""Children that look like a set's and are not: told once, and left alone.

Somebody may have made a PodClique by hand, restored pods from a backup, or deleted a set and kept what it had. By their
labels and names they seem to be part of a set; no owner says so. Nothing here counts, updates or deletes them.
"""

from collections.abc import Callable
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.controllers.pod_clique.ownership import owner_of, uid_of
from echelon.engine.plan import Emit, Reference
from echelon.engine.pod_clique.names import MANAGED_BY, OPERATOR, PART_OF
from echelon.kube.cache import key_of
from echelon.kube.informer import Delta, Informer

STRAY = "NotOwned"


class Strays:
    """Tells of each stray once."""

    def __init__(self, sets: Informer[JSONObject], tell: Callable[[Emit], None]) -> None:
        self._sets = sets
        self._tell = tell
        self._known: set[str] = set()  # uids

    def follow(self, kind: Kind[Any], delta: Delta[JSONObject]) -> None:
        """Look at a child of some kind."""
        uid, new = uid_of(delta.object), delta.new
        if new is None or owner_of(new) is not None:
            self._known.discard(uid)
            return
        here, labels = key_of(new), new["metadata"].get("labels") or {}
        named = Key(here.namespace, labels.get(PART_OF, ""))
        found = self._sets.get(named)
        if uid in self._known or labels.get(MANAGED_BY) != OPERATOR or found is None:
            return
        self._known.add(uid)
        note = f"{kind.kind} {here.name} has the labels of this set and no owner: it is left alone and does not count"
        regarding = Reference(POD_CLIQUE_SET, named.name, named.namespace, uid_of(found))
        related = Reference(kind, here.name, here.namespace, uid)
        self._tell(Emit(regarding, STRAY, "Observe", note, "Warning", related))
