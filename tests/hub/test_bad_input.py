"""Bad input: each mistake gets the Status that Kubernetes gives, nothing is stored, and the hub goes on.

Codes and texts were compared with those of kube-apiserver 1.36. Where the hub differs on purpose a comment says so.
"""

import json
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.hub.api import (
    APPLY_PATCH,
    CLUSTERS,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Answer,
    Api,
    config_map,
    deployment,
    managed_cluster,
)

YAML = "application/yaml"
UID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def unharmed(api: Api, maps: str) -> Iterator[str]:
    """The test's config maps; afterwards there is still only the one that was there before, as it was."""
    kept = api.ok("POST", maps, config_map("kept", a="b"))
    yield maps
    assert api.ok("GET", maps)["items"] == [kept]


def refused(answer: Answer, status: int, *said: str) -> None:
    assert answer.status == status, answer.data.decode()[:2000]
    for text in said:
        assert text in answer.message


# --- bodies that are no documents -------------------------------------------------------------------------------------

BOMB = "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "unexpected end of JSON input (<empty>)"),
        ('{"a":', 'unexpected end of JSON input ({"a":)'),
        ("hello", "invalid character 'h' looking for beginning of value"),
        ("{} x", "invalid character 'x' after top-level value"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ('{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        ("[]", "json: cannot unmarshal array into Go value"),
        ('"x"', "json: cannot unmarshal string into Go value"),
        ("3", "json: cannot unmarshal number into Go value"),
        ("[" * 20_000, "exceeded max depth"),
        ('{"a":' * 20_000, "exceeded max depth"),
        # Kubernetes allows 10,000 levels in JSON; no object that is meant to be read has more than a hundred.
        ('{"a":' * 200 + "1" + "}" * 200, "exceeded max depth"),
        (b'{"a":"\x00"}', "invalid character"),
        # Kubernetes replaces what is no UTF-8. Silently storing something else is not better.
        (b'{"a":"\xff"}', "invalid UTF-8"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str | bytes) else None,
)  # fmt: skip
def test_a_body_that_is_no_json_object(api: Api, unharmed: str, body: str | bytes, said: str) -> None:
    refused(api("POST", unharmed, body), 400, "the object provided is unrecognized (must be of type ConfigMap)", said)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("a: [", "did not find expected node content"),
        ("hello", "json: cannot unmarshal string into Go value"),
        ("{a: " * 300 + "1" + "}" * 300, "exceeded max depth"),
        (BOMB, "document contains excessive aliasing"),
        ("a: &a [*a]", "yaml: "),
        ("a: 1\n---\nb: 2\n", "expected a single document"),
        ("!!python/object/apply:os.system [ls]", "yaml: "),
    ],
    ids=["unclosed", "scalar", "deep", "bomb", "recursive", "two-documents", "python-tag"],
)
def test_a_body_that_is_no_yaml_object(api: Api, unharmed: str, body: str, said: str) -> None:
    refused(api("POST", unharmed, body, YAML), 400, said)


def test_a_body_over_the_limit_is_refused_unread(api: Api, unharmed: str) -> None:
    answer = api("POST", unharmed, json.dumps(config_map("n")) + " " * (3 << 20))
    refused(answer, 413, "Request entity too large: limit is 3145728")
    assert answer.reason == "RequestEntityTooLarge"


def test_a_chunked_body_over_the_limit_is_refused(api: Api, unharmed: str) -> None:
    connection = api.connect()
    headers = {**api.headers, "Content-Type": "application/json"}
    connection.request("POST", unharmed, body=iter([b" " * (1 << 20)] * 4), headers=headers, encode_chunked=True)
    response = connection.getresponse()
    assert response.status == 413
    connection.close()


