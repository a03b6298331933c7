"""What placements have decided, read from two caches: one of placements, one of decisions; and what of it is believed.

Anybody who may write decisions in a namespace can label one. So the decisions that a placement owns count, and others
with its label only where it owns none, because some placement controllers don't own theirs. Those count when they have
been the same for a moment.

Either cache may be behind the other, and whoever writes decisions writes them one by one and the placement's status
after them. Numbers tell most of it, but not all: where a cluster comes and another goes, decisions that are half
rewritten can have just as many clusters as a status says, of now, of before or of later. A cluster that is moved is
missing in them, and must not lose its work for that.

So before a work goes, decisions must be known to be complete: the status came after them, or they have been the same
for a moment, which is longer than rewriting takes. And they must be all that there are. A cache cannot tell that; the
server is asked. Echelon's own decisions do not have to be asked for when the status came after them: it lists a cluster
in the new decision before it takes it out of the old one, so while one is missing, another is listed twice, and numbers
do not agree.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from echelon.api.keys import Key
from echelon.api.placement import Placement, PlacementDecision
from echelon.api.times import parse_time
from echelon.api.versions import newer
from echelon.controllers.work_set.asking import Answer
from echelon.engine.placement.current import PLACEMENT_LABEL, STAMP_ANNOTATION
from echelon.engine.work_set.view import PlacementView, believable, read_placement
from echelon.kube.cache import key_of
from echelon.kube.informer import Delta, Informer
from echelon.kube.misfits import Misfit

# How long decisions must have been the same where nothing else tells that they are complete. Rewriting takes less.
QUIET_SECONDS = 2.0
_NAMED = 3


@dataclass
class _Known:
    """A decision as it is, and as it was when it had not changed for a moment."""

    current: PlacementDecision | None
    believed: PlacementDecision | None
    changed: float


class Decided:
    """The placements of all work sets with their decisions."""

    def __init__(
        self,
        placements: Informer[Placement],
        decisions: Informer[PlacementDecision],
        now: Callable[[], datetime],
        *,
        trust: bool = False,
    ) -> None:
        """With `trust`, decisions with a placement's label are believed at once, whoever owns them."""
        self._placements = placements
        self._cache = decisions
        self._now = now
        self._trust = trust
        self._decisions: dict[Key, dict[str, _Known]] = {}  # of each placement, by name
        self._views: dict[Key, tuple[object, PlacementView]] = {}  # with the versions they are from
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
        now = asyncio.get_running_loop().time()
        for obj in (delta.old, delta.new):
            if obj is None or not (name := obj.metadata.labels.get(PLACEMENT_LABEL)):
                continue
            key = Key(meta.namespace, name)
            placements[key] = None
            self._changed[key] = now
            current = obj if obj is delta.new else None
            known = self._decisions.setdefault(key, {}).setdefault(meta.name, _Known(None, None, now))
            known.current, known.changed = current, now
            if delta.initial and self._is_old(obj):
                known.believed = current
        return placements

    def view(self, key: Key) -> PlacementView | None:
        """Return what a placement has decided, if there is one."""
        placement = self._placements.get(key)
        if placement is None or placement.metadata.deletion_timestamp:
            return None
        decisions, owned = self._believed(key, placement)
        versions = (
            placement.metadata.resource_version,
            owned,
            *((each.metadata.name, each.metadata.resource_version) for each in decisions),
        )
        known = self._views.get(key)
        if known is not None and known[0] == versions:
            return known[1]
        found = read_placement(
            placement, [each for each in decisions if not each.metadata.deletion_timestamp], owned=owned
        )
        self._views[key] = (versions, found)
        return found

    def ignored(self, key: Key) -> str:
        """Say which decisions have a placement's label and do not count, because it owns others."""
        placement = self._placements.get(key)
        if placement is None or self._trust:
            return ""
        current = list(self._current(key))
        own, owned = believable(placement, current)
        strange = sorted({each.metadata.name for each in current} - {each.metadata.name for each in own})
        if not owned or not strange:
            return ""
        more = f" and {len(strange) - _NAMED} more" if len(strange) > _NAMED else ""
        listed = ", ".join(strange[:_NAMED])
        return f"{key.name}: {listed}{more} have its label, but it owns other decisions; they are ignored"

    def doubtful(self, key: Key, answer: Answer | None) -> bool:
        """Whether decisions may be of different times, or of one in between, also where they agree with the status."""
        if any(_is_of(misfit, key) for misfit in self._cache.unreadable.values()):
            return True
        placement = self._placements.get(key)
        decisions = list(self._current(key))
        if placement is None:
            return False
        if not decisions:
            return bool(self._decisions.get(key))  # they are gone, and that is not believed yet
        if any(known.believed is not known.current for known in self._loose(key, placement)):
            return True
        return are_doubtful(placement, self._said.get(key), decisions, self._listed(key, answer))

    def believed_in(self, key: Key) -> float | None:
        """Return in how many seconds more is believed of what a placement has decided, if nothing changes."""
        placement = self._placements.get(key)
        now = asyncio.get_running_loop().time()
        loose = self._loose(key, placement) if placement is not None else []
        fresh = (each.changed + QUIET_SECONDS - now for each in loose if each.believed is not each.current)
        return min(fresh, default=None)

    def settles_at(self, key: Key) -> float:
        """Return from when on an answer of the server tells whether decisions are complete."""
        placement = self._placements.get(key)
        if placement is not None and _is_last(placement, self._said.get(key), list(self._current(key))):
            return 0.0
        return self._changed.get(key, 0.0) + QUIET_SECONDS

    def matches(self, key: Key, answer: Answer) -> bool:
        """Whether an answer is about the decisions that are known."""
        known = {each.metadata.name: each.metadata.resource_version for each in self._current(key)}
        return answer.decisions.get(key.name) == known

    def _is_old(self, decision: PlacementDecision) -> bool:
        """Whether a decision that was there before us was not made just now."""
        made = parse_time(decision.metadata.creation_timestamp)
        return made is not None and self._now() - made > timedelta(seconds=QUIET_SECONDS)

    def _current(self, key: Key) -> Iterator[PlacementDecision]:
        return (known.current for known in self._decisions.get(key, {}).values() if known.current is not None)

    def _loose(self, key: Key, placement: Placement) -> list[_Known]:
        """Return the decisions of a placement that owns none, and that are not trusted as they come."""
        if self._trust or believable(placement, self._current(key))[1]:
            return []
        known = self._decisions.get(key, {})
        now = asyncio.get_running_loop().time()
        for name, each in list(known.items()):
            if now - each.changed >= QUIET_SECONDS:
                each.believed = each.current
                if each.current is None:
                    del known[name]
        if not known:
            self._decisions.pop(key, None)
            self._changed.pop(key, None)
        return list(known.values())

    def _believed(self, key: Key, placement: Placement) -> tuple[Sequence[PlacementDecision], bool]:
        """Return the decisions that count, and whether the placement owns them."""
        current = list(self._current(key))
        own, owned = believable(placement, current)
        if owned or self._trust:
            self._forget_gone(key)
            return (current if self._trust else own), owned
        return [known.believed for known in self._loose(key, placement) if known.believed is not None], False

    def _forget_gone(self, key: Key) -> None:
        known = self._decisions.get(key, {})
        for name in [name for name, each in known.items() if each.current is None]:
            del known[name]
        if not known:
            self._decisions.pop(key, None)
            self._changed.pop(key, None)

    def _listed(self, key: Key, answer: Answer | None) -> "Listed | None":
        """Return what an answer says about the decisions of a placement, if it is about those that are known."""
        if answer is None or not self.matches(key, answer):
            return None
        return Listed(answer.resource_version, answer.asked - self._changed.get(key, answer.asked))


