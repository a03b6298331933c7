"""The documents as such, and as a real kubectl reads them from a server of nothing but documents."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from echelon.api import registry
from echelon.api.base import JSON, JSONObject
from echelon.hub.catalogue.catalogue import Catalogue
from echelon.hub.web import discovery, openapi, request
from echelon.hub.web.version import version
from echelon.kube.errors import NotFound

MANAGED_CLUSTER = "io.open-cluster-management.cluster.v1.ManagedCluster"
APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions"
WRITES = {"dryRun", "fieldManager", "fieldValidation"}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    made = Catalogue()
    for crd in registry.crds():
        made.serve(crd)
    return made


@pytest.fixture(scope="module")
def documents(catalogue: Catalogue) -> dict[str, JSONObject]:
    """All documents, by the path that the index has them under."""
    return {path: openapi.document(catalogue, *_group_version(path)) for path in openapi.index(catalogue)["paths"]}


def _group_version(path: str) -> tuple[str, str]:
    parts = path.split("/")
    return ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])


def _walk(value: JSON) -> Iterator[JSONObject]:
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from _walk(part)
    elif isinstance(value, list):
        for part in value:
            yield from _walk(part)


def _operations(document: JSONObject) -> Iterator[tuple[str, str, JSONObject]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method != "parameters":
                yield path, method, operation


def _schema(documents: dict[str, JSONObject], path: str, name: str) -> JSONObject:
    found: JSONObject = documents[path]["components"]["schemas"][name]
    return found


def _crd(kind: str, schema: JSONObject) -> JSONObject:
    plural = f"{kind.lower()}s"
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions},
    }


def test_every_reference_leads_to_a_schema_of_the_same_document(documents: dict[str, JSONObject]) -> None:
    for document in documents.values():
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert {part["$ref"] for part in _walk(document) if "$ref" in part} <= known


def test_documents_hold_what_discovery_lists(catalogue: Catalogue, documents: dict[str, JSONObject]) -> None:
    for path, document in documents.items():
        listed = discovery.resources(catalogue, *_group_version(path))["resources"]
        asked = {(entry["name"], verb) for entry in listed for verb in entry["verbs"] if verb != "watch"}
        described: set[tuple[str, str]] = set()
        for address, method, _ in _operations(document):
            seen = request.parse(method.upper(), address.format(namespace="somewhere", name="it"), {})
            described.add(("/".join(filter(None, (seen.resource, seen.subresource))), seen.verb))
        assert described == asked


def test_operation_ids_are_unique(documents: dict[str, JSONObject]) -> None:
    ids = [operation["operationId"] for document in documents.values() for *_, operation in _operations(document)]
    assert len(ids) == len(set(ids))


def test_every_write_takes_the_parameters_that_clients_look_for(documents: dict[str, JSONObject]) -> None:
    for document in documents.values():
        for path, method, operation in _operations(document):
            names = {parameter["name"] for parameter in operation["parameters"]}
            if method in ("post", "put", "patch"):
                assert names >= WRITES, f"{method} {path}"
            assert ("force" in names) == (method == "patch")
            assert set(operation["x-kubernetes-group-version-kind"]) == {"group", "version", "kind"}


def test_only_built_in_kinds_take_strategic_merge_patches(documents: dict[str, JSONObject]) -> None:
    def accepted(document: str, path: str) -> bool:
        content = documents[document]["paths"][path]["patch"]["requestBody"]["content"]
        return "application/strategic-merge-patch+json" in content

    assert accepted("apis/apps/v1", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    group = "apis/cluster.open-cluster-management.io/v1"
    assert not accepted(group, f"/{group}/managedclusters/{{name}}")


def test_kinds_have_the_names_that_kubernetes_gives_them(documents: dict[str, JSONObject]) -> None:
    expected = {
        "api/v1": "io.k8s.api.core.v1.ConfigMap",
        "apis/apps/v1": "io.k8s.api.apps.v1.DeploymentList",
        "apis/rbac.authorization.k8s.io/v1": "io.k8s.api.rbac.v1.ClusterRole",
        "apis/apiextensions.k8s.io/v1": f"{APIEXTENSIONS}.v1.CustomResourceDefinition",
        "apis/cluster.open-cluster-management.io/v1": MANAGED_CLUSTER,
    }
    for path, name in expected.items():
        assert name in documents[path]["components"]["schemas"]


def test_a_kind_says_which_it_is_and_refers_to_the_shared_metadata(documents: dict[str, JSONObject]) -> None:
    schema = _schema(documents, "apis/cluster.open-cluster-management.io/v1", MANAGED_CLUSTER)
    gvk = {"group": "cluster.open-cluster-management.io", "version": "v1", "kind": "ManagedCluster"}
    assert schema["x-kubernetes-group-version-kind"] == [gvk]
    meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    assert schema["properties"]["metadata"]["allOf"] == [{"$ref": f"#/components/schemas/{meta}"}]
    described = _schema(documents, "apis/cluster.open-cluster-management.io/v1", meta)["properties"]
    assert {"name", "labels", "finalizers", "ownerReferences", "managedFields"} <= set(described)


def test_a_scale_is_a_scale_wherever_it_is_served(documents: dict[str, JSONObject]) -> None:
    read = documents["apis/apps/v1"]["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["get"]
    assert read["x-kubernetes-group-version-kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    answer = read["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/io.k8s.api.autoscaling.v1.Scale"}


def test_fields_that_take_a_number_or_a_text_name_both() -> None:
    catalogue = Catalogue()
    size = {"x-kubernetes-int-or-string": True, "description": "How large."}
    catalogue.serve(_crd("Gadget", {"type": "object", "properties": {"size": size}}))
    schemas = openapi.document(catalogue, "example.com", "v1")["components"]["schemas"]
    assert schemas["com.example.v1.Gadget"]["properties"]["size"] == {
        "anyOf": [{"type": "integer"}, {"type": "string"}], **size
    }  # fmt: skip


def test_an_embedded_object_shows_that_it_is_one() -> None:
    catalogue = Catalogue()
    raw = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    catalogue.serve(_crd("Gadget", {"type": "object", "properties": {"raw": raw}}))
    shown = openapi.document(catalogue, "example.com", "v1")["components"]["schemas"]["com.example.v1.Gadget"]
    assert set(shown["properties"]["raw"]["properties"]) == {"apiVersion", "kind", "metadata"}
    assert shown["properties"]["raw"]["required"] == ["kind", "apiVersion"]


def test_documents_don_t_change_the_schemas_that_they_are_made_from() -> None:
    catalogue = Catalogue()
    catalogue.serve(_crd("Gadget", {"type": "object", "properties": {"size": {"x-kubernetes-int-or-string": True}}}))
    before = msgspec.json.encode([resource.schema for resource in catalogue])
    openapi.index(catalogue)
    assert msgspec.json.encode([resource.schema for resource in catalogue]) == before


def test_a_hash_changes_with_its_document_and_only_with_it() -> None:
    catalogue = Catalogue()
    catalogue.serve(_crd("Gadget", {"type": "object", "properties": {"size": {"type": "integer"}}}))
    before = openapi.index(catalogue)["paths"]
    catalogue.serve(_crd("Gadget", {"type": "object", "properties": {"size": {"type": "string"}}}))
    after = openapi.index(catalogue)["paths"]
    assert {path for path in after if after[path] != before[path]} == {"apis/example.com/v1"}
    catalogue.serve(_crd("Gadget", {"type": "object", "properties": {"size": {"type": "integer"}}}))
    assert openapi.index(catalogue)["paths"] == before


def test_clusters_that_serve_the_same_have_the_same_hashes() -> None:
    assert openapi.index(Catalogue()) == openapi.index(Catalogue())


def test_what_is_no_longer_served_has_no_document() -> None:
    catalogue = Catalogue()
    catalogue.serve(_crd("Gadget", {"type": "object"}))
    catalogue.withdraw("gadgets.example.com")
    assert "apis/example.com/v1" not in openapi.index(catalogue)["paths"]
    with pytest.raises(NotFound):
        openapi.document(catalogue, "example.com", "v1")


def test_the_version_names_the_kubernetes_release_that_it_stands_for() -> None:
    answer = version()
    assert answer["gitVersion"].startswith(f"v{answer['major']}.{answer['minor']}.0+echelon-")
    assert all(isinstance(value, str) for value in answer.values())


class Documents:
    """A server that has documents and no objects. It keeps the writes that it was sent."""

    def __init__(self, catalogue: Catalogue, live: JSONObject | None = None) -> None:
        self.writes: list[tuple[web.Request, JSONObject]] = []
        self._catalogue = catalogue
        self._live = live

    async def answer(self, call: web.Request) -> web.Response:
        try:
            return web.json_response(await self._answer(call))
        except NotFound as error:
            return web.json_response({"kind": "Status", "reason": "NotFound", "message": str(error)}, status=404)

    async def _answer(self, call: web.Request) -> JSONObject:
        parts = call.path.strip("/").split("/")
        if call.method in ("POST", "PATCH"):
            self.writes.append((call, await call.json()))
            return self._live or self.writes[-1][1]
        match parts:
            case ["version"]:
                return version()
            case ["api"]:
                return discovery.core_versions("127.0.0.1")
            case ["apis"]:
                return discovery.groups(self._catalogue)
            case ["api", "v1"]:
                return discovery.resources(self._catalogue, "", "v1")
            case ["apis", group, group_version]:
                return discovery.resources(self._catalogue, group, group_version)
            case ["openapi", "v3"]:
                return openapi.index(self._catalogue)
            case ["openapi", "v3", *path] if path[0] in ("api", "apis"):
                return openapi.document(self._catalogue, *_group_version("/".join(path)))
        if self._live is None:
            raise NotFound("there is nothing here")
        return self._live

    async def run(self, *command: str, stdin: str = "") -> str:
        """Run kubectl against this server; return what it prints."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(
                command[0], f"--server={site.name}", *command[1:], stdin=pipe, stdout=pipe, stderr=pipe
            )
            out, err = await process.communicate(stdin.encode())
            assert process.returncode == 0, err.decode()
            return out.decode()
        finally:
            await runner.cleanup()


