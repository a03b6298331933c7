"""What a hub keeps of a policy: with Echelon's definition, with upstream's, and with those in between."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.policy import POLICY
from echelon.engine.policy.kept_fields import CONDITIONS, OWN_FIELDS, STRATEGY, kept_fields
from echelon.hub.schema.structural import Structural
from tests.engine.policy.definitions import ours, remove, schema_of, upstream


def example(path: str) -> JSONObject:
    """Return a policy that has something at a path."""
    value: Any = VALUES.get(path.rpartition(".")[2], "Progressing")
    for name in reversed(path.split(".")):
        value = {name.removesuffix("[]"): [value] if name.endswith("[]") else value}
    return {**POLICY.type_meta, "metadata": {"name": "p"}, **value}


VALUES: JSONObject = {
    "rolloutStrategy": {"type": "Progressive", "progressive": {"mandatoryDecisionGroups": [{"groupName": "canary"}]}},
    "pendingChanges": [{"kind": "ConfigMap", "change": "Create"}],
    "observedGeneration": 3,
    "conditions": [{"type": "Ready", "status": "True"}],
    "rollout": {"toApply": 1, "clusters": [{"cluster": "c1", "status": "ToApply"}]},
}


def test_echelons_own_definition_keeps_everything() -> None:
    assert kept_fields(ours()) == set(OWN_FIELDS)


def test_upstreams_definition_keeps_none_of_it() -> None:
    assert kept_fields(upstream()) == frozenset()


@given(st.sets(st.sampled_from(OWN_FIELDS)))
def test_what_is_said_to_be_kept_is_what_a_server_keeps(removed: set[str]) -> None:
    definition = ours()
    for path in removed:
        remove(definition, path)
    structural = Structural(schema_of(definition))
    kept = {path for path in OWN_FIELDS if structural.prune(example(path))[0] == example(path)}
    assert kept_fields(definition) == kept == set(OWN_FIELDS) - removed


def test_a_field_that_lost_a_part_of_itself_is_not_kept() -> None:
    definition = ours()
    remove(definition, "spec.rolloutStrategy.progressive.mandatoryDecisionGroups[].groupName")
    remove(definition, "status.conditions[].observedGeneration")
    assert kept_fields(definition) == set(OWN_FIELDS) - {STRATEGY, CONDITIONS}


@pytest.mark.parametrize("at", ["spec", "status"])
def test_a_schema_that_preserves_unknown_fields_keeps_what_it_does_not_declare(at: str) -> None:
    definition = upstream()
    schema_of(definition)["properties"][at]["x-kubernetes-preserve-unknown-fields"] = True
    # What is declared is pruned by its own schema all the same, so the list of clusters still loses its fields.
    below = {path for path in OWN_FIELDS if path.startswith(f"{at}.") and "[]" not in path}
    assert kept_fields(definition) == below


def test_a_strategy_that_is_declared_without_its_fields_is_dropped_but_for_its_name() -> None:
    definition = upstream()
    spec = schema_of(definition)["properties"]["spec"]
    spec["x-kubernetes-preserve-unknown-fields"] = True
    spec["properties"]["rolloutStrategy"] = {"type": "object"}
    assert kept_fields(definition) == frozenset()
    spec["properties"]["rolloutStrategy"]["x-kubernetes-preserve-unknown-fields"] = True
    assert kept_fields(definition) == {STRATEGY}


def test_a_definition_from_before_pruning_keeps_everything() -> None:
    definition = upstream()
    definition["spec"]["preserveUnknownFields"] = True
    assert kept_fields(definition) == set(OWN_FIELDS)


def test_what_is_stored_must_keep_it_too() -> None:
    definition = ours()
    (version,) = definition["spec"]["versions"]
    (stored,) = upstream()["spec"]["versions"]
    definition["spec"]["versions"] = [{**version, "storage": False}, {**stored, "name": "v2"}]
    assert kept_fields(definition) == frozenset()
    definition["spec"]["versions"] = [version, {**stored, "name": "v2", "storage": False}]
    assert kept_fields(definition) == set(OWN_FIELDS)


@pytest.mark.parametrize("definition", [{}, {"spec": {"versions": [{"name": "v9", "storage": True}]}}])
def test_a_definition_without_the_version_that_is_written_keeps_nothing(definition: JSONObject) -> None:
    assert kept_fields(definition) == frozenset()
