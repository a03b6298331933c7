"""One object that a controller cannot deal with: it holds nothing else up, is tried again, and somebody is told.

The object is as large as one may be, so that not even the mark of its deletion fits. In virtual time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.core import CONFIG_MAP
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import CLUSTER_ROLE
from echelon.api.work import MANIFEST_WORK
from echelon.fleet.loop import run
from echelon.hub.client import InProcessClient
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.hub.storage.store import MAX_OBJECT_BYTES
from echelon.kube.client import DeleteOptions, MergePatch
from tests.hub.api import config_map, managed_cluster

CRD = CUSTOM_RESOURCE_DEFINITION.untyped()
MAP, WORK, ROLE, CLUSTER = (kind.untyped() for kind in (CONFIG_MAP, MANIFEST_WORK, CLUSTER_ROLE, MANAGED_CLUSTER))
SETTLED_SECONDS = 3600.0

Story = Callable[[InProcessClient], Awaitable[None]]


def in_kept_cluster(story: Story) -> None:
    async def main() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        client = InProcessClient(cluster, ROOT)
        for crd in registry.crds():
            if crd["spec"]["names"]["kind"] in ("ManifestWork", "ManagedCluster"):
                await client.create(CRD, crd)
        keeping = asyncio.create_task(run_controllers(cluster))
        await story(client)
        assert not keeping.done()
        keeping.cancel()

    run(main())


def work(name: str, size: int = 0, **meta: Any) -> dict[str, Any]:
    manifest = config_map("m", text="x" * size)
    return {
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {"name": name, **meta},
        "spec": {"workload": {"manifests": [manifest]}},
    }


async def create_largest(client: InProcessClient, name: str, namespace: str = "default", **meta: Any) -> None:
    """Create a work to which nothing can be added; it has a finalizer, so its deletion begins with a mark."""
    meta |= {"finalizers": ["example.com/hold"]}
    small = await client.create(WORK, work(f"{name}-measured", **meta), namespace)
    size = len(msgspec.json.encode(small)) - len("-measured")
    await client.create(WORK, work(name, MAX_OBJECT_BYTES - size - 4, **meta), namespace)
    with pytest.raises(Exception, match="request is too large"):
        await client.delete(WORK, name, namespace)
    await release(client, f"{name}-measured", namespace)
    await client.delete(WORK, f"{name}-measured", namespace)


async def release(client: InProcessClient, name: str, namespace: str = "default") -> None:
    await client.patch(WORK, name, MergePatch({"metadata": {"finalizers": None}}), namespace)


async def left(client: InProcessClient, kind: Any = WORK, namespace: str = "") -> set[str]:
    await asyncio.sleep(SETTLED_SECONDS)
    return {obj["metadata"]["name"] for obj in (await client.list(kind, namespace)).items}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_garbage_that_cannot_be_collected_does_not_keep_other_garbage(
    propagation: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(client: InProcessClient) -> None:
        owner = (await client.create(MAP, config_map("owner"), "default"))["metadata"]["uid"]
        owned: dict[str, Any] = {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner, "blockOwnerDeletion": True}
            ]
        }
        await create_largest(client, "largest", **owned)
        await client.create(WORK, work("small", **owned), "default")
        await client.delete(MAP, "owner", "default", options=DeleteOptions(propagation=propagation))
        assert await left(client) == {"largest"}
        late = (await client.create(MAP, config_map("late"), "default"))["metadata"]["uid"]
        await client.create(MAP, config_map("child") | {"metadata": {"name": "child", "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "late", "uid": late}]}}, "default")  # fmt: skip
        await client.delete(MAP, "late", "default")
        assert "child" not in await left(client, MAP)
        told = [text for text in warnings(caplog) if "largest" in text or "owner" in text]
        assert 1 <= len(told) <= 2  # the object, and its owner if that waits for it; hours of trying are no news
        assert all("request is too large" in text for text in told)
        await release(client, "largest")
        assert await left(client) == set()
        assert "owner" not in await left(client, MAP)

    in_kept_cluster(story)


def test_an_object_that_stays_does_not_keep_the_rest_of_its_namespace_nor_other_namespaces() -> None:
    async def story(client: InProcessClient) -> None:
        for name in ("first", "second"):
            await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await create_largest(client, "largest", "first")
        for name in ("another", "more"):
            await client.create(WORK, work(name), "first")
        await client.delete(NAMESPACE, "first")
        await client.delete(NAMESPACE, "second")
        assert await left(client) == {"largest"}
        assert "second" not in await left(client, NAMESPACE.untyped())
        first = await client.get(NAMESPACE.untyped(), "first")
        told = {condition["type"]: condition for condition in first["status"]["conditions"]}
        failure = told["NamespaceDeletionContentFailure"]
        assert (failure["status"], failure["reason"]) == ("True", "ContentDeletionFailed")
        assert "largest" in failure["message"]
        assert "request is too large" in failure["message"]
        assert told["NamespaceContentRemaining"]["status"] == "True"
        await release(client, "largest", "first")
        assert "first" not in await left(client, NAMESPACE.untyped())

    in_kept_cluster(story)


def test_an_object_that_stays_does_not_keep_the_rest_of_its_definition_nor_other_definitions() -> None:
    async def story(client: InProcessClient) -> None:
        await create_largest(client, "largest")
        await client.create(WORK, work("more"), "default")
        await client.create(CLUSTER, managed_cluster("c"))
        name = "manifestworks.work.open-cluster-management.io"
        await client.delete(CRD, name)
        await client.delete(CRD, "managedclusters.cluster.open-cluster-management.io")
        assert await left(client) == {"largest"}
        assert await left(client, CRD) == {name}
        told = {condition["type"]: condition for condition in (await client.get(CRD, name))["status"]["conditions"]}
        assert (told["Terminating"]["status"], told["Terminating"]["reason"]) == ("True", "InstanceDeletionFailed")
        assert "request is too large" in told["Terminating"]["message"]
        await release(client, "largest")
        assert await left(client, CRD) == set()

    in_kept_cluster(story)


def test_a_role_that_becomes_too_large_does_not_keep_others_from_being_aggregated() -> None:
    def role(name: str, labels: dict[str, str], count: int = 0, selects: str = "") -> dict[str, Any]:
        rules = [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["x" * 60 + f"{name}{i}"]}
            for i in range(count)
        ]
        body: dict[str, Any] = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name, "labels": labels},
            "rules": rules,
        }
        if selects:
            body |= {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {selects: "yes"}}]}, "rules": []}
        return body

    async def rules(client: InProcessClient, name: str) -> int:
        await asyncio.sleep(SETTLED_SECONDS)
        return len((await client.get(ROLE, name)).get("rules") or [])

    async def story(client: InProcessClient) -> None:
        for number in range(3):
            await client.create(ROLE, role(f"part{number}", {"large": "yes"}, 5000))
        await client.create(ROLE, role("piece", {"small": "yes"}, 3))
        await client.create(ROLE, role("a-large", {}, selects="large"))
        await client.create(ROLE, role("b-small", {}, selects="small"))
        assert await rules(client, "a-large") == 0
        assert await rules(client, "b-small") == 3
        for number in range(1, 3):
            await client.delete(ROLE, f"part{number}")
        assert await rules(client, "a-large") == 5000

    in_kept_cluster(story)