Explain = Callable[..., str]


@pytest.fixture
def explain(catalogue: Catalogue, kubectl: str, tmp_path: Path) -> Explain:
    return lambda *what: asyncio.run(Documents(catalogue).run(kubectl, f"--cache-dir={tmp_path}", "explain", *what))


def test_kubectl_explains_a_custom_kind_to_its_leaves(explain: Explain) -> None:
    text = explain("placements.spec.decisionStrategy", "--recursive")
    assert "GROUP:      cluster.open-cluster-management.io" in text
    assert "FIELD: decisionStrategy <Object>" in text
    assert "decisionGroups\t<[]Object>" in text
    assert "clustersPerDecisionGroup\t<Object>" in text


def test_kubectl_explains_a_built_in_kind(explain: Explain) -> None:
    text = explain("deploy.spec.strategy.rollingUpdate")
    assert "KIND:       Deployment" in text
    assert "maxSurge\t<IntOrString>" in text


def test_kubectl_explains_metadata_through_the_reference(explain: Explain) -> None:
    assert "FIELD: ownerReferences <[]Object>" in explain("managedclusters.metadata.ownerReferences")


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:2"}]}
"""
MANAGED = """
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: paris}
spec: {hubAcceptsClient: true}
"""


@pytest.mark.parametrize("manifest", [DEPLOYMENT, MANAGED], ids=["built-in", "custom"])
@pytest.mark.parametrize("verb", ["apply", "create"])
def test_kubectl_leaves_validation_to_the_server(
    catalogue: Catalogue, kubectl: str, tmp_path: Path, verb: str, manifest: str
) -> None:
    server = Documents(catalogue)
    asyncio.run(server.run(kubectl, f"--cache-dir={tmp_path}", verb, "-f-", stdin=manifest))
    [(sent, _)] = server.writes
    assert sent.method == "POST"
    assert sent.query["fieldValidation"] == "Strict"


def _live(manifest: JSONObject) -> JSONObject:
    applied = msgspec.json.encode(manifest).decode()
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": applied}
    return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": "1", "annotations": annotations}}


def test_kubectl_merges_a_built_in_kind_by_the_keys_of_its_lists(
    catalogue: Catalogue, kubectl: str, tmp_path: Path
) -> None:
    manifest = msgspec.yaml.decode(DEPLOYMENT.replace("web:2", "web:1").encode(), type=JSONObject)
    server = Documents(catalogue, _live(manifest))
    asyncio.run(server.run(kubectl, f"--cache-dir={tmp_path}", "apply", "-f-", stdin=DEPLOYMENT))
    [(sent, patch)] = server.writes
    assert sent.content_type == "application/strategic-merge-patch+json"
    pods = patch["spec"]["template"]["spec"]
    assert pods == {"$setElementOrder/containers": [{"name": "web"}], "containers": [{"name": "web", "image": "web:2"}]}


def test_kubectl_merges_a_custom_kind_field_by_field(catalogue: Catalogue, kubectl: str, tmp_path: Path) -> None:
    manifest = msgspec.yaml.decode(MANAGED.encode(), type=JSONObject)
    manifest["spec"]["hubAcceptsClient"] = False
    server = Documents(catalogue, _live(manifest))
    asyncio.run(server.run(kubectl, f"--cache-dir={tmp_path}", "apply", "-f-", stdin=MANAGED))
    [(sent, patch)] = server.writes
    assert sent.content_type == "application/merge-patch+json"
    assert patch["spec"] == {"hubAcceptsClient": True}
