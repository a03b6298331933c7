"""Who is on the way out is decided for no more, and gets nothing new."""

import pytest

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.crd import crd
from echelon.api.karmada import WORK
from echelon.api.namespaces import NAMESPACE
from echelon.api.work import GROUP as WORK_GROUP
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.cluster.leaving import NamespaceGuard, is_leaving
from echelon.kube.errors import Conflict
from tests.controllers.hub import NS, Hub, told
from tests.controllers.work_world import WorkWorld
from tests.controllers.work_world import told as told_of_works

MANIFEST: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}}


async def serve_works(hub: Hub) -> None:
    for definition in registry.crds():
        if definition["spec"]["group"] == WORK_GROUP:
            await hub.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)


async def works(hub: Hub, cluster: str) -> list[str]:
    found = (await hub.client.list(MANIFEST_WORK, cluster)).items
    return sorted(each.metadata.name for each in found if not each.metadata.deletion_timestamp)


async def work_set(hub: Hub, name: str) -> None:
    template: JSONObject = {"workload": {"manifests": [MANIFEST]}}
    refs = [{"name": "p", "rolloutStrategy": {"type": "All"}}]
    spec = {"manifestWorkTemplate": template, "placementRefs": refs}
    await hub.create(MANIFEST_WORK_REPLICA_SET, name, NS, spec=spec)
    await hub.settle()


def test_a_cluster_that_waits_for_its_end_is_in_no_decision_and_gets_no_works() -> None:
    async def story(hub: Hub) -> None:
        await serve_works(hub)
        hub.start("placement", "work-sets", "cluster-registration")
        await hub.bound_set()
        await hub.clusters(["a", "b"])
        await hub.place()
        await hub.settle()
        await work_set(hub, "one")
        assert await works(hub, "a") == await works(hub, "b") == ["one"]
        held = {"metadata": {"finalizers": ["example.com/agent"]}}  # whose agent is away
        await hub.patch(MANIFEST_WORK, "one", held, "a")
        await hub.delete(MANAGED_CLUSTER, "a")
        await hub.settle()
        assert is_leaving(await hub.client.get(MANAGED_CLUSTER, "a"))
        assert await hub.selected() == ["b"]
        await work_set(hub, "two")
        assert await works(hub, "a") == []
        assert await works(hub, "b") == ["one", "two"]

    told(story)


def test_a_cluster_that_waits_for_its_end_gets_no_works_although_somebody_else_decided_for_it() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        for name in ("a", "b"):
            await world.hub.cluster(name)
        await world.hub.patch(MANAGED_CLUSTER, "a", {"metadata": {"finalizers": ["example.com/hold"]}})
        await world.hub.delete(MANAGED_CLUSTER, "a")
        world.start()
        await world.roll_out()
        await world.settle()
        assert await world.at("1") == ["b"]

    told_of_works(story)


def test_a_namespace_is_not_deleted_while_the_server_knows_of_a_work_in_it() -> None:
    async def story(hub: Hub) -> None:
        await serve_works(hub)
        await hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": "a"}})
        await hub.create(MANIFEST_WORK, "w", "a", spec={"workload": {"manifests": [MANIFEST]}})
        seen = "1"
        careful = NamespaceGuard(hub.client, lambda _: seen)
        with pytest.raises(Conflict, match="namespace a has works"):
            await careful.delete(NAMESPACE, "a")
        assert not (await hub.client.get(NAMESPACE, "a")).metadata.deletion_timestamp
        await hub.delete(MANIFEST_WORK, "w", "a")
        seen = "1000000"  # by somebody who knows more than the server that answers
        with pytest.raises(Conflict, match="or may have some"):
            await careful.delete(NAMESPACE, "a")
        seen = "1"
        await careful.delete(NAMESPACE, "a")
        assert (await hub.client.get(NAMESPACE, "a")).metadata.deletion_timestamp

    told(story)


def test_works_of_federated_workloads_go_before_the_namespace_that_holds_the_rights_to_them() -> None:
    async def story(hub: Hub) -> None:
        await serve_works(hub)
        await hub.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), crd(WORK))
        hub.start("cluster-registration")
        await hub.clusters(["a"])
        await hub.settle()
        space, held = "karmada-es-a", {"finalizers": ["karmada.io/execution-controller"]}
        body: JSONObject = {"metadata": {"name": "w", **held}, "spec": {"workload": {"manifests": [MANIFEST]}}}
        await hub.client.create(WORK.untyped(), {"apiVersion": WORK.api_version, "kind": "Work", **body}, space)
        await hub.settle()
        await hub.delete(MANAGED_CLUSTER, "a")
        await hub.settle()
        assert (await hub.client.get(WORK, "w", space)).metadata.deletion_timestamp
        for namespace in ("a", space):
            assert not (await hub.client.get(NAMESPACE, namespace)).metadata.deletion_timestamp
        said = (await hub.client.get(MANAGED_CLUSTER, "a")).status.conditions[-1]
        assert said.message.startswith("The agent has to remove 1 work (w) from the cluster")
        await hub.patch(WORK, "w", {"metadata": {"finalizers": None}}, space)  # as its agent does
        await hub.settle()
        for namespace in ("a", space):  # nobody is here who would end them
            assert (await hub.client.get(NAMESPACE, namespace)).metadata.deletion_timestamp

    told(story)


def test_an_execution_namespace_is_not_deleted_while_the_server_knows_of_a_work_in_it() -> None:
    async def story(hub: Hub) -> None:
        await serve_works(hub)
        await hub.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), crd(WORK))
        await hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": "karmada-es-a"}})
        await hub.create(WORK, "w", "karmada-es-a", spec={"workload": {"manifests": [MANIFEST]}})
        asked: list[str] = []

        def version_of(cluster: str) -> str:
            asked.append(cluster)
            return "1"

        with pytest.raises(Conflict, match="namespace karmada-es-a has works"):
            await NamespaceGuard(hub.client, version_of).delete(NAMESPACE, "karmada-es-a")
        await hub.delete(WORK, "w", "karmada-es-a")
        await NamespaceGuard(hub.client, version_of).delete(NAMESPACE, "karmada-es-a")
        assert set(asked) == {"a"}

    told(story)