def test_an_object_over_the_limit_is_refused(api: Api, unharmed: str) -> None:
    policies = unharmed.replace("/api/v1/", "/apis/policy.open-cluster-management.io/v1/").replace(
        "configmaps", "policies"
    )
    inner = {"apiVersion": "v1", "kind": "Any", "metadata": {"name": "x"}, "text": "x" * 1_572_864}
    spec = {"disabled": False, "policy-templates": [{"objectDefinition": inner}]}
    body = {
        "apiVersion": "policy.open-cluster-management.io/v1",
        "kind": "Policy",
        "metadata": {"name": "p"},
        "spec": spec,
    }
    refused(api("POST", policies, body), 413, "etcdserver: request is too large")
    inner["text"] = "x" * 1_500_000
    api.ok("POST", policies, body)
    grown = {"metadata": {"annotations": {"more": "x" * 100_000}}}
    refused(api("PATCH", f"{policies}/p", grown, MERGE_PATCH), 413, "etcdserver: request is too large")
    assert "annotations" not in api.ok("GET", f"{policies}/p")["metadata"]
    api.ok("DELETE", f"{policies}/p")


def test_a_config_map_over_its_limit_is_refused(api: Api, unharmed: str) -> None:
    refused(api("POST", unharmed, config_map("n", a="x" * ((1 << 20) + 1))), 422, "may not be more than 1048576 bytes")


def test_annotations_over_their_limit_are_refused(api: Api, unharmed: str) -> None:
    body = config_map("n") | {"metadata": {"name": "n", "annotations": {"a": "x" * (256 << 10)}}}
    answer = api("POST", unharmed, body)
    refused(answer, 422, "Too long: may not be more than 262144 bytes")
    assert answer.fields == ["metadata.annotations"]


@pytest.mark.parametrize("media", ["text/plain", "application/xml", "multipart/form-data"])
def test_a_body_of_an_unknown_type(api: Api, unharmed: str, media: str) -> None:
    answer = api("POST", unharmed, config_map("n"), media)
    refused(answer, 415, "the body of the request was in an unknown format - accepted media types include:")
    assert answer.reason == "UnsupportedMediaType"


def test_a_patch_of_an_unknown_type(api: Api, unharmed: str) -> None:
    refused(api("PATCH", f"{unharmed}/kept", {}, "application/json"), 415)
    answer = api("PATCH", f"{CLUSTERS}/any", {}, STRATEGIC_PATCH)
    refused(answer, 415, "application/merge-patch+json")
    assert STRATEGIC_PATCH not in answer.message


# --- objects of the wrong shape --------------------------------------------------------------------------------------

WRONG_TYPES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "Secret"}, "cannot be handled as a ConfigMap"),
    ({"kind": 3}, "ConfigMap"),
    ({"apiVersion": "v2"}, "v2"),
    ({"apiVersion": "a/b/c"}, "a/b/c"),
    ({"metadata": []}, "json: cannot unmarshal array"),
    ({"metadata": "x"}, "json: cannot unmarshal string"),
    ({"metadata": {"name": 3}}, "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"),
    ({"metadata": {"name": "n", "labels": {"a": 3}}}, "ObjectMeta.labels of type string"),
    ({"metadata": {"name": "n", "labels": []}}, "ObjectMeta.labels of type map[string]string"),
    ({"metadata": {"name": "n", "finalizers": "x"}}, "ObjectMeta.finalizers of type []string"),
    ({"metadata": {"name": "n", "creationTimestamp": "yesterday"}}, 'parsing time "yesterday"'),
    ({"metadata": {"name": "n", "namespace": "other"}}, "does not match the namespace sent on the request"),
    ({"data": []}, "json: cannot unmarshal"),
    ({"data": {"a": 3}}, "json: cannot unmarshal"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG_TYPES, ids=lambda value: json.dumps(value)[:40])
def test_an_object_that_is_none_of_its_kind(api: Api, unharmed: str, wrong: dict[str, Any], said: str) -> None:
    refused(api("POST", unharmed, {**config_map("n"), **wrong}), 400, said)


