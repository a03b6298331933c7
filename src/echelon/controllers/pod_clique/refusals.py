"""What became of writes for a set that failed, between one plan and the next.

A quota may be full, a webhook down, a namespace on its way out. The server tells only the one who asks, so that one
takes notes: the next plan has them as facts and its status tells of them, and what failed is left out of plans until it
is due again, later each time. What waits for it is left out with it, as if it had failed once more. Of a clique whose
pods are refused one is tried, not each of a thousand.

The notes are of this process. What the next one has to know is in the status, and it tries at once.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.keys import Key
from echelon.engine.plan import Action, Create, Emit, InOrder, Patch, Plan, Together, Write
from echelon.engine.pod_clique.names import CLIQUE
from echelon.engine.pod_clique.view import FailedWrite
from echelon.engine.rollout.write_retries import wait_before
from echelon.kube.act import Failed, Written
from echelon.kube.clock import Clock
from echelon.kube.errors import AlreadyExists, ApiError, Conflict, NotFound

# Somebody was faster, and the cache will show it. If it never does, that is a failure like any other.
CONFLICTS_IN_A_ROW = 5

_log = logging.getLogger(__name__)


class What(NamedTuple):
    """Which writes fail together: those of an object, and all that make pods of one clique."""

    resource: str
    verb: str
    name: str


@dataclass
class _Note:
    failed: FailedWrite
    tries: int
    next_try: datetime


@dataclass
class _Notes:
    """What failed for one set."""

    refused: dict[What, _Note] = field(default_factory=dict)
    conflicts: Counter[What] = field(default_factory=Counter)


class Refusals:
    """Takes notes for all sets."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._notes: dict[Key, _Notes] = {}

    def facts(self, key: Key) -> tuple[FailedWrite, ...]:
        """Return the writes for a set that failed and were not made since."""
        notes = self._notes.get(key)
        if notes is None:
            return ()
        return tuple(note.failed for _, note in sorted(notes.refused.items()))

    def cliques(self, key: Key) -> frozenset[str]:
        """Return the cliques of a set whose pods the server did not take."""
        return frozenset(what.name for what, _ in self._pods(key))

    def held(self, key: Key, now: datetime) -> frozenset[str]:
        """Return those of them whose pods are not tried yet, so that a plan makes those of others."""
        return frozenset(what.name for what, note in self._pods(key) if note.next_try > now)

    def _pods(self, key: Key) -> Iterator[tuple[What, _Note]]:
        notes = self._notes.get(key)
        for what, note in notes.refused.items() if notes is not None else ():
            if what[:2] == (POD.resource, "create"):
                yield what, note

    def wanted(self, key: Key, plan: Plan) -> frozenset[What]:
        """Return what of all that failed a plan wants, before anything of it is held back."""
        notes = self._notes.get(key)
        if notes is None or not notes.refused:
            return frozenset()
        return frozenset(what for what in map(what_of, writes_of(plan.actions)) if what in notes.refused)

    def hold_back(self, key: Key, plan: Plan, now: datetime) -> Plan:
        """Return a plan without what failed and is not due yet, and without what waits for that."""
        notes = self._notes.get(key)
        if notes is None or not notes.refused:
            return plan
        held = {what: note for what, note in notes.refused.items() if note.next_try > now}
        due = frozenset(notes.refused.keys() - held.keys())
        actions, whole = _Sieve(frozenset(held), due).without(plan.actions)
        status = plan.status if whole or not plan.status_waits else None
        if not held:
            return replace(plan, actions=actions, status=status)
        soonest = min(note.next_try for note in held.values()) - now
        after = soonest if plan.look_again_after is None else min(soonest, plan.look_again_after)
        return replace(plan, actions=actions, status=status, look_again_after=after)

    def settle(self, key: Key, wanted: frozenset[What]) -> bool:
        """Let go of what failed, is due, and is not wanted by the plan that begins; return whether there was such."""
        notes = self._notes.get(key)
        if notes is None:
            return False
        now = self._clock.now()
        over = [w for w, note in notes.refused.items() if w not in wanted and note.next_try <= now]
        for what in over:
            del notes.refused[what]
        return bool(over)

    def failed(self, key: Key, failed: Failed) -> bool:
        """Take a note of a failure. False if somebody was only faster, and for a status, of which no plan can tell."""
        write, error = failed.write, failed.error
        if isinstance(write, Patch) and write.subresource and write.kind.resource == POD_CLIQUE_SET.resource:
            return False
        what, notes = what_of(write), self._notes.setdefault(key, _Notes())
        is_outrun = isinstance(error, Conflict | AlreadyExists)
        if is_outrun or (isinstance(error, NotFound) and not isinstance(write, Create)):
            notes.conflicts[what] += 1
            if notes.conflicts[what] < CONFLICTS_IN_A_ROW:
                return False
        now, known = self._clock.now(), notes.refused.get(what)
        tries = known.tries if known is not None else 0
        code = error.status_reason if isinstance(error, ApiError) else type(error).__name__
        since = known.failed.since if known is not None else now
        told = FailedWrite(write.kind, write.name, what.verb, code, str(error) or repr(error), since)
        if known is not None and known.failed.code == code:
            told = known.failed  # the words of a server may differ each time, and everything that is told is written
        else:
            extra = {"key": str(key), "object": write.name}
            _log.warning("%s: cannot %s %s %s: %s", key, what.verb, write.kind.kind, write.name, error, extra=extra)
        at_least = timedelta(seconds=error.retry_after if isinstance(error, ApiError) else 0)
        if known is None or known.next_try <= now:  # several that fail together failed once
            notes.refused[what] = _Note(told, tries + 1, now + wait_before(tries, at_least))
        return True

    def written(self, key: Key, written: Written) -> None:
        """Let go of what was made after all."""
        notes = self._notes.get(key)
        if notes is None or not (notes.refused or notes.conflicts):
            return
        for verb in ("create", "patch", "delete"):
            self._forget(notes, What(written.kind.resource, verb, written.name))
        if written.kind.resource == POD.resource and (clique := written.labels.get(CLIQUE)):
            self._forget(notes, What(POD.resource, "create", clique))

    def _forget(self, notes: _Notes, what: What) -> None:
        notes.refused.pop(what, None)
        notes.conflicts.pop(what, None)

    def try_again(self, key: Key) -> None:
        """Have what failed tried at once: somebody wants something else, or wants it tried."""
        notes = self._notes.get(key)
        for note in notes.refused.values() if notes is not None else ():
            note.next_try, note.tries = self._clock.now(), 0

    def forget(self, key: Key) -> None:
        """Forget a set."""
        self._notes.pop(key, None)


