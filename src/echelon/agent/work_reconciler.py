"""Keeps the cluster as the works on the hub say, and tells the hub how that goes.

A work is applied when it is new, changed, asked to be tried again, or has not been looked at for some minutes. In
between, an object that somebody changes is put back, if that is not what somebody does all the time, and whatever else
changes only leads to a report. A report is written only if it says something new, so a fleet at rest writes nothing.
"""

import asyncio
import logging
import math
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from echelon.agent.causes import Causes
from echelon.agent.context import AgentContext
from echelon.agent.manifest_applier import ManifestApplier
from echelon.agent.manifest_result import ManifestResult, is_transient
from echelon.agent.metrics import AgentMetrics
from echelon.agent.newest_objects import NewestObjects
from echelon.agent.records import RecordBeingDeleted, Records
from echelon.agent.settings import FINALIZER, HUB_MANAGER
from echelon.agent.watch_users import WatchUsers
from echelon.agent.work_state import (
    WorkState,
    differ_in_messages,
    previous_results,
    request_of,
    without_transient_failure,
)
from echelon.api.base import JSONObject
from echelon.api.work import MANIFEST_WORK, AppliedManifestWork, AppliedResource, ManifestWork, ManifestWorkStatus
from echelon.engine.conditions import condition_stamp, conditions_to_wire, find_condition, set_condition
from echelon.engine.work.limits import Unrecordable, check_record, fitted, whole_report
from echelon.engine.work.removal import ResourceKey, merged_resources, resource_key_of, split_by_wanted
from echelon.engine.work.reporting import LiveState, Present, look_again, report
from echelon.kube.cache import identity_of
from echelon.kube.client import WriteOptions
from echelon.kube.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, TooLarge
from echelon.kube.informer import Informer

FIRST_PAUSE_SECONDS = 0.1
LAST_PAUSE_SECONDS = 60.0
# How often news that only reword what the hub knows are worth a write: "2 of 5 available", "3 of 5 available", ...
MESSAGES_SECONDS = 3.0
# What a cluster says for good when it is asked to keep a record; anything else may be over at the next try.
_PERMANENT = (BadRequest, Forbidden, Invalid, TooLarge)

_log = logging.getLogger(__name__)