def test_a_new_object_has_no_version(api: Api, unharmed: str) -> None:
    answer = api("POST", unharmed, {**config_map("n"), "metadata": {"name": "n", "resourceVersion": "1"}})
    assert answer.message == "resourceVersion should not be set on objects to be created"


@pytest.mark.parametrize("spec", [3, "x", [], {"template": 3}, {"template": {"spec": []}}, {"replicas": "x"}])
def test_a_deployment_with_wrong_types_is_refused_before_it_is_filled_in(api: Api, unharmed: str, spec: object) -> None:
    deployments = unharmed.replace("/api/v1/", "/apis/apps/v1/").replace("configmaps", "deployments")
    refused(api("POST", deployments, {**deployment("n"), "spec": spec}), 400, "json: cannot unmarshal")


def test_a_custom_resource_names_the_field_of_the_wrong_type(api: Api) -> None:
    for wrong, field in [(3, "spec"), ({"hubAcceptsClient": "x"}, "spec.hubAcceptsClient")]:
        answer = api("POST", CLUSTERS, managed_cluster("bad-type") | {"spec": wrong})
        refused(answer, 422, "in body must be of type")
        assert answer.fields == [field]
    refused(api("GET", f"{CLUSTERS}/bad-type"), 404)


def test_a_custom_resource_needs_to_say_what_it_is(api: Api) -> None:
    for missing in ("kind", "apiVersion"):
        body = managed_cluster("untyped")
        del body[missing]
        refused(api("POST", CLUSTERS, body), 400)
    refused(api("GET", f"{CLUSTERS}/untyped"), 404)


def test_a_body_without_a_name(api: Api, unharmed: str) -> None:
    for metadata in ({}, None, {"name": ""}):
        answer = api("POST", unharmed, {**config_map("n"), "metadata": metadata})
        refused(answer, 422, "name or generateName is required")
        assert answer.fields == ["metadata.name"]
    why = "the name of the object (kept based on URL) was undeterminable: name must be provided"
    refused(api("PUT", f"{unharmed}/kept", {**config_map("n"), "metadata": {}}), 400, why)


def test_a_name_that_is_not_the_one_in_the_address(api: Api, unharmed: str) -> None:
    why = "the name of the object (other) does not match the name on the URL (kept)"
    refused(api("PUT", f"{unharmed}/kept", config_map("other")), 400, why)
    refused(api("PATCH", f"{unharmed}/kept", {"metadata": {"name": "other"}}, MERGE_PATCH), 400, why)
    refused(api("PATCH", f"{unharmed}/kept", config_map("other"), APPLY_PATCH, fieldManager="m"), 400, why)
    wrong = {"metadata": {"namespace": "other"}}
    refused(api("PATCH", f"{unharmed}/kept", wrong, MERGE_PATCH), 400, "does not match the namespace")


BAD_NAMES = ["A", "a_b", "-a", "a-", "a..b", "a/b", ".", "..", "a b", "ü", "%", "a\x00b", "😀", "a" * 254]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_a_name_that_is_no_subdomain(api: Api, unharmed: str, name: str) -> None:
    for path, body in ((unharmed, config_map(name)), (CLUSTERS, managed_cluster(name))):
        answer = api("POST", path, body)
        refused(answer, 422, "must consist of" if len(name) < 254 else "must be no more than 253 characters")
        assert answer.fields == ["metadata.name"]


def test_each_kind_has_its_own_rule_for_names(api: Api, unharmed: str) -> None:
    namespaces = "/api/v1/namespaces"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a.b"}}
    refused(api("POST", namespaces, body), 422, "must not contain dots")
    services = unharmed.replace("configmaps", "services")
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "1a"}, "spec": {"ports": [{"port": 80}]}}
    refused(api("POST", services, body), 422, "a DNS-1035 label must consist of")
    roles = unharmed.replace("/api/v1/", "/apis/rbac.authorization.k8s.io/v1/").replace("configmaps", "roles")
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a%b"}, "rules": []}
    refused(api("POST", roles, body), 422, "may not contain '%'")
    api.ok("POST", roles, body | {"metadata": {"name": "Any:Name"}})


