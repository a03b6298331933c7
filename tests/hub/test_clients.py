"""The ordinary calls of two client libraries: whoever writes a controller in Python finds a Kubernetes here."""

from collections.abc import Iterator
from typing import Any

import lightkube
import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Event, Namespace
from lightkube.types import CascadeType, PatchType

import kubernetes as official
from tests.hub.api import Api, config_map, deployment, managed_cluster
from tests.hub.conftest import HubProcess

GROUP = "cluster.open-cluster-management.io"
ManagedCluster = create_global_resource(GROUP, "v1", "ManagedCluster", "managedclusters")
Placement = create_namespaced_resource(GROUP, "v1beta1", "Placement", "placements")


@pytest.fixture
def namespace(maps: str) -> str:
    return maps.split("/")[4]


# --- lightkube -------------------------------------------------------------------------------------------------------


@pytest.fixture
def light(crds: HubProcess, namespace: str) -> lightkube.Client:
    config = lightkube.KubeConfig.from_file(str(crds.kubeconfig))
    return lightkube.Client(config=config, namespace=namespace, field_manager="light")


def light_map(name: str, labels: dict[str, str] | None = None, **data: str) -> Any:
    return ConfigMap(metadata=ObjectMeta(name=name, labels=labels), data=data)


def light_deployment() -> Any:
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": "web"}), spec=PodSpec(containers=[Container(name="main", image="app:1")])
    )
    spec = DeploymentSpec(selector=LabelSelector(matchLabels={"app": "web"}), template=template, replicas=1)
    return Deployment(metadata=ObjectMeta(name="web"), spec=spec)


def test_lightkube_creates_reads_replaces_and_deletes(light: lightkube.Client, namespace: str) -> None:
    created = light.create(light_map("a", x="1"))
    assert created.metadata.namespace == namespace
    got = light.get(ConfigMap, "a")
    assert got == created
    got.data["x"] = "2"
    replaced = light.replace(got)
    assert light.get(ConfigMap, "a").data == {"x": "2"}
    with pytest.raises(ApiError) as stale:
        light.replace(created)
    assert (stale.value.status.code, stale.value.status.reason) == (409, "Conflict")
    assert replaced.metadata.resourceVersion != created.metadata.resourceVersion
    light.delete(ConfigMap, "a")
    with pytest.raises(ApiError) as missing:
        light.get(ConfigMap, "a")
    assert missing.value.status.message == 'configmaps "a" not found'


def test_lightkube_lists_by_selectors_and_in_chunks(light: lightkube.Client, namespace: str) -> None:
    for number in range(5):
        light.create(light_map(f"m{number}", labels={"odd": str(number % 2)}))
    assert [m.metadata.name for m in light.list(ConfigMap, labels={"odd": "1"})] == ["m1", "m3"]
    assert [m.metadata.name for m in light.list(ConfigMap, fields={"metadata.name": "m2"})] == ["m2"]
    assert len(list(light.list(ConfigMap, chunk_size=2))) == 5
    everywhere = light.list(ConfigMap, namespace="*", labels={"odd": "0"})
    assert {m.metadata.name for m in everywhere if m.metadata.namespace == namespace} == {"m0", "m2", "m4"}
    light.deletecollection(ConfigMap)
    assert list(light.list(ConfigMap)) == []


def test_lightkube_patches_in_every_way(light: lightkube.Client) -> None:
    light.create(light_deployment())
    light.patch(Deployment, "web", {"metadata": {"labels": {"a": "b"}}}, patch_type=PatchType.MERGE)
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}}
    patched = light.patch(Deployment, "web", side, patch_type=PatchType.STRATEGIC)
    assert {c.name for c in patched.spec.template.spec.containers} == {"main", "side"}
    operations = [{"op": "replace", "path": "/metadata/labels/a", "value": "c"}]
    assert light.patch(Deployment, "web", operations, patch_type=PatchType.JSON).metadata.labels == {"a": "c"}
    config = deployment("web")
    applied = light.patch(Deployment, "web", config, patch_type=PatchType.APPLY, field_manager="other", force=True)
    assert applied.spec.replicas == 2
    light.delete(Deployment, "web", cascade=CascadeType.FOREGROUND)


def test_lightkube_applies(light: lightkube.Client) -> None:
    wanted = ConfigMap(apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="a"), data={"x": "1", "y": "1"})
    assert light.apply(wanted).data == {"x": "1", "y": "1"}
    wanted.data = {"x": "2"}
    assert light.apply(wanted).data == {"x": "2"}
    with pytest.raises(ApiError) as conflict:
        light.apply(ConfigMap(apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="a"), data={"x": "3"}),
                    field_manager="other")  # fmt: skip
    assert "Apply failed with 1 conflict" in conflict.value.status.message
    assert conflict.value.status.code == 409


