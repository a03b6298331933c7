"""Keeps the cluster as the works on the hub say, and tells the hub how that goes.

A work is applied when it is new, changed, asked to be tried again, or has not been looked at for some minutes. In
between, whatever changes on its objects only leads to a report. A report is written only if it says something new, so
a fleet at rest writes nothing.
"""

import asyncio
import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

import msgspec

from echelon.agent.passes import Handled, Passes
from echelon.agent.records import RecordEnding, Records
from echelon.agent.settings import FINALIZER, RETRIED_AT, Settings
from echelon.agent.sights import Sights, Spot
from echelon.api.base import JSONObject
from echelon.api.meta import Condition
from echelon.api.work import MANIFEST_WORK, ManifestWork, ManifestWorkStatus
from echelon.controllers.conditions import find, timestamp, wire, with_condition
from echelon.engine.work.cleaning import Place, leftovers, place_of, recorded
from echelon.engine.work.reporting import Found, Sight, report
from echelon.kube.cache import identity_of
from echelon.kube.client import Client, MergePatch, WriteOptions
from echelon.kube.clock import Clock
from echelon.kube.errors import Conflict, NotFound
from echelon.kube.informer import Delta, Informer

FIRST_PAUSE_SECONDS = 0.1
LAST_PAUSE_SECONDS = 60.0
# For so many tries, some seconds, trouble of the server is not reported as trouble of the work.
PASSING_TRIES = 5
# How often news that only reword what the hub knows are worth a write: "2 of 5 available", "3 of 5 available", ...
WORDS_SECONDS = 3.0

_log = logging.getLogger(__name__)