@dataclass(frozen=True)
class Listed:
    """The server has just the decisions that are known."""

    resource_version: str
    quiet: float  # for how many seconds none of them had changed when the server was asked


def _is_of(decision: Misfit, placement: Key) -> bool:
    """Whether a decision that cannot be read is labelled as a placement's."""
    meta = decision.metadata
    return (meta.namespace, meta.labels.get(PLACEMENT_LABEL)) == tuple(placement)


def are_doubtful(
    placement: Placement, said: str | None, decisions: Collection[PlacementDecision], listed: Listed | None
) -> bool:
    """Whether decisions may be half rewritten, or older than a status, although they agree with it.

    `said` is the version in which the status came, if that was seen.
    """
    is_last = _is_last(placement, said, decisions)
    if is_last and any(STAMP_ANNOTATION in each.metadata.annotations for each in decisions):
        return False
    if listed is None:
        return True
    if is_last and said is not None:
        return newer(said, listed.resource_version)
    return listed.quiet < QUIET_SECONDS


def _is_last(placement: Placement, said: str | None, decisions: Iterable[PlacementDecision]) -> bool:
    """Whether the status, if it tells of decisions, was seen to come after all of them."""
    if said is None or not placement.status.decision_groups:
        return False
    return not any(newer(each.metadata.resource_version, said) for each in decisions)
