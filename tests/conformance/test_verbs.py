"""Create, get, list and delete."""

import re
from collections.abc import Callable

import pytest

from echelon.api import cluster, placement
from echelon.api.kinds import Kind
from echelon.kube.client import Client, DeleteOptions, MergePatch, Preconditions, WriteOptions
from echelon.kube.errors import NotFound
from tests.conformance.asking import (
    CONFIG_MAP,
    DEPLOYMENT,
    LEASE,
    MANAGED_CLUSTER,
    NAMESPACE,
    PLACEMENT,
    Document,
    config_map,
    deployment,
    managed_cluster,
    names,
    placement_of,
    refusal,
    summary,
    version,
)

KINDS = pytest.mark.parametrize(("kind", "make"), [(CONFIG_MAP, config_map), (PLACEMENT, placement_of)])
GROUP = "cluster.open-cluster-management.io"


@KINDS
async def test_what_was_created_is_what_is_read(
    client: Client, namespace: str, kind: Kind[Document], make: Callable[[str], Document]
) -> None:
    created = await client.create(kind, make("a"), namespace)
    metadata = created["metadata"]
    assert metadata["namespace"] == namespace
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert int(metadata["resourceVersion"]) > 0
    assert (created["apiVersion"], created["kind"]) == (kind.api_version, kind.kind)
    assert await client.get(kind, "a", namespace) == created
    assert (await client.list(kind, namespace)).items == [created]


async def test_only_kinds_with_a_desired_state_have_a_generation(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAP, config_map("a"), namespace)
    assert "generation" not in created["metadata"]
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
    assert "generation" not in (await client.create(LEASE, lease, namespace))["metadata"]
    assert (await client.create(PLACEMENT, placement_of("a"), namespace))["metadata"]["generation"] == 1
    assert (await client.create(DEPLOYMENT, deployment("a"), namespace))["metadata"]["generation"] == 1


async def test_the_generation_counts_changes_of_the_desired_state(client: Client, namespace: str) -> None:
    await client.create(PLACEMENT, placement_of("a"), namespace)
    labelled = await client.patch(PLACEMENT, "a", MergePatch({"metadata": {"labels": {"x": "y"}}}), namespace)
    assert labelled["metadata"]["generation"] == 1
    changed = await client.patch(PLACEMENT, "a", MergePatch({"spec": {"numberOfClusters": 2}}), namespace)
    assert changed["metadata"]["generation"] == 2
    again = await client.patch(PLACEMENT, "a", MergePatch({"spec": {"numberOfClusters": 2}}), namespace)
    assert again["metadata"]["generation"] == 2


async def test_an_object_is_read_as_its_type(client: Client, namespace: str) -> None:
    body = placement_of("a", {"numberOfClusters": 3})
    created = await client.create(placement.PLACEMENT, body, namespace)
    assert created.spec.number_of_clusters == 3
    assert await client.get(placement.PLACEMENT, "a", namespace) == created
    assert (await client.list(placement.PLACEMENT, namespace)).items == [created]


async def test_objects_without_a_namespace(client: Client, namespace: str) -> None:
    created = await client.create(cluster.MANAGED_CLUSTER, managed_cluster(namespace))
    assert created.metadata.namespace == ""
    assert await client.get(cluster.MANAGED_CLUSTER, namespace) == created
    await client.delete(cluster.MANAGED_CLUSTER, namespace)