_Asked: TypeAlias = tuple[str, int, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class _Standing:
    """How far a work has come.

    `due`: when to apply it again although nothing changed; `tries` since all was well; `told`: when the hub last heard
    of it; `reported` is missing if there is more to tell.
    """

    asked: _Asked
    handled: tuple[Handled, ...]
    due: float
    tries: int = 0
    told: float = -math.inf
    reported: ManifestWorkStatus | None = None


class Works:
    """The works of one cluster. `turn` deals with one of them."""

    def __init__(
        self,
        hub: Client,
        informer: Informer[ManifestWork],
        records: Records,
        passes: Passes,
        sights: Sights,
        *,
        clock: Clock,
        random: Random,
        settings: Settings,
        manager: str,
    ) -> None:
        self._hub = hub
        self._informer = informer
        self._records = records
        self._passes = passes
        self._sights = sights
        self._clock = clock
        self._random = random
        self._settings = settings
        self._options = WriteOptions(field_manager=manager)
        self._standing: dict[str, _Standing] = {}
        self._own: dict[str, ManifestWork] = {}  # as we wrote them, until the cache shows it
        self._spots: dict[str, tuple[Spot, ...]] = {}  # by work
        self._users: dict[Place, set[str]] = {}
        self._settled: set[str] = set()  # whose records list everything that was ever applied for them
        self._ending: set[str] = set()  # uids of works whose end the hub has confirmed

    def users(self, place: Place) -> Iterable[str]:
        """Return the works that have an object there."""
        return sorted(self._users.get(place, ()))

    def apply_again(self, name: str) -> None:
        """Apply a work at its next turn, whatever it looks like."""
        standing = self._standing.get(name)
        if standing is not None:
            self._standing[name] = replace(standing, due=0.0)

    async def turn(self, name: str) -> float | None:
        """Deal with a work; return after how many seconds to do so again."""
        work = self._newest(name)
        if work is None:
            self._forget(name)
            return None
        if work.metadata.deletion_timestamp:
            await self._end(work)
            return None
        if FINALIZER not in work.metadata.finalizers:
            work = await self._patch(work, {"metadata": {"finalizers": [*work.metadata.finalizers, FINALIZER]}})
        now, before = asyncio.get_running_loop().time(), self._standing.get(name)
        if before is None or before.asked != _asked(work) or now >= before.due:
            try:
                standing = await self._complete(work) if _is_complete(work) else await self._apply(work, before)
            except RecordEnding as wait:
                # A work may be back before the end of its predecessor; that end leads to another turn.
                _log.info("%s waits: %s", name, wait)
                return self._settings.status_sync_seconds
        else:
            handled = tuple([await self._look(each) for each in before.handled])
            if handled == before.handled and work.status == before.reported:
                return self._next_look(before)
            standing = replace(before, handled=handled)
        self._standing[name] = standing
        status = report(
            work,
            [each.outcome for each in standing.handled],
            self._clock.now(),
            raw_limit=self._settings.max_json_raw_bytes,
        )
        if status != work.status:
            left = standing.told + WORDS_SECONDS - now
            if left > 0 and _differ_in_words(status, work.status):
                self._standing[name] = replace(standing, reported=None)
                return min(left, self._next_look(standing))
            work = await self._patch(work, {"status": msgspec.to_builtins(status)}, "status")
            standing = replace(standing, told=now)
        self._standing[name] = replace(standing, reported=work.status)
        return self._next_look(standing)

    async def _apply(self, work: ManifestWork, before: _Standing | None) -> _Standing:
        name = work.metadata.name
        record = await self._records.ensure(work, settled=name in self._settled)
        self._settled.discard(name)
        handled = await self._passes.apply(work, record)
        self._watch(name, handled)
        fresh = {place_of(each.resource): each.resource for each in handled if each.resource is not None}
        listed = await self._passes.strays(record, work.spec.workload.manifests) + record.status.applied_resources
        kept, dropped = leftovers(recorded(listed), [each.outcome.meta for each in handled])
        # The first pass of a work removes nothing: the hub may have been replaced, and its works come one by one.
        first = find(work.status.conditions, "Applied") is None
        left = dropped if first else await self._records.remove(record, dropped)
        resources = [*left, *(each for each in kept if place_of(each) not in fresh), *fresh.values()]
        await self._records.list_resources(record, resources)
        again = [each.again for each in handled if each.again is not None]
        if not left and not again:  # what failed may have happened all the same
            self._settled.add(name)
        asked = _asked(work)
        tries = before.tries + 1 if before is not None and before.asked == asked else 1
        due, settled = self._due(again, tries, waiting=bool(left))
        told = [_patient(each, before, tries) for each in handled]
        last = before.told if before is not None else -math.inf
        return _Standing(asked, tuple(told), due, 0 if settled else tries, last)

    async def _complete(self, work: ManifestWork) -> _Standing:
        """A work that is complete is never applied again, and still looked at."""
        handled = await self._passes.look(work)
        self._watch(work.metadata.name, handled)
        due, _ = self._due([], 0, waiting=False)
        return _Standing(_asked(work), tuple(handled), due)

    def _due(self, again: list[float], tries: int, *, waiting: bool) -> tuple[float, bool]:
        """Return when to apply again, and whether everything that can be done by trying has been done."""
        now = asyncio.get_running_loop().time()
        after = self._settings.resync_seconds * self._random.uniform(1.0, 1.5)
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(tries - 1, 16), LAST_PAUSE_SECONDS)
        pause *= self._random.uniform(0.5, 1.0)
        trying = waiting or any(each == 0 for each in again)
        return now + min([after, *(max(each, pause) for each in again), *([pause] if waiting else [])]), not trying

    async def _look(self, handled: Handled) -> Handled:
        """See what has become of an object: in the cache if it is watched, else by asking."""
        if handled.spot is None:
            return handled
        before = handled.outcome
        known = before.seen.object if isinstance(before.seen, Found) else None
        seen: Sight = self._sights.look(handled.spot, known) or await self._passes.see(handled.spot)
        if isinstance(seen, Found) and known is not None and identity_of(seen.object) == identity_of(known):
            return handled
        return replace(handled, outcome=replace(before, seen=seen))

    def _watch(self, name: str, handled: Iterable[Handled]) -> None:
        for spot in self._spots.pop(name, ()):
            if users := self._users.get(spot.place):
                users.discard(name)
                if not users:
                    del self._users[spot.place]
        spots = tuple(each.spot for each in handled if each.spot is not None)
        for spot in spots:
            self._users.setdefault(spot.place, set()).add(name)
        if spots:
            self._spots[name] = spots
        self._sights.want(name, spots)

    def _next_look(self, standing: _Standing) -> float:
        left = max(standing.due - asyncio.get_running_loop().time(), 0.001)
        if all(each.spot is None or self._sights.watched(each.spot) for each in standing.handled):
            return left
        return min(left, self._settings.status_sync_seconds * self._random.uniform(1.0, 1.9))

    async def _end(self, work: ManifestWork) -> None:
        """Remove what was applied for a work, and then let it go."""
        if FINALIZER not in work.metadata.finalizers:
            self._forget(work.metadata.name)
            return
        if work.metadata.uid not in self._ending:
            # Also if it was said before: only a write makes sure that this is not the past of a work that is back.
            deleting = Condition(
                type="Deleting",
                status="True",
                observed_generation=work.metadata.generation,
                last_transition_time=timestamp(self._clock.now()),
                reason="WorkDeleting",
                message="ManifestWork is being deleted",
            )
            conditions = wire(with_condition(work.status.conditions, deleting))
            work = await self._patch(work, {"status": {"conditions": conditions}}, "status")
            self._ending.add(work.metadata.uid)
        if await self._records.end(work):
            kept = [name for name in work.metadata.finalizers if name != FINALIZER]
            await self._patch(work, {"metadata": {"finalizers": kept or None}})
            self._ending.discard(work.metadata.uid)
            self._forget(work.metadata.name)

    async def _patch(self, work: ManifestWork, body: JSONObject, subresource: str = "") -> ManifestWork:
        meta = work.metadata
        expected = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        wanted = MergePatch({**body, "metadata": {**body.get("metadata", {}), **expected}})
        try:
            after = await self._hub.patch(
                MANIFEST_WORK, meta.name, wanted, meta.namespace, subresource=subresource, options=self._options
            )
        except Conflict:
            await self._ask(meta.name, meta.namespace)
            raise
        self._own[meta.name] = after
        return after

    async def _ask(self, name: str, namespace: str) -> None:
        """Learn the newest state of a work from the hub itself, so that the next try does not meet the same fate."""
        try:
            self._own[name] = await self._hub.get(MANIFEST_WORK, name, namespace)
        except NotFound:
            self._own.pop(name, None)

    def _newest(self, name: str) -> ManifestWork | None:
        cached = self._informer.get(name, self._informer.namespace)
        own = self._own.get(name)
        if own is None:
            return cached
        if self._informer.shows(name, self._informer.namespace, own.metadata.resource_version):
            del self._own[name]
            return cached
        return own

    def _forget(self, name: str) -> None:
        self._watch(name, ())
        self._standing.pop(name, None)
        self._settled.discard(name)
        self._own.pop(name, None)


