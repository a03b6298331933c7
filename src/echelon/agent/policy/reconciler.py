"""Keeps what a cluster has of a policy as the hub says, and tells the hub what comes of it.

One policy at a time goes all the way: from the replica to its copy, from the copy to the objects of its templates, and
from what those say back to the copy and the replica. Each step begins with what is there, so it does not matter where
the last one ended. Whatever stands in the way of one is no reason not to tell how far the others are.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from echelon.agent.context import AgentContext
from echelon.agent.manifest_result import is_namespace_terminating, is_transient
from echelon.agent.policy.child_kinds import BY_POLICY
from echelon.agent.policy.copies import Copies
from echelon.agent.policy.replicas import Replicas
from echelon.agent.policy.template_objects import TemplateObjects, TemplateProgress
from echelon.api.base import JSONObject
from echelon.api.core import EVENT, Event
from echelon.api.keys import Key
from echelon.api.policy import POLICY
from echelon.api.times import format_time
from echelon.engine.plan import Emit, Reference
from echelon.engine.policy_member.documents import Child, PolicyDocument, is_replica
from echelon.engine.policy_member.reports import MOST_ENTRIES, Report, event_of, later, news_of
from echelon.engine.policy_member.status import (
    copy_status,
    kept_of,
    policy_report,
    replica_status,
    says_nothing,
    status_difference,
)
from echelon.engine.policy_member.sync import TemplateState
from echelon.engine.policy_member.verdict import judge, judge_template
from echelon.engine.work.updating import LastApplied
from echelon.kube.client import WriteOptions
from echelon.kube.errors import AlreadyExists, ApiError, Conflict
from echelon.kube.informer import Informer

# How soon to look again where something is known to come, and nobody says when.
SOON_SECONDS = 1.0
_EVENT_TRIES = 3

_log = logging.getLogger(__name__)


class PolicyReconciler:
    """Syncs the policies of one cluster."""

    def __init__(
        self,
        context: AgentContext,
        *,
        replicas: Replicas,
        copies: Copies,
        objects: TemplateObjects,
        events: Informer[Event],
        changed_something: Callable[[Child], bool],
        manager: str,
    ) -> None:
        self._member = context.member
        self._recorder = context.recorder
        self._clock = context.clock
        self._random = context.random
        self._resync_seconds = context.settings.resync_seconds
        self._replicas = replicas
        self._copies = copies
        self._objects = objects
        self._events = events
        self._changed_something = changed_something
        self._manager = manager
        self._own_events: dict[str, list[Event]] = {}  # those that the cache does not show yet, by policy
        self._kept: dict[tuple[str, str], LastApplied] = {}  # what became of statuses, by side and policy

    async def reconcile(self, name: str) -> float | None:
        """Reconcile a policy; return after how many seconds to do so again although nothing has changed."""
        if self._replicas.is_unreadable(name):
            return None
        replica, copy = self._replicas.newest(name), self._copies.newest(name)
        if replica is None:
            return await self._remove(name, copy)
        if not is_replica(replica):
            return None  # somebody's own policy, in the wrong place
        if copy is not None and copy.metadata.deletion_timestamp:
            return None  # its end is heard of, and then it is made anew
        if self._copies.differs(replica, copy):
            await self._replicas.confirm(replica)
            copy = await self._copy(replica, copy)
        if copy is None:
            return SOON_SECONDS
        outcome = await self._objects.sync(copy, self._events_of(copy))
        states = await self._tell_news(copy, outcome)
        await self._report(name, copy, states)
        if outcome.error is not None:
            raise outcome.error
        if any(not each.synced and not each.message for each in states):
            return SOON_SECONDS * 10
        return self._resync_seconds * self._random.uniform(1.0, 1.5) if outcome.refused else None

    async def _copy(self, replica: PolicyDocument, copy: PolicyDocument | None) -> PolicyDocument | None:
        try:
            return await self._copies.equalise(replica, copy)
        except ApiError as error:
            passing = isinstance(error, Conflict | AlreadyExists) or is_namespace_terminating(error)
            if not passing and not is_transient(error):
                about = Reference(POLICY, replica.metadata.name, replica.metadata.namespace, replica.metadata.uid)
                note = f"The cluster does not take the policy: {error.message}"
                await self._recorder.emit(Emit(about, "PolicySpecSync", "PolicySpecSync", note, "Warning"))
            raise

    async def _remove(self, name: str, copy: PolicyDocument | None) -> float | None:
        """Remove what a cluster has of a policy that the hub does not have any more: the objects, then the copy."""
        if copy is None or not is_replica(copy):
            self._forget(name)
            return None
        if not await self._replicas.is_gone(name):
            return SOON_SECONDS  # the cache is behind
        if not await self._objects.remove(copy):
            return SOON_SECONDS * 10  # their end is heard of, unless they are of a kind that ends with them
        await self._copies.delete(copy)
        self._forget(name)
        return None

    def _forget(self, name: str) -> None:
        self._replicas.forget(name)
        self._copies.forget(name)
        self._objects.forget(name)
        self._own_events.pop(name, None)
        for side in ("hub", "member"):
            self._kept.pop((side, name), None)

    def _events_of(self, copy: PolicyDocument) -> list[Event]:
        """Return the events about a policy, those included that were just written."""
        name = copy.metadata.name
        own = [each for each in self._own_events.pop(name, ()) if not self._shows(each)]
        if own:
            self._own_events[name] = own
        return [*self._events.by_index(BY_POLICY, copy.metadata.uid), *own]

    def _shows(self, event: Event) -> bool:
        meta = event.metadata
        return self._events.shows(Key(meta.namespace, meta.name), meta.resource_version)

    async def _tell_news(self, copy: PolicyDocument, outcome: TemplateProgress) -> list[TemplateState]:
        """Report the trouble of templates by events; return their states with that."""
        states: list[TemplateState] = []
        now = self._clock.now()
        for number, state in enumerate(outcome.sync.states):
            news = news_of(copy, state.message, state.history, now, number)
            if news is None:
                states.append(state)
                continue
            try:
                news = await self._tell(copy, state.name, news)
            except ApiError as error:  # the status tells it all the same
                outcome.error = outcome.error or error
            states.append(replace(state, history=(news, *state.history)[:MOST_ENTRIES]))
        return states

    async def _tell(self, copy: PolicyDocument, template: str, news: Report) -> Report:
        options = WriteOptions(field_manager=self._manager)
        for _ in range(_EVENT_TRIES):
            body = event_of(copy, template, news, self._manager)
            try:
                made = await self._member.create(EVENT, body, copy.metadata.namespace, options=options)
            except AlreadyExists:
                news = later(copy, news)  # somebody else reported at the same moment
            else:
                self._own_events.setdefault(copy.metadata.name, []).append(made)
                break
        return news

    async def _report(self, name: str, copy: PolicyDocument, states: Sequence[TemplateState]) -> None:
        """Write what there is to say: on the copy, and then on the replica if it is still about that."""
        replica = self._replicas.newest(name)
        if replica is None:
            return
        judged = [judge_template(each, changed=self._is_changing(each)) for each in states]
        report, now = policy_report(copy, states, judged), format_time(self._clock.now())
        verdict = judge(replica, judged, now, in_step=self._copies.is_in_step(replica, copy))
        if says_nothing(report, verdict) and not replica.status.details:
            return  # the first evaluation follows at once, and with it the first report
        copy = await self._write_status("member", copy, copy_status(report, verdict)) or copy
        if self._copies.is_in_step(replica, copy):
            own = replica_status(report, verdict, judged=verdict.differs_from(replica))
            await self._write_status("hub", replica, own)

    def _is_changing(self, state: TemplateState) -> bool:
        return state.child is not None and self._changed_something(state.child)

    async def _write_status(self, side: str, policy: PolicyDocument, wanted: JSONObject) -> PolicyDocument | None:
        """Write a status if that says something new to the server."""
        about = side, policy.metadata.name
        body = status_difference(policy.status, wanted, self._kept.get(about))
        if not body:
            return None
        write = self._copies.patch_status if side == "member" else self._replicas.patch_status
        after = await write(policy, body)
        if (kept := kept_of(after.status, wanted)) is not None:
            self._kept[about] = kept
        else:
            self._kept.pop(about, None)
        return after
