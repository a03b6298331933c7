"""Keeps the cluster as the works on the hub say, and tells the hub how that goes.

A work is applied when it is new, changed, asked to be tried again, or has not been looked at for some minutes. In
between, an object that somebody changes is put back, if that is not what somebody does all the time, and whatever else
changes only leads to a report. A report is written only if it says something new, so a fleet at rest writes nothing.
"""

import asyncio
import logging
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from random import Random

import msgspec

from echelon.agent.handled import Handled, is_passing
from echelon.agent.hub_works import HubWorks
from echelon.agent.passes import Passes
from echelon.agent.records import RecordEnding, Records
from echelon.agent.settings import FINALIZER, Settings
from echelon.agent.sights import Sights, Spot
from echelon.agent.standing import Standing, asked_of, differ_in_words, known_to, patient
from echelon.api.meta import Condition
from echelon.api.times import format_time
from echelon.api.work import AppliedManifestWork, AppliedResource, ManifestWork
from echelon.engine.conditions import conditions_to_wire, find_condition, set_condition
from echelon.engine.work.cleaning import Place, leftovers, place_of, recorded
from echelon.engine.work.reporting import Found, Sight, look_again, report
from echelon.kube.cache import identity_of
from echelon.kube.client import Client
from echelon.kube.clock import Clock
from echelon.kube.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, TooLarge
from echelon.kube.informer import Delta, Informer

FIRST_PAUSE_SECONDS = 0.1
LAST_PAUSE_SECONDS = 60.0
# How often news that only reword what the hub knows are worth a write: "2 of 5 available", "3 of 5 available", ...
WORDS_SECONDS = 3.0
# What a cluster says for good when it is asked to keep a record; anything else may be over at the next try.
_REFUSED = (BadRequest, Forbidden, Invalid, TooLarge)

