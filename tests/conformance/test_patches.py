"""Merge, JSON, strategic and apply patches."""

from typing import Any

import pytest

from echelon.kube.client import ApplyPatch, Client, JSONPatch, MergePatch, StrategicPatch, WriteOptions
from tests.conformance.asking import (
    CONFIG_MAP,
    DEPLOYMENT,
    LEASE,
    PLACEMENT,
    Document,
    config_map,
    deployment,
    placement_of,
    refusal,
    refused_fields,
    summary,
    version,
)

OUR_ERROR = "the server rejected our request due to an error in our request"


def labelled(**labels: str) -> Document:
    return {"labelSelector": {"matchLabels": labels}}


async def test_a_merge_patch_sets_fields_and_null_removes_them(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map("a", {"x": "1", "y": "2"}), namespace)
    patched = await client.patch(CONFIG_MAP, "a", MergePatch({"data": {"y": None, "z": "3"}}), namespace)
    assert patched["data"] == {"x": "1", "z": "3"}
    patched = await client.patch(CONFIG_MAP, "a", MergePatch({"data": None}), namespace)
    assert "data" not in patched
    assert await client.get(CONFIG_MAP, "a", namespace) == patched


async def test_a_merge_patch_replaces_lists(client: Client, namespace: str) -> None:
    await client.create(PLACEMENT, placement_of("a", {"clusterSets": ["one", "two"]}), namespace)
    patched = await client.patch(PLACEMENT, "a", MergePatch({"spec": {"clusterSets": ["three"]}}), namespace)
    assert patched["spec"]["clusterSets"] == ["three"]


async def test_a_json_patch_does_its_operations_in_order(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map("a", {"x": "1", "y": "2"}), namespace)
    patch = JSONPatch(
        [
            {"op": "test", "path": "/data/x", "value": "1"},
            {"op": "replace", "path": "/data/x", "value": "one"},
            {"op": "remove", "path": "/data/y"},
            {"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}},
            {"op": "copy", "from": "/data/x", "path": "/data/copied"},
            {"op": "move", "from": "/metadata/labels/a~1b", "path": "/metadata/labels/moved"},
        ]
    )
    patched = await client.patch(CONFIG_MAP, "a", patch, namespace)
    assert patched["data"] == {"x": "one", "copied": "one"}
    assert patched["metadata"]["labels"] == {"moved": "c"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/x", "value": "2"},
        {"op": "remove", "path": "/data/none"},
        {"op": "add", "path": "/none/x", "value": "1"},
    ],
    ids=["test", "remove", "add"],
)
async def test_a_json_patch_that_does_not_fit_changes_nothing(
    client: Client, namespace: str, operation: Document
) -> None:
    created = await client.create(CONFIG_MAP, config_map("a", {"x": "1"}), namespace)
    first = {"op": "add", "path": "/data/y", "value": "1"}
    error = await refusal(client.patch(CONFIG_MAP, "a", JSONPatch([first, operation]), namespace))
    assert summary(error) == (422, "Invalid", OUR_ERROR)
    assert await client.get(CONFIG_MAP, "a", namespace) == created


async def test_a_json_patch_may_replace_what_is_not_there(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map("a", {"x": "1"}), namespace)
    patch = JSONPatch([{"op": "replace", "path": "/data/y", "value": "2"}])
    assert (await client.patch(CONFIG_MAP, "a", patch, namespace))["data"] == {"x": "1", "y": "2"}


