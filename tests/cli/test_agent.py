"""`echelon agent` as a process of its own, between a hub and a cluster of the embedded kind."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from echelon.agent.agent import FAMILIES
from echelon.agent.policy.family import policy_controllers
from echelon.agent.work_controllers import work_controllers
from echelon.agent.workload.family import workload_controllers
from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.namespaces import NAMESPACE
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK
from echelon.cli import main
from echelon.cli.agent_process import families_with
from echelon.cli.hub import write_kubeconfig
from echelon.hub.server import Hub, Settings
from echelon.kube.errors import NotFound

PATIENCE_SECONDS = 60.0
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}


@asynccontextmanager
async def fleet_of_one(kubeconfig: Path) -> AsyncIterator[Hub]:
    """A hub with a cluster and a work for it; its kubeconfig ends the hub's address with a slash."""
    hub = await Hub.start(Settings(clusters=["c1"]))
    try:
        client = hub.client()
        for definition in registry.crds():
            if definition["spec"]["names"]["kind"] in ("ManagedCluster", "ManifestWork"):
                await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        await client.create(NAMESPACE.untyped(), {"metadata": {"name": "c1"}})
        for kind, spec, namespace in (
            (MANAGED_CLUSTER, {"hubAcceptsClient": True}, ""),
            (MANIFEST_WORK, {"workload": {"manifests": [MANIFEST]}}, "c1"),
        ):
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "c1"}, "spec": spec}
            await client.create(kind.untyped(), body, namespace)
        write_kubeconfig(hub, kubeconfig)
        end_with_a_slash(kubeconfig)
        yield hub
    finally:
        await hub.stop()


def end_with_a_slash(kubeconfig: Path) -> None:
    content = yaml.safe_load(kubeconfig.read_text())
    for entry in content["clusters"]:
        entry["cluster"]["server"] += "/" if entry["name"] == "echelon" else ""
    kubeconfig.write_text(yaml.safe_dump(content))


async def records(hub: Hub) -> list[str]:
    try:
        return [each.metadata.name for each in (await hub.client("c1").list(APPLIED_MANIFEST_WORK)).items]
    except NotFound:
        return []


async def run_agent_until(hub: Hub, kubeconfig: Path, expected: list[str], *options: str) -> None:
    where = ["--hub-kubeconfig", kubeconfig, "--kubeconfig", kubeconfig, "--context", "echelon-c1"]
    command = [sys.executable, "-m", "echelon", "agent", "--cluster", "c1", *map(str, where), *options]
    agent = await asyncio.create_subprocess_exec(*command)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await records(hub) != expected:  # noqa: ASYNC110 - another process tells nobody
                await asyncio.sleep(0.05)
    finally:
        agent.terminate()
        await agent.wait()


@pytest.mark.long
def test_records_are_named_after_the_address_as_the_kubeconfig_has_it_and_another_name_takes_them_over(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        kubeconfig = tmp_path / "kubeconfig"
        async with fleet_of_one(kubeconfig) as hub:
            spelled = sha256(f"{hub.url()}/".encode()).hexdigest()
            await run_agent_until(hub, kubeconfig, [f"{spelled}-c1"])
            await run_agent_until(hub, kubeconfig, ["here-c1"], "--hub-hash", "here")

    asyncio.run(story())


def test_an_agent_can_leave_policies_and_federated_workloads_alone() -> None:
    assert families_with(policies=True, workloads=True) == list(FAMILIES)
    assert families_with(policies=False, workloads=True) == [work_controllers, workload_controllers]
    assert families_with(policies=True, workloads=False) == [work_controllers, policy_controllers]
    assert families_with(policies=False, workloads=False) == [work_controllers]


def test_a_hash_that_cannot_be_part_of_a_name_is_refused() -> None:
    done = CliRunner().invoke(main, ["agent", "--cluster", "c1", "--hub-context", "hub", "--hub-hash", "Über"])
    assert done.exit_code == 2
    assert "'Über' must be up to 64 lower-case letters" in done.output