@pytest.mark.parametrize(
    ("metadata", "field", "said"),
    [
        ({"labels": {"a b": "x"}}, "metadata.labels", "name part must consist of"),
        ({"labels": {"a": "x y"}}, "metadata.labels", "a valid label must be"),
        ({"annotations": {"": "x"}}, "metadata.annotations", "name part must be non-empty"),
        ({"finalizers": ["a b"]}, "metadata.finalizers", "name part must consist of"),
        ({"finalizers": ["short"]}, "metadata.finalizers[0]", "neither a standard finalizer name nor"),
        ({"ownerReferences": [{}]}, "metadata.ownerReferences.uid", "must not be empty"),
    ],
)
def test_metadata_that_breaks_a_rule(api: Api, unharmed: str, metadata: dict[str, Any], field: str, said: str) -> None:
    answer = api("POST", unharmed, {**config_map("n"), "metadata": {"name": "n", **metadata}})
    refused(answer, 422, said)
    assert field in answer.fields


# --- field validation ------------------------------------------------------------------------------------------------


def test_unknown_and_repeated_fields_are_refused_under_strict_validation(api: Api, unharmed: str) -> None:
    body = {**config_map("n"), "nope": 1, "metadata": {"name": "n", "nope": 2}}
    why = 'strict decoding error: unknown field "metadata.nope", unknown field "nope"'
    refused(api("POST", unharmed, body, fieldValidation="Strict"), 400, why)
    text = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"},"data":{"a":"1","a":"2"}}'
    why = 'strict decoding error: duplicate field "data.a"'
    refused(api("POST", unharmed, text, fieldValidation="Strict"), 400, why)
    text = yaml.safe_dump(config_map("n")) + "kind: ConfigMap\n"
    refused(api("POST", unharmed, text, YAML, fieldValidation="Strict"), 400, 'duplicate field "kind"')
    body = managed_cluster("n", nope=1)
    refused(api("POST", CLUSTERS, body, fieldValidation="Strict"), 400, 'unknown field "spec.nope"')


def test_unknown_and_repeated_fields_are_warned_of_otherwise(api: Api, unharmed: str) -> None:
    text = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"},"nope":1,"data":{"a":"1","a":"2"}}'
    answer = api("POST", unharmed, text, dryRun="All")
    assert answer.status == 201
    assert answer.json["data"] == {"a": "2"}
    assert "nope" not in answer.json
    assert answer.warnings == (r'299 - "duplicate field \"data.a\""', r'299 - "unknown field \"nope\""')
    assert api("POST", unharmed, text, dryRun="All", fieldValidation="Ignore").warnings == ()


def test_a_refusal_carries_its_warnings_too(api: Api) -> None:
    answer = api("POST", CLUSTERS, {**managed_cluster("n"), "nope": 1, "spec": None})
    refused(answer, 422, "spec: Required value")
    assert answer.warnings == (r'299 - "unknown field \"nope\""',)


def test_a_warning_cannot_end_its_header(api: Api, unharmed: str) -> None:
    answer = api("POST", unharmed, {**config_map("n"), "a\r\nX-Evil: 1": 1}, dryRun="All")
    assert answer.status == 201
    assert "X-Evil" not in answer.headers
    assert answer.warnings == (r'299 - "unknown field \"a\r\nX-Evil: 1\""',)