class WorkReconciler:
    """Applies the works of one cluster and reports on them."""

    def __init__(
        self,
        context: AgentContext,
        informer: Informer[ManifestWork],
        records: Records,
        applier: ManifestApplier,
        causes: Causes,
    ) -> None:
        self._works = NewestObjects(context.hub, informer, WriteOptions(field_manager=HUB_MANAGER))
        self._records = records
        self._applier = applier
        self._causes = causes
        self._watches = context.object_watches
        self._clock = context.clock
        self._random = context.random
        self._settings = context.settings
        self._states: dict[str, WorkState] = {}
        self._metrics = AgentMetrics.of(context.metrics)
        self._metrics.show_works(context.cluster, lambda: [each.is_applied for each in self._states.values()])
        self._users = WatchUsers(context.object_watches, MANIFEST_WORK.kind)
        self._fully_recorded: set[str] = set()  # whose records list everything that was ever applied for them
        self._finalizing: dict[str, str] = {}  # uids of works whose deletion the hub has confirmed, by name

    def users(self, key: ResourceKey) -> Iterable[str]:
        """Return the works that have an object there."""
        return self._users.of(key)

    def apply_again(self, name: str) -> None:
        """Apply a work at its next reconcile, whatever it looks like."""
        state = self._states.get(name)
        if state is not None:
            self._states[name] = replace(state, apply_at=0.0)

    async def reconcile(self, name: str) -> float | None:
        """Reconcile a work; return after how many seconds to do so again."""
        work = self._works.newest(name)
        if work is None:
            self._forget(name)
            return None
        if work.metadata.deletion_timestamp:
            await self._finalize(work)
            return None
        if FINALIZER not in work.metadata.finalizers:
            work = await self._works.patch(work, {"metadata": {"finalizers": [*work.metadata.finalizers, FINALIZER]}})
        elif self._records.get(self._records.name_of(name)) is None:
            # A cache may show a work that has ended, and nobody would ever remove what is applied for it now. A write
            # that changes nothing costs nothing, and fails if the hub has another state.
            work = await self._works.patch(work, {})
        now, before = asyncio.get_running_loop().time(), self._states.get(name)
        try:
            state = await self._advance(work, before, now)
        except RecordBeingDeleted as wait:
            # A work may be back before the end of its predecessor; that end leads to another reconcile.
            _log.info("%s waits: %s", name, wait)
            return self._settings.status_sync_seconds
        self._states[name] = state
        reported = before is not None and state.results == before.results and state.is_reported(work, now)
        if reported or state.is_inconclusive:
            return self._seconds_to_next_look(state)
        return await self._report(work, state, now)

    async def _advance(self, work: ManifestWork, before: WorkState | None, now: float) -> WorkState:
        """Do for a work what is to be done now, and return its state after that."""
        if before is None or before.request != request_of(work) or now >= before.apply_at:
            return (
                await self._observe_complete(work) if _is_complete(work) else await self._apply_or_explain(work, before)
            )
        state = before.with_results([await self._observe(each) for each in before.results])
        changed = state.due_repairs(now)
        self._metrics.drift.inc(len(changed))
        return await self._apply_or_explain(work, state, changed) if changed else state

    async def _report(self, work: ManifestWork, state: WorkState, now: float) -> float:
        """Report the state of a work, if that is news; return after how many seconds to look again."""
        name, time = work.metadata.name, self._clock.now()
        # What a shorter report left out is known here, and must not begin anew at every look.
        known = replace(work, status=whole_report(work.status, state.told))
        whole = self._whole_report(known, state, time)
        if await self._causes.look(known, whole, state.results, now):
            whole = self._whole_report(known, state, time)
        after = look_again(whole, [each.observed for each in state.results], time)
        status = fitted(work, whole, condition_stamp(work.metadata.generation, time))
        outdated_at = now + after.total_seconds() if after is not None else math.inf
        state = replace(state, outdated_at=min(outdated_at, self._causes.next_look(name)), told=whole)
        if status != work.status:
            left = state.reported_at + MESSAGES_SECONDS - now
            if left > 0 and differ_in_messages(status, work.status):
                self._states[name] = replace(state, reported=None)
                return min(left, self._seconds_to_next_look(state))
            work = await self._works.patch(work, {"status": msgspec.to_builtins(status)}, "status")
            state = replace(state, reported_at=now)
        self._states[name] = state = replace(state, reported=work.status)
        return self._seconds_to_next_look(state)

    def _whole_report(self, work: ManifestWork, state: WorkState, time: datetime) -> ManifestWorkStatus:
        limit, secrets = self._settings.max_json_raw_bytes, self._settings.secret_values
        observed = self._causes.told(work.metadata.name, state.results)
        return report(work, observed, time, raw_limit=limit, secret_values=secrets)

    async def _apply_or_explain(
        self, work: ManifestWork, before: WorkState | None, only: Collection[int] | None = None
    ) -> WorkState:
        """Apply a work, or some of its manifests. What the cluster does not take is an outcome like any other."""
        try:
            return await self._apply(work, before, only)
        except Conflict:
            raise
        except Unrecordable as error:
            results = self._applier.not_tried(work, previous_results(before, work), error)
            return self._next_state(work, before, results, None, waiting=False)
        except ApiError as error:
            if not is_transient(error) and not isinstance(error, _PERMANENT):
                raise
            _log.warning("%s cannot be applied: %s", work.metadata.name, error)
            results = self._applier.not_tried(work, previous_results(before, work), error)
            return self._next_state(work, before, results, None, waiting=True)

    async def _apply(self, work: ManifestWork, before: WorkState | None, only: Collection[int] | None) -> WorkState:
        name = work.metadata.name
        check_record(self._records.name_of(name), work.spec.workload.manifests)
        record = await self._records.ensure(work, settled=name in self._fully_recorded)
        self._fully_recorded.discard(name)
        told = before.told if before is not None else None
        known = replace(work, status=whole_report(work.status, told))
        results = await self._applier.apply(known, record, previous_results(before, work), only)
        tried = results if only is None else [results[number] for number in only]
        self._metrics.applied(each.is_applied for each in tried)
        self._watch(name, results)
        left = await self._clean_up(work, record, results)
        if not left and all(each.retry_after is None for each in results):  # what failed may have happened all the same
            self._fully_recorded.add(name)
        return self._next_state(work, before, results, only, waiting=left)

    async def _clean_up(
        self, work: ManifestWork, record: AppliedManifestWork, results: Sequence[ManifestResult]
    ) -> bool:
        """Remove what is no longer wanted, and list what there is; tell whether something is still in the way."""
        fresh = {resource_key_of(each.resource): each.resource for each in results if each.resource is not None}
        metas = [each.observed.meta for each in results]
        listed = record.status.applied_resources
        foreign = {resource_key_of(each.observed.meta) for each in results if each.observed.adopted}
        kept, left = split_by_wanted(merged_resources(listed), metas)
        failed = False
        try:
            listed = await self._applier.intended_leftovers(record, work.spec.workload.manifests) + listed
            kept, left = split_by_wanted(merged_resources(listed), metas)
            # The first pass of a work removes nothing: the hub may have been replaced, and its works come one by one.
            if find_condition(work.status.conditions, "Applied") is not None:
                left = await self._records.remove(record, left)
        except Conflict:
            raise
        except ApiError as error:
            # What became of the manifests is to be told all the same.
            _log.warning("not all that %s no longer has can be removed: %s", work.metadata.name, error)
            failed = True
        resources: list[AppliedResource] = [
            *left,
            *(each for each in kept if resource_key_of(each) not in fresh.keys() | foreign),
            *fresh.values(),
        ]
        await self._records.list_resources(record, resources)
        return bool(left) or failed

    def _next_state(
        self,
        work: ManifestWork,
        before: WorkState | None,
        results: Sequence[ManifestResult],
        only: Collection[int] | None,
        *,
        waiting: bool,
    ) -> WorkState:
        request = request_of(work)
        same = before if before is not None and before.request == request else None
        tries = same.tries + 1 if same is not None else 1
        chosen = [results[number] for number in only] if only is not None else results
        retry_after = [each.retry_after for each in chosen if each.retry_after is not None]
        apply_at, settled = self._next_apply(retry_after, tries, waiting=waiting)
        if only is not None and same is not None:
            apply_at = min(apply_at, same.apply_at)  # all the others wait for their time
        left = (0 if only is None or same is None else same.tries) if settled else tries
        reported_at = before.reported_at if before is not None else -math.inf
        return WorkState(
            request,
            tuple([without_transient_failure(each, tries) for each in results]),
            apply_at,
            left,
            reported_at,
            told=before.told if before is not None else None,
        )

    async def _observe_complete(self, work: ManifestWork) -> WorkState:
        """A work that is complete is never applied again, and still looked at."""
        results = await self._applier.observe(work)
        self._watch(work.metadata.name, results)
        apply_at, _ = self._next_apply([], 0, waiting=False)
        return WorkState(request_of(work), tuple(results), apply_at)

    def _next_apply(self, retry_after: list[float], tries: int, *, waiting: bool) -> tuple[float, bool]:
        """Return when to apply again, and whether everything that can be done by trying has been done."""
        now = asyncio.get_running_loop().time()
        after = self._settings.resync_seconds * self._random.uniform(1.0, 1.5)
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(tries - 1, 16), LAST_PAUSE_SECONDS)
        pause *= self._random.uniform(0.5, 1.0)
        trying = waiting or any(each == 0 for each in retry_after)
        return now + min(
            [after, *(max(each, pause) for each in retry_after), *([pause] if waiting else [])]
        ), not trying

    async def _observe(self, result: ManifestResult) -> ManifestResult:
        """Return a result with what has become of its object: from the cache if it is watched, else by asking."""
        if result.ref is None:
            return result
        before = result.observed
        known = before.live.object if isinstance(before.live, Present) else None
        live: LiveState = self._watches.cached(result.ref, known) or await self._applier.read(result.ref, before.live)
        if isinstance(live, Present) and known is not None and _is_same_state(live.object, known):
            return result
        return result.with_live(live)

    def _watch(self, name: str, results: Iterable[ManifestResult]) -> None:
        self._users.watch(name, (each.ref for each in results if each.ref is not None))

    def _seconds_to_next_look(self, state: WorkState) -> float:
        first = min(state.apply_at, state.outdated_at, state.repair_due)
        left = max(first - asyncio.get_running_loop().time(), 0.001)
        if all(each.ref is None or self._watches.is_watched(each.ref) for each in state.results):
            return left
        return min(left, self._settings.status_sync_seconds * self._random.uniform(1.0, 1.9))

    async def _finalize(self, work: ManifestWork) -> None:
        """Remove what was applied for a work, and then let it go."""
        if FINALIZER not in work.metadata.finalizers:
            self._forget(work.metadata.name)
            return
        name = work.metadata.name
        if self._finalizing.get(name) != work.metadata.uid:
            # Also if it was said before: only a write makes sure that this is not the past of a work that is back.
            stamp = condition_stamp(work.metadata.generation, self._clock.now())
            deleting = stamp.condition("Deleting", "True", "WorkDeleting", "ManifestWork is being deleted")
            conditions = conditions_to_wire(set_condition(work.status.conditions, deleting))
            work = await self._works.patch(work, {"status": {"conditions": conditions}}, "status")
            self._finalizing[name] = work.metadata.uid
        if await self._records.request_deletion(work):
            kept = [each for each in work.metadata.finalizers if each != FINALIZER]
            await self._works.patch(work, {"metadata": {"finalizers": kept or None}})
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._watch(name, ())
        self._states.pop(name, None)
        self._causes.forget(name)
        self._fully_recorded.discard(name)
        self._finalizing.pop(name, None)
        self._works.forget(name)


def _is_complete(work: ManifestWork) -> bool:
    complete = find_condition(work.status.conditions, "Complete")
    return complete is not None and complete.status == "True"


def _is_same_state(one: JSONObject, other: JSONObject) -> bool:
    return one is other or identity_of(one) == identity_of(other)
