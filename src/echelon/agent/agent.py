"""The agent of one cluster: its registration, and families of reconcilers that share caches, put together and run.

It may share a process with a thousand others, so what it does not need at the moment must not exist: a cluster that
has not been accepted has no caches, and a cluster without works, policies and federated workloads has four idle
streams and a timer.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from echelon.agent.cluster_lease import ClusterLease
from echelon.agent.context import AgentContext, Family, Runnable
from echelon.agent.executor import ActAs
from echelon.agent.policy.family import policy_controllers
from echelon.agent.registration import Registration
from echelon.agent.running import run_families
from echelon.agent.settings import Settings
from echelon.agent.work_controllers import work_controllers
from echelon.agent.workload.family import workload_controllers
from echelon.engine.work.identity import Identity
from echelon.kube.client import Client, Documents
from echelon.kube.clock import Clock
from echelon.kube.informer import Informer
from echelon.kube.metrics import Metrics
from echelon.kube.turns import Turns

# What agents do beyond registration; each is given the context and says what is to be run.
FAMILIES: tuple[Callable[[AgentContext], Family], ...] = (
    work_controllers,
    policy_controllers,
    workload_controllers,
)


class Agent:
    """Runs on behalf of one cluster: `hub` and `member` are clients with the agent's rights on either side.

    `server` is the member's server, asked for its version and kinds; `act_as` gives clients that act as others there.
    `agent_id` tells agents apart that work for several hubs on one cluster. Many in one process share `turns`.
    `instance` tells processes apart, of which one may work for a cluster; without it nobody looks for others. `beside`
    runs as long as the agent does.
    """

    def __init__(
        self,
        hub: Client,
        member: Client,
        cluster: str,
        *,
        server: Documents,
        clock: Clock,
        random: Random,
        metrics: Metrics,
        hub_hash: str,
        agent_id: str = "",
        settings: Settings | None = None,
        act_as: ActAs | None = None,
        turns: Turns | None = None,
        make_informer: Callable[..., Informer[Any]] = Informer,
        families: Sequence[Callable[[AgentContext], Family]] = FAMILIES,
        instance: str = "",
        beside: Sequence[Runnable] = (),
    ) -> None:
        self.context = AgentContext(
            hub,
            member,
            server,
            cluster,
            identity=Identity(hub_hash, agent_id or hub_hash),
            clock=clock,
            random=random,
            metrics=metrics,
            settings=settings or Settings(),
            act_as=act_as,
            turns=turns,
            make_informer=make_informer,
        )
        self._registration = Registration(self.context, ClusterLease(self.context, instance) if instance else None)
        self._beside = beside
        self._families = [family(self.context) for family in families]

    @property
    def informers(self) -> list[Informer[Any]]:
        """The caches without which nothing is applied."""
        return self.context.informers

    async def run(self) -> None:
        """Join the fleet and work until cancelled; the first failure that nobody handled ends everything."""
        cluster = await self._registration.join()
        self.context.identity.cluster_uid = cluster.metadata.uid
        await self._registration.hold()
        await run_families(self.context, self._families, self._registration, *self._beside)

    async def work(self, cluster_uid: str) -> None:
        """Work for a cluster that has joined, until cancelled, and say nothing of it: where nobody listens."""
        self.context.identity.cluster_uid = cluster_uid
        await run_families(self.context, self._families, *self._beside)
