"""Echelon's kinds on real Kubernetes: taken, kept whole, and judged as the embedded hub judges them.

Whoever tries a rollout on the embedded hub must not be surprised by a real one. So both get every sample and many
broken objects, and must agree: on yes or no, on the code, and on the fields that are wrong.
"""

import asyncio
import copy
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.namespaces import NAMESPACE
from echelon.api.registry import AnyKind
from echelon.kube.client import Client, DeleteOptions, JSONPatch, MergePatch, WriteOptions
from echelon.kube.errors import ApiError
from tests.conformance import corpus, targets
from tests.conformance.corpus import Document
from tests.environment import Access

STRICT = WriteOptions(dry_run=True, field_validation="Strict")
SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
# What Kubernetes adds to its own kinds through plugins and generators that the embedded hub does without.
ONLY_THERE = {
    "DaemonSet": {".metadata.annotations"},
    "HorizontalPodAutoscaler": {".status"},
    "Job": {
        ".metadata.labels",
        ".spec.podReplacementPolicy",
        ".spec.selector.matchLabels.batch.kubernetes.io/controller-uid",
        ".spec.template.metadata.labels.batch.kubernetes.io/controller-uid",
        ".spec.template.metadata.labels.controller-uid",
    },
    "PersistentVolumeClaim": {".metadata.finalizers"},
    "Pod": {".spec.preemptionPolicy", ".spec.priority"},
    "Service": {".spec.clusterIP", ".spec.clusterIPs[0]"},
    "StatefulSet": {f".spec.volumeClaimTemplates[0].{name}" for name in ("apiVersion", "kind", "status")},
}
# The template of a CronJob shows what its Jobs will have.
_JOB = ".spec.jobTemplate"
ONLY_HERE = {
    "CronJob": {
        f"{_JOB}.metadata",
        *(
            f"{_JOB}.spec.{name}"
            for name in ("backoffLimit", "completionMode", "manualSelector", "parallelism", "suspend")
        ),
        f"{_JOB}.spec.template.metadata",
        f"{_JOB}.spec.template.spec.containers[0].imagePullPolicy",
    }
}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Both:
    """The same request to the embedded hub and to Kubernetes."""

    hub: Client
    kubernetes: Client

    def __iter__(self) -> Iterator[Client]:
        return iter((self.hub, self.kubernetes))


@pytest.fixture(scope="session")
def both(runner: asyncio.Runner, control_plane: Access) -> Iterator[Both]:
    stack = AsyncExitStack()
    opened = [
        runner.run(stack.enter_async_context(opening))
        for opening in (targets.in_process(), targets.kubernetes(control_plane))
    ]
    for target in opened:
        runner.run(targets.serve_crds(target.client))
    yield Both(opened[0].client, opened[1].client)
    runner.run(stack.aclose())


@pytest.fixture
def place(both: Both, runner: asyncio.Runner) -> str:
    """A namespace of the same name on both."""
    name = f"corpus-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for client in both:
        runner.run(client.create(NAMESPACE, body))
    return name


def placed(document: Document, kind: AnyKind, place: str) -> tuple[Document, str]:
    """Put a document into a namespace, without owners: there they are not, and a collector would take it away."""
    moved = copy.deepcopy(document)
    moved["metadata"].pop("ownerReferences", None)
    moved["metadata"].pop("namespace", None)
    return moved, place if kind.namespaced else ""


async def verdict(asked: Any) -> tuple[object, ...]:
    """Yes, or the code, the reason and the fields of a no."""
    try:
        await asked
    except ApiError as error:
        causes = error.details.get("causes", ())
        fields = sorted({cause.get("field", "") for cause in causes})
        return error.status_code, error.status_reason, *(fields or [error.message])
    return ("accepted",)


