"""Status and scale: parts of an object with writers of their own."""

from echelon.kube.client import ApplyPatch, Client, JSONPatch, MergePatch
from tests.conformance.asking import (
    CLONE_SET,
    CONFIG_MAP,
    DEPLOYMENT,
    MANAGED_CLUSTER,
    PLACEMENT,
    Document,
    clone_set,
    config_map,
    deployment,
    managed_cluster,
    placement_of,
    refusal,
    refused_fields,
    version,
)

VERSION = {"version": {"kubernetes": "v1.36.3"}}


def available(status: str) -> Document:
    condition = {
        "type": "ManagedClusterConditionAvailable",
        "status": status,
        "reason": "Checked",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"conditions": [condition]}


async def test_a_status_that_comes_with_a_creation_is_dropped(client: Client, namespace: str) -> None:
    body = {**placement_of("a"), "status": {"numberOfSelectedClusters": 4}}
    assert "status" not in await client.create(PLACEMENT, body, namespace)
    body = {**deployment("a"), "status": {"replicas": 4}}
    assert (await client.create(DEPLOYMENT, body, namespace))["status"] == {}


async def test_a_patch_of_the_object_leaves_the_status_alone(client: Client, namespace: str) -> None:
    await client.create(MANAGED_CLUSTER, managed_cluster(namespace))
    patch = MergePatch({"spec": {"leaseDurationSeconds": 90}, "status": VERSION})
    patched = await client.patch(MANAGED_CLUSTER, namespace, patch)
    assert patched["spec"]["leaseDurationSeconds"] == 90
    assert "status" not in patched
    only = await client.patch(MANAGED_CLUSTER, namespace, MergePatch({"status": VERSION}))
    assert version(only) == version(patched)
    await client.delete(MANAGED_CLUSTER, namespace)


async def test_a_patch_of_the_status_leaves_the_rest_alone(client: Client, namespace: str) -> None:
    created = await client.create(MANAGED_CLUSTER, managed_cluster(namespace))
    patch = MergePatch(
        {
            "metadata": {"labels": {"x": "y"}},
            "spec": {"hubAcceptsClient": False},
            "status": {**VERSION, **available("True")},
        }
    )
    patched = await client.patch(MANAGED_CLUSTER, namespace, patch, subresource="status")
    assert patched["status"]["conditions"][0]["status"] == "True"
    assert patched["spec"] == created["spec"]
    assert "labels" not in patched["metadata"]
    assert patched["metadata"]["generation"] == 1
    assert int(version(patched)) > int(version(created))
    assert await client.get(MANAGED_CLUSTER, namespace) == patched
    await client.delete(MANAGED_CLUSTER, namespace)


async def test_a_status_is_validated_too(client: Client, namespace: str) -> None:
    await client.create(MANAGED_CLUSTER, managed_cluster(namespace))
    patch = MergePatch({"status": available("Perhaps")})
    error = await refusal(client.patch(MANAGED_CLUSTER, namespace, patch, subresource="status"))
    assert refused_fields(error) == [("status.conditions[0].status", "FieldValueNotSupported")]
    await client.delete(MANAGED_CLUSTER, namespace)


async def test_a_status_can_be_applied(client: Client, namespace: str) -> None:
    await client.create(PLACEMENT, placement_of("a"), namespace)
    body = {
        "apiVersion": PLACEMENT.api_version,
        "kind": "Placement",
        "metadata": {"name": "a"},
        "status": {"numberOfSelectedClusters": 4},
    }
    patched = await client.patch(PLACEMENT, "a", ApplyPatch(body, "one"), namespace, subresource="status")
    assert patched["status"]["numberOfSelectedClusters"] == 4
    entry = next(each for each in patched["metadata"]["managedFields"] if each["manager"] == "one")
    assert (entry["operation"], entry["subresource"]) == ("Apply", "status")
    assert entry["fieldsV1"] == {"f:status": {"f:numberOfSelectedClusters": {}}}


