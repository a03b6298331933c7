"""Writes over HTTPS: what they do to generations, versions, names and finalizers."""

import re
from typing import Any

import pytest

from tests.hub.api import (
    APPLY_PATCH,
    CLUSTERS,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Api,
    config_map,
    deployment,
    managed_cluster,
)


@pytest.fixture
def cluster(api: Api, maps: str) -> str:
    """Address of a custom resource that belongs to the test."""
    name = maps.split("/")[4]
    api.ok("POST", CLUSTERS, managed_cluster(name))
    return f"{CLUSTERS}/{name}"


def version(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


# --- create ----------------------------------------------------------------------------------------------------------


def test_what_the_server_fills_in(api: Api, maps: str) -> None:
    sent = config_map("a", x="1")
    sent["metadata"] |= {"uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z", "generation": 7, "selfLink": "x"}
    answer = api("POST", maps, sent)
    assert answer.status == 201
    meta = answer.json["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", meta["uid"])
    assert meta["creationTimestamp"] > "2026"
    assert meta["namespace"] == maps.split("/")[4]
    assert "generation" not in meta
    assert "selfLink" not in meta
    assert api.ok("GET", f"{maps}/a") == answer.json


def test_a_name_is_made_from_a_prefix(api: Api, maps: str) -> None:
    unnamed = {**config_map(""), "metadata": {"generateName": "job-"}}
    made = {api.ok("POST", maps, unnamed)["metadata"]["name"] for _ in range(20)}
    assert len(made) == 20
    assert all(re.fullmatch(r"job-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in made)
    long = api.ok("POST", maps, {**config_map(""), "metadata": {"generateName": "x" * 80}})["metadata"]["name"]
    assert len(long) == 63


def test_a_name_can_be_used_once(api: Api, maps: str) -> None:
    api.ok("POST", maps, config_map("a"))
    answer = api("POST", maps, config_map("a"))
    assert (answer.status, answer.reason, answer.message) == (409, "AlreadyExists", 'configmaps "a" already exists')
    assert answer.json["details"] == {"name": "a", "kind": "configmaps"}
    assert api("POST", maps, config_map("a"), dryRun="All").status == 409


def test_what_is_wrong_is_said_before_what_is_taken(api: Api, maps: str) -> None:
    api.ok("POST", maps, config_map("a"))
    assert api("POST", maps, config_map("a", labels={"a": "b c"})).status == 422


def test_nothing_is_created_in_a_namespace_that_is_not_there(api: Api) -> None:
    answer = api("POST", "/api/v1/namespaces/nowhere/configmaps", config_map("a"))
    assert (answer.status, answer.message) == (404, 'namespaces "nowhere" not found')


def test_a_put_creates_nothing(api: Api, maps: str) -> None:
    answer = api("PUT", f"{maps}/a", config_map("a"))
    assert (answer.status, answer.message) == (404, 'configmaps "a" not found')


def test_an_apply_creates(api: Api, maps: str) -> None:
    answer = api("PATCH", f"{maps}/a", config_map("a", x="1"), APPLY_PATCH, fieldManager="m")
    assert answer.status == 201
    (owner,) = answer.json["metadata"]["managedFields"]
    assert (owner["manager"], owner["operation"]) == ("m", "Apply")
    assert owner["fieldsV1"] == {"f:data": {"f:x": {}}}
    assert api("PATCH", f"{maps}/a", config_map("a", x="1"), APPLY_PATCH, fieldManager="m").status == 200


# --- dry run ---------------------------------------------------------------------------------------------------------


def test_a_dry_run_answers_and_changes_nothing(api: Api, maps: str) -> None:
    dry = api.ok("POST", maps, config_map("a", x="1"), dryRun="All")
    assert dry["metadata"]["uid"]
    assert "resourceVersion" not in dry["metadata"]
    assert api("GET", f"{maps}/a").status == 404
    kept = api.ok("POST", maps, config_map("a", x="1"))
    assert api.ok("PUT", f"{maps}/a", config_map("a", x="2"), dryRun="All")["data"] == {"x": "2"}
    assert api.ok("PATCH", f"{maps}/a", {"data": {"x": "3"}}, MERGE_PATCH, dryRun="All")["data"] == {"x": "3"}
    assert api.ok("PATCH", f"{maps}/a", config_map("a", y="4"), APPLY_PATCH, fieldManager="m", dryRun="All")["data"][
        "y"
    ]
    assert api.ok("DELETE", f"{maps}/a", dryRun="All")["status"] == "Success"
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
    assert api.ok("DELETE", f"{maps}/a", options)["status"] == "Success"
    assert api.ok("GET", f"{maps}/a") == kept


# --- update ----------------------------------------------------------------------------------------------------------


def test_an_update_of_a_version_that_is_gone_is_a_conflict(api: Api, maps: str) -> None:
    old = api.ok("POST", maps, config_map("a", x="1"))
    new = api.ok("PUT", f"{maps}/a", {**old, "data": {"x": "2"}})
    assert version(new) > version(old)
    answer = api("PUT", f"{maps}/a", {**old, "data": {"x": "3"}})
    assert (answer.status, answer.reason) == (409, "Conflict")
    why = "the object has been modified; please apply your changes to the latest version and try again"
    assert answer.message == f'Operation cannot be fulfilled on configmaps "a": {why}'
    for media, patch in (
        (MERGE_PATCH, {"metadata": {"resourceVersion": str(version(old))}}),
        (STRATEGIC_PATCH, {"metadata": {"resourceVersion": str(version(old))}}),
        (JSON_PATCH, [{"op": "replace", "path": "/metadata/resourceVersion", "value": str(version(old))}]),
    ):
        assert api("PATCH", f"{maps}/a", patch, media).status == 409
    config = config_map("a", z="1") | {"metadata": {"name": "a", "resourceVersion": str(version(old))}}
    assert api("PATCH", f"{maps}/a", config, APPLY_PATCH, fieldManager="m").status == 409
    assert api.ok("GET", f"{maps}/a") == new


def test_an_update_without_a_version_takes_what_is_there(api: Api, maps: str, cluster: str) -> None:
    api.ok("POST", maps, config_map("a", x="1"))
    assert api.ok("PUT", f"{maps}/a", config_map("a", x="2"))["data"] == {"x": "2"}
    name = cluster.rpartition("/")[2]
    answer = api("PUT", cluster, managed_cluster(name))  # custom resources insist on one
    assert (answer.status, answer.fields) == (422, ["metadata.resourceVersion"])
    assert "must be specified for an update" in answer.message


def test_an_update_of_another_object_of_the_same_name_is_a_conflict(api: Api, maps: str) -> None:
    old = api.ok("POST", maps, config_map("a"))
    api.ok("DELETE", f"{maps}/a")
    new = api.ok("POST", maps, config_map("a"))
    sent = {**new, "metadata": {**new["metadata"], "uid": old["metadata"]["uid"]}}
    answer = api("PUT", f"{maps}/a", sent)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert f"UID in precondition: {old['metadata']['uid']}" in answer.message


def test_generations_count_changes_of_what_is_wanted(api: Api, cluster: str) -> None:
    def after(path: str, **patch: Any) -> int:
        return int(api.ok("PATCH", path, patch, MERGE_PATCH)["metadata"]["generation"])

    assert api.ok("GET", cluster)["metadata"]["generation"] == 1
    assert after(cluster, metadata={"labels": {"a": "b"}}) == 1
    assert after(cluster, spec={"leaseDurationSeconds": 30}) == 2
    assert after(cluster, spec={"leaseDurationSeconds": 30}) == 2
    assert after(f"{cluster}/status", status={"version": {"kubernetes": "1"}}) == 2
    assert after(cluster, metadata={"generation": 77}) == 2
    assert after(cluster, metadata={"finalizers": ["a.b/c"]}) == 2
    deleted = api.ok("DELETE", cluster)
    assert deleted["metadata"]["generation"] == 3  # to be gone is wanted now
    api.ok("PATCH", cluster, {"metadata": {"finalizers": None}}, MERGE_PATCH)


def test_status_and_the_rest_are_written_apart(api: Api, cluster: str) -> None:
    before = api.ok("GET", cluster)
    both = {
        "metadata": {"labels": {"l": "v"}, "annotations": {"a": "v"}},
        "spec": {"leaseDurationSeconds": 99},
        "status": {"version": {"kubernetes": "1"}},
    }
    through_status = api.ok("PATCH", f"{cluster}/status", both, MERGE_PATCH)
    assert through_status["status"] == both["status"]
    assert through_status["spec"] == before["spec"]
    assert "l" not in through_status["metadata"].get("labels", {})
    through_main = api.ok("PATCH", cluster, {**both, "status": {"version": {"kubernetes": "2"}}}, MERGE_PATCH)
    assert through_main["status"] == both["status"]
    assert through_main["spec"]["leaseDurationSeconds"] == 99
    assert api.ok("GET", f"{cluster}/status") == through_main
    replaced = api.ok("PUT", f"{cluster}/status", {**through_main, "spec": {"hubAcceptsClient": False}, "status": {}})
    assert replaced["spec"] == through_main["spec"]
    assert replaced.get("status") == {}
    name = cluster.rpartition("/")[2]
    created = api.ok("POST", CLUSTERS, {**managed_cluster(f"{name}-2"), "status": {"version": {"kubernetes": "1"}}})
    assert "status" not in created


def test_nobody_owns_a_status_that_was_not_taken(api: Api, cluster: str) -> None:
    name = cluster.rpartition("/")[2]
    config = {**managed_cluster(name), "status": {"version": {"kubernetes": "1"}}}
    applied = api.ok("PATCH", cluster, config, APPLY_PATCH, fieldManager="m", force="true")
    owner = next(entry for entry in applied["metadata"]["managedFields"] if entry["manager"] == "m")
    assert "f:status" not in owner["fieldsV1"]


# --- delete ----------------------------------------------------------------------------------------------------------


def test_a_delete_says_what_is_gone(api: Api, maps: str) -> None:
    uid = api.ok("POST", maps, config_map("a"))["metadata"]["uid"]
    gone = api.ok("DELETE", f"{maps}/a")
    assert (gone["kind"], gone["status"]) == ("Status", "Success")
    assert gone["details"] == {"name": "a", "kind": "configmaps", "uid": uid}
    answer = api("DELETE", f"{maps}/a")
    assert (answer.status, answer.message) == (404, 'configmaps "a" not found')


def test_a_delete_with_the_right_preconditions(api: Api, maps: str) -> None:
    meta = api.ok("POST", maps, config_map("a"))["metadata"]
    wanted = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    api.ok("PATCH", f"{maps}/a", {"data": {"x": "2"}}, MERGE_PATCH)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": wanted}
    answer = api("DELETE", f"{maps}/a", options)
    assert (answer.status, answer.reason) == (409, "Conflict")
    options["preconditions"] = {"uid": meta["uid"]}
    assert api.ok("DELETE", f"{maps}/a", options)["status"] == "Success"


def test_a_finalizer_keeps_an_object_until_it_is_taken_away(api: Api, maps: str) -> None:
    sent = config_map("a", x="1")
    sent["metadata"]["finalizers"] = ["example.com/first", "example.com/second"]
    api.ok("POST", maps, sent)
    leaving = api.ok("DELETE", f"{maps}/a")
    assert leaving["kind"] == "ConfigMap"
    assert leaving["metadata"]["deletionTimestamp"]
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 0
    again = api.ok("DELETE", f"{maps}/a")
    assert again == leaving
    more = {"metadata": {"finalizers": ["example.com/first", "example.com/third"]}}
    answer = api("PATCH", f"{maps}/a", more, MERGE_PATCH)
    assert (answer.status, answer.fields) == (422, ["metadata.finalizers"])
    assert "no new finalizers can be added if the object is being deleted" in answer.message
    api.ok("PATCH", f"{maps}/a", {"metadata": {"finalizers": ["example.com/second"]}, "data": {"x": "2"}}, MERGE_PATCH)
    assert api.ok("GET", f"{maps}/a")["data"] == {"x": "2"}
    api.ok("PATCH", f"{maps}/a", {"metadata": {"finalizers": []}}, MERGE_PATCH)
    assert api("GET", f"{maps}/a").status == 404


def test_some_namespaces_stay(api: Api) -> None:
    answer = api("DELETE", "/api/v1/namespaces/default")
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == 'namespaces "default" is forbidden: this namespace may not be deleted'


# --- patches ---------------------------------------------------------------------------------------------------------


def test_each_kind_of_patch(api: Api, maps: str) -> None:
    deployments = maps.replace("/api/v1/", "/apis/apps/v1/").replace("configmaps", "deployments")
    api.ok("POST", deployments, deployment("d"))
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}}

    def images(patched: dict[str, Any]) -> list[str]:
        return [container["image"] for container in patched["spec"]["template"]["spec"]["containers"]]

    assert images(api.ok("PATCH", f"{deployments}/d", side, STRATEGIC_PATCH)) == ["side:1", "app:1"]
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "side:2"}]
    assert images(api.ok("PATCH", f"{deployments}/d", image, JSON_PATCH)) == ["side:2", "app:1"]
    assert images(api.ok("PATCH", f"{deployments}/d", side, MERGE_PATCH)) == ["side:1"]
    api.ok("PATCH", f"{deployments}/d", {"spec": {"paused": True}}, MERGE_PATCH)
    assert "paused" not in api.ok("PATCH", f"{deployments}/d", {"spec": {"paused": None}}, MERGE_PATCH)["spec"]


def test_two_appliers_share_and_contend(api: Api, maps: str) -> None:
    path = f"{maps}/a"
    api.ok("PATCH", path, config_map("a", x="1", y="1"), APPLY_PATCH, fieldManager="first")
    answer = api("PATCH", path, config_map("a", x="2"), APPLY_PATCH, fieldManager="second")
    assert (answer.status, answer.reason, answer.fields) == (409, "Conflict", [".data.x"])
    assert answer.message == 'Apply failed with 1 conflict: conflict with "first": .data.x'
    forced = api.ok("PATCH", path, config_map("a", x="2"), APPLY_PATCH, fieldManager="second", force="true")
    assert forced["data"] == {"x": "2", "y": "1"}
    assert api.ok("PATCH", path, config_map("a"), APPLY_PATCH, fieldManager="first")["data"] == {"x": "2"}
