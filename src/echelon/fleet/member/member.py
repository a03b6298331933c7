"""A simulated cluster: a logical cluster of the hub in which workloads come to life.

The store says what changes, the fleet's alarm clock says what is due, and one task sees to it while there is something
to see to. A member in which nothing happens has no task, no watch and no timer.
"""

import asyncio
import contextvars
import logging
import math
from collections.abc import Awaitable, Callable

from echelon.fleet.member.act import (
    clone_sets,
    daemon_sets,
    deployments,
    gangs,
    jobs,
    nodes,
    pods,
    replica_sets,
    scheduler,
    stateful_sets,
)
from echelon.fleet.member.cluster_index import (
    CLONE_SETS,
    DAEMON_SETS,
    DEPLOYMENTS,
    FOLLOWED,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    SCHEDULER,
    STATEFUL_SETS,
    WORKLOADS,
)
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.gang_index import POD_GANGS
from echelon.fleet.member.journal import JOURNAL, TOLD
from echelon.fleet.member.machines import MemberMachines
from echelon.fleet.member.network import MemberClient, Network
from echelon.fleet.member.profile import Profile
from echelon.fleet.member.timers import Timers
from echelon.fleet.member.trouble import CrashLoop, DiskFull, Flapping, NodeDown, Offline, Script
from echelon.hub.access.identity import User
from echelon.hub.client import BOOKMARK_SECONDS, InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.server import ROOT
from echelon.hub.storage.store import Change, Key, StaleWrite
from echelon.kube.client import EventType
from echelon.kube.errors import ApiError

_log = logging.getLogger(__name__)
_Sync = Callable[[MemberContext, Key], Awaitable[None]]


async def write_journal(context: MemberContext, _key: Key) -> None:
    """Write events, in a member of which somebody reads them."""
    await context.journal.write()


_SYNC: dict[str, _Sync] = {
    PODS: pods.sync,
    NODES: nodes.sync,
    SCHEDULER.resource: scheduler.sync,
    POD_GANGS: gangs.sync,
    REPLICA_SETS: replica_sets.sync,
    STATEFUL_SETS: stateful_sets.sync,
    DAEMON_SETS: daemon_sets.sync,
    JOBS: jobs.sync,
    CLONE_SETS: clone_sets.sync,
    DEPLOYMENTS: deployments.sync,
    JOURNAL.resource: write_journal,
}


# Whose controllers do all that can be done before they report.
_REPORT_LAST = frozenset((REPLICA_SETS, DEPLOYMENTS))


