"""Samples: documents that a server must take, and others that it must refuse at a certain field.

A bad one is named after the rule that it breaks, and its first line tells the field, as kube-apiserver reports it.
"""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from echelon.api import (
    cluster,
    configuration_policy,
    placement,
    placement_rule,
    policy,
    policy_binding,
    work,
    work_set,
)
from echelon.api.base import JSONObject
from echelon.api.crd import crd
from echelon.api.kinds import Kind
from echelon.api.meta import LabelSelector
from echelon.api.schema import schema_of
from echelon.hub.schema.cel import Rules
from echelon.hub.schema.structural import Structural

MODULES = (cluster, placement, work, work_set, policy, policy_binding, placement_rule, configuration_policy)
KINDS: dict[str, Kind[Any]] = {kind.kind: kind for module in MODULES for kind in module.KINDS}
SAMPLES = sorted((Path(__file__).parent / "samples").glob("*/*.yaml"))


@cache
def load(sample: Path) -> JSONObject:
    document: JSONObject = yaml.safe_load(sample.read_text())
    return document


MINE = [path for path in SAMPLES if load(path)["kind"] in KINDS]
GOOD = [pytest.param(path, id=path.stem) for path in MINE if path.stem.startswith("good-")]
BAD = [pytest.param(path, id=path.stem) for path in MINE if path.stem.startswith("bad-")]


# A field that was always required is the one thing that no server has ever stored an object without.
NEVER_STORED = {
    "bad-policy-without-disabled",
    "bad-policy-template-is-missing",
    "bad-policy-template-is-text",
    "bad-policy-dependency-without-name",
    "bad-appliedmanifestwork-without-work",
}


@pytest.mark.parametrize("sample", [case for case in (*GOOD, *BAD) if case.id not in NEVER_STORED])
def test_what_was_once_stored_is_readable_even_where_the_schema_refuses_it(sample: Path) -> None:
    document = load(sample)
    read = msgspec.convert(document, KINDS[document["kind"]].type)
    assert read.metadata.name == document["metadata"]["name"]


@pytest.mark.parametrize("sample", GOOD)
def test_an_encoded_object_decodes_to_its_equal(sample: Path) -> None:
    document = load(sample)
    type_ = KINDS[document["kind"]].type
    read = msgspec.json.decode(msgspec.json.encode(document), type=type_)
    assert msgspec.json.decode(msgspec.json.encode(read), type=type_) == read


@pytest.mark.parametrize("sample", [case for case in GOOD if "-full" in str(case.id)])
def test_a_full_object_loses_nothing(sample: Path) -> None:
    document = load(sample)
    read = msgspec.json.decode(msgspec.json.encode(document), type=KINDS[document["kind"]].type)
    assert msgspec.to_builtins(read) == document


@pytest.mark.parametrize("sample", MINE, ids=lambda path: path.stem)
def test_a_sample_says_what_a_server_makes_of_it(sample: Path) -> None:
    first = sample.read_text().splitlines()[0]
    assert first.startswith("# error: ") == sample.stem.startswith("bad-")
    assert sample.stem.split("-")[1] == load(sample)["kind"].lower()


@cache
def checks(kind: str) -> tuple[Structural, Rules]:
    schema = crd(KINDS[kind])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return Structural(schema), Rules.compile(schema)


def refused_fields(document: JSONObject) -> list[str]:
    """Return the fields that a server complains about, unknown ones included."""
    structural, rules = checks(document["kind"])
    pruned, unknown = structural.prune(document)
    filled = structural.default(pruned)
    broken = structural.validate(filled)
    return [*unknown, *(cause.field for cause in (*broken, *rules.evaluate(filled, after=broken)))]


@pytest.mark.parametrize("sample", GOOD)
def test_a_good_sample_is_taken_as_it_is(sample: Path) -> None:
    assert refused_fields(load(sample)) == []


@pytest.mark.parametrize("sample", BAD)
def test_a_bad_sample_is_refused_at_the_field_that_it_names(sample: Path) -> None:
    field = sample.read_text().splitlines()[0].removeprefix("# error: ")
    # Rules that could not be checked any more are reported beside it, without a field.
    assert field in refused_fields(load(sample))
    assert set(refused_fields(load(sample))) <= {field, "<nil>"}


# --- what is always written ------------------------------------------------------------------------------------------


def test_a_decision_is_written_with_its_empty_reason() -> None:
    decision = placement.ClusterDecision(cluster_name="c1", reason="")
    assert msgspec.to_builtins(decision) == {"clusterName": "c1", "reason": ""}


def test_a_decision_group_is_written_with_all_four_keys() -> None:
    group = placement.DecisionGroupStatus(decision_group_index=0, decision_group_name="", decisions=[])
    assert msgspec.to_builtins(group) == {
        "decisionGroupIndex": 0,
        "decisionGroupName": "",
        "decisions": [],
        "clusterCount": 0,
    }


def test_an_emptied_decision_keeps_its_empty_list() -> None:
    assert msgspec.to_builtins(placement.PlacementDecisionStatus(decisions=[])) == {"decisions": []}


def test_counts_are_written_when_they_are_zero() -> None:
    written = msgspec.to_builtins(work_set.ManifestWorkReplicaSetStatus())
    assert written["summary"] == dict.fromkeys(
        ("total", "progressing", "available", "degraded", "applied", "desiredTotal", "updated"), 0
    )
    assert msgspec.to_builtins(placement.PlacementStatus()) == {"numberOfSelectedClusters": 0}


def test_an_object_from_before_the_newest_counts_is_readable() -> None:
    older = {"summary": {"total": 3, "applied": 3, "available": 3, "degraded": 0, "progressing": 0}}
    assert msgspec.convert(older, work_set.ManifestWorkReplicaSetStatus).summary.desired_total == 0


def test_an_absent_selector_is_not_an_empty_one() -> None:
    # An absent one selects nothing, an empty one everything.
    convert = msgspec.convert
    assert convert({"selectorType": "LabelSelector"}, cluster.ManagedClusterSelector).label_selector is None
    empty = convert({"selectorType": "LabelSelector", "labelSelector": {}}, cluster.ManagedClusterSelector)
    assert empty.label_selector == LabelSelector()


def test_an_omitted_strategy_reads_as_the_default_of_the_schema() -> None:
    field = schema_of(work_set.PlacementRef)["properties"]["rolloutStrategy"]
    assert msgspec.convert({"name": "p"}, work_set.PlacementRef) == msgspec.convert(
        {"name": "p", "rolloutStrategy": field["default"]}, work_set.PlacementRef
    )