def concerns_agent(delta: Delta[ManifestWork]) -> bool:
    """Whether a change of a work is more than an agent's own report."""
    old, new = delta.old, delta.new
    if old is None or new is None:
        return True
    return _asked(old) != _asked(new) or (
        (old.metadata.deletion_timestamp, old.metadata.finalizers)
        != (new.metadata.deletion_timestamp, new.metadata.finalizers)
    )


def _patient(handled: Handled, before: _Standing | None, tries: int) -> Handled:
    """Say nothing of a trouble that may be over at the next try: a report of failure can stop a rollout."""
    if not handled.passing or tries > PASSING_TRIES:
        return handled
    known = next((each for each in before.handled if each.spot == handled.spot), None) if before is not None else None
    seen = handled.outcome.seen if known is None else known.outcome.seen
    return replace(handled, outcome=replace(handled.outcome, applied=None, seen=seen))


def _asked(work: ManifestWork) -> _Asked:
    """Return what decides whether a work was already applied as it is."""
    meta = work.metadata
    return meta.uid, meta.generation, meta.annotations.get(RETRIED_AT, ""), tuple(sorted(meta.labels.items()))


def _differ_in_words(one: ManifestWorkStatus, other: ManifestWorkStatus) -> bool:
    """Tell whether two reports say the same to a program."""
    return one.resource_status == other.resource_status and _wordless(one) == _wordless(other)


def _wordless(status: ManifestWorkStatus) -> list[tuple[object, ...]]:
    return [
        (each.type, each.status, each.reason, each.observed_generation, each.last_transition_time)
        for each in status.conditions
    ]


def _is_complete(work: ManifestWork) -> bool:
    said = find(work.status.conditions, "Complete")
    return said is not None and said.status == "True"
