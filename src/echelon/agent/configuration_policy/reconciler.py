"""Evaluates one policy at a time: decides when, carries the evaluation out, and tells what came of it.

What is told goes out in an order that survives a crash at any point: first the events, then the status that says the
same. If an event cannot be written, neither is the status, and the evaluation is repeated. A policy that was changed
while it was evaluated changes nothing more on the cluster, and one that was replaced is told nothing.
"""

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from echelon.agent.configuration_policy.answers import Answers, facts_of
from echelon.agent.configuration_policy.watched_objects import ALL_NAMESPACES, WatchedObjects
from echelon.agent.context import AgentContext
from echelon.agent.newest_objects import NewestObjects
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY, ConfigurationPolicy, ConfigurationPolicyStatus
from echelon.api.core import EVENT
from echelon.engine.configuration_policy.ending import end
from echelon.engine.configuration_policy.evaluate import evaluate
from echelon.engine.configuration_policy.names import FINALIZER, LEDGER_ANNOTATION
from echelon.engine.configuration_policy.namespaces import BadNamespaceSelector, select_namespaces
from echelon.engine.configuration_policy.requests import List, Remember
from echelon.engine.configuration_policy.results import Evaluation
from echelon.engine.configuration_policy.schedule import Circumstances, next_evaluation, watches_objects
from echelon.engine.configuration_policy.status import Conclusion, Report, conclude, terminating, timeless
from echelon.engine.policy.compliance_events import compliance_event, parent_of
from echelon.engine.policy.names import HELD_ANNOTATION
from echelon.engine.rollout.annotations import RETRIED_ANNOTATION
from echelon.engine.work.removal import ResourceKey
from echelon.kube.client import WriteOptions
from echelon.kube.errors import AlreadyExists, Conflict
from echelon.kube.informer import Informer

MANAGER = "configuration-policy-agent"
FIRST_RETRY_SECONDS = 5.0
LAST_RETRY_SECONDS = 60.0
OVERTAKEN_SECONDS = 1.0  # the cache may need a moment to show what the server knows
STATUS_ATTEMPTS = 4
EVENT_ATTEMPTS = 10

_log = logging.getLogger(__name__)


class Overtaken(Exception):
    """The policy is another one than was evaluated."""


@dataclass
class _PolicyState:
    """What is known of a policy beside itself. It is made anew with every agent, which therefore looks once."""

    uid: str
    seen: Circumstances
    namespaces: tuple[str, ...] | None = None  # that were selected; None: nobody needs any
    namespaces_heard: bool = False  # whether something was heard of namespaces since they were selected
    # What the last evaluation looked at was not watched yet. A first list says nothing of what went before it.
    looked_early: bool = False
    failures: int = 0
    # The latest status as it was sent, and as the server had it after that: it may keep less than it is sent.
    sent: ConfigurationPolicyStatus | None = None
    kept: ConfigurationPolicyStatus | None = None