_log = logging.getLogger(__name__)


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
        self._works = HubWorks(hub, informer, manager)
        self._records = records
        self._passes = passes
        self._sights = sights
        self._clock = clock
        self._random = random
        self._settings = settings
        self._standing: dict[str, Standing] = {}
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
        work = self._works.newest(name)
        if work is None:
            self._forget(name)
            return None
        if work.metadata.deletion_timestamp:
            await self._end(work)
            return None
        if FINALIZER not in work.metadata.finalizers:
            work = await self._works.patch(work, {"metadata": {"finalizers": [*work.metadata.finalizers, FINALIZER]}})
        elif self._records.get(self._records.name_of(name)) is None:
            # A cache may show a work that has ended, and nobody would ever remove what is applied for it now. A write
            # that changes nothing costs nothing, and fails if the hub has another state.
            work = await self._works.patch(work, {})
        now, before = asyncio.get_running_loop().time(), self._standing.get(name)
        try:
            standing = await self._brought(work, before, now)
        except RecordEnding as wait:
            # A work may be back before the end of its predecessor; that end leads to another turn.
            _log.info("%s waits: %s", name, wait)
            return self._settings.status_sync_seconds
        self._standing[name] = standing
        told = before is not None and standing.handled == before.handled and standing.is_told(work, now)
        if told or standing.is_silent:
            return self._next_look(standing)
        return await self._tell(work, standing, now)

    async def _brought(self, work: ManifestWork, before: Standing | None, now: float) -> Standing:
        """Do for a work what is to be done now, and return where it stands after that."""
        if before is None or before.asked != asked_of(work) or now >= before.due:
            return await self._complete(work) if _is_complete(work) else await self._try(work, before)
        seen = before.seeing([await self._look(each) for each in before.handled])
        changed = seen.repairs(now)
        return await self._try(work, seen, changed) if changed else seen

    async def _tell(self, work: ManifestWork, standing: Standing, now: float) -> float:
        """Report where a work stands, if that is news; return after how many seconds to look again."""
        name, outcomes, time = work.metadata.name, [each.outcome for each in standing.handled], self._clock.now()
        status = report(work, outcomes, time, raw_limit=self._settings.max_json_raw_bytes)
        again = look_again(status, outcomes, time)
        standing = replace(standing, stale=now + again.total_seconds() if again is not None else math.inf)
        if status != work.status:
            left = standing.told + WORDS_SECONDS - now
            if left > 0 and differ_in_words(status, work.status):
                self._standing[name] = replace(standing, reported=None)
                return min(left, self._next_look(standing))
            work = await self._works.patch(work, {"status": msgspec.to_builtins(status)}, "status")
            standing = replace(standing, told=now)
        self._standing[name] = standing = replace(standing, reported=work.status)
        return self._next_look(standing)

    async def _try(self, work: ManifestWork, before: Standing | None, only: Collection[int] | None = None) -> Standing:
        """Apply a work, or some of its manifests. What the cluster does not take is an outcome like any other."""
        try:
            return await self._apply(work, before, only)
        except Conflict:
            raise
        except ApiError as error:
            if not is_passing(error) and not isinstance(error, _REFUSED):
                raise
            _log.warning("%s cannot be applied: %s", work.metadata.name, error)
            handled = self._passes.unapplied(work, known_to(before, work), error)
            return self._standing_after(work, before, handled, None, waiting=True)

    async def _apply(self, work: ManifestWork, before: Standing | None, only: Collection[int] | None) -> Standing:
        name = work.metadata.name
        record = await self._records.ensure(work, settled=name in self._settled)
        self._settled.discard(name)
        handled = await self._passes.apply(work, record, known_to(before, work), only)
        self._watch(name, handled)
        left = await self._list(work, record, handled)
        if not left and all(each.again is None for each in handled):  # what failed may have happened all the same
            self._settled.add(name)
        return self._standing_after(work, before, handled, only, waiting=left)

    async def _list(self, work: ManifestWork, record: AppliedManifestWork, handled: Sequence[Handled]) -> bool:
        """Remove what is no longer wanted, and list what there is; tell whether something is still in the way."""
        fresh = {place_of(each.resource): each.resource for each in handled if each.resource is not None}
        metas = [each.outcome.meta for each in handled]
        listed = record.status.applied_resources
        kept, left = leftovers(recorded(listed), metas)
        trouble = False
        try:
            listed = await self._passes.strays(record, work.spec.workload.manifests) + listed
            kept, left = leftovers(recorded(listed), metas)
            # The first pass of a work removes nothing: the hub may have been replaced, and its works come one by one.
            if find_condition(work.status.conditions, "Applied") is not None:
                left = await self._records.remove(record, left)
        except Conflict:
            raise
        except ApiError as error:
            # What became of the manifests is to be told all the same.
            _log.warning("not all that %s no longer has can be removed: %s", work.metadata.name, error)
            trouble = True
        resources: list[AppliedResource] = [
            *left,
            *(each for each in kept if place_of(each) not in fresh),
            *fresh.values(),
        ]
        await self._records.list_resources(record, resources)
        return bool(left) or trouble

    def _standing_after(
        self,
        work: ManifestWork,
        before: Standing | None,
        handled: Sequence[Handled],
        only: Collection[int] | None,
        *,
        waiting: bool,
    ) -> Standing:
        asked = asked_of(work)
        same = before if before is not None and before.asked == asked else None
        tries = same.tries + 1 if same is not None else 1
        chosen = [handled[number] for number in only] if only is not None else handled
        again = [each.again for each in chosen if each.again is not None]
        due, settled = self._due(again, tries, waiting=waiting)
        if only is not None and same is not None:
            due = min(due, same.due)  # all the others wait for their time
        left = (0 if only is None or same is None else same.tries) if settled else tries
        told = before.told if before is not None else -math.inf
        return Standing(asked, tuple([patient(each, tries) for each in handled]), due, left, told)

    async def _complete(self, work: ManifestWork) -> Standing:
        """A work that is complete is never applied again, and still looked at."""
        handled = await self._passes.look(work)
        self._watch(work.metadata.name, handled)
        due, _ = self._due([], 0, waiting=False)
        return Standing(asked_of(work), tuple(handled), due)

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
        seen: Sight = self._sights.look(handled.spot, known) or await self._passes.see(handled.spot, before.seen)
        if isinstance(seen, Found) and known is not None and identity_of(seen.object) == identity_of(known):
            return handled
        return handled.seeing(seen)

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

    def _next_look(self, standing: Standing) -> float:
        first = min(standing.due, standing.stale, standing.repair_due)
        left = max(first - asyncio.get_running_loop().time(), 0.001)
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
                last_transition_time=format_time(self._clock.now()),
                reason="WorkDeleting",
                message="ManifestWork is being deleted",
            )
            conditions = conditions_to_wire(set_condition(work.status.conditions, deleting))
            work = await self._works.patch(work, {"status": {"conditions": conditions}}, "status")
            self._ending.add(work.metadata.uid)
        if await self._records.end(work):
            kept = [name for name in work.metadata.finalizers if name != FINALIZER]
            await self._works.patch(work, {"metadata": {"finalizers": kept or None}})
            self._ending.discard(work.metadata.uid)
            self._forget(work.metadata.name)

    def _forget(self, name: str) -> None:
        self._watch(name, ())
        self._standing.pop(name, None)
        self._settled.discard(name)
        self._works.forget(name)


def concerns_agent(delta: Delta[ManifestWork]) -> bool:
    """Whether a change of a work is more than an agent's own report."""
    old, new = delta.old, delta.new
    if old is None or new is None:
        return True
    return asked_of(old) != asked_of(new) or (
        (old.metadata.deletion_timestamp, old.metadata.finalizers)
        != (new.metadata.deletion_timestamp, new.metadata.finalizers)
    )


def _is_complete(work: ManifestWork) -> bool:
    said = find_condition(work.status.conditions, "Complete")
    return said is not None and said.status == "True"