async def test_every_definition_is_established(both: Both) -> None:
    for document in registry.crds():
        crd = await both.kubernetes.get(CUSTOM_RESOURCE_DEFINITION.untyped(), document["metadata"]["name"])
        conditions = {each["type"]: each["status"] for each in crd["status"]["conditions"]}
        assert conditions["Established"] == conditions["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in conditions
        assert crd["status"]["acceptedNames"] == crd["spec"]["names"]


async def test_a_definition_is_stored_as_it_was_sent(both: Both) -> None:
    for document in registry.crds():
        name = document["metadata"]["name"]
        stored = [await client.get(CUSTOM_RESOURCE_DEFINITION.untyped(), name) for client in both]
        assert stored[0]["spec"] == stored[1]["spec"]
        for sent, kept in zip(document["spec"]["versions"], stored[1]["spec"]["versions"], strict=True):
            assert kept["schema"] == sent["schema"]


@pytest.mark.parametrize("sample", corpus.samples("good-"), ids=lambda path: path.stem)
async def test_a_good_object_keeps_every_field_and_is_the_same_on_both(both: Both, place: str, sample: Path) -> None:
    sent = corpus.load(sample)
    kind = corpus.kind_of(sent)
    body, namespace = placed(sent, kind, place)
    answers = []
    for client in both:
        async with existing(client, kind, body, namespace) as stored:
            answers.append(stored)
    known = ONLY_THERE.get(kind.kind, set()) if kind.builtin else set()
    assert lost(body, answers[1]) <= known
    assert differences(comparable(answers[0]), comparable(answers[1])) == known | ONLY_HERE.get(kind.kind, set())


@asynccontextmanager
async def existing(client: Client, kind: AnyKind, body: Document, namespace: str) -> AsyncIterator[Document]:
    """Store an object, its status included, for a while."""
    strict = WriteOptions(field_validation="Strict")
    stored = await client.create(kind.untyped(), body, namespace, options=strict)
    name = stored["metadata"]["name"]
    try:
        if kind.status and "status" in body:
            patch = MergePatch({"status": body["status"]})
            stored = await client.patch(kind.untyped(), name, patch, namespace, subresource="status", options=strict)
        yield stored
    finally:
        if body["metadata"].get("finalizers"):
            await client.patch(kind, name, MergePatch({"metadata": {"finalizers": None}}), namespace)
        await client.delete(kind, name, namespace, options=DeleteOptions(grace_period_seconds=0))


def differences(one: Any, other: Any, path: str = "") -> set[str]:
    """Return the paths at which two objects differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = one.keys() | other.keys()
        return {found for key in keys for found in differences(one.get(key), other.get(key), f"{path}.{key}")}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return {found for number, (a, b) in pairs for found in differences(a, b, f"{path}[{number}]")}
    return set() if one == other else {path}


def lost(sent: Any, kept: Any, path: str = "") -> set[str]:
    """Return the paths of what was sent and is not there any more, or is something else."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        own = (key for key in sent if path != ".metadata" or key not in (*SERVER_FIELDS, "generation", "managedFields"))
        return {gone for key in own for gone in lost(sent[key], kept.get(key), f"{path}.{key}")}
    if isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        pairs = enumerate(zip(sent, kept, strict=True))
        return {gone for number, (a, b) in pairs for gone in lost(a, b, f"{path}[{number}]")}
    return set() if sent == kept else {path}


def comparable(obj: Document) -> Document:
    """Leave out what no two servers can have in common."""
    same = copy.deepcopy(obj)
    for name in SERVER_FIELDS:
        same["metadata"].pop(name, None)
    if corpus.kind_of(obj).builtin:
        # Go's types have maps that always exist, and so are nobody's; which ones those are shows nowhere else.
        same["metadata"].pop("managedFields")
    for entry in same["metadata"].get("managedFields", ()):
        entry.pop("time")
    if obj["kind"] == "Pod":
        for condition in same["status"].get("conditions", ()):
            condition.pop("lastTransitionTime")  # of its gates: when it was created
    return same


@pytest.mark.parametrize("sample", corpus.samples("bad-"), ids=lambda path: path.stem)
async def test_a_bad_object_is_refused_alike(both: Both, place: str, sample: Path) -> None:
    sent = corpus.load(sample)
    kind = corpus.kind_of(sent)
    body, namespace = placed(sent, kind, place)
    hub, kubernetes = [await verdict(client.create(kind.untyped(), body, namespace, options=STRICT)) for client in both]
    assert kubernetes[0] == 422
    assert hub == kubernetes


@pytest.mark.parametrize("kind", corpus.kinds(), ids=lambda kind: kind.resource)
async def test_a_broken_object_is_judged_alike(both: Both, place: str, kind: AnyKind) -> None:
    whole, namespace = placed(corpus.load(corpus.full_sample(kind)), kind, place)
    whole["metadata"].pop("finalizers", None)
    judged = [await judgements(client, kind, whole, namespace) for client in both]
    disagreements = [
        f"{name}: the hub says {hub}, Kubernetes says {judged[1][name]}"
        for name, hub in judged[0].items()
        if hub != judged[1][name]
    ]
    assert disagreements == []
    assert any(answer != ("accepted",) for answer in judged[1].values())


async def judgements(client: Client, kind: AnyKind, whole: Document, namespace: str) -> dict[str, tuple[object, ...]]:
    """What a server says of every mutation, without storing any."""
    found = {}
    async with existing(client, kind, whole, namespace):
        for mutation in corpus.mutations(kind):
            body, _ = placed(mutation.document, kind, namespace)
            name = body["metadata"]["name"]
            if mutation.path[0] == "status" and kind.status:
                patch = JSONPatch([{"op": "add", "path": "/status", "value": body["status"]}])
                asked = client.patch(kind.untyped(), name, patch, namespace, subresource="status", options=STRICT)
            else:
                body["metadata"]["name"] = f"{name}-2"
                asked = client.create(kind.untyped(), body, namespace, options=STRICT)
            found[mutation.name] = await verdict(asked)
    return found
