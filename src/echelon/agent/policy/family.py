"""When an agent has anything to do with policies, and with whom it must not interfere.

A process may run thousands of agents, and most clusters have no policies most of the time. So all that there is then is
one stream from the hub. With the first policy, or when an earlier life left something on the cluster, the rest begins:
definitions, caches, reconcilers and evaluators. It ends when there has been nothing to do for a while.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from echelon.agent.context import AgentContext, Family
from echelon.agent.policy.controllers import PolicySync
from echelon.agent.policy.evaluators import EVALUATORS, Evaluator
from echelon.agent.policy.others import OtherControllers
from echelon.agent.running import run_families
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.kinds import Kind
from echelon.engine.plan import Emit, Reference
from echelon.engine.policy_member.documents import POLICY_DOCUMENT, PolicyDocument
from echelon.kube.errors import ApiError, NotFound
from echelon.kube.informer import Informer

FIRST_PAUSE_SECONDS = 2.0
LAST_PAUSE_SECONDS = 300.0
IDLE_SECONDS = 120.0

_log = logging.getLogger(__name__)


def policy_controllers(context: AgentContext, evaluators: Sequence[Evaluator] = EVALUATORS) -> Family:
    """Return what brings policies to the cluster, and tells the hub what comes of them."""
    return Family((PolicyFamily(context, evaluators),))


class PolicyFamily:
    """Runs the reconcilers of policies while there is something for them to do."""

    name = "policies"

    def __init__(self, context: AgentContext, evaluators: Sequence[Evaluator]) -> None:
        self._context = context
        self._evaluators = evaluators
        self._replicas: Informer[PolicyDocument] = context.make_informer(
            context.hub, POLICY_DOCUMENT, context.cluster, random=context.random, metrics=context.metrics
        )
        self._arrived = asyncio.Event()
        self._replicas.on_change(lambda _: self._arrived.set())

    async def run(self) -> None:
        """Work until cancelled."""
        await self._until_served()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._replicas.run(), name="informer of policies on the hub")
            await self._replicas.wait_synced()
            needed = await self._has_leftovers()
            while True:
                while not needed and not len(self._replicas):
                    self._arrived.clear()
                    await self._arrived.wait()
                await self._work()
                needed = False

    async def _until_served(self) -> None:
        """Return when the hub serves policies, and lets the agent read them. Many hubs never do."""
        pause, logged, cluster = FIRST_PAUSE_SECONDS, "", self._context.cluster
        while True:
            try:
                await self._context.hub.list(POLICY_DOCUMENT, cluster, limit=1)
            except ApiError as error:
                # That the hub does not answer is for the registration to say.
                if error.status_code in (403, 404) and error.status_reason != logged:
                    logged = error.status_reason
                    _log.info("%s has no policies: %s", cluster, error, extra={"cluster": cluster})
            else:
                return
            pause = await self._pause(pause)

    async def _has_leftovers(self) -> bool:
        """Tell whether the cluster has something from earlier, if nobody needs the rest to run anyway."""
        pause = FIRST_PAUSE_SECONDS
        while not len(self._replicas):
            try:
                return await self._has(POLICY_DOCUMENT) or await self._has(CONFIGURATION_POLICY.untyped())
            except ApiError:
                pause = await self._pause(pause)
        return True

    async def _has(self, kind: Kind[Any]) -> bool:
        try:
            page = await self._context.member.list(kind, self._context.cluster, limit=1)
        except NotFound:
            return False
        return bool(page.readable or page.unreadable)

    async def _pause(self, seconds: float) -> float:
        await asyncio.sleep(seconds * self._context.random.uniform(0.5, 1.0))
        return min(seconds * 2, LAST_PAUSE_SECONDS)

    async def _work(self) -> None:
        """Work until there is nothing left to do, and only while nobody else does it."""
        others, told = OtherControllers(self._context), tuple[str, ...]()
        following = asyncio.create_task(others.run(), name="informer of other policy controllers")
        try:
            await others.wait_known()
            while True:
                if (found := others.found) != told:
                    told = found
                    await self._tell(found)
                if found:
                    await others.wait_changed(found)
                elif await self._work_alone(others):
                    return
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _work_alone(self, others: OtherControllers) -> bool:
        """Work until somebody else comes, or nothing is left to do; tell whether it is the latter."""
        context = self._context.branch()
        sync = PolicySync(context, self._replicas, self._evaluators)
        families = [sync.family(), *(each.controllers(context) for each in self._evaluators)]
        working = asyncio.create_task(run_families(context, families), name="policies")
        ends = [
            asyncio.create_task(others.wait_changed(()), name="arrival of other policy controllers"),
            asyncio.create_task(self._until_idle(sync), name="end of policies"),
        ]
        try:
            await asyncio.wait([working, *ends], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
        finally:
            for task in (working, *ends):
                task.cancel()
            await asyncio.gather(working, *ends, return_exceptions=True)
            sync.close()
        return not others.found

    async def _until_idle(self, sync: PolicySync) -> None:
        quiet = False
        while True:
            await asyncio.sleep(IDLE_SECONDS)
            if sync.idle and quiet:
                return
            quiet = sync.idle

    async def _tell(self, found: Sequence[str]) -> None:
        """Say on the hub whose business the policies of the cluster are."""
        cluster, names = self._context.cluster, " and ".join(found)
        note = (
            f"Policies are left to {names}, which the cluster has already."
            if found
            else ("The cluster has no other policy controllers any more: its agent looks after policies.")
        )
        _log.warning("%s: %s", cluster, note, extra={"cluster": cluster})
        # An agent may write events in its own namespace only, and an event is where its object is.
        about = Reference(MANAGED_CLUSTER, cluster, cluster, self._context.identity.cluster_uid)
        reason = "OtherPolicyControllers" if found else "NoOtherPolicyControllers"
        event = Emit(about, reason, "PolicySync", note, "Warning" if found else "Normal")
        await self._context.recorder.emit(event)
