"""The program that waits, as a process, with the token and the rights that a set gives it, against a hub over TLS."""

import base64
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from click.testing import CliRunner

from echelon.api.base import JSONObject
from echelon.engine.pod_clique.infrastructure import infrastructure
from echelon.engine.pod_clique.shape import expected
from echelon.waiter.command import main
from tests.engine.pod_clique.sets import a_set, clique, spec_of
from tests.hub.api import MERGE_PATCH, Api
from tests.hub.conftest import HubProcess

pytestmark = pytest.mark.full

# Long enough for a busy machine; a test that waits this long has failed.
PATIENCE_SECONDS = 60.0


@dataclass
class Waiter:
    """A waiter that runs, and all that it has said."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def says(self, wanted: str) -> str:
        """Return the next line that has something in it; lines before it are passed over."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if re.search(wanted, line):
                return line
        pytest.fail(f"it ended with {self.process.wait()} and has only said {self.lines}")

    def ends(self) -> int:
        return self.process.wait(timeout=PATIENCE_SECONDS)


@dataclass
class World:
    """A namespace with the account of a set `w`, and a directory that looks like a pod from inside."""

    api: Api
    namespace: str
    directory: Path
    running: list[Waiter] = field(default_factory=list)

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def give_token(self) -> None:
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/w/token"
        answer = self.api.ok("POST", account, {"spec": {"audiences": [], "expirationSeconds": 3600}})
        self._write("account/token", answer["status"]["token"])

    def _write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(text)
        part.replace(path)

    def describe_pod(self, gang: str = "w-0") -> None:
        self._write("info/namespace", self.namespace)
        self._write("info/podgangname", gang)

    def start(self, *arguments: str, **environment: str) -> Waiter:
        command = [sys.executable, "-m", "echelon.waiter", "--pod-info", str(self.directory / "info")]
        command += ["--service-account", str(self.directory / "account"), *arguments]
        address = {"KUBERNETES_SERVICE_HOST": self.api.host, "KUBERNETES_SERVICE_PORT": str(self.api.port)}
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **address, **environment},
        )
        self.running.append(Waiter(process))
        return self.running[-1]

    def pod(self, name: str, clique_name: str, *, ready: bool = True, gang: str = "w-0", **metadata: Any) -> None:
        labels = {"grove.io/podgang": gang, "grove.io/podclique": clique_name}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, **metadata},
            "spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]},
        }
        self.api.ok("POST", self.pods, body)
        self.ready(name, is_ready=ready)

    def ready(self, name: str, *, is_ready: bool = True) -> None:
        conditions = [{"type": "Ready", "status": str(is_ready)}]
        self.api.ok("PATCH", f"{self.pods}/{name}/status", {"status": {"conditions": conditions}}, MERGE_PATCH)


def in_namespace(api: Api, body: JSONObject, namespace: str) -> None:
    plurals = {
        "ServiceAccount": "/api/v1/{}/serviceaccounts",
        "Role": "/apis/rbac.authorization.k8s.io/v1/{}/roles",
        "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/{}/rolebindings",
    }
    api.ok("POST", plurals[body["kind"]].format(f"namespaces/{namespace}"), body)


