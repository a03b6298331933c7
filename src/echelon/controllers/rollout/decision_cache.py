"""Placements joined with their decisions, from two caches, and since when each decision is as it is.

What counts of it, and for what, is decided by `echelon.engine.rollout.decisions`. Here is only what it needs to know:
the decisions with a placement's label, when each changed, and in which version the placement's status came. When and
in which version are not in the caches; a rebuild, like a restart, begins to count anew.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from echelon.api.keys import Key
from echelon.api.placement import Placement, PlacementDecision
from echelon.engine.placement.current import PLACEMENT_LABEL
from echelon.engine.rollout.decisions import DecisionState, KnownDecisions, counting, first_seen
from echelon.engine.rollout.references import PlacementView, read_placement
from echelon.kube.cache import key_of
from echelon.kube.clock import Clock
from echelon.kube.informer import Delta, Informer
from echelon.kube.misfits import Misfit

BATCH = 250  # so many are compared before others have their turn on the event loop


@dataclass
class _Labelled:
    """The decisions with the label of one placement."""

    changed: datetime  # when one of them changed last
    states: dict[str, DecisionState] = field(default_factory=dict)  # by name; those that are gone stay for a moment

    def forget_gone(self, now: datetime) -> None:
        """Let go of decisions that are gone and count no more."""
        for name in [name for name, each in self.states.items() if each.current is None and each.is_quiet(now)]:
            del self.states[name]


class DecisionCache:
    """The placements of all work sets with their decisions."""

    def __init__(
        self,
        placements: Informer[Placement],
        decisions: Informer[PlacementDecision],
        clock: Clock,
        *,
        trusted: bool = False,
    ) -> None:
        """With `trusted`, decisions with a placement's label count at once, whoever owns them."""
        self._placements = placements
        self._decisions = decisions
        self._clock = clock
        self._trusted = trusted
        self._labelled: dict[Key, _Labelled] = {}  # by placement
        self._status_versions: dict[Key, str] = {}  # the version in which a status came, where that was seen
        self._views: dict[Key, tuple[object, PlacementView]] = {}  # with the versions they are from

    def placement_changed(self, delta: Delta[Placement]) -> None:
        """Follow a placement."""
        key = key_of(delta.object)
        if delta.new is None:
            self._status_versions.pop(key, None)
            self._views.pop(key, None)
        elif delta.old is not None and delta.old.status != delta.new.status:
            self._status_versions[key] = delta.new.metadata.resource_version

    def decision_changed(self, delta: Delta[PlacementDecision]) -> Collection[Key]:
        """Follow a decision; return the placements that it is, or was, of."""
        now = self._clock.now()
        before, after = _placement_of(delta.old), _placement_of(delta.new)
        name = delta.object.metadata.name
        if before is not None and before != after:
            self._put(before, name, None, now)
        if after is not None:
            self._put(after, name, delta.new, now, initial=delta.initial)
        return dict.fromkeys(each for each in (before, after) if each is not None)

    def known(self, key: Key) -> KnownDecisions:
        """Return what is known of a placement's decisions."""
        labelled = self._labelled.get(key)
        states = tuple(labelled.states.values()) if labelled is not None else ()
        return KnownDecisions(
            self._placements.get(key),
            states,
            labelled.changed if labelled is not None else None,
            self._status_versions.get(key),
            unreadable=any(_is_of(misfit, key) for misfit in self._decisions.unreadable.values()),
            trusted=self._trusted,
        )

    def view(self, key: Key, known: KnownDecisions, now: datetime) -> PlacementView | None:
        """Read what a placement has decided, if there is one; a large one is read once for each state of it."""
        placement = known.placement
        if placement is None or placement.metadata.deletion_timestamp:
            return None
        decisions, owned = counting(known, now)
        versions = (
            placement.metadata.resource_version,
            owned,
            *((each.metadata.name, each.metadata.resource_version) for each in decisions),
        )
        read = self._views.get(key)
        if read is None or read[0] != versions:
            existing = [each for each in decisions if not each.metadata.deletion_timestamp]
            read = self._views[key] = versions, read_placement(placement, existing, owned=owned)
        return read[1]

    def verify(self) -> Iterator[str | None]:
        """Compare with the cache of decisions; repair what is not the same, and yield what it was.

        Yields None when others may have their turn, so each decision is looked at as it is at that moment.
        """
        listed = ((_placement_of(each), each.metadata.name) for each in self._decisions.values())
        known = ((key, name) for key, labelled in list(self._labelled.items()) for name in list(labelled.states))
        for number, (key, name) in enumerate(chain(listed, known), start=1):
            if key is not None and (difference := self._verify(key, name)):
                yield difference
            if number % BATCH == 0:
                yield None
        for key in list(self._labelled):
            self._forget_gone(key)

    def _verify(self, key: Key, name: str) -> str:
        decision = self._decisions.get(Key(key.namespace, name))
        should = decision if _placement_of(decision) == key else None
        labelled = self._labelled.get(key)
        state = labelled.states.get(name) if labelled is not None else None
        has = state.current if state is not None else None
        if has is should:
            return ""
        self._put(key, name, should, self._clock.now())
        return f"decision {name} of placement {key}: {_version(has)} instead of {_version(should)}"

    def _forget_gone(self, key: Key) -> None:
        """Let go of decisions that are gone and count no more."""
        if (labelled := self._labelled.get(key)) is not None:
            labelled.forget_gone(self._clock.now())
            if not labelled.states:
                del self._labelled[key]

    def _put(
        self, key: Key, name: str, decision: PlacementDecision | None, now: datetime, *, initial: bool = False
    ) -> None:
        labelled = self._labelled.setdefault(key, _Labelled(now))
        labelled.changed = now
        labelled.forget_gone(now)
        state = labelled.states.get(name)
        if state is not None:
            labelled.states[name] = state.changed_to(decision, now)
        elif decision is not None:
            labelled.states[name] = first_seen(decision, now, initial=initial)


def _placement_of(decision: PlacementDecision | None) -> Key | None:
    """Return the placement that a decision is labelled with."""
    name = decision.metadata.labels.get(PLACEMENT_LABEL) if decision is not None else None
    return Key(decision.metadata.namespace, name) if decision is not None and name else None


def _is_of(decision: Misfit, placement: Key) -> bool:
    """Whether a decision that cannot be read is labelled as a placement's."""
    meta = decision.metadata
    return (meta.namespace, meta.labels.get(PLACEMENT_LABEL)) == tuple(placement)


def _version(decision: PlacementDecision | None) -> str:
    return decision.metadata.resource_version if decision is not None else "none"
