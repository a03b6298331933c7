"""A kind of rollout that nobody has heard of gets the verbs, the tree and the way back like all others.

The toy kind is in `greetings.py`. Here its plans are carried out on a hub, and people talk to it by the command line.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner
from tests.cli import greetings
from tests.cli.greetings import ENTRY, GREETING, plan, read
from tests.controllers.hub import INDEX_LABEL, PLACEMENT_LABEL
from tests.hub.conftest import HubProcess

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.times import format_micro_time
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli import main
from echelon.engine.plan import Emit
from echelon.engine.rollout import control
from echelon.kube.act import Failed, act
from echelon.kube.client import Client, MergePatch
from echelon.kube.config import load
from echelon.kube.http import HttpClient
from echelon.rollouts import kinds

T = TypeVar("T")

NS, NAME = "toys", "hello"
SOAK = {"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "1h"}}


class Events:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def emit(self, event: Emit) -> None:
        self.reasons.append(event.reason)


class Toys:
    """A hub with a greeting on it that goes to a canary and then to two clusters more."""

    def __init__(self, hub: HubProcess) -> None:
        self._hub = hub
        self.events = Events()

    def run(self, do: Callable[[Client], Awaitable[T]]) -> T:
        async def connected() -> T:
            async with HttpClient(load(self._hub.kubeconfig)) as client:
                return await do(client)

        return asyncio.run(connected())

    def rollout(self, *arguments: str, code: int = 0) -> str:
        where = ["--kubeconfig", str(self._hub.kubeconfig), "-n", NS]
        result = CliRunner().invoke(main, ["rollout", *arguments, *where])
        assert result.exit_code == code, result.output
        return result.output

    def greeting(self) -> JSONObject:
        return self.run(lambda client: client.get(GREETING.untyped(), NAME, NS))

    def reconcile(self) -> None:
        """Plan and act as a controller would."""

        async def once(client: Client) -> None:
            now = datetime.now(UTC)
            found = await read(client, await client.get(GREETING.untyped(), NAME, NS), now)
            made = plan(found.subject, now)
            async for outcome in act(made, client, self.events, manager="toys"):
                assert not isinstance(outcome, Failed), outcome

        self.run(once)

    def report(self, phase: str) -> list[str]:
        """Have all clusters that are at it say how they are; return who was."""
        held = self.greeting()["status"]["held"]
        busy = {cluster: each for cluster, each in held.items() if each["phase"] == "Progressing"}
        now = format_micro_time(datetime.now(UTC))
        status = {"held": {cluster: {**each, "phase": phase, "since": now} for cluster, each in busy.items()}}
        patch = MergePatch({"status": status})
        self.run(lambda client: client.patch(GREETING.untyped(), NAME, patch, NS, subresource="status"))
        return sorted(busy)


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toys]:
    monkeypatch.setattr(kinds, "ROLLOUT_KINDS", (*kinds.ROLLOUT_KINDS, ENTRY))
    hub = HubProcess(tmp_path, ["--memory"])
    hub.start()
    found = Toys(hub)
    found.run(_furnish)
    yield found
    assert hub.stop() == 0


async def _furnish(client: Client) -> None:
    async def create(kind: Kind[Any], name: str, namespace: str = NS, **body: Any) -> None:
        status = body.pop("status", None)
        wire = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        wire["metadata"] = {"name": name, **body.get("metadata", {})}
        await client.create(kind.untyped(), wire, namespace)
        if status:
            await client.patch(kind.untyped(), name, MergePatch({"status": status}), namespace, subresource="status")

    kinds = ("Placement", "PlacementDecision", "ManifestWork", "ManifestWorkReplicaSet")
    for definition in (*registry.crds(), _definition()):
        if definition["spec"]["names"]["kind"] in (*kinds, "Greeting"):
            await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    await create(NAMESPACE, NS, "")
    for placement, groups in (("p", [["c1"], ["c2", "c3"]]), ("q", [["c4"]])):
        listed = [
            {
                "decisionGroupIndex": n,
                "decisionGroupName": "",
                "decisions": [f"{placement}-{n}"],
                "clusterCount": len(each),
            }
            for n, each in enumerate(groups)
        ]
        status = {"numberOfSelectedClusters": sum(map(len, groups)), "decisionGroups": listed}
        await create(PLACEMENT, placement, spec={}, status=status)
        for number, clusters in enumerate(groups):
            metadata = {"labels": {PLACEMENT_LABEL: placement, INDEX_LABEL: str(number)}}
            status = {"decisions": [{"clusterName": each, "reason": ""} for each in clusters]}
            await create(PLACEMENT_DECISION, f"{placement}-{number}", metadata=metadata, status=status)
    await create(GREETING, NAME, spec={"text": "good morning", "placements": ["p"], "strategy": SOAK})


def _definition() -> JSONObject:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": GREETING.resource},
        "spec": {
            "group": GREETING.group,
            "scope": "Namespaced",
            "names": {"kind": GREETING.kind, "plural": GREETING.plural, "singular": GREETING.singular},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def test_fifty_lines_make_a_kind_of_rollout() -> None:
    lines = Path(str(greetings.__file__)).read_text().splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 50


def test_it_is_paused_promoted_shown_and_undone(toys: Toys) -> None:
    toys.rollout("pause", NAME)
    toys.reconcile()
    assert toys.greeting()["status"].get("held", {}) == {}, "nothing starts while it is paused"
    assert "paused" in toys.rollout("status", NAME)
    toys.rollout("resume", f"greeting/{NAME}")
    toys.reconcile()
    assert toys.report("Succeeded") == ["c1"], "the first group begins"
    toys.reconcile()
    shown = toys.rollout("status", f"hi/{NAME}")
    assert "rolling out: 0 of 3 done, 1 soaking, 2 waiting" in shown
    assert "├─ ◔ group 0  0 of 1 done, 1 soaking" in shown
    assert "waits for group 0: c1 soaks" in " ".join(shown.split())
    toys.rollout("promote", NAME)
    toys.reconcile()
    assert toys.report("Succeeded") == ["c2", "c3"], "the soak of the first group was cut short"
    toys.rollout("promote", NAME)
    toys.reconcile()
    assert toys.rollout("watch", NAME).startswith("complete, 3 of 3 done")
    assert {"GroupsStarted", "RolloutPaused", "RolloutContinues", "RolloutComplete"} <= set(toys.events.reasons)
    change = MergePatch({"spec": {"text": "good evening"}})
    toys.run(lambda client: client.patch(GREETING.untyped(), NAME, change, NS))
    toys.reconcile()
    assert "+good evening" in toys.rollout("diff", NAME, code=1)
    assert "goes back to revision 1" in toys.rollout("undo", NAME)
    assert toys.greeting()["spec"] == {"text": "good morning", "placements": ["p"], "strategy": SOAK}
    toys.reconcile()
    assert "good morning" not in toys.rollout("history", NAME)
    assert toys.rollout("status", NAME).startswith(f"{NS}/{NAME}  revision 3")


def test_a_name_that_two_kinds_have_needs_its_kind(toys: Toys) -> None:
    template = {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}}
    body = {
        "apiVersion": MANIFEST_WORK_REPLICA_SET.api_version,
        "kind": MANIFEST_WORK_REPLICA_SET.kind,
        "metadata": {"name": NAME},
        "spec": {"manifestWorkTemplate": template, "placementRefs": [{"name": "p"}]},
    }
    toys.run(lambda client: client.create(MANIFEST_WORK_REPLICA_SET.untyped(), body, NS))
    said = toys.rollout("status", NAME, code=1)
    assert f"manifestworkreplicaset/{NAME}, greeting/{NAME}" in said
    assert "rolling out" in toys.rollout("status", f"mwrs/{NAME}")
    listed = toys.rollout("list")
    assert f"manifestworkreplicaset/{NAME}" in listed
    assert f"greeting/{NAME}" in listed
    assert "there are no rollouts of kind pony; there are" in toys.rollout("status", f"pony/{NAME}", code=5)


def test_groups_of_several_placements_are_approved_with_their_placement(toys: Toys) -> None:
    change = MergePatch({"metadata": {"annotations": {control.APPROVAL: "all"}}, "spec": {"placements": ["p", "q"]}})
    toys.run(lambda client: client.patch(GREETING.untyped(), NAME, change, NS))
    assert "there are p/0, 0, p/1, 1, q/0" in " ".join(toys.rollout("approve", NAME, "--group", "q/1", code=2).split())
    toys.rollout("approve", NAME, "--group", "q/0")
    toys.reconcile()
    assert toys.report("Succeeded") == ["c4"]
    toys.rollout("approve", NAME)
    approved = toys.greeting()["metadata"]["annotations"][control.APPROVED]
    assert approved.partition(":")[2] == "p/0,p/1,q/0"


def test_a_kind_that_the_hub_does_not_serve_has_no_rollouts(toys: Toys, monkeypatch: pytest.MonkeyPatch) -> None:
    unserved = replace(ENTRY, find_kind=lambda: replace(GREETING, kind="Farewell", plural="farewells"))
    monkeypatch.setattr(kinds, "ROLLOUT_KINDS", (unserved, ENTRY))
    assert NAME in toys.rollout("list")
    assert "rolling out" in toys.rollout("status", NAME)
    monkeypatch.setattr(kinds, "ROLLOUT_KINDS", (unserved,))
    toys.rollout("list", code=5)
