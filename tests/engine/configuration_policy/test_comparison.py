"""A definition against an object: which parts count, and what is left alone."""

from typing import Any

import msgspec
import pytest

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import ConfigurationPolicySpec
from echelon.engine.configuration_policy.comparison import LAST_APPLIED, Comparison, compare
from echelon.engine.configuration_policy.templates import Template, read_templates
from tests.engine.configuration_policy.toy_cluster import config_map


def compared(definition: JSONObject, live: JSONObject, type_: str = "musthave", metadata_type: str = "") -> Comparison:
    body = {
        "object-templates": [
            {"complianceType": type_, "metadataComplianceType": metadata_type, "objectDefinition": definition}
        ]
    }
    (template,) = read_templates(msgspec.convert(body, ConfigurationPolicySpec))
    assert isinstance(template, Template)
    return compare(template, live)


def labelled(**labels: str) -> JSONObject:
    return config_map(metadata={"labels": labels})


def test_of_the_metadata_only_labels_and_annotations_count() -> None:
    definition = config_map(metadata={"finalizers": ["mine"], "ownerReferences": [], "labels": {"a": "1"}})
    found = compared(definition, labelled(a="1", b="2"))
    assert not found.differs
    assert not found.doubt


@pytest.mark.parametrize(
    ("type_", "metadata_type", "kept"),
    [
        ("musthave", "", True),
        ("musthave", "mustonlyhave", False),
        ("mustonlyhave", "", False),
        ("mustonlyhave", "musthave", True),
    ],
)
def test_labels_have_a_compliance_type_of_their_own(type_: str, metadata_type: str, kept: bool) -> None:
    found = compared(labelled(a="1"), labelled(a="1", b="2"), type_, metadata_type)
    assert found.differs is not kept
    assert found.wanted["metadata"]["labels"] == ({"a": "1", "b": "2"} if kept else {"a": "1"})


def test_labels_that_a_definition_does_not_mention_are_left_alone() -> None:
    assert not compared(config_map(), labelled(a="1"), "mustonlyhave").differs


def test_what_kubectl_keeps_in_annotations_is_neither_compared_nor_removed() -> None:
    definition = config_map(metadata={"annotations": {LAST_APPLIED: "old", "a": "1"}})
    live = config_map(metadata={"annotations": {LAST_APPLIED: "new", "a": "1"}})
    assert not compared(definition, live, "mustonlyhave").differs
    assert not compared(definition, config_map(metadata={"annotations": {"a": "1"}}), "mustonlyhave").differs


def test_what_a_platform_keeps_in_annotations_of_namespaces_is_not_removed() -> None:
    def namespace(**annotations: str) -> JSONObject:
        metadata = {"name": "n", "annotations": {key.replace("_", "/"): value for key, value in annotations.items()}}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    live = namespace(a="1", **{"openshift.io_sa.scc.mcs": "s0"})
    assert not compared(namespace(a="1"), live, "mustonlyhave").differs
    assert compared(namespace(a="1"), namespace(a="1", b="2"), "mustonlyhave").differs


def test_top_level_keys_go_if_there_must_be_nothing_else_but_not_all_of_them() -> None:
    live = {**config_map(data={"a": "1"}), "status": {"x": 1}, "immutable": True}
    found = compared(config_map(data={"a": "1"}), live, "mustonlyhave")
    assert found.differs
    assert set(found.wanted) == {"apiVersion", "kind", "metadata", "data", "status"}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}}
    with_secrets = {**account, "secrets": [{"name": "t"}], "imagePullSecrets": [{"name": "p"}]}
    assert not compared(account, with_secrets, "mustonlyhave").differs


def test_a_status_is_looked_at_and_not_wanted() -> None:
    definition = {**config_map(data={"a": "1"}), "status": {"phase": "Ready"}}
    live = {**config_map(data={"a": "2"}), "status": {"phase": "Waiting"}}
    found = compared(definition, live)
    assert (found.differs, found.status_differs) == (True, True)
    assert found.wanted["status"] == {"phase": "Waiting"}


def test_plain_data_of_a_secret_is_compared_with_what_is_stored() -> None:
    def secret(**body: Any) -> JSONObject:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **body}

    live = secret(data={"a": "aGVsbG8=", "b": "eA=="})
    assert not compared(secret(stringData={"a": "hello"}), live).differs
    found = compared(secret(stringData={"a": "bye"}), live)
    assert found.differs
    assert found.wanted["data"] == {"a": "Ynll", "b": "eA=="}
    assert "stringData" not in found.wanted
