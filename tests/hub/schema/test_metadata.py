from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.meta import ObjectMeta
from echelon.hub.schema.metadata import (
    check_shape,
    manager_errors,
    name_errors,
    validate_metadata,
    validate_metadata_update,
)
from echelon.kube.errors import BadRequest

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def found(**metadata: Any) -> list[str]:
    obj = {"metadata": {"name": "a", **metadata}}
    return [str(cause) for cause in validate_metadata(obj, namespaced="namespace" in metadata)]


@pytest.mark.parametrize(
    ("name", "style", "errors"),
    [
        ("a.b-c", "subdomain", []),
        ("A", "subdomain", [SUBDOMAIN]),
        ("a" * 254, "subdomain", ["must be no more than 253 characters"]),
        ("a-b", "label", []),
        ("a.b", "label", ["must not contain dots"]),
        ("A", "label", [LABEL]),
        ("a" * 64, "label", ["must be no more than 63 characters"]),
        ("1a", "label", []),
        ("system:node", "path-segment", []),
        ("a/b%", "path-segment", ["may not contain '/'", "may not contain '%'"]),
        ("..", "path-segment", ["may not be '..'"]),
    ],
)
def test_names_are_checked_in_their_style(name: str, style: Any, errors: list[str]) -> None:
    assert name_errors(name, style) == errors


def test_a_service_name_starts_with_a_letter() -> None:
    assert name_errors("a-1", "dns1035") == []
    assert name_errors("1-a", "dns1035")[0].startswith("a DNS-1035 label must consist of")


def test_a_generated_name_may_end_in_a_dash_before_it_is_completed() -> None:
    assert name_errors("web-", prefix=True) == []
    assert name_errors("web-") == [SUBDOMAIN]
    assert found(generateName="-web-") == [f'metadata.generateName: Invalid value: "-web-": {SUBDOMAIN}']


def test_a_name_is_required() -> None:
    assert found(name="") == ["metadata.name: Required value: name or generateName is required"]


def test_namespaces_are_required_forbidden_or_checked() -> None:
    missing = validate_metadata({"metadata": {"name": "a"}}, namespaced=True)
    assert [str(cause) for cause in missing] == ["metadata.namespace: Required value"]
    extra = validate_metadata({"metadata": {"name": "a", "namespace": "b"}}, namespaced=False)
    assert [str(cause) for cause in extra] == ["metadata.namespace: Forbidden: not allowed on this type"]
    assert found(namespace="a.b") == ['metadata.namespace: Invalid value: "a.b": must not contain dots']


def test_labels_and_annotations_are_checked() -> None:
    assert found(labels={"a/b": "c", "a": ""}, annotations={"A/b": "any text\n"}) == []
    assert [each.partition(": Invalid value: ")[0] for each in found(labels={"a b": "c d"})] == ["metadata.labels"] * 2
    assert found(annotations={"a b": "x"})[0].startswith('metadata.annotations: Invalid value: "a b": name part must')


def test_annotations_have_a_total_size_in_bytes() -> None:
    assert found(annotations={"a": "x" * (256 * 1024 - 1)}) == []
    assert found(annotations={"a": "é" * (128 * 1024)}) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    ]


