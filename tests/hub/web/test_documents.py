"""What a server says about itself: discovery, OpenAPI, version, health; and that each logical cluster says its own."""

import pytest

from tests.hub.api import CLUSTERS, Api, config_map, managed_cluster
from tests.hub.conftest import HubProcess

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_plain_discovery(api: Api) -> None:
    assert api.ok("GET", "/api")["versions"] == ["v1"]
    groups = {group["name"]: group for group in api.ok("GET", "/apis")["groups"]}
    assert {"apps", "batch", "rbac.authorization.k8s.io", "cluster.open-cluster-management.io"} <= groups.keys()
    apps = api.ok("GET", "/apis/apps")
    assert (apps["kind"], apps["preferredVersion"]) == ("APIGroup", {"groupVersion": "apps/v1", "version": "v1"})
    resources = {entry["name"]: entry for entry in api.ok("GET", "/apis/apps/v1")["resources"]}
    assert resources["deployments"]["shortNames"] == ["deploy"]
    assert resources["deployments/scale"]["group"] == "autoscaling"
    assert resources["deployments/status"]["verbs"] == ["get", "patch", "update"]
    core = {entry["name"]: entry for entry in api.ok("GET", "/api/v1")["resources"]}
    assert "deletecollection" not in core["namespaces"]["verbs"]
    assert "deletecollection" in core["pods"]["verbs"]
    assert core["namespaces/finalize"]["verbs"] == ["update"]
    assert core["pods/eviction"]["kind"] == "Eviction"


def test_versions_are_in_the_order_of_preference(api: Api) -> None:
    for group in api.ok("GET", "/apis")["groups"]:
        assert group["preferredVersion"] == group["versions"][0]


def test_aggregated_discovery_says_the_same(api: Api) -> None:
    asking = api.with_headers(Accept=f"{AGGREGATED},application/json")
    answer = asking("GET", "/apis")
    assert answer.headers["Content-Type"] == AGGREGATED
    document = answer.json
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    told = {
        (item["metadata"]["name"], version["version"], resource["resource"])
        for item in document["items"]
        for version in item["versions"]
        for resource in version["resources"]
    }
    plain = {
        (group["name"], version["version"], resource["name"])
        for group in api.ok("GET", "/apis")["groups"]
        for version in group["versions"]
        for resource in api.ok("GET", f"/apis/{version['groupVersion']}")["resources"]
        if "/" not in resource["name"]
    }
    assert told == plain
    core = asking.ok("GET", "/api")["items"][0]["versions"][0]["resources"]
    pods = next(resource for resource in core if resource["resource"] == "pods")
    assert pods["responseKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert {sub["subresource"] for sub in pods["subresources"]} == {"status", "binding", "eviction", "log"}


@pytest.mark.parametrize("path", ["/apis/nope", "/apis/apps/v9", "/api/v2", "/openapi/v3/apis/nope/v1"])
def test_documents_that_are_not_there(api: Api, path: str) -> None:
    answer = api("GET", path)
    assert (answer.status, answer.reason) == (404, "NotFound")


def test_openapi_has_a_document_for_each_group(api: Api) -> None:
    paths = api.ok("GET", "/openapi/v3")["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/cluster.open-cluster-management.io/v1"} <= paths.keys()
    for name in ("api/v1", "apis/cluster.open-cluster-management.io/v1"):
        document = api.ok("GET", paths[name]["serverRelativeURL"])
        assert document["openapi"].startswith("3.")
        assert document["components"]["schemas"]


def test_version_and_health(api: Api) -> None:
    told = api.ok("GET", "/version")
    assert (told["major"], told["minor"]) == ("1", "36")
    for path in ("/healthz", "/livez", "/readyz", "/healthz/ping"):
        assert api("GET", path).data == b"ok"
    assert b"[+]ping ok" in api("GET", "/readyz", verbose="").data
    assert "/version" in api.ok("GET", "/")["paths"]
    assert b"# HELP" in api("GET", "/metrics").data


def test_a_logical_cluster_is_a_server_of_its_own(crds: HubProcess, api: Api, maps: str) -> None:
    member = Api.of(crds.kubeconfig, "member")
    namespace = maps.split("/")[4]
    api.ok("POST", maps, config_map("a"))
    assert member("GET", f"/api/v1/namespaces/{namespace}").status == 404
    assert member("GET", CLUSTERS).status == 404  # nobody has defined them there
    assert api.ok("GET", CLUSTERS)["kind"] == "ManagedClusterList"
    with member.watch("/api/v1/namespaces/default/configmaps") as events:
        created = member.ok("POST", "/api/v1/namespaces/default/configmaps", config_map(namespace))
        seen = next(each["object"] for each in events if each["object"]["metadata"]["name"] == namespace)
        assert seen == created
    assert api("GET", f"/api/v1/namespaces/default/configmaps/{namespace}").status == 404
    for path in ("/version", "/healthz", "/apis", "/openapi/v3"):
        assert member("GET", path).status == 200
    index = member.ok("GET", "/openapi/v3")["paths"]["api/v1"]["serverRelativeURL"]
    assert index.startswith("/clusters/member/openapi/v3/api/v1")
    assert api.ok("GET", "/clusters")["clusters"] == ["member"]
    assert member.with_headers(Authorization=None)("GET", "/api/v1/pods").status == 403
    assert api("POST", "/clusters/nope" + CLUSTERS, managed_cluster("x")).status == 404
