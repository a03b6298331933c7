"""The cluster's place in the fleet: asks to join, shows that it is alive, and says what it is.

The lease says that the agent lives and the conditions say how the cluster does, so the lease is renewed first and
whatever the cluster's own API does. Everything is on one timer; between its ticks an idle agent does nothing.
"""

import asyncio
import logging
from dataclasses import dataclass

import msgspec

from echelon.agent import facts
from echelon.agent.cluster_lease import ClusterLease
from echelon.agent.context import AgentContext
from echelon.agent.metrics import AgentMetrics
from echelon.agent.settings import HUB_MANAGER
from echelon.api.base import JSONObject
from echelon.api.cluster import (
    CLUSTER_CLAIM,
    MANAGED_CLUSTER,
    ClusterClaim,
    ManagedCluster,
    ManagedClusterStatus,
    ManagedClusterVersion,
)
from echelon.api.coordination import LEASE
from echelon.api.core import NODE
from echelon.api.namespaces import NAMESPACE
from echelon.api.times import format_micro_time
from echelon.engine.cluster_health import AVAILABLE, LEASE_NAME
from echelon.engine.conditions import condition_stamp, set_condition
from echelon.engine.plan import Patch
from echelon.kube.client import MergePatch, WriteOptions
from echelon.kube.errors import AlreadyExists, ApiError, Conflict, Gone, NotFound
from echelon.kube.write import write

JOINED = "ManagedClusterJoined"
FIRST_PAUSE_SECONDS = 0.5
LAST_PAUSE_SECONDS = 10.0
_NODES_AT_ONCE = 100
_MOST_RESTARTS = 3

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Facts:
    """What the cluster's API shows now; None where it does not answer."""

    found: JSONObject | None
    error: str = ""