def new_world(hub: HubProcess, directory: Path, *, rights: bool = True) -> World:
    api, namespace = Api.of(hub.kubeconfig), f"waiter-{uuid4().hex[:12]}"
    api.ok("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    body = a_set(clique("a"), clique("b"), cliqueStartupType="CliqueStartupTypeInOrder")
    body["metadata"]["namespace"] = namespace
    spec = spec_of(body)
    for kind, child in infrastructure(body, spec, expected(spec, "w", {}, {})):
        child["metadata"].pop("ownerReferences")  # the set itself is not there
        if kind.kind in ("ServiceAccount", "Role", "RoleBinding") and (rights or kind.kind == "ServiceAccount"):
            in_namespace(api, child, namespace)
    world = World(api, namespace, directory)
    config = yaml.safe_load(hub.kubeconfig.read_text())
    authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
    world._write("account/ca.crt", base64.b64decode(authority).decode())
    return world


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    running = HubProcess(tmp_path_factory.mktemp("hub"), ["--memory"])
    running.start()
    yield running
    assert running.stop() == 0


@pytest.fixture
def world(hub: HubProcess, tmp_path: Path) -> Iterator[World]:
    made = new_world(hub, tmp_path)
    made.give_token()
    made.describe_pod()
    yield made
    stop(made)


def stop(world: World) -> None:
    for waiter in world.running:
        waiter.process.kill()
        waiter.process.wait()
        assert waiter.process.stdout is not None
        waiter.process.stdout.close()


def test_a_pod_starts_when_every_clique_has_its_pods_ready_at_the_same_time(world: World) -> None:
    waiter = world.start("--podcliques=w-0-a:2", "--podcliques=w-0-b:1")
    waiter.says(r"waiting for w-0-a \(0 of 2 pods ready\), w-0-b \(0 of 1 pods ready\)")
    world.pod("a0", "w-0-a")
    waiter.says(r"w-0-a \(1 of 2")
    world.pod("a1", "w-0-a")
    waiter.says(r"waiting for w-0-b \(0 of 1")
    world.ready("a0", is_ready=False)
    waiter.says(r"w-0-a \(1 of 2 pods ready\), w-0-b \(0 of 1")
    # All have been ready once by now, and yet not together.
    world.pod("b0", "w-0-b")
    waiter.says(r"waiting for w-0-a \(1 of 2 pods ready\)$")
    world.ready("a0")
    waiter.says("all cliques are up")
    assert waiter.ends() == 0


def test_a_pod_that_comes_later_starts_at_once(world: World) -> None:
    world.pod("a0", "w-0-a")
    waiter = world.start("--podcliques=w-0-a:1,w-0-a:1")
    waiter.says("all cliques are up")
    assert waiter.ends() == 0


def test_pods_of_cliques_with_similar_names_and_of_other_gangs_do_not_count(world: World) -> None:
    # Grove's container takes every pod whose name begins like the clique.
    world.pod("w-0-worker-gpu-x", "w-0-worker-gpu")
    world.pod("w-0-worker-x", "w-0-worker", gang="w-1")
    world.pod("w-0-worker-y", "w-0-worker", finalizers=["example.com/held"])
    world.api.ok("DELETE", f"{world.pods}/w-0-worker-y")
    waiter = world.start("--podcliques=w-0-worker:1")
    waiter.says(r"waiting for w-0-worker \(0 of 1 pods ready\)")
    world.pod("w-0-worker-z", "w-0-worker")
    waiter.says("all cliques are up")
    assert waiter.ends() == 0
    world.api.ok("PATCH", f"{world.pods}/w-0-worker-y", {"metadata": {"finalizers": None}}, MERGE_PATCH)


def test_a_pod_that_goes_while_others_are_waited_for_is_missed(world: World) -> None:
    world.pod("a0", "w-0-a")
    waiter = world.start("--podcliques=w-0-a:1", "--podcliques=w-0-b:1")
    waiter.says(r"waiting for w-0-b \(0 of 1 pods ready\)$")
    world.api.ok("DELETE", f"{world.pods}/a0", gracePeriodSeconds=0)
    waiter.says(r"waiting for w-0-a \(0 of 1 pods ready\), w-0-b")
    world.pod("a1", "w-0-a")
    world.pod("b0", "w-0-b")
    waiter.says("all cliques are up")
    assert waiter.ends() == 0


def test_a_token_that_is_written_later_is_waited_for(hub: HubProcess, tmp_path: Path) -> None:
    world = new_world(hub, tmp_path)
    try:
        world.pod("a0", "w-0-a")
        waiter = world.start("--podcliques=w-0-a:1")
        assert "token" in waiter.says("waiting for .*namespace.*podgangname")
        world.describe_pod()
        world.give_token()
        waiter.says("all cliques are up")
        assert waiter.ends() == 0
    finally:
        stop(world)


def test_missing_rights_are_told_and_waited_for(hub: HubProcess, tmp_path: Path) -> None:
    world = new_world(hub, tmp_path, rights=False)
    try:
        world.give_token()
        world.describe_pod()
        world.pod("a0", "w-0-a")
        waiter = world.start("--podcliques=w-0-a:1")
        waiter.says("cannot look at pods, trying again: .*forbidden")
        everything = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "later"},
            "roleRef": everything,
            "subjects": [{"kind": "ServiceAccount", "name": "w", "namespace": world.namespace}],
        }
        in_namespace(world.api, binding, world.namespace)
        waiter.says("all cliques are up")
        assert waiter.ends() == 0
    finally:
        stop(world)


def test_a_server_that_goes_away_and_comes_back_is_waited_for(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path, ["--data", str(tmp_path / "data")])
    hub.start()
    world = new_world(hub, tmp_path)
    hub.options = [*hub.options, "--listen", f"{world.api.host}:{world.api.port}"]
    try:
        world.give_token()
        world.describe_pod()
        waiter = world.start("--podcliques=w-0-a:1")
        waiter.says(r"waiting for w-0-a \(0 of 1")
        hub.kill()
        waiter.says("cannot look at pods, trying again")
        hub.start()
        world.api = Api.of(hub.kubeconfig)
        world.pod("a0", "w-0-a")
        waiter.says("all cliques are up")
        assert waiter.ends() == 0
    finally:
        stop(world)
        hub.kill()


def test_it_stops_when_asked_to(world: World) -> None:
    waiter = world.start("--podcliques=w-0-a:1")
    waiter.says("waiting for w-0-a")
    waiter.process.send_signal(signal.SIGTERM)
    waiter.says("asked to stop")
    assert waiter.ends() == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    "argument", ["--podcliques=w-0-a", "--podcliques=w-0-a:0", "--podcliques=:1", "--podcliques=A:1"]
)
def test_an_argument_that_makes_no_sense_is_refused(argument: str) -> None:
    done = CliRunner().invoke(main, [argument])
    assert "is not <name of a PodClique>:<pods>" in done.output
    assert done.exit_code == 2


def test_outside_of_a_pod_it_says_so(world: World) -> None:
    waiter = world.start("--podcliques=w-0-a:1", KUBERNETES_SERVICE_HOST="")
    waiter.says("this is no pod")
    assert waiter.ends() == 1


def test_many_cliques_do_not_make_an_address_too_long(world: World) -> None:
    for name in ("w-0-c0", "w-0-c299"):
        world.pod(name, name)
    waiter = world.start(*(f"--podcliques=w-0-c{number}:1" for number in range(300)))
    line = waiter.says("waiting for w-0-c1 ")
    assert line.count("pods ready") == 298
