"""Keeps the cluster as the works of federated workloads say, and tells the hub what comes of it.

A work is looked at when it changes, when its object does, and when something changes below that. Each look brings the
push to the cluster if it is not there or somebody changed it, and reports what is news. A push that was refused for
certain is never tried again: the hub has given its budget away. Everything that must outlive the agent is on the object
and in the work, so a life that ends anywhere costs nothing but time.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from echelon.agent.context import AgentContext
from echelon.agent.discovery import UnknownKind
from echelon.agent.newest_objects import NewestObjects
from echelon.agent.object_watches import ObjectRef
from echelon.agent.settings import HUB_MANAGER
from echelon.agent.watch_users import WatchUsers
from echelon.agent.workload.children import Children
from echelon.agent.workload.pushes import Pushed, Pushes, unknown_kind
from echelon.agent.workload.telling import LiveObject, Telling
from echelon.api.base import JSONObject
from echelon.api.karmada import WORK, Work
from echelon.engine.work.drift import NO_REPAIR, Repair
from echelon.engine.work.removal import ResourceKey
from echelon.engine.work.reporting import Present
from echelon.engine.work.updating import LastApplied
from echelon.engine.workload.names import FINALIZER
from echelon.engine.workload.pushing import FAILED, BadWork, Push, read_push
from echelon.engine.workload.work_report import APPLIED, PushOutcome, refused_in
from echelon.kube.client import WriteOptions
from echelon.kube.errors import NotFound
from echelon.kube.informer import Informer

PACE_SECONDS = 0.25  # between two looks at one work that the hub did not ask for
COST_FACTOR = 10  # a look that was much work is followed by a pause so many times as long
FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 60.0
REMOVAL_SECONDS = 2.0
OTHERS_SECONDS = 1.0  # after which a status that somebody else wrote is looked at
DOUBT_SECONDS = 60.0  # for so long a write that nobody answered may still arrive


@dataclass(frozen=True)
class _State:
    """What is remembered of a work between two looks; all of it can be found out again."""

    uid: str
    ref: ObjectRef | None = None
    live: JSONObject | None = None  # the object as it was last read or written
    differs: bool = False  # it waits to be put back
    request: tuple[object, ...] = ()  # what was last brought
    last: LastApplied | None = None
    template: str | None = None  # hash of the pod template as the server has it
    highest: tuple[str, int] = ("", 0)  # a binding, and the highest of its pushes that was brought
    outcome: PushOutcome | None = None
    failures: int = 0
    try_at: float = -math.inf  # no attempt before
    look_at: float = -math.inf  # no look before that the hub did not ask for
    doubt: tuple[int | None, float] = (None, -math.inf)  # a push that may yet arrive, and until when
    repair: Repair = NO_REPAIR


class WorkloadReconciler:
    """Applies the works of federated workloads in one cluster and reports on them."""

    def __init__(
        self,
        context: AgentContext,
        informer: Informer[Work],
        wake: Callable[[str, float], None],
        inherited: Callable[[Work], bool],
    ) -> None:
        """`wake` asks for another look at a work after some seconds.

        `inherited` tells whether a former life may have sent a work as it is to the cluster a moment ago.
        """
        self._works = NewestObjects(context.hub, informer, WriteOptions(field_manager=HUB_MANAGER))
        self._watches = context.object_watches
        self._pushes = Pushes(context)
        self._children = Children(context, self._stir)
        self._telling = Telling(context, self._works, self._children)
        self._random = context.random
        self._wake = wake
        self._inherited = inherited
        self._states: dict[str, _State] = {}
        self._users = WatchUsers(context.object_watches, WORK.resource)
        self._claimed: dict[
            str, tuple[str, bool]
        ] = {}  # by name: which work the hub has confirmed, and if it is ending

    def object_changed(self, key: ResourceKey) -> None:
        """Hear that an object on the cluster has changed."""
        for name in self._users.of(key):
            self._stir(name)

    def reported(self, work: Work) -> None:
        """Hear that the status of a work has changed: by us, or by a former life whose last words come late."""
        if not self._telling.is_known(work):
            self._wake(work.metadata.name, OTHERS_SECONDS)

    async def close(self) -> None:
        """End all watches."""
        await self._children.close()

    async def reconcile(self, name: str) -> float | None:
        """Look at a work; return after how many seconds to do so again."""
        work = self._works.newest(name)
        if work is None:
            self._forget(name)
            return None
        try:
            work = await self._claim(work)
        except NotFound:
            self._forget(name)  # the cache shows the past, and will tell when it has caught up
            return None
        if work.metadata.deletion_timestamp:
            return await self._end(work)
        state = self._states.get(name)
        if state is None or state.uid != work.metadata.uid:
            doubt = (_any_push(work), _now() + DOUBT_SECONDS) if self._inherited(work) else (None, -math.inf)
            state = _State(work.metadata.uid, doubt=doubt)
        try:
            push = read_push(work.spec.workload.manifests)
        except BadWork as error:
            self._let_go(name)
            refusal = PushOutcome(FAILED, f"the work cannot be applied: {error}", error.push_id, applied=False)
            await self._telling.report(work, None, refusal)
            return None
        state, again = await self._bring(work, push, state)
        self._states[name] = state
        if again == 0:
            return PACE_SECONDS  # it was just written, and what its controller makes of that is worth a moment
        there = None if state.ref is None else LiveObject(state.ref, state.live, state.template)
        told = await self._telling.tell(work, push, there, self._news(state))
        self._states[name] = replace(state, look_at=_now() + max(PACE_SECONDS, COST_FACTOR * told.cost))
        earliest = min(told.again, math.inf if again is None else again)
        return None if earliest == math.inf else earliest

    def _news(self, state: _State) -> PushOutcome | None:
        """Return what is to be said of the last attempt; nothing while the present push waits for its turn."""
        return None if _now() < state.try_at and not state.request else state.outcome

    async def _claim(self, work: Work) -> Work:
        """Make sure that a work is there as it was seen, and that it waits for us at its end.

        A cache may show a work that has ended, or the end of one that is back. Nobody would ever remove what is brought
        for the former, and what the latter needs would be removed. A write that changes nothing costs nothing, and
        fails if the hub has another state.
        """
        meta = work.metadata
        ending = bool(meta.deletion_timestamp)
        if not ending and FINALIZER not in meta.finalizers:
            work = await self._works.patch(work, {"metadata": {"finalizers": [*meta.finalizers, FINALIZER]}})
        elif self._claimed.get(meta.name) != (meta.uid, ending):
            work = await self._works.patch(work, {})
        self._claimed[meta.name] = (meta.uid, ending)
        return work

    async def _bring(self, work: Work, push: Push, state: _State) -> tuple[_State, float | None]:
        """Bring a push to the cluster if that is to be done now.

        Return after how many seconds to try again, zero if something was written.
        """
        name, now = work.metadata.name, _now()
        request = (work.metadata.generation, push.binding, push.id)
        try:
            ref = await self._pushes.locate(push)
        except UnknownKind as error:
            self._watch(name, None)
            state = replace(
                state, ref=None, live=None, differs=False, last=None, template=None, request=request, repair=NO_REPAIR
            )
            return self._after(name, push, state, unknown_kind(push, error))
        if ref != state.ref:
            state = replace(state, ref=ref, live=None, last=None, template=None, request=())
            self._watch(name, ref)
        live = await self._look(ref, state)
        if work.spec.suspend_dispatching:
            return replace(state, live=live, outcome=None), None
        if push.id is not None and push.id in (refused_in(work), state.outcome and state.outcome.refused):
            return replace(state, live=live, outcome=_refusal(work, push, state)), None
        known = state.request == request
        if now < state.try_at:
            return replace(state, live=live, request=request if known else ()), state.try_at - now
        if known and live is state.live and state.last is not None and not state.differs:
            return state, None  # nothing has happened
        at_least = state.highest[1] if state.highest[0] == push.binding else 0
        last, patient = (state.last, now < state.repair.due) if known else (None, False)
        pushed = await self._pushes.apply(push, ref, live, last=last, at_least=at_least, patient=patient)
        if pushed.differs:
            return replace(state, live=live, differs=True), state.repair.due - now
        repair = state.repair if known else NO_REPAIR
        if known and pushed.written:
            repair = repair.tried(now, changed=True)
        return self._after(name, push, replace(state, request=request, repair=repair), pushed)

    def _after(self, name: str, push: Push, state: _State, pushed: Pushed) -> tuple[_State, float | None]:
        """Return what is known after an attempt, and after how many seconds to try again; zero if it was written."""
        state = replace(state, outcome=pushed.outcome, live=pushed.live, last=pushed.last, differs=False)
        if pushed.outcome.applied:
            if pushed.live is not None and push.interpreter is not None and push.id is not None:
                template = self._children.template(name, pushed.live, push.interpreter)
                state = replace(state, template=template, highest=(push.binding, push.id))
            return replace(state, failures=0, try_at=-math.inf), 0.0 if pushed.written else None
        if pushed.outcome.refused is None and not pushed.uncertain:
            return state, None  # it is fenced off, or waits for somebody: a change leads to another look
        uncertain, now = pushed.uncertain, _now()
        if uncertain:
            state = replace(state, doubt=(push.id, now + DOUBT_SECONDS))
        elif state.doubt[0] == push.id and now < state.doubt[1]:
            # An earlier attempt may have got through after all, so nobody may count on its refusal yet.
            state, uncertain = replace(state, outcome=replace(pushed.outcome, refused=None)), True
        # What was refused is not tried again. But the hub may send the next push at once, to the same fate.
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(state.failures, 16), LAST_PAUSE_SECONDS)
        pause *= self._random.uniform(0.5, 1.0)
        state = replace(state, failures=state.failures + 1, try_at=now + pause)
        return state, pause if uncertain else None

    async def _look(self, ref: ObjectRef, state: _State) -> JSONObject | None:
        """Return the object as it is now: from the cache if it is watched, else by asking."""
        cached = self._watches.cached(ref, state.live)
        if cached is None:
            return await self._pushes.read(ref)
        return cached.object if isinstance(cached, Present) else None

    async def _end(self, work: Work) -> float | None:
        """Remove what was brought for a work, and then let it go."""
        name, meta = work.metadata.name, work.metadata
        if FINALIZER in meta.finalizers:
            if not await self._is_removed(work):
                return REMOVAL_SECONDS
            kept = [each for each in meta.finalizers if each != FINALIZER]
            await self._works.patch(work, {"metadata": {"finalizers": kept or None}})
        self._forget(name)
        return None

    async def _is_removed(self, work: Work) -> bool:
        try:
            push = read_push(work.spec.workload.manifests)
            ref = await self._pushes.locate(push)
        except (BadWork, UnknownKind):
            return True  # nothing was brought, or it went with its kind
        self._watch(work.metadata.name, ref)
        return await self._pushes.remove(push, ref, keep=bool(work.spec.preserve_resources_on_deletion))

    def _watch(self, name: str, ref: ObjectRef | None) -> None:
        self._users.watch(name, () if ref is None else (ref,))

    def _stir(self, name: str) -> None:
        """Look at a work soon, and not too often."""
        state = self._states.get(name)
        self._wake(name, max(0.0, state.look_at - _now()) if state is not None else 0.0)

    def _let_go(self, name: str) -> None:
        self._watch(name, None)
        self._children.forget(name)
        self._states.pop(name, None)

    def _forget(self, name: str) -> None:
        self._let_go(name)
        self._telling.forget(name)
        self._claimed.pop(name, None)
        self._works.forget(name)


def _refusal(work: Work, push: Push, state: _State) -> PushOutcome:
    """Go on saying why a push was refused, also if that was in another life."""
    if state.outcome is not None and state.outcome.refused == push.id:
        return state.outcome
    said = next((each.message for each in work.status.conditions if each.type == APPLIED), "")
    return PushOutcome(FAILED, said, push.id, applied=False)


def _any_push(work: Work) -> int | None:
    """Return the push that a work carries, if it can be read."""
    try:
        return read_push(work.spec.workload.manifests).id
    except BadWork:
        return None


def _now() -> float:
    return asyncio.get_running_loop().time()