def test_lightkube_watches(light: lightkube.Client) -> None:
    listed = light.list(ConfigMap)
    list(listed)
    watch = light.watch(ConfigMap, resource_version=listed.resourceVersion)
    light.create(light_map("a", x="1"))
    assert next(iter(watch))[0] == "ADDED"
    light.patch(ConfigMap, "a", {"data": {"x": "2"}}, patch_type=PatchType.MERGE)
    light.delete(ConfigMap, "a")
    seen = []
    for operation, obj in light.watch(ConfigMap, resource_version=listed.resourceVersion):
        seen.append((operation, obj.data["x"]))
        if operation == "DELETED":
            break
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


def test_lightkube_scales_and_writes_status(light: lightkube.Client) -> None:
    light.create(light_deployment())
    scale = light.get(Deployment.Scale, "web")
    assert scale.spec.replicas == 1
    scale.spec = ScaleSpec(replicas=4)
    assert light.replace(scale, name="web").spec.replicas == 4
    light.patch(Deployment.Scale, "web", {"spec": {"replicas": 5}}, patch_type=PatchType.MERGE)
    status = {"status": {"replicas": 5, "observedGeneration": 3}}
    light.patch(Deployment.Status, "web", status, patch_type=PatchType.MERGE)
    got = light.get(Deployment, "web")
    assert (got.spec.replicas, got.status.replicas, got.status.observedGeneration) == (5, 5, 3)


def test_lightkube_and_custom_resources(light: lightkube.Client, namespace: str) -> None:
    light.create(ManagedCluster(managed_cluster(namespace, labels={"test": namespace})))
    got = light.get(ManagedCluster, namespace)
    assert got.spec["leaseDurationSeconds"] == 60
    light.patch(
        ManagedCluster.Status, namespace, {"status": {"version": {"kubernetes": "v1"}}}, patch_type=PatchType.MERGE
    )
    assert [c.status["version"] for c in light.list(ManagedCluster, labels={"test": namespace})] == [
        {"kubernetes": "v1"}
    ]
    got = light.get(ManagedCluster, namespace)
    got.spec["leaseDurationSeconds"] = 30
    assert light.replace(got).metadata.generation == 2
    wanted = {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "Placement",
        "metadata": {"name": "p"},
        "spec": {"clusterSets": ["s"]},
    }
    assert light.apply(Placement(wanted)).spec["clusterSets"] == ["s"]
    with pytest.raises(ApiError) as invalid:
        light.create(ManagedCluster(managed_cluster(f"{namespace}-2", leaseDurationSeconds="x")))
    assert invalid.value.status.details.causes[0].field == "spec.leaseDurationSeconds"
    light.delete(ManagedCluster, namespace)
    assert namespace in {n.metadata.name for n in light.list(Namespace)}


def test_lightkube_waits_for_a_condition(light: lightkube.Client) -> None:
    light.create(light_deployment())
    condition = {"type": "Available", "status": "True"}
    light.patch(Deployment.Status, "web", {"status": {"conditions": [condition]}}, patch_type=PatchType.MERGE)
    assert light.wait(Deployment, "web", for_conditions=["Available"]).metadata.name == "web"


# --- the official client ---------------------------------------------------------------------------------------------


@pytest.fixture
def client(crds: HubProcess) -> Iterator[Any]:
    configuration = official.client.Configuration()
    official.config.load_kube_config(str(crds.kubeconfig), client_configuration=configuration)
    with official.client.ApiClient(configuration) as made:
        yield made


def test_official_core(client: Any, namespace: str) -> None:
    core = official.client.CoreV1Api(client)
    meta = official.client.V1ObjectMeta(name="a", labels={"l": "v"})
    created = core.create_namespaced_config_map(namespace, official.client.V1ConfigMap(metadata=meta, data={"x": "1"}))
    assert created.metadata.uid
    assert core.read_namespaced_config_map("a", namespace).data == {"x": "1"}
    core.patch_namespaced_config_map("a", namespace, {"data": {"y": "2"}})
    listed = core.list_namespaced_config_map(namespace, label_selector="l=v", limit=10)
    assert [item.data for item in listed.items] == [{"x": "1", "y": "2"}]
    created.data = {"z": "3"}
    with pytest.raises(ApiException) as stale:
        core.replace_namespaced_config_map("a", namespace, created)
    assert stale.value.status == 409
    created.metadata.resource_version = None
    assert core.replace_namespaced_config_map("a", namespace, created).data == {"z": "3"}
    core.delete_namespaced_config_map("a", namespace)
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_config_map("a", namespace)
    assert missing.value.reason == "Not Found"
    core.create_namespaced_config_map(namespace, config_map("b"))
    core.delete_collection_namespaced_config_map(namespace)
    assert core.list_namespaced_config_map(namespace).items == []
    assert official.client.VersionApi(client).get_code().major == "1"