class Registration:
    """Keeps the ManagedCluster and the lease of one cluster."""

    name = "registration"

    def __init__(self, context: AgentContext, lease: ClusterLease | None = None) -> None:
        """Without a `lease` nobody looks whether another agent renews it."""
        self._lease = lease
        self._hub = context.hub
        self._member = context.member
        self._server = context.server
        self._cluster = context.cluster
        self._clock = context.clock
        self._random = context.random
        self._settings = context.settings
        self._options = WriteOptions(field_manager=HUB_MANAGER)
        self._metrics = AgentMetrics.of(context.metrics)

    async def join(self) -> ManagedCluster:
        """Ask the hub to take the cluster, and return it when the hub has."""
        pause, logged = FIRST_PAUSE_SECONDS, ""
        while True:
            try:
                cluster = await self._registered()
                if cluster.spec.hub_accepts_client:
                    return cluster
                why = f"waits for the hub's administrator to accept it (spec.hubAcceptsClient of {self._cluster})"
            except ApiError as error:
                why = f"cannot register yet: {error}"
            if why != logged:
                _log.info("%s %s", self._cluster, why, extra={"cluster": self._cluster})
                logged = why
            await asyncio.sleep(pause * self._random.uniform(0.5, 1.0))
            pause = min(pause * 2, LAST_PAUSE_SECONDS)

    async def hold(self) -> None:
        """Return when the lease is ours, before anything is done for the cluster; raise `AnotherAgent` if it is not."""
        pause, logged = FIRST_PAUSE_SECONDS, ""
        while self._lease is not None:
            try:
                await self._lease.renew(self._settings.lease_seconds)
            except ApiError as error:
                if str(error) != logged:
                    logged, extra = str(error), {"cluster": self._cluster}
                    _log.info("%s cannot take its lease yet: %s", self._cluster, error, extra=extra)
            if self._lease.is_held:
                return
            await asyncio.sleep(pause * self._random.uniform(0.5, 1.0))
            pause = min(pause * 2, LAST_PAUSE_SECONDS)

    async def run(self) -> None:
        """Renew the lease and say what the cluster is, until cancelled; raise `AnotherAgent` if there is one."""
        try:
            await self._run()
        finally:
            if self._lease is not None:
                await self._lease.release()

    async def _run(self) -> None:
        failures, logged = 0, ""
        while True:
            every = float(self._settings.lease_seconds)
            try:
                if self._lease is not None:
                    await self._lease.renew(self._settings.lease_seconds)
                else:
                    await self._renew()
                self._metrics.heard()
                cluster = await self._hub.get(MANAGED_CLUSTER, self._cluster)
                every = float(cluster.spec.lease_duration_seconds or every)
                await self._report_status(cluster)
                failures, logged = 0, ""
            except ApiError as error:
                failures += 1
                # Once: the agent of a cluster that has left the fleet is refused every minute, for ever.
                if not isinstance(error, Conflict) and str(error) != logged:
                    logged, extra = str(error), {"cluster": self._cluster}
                    _log.warning("%s cannot tell the hub that it is alive: %s", self._cluster, error, extra=extra)
                every = min(every, FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 16))
            if self._lease is not None:
                every = min(every, self._lease.look_again_seconds)
            await asyncio.sleep(every * self._random.uniform(0.9, 1.0))

    async def _registered(self) -> ManagedCluster:
        try:
            return await self._hub.get(MANAGED_CLUSTER, self._cluster)
        except NotFound:
            body: JSONObject = {
                **MANAGED_CLUSTER.type_meta,
                "metadata": {"name": self._cluster},
                "spec": {"hubAcceptsClient": False, "leaseDurationSeconds": self._settings.lease_seconds},
            }
            try:
                return await self._hub.create(MANAGED_CLUSTER, body, options=self._options)
            except AlreadyExists:
                return await self._hub.get(MANAGED_CLUSTER, self._cluster)

    async def _renew(self) -> None:
        spec = {
            "holderIdentity": self._cluster,
            "leaseDurationSeconds": self._settings.lease_seconds,
            "renewTime": format_micro_time(self._clock.now()),
        }
        try:
            await self._hub.patch(LEASE, LEASE_NAME, MergePatch({"spec": spec}), self._cluster, options=self._options)
        except NotFound:
            body: JSONObject = {**LEASE.type_meta, "metadata": {"name": LEASE_NAME}, "spec": spec}
            await self._hub.create(LEASE, body, self._cluster, options=self._options)

    async def _report_status(self, cluster: ManagedCluster) -> None:
        """Write down what the cluster is, if that has changed."""
        status = self._status(cluster, await self._observe())
        if status == cluster.status:
            return
        body = {"status": _status_patch(status, cluster.status)}
        await write(Patch.of(MANAGED_CLUSTER, cluster.metadata, body, "status"), self._hub, self._options)

    def _status(self, cluster: ManagedCluster, seen: _Facts) -> ManagedClusterStatus:
        condition = condition_stamp(cluster.metadata.generation, self._clock.now()).condition
        joined = condition(JOINED, "True", "ManagedClusterJoined", "Managed cluster joined")
        available = condition(AVAILABLE, "True", "ManagedClusterAvailable", "Managed cluster is available")
        if seen.found is None:
            message = f"The kube-apiserver is not available: {seen.error}"
            available = condition(AVAILABLE, "False", "ManagedClusterKubeAPIServerUnavailable", message)
        conditions = set_condition(set_condition(cluster.status.conditions, joined), available)
        return msgspec.structs.replace(cluster.status, conditions=conditions, **(seen.found or {}))

    async def _observe(self) -> _Facts:
        try:
            version = str((await self._server.document("/version")).get("gitVersion", ""))
            nodes = await self._nodes()
            system = await self._member.get(NAMESPACE, "kube-system")
            claims = await self._cluster_claims()
        except ApiError as error:
            return _Facts(None, error.message)
        found: JSONObject = {
            "version": ManagedClusterVersion(kubernetes=version),
            "capacity": nodes.capacity.total(),
            "allocatable": nodes.allocatable.total(),
            "cluster_claims": facts.claims(nodes, version, system.metadata.uid, claims),
        }
        return _Facts(found)

    async def _nodes(self) -> facts.NodeFigures:
        """Add the nodes up, a page at a time; from the beginning if the server forgets what it was turning over."""
        figures, token, restarts = facts.NodeFigures(), "", 0
        while True:
            try:
                page = await self._member.list(NODE, limit=_NODES_AT_ONCE, continue_=token)
            except Gone:
                if not token or restarts == _MOST_RESTARTS:
                    raise
                figures, token, restarts = facts.NodeFigures(), "", restarts + 1
                continue
            for node in page.items:
                figures.add(node)
            token = page.continue_
            if not token:
                return figures

    async def _cluster_claims(self) -> list[ClusterClaim]:
        try:
            return list((await self._member.list(CLUSTER_CLAIM)).items)
        except NotFound:
            return []  # the cluster does not serve them


def _status_patch(status: ManagedClusterStatus, before: ManagedClusterStatus) -> JSONObject:
    """Return a status as a merge patch: what it no longer has is said to be gone."""
    body: JSONObject = msgspec.to_builtins(status)
    for field in ("capacity", "allocatable"):
        gone = set(getattr(before, field)) - set(getattr(status, field))
        if gone:
            body[field] = {**body.get(field, {}), **dict.fromkeys(sorted(gone))}
    return body