def test_thousands_of_unknown_fields_do_not_make_an_endless_header(api: Api, unharmed: str) -> None:
    body = {**config_map("n"), **{f"unknown-{i}": 1 for i in range(5000)}}
    answer = api("POST", unharmed, body, dryRun="All")
    assert answer.status == 201
    assert 0 < len(answer.warnings) < 100


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ({"fieldValidation": "Nope"}, "fieldValidation", 'supported values: "", "Ignore", "Strict", "Warn"'),
        ({"dryRun": "Some"}, "dryRun", 'Unsupported value: ["Some"]: supported values: "All"'),
        ({"fieldManager": "x" * 129}, "fieldManager", "may not be more than 128 bytes"),
        ({"fieldManager": "a\x01b"}, "fieldManager", "invalid character U+0001 (at position 1)"),
    ],
)
def test_options_of_a_write_that_mean_nothing(
    api: Api, unharmed: str, query: dict[str, str], field: str, said: str
) -> None:
    for method, path, body, media, kind in (
        ("POST", unharmed, config_map("n"), None, "CreateOptions"),
        ("PUT", f"{unharmed}/kept", config_map("kept"), None, "UpdateOptions"),
        ("PATCH", f"{unharmed}/kept", {}, MERGE_PATCH, "PatchOptions"),
    ):
        answer = api(method, path, body, media, **query)
        refused(answer, 422, f'{kind}.meta.k8s.io "" is invalid: {field}: ', said)
        assert answer.fields == [field]


# --- patches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("media", [MERGE_PATCH, STRATEGIC_PATCH, JSON_PATCH])
@pytest.mark.parametrize("body", ["", "garbage", '"x"', "3", "null"])
def test_a_patch_that_is_no_patch(api: Api, unharmed: str, media: str, body: str) -> None:
    assert api("PATCH", f"{unharmed}/kept", body, media).status in (400, 422)


def test_a_patch_of_the_wrong_form(api: Api, unharmed: str) -> None:
    refused(api("PATCH", f"{unharmed}/kept", [], MERGE_PATCH), 400)
    refused(api("PATCH", f"{unharmed}/kept", {}, JSON_PATCH), 400)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "nope", "path": "/a"},
        {"op": "remove", "path": "/nope"},
        {"op": "test", "path": "/data/a", "value": "other"},
        {"op": "replace", "path": "", "value": 3},
        {"op": "move", "from": "/nope", "path": "/data/b"},
        {"path": "/data/b"},
    ],
    ids=json.dumps,
)
def test_a_json_patch_that_cannot_be_applied(api: Api, unharmed: str, operation: dict[str, Any]) -> None:
    why = "the server rejected our request due to an error in our request"
    refused(api("PATCH", f"{unharmed}/kept", [operation], JSON_PATCH), 422, why)


@pytest.mark.parametrize(
    "change", [{"kind": "Secret"}, {"apiVersion": "v2"}, {"data": {"a": 3}}, {"data": []}], ids=json.dumps
)
def test_a_patch_that_makes_another_kind_of_thing(api: Api, unharmed: str, change: dict[str, Any]) -> None:
    answer = api("PATCH", f"{unharmed}/kept", change, MERGE_PATCH)
    refused(answer, 422)
    assert answer.fields == ["patch"]


def test_a_patch_for_another_object_of_the_same_name(api: Api, unharmed: str) -> None:
    answer = api("PATCH", f"{unharmed}/kept", {"metadata": {"uid": UID}}, MERGE_PATCH)
    refused(answer, 422, "field is immutable")
    assert answer.fields == ["metadata.uid"]


@pytest.mark.parametrize(
    ("config", "query", "status", "said"),
    [
        ({}, {}, 422, "fieldManager: Required value: is required for apply patch"),
        ({"kind": ""}, {"fieldManager": "m"}, 400, "invalid object type: /v1, Kind="),
        ({"kind": "Secret"}, {"fieldManager": "m"}, 400, "invalid object type: /v1, Kind=Secret"),
        ({"apiVersion": "v9"}, {"fieldManager": "m"}, 400, "invalid object type: /v9, Kind=ConfigMap"),
        # Kubernetes says the next two with a 500; the mistake is the client's.
        ({"nope": 1}, {"fieldManager": "m"}, 400, ".nope: field not declared in schema"),
        ({"data": "x"}, {"fieldManager": "m"}, 400, ".data: expected map, got &{x}"),
        ({"metadata": {"name": "kept", "managedFields": [{}]}}, {"fieldManager": "m"}, 400, "must be nil"),
        ({"metadata": {"name": "kept", "uid": UID}}, {"fieldManager": "m"}, 422, "field is immutable"),
        ({"data": {"a": "other"}}, {"fieldManager": "m"}, 409, "Apply failed with 1 conflict"),
    ],
    ids=lambda value: json.dumps(value)[:30] if isinstance(value, dict) else None,
)  # fmt: skip
def test_an_apply_that_cannot_be(  # noqa: PLR0917
    api: Api, unharmed: str, config: dict[str, Any], query: dict[str, str], status: int, said: str
) -> None:
    answer = api("PATCH", f"{unharmed}/kept", {**config_map("kept", a="b"), **config}, APPLY_PATCH, **query)
    refused(answer, status, said)


