"""Refusals: their code, reason, fields and, where people search for it, their text."""

import pytest

from echelon.kube.client import Client, MergePatch
from tests.conformance.asking import (
    CONFIG_MAP,
    DEPLOYMENT,
    LEASE,
    MANAGED_CLUSTER,
    PLACEMENT,
    Document,
    config_map,
    deployment,
    managed_cluster,
    placement_of,
    refusal,
    refused_fields,
    summary,
)
from tests.conformance.targets import NOBODY, Target


async def test_every_wrong_field_of_a_custom_object_is_named(client: Client, namespace: str) -> None:
    spec = {
        "numberOfClusters": "three",
        "clusterSets": [1],
        "tolerations": [{"operator": "Perhaps"}],
        "prioritizerPolicy": {"mode": "Additive", "configurations": [{"weight": 1}]},
    }
    error = await refusal(client.create(PLACEMENT, placement_of("a", spec), namespace))
    assert summary(error)[:2] == (422, "Invalid")
    assert error.message.startswith('Placement.cluster.open-cluster-management.io "a" is invalid: [')
    assert error.details["name"] == "a"
    assert error.details["kind"] == "Placement"
    assert error.details["group"] == "cluster.open-cluster-management.io"
    fields = {field for field, _ in refused_fields(error)}
    assert {"spec.numberOfClusters", "spec.clusterSets[0]", "spec.tolerations[0].operator"} <= fields


async def test_a_single_wrong_field_is_told_in_kubernetes_words(client: Client, namespace: str) -> None:
    error = await refusal(client.create(PLACEMENT, placement_of("a", {"numberOfClusters": -1}), namespace))
    detail = "Invalid value: -1: spec.numberOfClusters in body should be greater than or equal to 0"
    name = "Placement.cluster.open-cluster-management.io"
    assert summary(error) == (422, "Invalid", f'{name} "a" is invalid: spec.numberOfClusters: {detail}')
    assert error.details["causes"] == [
        {"reason": "FieldValueInvalid", "message": detail, "field": "spec.numberOfClusters"}
    ]


async def test_a_deployment_without_its_parts_is_refused_with_each_of_them(client: Client, namespace: str) -> None:
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {}}
    error = await refusal(client.create(DEPLOYMENT, body, namespace))
    assert summary(error)[:2] == (422, "Invalid")
    assert error.message.startswith('Deployment.apps "a" is invalid: [')
    fields = refused_fields(error)
    assert ("spec.selector", "FieldValueRequired") in fields
    assert ("spec.template.spec.containers", "FieldValueRequired") in fields


async def test_a_selector_must_select_its_own_pods(client: Client, namespace: str) -> None:
    body = deployment("a")
    body["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    error = await refusal(client.create(DEPLOYMENT, body, namespace))
    assert refused_fields(error) == [("spec.template.metadata.labels", "FieldValueInvalid")]


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "dot.", "x" * 254])
async def test_a_bad_name_is_refused(client: Client, namespace: str, name: str) -> None:
    error = await refusal(client.create(CONFIG_MAP, config_map(name), namespace))
    assert summary(error)[:2] == (422, "Invalid")
    assert refused_fields(error) == [("metadata.name", "FieldValueInvalid")]
    error = await refusal(client.create(MANAGED_CLUSTER, managed_cluster(name)))
    assert ("metadata.name", "FieldValueInvalid") in refused_fields(error)


async def test_an_object_without_a_name_is_refused(client: Client, namespace: str) -> None:
    for kind in (CONFIG_MAP, LEASE):
        error = await refusal(client.create(kind, {"metadata": {}}, namespace))
        assert summary(error)[:2] == (422, "Invalid")
        assert refused_fields(error) == [("metadata.name", "FieldValueRequired")]
        assert error.message.endswith("metadata.name: Required value: name or generateName is required")


