"""`echelon run` and `echelon placement` as people use them, against a hub in another process."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from click.testing import CliRunner
from tests.hub.conftest import HubProcess

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.cluster import GROUP, MANAGED_CLUSTER, MANAGED_CLUSTER_SET_BINDING
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT
from echelon.cli import main
from echelon.kube.client import MergePatch
from echelon.kube.config import load
from echelon.kube.http import HttpClient

NS = "apps"
PATIENCE_SECONDS = 60.0


@dataclass
class Process:
    """`echelon run` in a process of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    def says(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


def controllers(hub: HubProcess, log: Path, *options: str) -> Process:
    command = [sys.executable, "-m", "echelon", "run", "--kubeconfig", str(hub.kubeconfig), *options]
    with log.open("wb") as output:
        return Process(subprocess.Popen(command, stdout=output, stderr=output), log)


def test_controllers_say_which_definitions_are_missing(tmp_path: Path) -> None:
    bare = HubProcess(tmp_path, ["--memory"])
    bare.start()
    run = controllers(bare, tmp_path / "log", "--no-leader-elect", "--controllers", "placement")
    assert run.process.wait(timeout=60) == 1
    assert bare.stop() == 0
    said = run.log.read_text()
    assert "placementdecisions.cluster.open-cluster-management.io" in said
    assert "install them: echelon crds --controllers placement | kubectl apply --server-side -f -\n" in said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub with twelve clusters and two placements, and controllers at work."""
    hub = HubProcess(tmp_path_factory.mktemp("hub"), ["--memory"])
    hub.start()
    asyncio.run(_furnish(hub))
    log = tmp_path_factory.mktemp("run") / "log"
    run = controllers(hub, log, "--controllers", "placement,cluster-sets", "--metrics-listen", "127.0.0.1:0")
    run.says("the controllers are ready")
    yield hub
    assert run.stop() == 0
    assert hub.stop() == 0
    assert "the controllers have stopped" in log.read_text()
    assert "Traceback" not in log.read_text()


async def _furnish(hub: HubProcess) -> None:
    async with HttpClient(load(hub.kubeconfig)) as client:

        async def create(kind: Kind[Any], name: str, namespace: str = "", **body: Any) -> None:
            wire = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
            wire["metadata"] = {"name": name, **body.get("metadata", {})}
            await client.create(kind.untyped(), wire, namespace)

        for definition in registry.crds():
            if definition["spec"]["group"] == GROUP:
                await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        await create(NAMESPACE, NS)
        await create(MANAGED_CLUSTER_SET_BINDING, "global", NS, spec={"clusterSet": "global"})
        for number in range(12):
            tier = "canary" if number < 2 else "prod"
            taints = [{"key": "broken", "effect": "NoSelect"}] if number == 11 else []
            name = f"cluster-{number:02d}"
            await create(MANAGED_CLUSTER, name, metadata={"labels": {"tier": tier}}, spec={"taints": taints})
        canary = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"tier": "canary"}}}}
        strategy = {"groupStrategy": {"decisionGroups": [canary], "clustersPerDecisionGroup": 5}}
        await create(PLACEMENT, "web", NS, spec={"decisionStrategy": strategy})
        few = {"numberOfClusters": 2, "predicates": [_labels(tier="prod")]}
        await create(PLACEMENT, "few", NS, spec=few)


def _labels(**labels: str) -> dict[str, Any]:
    return {"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}


@pytest.fixture
def echelon(furnished: HubProcess) -> Callable[..., str]:
    """The command line, pointed at the hub; checks the exit code and returns what it printed."""

    def run(*arguments: str, code: int = 0) -> str:
        where = ["--kubeconfig", str(furnished.kubeconfig)]
        result = CliRunner().invoke(main, ["placement", arguments[0], *where, *arguments[1:]])
        assert result.exit_code == code, result.output
        return result.output

    return run


def eventually(ask: Callable[[], str], pattern: str) -> str:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not re.search(pattern, answer := ask(), re.MULTILINE):
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    return answer


def test_placements_are_listed_as_kubectl_does(echelon: Callable[..., str]) -> None:
    said = eventually(lambda: echelon("list", "-n", NS), r"^few +True[^\0]*^web +True")
    lines = [line.split() for line in said.splitlines()]
    assert lines == [
        ["NAME", "SUCCEEDED", "REASON", "SELECTEDCLUSTERS"],
        ["few", "True", "AllDecisionsScheduled", "2"],
        ["web", "True", "AllDecisionsScheduled", "11"],
    ]
    wide = echelon("list", "-A", "-o", "wide").splitlines()
    assert wide[0].split()[:2] == ["NAMESPACE", "NAME"]
    assert wide[2].split()[:7] == [NS, "web", "True", "AllDecisionsScheduled", "11", "3", "3"]
    assert [item["metadata"]["name"] for item in json.loads(echelon("list", "-A", "-o", "json"))["items"]] == [
        "few",
        "web",
    ]
    assert "No placements found" in echelon("list", "-n", "default")


def test_a_placement_is_shown_as_a_tree(echelon: Callable[..., str]) -> None:
    said = eventually(lambda: echelon("show", "web", "-n", NS), r"11 clusters in 3 groups")
    assert "├─ group 0 canary: 2 clusters" in said
    assert "│  └─ web-decision-1 (2): cluster-00, cluster-01" in said
    assert "└─ group 2: 4 clusters" in said
    assert max(map(len, said.splitlines())) <= 80
    documents = yaml.safe_load(echelon("show", "web", "-n", NS, "-o", "yaml"))["items"]
    assert [item["kind"] for item in documents] == ["Placement", *["PlacementDecision"] * 3]


def test_every_cluster_is_explained(echelon: Callable[..., str]) -> None:
    eventually(lambda: echelon("list", "-n", NS), r"^few +True")
    said = {line.split()[0]: line.split() for line in echelon("explain", "few", "-n", NS).splitlines()}
    assert said["cluster-02"][1] == "yes"
    assert said["cluster-00"][1:4] == ["no", "<none>", "NoPredicateMatches"]
    assert said["cluster-09"][1] == "no"
    assert said["cluster-09"][3] == "NotAmongTheBest"
    assert said["cluster-11"][3] == "TaintNotTolerated"
    one = echelon("explain", "few", "-n", NS, "--cluster", "cluster-11")
    assert one.startswith("cluster-11 is not selected: TaintNotTolerated")
    chosen = echelon("explain", "few", "-n", NS, "--cluster", "cluster-02")
    assert "Steady: 100 x 1 = 100" in chosen
    (document,) = json.loads(echelon("explain", "few", "-n", NS, "--cluster", "cluster-02", "-o", "json"))
    assert document["selected"] is True
    assert {part["name"] for part in document["scores"]} >= {"Steady", "Balance"}


def test_a_placement_that_is_not_stored_can_be_explained(echelon: Callable[..., str], tmp_path: Path) -> None:
    eventually(lambda: echelon("list", "-n", NS), r"^few +True")
    file = tmp_path / "placement.yaml"
    spec = {"numberOfClusters": 1, "predicates": [_labels(tier="canary")]}
    placement = {"apiVersion": PLACEMENT.api_version, "kind": "Placement", "metadata": {"name": "new"}, "spec": spec}
    file.write_text(yaml.safe_dump(placement))
    found = json.loads(echelon("explain", "-f", str(file), "-n", NS, "-o", "json"))
    assert [each["clusterName"] for each in found if each["selected"]] == ["cluster-00"]
    assert {each["reason"] for each in found} == {"Selected", "NotAmongTheBest", "NoPredicateMatches"}
    assert '"new" not found' in echelon("show", "new", "-n", NS, code=5)
    for text, said, code in (
        ("a: b: c", "mapping values are not allowed", 2),
        ("{}", "apiVersion is missing", 2),
        (yaml.safe_dump({**placement, "kind": "PlacementX"}), "the files have no Placement of", 1),
        (yaml.safe_dump({**placement, "spec": {"numberOfClusters": "few"}}), "numberOfClusters", 1),
    ):
        file.write_text(text)
        assert said in echelon("explain", "-f", str(file), "-n", NS, code=code)
    assert "name a placement, or give a file" in echelon("explain", "-n", NS, code=2)


def test_who_may_not_read_placements_is_told_so(furnished: HubProcess, tmp_path: Path) -> None:
    nobody = yaml.safe_load(furnished.kubeconfig.read_text())
    for user in nobody["users"]:
        user["user"] = {}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(nobody))
    result = CliRunner().invoke(main, ["placement", "explain", "--kubeconfig", str(path), "few", "-n", NS])
    assert result.exit_code == 6
    assert "forbidden" in result.output
    assert "Traceback" not in result.output


def test_groups_are_cut_again_on_request(echelon: Callable[..., str], furnished: HubProcess) -> None:
    async def change(name: str, tier: str) -> None:
        async with HttpClient(load(furnished.kubeconfig)) as client:
            await client.patch(MANAGED_CLUSTER, name, MergePatch({"metadata": {"labels": {"tier": tier}}}))

    eventually(lambda: echelon("show", "web", "-n", NS), r"11 clusters in 3 groups")
    asyncio.run(change("cluster-03", "canary"))
    said = eventually(lambda: echelon("show", "web", "-n", NS), r"canary: 3 clusters")
    assert "group 1: 4 clusters" in said
    assert "group 2: 4 clusters" in said
    assert echelon("regroup", "web", "-n", NS) == f"placement {NS}/web will be regrouped\n"
    eventually(lambda: echelon("show", "web", "-n", NS), r"group 1: 5 clusters")
    asyncio.run(change("cluster-03", "prod"))
    echelon("regroup", "web", "-n", NS)
    eventually(lambda: echelon("show", "web", "-n", NS), r"group 2: 4 clusters")


def test_mistakes_name_the_object_and_have_their_codes(echelon: Callable[..., str]) -> None:
    for command in ("show", "explain", "regroup"):
        assert 'placements.cluster.open-cluster-management.io "none" not found' in echelon(
            command, "none", "-n", NS, code=5
        )
    assert "no-cluster" in echelon("explain", "web", "-n", NS, "--cluster", "no-cluster", code=5)
    result = CliRunner().invoke(main, ["placement", "list", "--kubeconfig", "/nowhere/kubeconfig"])
    assert result.exit_code == 7
    assert "/nowhere/kubeconfig" in result.output


def test_publishing_for_sig_multicluster_needs_a_definition_and_says_which_command_has_it(
    furnished: HubProcess, tmp_path: Path
) -> None:
    options = ("--no-leader-elect", "--controllers", "placement", "--publish-multicluster")
    run = controllers(furnished, tmp_path / "log", *options)
    assert run.process.wait(timeout=60) == 1
    said = run.log.read_text()
    assert "does not serve placementdecisions.multicluster.x-k8s.io" in said
    assert "echelon crds --multicluster | kubectl apply --server-side -f -" in said
    assert "Traceback" not in said


def test_an_unknown_controller_is_a_mistake_of_usage(furnished: HubProcess) -> None:
    arguments = ["run", "--kubeconfig", str(furnished.kubeconfig), "--no-leader-elect", "--controllers", "placments"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "there is no controller 'placments'" in result.output


def test_processes_agree_on_one_leader_whatever_namespace_their_contexts_have(
    furnished: HubProcess, tmp_path: Path
) -> None:
    config = yaml.safe_load(furnished.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = NS
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(yaml.safe_dump(config))
    run = controllers(furnished, tmp_path / "log", "--controllers", "placement", "--kubeconfig", str(elsewhere))
    run.says("holds the lease echelon-system/echelon-controllers")
    assert run.stop() == 0
    assert "the controllers are ready" not in run.log.read_text()


@pytest.mark.parametrize("options", [("--no-leader-elect",), ("--namespace", "kube-public")])
def test_who_works_beside_a_leader_is_told(furnished: HubProcess, tmp_path: Path, options: tuple[str, ...]) -> None:
    run = controllers(furnished, tmp_path / "log", "--controllers", "cluster-sets", *options)
    run.says("(lease echelon-system/echelon-controllers) leads on this hub, too")
    assert run.stop() == 0


def test_a_namespace_that_was_named_for_the_lease_must_exist(furnished: HubProcess, tmp_path: Path) -> None:
    run = controllers(furnished, tmp_path / "log", "--controllers", "cluster-sets", "--namespace", "echelon-sytem")
    assert run.process.wait(timeout=60) == 1
    assert "kubectl create namespace echelon-sytem" in run.log.read_text()
    assert "Traceback" not in run.log.read_text()


def test_a_second_process_waits_for_the_lease_and_shows_metrics(furnished: HubProcess, tmp_path: Path) -> None:
    options = ("--controllers", "placement", "--namespace", "default", "--metrics-listen", "127.0.0.1:0")
    first = controllers(furnished, tmp_path / "first", *options)
    first.says("the controllers are ready")
    second = controllers(furnished, tmp_path / "second", *options)
    address = eventually((tmp_path / "first").read_text, r"metrics at (\S+)")
    with urlopen(re.findall(r"metrics at (\S+)", address)[0], timeout=10) as answer:  # noqa: S310 - our own
        assert b"scheduling_scheduling_duration_seconds_count" in answer.read()
    second.says("metrics at")
    assert "the controllers are ready" not in second.log.read_text()
    assert first.stop() == 0
    second.says("the controllers are ready")
    assert second.stop() == 0