def test_owners_need_all_four_fields_and_only_one_controls() -> None:
    assert found(ownerReferences=[{}]) == [
        'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
        'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
        'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ]
    owners = [{"apiVersion": "v1", "kind": kind, "name": "n", "uid": kind, "controller": True} for kind in "AB"]
    (error,) = found(ownerReferences=owners)
    shown = ",".join(f'{{"apiVersion":"v1","kind":"{k}","name":"n","uid":"{k}","controller":true}}' for k in "AB")
    why = 'Only one reference can have Controller set to true. Found "true" in references for A/n and B/n'
    assert error == f"metadata.ownerReferences: Invalid value: [{shown}]: {why}"


def test_finalizers_are_qualified_names_that_do_not_contradict() -> None:
    assert found(finalizers=["example.com/clean-up", "orphan"]) == []
    assert found(finalizers=["not ok"])[0].startswith('metadata.finalizers: Invalid value: "not ok": name part must')
    why = "finalizer orphan and foregroundDeletion cannot be both set"
    assert found(finalizers=["orphan", "foregroundDeletion"]) == [
        f'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: {why}'
    ]


def test_managed_fields_have_a_known_shape() -> None:
    entry = {"manager": "m" * 129, "operation": "Patch", "fieldsType": "V2"}
    assert found(managedFields=[entry]) == [
        'metadata.managedFields[0].operation: Invalid value: "Patch": must be `Apply` or `Update`',
        'metadata.managedFields[0].fieldsType: Invalid value: "V2": must be `FieldsV1`',
        "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
    ]
    assert [str(cause) for cause in manager_errors("é\n")] == [
        'fieldManager: Invalid value: "é\\n": invalid character U+000A (at position 2)'
    ]


OLD: dict[str, Any] = {
    "name": "a",
    "namespace": "n",
    "uid": "1",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "generation": 3,
    "finalizers": ["a/b"],
}


class TestUpdate:
    def found(self, old: dict[str, Any] = OLD, /, **changes: Any) -> list[str]:
        causes = validate_metadata_update({"metadata": {**old, **changes}}, {"metadata": old})
        return [str(cause) for cause in causes]

    def test_nothing_changed_is_fine(self) -> None:
        assert self.found() == []

    @pytest.mark.parametrize("field", ["name", "namespace", "uid"])
    def test_identity_does_not_change(self, field: str) -> None:
        assert self.found(**{field: "x"}) == [f'metadata.{field}: Invalid value: "x": field is immutable']

    def test_times_and_grace_period_do_not_change(self) -> None:
        assert self.found(creationTimestamp="2026-01-02T00:00:00Z") == [
            'metadata.creationTimestamp: Invalid value: "2026-01-02T00:00:00Z": field is immutable'
        ]
        assert self.found(deletionGracePeriodSeconds=5) == [
            "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable"
        ]

    def test_the_generation_only_grows(self) -> None:
        assert self.found(generation=2) == ["metadata.generation: Invalid value: 2: must not be decremented"]

    def test_finalizers_can_only_go_once_the_object_is_being_deleted(self) -> None:
        deleting = {**OLD, "deletionTimestamp": "2026-01-03T00:00:00Z"}
        assert self.found(deleting, finalizers=[]) == []
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        assert self.found(deleting, finalizers=["a/b", "x/y"]) == [
            f'metadata.finalizers: Forbidden: {why} []string{{"x/y"}}'
        ]
        assert self.found(finalizers=["a/b", "x/y"]) == []


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"labels": {"a": 5}}, "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"),
        (
            {"labels": []},
            "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
        ),
        ({"name": {}}, "json: cannot unmarshal object into Go struct field ObjectMeta.name of type string"),
    ],
)
def test_metadata_that_does_not_decode_is_a_bad_request(metadata: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRequest) as error:
        check_shape({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": metadata})
    assert str(error.value) == f'Thing in version "v1" cannot be handled as a Thing: {why}'


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
FIELDS = st.sampled_from([field.encode_name for field in msgspec.structs.fields(ObjectMeta)])


@given(st.dictionaries(FIELDS, ANY, max_size=4) | ANY, st.booleans())
def test_no_metadata_at_all_makes_the_checks_fail_in_another_way(metadata: Any, namespaced: bool) -> None:
    obj = {"apiVersion": "v1", "kind": "X", "metadata": metadata}
    validate_metadata(obj, namespaced=namespaced)
    try:
        check_shape(obj)
    except BadRequest:
        return
    assert all("in body must be of type" not in cause.detail for cause in validate_metadata(obj, namespaced=namespaced))