async def test_a_strategic_patch_merges_lists_by_key(client: Client, namespace: str) -> None:
    await client.create(DEPLOYMENT, deployment("a", "main", "side"), namespace)
    containers = [{"name": "side", "image": "example/side:2"}, {"name": "new", "image": "example/new:1"}]
    patch = StrategicPatch({"spec": {"template": {"spec": {"containers": containers}}}})
    patched = await client.patch(DEPLOYMENT, "a", patch, namespace)
    images = {each["name"]: each["image"] for each in patched["spec"]["template"]["spec"]["containers"]}
    assert images == {"main": "example/main:1", "side": "example/side:2", "new": "example/new:1"}
    removal = StrategicPatch({"spec": {"template": {"spec": {"containers": [{"$patch": "delete", "name": "main"}]}}}})
    patched = await client.patch(DEPLOYMENT, "a", removal, namespace)
    assert {each["name"] for each in patched["spec"]["template"]["spec"]["containers"]} == {"side", "new"}


async def test_custom_kinds_have_no_strategic_patch(client: Client, namespace: str) -> None:
    await client.create(PLACEMENT, placement_of("a"), namespace)
    error = await refusal(client.patch(PLACEMENT, "a", StrategicPatch({"spec": {}}), namespace))
    assert (error.status_code, error.status_reason) == (415, "UnsupportedMediaType")
    assert error.message.startswith("the body of the request was in an unknown format - accepted media types include:")


@pytest.mark.parametrize("patch", [MergePatch({"data": {"x": "1"}}), MergePatch({}), JSONPatch([])])
async def test_a_patch_that_changes_nothing_is_no_write(
    client: Client, namespace: str, patch: MergePatch | JSONPatch
) -> None:
    created = await client.create(CONFIG_MAP, config_map("a", {"x": "1"}), namespace)
    assert version(await client.patch(CONFIG_MAP, "a", patch, namespace)) == version(created)


@pytest.mark.parametrize(
    ("field", "value"),
    [("creationTimestamp", "2001-01-01T00:00:00Z"), ("generation", 99), ("selfLink", "/x")],
)
async def test_what_the_server_keeps_cannot_be_patched(
    client: Client, namespace: str, field: str, value: object
) -> None:
    created = await client.create(PLACEMENT, placement_of("a"), namespace)
    patch = MergePatch({"metadata": {field: value, "labels": {"x": "y"}}})
    patched = await client.patch(PLACEMENT, "a", patch, namespace)
    assert patched["metadata"].get(field) == created["metadata"].get(field)


async def test_an_object_cannot_be_renamed_or_moved(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map("a"), namespace)
    error = await refusal(client.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"name": "b"}}), namespace))
    assert summary(error)[:2] == (400, "BadRequest")
    error = await refusal(client.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"namespace": "b"}}), namespace))
    assert summary(error)[:2] == (400, "BadRequest")


async def test_an_immutable_field_stays(client: Client, namespace: str) -> None:
    await client.create(DEPLOYMENT, deployment("a"), namespace)
    patch = MergePatch({"spec": {"selector": {"matchLabels": {"other": "x"}}}})
    error = await refusal(client.patch(DEPLOYMENT, "a", patch, namespace))
    assert summary(error)[:2] == (422, "Invalid")
    assert ("spec.selector", "FieldValueInvalid") in refused_fields(error)
    fixed = config_map("b", {"x": "1"})
    await client.create(CONFIG_MAP, {**fixed, "immutable": True}, namespace)
    error = await refusal(client.patch(CONFIG_MAP, "b", MergePatch({"data": {"x": "2"}}), namespace))
    assert refused_fields(error) == [("data", "FieldValueForbidden")]


async def test_a_patch_is_validated_like_a_creation(client: Client, namespace: str) -> None:
    await client.create(PLACEMENT, placement_of("a"), namespace)
    error = await refusal(client.patch(PLACEMENT, "a", MergePatch({"spec": {"numberOfClusters": -1}}), namespace))
    assert summary(error)[:2] == (422, "Invalid")
    assert refused_fields(error) == [("spec.numberOfClusters", "FieldValueInvalid")]


