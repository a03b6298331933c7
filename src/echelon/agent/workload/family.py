"""When an agent has anything to do with federated workloads.

A process may run thousands of agents, and many clusters have no such works. So all that there is then is one stream
from the hub, and none at all where the hub does not serve them. With the first work the rest begins; it ends when there
has been none for a while.
"""

import asyncio
import logging
from collections.abc import Iterable

from echelon.agent.context import AgentContext, Family
from echelon.agent.running import run_families
from echelon.agent.workload.reconciler import DOUBT_SECONDS, WorkloadReconciler
from echelon.api.karmada import WORK, Work
from echelon.engine.workload.names import LONGEST_CLUSTER_NAME, execution_namespace
from echelon.kube.errors import ApiError
from echelon.kube.informer import Delta, Informer

FIRST_PAUSE_SECONDS = 2.0
LAST_PAUSE_SECONDS = 300.0
IDLE_SECONDS = 120.0
WORKS_AT_ONCE = 5

_log = logging.getLogger(__name__)


def workload_controllers(context: AgentContext) -> Family:
    """Return what brings federated workloads to the cluster, and tells the hub what comes of them."""
    # Of a name that is too long the hub itself tells.
    return Family((WorkloadFamily(context),) if len(context.cluster) <= LONGEST_CLUSTER_NAME else ())


class WorkloadFamily:
    """Runs the reconciler of federated workloads while there is something for it to do."""

    name = "workloads"

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._namespace = execution_namespace(context.cluster)
        self._works: Informer[Work] = context.make_informer(
            context.hub, WORK, self._namespace, random=context.random, metrics=context.metrics
        )
        self._arrived = asyncio.Event()
        self._works.on_change(lambda _: self._arrived.set())

    async def run(self) -> None:
        """Work until cancelled."""
        await self._until_served()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._works.run(), name="informer of works of federated workloads")
            await self._works.wait_synced()
            inherited = Inherited(self._works.values())
            while True:
                while not len(self._works):
                    self._arrived.clear()
                    await self._arrived.wait()
                await self._work(inherited)

    async def _until_served(self) -> None:
        """Return when the hub serves works, and lets the agent read them. Many hubs never do."""
        pause, logged, cluster = FIRST_PAUSE_SECONDS, "", self._context.cluster
        while True:
            try:
                await self._context.hub.list(WORK, self._namespace, limit=1)
            except ApiError as error:
                # That the hub does not answer is for the registration to say.
                if error.status_code in (403, 404) and error.status_reason != logged:
                    logged = error.status_reason
                    _log.info("%s has no federated workloads: %s", cluster, error, extra={"cluster": cluster})
            else:
                return
            await asyncio.sleep(pause * self._context.random.uniform(0.5, 1.0))
            pause = min(pause * 2, LAST_PAUSE_SECONDS)

    async def _work(self, inherited: "Inherited") -> None:
        """Work until there has been nothing to do for a while."""
        context = self._context.branch()
        sync = WorkloadSync(context, self._works, inherited)
        working = asyncio.create_task(run_families(context, [sync.family()]), name="workloads")
        idle = asyncio.create_task(self._until_idle(), name="end of workloads")
        try:
            await asyncio.wait([working, idle], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
        finally:
            for task in (working, idle):
                task.cancel()
            await asyncio.gather(working, idle, return_exceptions=True)
            await sync.close()

    async def _until_idle(self) -> None:
        quiet = False
        while True:
            await asyncio.sleep(IDLE_SECONDS)
            if not len(self._works) and quiet:
                return
            quiet = not len(self._works)


class Inherited:
    """The works that were there when an agent began: what a former life sent of them may still be on its way."""

    def __init__(self, works: Iterable[Work]) -> None:
        self._began = asyncio.get_running_loop().time()
        self._generations = {each.metadata.uid: each.metadata.generation for each in works}

    def __call__(self, work: Work) -> bool:
        """Tell whether a former life may have sent a work as it is, a moment ago."""
        if asyncio.get_running_loop().time() > self._began + DOUBT_SECONDS:
            self._generations.clear()
        return self._generations.get(work.metadata.uid) == work.metadata.generation


class WorkloadSync:
    """Makes the workers and routes changes to them."""

    def __init__(self, context: AgentContext, works: Informer[Work], inherited: Inherited) -> None:
        self._reconciler = WorkloadReconciler(
            context, works, lambda name, after: self._workers.queue.add(name, after=after), inherited
        )
        self._workers = context.workers(
            "workloads", self._reconciler.reconcile, concurrency=WORKS_AT_ONCE, after=(works,)
        )
        self._stop = works.on_change(self._work_changed)
        context.object_watches.on_change(self._reconciler.object_changed)
        for work in works.values():
            self._workers.queue.add(work.metadata.name)

    def family(self) -> Family:
        """Return what is to be run."""
        return Family((self._workers,))

    async def close(self) -> None:
        """Hear of nothing more."""
        self._stop()
        await self._reconciler.close()

    def _work_changed(self, delta: Delta[Work]) -> None:
        old, new = delta.old, delta.new
        if old is None or new is None or _is_more_than_a_report(old, new):
            self._workers.queue.add(delta.object.metadata.name)
        else:
            self._reconciler.reported(new)


def _is_more_than_a_report(old: Work, new: Work) -> bool:
    one, other = old.metadata, new.metadata
    return (one.uid, one.generation, one.deletion_timestamp, one.finalizers) != (
        other.uid,
        other.generation,
        other.deletion_timestamp,
        other.finalizers,
    )