async def test_the_status_of_a_deployment_has_its_own_writers(client: Client, namespace: str) -> None:
    await client.create(DEPLOYMENT, deployment("a"), namespace)
    patch = MergePatch({"spec": {"replicas": 9}, "status": {"replicas": 2, "observedGeneration": 1}})
    patched = await client.patch(DEPLOYMENT, "a", patch, namespace, subresource="status")
    assert patched["status"] == {"replicas": 2, "observedGeneration": 1}
    assert (patched["spec"]["replicas"], patched["metadata"]["generation"]) == (2, 1)


async def test_scaling_changes_the_replicas_and_returns_what_was_scaled(client: Client, namespace: str) -> None:
    for kind, body in ((CLONE_SET, clone_set("a")), (DEPLOYMENT, deployment("a"))):
        created = await client.create(kind, body, namespace)
        patch = MergePatch({"spec": {"replicas": 7}})
        scaled = await client.patch(kind, "a", patch, namespace, subresource="scale")
        assert scaled["metadata"]["uid"] == created["metadata"]["uid"]
        assert (scaled["spec"]["replicas"], scaled["metadata"]["generation"]) == (7, 2)
        assert scaled["spec"]["template"] == created["spec"]["template"]
        assert await client.get(kind, "a", namespace) == scaled


async def test_a_scale_has_a_shape_of_its_own(client: Client, namespace: str) -> None:
    await client.create(CLONE_SET, clone_set("a"), namespace)
    status = {"status": {"replicas": 3, "labelSelector": "app=a"}}
    await client.patch(CLONE_SET, "a", MergePatch(status), namespace, subresource="status")
    await client.create(DEPLOYMENT, deployment("a"), namespace)
    for kind, observed in ((CLONE_SET, 3), (DEPLOYMENT, 0)):
        patch = JSONPatch(
            [
                {"op": "test", "path": "/apiVersion", "value": "autoscaling/v1"},
                {"op": "test", "path": "/kind", "value": "Scale"},
                {"op": "test", "path": "/spec", "value": {"replicas": 2}},
                {"op": "test", "path": "/status", "value": {"replicas": observed, "selector": "app=a"}},
                {"op": "replace", "path": "/spec/replicas", "value": 4},
            ]
        )
        scaled = await client.patch(kind, "a", patch, namespace, subresource="scale")
        assert scaled["spec"]["replicas"] == 4


async def test_nobody_scales_below_zero(client: Client, namespace: str) -> None:
    for kind, body in ((CLONE_SET, clone_set("a")), (DEPLOYMENT, deployment("a"))):
        await client.create(kind, body, namespace)
        patch = MergePatch({"spec": {"replicas": -1}})
        error = await refusal(client.patch(kind, "a", patch, namespace, subresource="scale"))
        assert (error.status_code, error.status_reason) == (422, "Invalid")
        assert ("spec.replicas", "FieldValueInvalid") in refused_fields(error)
        assert (await client.get(kind, "a", namespace))["spec"]["replicas"] == 2


async def test_a_subresource_that_a_kind_does_not_have_is_not_found(client: Client, namespace: str) -> None:
    await client.create(PLACEMENT, placement_of("a"), namespace)
    patch = MergePatch({"spec": {"replicas": 1}})
    error = await refusal(client.patch(PLACEMENT, "a", patch, namespace, subresource="scale"))
    assert (error.status_code, error.status_reason) == (404, "NotFound")
    await client.create(CONFIG_MAP, config_map("a"), namespace)
    error = await refusal(client.patch(CONFIG_MAP, "a", MergePatch({}), namespace, subresource="status"))
    assert (error.status_code, error.status_reason) == (404, "NotFound")


async def test_the_status_of_what_is_not_there_is_not_found(client: Client, namespace: str) -> None:
    patch = MergePatch({"status": {}})
    error = await refusal(client.patch(PLACEMENT, "none", patch, namespace, subresource="status"))
    assert (error.status_code, error.status_reason) == (404, "NotFound")
    error = await refusal(client.patch(CLONE_SET, "none", MergePatch({}), namespace, subresource="scale"))
    assert (error.status_code, error.status_reason) == (404, "NotFound")
