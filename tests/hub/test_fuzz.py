"""Whatever is sent, the hub answers with a Status of its own choice: it never fails, and it never falls silent.

Requests that would work are spoilt in a few places, so that they get past the first checks and into the verbs.
"""

import asyncio
import copy
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from yarl import URL

from echelon.api import registry
from echelon.hub.server import Hub, Settings
from echelon.hub.verbs import reading
from echelon.hub.web import options
from tests.examples import examples
from tests.hub.api import (
    APPLY_PATCH,
    CLUSTERS,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    config_map,
    deployment,
    managed_cluster,
)

NAMESPACE = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REVIEWS = "/apis/authorization.k8s.io/v1"


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    query: dict[str, str] = field(default_factory=dict)
    accept: str = "application/json"
    raw: bytes | None = None

    @property
    def data(self) -> bytes | None:
        if self.raw is not None:
            return self.raw
        return None if self.body is None else json.dumps(self.body).encode()


def pod() -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "app:1", "ports": [{"containerPort": 80}]}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def role_binding() -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subjects = [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]
    meta = {"name": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}]}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta}
    return {**head, "roleRef": reference, "subjects": subjects}


def review(kind: str) -> dict[str, Any]:
    resource = {"namespace": "default", "verb": "get", "resource": "pods"}
    spec = {"user": "jane", "groups": ["a"], "resourceAttributes": resource, "namespace": "default"}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


def small_crd() -> dict[str, Any]:
    crd: dict[str, Any] = next(c for c in registry.crds() if c["spec"]["names"]["plural"] == "clusterclaims")
    return crd


PATCH = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "data": {"x": "y"}}
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 3}}
DELETE = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"}, "propagationPolicy": "Orphan"}
JSON_OPERATIONS = [
    {"op": "test", "path": "/metadata/name", "value": "a"},
    {"op": "add", "path": "/data/k", "value": "v"},
    {"op": "move", "from": "/data/k", "path": "/data/l"},
]
TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}}
BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": {}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s"},
    "data": {"a": "Yg=="},
    "stringData": {"c": "d"},
}
GOOD = [
    Call("POST", f"{NAMESPACE}/configmaps", config_map("n", labels={"a": "b"}, x="y")),
    Call("POST", f"{NAMESPACE}/configmaps", {**config_map("n"), "metadata": {"generateName": "n-"}}),
    Call("PUT", f"{NAMESPACE}/configmaps/a", config_map("a", x="y")),
    Call("POST", f"{NAMESPACE}/pods", pod()),
    Call("POST", f"{NAMESPACE}/pods/p/binding", BINDING),
    Call("POST", f"{NAMESPACE}/pods/p/eviction", EVICTION),
    Call("POST", f"{NAMESPACE}/services", SERVICE),
    Call("POST", f"{NAMESPACE}/secrets", SECRET),
    Call("POST", f"{NAMESPACE}/serviceaccounts/default/token", TOKEN),
    Call("PUT", f"{NAMESPACE}/finalize", {"metadata": {"name": "default"}, "spec": {"finalizers": ["kubernetes"]}}),
    Call("POST", DEPLOYMENTS, deployment("n")),
    Call("PUT", f"{DEPLOYMENTS}/d/scale", SCALE),
    Call("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 2}}, MERGE_PATCH),
    Call("PATCH", f"{DEPLOYMENTS}/d", deployment("d"), STRATEGIC_PATCH),
    Call("PATCH", f"{DEPLOYMENTS}/d", deployment("d"), APPLY_PATCH, {"fieldManager": "m", "force": "true"}),
    Call("PATCH", f"{NAMESPACE}/configmaps/a", PATCH, MERGE_PATCH),
    Call("PATCH", f"{NAMESPACE}/configmaps/a", JSON_OPERATIONS, JSON_PATCH),
    Call("POST", CLUSTERS, managed_cluster("n", taints=[{"key": "k", "effect": "NoSelect"}])),
    Call("PATCH", f"{CLUSTERS}/c", managed_cluster("c"), APPLY_PATCH, {"fieldManager": "m"}),
    Call("PATCH", f"{CLUSTERS}/c/status", {"status": {"conditions": [], "capacity": {"cpu": "1"}}}, MERGE_PATCH),
    Call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", small_crd()),
    Call("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", role_binding()),
    Call("POST", f"{REVIEWS}/subjectaccessreviews", review("SubjectAccessReview")),
    Call("POST", f"{REVIEWS}/selfsubjectaccessreviews", review("SelfSubjectAccessReview")),
    Call("POST", f"{REVIEWS}/selfsubjectrulesreviews", review("SelfSubjectRulesReview")),
    Call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"kind": "TokenReview", "spec": {"token": "x"}}),
    Call("DELETE", f"{NAMESPACE}/configmaps/gone", DELETE),
    Call("DELETE", f"{NAMESPACE}/events", DELETE, query={"labelSelector": "a=b"}),
    Call("GET", f"{NAMESPACE}/configmaps", query={"labelSelector": "a in (b,c)", "limit": "1"}),
    Call("GET", CLUSTERS, query={"fieldSelector": "metadata.name=c", "watch": "1"}),
    Call("GET", f"{CLUSTERS}/c", query={"resourceVersion": "1"}, accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
    Call("GET", "/apis", accept="application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"),
    Call("GET", "/openapi/v3/apis/apps/v1"),
]  # fmt: skip

