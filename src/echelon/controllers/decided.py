"""What placements have decided, read from two caches: one of placements, one of decisions.

Either cache may be behind the other, and whoever writes decisions writes them one by one and the placement's status
after them. Numbers tell most of it, but not all: where a cluster comes and another goes, decisions that are half
rewritten can have just as many clusters as a status says, of now, of before or of later. A cluster that is moved is
missing in them, and must not lose its work for that.

So decisions are believed if the status came after them. If it did not, it may have had nothing new to say, or be on its
way: nobody can tell, so that takes a while without a change. And the cache of decisions must have come as far as the
status, or there may be decisions before it that are not known yet. An idle cache hears only once a minute how far it
has come; Echelon's own decisions do not have to wait for that. It lists a cluster in the new decision before it takes
it out of the old one, so while one is missing, another is listed twice, and numbers do not agree.
"""

import asyncio
from collections.abc import Collection, Iterable

from echelon.api.placement import Placement, PlacementDecision
from echelon.controllers.publication import MARK_ANNOTATION, PLACEMENT_LABEL
from echelon.engine.work_set.view import PlacementView, read_placement
from echelon.kube.cache import Key, key_of, newer
from echelon.kube.informer import Delta, Informer
from echelon.kube.misfits import Misfit

# How long decisions without a status after them must have been the same. Rewriting takes much less, unless its writer
# dies on the way, and then the next one comes within that time.
QUIET_SECONDS = 60.0


class Decided:
    """The placements of all work sets with their decisions."""

    def __init__(self, placements: Informer[Placement], decisions: Informer[PlacementDecision]) -> None:
        self._placements = placements
        self._cache = decisions
        self._decisions: dict[Key, dict[str, PlacementDecision]] = {}  # of each placement, by name
        self._views: dict[Key, tuple[tuple[str, ...], PlacementView]] = {}  # with the versions they are from
        self._said: dict[Key, str] = {}  # the version in which a status came, where that was seen
        self._changed: dict[Key, float] = {}  # when decisions changed last

    def placement_changed(self, delta: Delta[Placement]) -> None:
        """Follow a placement."""
        key = key_of(delta.object)
        if delta.new is None:
            self._said.pop(key, None)
            self._views.pop(key, None)
        elif delta.old is not None and delta.old.status != delta.new.status:
            self._said[key] = delta.new.metadata.resource_version

    def decision_changed(self, delta: Delta[PlacementDecision]) -> Collection[Key]:
        """Follow a decision; return the placements that it is, or was, of."""
        meta = delta.object.metadata
        placements: dict[Key, None] = {}
        for obj in (delta.old, delta.new):
            if obj is None or not (name := obj.metadata.labels.get(PLACEMENT_LABEL)):
                continue
            key = Key(name, meta.namespace)
            placements[key] = None
            self._changed[key] = asyncio.get_running_loop().time()
            if obj is delta.new:
                self._decisions.setdefault(key, {})[meta.name] = obj
            elif left := self._decisions.get(key):
                left.pop(meta.name, None)
                if not left:
                    del self._decisions[key], self._changed[key]
        return placements

    def view(self, key: Key) -> PlacementView | None:
        """Return what a placement has decided, if there is one."""
        placement = self._placements.get(*key)
        if placement is None or placement.metadata.deletion_timestamp:
            return None
        decisions = self._decisions.get(key, {}).values()
        versions = (placement.metadata.resource_version, *(each.metadata.resource_version for each in decisions))
        known = self._views.get(key)
        if known is not None and known[0] == versions:
            return known[1]
        found = read_placement(placement, [each for each in decisions if not each.metadata.deletion_timestamp])
        self._views[key] = (versions, found)
        return found

    def doubtful(self, key: Key) -> bool:
        """Whether status and decisions may be of different times, or of one in between, also where they agree."""
        if any(_is_of(misfit, key) for misfit in self._cache.unreadable.values()):
            return True
        placement = self._placements.get(*key)
        decisions = self._decisions.get(key, {}).values()
        if placement is None or not decisions:
            return False
        quiet = asyncio.get_running_loop().time() - self._changed[key]
        return are_doubtful(placement, self._said.get(key), decisions, self._cache.reached, quiet)


def _is_of(decision: Misfit, placement: Key) -> bool:
    """Whether a decision that cannot be read is labelled as a placement's."""
    meta = decision.metadata
    return (meta.labels.get(PLACEMENT_LABEL), meta.namespace) == tuple(placement)


def are_doubtful(
    placement: Placement,
    said: str | None,
    decisions: Iterable[PlacementDecision],
    reached: str,
    quiet: float,
) -> bool:
    """Whether decisions may be half rewritten although they agree with a status.

    `said` is the version in which the status came, if that was seen; `reached` is the version that the cache of
    decisions has come to; `quiet` is for how many seconds no decision has changed.
    """
    decisions = tuple(decisions)
    ours = any(MARK_ANNOTATION in each.metadata.annotations for each in decisions)
    if not ours and newer(said or placement.metadata.resource_version, reached):
        return True
    is_last = said is not None and not any(newer(each.metadata.resource_version, said) for each in decisions)
    return not is_last and quiet < QUIET_SECONDS
