"""A fleet that is started again finds itself as it was, also under another address."""

import asyncio
import socket
from pathlib import Path

import pytest

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.coordination import LEASE
from echelon.api.core import CONFIG_MAP
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK
from echelon.fleet.local import Local, Settings
from echelon.kube.client import MergePatch
from echelon.kube.errors import NotFound

pytestmark = pytest.mark.full

PATIENCE_SECONDS = 60.0
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}
WORK: JSONObject = {
    "apiVersion": MANIFEST_WORK.api_version,
    "kind": MANIFEST_WORK.kind,
    "metadata": {"name": "w"},
    "spec": {"workload": {"manifests": [MANIFEST]}},
}


async def owners(local: Local, member: str) -> list[str]:
    """Return the records that the applied object belongs to; none if it is not there."""
    try:
        found = await local.hub.client(member).get(CONFIG_MAP, "one", "default")
    except NotFound:
        return []
    return [each.name for each in found.metadata.owner_references]


async def records(local: Local, member: str) -> list[str]:
    return [each.metadata.name for each in (await local.hub.client(member).list(APPLIED_MANIFEST_WORK)).items]


async def until_one_owner_besides(local: Local, member: str, before: list[str]) -> list[str]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await owners(local, member)
            if len(found) == 1 and found != before and await records(local, member) == found:
                return found
            await asyncio.sleep(0.05)


def test_members_begin_with_all_that_their_agents_define() -> None:
    async def main() -> None:
        local = await Local.start(Settings("2 clusters"))
        try:
            clients = [local.hub.client(name) for name in local.fleet.members]
            listed = [(await client.list(CUSTOM_RESOURCE_DEFINITION.untyped())).items for client in clients]
            kinds = [{each["spec"]["names"]["kind"]: each["metadata"] for each in items} for items in listed]
            groves = {"PodCliqueSet", "PodClique", "PodCliqueScalingGroup", "PodGang"}
            assert kinds[0].keys() == {"AppliedManifestWork", "CloneSet", "Policy", "ConfigurationPolicy"} | groves
            # A later version applies its own over them, as it does on the hub.
            assert all(meta["managedFields"][0]["operation"] == "Apply" for meta in kinds[0].values())
            assert len({meta["uid"] for each in kinds for meta in each.values()}) == 16
            assert (await clients[0].list(CONFIGURATION_POLICY)).items == []
        finally:
            await local.stop()

    asyncio.run(main())


def test_a_set_of_pod_cliques_that_is_applied_to_a_member_comes_to_life_there(tmp_path: Path) -> None:
    spec: JSONObject = {"roleName": "r", "replicas": 2, "podSpec": {"containers": [{"name": "main", "image": "v1"}]}}
    body: JSONObject = {
        **POD_CLIQUE_SET.type_meta,
        "metadata": {"name": "w"},
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "front", "spec": spec}]}},
    }

    async def available(local: Local, member: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = await local.hub.client(member).get(POD_CLIQUE_SET, "w", "default")
                if found.status.available_replicas == found.spec.replicas:
                    return
                await asyncio.sleep(0.05)

    async def first() -> str:
        local = await Local.start(Settings("2 clusters", data=tmp_path))
        try:
            member, other = local.fleet.members
            await local.hub.client(member).create(POD_CLIQUE_SET.untyped(), body, "default")
            await available(local, member)
            assert (await local.hub.client(other).list(LEASE, "echelon-system")).items == [], "nothing runs there"
            return member
        finally:
            await local.stop()

    async def again(member: str) -> None:
        local = await Local.start(Settings("2 clusters", data=tmp_path))
        try:
            patch = MergePatch({"spec": {"replicas": 2}})
            await local.hub.client(member).patch(POD_CLIQUE_SET.untyped(), "w", patch, "default")
            await available(local, member)
        finally:
            await local.stop()

    asyncio.run(again(asyncio.run(first())))


def test_a_fleet_under_another_port_goes_on_with_what_it_applied_and_can_remove_it(tmp_path: Path) -> None:
    async def first() -> tuple[str, int, list[str]]:
        local = await Local.start(Settings("1 clusters", data=tmp_path))
        try:
            await local.wait_joined()
            (member,) = local.fleet.members
            await local.hub.client().create(MANIFEST_WORK.untyped(), WORK, member)
            return member, local.hub.port, await until_one_owner_besides(local, member, [])
        finally:
            await local.stop()

    async def moved(member: str, before: list[str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        local = await Local.start(Settings("1 clusters", data=tmp_path, port=port))
        try:
            await until_one_owner_besides(local, member, before)
            await local.hub.client().delete(MANIFEST_WORK, "w", member)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while await owners(local, member):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.05)
        finally:
            await local.stop()

    async def again(port: int) -> None:
        local = await Local.start(Settings("1 clusters", data=tmp_path))
        try:
            assert local.hub.port != port
        finally:
            await local.stop()

    member, port, before = asyncio.run(first())
    asyncio.run(moved(member, before))
    asyncio.run(again(port))