async def test_a_new_namespace_is_active_and_has_a_label_of_its_name(client: Client, namespace: str) -> None:
    read = await client.get(NAMESPACE, namespace)
    assert read["status"] == {"phase": "Active"}
    assert read["spec"] == {"finalizers": ["kubernetes"]}
    assert read["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}


async def test_a_deployment_gets_the_defaults_that_every_cluster_gives(client: Client, namespace: str) -> None:
    spec = (await client.create(DEPLOYMENT, deployment("a"), namespace))["spec"]
    container = spec["template"]["spec"].pop("containers")[0]
    assert container == {
        "name": "main",
        "image": "example/main:1",
        "imagePullPolicy": "IfNotPresent",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    assert spec == {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {
                "dnsPolicy": "ClusterFirst",
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
            },
        },
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }


async def test_a_generated_name_begins_with_its_prefix_and_is_new_each_time(client: Client, namespace: str) -> None:
    body = {"metadata": {"generateName": "run-"}}
    made = names([await client.create(CONFIG_MAP, body, namespace) for _ in range(3)])
    assert len(set(made)) == 3
    assert all(re.fullmatch(r"run-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in made)


async def test_a_name_can_be_taken_once(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map("a"), namespace)
    error = await refusal(client.create(CONFIG_MAP, config_map("a"), namespace))
    assert summary(error) == (409, "AlreadyExists", 'configmaps "a" already exists')
    assert error.details == {"name": "a", "kind": "configmaps"}
    await client.create(PLACEMENT, placement_of("a"), namespace)
    error = await refusal(client.create(PLACEMENT, placement_of("a"), namespace))
    assert summary(error) == (409, "AlreadyExists", f'placements.{GROUP} "a" already exists')
    assert error.details == {"name": "a", "group": GROUP, "kind": "placements"}


async def test_what_is_not_there_cannot_be_read_changed_or_deleted(client: Client, namespace: str) -> None:
    expected = (404, "NotFound", 'configmaps "none" not found')
    assert summary(await refusal(client.get(CONFIG_MAP, "none", namespace))) == expected
    assert summary(await refusal(client.patch(CONFIG_MAP, "none", MergePatch({}), namespace))) == expected
    error = await refusal(client.delete(CONFIG_MAP, "none", namespace))
    assert summary(error) == expected
    assert error.details == {"name": "none", "kind": "configmaps"}
    error = await refusal(client.get(PLACEMENT, "none", namespace))
    assert summary(error) == (404, "NotFound", f'placements.{GROUP} "none" not found')


async def test_a_kind_that_nobody_serves_is_not_found(client: Client, namespace: str) -> None:
    unknown: Kind[Document] = Kind("example.com", "v1", "Thing", "things", dict).untyped()
    body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    for asked in (client.get(unknown, "a", namespace), client.list(unknown), client.create(unknown, body, namespace)):
        assert isinstance(await refusal(asked), NotFound)


@KINDS
async def test_nothing_is_created_in_a_namespace_that_does_not_exist(
    client: Client, namespace: str, kind: Kind[Document], make: Callable[[str], Document]
) -> None:
    missing = f"{namespace}-not"
    error = await refusal(client.create(kind, make("a"), missing))
    assert summary(error) == (404, "NotFound", f'namespaces "{missing}" not found')


async def test_an_object_without_a_place_is_refused(client: Client) -> None:
    error = await refusal(client.create(CONFIG_MAP, config_map("a")))
    assert (error.status_code, error.status_reason) == (400, "BadRequest")
    error = await refusal(client.get(CONFIG_MAP, "a"))
    assert (error.status_code, error.status_reason) == (400, "BadRequest")


async def test_a_dry_run_answers_and_changes_nothing(client: Client, namespace: str) -> None:
    dry = WriteOptions(dry_run=True)
    answer = await client.create(PLACEMENT, placement_of("a"), namespace, options=dry)
    assert answer["metadata"]["uid"]
    assert (await client.list(PLACEMENT, namespace)).items == []
    created = await client.create(PLACEMENT, placement_of("a"), namespace)
    patch = MergePatch({"spec": {"numberOfClusters": 7}})
    answer = await client.patch(PLACEMENT, "a", patch, namespace, options=dry)
    assert answer["spec"]["numberOfClusters"] == 7
    await client.delete(PLACEMENT, "a", namespace, options=DeleteOptions(dry_run=True))
    assert await client.get(PLACEMENT, "a", namespace) == created
    error = await refusal(client.create(PLACEMENT, placement_of("b", {"numberOfClusters": -1}), namespace, options=dry))
    assert error.status_code == 422


@KINDS
async def test_a_deleted_object_is_gone_and_its_name_is_free(
    client: Client, namespace: str, kind: Kind[Document], make: Callable[[str], Document]
) -> None:
    first = await client.create(kind, make("a"), namespace)
    await client.delete(kind, "a", namespace)
    assert (await refusal(client.delete(kind, "a", namespace))).status_code == 404
    second = await client.create(kind, make("a"), namespace)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert int(version(second)) > int(version(first))


async def test_a_deletion_spares_an_object_that_is_not_the_one_that_was_meant(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAP, config_map("a"), namespace)
    uid, other = created["metadata"]["uid"], "00000000-0000-0000-0000-000000000000"
    meant = DeleteOptions(preconditions=Preconditions(uid=other))
    error = await refusal(client.delete(CONFIG_MAP, "a", namespace, options=meant))
    why = (
        f"the UID in the precondition ({other}) does not match the UID in record ({uid}). "
        "The object might have been deleted and then recreated"
    )
    assert summary(error) == (409, "Conflict", f'Operation cannot be fulfilled on ConfigMap "a": {why}')
    assert error.details == {"name": "a", "kind": "ConfigMap"}
    meant = DeleteOptions(preconditions=Preconditions(resource_version="1"))
    error = await refusal(client.delete(CONFIG_MAP, "a", namespace, options=meant))
    why = (
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion "
        f"in record ({version(created)}). The object might have been modified"
    )
    assert summary(error) == (409, "Conflict", f'Operation cannot be fulfilled on ConfigMap "a": {why}')
    meant = DeleteOptions(preconditions=Preconditions(uid, version(created)))
    await client.delete(CONFIG_MAP, "a", namespace, options=meant)
    assert (await client.list(CONFIG_MAP, namespace, fields="metadata.name=a")).items == []


@KINDS
async def test_an_object_with_finalizers_waits_for_them(
    client: Client, namespace: str, kind: Kind[Document], make: Callable[[str], Document]
) -> None:
    body = make("a")
    body["metadata"]["finalizers"] = ["example.com/first", "example.com/second"]
    await client.create(kind, body, namespace)
    await client.delete(kind, "a", namespace)
    waiting = await client.get(kind, "a", namespace)
    assert waiting["metadata"]["deletionTimestamp"]
    assert waiting["metadata"]["deletionGracePeriodSeconds"] == 0
    error = await refusal(
        client.patch(kind, "a", MergePatch({"metadata": {"finalizers": ["example.com/new"]}}), namespace)
    )
    assert (error.status_code, error.status_reason) == (422, "Invalid")
    await client.patch(kind, "a", MergePatch({"metadata": {"finalizers": ["example.com/second"]}}), namespace)
    await client.delete(kind, "a", namespace)
    last = await client.patch(kind, "a", MergePatch({"metadata": {"finalizers": None}}), namespace)
    assert last["metadata"]["deletionTimestamp"] == waiting["metadata"]["deletionTimestamp"]
    assert (await refusal(client.get(kind, "a", namespace))).status_code == 404


async def test_cluster_wide_kinds_are_listed_too(client: Client, namespace: str) -> None:
    await client.create(MANAGED_CLUSTER, managed_cluster(namespace))
    listed = await client.list(MANAGED_CLUSTER, fields=f"metadata.name={namespace}")
    assert names(listed.items) == [namespace]
    await client.delete(MANAGED_CLUSTER, namespace)