TEXTS = ["", "x", "a/b", "..", "%", "\x00", "\r\nX: y", "ü", "-1", "18446744073709551616", "null", "true", "a" * 300]
VALUES: list[Any] = [
    *TEXTS,
    None,
    True,
    False,
    0,
    -1,
    2**63,
    10**40,
    0.5,
    1e300,
    [],
    {},
    [None],
    [[]],
    [{}],
    {"": None},
]
VALUES += [{"a": {"b": [1, "x", None]}}, {"$patch": "replace"}, {"$patch": 3}, [3], ["x"], {"name": []}]
PARAMETERS = ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "watch"]
PARAMETERS += ["sendInitialEvents", "allowWatchBookmarks", "dryRun", "fieldManager", "fieldValidation", "force"]
PARAMETERS += ["gracePeriodSeconds", "propagationPolicy", "orphanDependents", "includeObject", "pretty"]
SELECTORS = [
    "a in (",
    "a in (b",
    "!",
    ",,",
    "a=b=c",
    "metadata.name!=x",
    "spec.nodeName=x",
    "a" * 5000,
    "a>1",
    "a\\=b=c",
]
SELECTORS += [
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhL2IifQ",
    "Strict",
    "All",
    "Exact",
    "NotOlderThan",
    "Foreground",
]
SEGMENTS = ["", "x", "%2e%2e", "..", "%00", "%ff", "%2f", "status", "scale", "namespaces", "c", "%C3%BC", "*", "a%20b"]
TYPES = ["", "text/plain", "application/yaml", "application/json; charset=utf-8", ";;;", JSON_PATCH, MERGE_PATCH]
TYPES += [STRATEGIC_PATCH, APPLY_PATCH, "application/vnd.kubernetes.protobuf", "application/json"]
ACCEPTS = ["", "*/*", "application/yaml", "text/html", ";;;", "application/json;as=Table;v=v1;g=meta.k8s.io"]
ACCEPTS += ["application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf"]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def put(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    tree = copy.deepcopy(tree)
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return tree


@st.composite
def spoilt(draw: st.DrawFn) -> Call:
    call = draw(st.sampled_from(GOOD))
    for _ in range(draw(st.integers(1, 3))):
        what = draw(
            st.sampled_from(["value", "value", "value", "new", "bytes", "query", "path", "type", "accept", "method"])
        )
        if what in ("value", "new") and call.body is not None:
            path = draw(st.sampled_from(list(places(call.body))))
            value = draw(st.sampled_from(VALUES))
            if what == "new" and isinstance(call.body, dict):
                path = (draw(st.sampled_from([*call.body, "status", "nope", "metadata", ""])),)
            call = replace(call, body=put(call.body, path, value))
        elif what == "bytes" and call.data:
            start, end = sorted(draw(st.integers(0, len(call.data))) for _ in range(2))
            call = replace(call, raw=call.data[:start] + draw(st.binary(max_size=4)) + call.data[end:])
        elif what == "query":
            name, value = draw(st.sampled_from(PARAMETERS)), draw(st.sampled_from([*TEXTS, *SELECTORS]))
            call = replace(call, query={**call.query, name: value})
        elif what == "path":
            parts = call.path.split("/")
            parts[draw(st.integers(1, len(parts) - 1))] = draw(st.sampled_from(SEGMENTS))
            call = replace(call, path="/".join([*parts, *draw(st.lists(st.sampled_from(SEGMENTS), max_size=2))]))
        elif what == "type":
            call = replace(call, content_type=draw(st.sampled_from(TYPES)))
        elif what == "accept":
            call = replace(call, accept=draw(st.sampled_from(ACCEPTS)))
        elif what == "method":
            call = replace(
                call, method=draw(st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]))
            )
    return call


