"""Rules that could cost too much: the definition is refused, in the same words and by the same factor."""

from dataclasses import dataclass
from typing import Any

import pytest

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.kube.client import Client, WriteOptions
from echelon.kube.errors import Invalid

CRDS = CUSTOM_RESOURCE_DEFINITION.untyped()
ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
STRING: dict[str, Any] = {"type": "string"}
LISTS: dict[str, Any] = {"type": "integer"}
for _ in range(3):
    LISTS = {"type": "array", "maxItems": 300, "items": LISTS}
SHORT = {"type": "string", "maxLength": 10}


def ruled(schema: dict[str, Any], rule: str) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule}]}


@dataclass(frozen=True)
class Case:
    name: str
    schema: dict[str, Any]
    factor: str = ""  # by how much a rule is too expensive; empty if it is not


PAIRS = "self.all(x, self.exists(y, x == y))"
CASES = [
    Case("all pairs of any texts", ruled({"type": "array", "items": STRING}, PAIRS), "more than 100x"),
    Case("all pairs of a few texts", ruled({"type": "array", "maxItems": 10, "items": SHORT}, PAIRS)),
    Case("all pairs of many short texts", ruled({"type": "array", "maxItems": 1500, "items": SHORT}, PAIRS), "2.3x"),
    Case("a text", ruled(STRING, "self.contains('abc')")),
    Case("a pattern", ruled(STRING, "self.matches('^[a-z]{1,10}$')")),
    Case("a long pattern", ruled(STRING, f"self.matches('{'a' * 200}')"), "1.6x"),
    Case("each of many texts", {"type": "array", "items": ruled(STRING, "self.contains('abc')")}, "more than 100x"),
    Case("each of many short texts", {"type": "array", "items": ruled(SHORT, "self.contains('abc')")}),
    Case("keys of a map", ruled({"type": "object", "additionalProperties": STRING}, "self.all(k, self[k] != k)")),
    Case(
        "values of a map",
        ruled({"type": "object", "additionalProperties": STRING}, "self.all(k, self[k].contains('abc'))"),
        "more than 100x",
    ),
    Case("optional texts", ruled({"type": "object", "properties": {"a": STRING}}, "self.?a.orValue('').size() < 5")),
    Case("lists of lists", ruled(LISTS, "self.all(x, x.all(y, y.all(z, z < 5)))"), "13.5x"),
    Case("a few sums", ruled({"type": "array", "maxItems": 100, "items": {"type": "integer"}}, "self.sum() < 5")),
]


def definition(number: int, schema: dict[str, Any]) -> dict[str, Any]:
    whole = {"type": "object", "properties": {"spec": schema}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    names = {"plural": f"costs{number}", "singular": f"cost{number}", "kind": f"Cost{number}"}
    spec = {"group": "costs.example.com", "names": names, "scope": "Cluster", "versions": [version]}
    meta = {"name": f"costs{number}.costs.example.com"}
    return {**CUSTOM_RESOURCE_DEFINITION.type_meta, "metadata": meta, "spec": spec}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_rules_could_cost(client: Client, case: Case) -> None:
    made = definition(CASES.index(case), case.schema)
    if not case.factor:
        await client.create(CRDS, made, options=WriteOptions(dry_run=True))
        return
    with pytest.raises(Invalid) as refused:
        await client.create(CRDS, made, options=WriteOptions(dry_run=True))
    why = f"estimated rule cost exceeds budget by factor of {case.factor} {ADVICE}"
    assert f"x-kubernetes-validations[0].rule: Forbidden: {why}" in str(refused.value)
