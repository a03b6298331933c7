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


def test_an_accepted_cluster_without_a_set_joins_the_default_set() -> None:
    async def story(hub: Hub) -> None:
        accepted, waiting = {"hubAcceptsClient": True}, {"hubAcceptsClient": False}
        await hub.create(MANAGED_CLUSTER, "early", spec=accepted)
        await hub.create(MANAGED_CLUSTER, "empty", spec=accepted, labels={SET_LABEL: "", "mine": "stays"})
        await hub.create(MANAGED_CLUSTER, "elsewhere", spec=accepted, labels={SET_LABEL: "x"})
        await hub.create(MANAGED_CLUSTER, "waiting", spec=waiting)
        hub.start("cluster-sets")
        await hub.settle()
        await hub.create(MANAGED_CLUSTER, "late", spec=accepted)
        await hub.settle()
        labels = {each.metadata.name: each.metadata.labels for each in (await hub.client.list(MANAGED_CLUSTER)).items}
        assert labels == {
            "early": {SET_LABEL: "default"},
            "empty": {SET_LABEL: "default", "mine": "stays"},
            "elsewhere": {SET_LABEL: "x"},
            "waiting": {},
            "late": {SET_LABEL: "default"},
        }
        assert (await said(hub, MANAGED_CLUSTER_SET, "default"))[2] == "3 ManagedClusters selected"
        await hub.patch(MANAGED_CLUSTER, "waiting", {"spec": accepted})
        await hub.patch(MANAGED_CLUSTER, "late", {"metadata": {"labels": {SET_LABEL: None}}})
        await hub.settle()
        for name in ("waiting", "late"):
            found = await hub.client.get(MANAGED_CLUSTER, name)
            assert found.metadata.labels == {SET_LABEL: "default"}

    told(story)


def test_no_cluster_joins_a_default_set_that_is_going() -> None:
    async def story(hub: Hub) -> None:
        hub.start("cluster-sets")
        await hub.settle()
        await hub.patch(MANAGED_CLUSTER_SET, "default", {"metadata": {"finalizers": ["example.com/hold"]}})
        await hub.delete(MANAGED_CLUSTER_SET, "default")
        await hub.create(MANAGED_CLUSTER, "c", spec={"hubAcceptsClient": True})
        await hub.settle()
        assert (await hub.client.get(MANAGED_CLUSTER, "c")).metadata.labels == {}
        await hub.patch(MANAGED_CLUSTER_SET, "default", {"metadata": {"finalizers": None}})
        await hub.settle()
        assert (await hub.client.get(MANAGED_CLUSTER, "c")).metadata.labels == {SET_LABEL: "default"}

    told(story)