class Server:
    """A hub on the test's own event loop."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._hub = runner.run(Hub.start(Settings()))
        self._session = runner.run(self._connect())
        self.problems: list[str] = []
        runner.get_loop().set_exception_handler(lambda _loop, context: self.problems.append(str(context)))
        for call in self._scenery():
            status, answer = self.send(call)
            assert status == 201, answer

    async def _connect(self) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {self._hub.admin_token}"}
        return aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False))

    def _scenery(self) -> Iterator[Call]:
        for crd in registry.crds():
            yield Call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        yield Call("POST", f"{NAMESPACE}/configmaps", config_map("a", x="y"))
        yield Call("POST", f"{NAMESPACE}/pods", pod())
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        yield Call("POST", f"{NAMESPACE}/serviceaccounts", account)
        yield Call("POST", DEPLOYMENTS, deployment("d"))
        yield Call("POST", CLUSTERS, managed_cluster("c"))

    def send(self, call: Call) -> tuple[int, str]:
        return self._runner.run(self._send(call))

    async def _send(self, call: Call) -> tuple[int, str]:
        url = URL(self._hub.url() + call.path, encoded=True).update_query(call.query)
        headers = {"Content-Type": call.content_type, "Accept": call.accept}
        async with self._session.request(call.method, url, data=call.data, headers=headers) as response:
            return response.status, (await response.read()).decode("utf-8", "replace")

    def close(self) -> None:
        self._runner.run(self._session.close())
        self._runner.run(self._hub.stop())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setattr(reading, "FUTURE_REVISION_SECONDS", 0.01)  # nothing here ever comes later
        patch.setattr(options, "_WATCH_SECONDS", 0.02)
        running = Server(runner)
        yield running
        running.close()


@settings(examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(call=spoilt())
@example(call=Call("GET", f"{NAMESPACE}/configmaps", query={"limit": "9223372036854775807", "labelSelector": "a=b"}))
@example(call=Call("DELETE", f"{NAMESPACE}/configmaps/a", {"preconditions": []}, query={"dryRun": "All"}))
@example(
    call=Call("POST", f"{NAMESPACE}/configmaps", {**config_map("n"), "a\r\nX-Evil: 1": 1}, query={"dryRun": "All"})
)
def test_no_request_breaks_the_hub(server: Server, call: Call, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        status, answer = server.send(call)
    assert status < 500 or status == 504, f"{call}\n{answer}\n{caplog.text}"
    assert caplog.records == []
    assert server.problems == []
    if status >= 400 and call.method != "HEAD":
        assert json.loads(answer)["code"] == status
    assert server.send(Call("GET", f"{NAMESPACE}"))[0] == 200