async def test_an_unknown_field_is_dropped_or_under_strict_validation_refused(client: Client, namespace: str) -> None:
    await client.create(PLACEMENT, placement_of("a"), namespace)
    patch = MergePatch({"spec": {"unheardOf": 1}})
    patched = await client.patch(PLACEMENT, "a", patch, namespace, options=WriteOptions(field_validation="Ignore"))
    assert "unheardOf" not in patched["spec"]
    strict = WriteOptions(field_validation="Strict")
    error = await refusal(client.patch(PLACEMENT, "a", patch, namespace, options=strict))
    assert summary(error)[:2] == (422, "Invalid")
    assert refused_fields(error) == [("patch", "FieldValueInvalid")]
    assert error.message.endswith('strict decoding error: unknown field "spec.unheardOf"')
    error = await refusal(client.create(PLACEMENT, placement_of("b", {"x": 1}), namespace, options=strict))
    why = 'strict decoding error: unknown field "spec.x"'
    message = f'Placement in version "v1beta1" cannot be handled as a Placement: {why}'
    assert summary(error) == (400, "BadRequest", message)
    body = {**config_map("b"), "x": 1}
    error = await refusal(client.create(CONFIG_MAP, body, namespace, options=strict))
    why = 'strict decoding error: unknown field "x"'
    message = f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {why}'
    assert summary(error) == (400, "BadRequest", message)


# --- server-side apply -----------------------------------------------------------------------------------------------


def applied(manager: str, body: Document, *, force: bool = False) -> ApplyPatch:
    return ApplyPatch(body, manager, force)


def owned(obj: Document, manager: str) -> list[dict[str, Any]]:
    return [each["fieldsV1"] for each in obj["metadata"]["managedFields"] if each["manager"] == manager]


async def test_applying_creates_what_is_not_there(client: Client, namespace: str) -> None:
    body = placement_of("a", {"numberOfClusters": 1})
    made = await client.patch(PLACEMENT, "a", applied("one", body), namespace)
    assert made["spec"]["numberOfClusters"] == 1
    assert owned(made, "one") == [{"f:spec": {"f:numberOfClusters": {}}}]


async def test_applying_the_same_again_is_no_write(client: Client, namespace: str) -> None:
    body = config_map("a", {"x": "1"})
    first = await client.patch(CONFIG_MAP, "a", applied("one", body), namespace)
    assert await client.patch(CONFIG_MAP, "a", applied("one", body), namespace) == first


async def test_what_an_applier_no_longer_mentions_goes_unless_another_owns_it(client: Client, namespace: str) -> None:
    await client.patch(CONFIG_MAP, "a", applied("one", config_map("a", {"x": "1", "y": "1", "z": "1"})), namespace)
    await client.patch(CONFIG_MAP, "a", applied("two", config_map("a", {"y": "1"})), namespace)
    left = await client.patch(CONFIG_MAP, "a", applied("one", config_map("a", {"x": "1"})), namespace)
    assert left["data"] == {"x": "1", "y": "1"}
    assert owned(left, "two") == [{"f:data": {"f:y": {}}}]


async def test_appliers_that_disagree_conflict_until_one_is_forced(client: Client, namespace: str) -> None:
    await client.patch(PLACEMENT, "a", applied("one", placement_of("a", {"numberOfClusters": 1})), namespace)
    other = placement_of("a", {"numberOfClusters": 2})
    error = await refusal(client.patch(PLACEMENT, "a", applied("two", other), namespace))
    assert summary(error) == (
        409,
        "Conflict",
        'Apply failed with 1 conflict: conflict with "one": .spec.numberOfClusters',
    )
    assert error.details["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.numberOfClusters"}
    ]
    taken = await client.patch(PLACEMENT, "a", applied("two", other, force=True), namespace)
    assert taken["spec"]["numberOfClusters"] == 2
    assert owned(taken, "two") == [{"f:spec": {"f:numberOfClusters": {}}}]
    assert owned(taken, "one") in ([], [{"f:spec": {}}])