def test_force_is_for_apply_only(api: Api, unharmed: str) -> None:
    answer = api("PATCH", f"{unharmed}/kept", {}, MERGE_PATCH, force="true")
    refused(answer, 422, "force: Forbidden: may not be specified for non-apply patch")


# --- delete options --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("garbage", 400),
        ("[]", 400),
        ({"kind": "Pod", "apiVersion": "v1"}, 400),
        ({"gracePeriodSeconds": "x"}, 400),
        ({"preconditions": []}, 400),
        ({"preconditions": {"uid": 3}}, 400),
        ({"dryRun": "All"}, 400),
        ({"orphanDependents": "x"}, 400),
        ({"propagationPolicy": "Nope"}, 422),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
        ({"dryRun": ["x"]}, 422),
        ({"preconditions": {"uid": UID}}, 409),
        ({"preconditions": {"resourceVersion": "1"}}, 409),
    ],
    ids=lambda value: json.dumps(value)[:40] if not isinstance(value, int) else None,
)
def test_delete_options_that_make_no_sense(api: Api, unharmed: str, body: object, status: int) -> None:
    refused(api("DELETE", f"{unharmed}/kept", body), status)


@pytest.mark.parametrize("query", [{"gracePeriodSeconds": "x"}, {"propagationPolicy": "Nope"}, {"dryRun": "x"}])
def test_delete_options_in_the_address_that_make_no_sense(api: Api, unharmed: str, query: dict[str, str]) -> None:
    assert api("DELETE", f"{unharmed}/kept", **query).status in (400, 422)
    assert api("DELETE", unharmed, **query).status in (400, 422)


# --- addresses and queries -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ({"labelSelector": "a b"}, 400, "unable to parse requirement: found 'b', expected: in, notin, =, =="),
        ({"labelSelector": "a in b"}, 400, "unable to parse requirement: found 'b' expected: '('"),
        ({"labelSelector": "a=-x-"}, 400, "a valid label must be an empty string or consist of"),
        ({"labelSelector": "x" * 30_000}, 400, "unable to parse requirement"),
        ({"fieldSelector": "nonsense"}, 400, "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        ({"fieldSelector": "data.a=b"}, 400, "data.a"),
        ({"limit": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"limit": "99999999999999999999"}, 400, "value out of range"),
        ({"timeoutSeconds": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"continue": "abc"}, 400, "continue key is not valid"),
        ({"continue": "e30"}, 400, "continue key is not valid"),
        ({"continue": "e30", "resourceVersionMatch": "Exact"}, 422, "forbidden when continue is provided"),
        ({"resourceVersion": "abc"}, 400, 'invalid resource version: resourceVersion: Invalid value: "abc"'),
        ({"resourceVersion": "-1"}, 400, "invalid syntax"),
        ({"resourceVersion": "99999999999999999999999"}, 400, "value out of range"),
        ({"resourceVersionMatch": "Exact"}, 422, "forbidden unless resourceVersion is provided"),
        ({"resourceVersion": "1", "resourceVersionMatch": "Nope"}, 422, '"Exact", "NotOlderThan", ""'),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422, 'is forbidden for resourceVersion "0"'),
        ({"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else None,
)  # fmt: skip
def test_a_list_that_cannot_be_understood(
    api: Api, unharmed: str, query: dict[str, str], status: int, said: str
) -> None:
    for path in (unharmed, CLUSTERS):
        refused(api("GET", path, **query), status, said)


def test_a_negative_limit_is_none(api: Api, unharmed: str) -> None:
    assert len(api.ok("GET", unharmed, limit="-1")["items"]) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/api/v1/nope",
        "/api/v2/pods",
        "/apis/nope.example.com/v1/things",
        "//api//v1//namespaces",
        "/api/v1/namespaces/default/%2e%2e/secrets",
        "/api/v1/../v1/namespaces",
        "/api/v1/namespaces/default/configmaps/a%2Fb",
        "/api/v1/namespaces/default/configmaps/a%00b",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "/api/v1/namespaces/default/configmaps/a/nope",
        "/api/v1/namespaces/default/configmaps/a/status",
        "/api/v1/namespaces/default/configmaps/a/b/c/d",
        "/api/v1/namespaces/default/configmaps/" + "x" * 5000,
        "/clusters/nope/api/v1/namespaces",
        "/clusters/%2e%2e/api/v1/namespaces",
        f"{CLUSTERS}/a/scale",
        f"/apis/cluster.open-cluster-management.io/v1/namespaces/default{CLUSTERS[41:]}",
    ],
    ids=lambda path: path[:60],
)
def test_an_address_that_names_nothing(api: Api, path: str) -> None:
    answer = api("GET", path)
    refused(answer, 404)
    assert answer.reason == "NotFound"