class ConfigurationPolicyReconciler:
    """Evaluates the policies of one cluster."""

    def __init__(self, context: AgentContext, informer: Informer[ConfigurationPolicy]) -> None:
        self._context = context
        self._policies = NewestObjects(context.member, informer, WriteOptions(field_manager=MANAGER))
        self._watched = WatchedObjects(context.object_watches)
        self._states: dict[str, _PolicyState] = {}

    def knows(self, policy: ConfigurationPolicy) -> bool:
        """Whether a state of a policy is no news for whoever made our last write of it."""
        return self._policies.knows(policy)

    def object_changed(self, key: ResourceKey) -> Iterable[str]:
        """Take in that an object changed; return the policies that are to be looked at."""
        found = self._watched.interested(key)
        for name in found:
            if (state := self._states.get(name)) is not None:
                state.seen = replace(state.seen, changed=True)
                state.namespaces_heard = state.namespaces_heard or key[:2] == ALL_NAMESPACES.key[:2]
        return found

    async def reconcile(self, name: str) -> float | None:
        """Look at a policy, and evaluate it if it is time; return after how many seconds to look again."""
        policy = self._policies.newest(name)
        if policy is None or (policy.metadata.deletion_timestamp and FINALIZER not in policy.metadata.finalizers):
            self._forget(name)
            return None
        state = self._states.get(name)
        if state is None or state.uid != policy.metadata.uid:
            backoff = timedelta(seconds=self._context.settings.evaluation_backoff_seconds)
            seen = Circumstances(changed=True, backoff=backoff)
            state = self._states[name] = _PolicyState(policy.metadata.uid, seen)
        now = self._context.clock.now()
        state.namespaces_heard = state.namespaces_heard and self._namespaces_changed(policy, state)
        state.seen = replace(state.seen, namespaces_changed=state.namespaces_heard)
        edited = state.kept is not None and timeless(policy.status) != state.kept
        early = state.looked_early and self._watched.is_complete(name)
        if self._must_poll(name, state, now) or early or edited:
            # Edited: the status is not what we said. A cache showed the past, or somebody edited it.
            state.seen = replace(state.seen, changed=True)
        wait = next_evaluation(policy, state.seen, now)
        if wait is not None and wait <= timedelta():
            state.seen = replace(state.seen, changed=False, namespaces_changed=False)
            try:
                await self._work(policy, state, now)
            except BaseException as error:
                state.seen = replace(state.seen, changed=True)  # nobody was told what was found
                if not isinstance(error, Overtaken):
                    raise
                _log.info("%s: %s", name, error, extra={"policy": name})
                return OVERTAKEN_SECONDS
            policy = self._policies.newest(name) or policy
            wait = next_evaluation(policy, state.seen, self._context.clock.now())
        return self._seconds_to_next_look(name, state, wait)

    async def _work(self, policy: ConfigurationPolicy, state: _PolicyState, now: datetime) -> None:
        """Evaluate a policy, or prune for one that is being deleted."""
        metadata = policy.metadata
        answers = self._answers(policy)
        if metadata.deletion_timestamp:
            ending = await answers.carry_out(end(policy, MANAGER))
            self._watched.watch(metadata.name, answers.looks.refs(objects=True))
            failed = bool(ending.left)
            if failed:
                policy = self._newest(policy)
                conclusion = terminating(policy, ending.left, now)
                policy = await self._tell(policy, state, conclusion, write=conclusion.is_news)
        else:
            watched = self._watched.is_complete(metadata.name)
            evaluation = await answers.carry_out(evaluate(policy, now, MANAGER))
            failed = evaluation.failed
            policy = await self._evaluated(self._newest(policy), evaluation, state, now)
            same = self._watched.watch(metadata.name, answers.looks.refs(objects=watches_objects(policy)))
            state.looked_early = watches_objects(policy) and not (watched and same)
        self._note(state, policy, now, failed=failed)

    async def _evaluated(
        self, policy: ConfigurationPolicy, evaluation: Evaluation, state: _PolicyState, now: datetime
    ) -> ConfigurationPolicy:
        """Tell what came of an evaluation; return the policy as it is then."""
        asked = policy.metadata.annotations.get(RETRIED_ANNOTATION, "")
        conclusion = conclude(policy, evaluation, now)
        known = timeless(conclusion.status) == state.sent and timeless(policy.status) == state.kept
        news = conclusion.is_news and not known
        policy = await self._tell(policy, state, conclusion, write=news or asked != state.seen.retried_at)
        state.namespaces, state.namespaces_heard = evaluation.namespaces, True
        state.seen = replace(state.seen, mended=state.seen.mended + 1 if evaluation.mended else 0)
        return policy

    def _note(self, state: _PolicyState, policy: ConfigurationPolicy, now: datetime, *, failed: bool) -> None:
        state.failures = state.failures + 1 if failed else 0
        pause = min(FIRST_RETRY_SECONDS * 2.0 ** min(state.failures - 1, 16), LAST_RETRY_SECONDS)
        pause *= self._context.random.uniform(1.0, 1.5)
        state.seen = replace(
            state.seen,
            evaluated_at=now,
            evaluated_generation=policy.metadata.generation,
            retried_at=policy.metadata.annotations.get(RETRIED_ANNOTATION, ""),
            retry_at=now + timedelta(seconds=pause) if failed else None,
        )

    def _answers(self, policy: ConfigurationPolicy) -> Answers:
        confirmed = False

        async def remember(memory: Remember) -> None:
            nonlocal confirmed
            known = self._newest(policy) if confirmed else policy
            await self._policies.patch(known, {"metadata": _metadata(known, memory)})
            confirmed = True

        async def before_write() -> None:
            # What a cache shows, or any read, may be of the past, and the policy held since. A write that changes
            # nothing costs nothing, and fails if the server has another state.
            nonlocal confirmed
            newest = self._newest(policy)
            if not confirmed:
                await self._policies.patch(newest, {})
                confirmed = True

        context = self._context
        return Answers(
            context.member, context.kinds, self._watched, MANAGER, remember=remember, before_write=before_write
        )

    def _newest(self, policy: ConfigurationPolicy) -> ConfigurationPolicy:
        """Return the newest state of the very policy that was evaluated."""
        newest = self._policies.newest(policy.metadata.name)
        if newest is None or _intent(newest) != _intent(policy):
            raise Overtaken("the policy was changed while it was evaluated")
        return newest

    async def _tell(
        self, policy: ConfigurationPolicy, state: _PolicyState, conclusion: Conclusion, *, write: bool
    ) -> ConfigurationPolicy:
        """Write what is to be told, and then the status if that is asked for; return the policy as it is then."""
        for report in conclusion.reports:
            await self._send_event(policy, report)
        if write:
            policy = await self._write_status(policy, conclusion)
        state.sent, state.kept = timeless(conclusion.status), timeless(policy.status)
        return policy

    async def _write_status(self, policy: ConfigurationPolicy, conclusion: Conclusion) -> ConfigurationPolicy:
        body: JSONObject = {"status": _status_patch(policy, conclusion)}
        for attempt in range(1, STATUS_ATTEMPTS + 1):
            try:
                return await self._policies.patch(self._newest(policy), body, "status")
            except Conflict:
                if attempt == STATUS_ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _send_event(self, policy: ConfigurationPolicy, report: Report) -> None:
        parent = parent_of(policy.metadata)
        if parent is None:
            return  # nobody collects the reports of a policy that is made from no other
        for attempt in range(EVENT_ATTEMPTS):
            body = compliance_event(
                CONFIGURATION_POLICY,
                policy.metadata,
                parent,
                report.message,
                at=report.at,
                reporter=MANAGER,
                attempt=attempt,
            )
            if await self._has_told(body, policy.metadata.namespace):
                return
        raise Conflict(f"{EVENT_ATTEMPTS} names for an event about {policy.metadata.name} are taken")

    async def _has_told(self, event: JSONObject, namespace: str) -> bool:
        """Write an event, unless an attempt before did; tell whether it is there, or its name is another's."""
        member = self._context.member
        try:
            await member.create(EVENT.untyped(), event, namespace)
        except AlreadyExists:
            found = await member.get(EVENT, event["metadata"]["name"], namespace)
            return (found.reason, found.message) == (event["reason"], event["message"])
        return True

    def _namespaces_changed(self, policy: ConfigurationPolicy, state: _PolicyState) -> bool:
        """Whether other namespaces are selected than at the last evaluation, as far as the watch of them tells."""
        if state.namespaces is None or policy.spec is None:
            return False
        known = self._watched.list(List(ALL_NAMESPACES.kind, ""))
        if known is None:
            return False
        try:
            return select_namespaces(policy.spec.namespace_selector, facts_of(known)) != state.namespaces
        except BadNamespaceSelector:
            return False

    def _must_poll(self, name: str, state: _PolicyState, now: datetime) -> bool:
        """Whether so long nothing was heard of something that is not watched that one has to look."""
        if state.seen.evaluated_at is None or self._watched.is_complete(name):
            return False
        return now - state.seen.evaluated_at >= timedelta(seconds=self._context.settings.status_sync_seconds)

    def _seconds_to_next_look(self, name: str, state: _PolicyState, wait: timedelta | None) -> float | None:
        seconds = math.inf if wait is None else max(wait.total_seconds(), 0.001)
        if state.looked_early or not self._watched.is_complete(name):
            poll = self._context.settings.status_sync_seconds * self._context.random.uniform(1.0, 1.1)
            seconds = min(seconds, poll)
        return None if math.isinf(seconds) else seconds

    def _forget(self, name: str) -> None:
        self._watched.watch(name, ())
        self._states.pop(name, None)
        self._policies.forget(name)


