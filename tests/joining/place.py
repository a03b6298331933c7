"""A hub over TLS and a cluster, with Echelon's controllers, and an agent that joins with what a command prints."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from click.testing import CliRunner, Result

from echelon.agent.agent import Agent
from echelon.agent.joining import Invitation, Joining
from echelon.agent.membership import Membership, MembershipCredentials, MembershipSecret
from echelon.agent.renewal import Renewal
from echelon.agent.settings import MANAGER, Settings, hub_hash
from echelon.agent.work_controllers import work_controllers
from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.authentication import SELF_SUBJECT_REVIEW
from echelon.api.certificates import CERTIFICATE_SIGNING_REQUEST, CertificateSigningRequest
from echelon.api.cluster import GROUP as CLUSTER_GROUP
from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.api.core import CONFIG_MAP
from echelon.api.work import GROUP as WORK_GROUP
from echelon.api.work import MANIFEST_WORK
from echelon.cli import main
from echelon.controllers.running import Controllers
from echelon.engine.conditions import find_condition
from echelon.kube.client import Client, MergePatch
from echelon.kube.clock import SystemClock
from echelon.kube.config import load
from echelon.kube.errors import AlreadyExists, ApiError, NotFound
from echelon.kube.http import HttpClient
from echelon.kube.metrics import Metrics
from tests.controllers.strict import STRICT, end

PATIENCE_SECONDS = 120.0
CONTROLLERS = ("cluster-registration", "cluster-joining", "cluster-health")
CHANCE = Random(1)  # noqa: S311 - jitter is no secret
SECRET = ("echelon-agent", "hub-identity")


@dataclass
class Shifted:
    """A clock that can be put forward."""

    by: timedelta = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.by


@dataclass
class Running:
    """An agent that runs, or waits for its certificate."""

    task: asyncio.Task[None]
    credentials: MembershipCredentials | None = None
    hub: HttpClient | None = None


@dataclass
class Place:
    """The hub, as its administrator, and the cluster."""

    kubeconfig: Path
    hub: HttpClient
    member: HttpClient
    context: str | None = None
    clock: Shifted = field(default_factory=Shifted)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def echelon(self, *arguments: str, code: int = 0) -> Result:
        """Run a command of the administrator's."""
        where = ["--kubeconfig", str(self.kubeconfig), *(["--context", self.context] if self.context else [])]
        done = await asyncio.to_thread(CliRunner().invoke, main, [*arguments, *where], catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done

    async def invitation(self, *arguments: str) -> Invitation:
        printed = (await self.echelon("cluster", "join", *arguments)).stdout.strip()
        command, _, text = printed.rpartition(" --join ")
        assert command.startswith("echelon agent"), printed
        return Invitation.read(text)

    def run_controllers(self, client: Client, auto_accept: Sequence[str] = ()) -> None:
        settings = replace(STRICT, auto_accept=tuple(auto_accept))
        made = Controllers(
            client, SystemClock(), CONTROLLERS, random=CHANCE, metrics=Metrics(), instance="test", settings=settings
        )
        self.tasks.append(asyncio.create_task(made.run()))

    def start_agent(self, invitation: Invitation | None = None, *, instance: str = "one", **given: Any) -> Running:
        running = Running(asyncio.create_task(asyncio.sleep(0)))
        running.task = asyncio.create_task(self._agent(running, invitation, instance, **given))
        self.tasks.append(running.task)
        return running

    async def _agent(self, running: Running, invitation: Invitation | None, instance: str, cluster: str = "") -> None:
        chance, kept = CHANCE, MembershipSecret(self.member, *SECRET)
        joining = Joining(kept, HttpClient, chance, invitation, cluster, seconds=600)
        running.credentials = MembershipCredentials(await joining.membership(self.clock.now()))
        held = running.credentials.membership
        async with AsyncExitStack() as stack:
            hub = HttpClient(held.config, credentials=running.credentials)
            running.hub = await stack.enter_async_context(hub)
            renewal = Renewal(
                hub, running.credentials, kept, clock=self.clock, random=chance, seconds=600, look_seconds=0.2
            )
            agent = Agent(
                hub,
                self.member,
                held.cluster,
                server=self.member,
                clock=SystemClock(),
                random=chance,
                metrics=Metrics(),
                hub_hash=hub_hash(held.server),
                settings=Settings(strict=True),
                families=(work_controllers,),
                instance=instance,
                beside=(renewal,),
            )
            await agent.run()

    async def stop(self, running: Running) -> None:
        self.tasks.remove(running.task)
        await end(running.task)

    async def kept(self) -> Membership:
        found = await MembershipSecret(self.member, *SECRET).read()
        assert found is not None
        return found

    async def cluster(self, name: str) -> ManagedCluster:
        return await self.hub.get(MANAGED_CLUSTER, name)

    async def is_said(self, name: str, condition: str) -> bool:
        said = find_condition((await self.cluster(name)).status.conditions, condition)
        return said is not None and said.status == "True"

    async def requests(self) -> list[CertificateSigningRequest]:
        return list((await self.hub.list(CERTIFICATE_SIGNING_REQUEST)).items)

    async def applies(self, cluster: str, value: str) -> None:
        """See that the cluster gets what the hub has for it."""
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"from-{cluster}", "namespace": "default"},
            "data": {"value": value},
        }
        spec = {"workload": {"manifests": [manifest]}}
        try:
            body = {**MANIFEST_WORK.type_meta, "metadata": {"name": "w"}, "spec": spec}
            await self.hub.create(MANIFEST_WORK.untyped(), body, cluster)
        except AlreadyExists:
            await self.hub.patch(MANIFEST_WORK, "w", MergePatch({"spec": spec}), cluster)

        async def applied() -> bool:
            found = await self.member.get(CONFIG_MAP, f"from-{cluster}", "default")
            return found.data.get("value") == value

        await self.until(applied, f"{cluster} does not get {value}")

    async def until(self, reached: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait for something; a hub that is away for the moment is no failure, an agent that ended is."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            for task in self.tasks:
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    raise error
            with suppress(NotFound, *AWAY):
                if await reached():
                    return
            assert time.monotonic() < deadline, what
            await asyncio.sleep(0.05)


AWAY = (ApiError,)


async def install(client: Client) -> None:
    """Have Echelon's kinds of clusters and works."""
    for definition in registry.crds():
        if definition["spec"]["group"] in (CLUSTER_GROUP, WORK_GROUP):
            with suppress(AlreadyExists):
                await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    for kind in (MANAGED_CLUSTER.untyped(), MANIFEST_WORK.untyped()):
        while True:
            with suppress(NotFound):
                await client.list(kind, limit=1)
                break
            await asyncio.sleep(0.1)


async def whoami(client: Client) -> tuple[str, list[str]]:
    answer = await client.create(SELF_SUBJECT_REVIEW, SELF_SUBJECT_REVIEW.type_meta)
    return answer.status.user_info.username, list(answer.status.user_info.groups)


def client_of(kubeconfig: Path, context: str | None = None) -> HttpClient:
    return HttpClient(load(kubeconfig, context), field_manager=MANAGER)