def test_official_apps(client: Any, namespace: str) -> None:
    apps = official.client.AppsV1Api(client)
    made = apps.create_namespaced_deployment(namespace, deployment("web"))
    assert made.spec.strategy.rolling_update.max_surge == "25%"
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 5}})
    assert apps.read_namespaced_deployment_scale("web", namespace).spec.replicas == 5
    apps.patch_namespaced_deployment_status("web", namespace, {"status": {"replicas": 5}})
    assert apps.read_namespaced_deployment_status("web", namespace).status.replicas == 5
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "app:2"}]
    assert apps.patch_namespaced_deployment("web", namespace, image).spec.template.spec.containers[0].image == "app:2"
    options = official.client.V1DeleteOptions(propagation_policy="Foreground")
    apps.delete_namespaced_deployment("web", namespace, body=options)


def test_official_custom_objects(client: Any, namespace: str) -> None:
    custom = official.client.CustomObjectsApi(client)
    where = (GROUP, "v1", "managedclusters")
    custom.create_cluster_custom_object(*where, managed_cluster(namespace, labels={"test": namespace}))
    custom.patch_cluster_custom_object(*where, namespace, {"spec": {"leaseDurationSeconds": 30}})
    custom.patch_cluster_custom_object_status(*where, namespace, {"status": {"version": {"kubernetes": "v1"}}})
    got = custom.get_cluster_custom_object(*where, namespace)
    assert (got["metadata"]["generation"], got["status"]) == (2, {"version": {"kubernetes": "v1"}})
    got["spec"]["leaseDurationSeconds"] = 40
    assert custom.replace_cluster_custom_object(*where, namespace, got)["spec"]["leaseDurationSeconds"] == 40
    assert len(custom.list_cluster_custom_object(*where, label_selector=f"test={namespace}")["items"]) == 1
    assert custom.delete_cluster_custom_object(*where, namespace)["status"] == "Success"


def test_official_watch(client: Any, namespace: str) -> None:
    core = official.client.CoreV1Api(client)
    start = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, config_map("a", x="1"))
    core.patch_namespaced_config_map("a", namespace, {"data": {"x": "2"}})
    core.delete_namespaced_config_map("a", namespace)
    watch, seen = official.watch.Watch(), []
    for event in watch.stream(core.list_namespaced_config_map, namespace, resource_version=start, timeout_seconds=20):
        seen.append((event["type"], event["object"].data["x"]))
        if event["type"] == "DELETED":
            watch.stop()
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


def test_official_dynamic_client(client: Any, namespace: str) -> None:
    dynamic = DynamicClient(client)
    clusters = dynamic.resources.get(api_version=f"{GROUP}/v1", kind="ManagedCluster")
    assert not clusters.namespaced
    clusters.create(body=managed_cluster(namespace, labels={"test": namespace}))
    applied = dynamic.server_side_apply(
        clusters,
        body={**managed_cluster(namespace), "metadata": {"name": namespace, "labels": {"a": "b"}}},
        name=namespace,
        field_manager="dynamic",
        force_conflicts=True,
    )
    assert applied.metadata.labels.to_dict() == {"test": namespace, "a": "b"}
    assert [c.metadata.name for c in clusters.get(label_selector=f"test={namespace}").items] == [namespace]
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    maps.create(body=config_map("a", x="1"), namespace=namespace)
    patch = {"data": {"x": "2"}}
    maps.patch(body=patch, name="a", namespace=namespace, content_type="application/merge-patch+json")
    assert maps.get(name="a", namespace=namespace).data.x == "2"
    event = next(iter(maps.watch(namespace=namespace, timeout=10)))
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "a")
    clusters.delete(name=namespace)


def test_events_are_the_same_in_both_groups(client: Any, light: lightkube.Client, api: Api, namespace: str) -> None:
    core = official.client.CoreV1Api(client)
    regarding = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": namespace}
    body = {
        "metadata": {"name": "told"},
        "involvedObject": regarding,
        "reason": "Because",
        "message": "it happened",
        "type": "Warning",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 3,
        "source": {"component": "test"},
    }
    core.create_namespaced_event(namespace, body)
    told = api.ok("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events/told")
    assert (told["regarding"]["name"], told["note"], told["deprecatedCount"]) == ("a", "it happened", 3)
    chosen = core.list_namespaced_event(namespace, field_selector="involvedObject.name=a,type=Warning")
    assert [event.message for event in chosen.items] == ["it happened"]
    assert [event.reason for event in light.list(Event)] == ["Because"]


def test_both_libraries_see_what_the_other_wrote(client: Any, light: lightkube.Client, api: Api, maps: str) -> None:
    light.create(light_map("a", x="1"))
    core = official.client.CoreV1Api(client)
    namespace = maps.split("/")[4]
    read = client.sanitize_for_serialization(core.read_namespaced_config_map("a", namespace))
    sent = api.ok("GET", f"{maps}/a")
    assert read["data"] == sent["data"] == light.get(ConfigMap, "a").data
    assert read["metadata"]["uid"] == sent["metadata"]["uid"]