class Member:
    """A cluster of a fleet. `start` it, or let `run` do so; both expect a cluster that has its namespaces."""

    def __init__(self, profile: Profile, cluster: LogicalCluster, timers: Timers | None = None) -> None:
        self.profile = profile
        self.name = profile.name
        self.cluster = cluster
        self.context = MemberContext(profile, cluster, timers or Timers(), self._woken)
        self.network = Network(cluster.store.wake_watches)
        cluster.machines = MemberMachines(self.context.journal)
        self._working: asyncio.Task[None] | None = None
        self._following = False
        self._alive = False

    @property
    def offline(self) -> bool:
        """Whether nobody outside reaches the cluster."""
        return self.network.offline

    def cut_off(self) -> None:
        """Make the cluster unreachable; inside, life goes on."""
        self.network.set(offline=True)

    def reconnect(self) -> None:
        """Make it reachable again."""
        self.network.set(offline=False)

    async def fail_node(self, name: str) -> None:
        """Let a node fall silent until it is restored; a script that speaks of it may do that, too."""
        await nodes.set_down(self.context, name, down=True)

    async def restore_node(self, name: str) -> None:
        """Let a node be heard of again."""
        await nodes.set_down(self.context, name, down=False)

    def client(self, user: User = ROOT, *, field_manager: str = "echelon") -> MemberClient:
        """Return a client from outside, which the member's troubles concern."""
        seconds = math.inf if self.profile.brief else BOOKMARK_SECONDS
        inner = InProcessClient(self.cluster, user, field_manager=field_manager, bookmark_seconds=seconds)
        return MemberClient(inner, self.network, self.name)

    async def start(self) -> None:
        """Make the nodes and begin to work, on whatever is there already."""
        if self._alive:
            return
        self._alive = True
        context, store = self.context, self.cluster.store
        context.began = asyncio.get_running_loop().time()
        if not self._following:
            self._following = True
            for resource in sorted(FOLLOWED):
                for entry in store.list(resource).entries:
                    self._follow(Change(EventType.ADDED, entry.revision, entry))
            store.on_commit(self._follow)
            store.on_commit(self._take_note)
        await nodes.make_nodes(context)
        script, timers = context.script, context.timers
        for moment in script.moments(CrashLoop, Flapping, DiskFull):
            timers.after(moment, self._trouble_changes)
        for moment in script.moments(NodeDown):
            timers.after(moment, self._nodes_change)
        self._nodes_change()
        for moment in script.moments(Offline):
            timers.after(moment, self._reach_changes)
        self.network.delay = lambda: script.delay(context.elapsed())
        self._reach_changes()
        if self.profile.heartbeat_seconds:
            timers.after(self.profile.heartbeat_seconds, self._heartbeat)

    def let_fail(self, script: Script) -> None:
        """Let pods crash and the cluster be cut off by another script; its times count from the start of the member."""
        self.context.script = script
        elapsed, timers = self.context.elapsed(), self.context.timers
        for moment in script.moments(CrashLoop, Flapping):
            timers.after(max(moment - elapsed, 0.0), self._trouble_changes)
        for moment in script.moments(Offline):
            timers.after(max(moment - elapsed, 0.0), self._reach_changes)

    def stop(self) -> None:
        """Stop working for good; what is there stays as it is."""
        self._alive = False
        self.context.clear()
        if self._working is not None:
            self._working.cancel()
            self._working = None

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await self.start()
            await asyncio.get_running_loop().create_future()
        finally:
            self.stop()

    def _woken(self) -> None:
        if self._alive and self._working is None:
            # Whoever caused this has a context of its own, and may be stopped: the member is not part of it.
            self._working = asyncio.get_running_loop().create_task(
                self._work(), name=f"controllers of {self.name}", context=contextvars.Context()
            )

    def _follow(self, change: Change) -> None:
        resource = change.entry.key.resource
        if not self._alive or resource not in FOLLOWED:
            return
        if resource == PODS and change.type is EventType.DELETED:
            self.context.pod_timers.forget(change.entry.object["metadata"]["uid"])
        for key in tuple(self.context.index.follow(change)):
            if not (self.profile.brief and self._is_needless(key, change)):
                self.context.wake(key)

    def _is_needless(self, key: Key, change: Change) -> bool:
        """Tell whether nobody waits for a node, or a controller would look again at what it has just reported."""
        if key == SCHEDULER:
            return not self.context.index.queue
        entry, before = change.entry, change.previous
        if key != entry.key or key.resource not in _REPORT_LAST or before is None:
            return False
        now, then = entry.object["metadata"], before.object["metadata"]
        return bool({**now, "resourceVersion": ""} == {**then, "resourceVersion": ""})

    def _take_note(self, change: Change) -> None:
        if self._alive and change.entry.key.resource in TOLD and self.context.journal.follow(change):
            self.context.wake(JOURNAL)

    async def _work(self) -> None:
        try:
            while (key := self.context.next()) is not None:
                await self.context.breathe()
                if key.resource in WORKLOADS and self.context.must_rest(key):
                    continue
                try:
                    await _SYNC[key.resource](self.context, key)
                except StaleWrite:
                    pass  # somebody was faster, and their write will bring this back
                except ApiError as error:
                    _log.warning("%s: %s cannot go on: %s", self.name, "/".join(key), error)
                except Exception:  # noqa: BLE001 - an object that makes no sense must not stop all the others
                    _log.exception("%s: %s cannot be understood", self.name, "/".join(key))
        finally:
            self._working = None

    def _trouble_changes(self) -> None:
        for name in self.context.index.nodes:
            self.context.wake(Key(NODES, "", name))
        for key in self.context.index.all_pods():
            self.context.wake(key)

    def _nodes_change(self) -> None:
        for name in self.context.index.nodes:
            down = self.context.script.node_down(name, self.context.elapsed())
            if down is not None:
                self.context.node_orders[name] = down
                self.context.wake(Key(NODES, "", name))

    def _reach_changes(self) -> None:
        self.network.set(offline=self.context.script.offline(self.context.elapsed()))

    def _heartbeat(self) -> None:
        if self._alive:
            self.context.timers.after(self.profile.heartbeat_seconds, self._heartbeat)
            asyncio.get_running_loop().create_task(nodes.beat(self.context), name=f"nodes of {self.name}")
