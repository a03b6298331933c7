"""Subresources over HTTPS: scale, and the few that built-in kinds have."""

import time

import pytest

from tests.hub.api import JSON_PATCH, MERGE_PATCH, Api, config_map, deployment


@pytest.fixture
def scaled(api: Api, maps: str) -> str:
    deployments = maps.replace("/api/v1/", "/apis/apps/v1/").replace("configmaps", "deployments")
    api.ok("POST", deployments, deployment("web", replicas=2))
    return f"{deployments}/web"


def test_the_scale_of_a_deployment(api: Api, scaled: str) -> None:
    parent = api.ok("GET", scaled)
    scale = api.ok("GET", f"{scaled}/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert scale["metadata"] == {name: parent["metadata"][name] for name in kept}
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}


def test_a_scale_is_written_by_put_and_patch(api: Api, scaled: str) -> None:
    scale = api.ok("GET", f"{scaled}/scale")
    written = api.ok("PUT", f"{scaled}/scale", {**scale, "spec": {"replicas": 5}})
    assert written["spec"] == {"replicas": 5}
    assert api.ok("GET", scaled)["spec"]["replicas"] == 5
    assert api.ok("GET", scaled)["metadata"]["generation"] == 2
    assert api("PUT", f"{scaled}/scale", {**scale, "spec": {"replicas": 6}}).status == 409
    assert api.ok("PATCH", f"{scaled}/scale", {"spec": {"replicas": 7}}, MERGE_PATCH)["spec"]["replicas"] == 7
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 0}]
    api.ok("PATCH", f"{scaled}/scale", operations, JSON_PATCH)
    assert api.ok("GET", scaled)["spec"]["replicas"] == 0
    owners = {(o["manager"], o.get("subresource")) for o in api.ok("GET", scaled)["metadata"]["managedFields"]}
    assert ("unknown", "scale") in owners


def test_a_scale_that_cannot_be(api: Api, scaled: str) -> None:
    answer = api("PATCH", f"{scaled}/scale", {"spec": {"replicas": -1}}, MERGE_PATCH)
    assert (answer.status, answer.fields) == (422, ["spec.replicas"])
    assert api("PATCH", f"{scaled}/scale", {"spec": {"replicas": "x"}}, MERGE_PATCH).status in (400, 422)
    assert api("PUT", f"{scaled}/scale", {"spec": []}).status == 400
    assert api("DELETE", f"{scaled}/scale").status == 405
    assert api("GET", f"{scaled}-none/scale").status == 404
    assert api.ok("GET", scaled)["spec"]["replicas"] == 2


def test_a_pod_is_bound_once(api: Api, maps: str) -> None:
    pods = maps.replace("configmaps", "pods")
    spec = deployment("d")["spec"]["template"]["spec"]
    api.ok("POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    assert api("POST", f"{pods}/p/binding", binding).status == 201
    assert api.ok("GET", f"{pods}/p")["spec"]["nodeName"] == "n"
    answer = api("POST", f"{pods}/p/binding", binding)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "already assigned to node" in answer.message


def test_an_evicted_pod_goes(api: Api, maps: str) -> None:
    pods = maps.replace("configmaps", "pods")
    spec = deployment("d")["spec"]["template"]["spec"]
    api.ok("POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert api("POST", f"{pods}/p/eviction", eviction).status == 201
    assert api("GET", f"{pods}/p").status == 404


def test_a_namespace_goes_when_it_is_finalized_and_empty(api: Api) -> None:
    namespaces = "/api/v1/namespaces"
    made = api.ok(
        "POST", namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "leaving-"}}
    )
    path = f"{namespaces}/{made['metadata']['name']}"
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}
    keeping = {**made, "spec": {"finalizers": ["kubernetes", "example.com/mine"]}}
    assert api.ok("PUT", f"{path}/finalize", keeping)["spec"] == keeping["spec"]
    api.ok("POST", f"{path}/configmaps", config_map("inside"))
    assert api.ok("DELETE", path)["status"]["phase"] == "Terminating"
    answer = api("POST", f"{path}/configmaps", config_map("late"))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    deadline = time.monotonic() + 20
    while (left := api.ok("GET", path))["spec"]["finalizers"] != ["example.com/mine"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert api.ok("GET", f"{path}/configmaps")["items"] == []
    wrong = api("PUT", f"{path}/finalize", {**left, "metadata": {"name": "other"}})
    assert wrong.status == 400
    api.ok("PUT", f"{path}/finalize", {**left, "spec": {}})
    assert api("GET", path).status == 404
