"""How an agent runs: its families, its clients, and who it may act as."""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from random import Random
from secrets import token_hex

from echelon.agent.agent import FAMILIES, Agent
from echelon.agent.context import AgentContext, Family
from echelon.agent.policy.family import policy_controllers
from echelon.agent.settings import HOME_NAMESPACE, MANAGER, Settings
from echelon.agent.settings import hub_hash as hash_of
from echelon.agent.workload.family import workload_controllers
from echelon.cli.agent_hub import JoinedHub, KubeconfigHub
from echelon.cli.connection import Connection
from echelon.cli.listening import Address
from echelon.cli.logs import say
from echelon.cli.probes import probes
from echelon.cli.process import stop_on_signals, until
from echelon.kube.client import Client
from echelon.kube.clock import SystemClock
from echelon.kube.config import ClusterConfig, Impersonation
from echelon.kube.health import check_caches
from echelon.kube.http import HttpClient
from echelon.kube.metrics import Metrics


@dataclass(frozen=True)
class AgentOptions:
    """What an agent is told."""

    hub: KubeconfigHub | JoinedHub
    member: Connection
    agent_id: str
    hub_hash: str
    settings: Settings
    families: Sequence[Callable[[AgentContext], Family]]
    metrics_listen: Address | None


def families_with(*, policies: bool, workloads: bool) -> list[Callable[[AgentContext], Family]]:
    """Return what an agent does, with policies and federated workloads or without."""
    left_out = [*(() if policies else (policy_controllers,)), *(() if workloads else (workload_controllers,))]
    return [each for each in FAMILIES if each not in left_out]


async def serve(options: AgentOptions) -> None:
    """Work until asked to stop."""
    stopping, metrics = stop_on_signals(), Metrics()
    member_config, random = options.member.load(), Random()  # noqa: S311 - jitter is no secret
    own = (HOME_NAMESPACE, member_config.namespace)
    async with AsyncExitStack() as stack:
        member = await stack.enter_async_context(HttpClient(member_config, field_manager=MANAGER, user_agent=MANAGER))
        opening = asyncio.create_task(options.hub.open(stack, member, random), name="joining")
        await until(stopping, opening)
        if opening.cancelled():
            return
        hub = opening.result()
        made = Agent(
            hub.client,
            member,
            hub.cluster,
            server=member,
            clock=SystemClock(),
            random=random,
            metrics=metrics,
            hub_hash=options.hub_hash or hash_of(hub.host),
            agent_id=options.agent_id,
            settings=replace(options.settings, kept_namespaces=own),
            act_as=Impersonating(member_config, stack).client,
            families=options.families,
            instance=f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}",
            beside=hub.beside,
        )
        await stack.enter_async_context(probes(options.metrics_listen, metrics, lambda: [check_caches(made.informers)]))
        working = asyncio.create_task(made.run(), name="agent")
        say(f"the agent of {hub.cluster} works for {hub.host}")
        await until(stopping, working)
    say(f"the agent of {hub.cluster} has stopped")


class Impersonating:
    """Clients that act as others on the cluster, one for each, closed with everything else."""

    def __init__(self, config: ClusterConfig, stack: AsyncExitStack) -> None:
        self._config = config
        self._stack = stack
        self._clients: dict[str, HttpClient] = {}

    async def client(self, user: str) -> Client:
        """Return a client that acts as a user, in the groups that the server knows for it."""
        if user not in self._clients:
            config = replace(self._config, impersonation=Impersonation(user))
            made = HttpClient(config, field_manager=MANAGER, user_agent=MANAGER)
            self._clients[user] = await self._stack.enter_async_context(made)
        return self._clients[user]
