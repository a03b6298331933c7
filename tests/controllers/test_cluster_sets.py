"""Conditions of sets and bindings, and the two sets that every hub has."""

from typing import Any

from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.kinds import Kind
from tests.controllers.hub import NS, SET_LABEL, Hub, names, told

ANNOTATION = "cluster.open-cluster-management.io/autoupdate"


async def said(hub: Hub, kind: Kind[Any], name: str, namespace: str = "") -> tuple[str, str, str]:
    found = await hub.client.get(kind, name, namespace)
    (condition,) = found.status.conditions
    assert condition.observed_generation == found.metadata.generation
    return condition.status, condition.reason, condition.message


async def selector(hub: Hub, name: str) -> Any:
    return (await hub.client.get(MANAGED_CLUSTER_SET.untyped(), name))["spec"]["clusterSelector"]


GLOBAL = {"selectorType": "LabelSelector", "labelSelector": {}}
DEFAULT = {"selectorType": "ExclusiveClusterSetLabel"}


def test_every_hub_has_a_default_and_a_global_set() -> None:
    async def story(hub: Hub) -> None:
        hub.start("cluster-sets")
        await hub.settle()
        assert await selector(hub, "default") == DEFAULT
        assert await selector(hub, "global") == GLOBAL
        for name in ("default", "global"):
            await hub.delete(MANAGED_CLUSTER_SET, name)
        await hub.settle()
        assert await selector(hub, "default") == DEFAULT
        assert await selector(hub, "global") == GLOBAL

    told(story)


def test_what_they_select_is_set_right_unless_they_say_that_it_is_meant() -> None:
    async def story(hub: Hub) -> None:
        hub.start("cluster-sets")
        await hub.settle()
        other = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"a": "b"}}}
        for name in ("default", "global"):
            await hub.patch(MANAGED_CLUSTER_SET, name, {"spec": {"clusterSelector": other}})
        await hub.settle()
        assert await selector(hub, "default") == DEFAULT
        assert await selector(hub, "global") == GLOBAL
        meant = {"metadata": {"annotations": {ANNOTATION: "false"}}, "spec": {"clusterSelector": other}}
        await hub.patch(MANAGED_CLUSTER_SET, "global", meant)
        await hub.settle()
        assert await selector(hub, "global") == other

    told(story)


def test_a_set_says_how_many_clusters_it_has() -> None:
    async def story(hub: Hub) -> None:
        await hub.cluster_set("x", {"matchLabels": {"vendor": "x"}})
        hub.start("cluster-sets")
        await hub.settle()
        empty = ("True", "NoClusterMatched", "No ManagedCluster selected")
        assert await said(hub, MANAGED_CLUSTER_SET, "x") == empty
        assert await said(hub, MANAGED_CLUSTER_SET, "global") == empty
        await hub.clusters(names("c", 3), "default", vendor="x")
        await hub.settle()
        three = ("False", "ClustersSelected", "3 ManagedClusters selected")
        for name in ("x", "global", "default"):
            assert await said(hub, MANAGED_CLUSTER_SET, name) == three
        await hub.patch(MANAGED_CLUSTER, "c000", {"metadata": {"labels": {SET_LABEL: "y", "vendor": "y"}}})
        await hub.delete(MANAGED_CLUSTER, "c001")
        await hub.settle()
        counts = [(await said(hub, MANAGED_CLUSTER_SET, name))[2].split()[0] for name in ("x", "global", "default")]
        assert counts == ["1", "2", "1"]

    told(story)


def test_a_binding_says_whether_its_set_exists() -> None:
    async def story(hub: Hub) -> None:
        await hub.bind("x")
        hub.start("cluster-sets")
        await hub.settle()
        assert (await said(hub, MANAGED_CLUSTER_SET_BINDING, "x", NS))[:2] == ("False", "ClusterSetNotFound")
        await hub.cluster_set("x")
        await hub.settle()
        assert (await said(hub, MANAGED_CLUSTER_SET_BINDING, "x", NS))[:2] == ("True", "ClusterSetBound")
        await hub.delete(MANAGED_CLUSTER_SET, "x")
        await hub.settle()
        assert (await said(hub, MANAGED_CLUSTER_SET_BINDING, "x", NS))[:2] == ("False", "ClusterSetNotFound")

    told(story)