def test_an_address_longer_than_any_is_refused(api: Api) -> None:
    assert api("GET", "/api/v1/" + "x" * 200_000).status in (400, 414)
    assert api.ok("GET", "/version")["major"] == "1"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/version"),
        ("DELETE", "/api"),
        ("PUT", "/api/v1/namespaces/default/configmaps"),
        ("PATCH", "/api/v1/namespaces/default/configmaps"),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/namespaces"),
        ("OPTIONS", "/api/v1/namespaces/default/configmaps"),
        ("POST", "/api/v1/namespaces/default/configmaps/a"),
        ("POST", f"{CLUSTERS}/a/status"),
        ("DELETE", f"{CLUSTERS}/a/status"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ],
)
def test_a_method_that_an_address_does_not_have(api: Api, method: str, path: str) -> None:
    answer = api(method, path)
    refused(answer, 405, "the server does not allow this method on the requested resource")
    assert answer.reason == "MethodNotAllowed"


# --- clients that misbehave ------------------------------------------------------------------------------------------


def test_a_client_that_leaves_in_the_middle_of_a_body(api: Api, unharmed: str) -> None:
    for _ in range(5):
        connection = api.connect()
        connection.putrequest("POST", unharmed)
        for name, value in {**api.headers, "Content-Type": "application/json", "Content-Length": "1000"}.items():
            connection.putheader(name, value)
        connection.endheaders(json.dumps(config_map("half")).encode())
        connection.close()
    assert [item["metadata"]["name"] for item in api.ok("GET", unharmed)["items"]] == ["kept"]


def test_a_client_that_leaves_in_the_middle_of_a_watch(api: Api, maps: str) -> None:
    for number in range(5):
        with api.watch(maps, resourceVersion="0"):
            api.ok("POST", maps, config_map(f"m{number}"))
    assert len(api.ok("GET", maps)["items"]) == 5


@pytest.mark.parametrize(
    "line", [b"\x16\x03\x01garbage\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100]
)
def test_a_client_that_speaks_no_http(api: Api, line: bytes) -> None:
    connection = api.connect()
    connection.connect()
    connection.sock.sendall(line)
    try:
        answer = connection.sock.recv(65536)
    except (TimeoutError, ssl.SSLError, ConnectionError):
        answer = b""
    connection.close()
    assert b" 500 " not in answer.split(b"\r\n")[0]
    assert api("GET", "/healthz").data == b"ok"