def what_of(write: Write) -> What:
    """Return what a write fails together with."""
    verb = "create" if isinstance(write, Create) else "delete" if not hasattr(write, "body") else "patch"
    name = write.name
    if isinstance(write, Create) and write.kind.resource == POD.resource:
        name = write.body["metadata"].get("labels", {}).get(CLIQUE, name)
    return What(write.kind.resource, verb, name)


def writes_of(actions: Iterable[Action]) -> Iterator[Write]:
    """Return all writes among some actions, in their order."""
    for each in actions:
        if isinstance(each, InOrder | Together):
            yield from writes_of(each.actions)
        elif not isinstance(each, Emit):
            yield each


class _Sieve:
    """Leaves out of actions what is held back, and of each that is due all but one write, which shows how it is now."""

    def __init__(self, held: frozenset[What], due: frozenset[What]) -> None:
        self._held = held
        self._due = due
        self._tried: set[What] = set()

    def without(self, actions: tuple[Action, ...]) -> tuple[tuple[Action, ...], bool]:
        """Return actions in order up to the first that is left out, and whether that is all of them."""
        kept: list[Action] = []
        for each in actions:
            if isinstance(each, InOrder | Together):
                several, whole = self._burst(each) if isinstance(each, Together) else self._order(each)
                kept += [several] if several.actions else []
            else:
                whole = isinstance(each, Emit) or self._passes(each)
                kept += [each] if whole else []
            if not whole:
                return tuple(kept), False
        return tuple(kept), True

    def _passes(self, write: Write) -> bool:
        what = what_of(write)
        if what in self._held or what in self._tried:
            return False
        if what in self._due:
            self._tried.add(what)
        return True

    def _order(self, order: InOrder) -> tuple[InOrder, bool]:
        for number, each in enumerate(order.actions):
            before = order.actions[:number]
            if isinstance(each, Together):
                several, whole = self._burst(each)
                if not whole:
                    return InOrder((*before, several) if several.actions else before), False
            elif not isinstance(each, Emit) and not self._passes(each):
                return InOrder(before if any(not isinstance(one, Emit) for one in before) else ()), False
        return order, True

    def _burst(self, burst: Together) -> tuple[Together, bool]:
        kept: list[Write | InOrder] = []
        complete = True
        for each in burst.actions:
            if isinstance(each, InOrder):
                part, whole = self._order(each)
                complete = complete and whole
                kept += [part] if part.actions else []
            elif self._passes(each):
                kept.append(each)
            else:
                complete = False
        return replace(burst, actions=tuple(kept)), complete
