"""Rules that came later than an object: which of its writes they stop.

Somebody tightens a definition, and objects that break the new rules are there already. What was wrong before must not
stop every write to them, a report in the status for example; how far that goes is Kubernetes' to say, and the embedded
hub has to say the same.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.kinds import Kind
from echelon.kube.client import Client, MergePatch, WriteOptions
from echelon.kube.errors import ApiError, Invalid, NotFound
from tests.conformance.asking import STEP_SECONDS, Document

GROUP = "rules.example.com"
CRDS = CUSTOM_RESOURCE_DEFINITION.untyped()
DRY = WriteOptions(dry_run=True)
ACCEPTED = "accepted"
WRITES: dict[str, tuple[Document, str]] = {
    "nothing": ({}, ""),
    "a label": ({"metadata": {"labels": {"x": "y"}}}, ""),
    "the status": ({"status": {"told": "x"}}, "status"),
    "another field": ({"spec": {"b": "y"}}, ""),
    "the field": ({"spec": {"a": 10}}, ""),
}
Where = Literal["root", "spec", "a"]


@dataclass(frozen=True)
class Case:
    """A rule at a node, and what becomes of each write of an object with `a: 9` and `b: x` that was there before."""

    where: Where
    rule: Document
    answers: Sequence[str]

    @property
    def plural(self) -> str:
        return f"rules{CASES.index(self)}"


def refused(message: str, *, of: Sequence[str] = tuple(WRITES)) -> list[str]:
    return [message if each in of else ACCEPTED for each in WRITES]


CHANGED = ("another field", "the field")
CASES = [
    Case("a", {"rule": "self < 5"}, refused("spec.a: Invalid value: 10: failed rule: self < 5", of=["the field"])),
    Case("spec", {"rule": "self.a < 5"}, refused("spec: Invalid value: failed rule: self.a < 5", of=CHANGED)),
    Case(
        "spec",
        {"rule": "self.a < 5", "messageExpression": "'b is ' + self.b"},
        [*[ACCEPTED] * 3, "spec: Invalid value: b is y", "spec: Invalid value: b is x"],
    ),
    # Of a whole object something is always new.
    Case("root", {"rule": "self.spec.a < 5"}, refused("<nil>: Invalid value: failed rule: self.spec.a < 5")),
    Case(
        "root",
        {"rule": "size(self.metadata.name) < 3"},
        refused("<nil>: Invalid value: failed rule: size(self.metadata.name) < 3"),
    ),
    # To break a rule is excused, to have no value is not.
    Case(
        "a",
        {"rule": "10 / (self - 9) > 0"},
        [
            *['spec.a: Invalid value: "integer": division by zero evaluating rule: 10 / (self - 9) > 0'] * 4,
            ACCEPTED,
        ],
    ),
    Case(
        "spec",
        {"rule": "10 / (self.a - 9) > 0"},
        [
            *['spec: Invalid value: "object": division by zero evaluating rule: 10 / (self.a - 9) > 0'] * 4,
            ACCEPTED,
        ],
    ),
    # A rule that looks back is about the change, also if there is none.
    Case("spec", {"rule": "oldSelf.a < 5"}, refused("spec: Invalid value: failed rule: oldSelf.a < 5")),
    Case(
        "spec",
        {"rule": "oldSelf.hasValue() && self.a < 5", "optionalOldSelf": True},
        refused("spec: Invalid value: failed rule: oldSelf.hasValue() && self.a < 5"),
    ),
]


def kind_of(plural: str) -> Kind[Any]:
    return Kind(GROUP, "v1", plural.capitalize(), plural, dict, status=True)


def definition(plural: str, where: str = "", rule: Document | None = None) -> Document:
    def rules(node: str) -> Document:
        return {"x-kubernetes-validations": [rule]} if node == where else {}

    # By this rule one can tell from when on a definition counts.
    b = {"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": "self != 'known'"}] if where else []}
    properties = {"a": {"type": "integer", **rules("a")}, "b": b}
    schema = {
        "type": "object",
        **rules("root"),
        "properties": {
            "spec": {"type": "object", **rules("spec"), "properties": properties},
            "status": {"type": "object", "properties": {"told": {"type": "string"}}},
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def document(plural: str, name: str, b: str = "x") -> Document:
    kind = kind_of(plural)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name},
        "spec": {"a": 9, "b": b},
    }


@asynccontextmanager
async def tightened(client: Client, namespace: str, cases: Sequence[Case]) -> AsyncIterator[None]:
    """Objects that were there before the rules of their kinds."""
    made = [each.plural for each in cases]
    try:
        for plural in made:
            await client.create(CRDS, definition(plural))
        for plural in made:
            await _created(client, namespace, plural)
        for case in cases:
            body = {"spec": definition(case.plural, case.where, case.rule)["spec"]}
            await client.patch(CRDS, f"{case.plural}.{GROUP}", MergePatch(body))
        for plural in made:
            await _enforced(client, namespace, plural)
        yield
    finally:
        for plural in made:
            with suppress(NotFound):
                await client.delete(CRDS, f"{plural}.{GROUP}")


async def _created(client: Client, namespace: str, plural: str) -> None:
    for write in range(len(WRITES)):
        while True:
            try:
                await client.create(kind_of(plural), document(plural, f"name-{write}"), namespace)
            except NotFound:  # its handler may come a moment later
                await asyncio.sleep(0.05)
            else:
                break


async def _enforced(client: Client, namespace: str, plural: str) -> None:
    while True:
        try:
            await client.create(kind_of(plural), document(plural, "new", "known"), namespace, options=DRY)
        except Invalid as error:
            if any(each.get("field") == "spec.b" for each in error.details.get("causes", ())):
                return
        await asyncio.sleep(0.05)


async def answer(asked: Any) -> str:
    try:
        await asked
    except ApiError as error:
        return "; ".join(f"{each.get('field')}: {each.get('message')}" for each in error.details.get("causes", ()))
    return ACCEPTED


async def test_rules_excuse_what_was_there_before_as_kubernetes_does(client: Client, namespace: str) -> None:
    async with asyncio.timeout(STEP_SECONDS), tightened(client, namespace, CASES):
        for case in CASES:
            kind = kind_of(case.plural)
            answers = [
                await answer(client.patch(kind, f"name-{number}", MergePatch(body), namespace, subresource=sub))
                for number, (body, sub) in enumerate(WRITES.values())
            ]
            told = dict(zip(WRITES, answers, strict=True))
            assert told == dict(zip(WRITES, case.answers, strict=True)), case.rule["rule"]