async def test_lists_with_keys_are_shared_by_appliers(client: Client, namespace: str) -> None:
    def of(*containers: str) -> Document:
        return deployment("a", *containers)

    await client.patch(DEPLOYMENT, "a", applied("one", of("main")), namespace)
    second: Document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    second["spec"] = {"template": {"spec": {"containers": [{"name": "side", "image": "example/side:1"}]}}}
    both = await client.patch(DEPLOYMENT, "a", applied("two", second), namespace)
    assert {each["name"] for each in both["spec"]["template"]["spec"]["containers"]} == {"main", "side"}
    second["spec"] = {"template": {"spec": {"containers": []}}}
    left = await client.patch(DEPLOYMENT, "a", applied("two", second), namespace)
    assert {each["name"] for each in left["spec"]["template"]["spec"]["containers"]} == {"main"}


async def test_an_update_takes_what_it_changes_from_an_applier(client: Client, namespace: str) -> None:
    await client.patch(LEASE, "a", applied("one", lease({"holderIdentity": "x"})), namespace)
    changed = await client.patch(
        LEASE, "a", MergePatch({"spec": {"holderIdentity": "y"}}), namespace, options=WriteOptions(field_manager="two")
    )
    assert owned(changed, "two") == [{"f:spec": {"f:holderIdentity": {}}}]
    error = await refusal(client.patch(LEASE, "a", applied("one", lease({"holderIdentity": "z"})), namespace))
    assert (error.status_code, error.status_reason) == (409, "Conflict")
    assert error.details["causes"][0]["field"] == ".spec.holderIdentity"
    assert error.message.startswith('Apply failed with 1 conflict: conflict with "two" using coordination.k8s.io/v1')


def lease(spec: Document) -> Document:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": spec}


async def test_an_applier_without_a_name_is_refused(client: Client, namespace: str) -> None:
    error = await refusal(client.patch(CONFIG_MAP, "a", applied("", config_map("a")), namespace))
    assert (error.status_code, error.status_reason) == (422, "Invalid")
    assert refused_fields(error) == [("fieldManager", "FieldValueRequired")]


async def test_managed_fields_cannot_be_applied(client: Client, namespace: str) -> None:
    made = await client.patch(CONFIG_MAP, "a", applied("one", config_map("a", {"x": "1"})), namespace)
    sent: tuple[list[Document], ...] = ([], made["metadata"]["managedFields"])
    for fields in sent:
        error = await refusal(
            client.patch(CONFIG_MAP, "a", applied("one", config_map("a", managedFields=fields)), namespace)
        )
        assert summary(error) == (400, "BadRequest", "metadata.managedFields must be nil")


async def test_owners_that_were_forgotten_stay_so_until_somebody_applies(client: Client, namespace: str) -> None:
    forget: Document = {"managedFields": [{}]}
    made = await client.create(PLACEMENT, {**placement_of("a"), "metadata": {"name": "a", **forget}}, namespace)
    assert made["metadata"]["managedFields"], "a creation cannot ask for it"
    patch = MergePatch({"metadata": forget, "spec": {"numberOfClusters": 1}})
    patched = await client.patch(PLACEMENT, "a", patch, namespace)
    assert "managedFields" not in patched["metadata"]
    assert patched["spec"]["numberOfClusters"] == 1
    status = MergePatch({"status": {"numberOfSelectedClusters": 4}})
    assert (
        "managedFields" not in (await client.patch(PLACEMENT, "a", status, namespace, subresource="status"))["metadata"]
    )
    spec = MergePatch({"spec": {"numberOfClusters": 2}})
    assert "managedFields" not in (await client.patch(PLACEMENT, "a", spec, namespace))["metadata"]
    body = {**placement_of("a"), "spec": {"numberOfClusters": 2}}
    applied_to = await client.patch(PLACEMENT, "a", ApplyPatch(body, "one"), namespace)
    managers = sorted(each["manager"] for each in applied_to["metadata"]["managedFields"])
    assert managers == ["before-first-apply", "one"]
