from dataclasses import replace
from typing import Annotated, Any

import msgspec
import pytest

from echelon.api import multicluster, registry
from echelon.api.base import APIStruct, JSONObject, field
from echelon.api.crd import check_structural, crd
from echelon.api.kinds import Column, Kind, Scale
from echelon.api.meta import ObjectMeta


class Part(APIStruct, frozen=True, gc=False, kw_only=True):
    name: Annotated[str, field("Name of the part.")]


class WidgetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    size: Annotated[int, field("How big it is.", default=1)] = 1
    parts: Annotated[list[Part], field("Parts.", list_map_keys=("name",), patch_merge_key="name")] = msgspec.field(
        default_factory=list
    )
    x_kubernetes_patch_merge_key: Annotated[
        dict[str, list[Part]], field("A field with the name of a word.", default={})
    ] = msgspec.field(default_factory=dict)


class Widget(APIStruct, frozen=True, gc=False, kw_only=True):
    """A widget, for tests."""

    metadata: Annotated[ObjectMeta, field("Metadata.")] = ObjectMeta()
    spec: Annotated[WidgetSpec, field("What is wanted.")]


WIDGET: Kind[Widget] = Kind("example.com", "v1", "Widget", "widgets", Widget)
WORDS = frozenset(
    [
        "additionalProperties",
        "allOf",
        "anyOf",
        "default",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "nullable",
        "oneOf",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ]
)


def changed(**changes: Any) -> Kind[Widget]:
    return replace(WIDGET, **changes)


def version(kind: Kind[Widget]) -> JSONObject:
    (found,) = crd(kind)["spec"]["versions"]
    assert isinstance(found, dict)
    return found


def test_a_plain_kind_has_a_plain_crd() -> None:
    manifest = crd(WIDGET)
    (only,) = manifest["spec"].pop("versions")
    schema = only.pop("schema")["openAPIV3Schema"]
    assert manifest == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "widgets.example.com",
            "labels": {"app.kubernetes.io/part-of": "echelon", "app.kubernetes.io/managed-by": "echelon"},
        },
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "scope": "Namespaced",
        },
    }
    assert only == {"name": "v1", "served": True, "storage": True}
    assert schema["description"] == "A widget, for tests."
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec"]
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["required"] == ["spec"]


def test_names_and_scope_are_those_of_the_kind() -> None:
    spec = crd(changed(short_names=("w", "wg"), categories=("all",), namespaced=False))["spec"]
    assert spec["names"]["shortNames"] == ["w", "wg"]
    assert spec["names"]["categories"] == ["all"]
    assert spec["scope"] == "Cluster"


def test_subresources_are_declared_when_the_kind_has_them() -> None:
    assert version(changed(status=True))["subresources"] == {"status": {}}
    assert version(changed(scale=Scale(".spec.n", ".status.n")))["subresources"] == {
        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    }
    selected = version(changed(status=True, scale=Scale(selector=".status.selector")))["subresources"]
    assert selected["scale"]["labelSelectorPath"] == ".status.selector"
    assert "status" in selected


def test_columns_are_those_that_a_path_leads_to() -> None:
    columns = (
        Column("Size", ".spec.size", "integer", "How big it is.", priority=1, format="int32"),
        Column("Ready", cell=lambda _: "1/1"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    )
    assert version(changed(columns=columns))["additionalPrinterColumns"] == [
        {
            "name": "Size",
            "type": "integer",
            "jsonPath": ".spec.size",
            "description": "How big it is.",
            "format": "int32",
            "priority": 1,
        },
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    assert "additionalPrinterColumns" not in version(changed(columns=columns[1:2]))


def test_selectable_fields_are_declared() -> None:
    assert version(changed(selectable_fields=("spec.size",)))["selectableFields"] == [{"jsonPath": ".spec.size"}]


def test_words_of_strategic_merge_are_left_out_and_fields_of_that_name_are_not() -> None:
    spec = version(WIDGET)["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert "x-kubernetes-patch-merge-key" not in spec["properties"]["parts"]
    assert spec["properties"]["parts"]["x-kubernetes-list-map-keys"] == ["name"]
    assert "xKubernetesPatchMergeKey" in spec["properties"]


def test_versions_of_a_resource_share_a_crd_and_the_last_is_stored() -> None:
    versions = crd(changed(version="v1beta1"), WIDGET)["spec"]["versions"]
    assert [(found["name"], found["served"], found["storage"]) for found in versions] == [
        ("v1beta1", True, False),
        ("v1", True, True),
    ]


def test_kinds_that_are_not_one_resource_cannot_share_a_crd() -> None:
    with pytest.raises(ValueError, match="need one CRD each"):
        crd(changed(kind="Gadget", plural="gadgets"), WIDGET)
    with pytest.raises(ValueError, match="need one CRD each"):
        crd(changed(version="v2", namespaced=False), WIDGET)


def test_a_builtin_kind_has_no_crd() -> None:
    with pytest.raises(ValueError, match=r"widgets\.example\.com is served by Kubernetes itself"):
        crd(changed(builtin=True))


def test_making_a_crd_changes_no_shared_schema() -> None:
    assert crd(WIDGET) == crd(WIDGET)


def words(schema: JSONObject) -> set[str]:
    """Return the vocabulary of a schema and of all schemas in it."""
    inner = [
        *schema.get("properties", {}).values(),
        *(schema[word] for word in ("items", "additionalProperties", "not") if isinstance(schema.get(word), dict)),
        *(part for word in ("allOf", "anyOf", "oneOf") for part in schema.get(word, [])),
    ]
    return set(schema).union(*map(words, inner))


OURS = [
    pytest.param(found["schema"]["openAPIV3Schema"], id=f"{manifest['metadata']['name']}/{found['name']}")
    for manifest in (*registry.crds(), *registry.collect(multicluster.KINDS).crds())
    for found in manifest["spec"]["versions"]
]


@pytest.mark.parametrize("schema", OURS)
def test_the_schemas_that_we_ship_are_structural(schema: JSONObject) -> None:
    assert check_structural(schema) == []


@pytest.mark.parametrize("schema", OURS)
def test_the_schemas_that_we_ship_use_no_word_that_a_crd_does_not_know(schema: JSONObject) -> None:
    assert words(schema) <= WORDS


def undescribed(schema: JSONObject, path: str) -> list[str]:
    """Name the fields without a description. Those of a free-form object are not ours to describe."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return []
    found = []
    for name, part in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        if not part.get("description") and where != ".metadata":
            found.append(where)
        found += undescribed(part, where)
    if isinstance(schema.get("items"), dict):
        found += undescribed(schema["items"], f"{path}[]")
    return found


@pytest.mark.parametrize("schema", OURS)
def test_every_field_that_we_ship_is_described(schema: JSONObject) -> None:
    assert undescribed(schema, "") == []


def test_a_kind_may_bring_labels_that_others_look_for_on_its_definition() -> None:
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in registry.crds()}
    ours = {"app.kubernetes.io/part-of": "echelon", "app.kubernetes.io/managed-by": "echelon"}
    template = {"policy.open-cluster-management.io/policy-type": "template"}
    assert labels["configurationpolicies.policy.open-cluster-management.io"] == ours | template
    assert labels["policies.policy.open-cluster-management.io"] == ours