def _intent(policy: ConfigurationPolicy) -> tuple[str, int, str | None, bool]:
    """Return what an evaluation is made for, and must not outlive."""
    metadata = policy.metadata
    return (
        metadata.uid,
        metadata.generation,
        metadata.annotations.get(HELD_ANNOTATION),
        bool(metadata.deletion_timestamp),
    )


def _metadata(policy: ConfigurationPolicy, memory: Remember) -> JSONObject:
    """Return what to merge into the metadata so that a policy remembers something."""
    others = [each for each in policy.metadata.finalizers if each != FINALIZER]
    finalizers = [*others, FINALIZER] if memory.finalizer else others
    changed: JSONObject = {}
    if finalizers != policy.metadata.finalizers:
        changed["finalizers"] = finalizers or None
    if memory.ledger != policy.metadata.annotations.get(LEDGER_ANNOTATION):
        changed["annotations"] = {LEDGER_ANNOTATION: memory.ledger}
    return changed


def _status_patch(policy: ConfigurationPolicy, conclusion: Conclusion) -> JSONObject:
    """Return what to merge into the status; what the new one does not have goes."""
    wire: JSONObject = msgspec.to_builtins(conclusion.status)
    before: JSONObject = msgspec.to_builtins(policy.status)
    return {**dict.fromkeys(before), **wire}