async def test_bad_labels_and_annotations_are_refused(client: Client, namespace: str) -> None:
    body = config_map("a", labels={"a b": "x", "ok": "not ok"}, annotations={"/x": "y"})
    error = await refusal(client.create(CONFIG_MAP, body, namespace))
    fields = {field for field, _ in refused_fields(error)}
    assert fields == {"metadata.labels", "metadata.annotations"}


async def test_a_bad_owner_is_refused(client: Client, namespace: str) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "", "uid": ""}
    error = await refusal(client.create(CONFIG_MAP, config_map("a", ownerReferences=[owner]), namespace))
    assert refused_fields(error) == [
        ("metadata.ownerReferences.name", "FieldValueInvalid"),
        ("metadata.ownerReferences.uid", "FieldValueInvalid"),
    ]


async def test_a_namespace_that_contradicts_the_request_is_refused(client: Client, namespace: str) -> None:
    for kind, body in ((CONFIG_MAP, config_map("a", namespace="x")), (PLACEMENT, placement_of("a", namespace="x"))):
        error = await refusal(client.create(kind, body, namespace))
        message = "the namespace of the provided object does not match the namespace sent on the request"
        assert summary(error) == (400, "BadRequest", message)


async def test_another_kind_than_the_requests_is_refused(client: Client, namespace: str) -> None:
    error = await refusal(client.create(CONFIG_MAP, placement_of("a"), namespace))
    assert summary(error)[:2] == (400, "BadRequest")
    error = await refusal(client.create(PLACEMENT, config_map("a"), namespace))
    assert summary(error)[:2] == (400, "BadRequest")


@pytest.mark.parametrize("data", [{"x": 1}, ["x"], {"bad key!": "x"}], ids=["number", "list", "key"])
async def test_data_that_is_no_text_is_refused(client: Client, namespace: str, data: object) -> None:
    body: Document = {**config_map("a"), "data": data}
    error = await refusal(client.create(CONFIG_MAP, body, namespace))
    if isinstance(data, dict) and "bad key!" in data:
        assert refused_fields(error) == [("data[bad key!]", "FieldValueInvalid")]
    else:
        assert summary(error)[:2] == (400, "BadRequest")


async def test_a_resource_version_in_a_creation_is_refused(client: Client, namespace: str) -> None:
    for kind, body in (
        (CONFIG_MAP, config_map("a", resourceVersion="1")),
        (PLACEMENT, placement_of("a", resourceVersion="1")),
    ):
        error = await refusal(client.create(kind, body, namespace))
        assert (error.status_code, error.message) == (500, "resourceVersion should not be set on objects to be created")


async def test_somebody_without_rights_is_told_what_is_missing(target: Target, namespace: str) -> None:
    nobody = target.nobody
    text = f'User "{NOBODY}" cannot %s resource "%s" in API group "%s"'
    inside = f'in the namespace "{namespace}"'
    error = await refusal(nobody.get(CONFIG_MAP, "a", namespace))
    expected = f'configmaps "a" is forbidden: {text % ("get", "configmaps", "")} {inside}'
    assert summary(error) == (403, "Forbidden", expected)
    assert error.details == {"name": "a", "kind": "configmaps"}
    error = await refusal(nobody.list(MANAGED_CLUSTER))
    group = MANAGED_CLUSTER.group
    expected = f"managedclusters.{group} is forbidden: {text % ('list', 'managedclusters', group)} at the cluster scope"
    assert summary(error) == (403, "Forbidden", expected)
    error = await refusal(nobody.create(PLACEMENT, placement_of("a"), namespace))
    expected = f"placements.{group} is forbidden: {text % ('create', 'placements', group)} {inside}"
    assert summary(error) == (403, "Forbidden", expected)
    patch = MergePatch({"status": {}})
    error = await refusal(nobody.patch(PLACEMENT, "a", patch, namespace, subresource="status"))
    expected = f'placements.{group} "a" is forbidden: {text % ("patch", "placements/status", group)} {inside}'
    assert summary(error) == (403, "Forbidden", expected)
