"""`echelon cluster detach` against a hub with controllers, with and without an agent."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from click.testing import CliRunner, Result
from tests.controllers.strict import STRICT, end

from echelon.agent.agent import Agent
from echelon.agent.settings import Settings as AgentSettings
from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.coordination import LEASE
from echelon.api.core import CONFIG_MAP
from echelon.api.karmada import WORK
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.work import MANIFEST_WORK
from echelon.cli import main
from echelon.cli.hub import write_kubeconfig
from echelon.controllers.running import Controllers
from echelon.hub.server import Hub, Settings
from echelon.kube.client import Client, MergePatch
from echelon.kube.clock import SystemClock
from echelon.kube.errors import NotFound
from echelon.kube.metrics import Metrics

PATIENCE_SECONDS = 60.0
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}
CHANCE = Random(1)  # noqa: S311 - jitter is no secret


@dataclass
class Place:
    """A hub with an accepted cluster that has one work."""

    hub: Hub
    kubeconfig: Path
    tasks: list[asyncio.Task[None]]

    async def detach(self, *arguments: str, code: int = 0) -> Result:
        command = ["cluster", "detach", *arguments, "--kubeconfig", str(self.kubeconfig)]
        done = await asyncio.to_thread(CliRunner().invoke, main, command)
        assert done.exit_code == code, done.output
        return done

    def start_agent(self) -> None:
        hub, member = self.hub.client(), self.hub.client("eu-1")
        agent = Agent(
            hub,
            member,
            "eu-1",
            server=member,
            clock=SystemClock(),
            random=CHANCE,
            metrics=Metrics(),
            hub_hash="hub",
            settings=AgentSettings(strict=True),
        )
        self.tasks.append(asyncio.create_task(agent.run()))

    async def until(self, reached: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await reached():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)

    async def has(self, kind: Kind[Any], name: str, namespace: str = "", cluster: str = "") -> bool:
        try:
            await self.hub.client(cluster).get(kind.untyped(), name, namespace)
        except NotFound:
            return False
        return True


@asynccontextmanager
async def place(directory: Path, kinds: Sequence[str]) -> AsyncIterator[Place]:
    hub = await Hub.start(Settings(clusters=["eu-1"]))
    here = Place(hub, directory / "kubeconfig", [])
    try:
        client = hub.client()
        for definition in registry.crds():
            if definition["spec"]["names"]["kind"] in kinds:
                await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        write_kubeconfig(hub, here.kubeconfig)
        made = Controllers(
            client,
            SystemClock(),
            ["cluster-registration"],
            random=CHANCE,
            metrics=Metrics(),
            instance="test",
            settings=STRICT,
        )
        here.tasks.append(asyncio.create_task(made.run()))
        await create(client, MANAGED_CLUSTER, "eu-1", {"hubAcceptsClient": True})
        await here.until(lambda: here.has(NAMESPACE, "eu-1"))
        await create(client, MANIFEST_WORK, "w", {"workload": {"manifests": [MANIFEST]}}, "eu-1")
        yield here
    finally:
        try:
            await end(*here.tasks)
        finally:
            await hub.stop()


async def create(client: Client, kind: Kind[Any], name: str, spec: JSONObject, namespace: str = "") -> None:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
    await client.create(kind.untyped(), body, namespace)


async def held_by_an_agent_that_is_gone(here: Place) -> None:
    """Leave the work as an agent leaves it that dies after it has applied it."""
    here.start_agent()
    await here.until(lambda: here.has(CONFIG_MAP, "one", "default", "eu-1"))

    async def reported() -> bool:
        work = await here.hub.client().get(MANIFEST_WORK, "w", "eu-1")
        return bool(work.status.resource_status.manifests) and await here.has(LEASE, "managed-cluster-lease", "eu-1")

    await here.until(reported)
    agent = here.tasks.pop()
    await end(agent)
    long_ago = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    body = MergePatch({"spec": {"renewTime": long_ago}})
    await here.hub.client().patch(LEASE, "managed-cluster-lease", body, "eu-1")


def told(
    story: Callable[[Place], Awaitable[None]],
    directory: Path,
    kinds: Sequence[str] = ("ManagedCluster", "ManifestWork"),
) -> None:
    async def run() -> None:
        async with place(directory, kinds) as here:
            await story(here)

    asyncio.run(run())


def test_a_cluster_whose_agent_lives_is_detached_and_its_workloads_are_gone(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        here.start_agent()
        await here.until(lambda: here.has(CONFIG_MAP, "one", "default", "eu-1"))
        shown = (await here.detach("eu-1", "--dry-run")).output
        assert "cluster eu-1 would leave the fleet" in shown
        assert "1: w" in shown
        assert await here.has(MANAGED_CLUSTER, "eu-1")
        await here.until(lambda: here.has(LEASE, "managed-cluster-lease", "eu-1"))
        refused = (await here.detach("eu-1", "--force", code=1)).output
        assert "--force would leave its workloads behind" in refused
        assert not (await here.hub.client().get(MANAGED_CLUSTER, "eu-1")).metadata.deletion_timestamp
        assert "cluster eu-1 has left the fleet" in (await here.detach("eu-1")).output
        assert not await here.has(CONFIG_MAP, "one", "default", "eu-1")
        assert not await here.has(NAMESPACE, "eu-1")

    told(story, tmp_path)


def test_without_an_agent_the_command_says_so_and_force_ends_it_and_names_what_stays(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await held_by_an_agent_that_is_gone(here)
        said = (await here.detach("eu-1", "--timeout", "1", code=4)).output
        assert "its agent was last heard 120m ago" in said
        assert "echelon cluster detach eu-1 --force" in said
        assert "cluster eu-1 is still there after 1 s: waits for works to end, 1 of them: w" in said
        forced = (await here.detach("eu-1", "--force")).output
        assert "ConfigMap default/one of w" in forced
        assert "cluster eu-1 has left the fleet" in forced
        assert await here.has(CONFIG_MAP, "one", "default", "eu-1")
        assert not await here.has(NAMESPACE, "eu-1")
        assert not await here.has(MANAGED_CLUSTER, "eu-1")

    told(story, tmp_path)


def test_force_ends_the_works_of_federated_workloads_too(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        space, client = "karmada-es-eu-1", here.hub.client()
        await here.until(lambda: here.has(NAMESPACE, space))
        await create(client, WORK, "web", {"workload": {"manifests": []}}, space)
        identifier = {"ordinal": 0, "version": "v1", "kind": "Deployment", "resource": "deployments", "name": "web"}
        told = {"manifestStatuses": [{"identifier": {**identifier, "group": "apps", "namespace": "default"}}]}
        await client.patch(WORK.untyped(), "web", MergePatch({"status": told}), space, subresource="status")
        held = {"metadata": {"finalizers": ["karmada.io/execution-controller"]}}
        await client.patch(WORK.untyped(), "web", MergePatch(held), space)
        waiting = (await here.detach("eu-1", "--timeout", "1", code=4)).output
        assert "waits for works to end" in waiting
        forced = (await here.detach("eu-1", "--force")).output
        assert "Deployment default/web of web" in forced
        assert "cluster eu-1 has left the fleet" in forced
        assert not await here.has(NAMESPACE, space)

    told(story, tmp_path, ("ManagedCluster", "ManifestWork", "Work"))


def test_one_can_leave_without_waiting_and_a_name_that_is_mistyped_hurts_nobody(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        assert 'no cluster "eu-2"; did you mean eu-1?' in (await here.detach("eu-2", "--force", code=5)).output
        assert 'no cluster "nowhere"; it has 1 clusters' in (await here.detach("nowhere", code=5)).output
        assert await here.has(MANIFEST_WORK, "w", "eu-1")
        assert "cluster eu-1 is leaving" in (await here.detach("eu-1", "--no-wait")).output

        async def gone() -> bool:
            return not await here.has(MANAGED_CLUSTER, "eu-1")

        await here.until(gone)

    told(story, tmp_path)
