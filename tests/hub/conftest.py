"""A hub as users run it: the command, in a process of its own, over TLS."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from echelon.api import registry
from tests.hub.api import Api

START_SECONDS = 60.0


@dataclass
class HubProcess:
    """`echelon hub` in a directory; can be stopped, killed and started again."""

    directory: Path
    options: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None
    _port: socket.socket = field(default_factory=socket.socket)

    def __post_init__(self) -> None:
        # Bound and not listened on, a port is nobody else's while the hub is away, and the hub may still listen there.
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._port.bind(("127.0.0.1", 0))

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def start(self) -> None:
        self.kubeconfig.unlink(missing_ok=True)
        command = [sys.executable, "-m", "echelon", "hub", "--kubeconfig", str(self.kubeconfig), *self.options]
        if "--listen" not in self.options:
            command += ["--listen", f"127.0.0.1:{self._port.getsockname()[1]}"]
        with (self.directory / "hub.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self.kubeconfig.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the hub did not start: {self.log()}")
            time.sleep(0.02)

    def log(self) -> str:
        return (self.directory / "hub.log").read_text()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """Ask the hub to stop and return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout=30)


@dataclass(frozen=True)
class Kubectl:
    """A real kubectl, pointed at a hub."""

    program: str
    kubeconfig: Path
    namespace: str = "default"
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """Run a command, check its exit code, and return what it printed on both streams."""
        command = [self.program, "--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace, *arguments]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, **self.environment},
        )
        printed = done.stdout + done.stderr
        assert done.returncode == code, f"{' '.join(arguments)} exited {done.returncode}:\n{printed}"
        return printed


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub in memory with Echelon's CRDs, shared by all tests of a worker: each uses names of its own."""
    running = HubProcess(tmp_path_factory.mktemp("hub"), ["--memory", "--cluster", "member"])
    running.start()
    yield running
    assert running.stop() == 0, running.log()
    assert "Traceback" not in running.log(), running.log()


@pytest.fixture(scope="session")
def crds(hub: HubProcess) -> HubProcess:
    """The shared hub with the CRDs."""
    api = Api.of(hub.kubeconfig)
    for document in registry.crds():
        api.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
    return hub


@pytest.fixture
def k(crds: HubProcess, kubectl: str, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """kubectl in a namespace that belongs to the test."""
    name = request.node.name.lower().replace("_", "-").translate(str.maketrans("", "", "[]."))[:50].strip("-")
    admin = Kubectl(kubectl, crds.kubeconfig)
    admin(
        "create", "-f", "-", stdin=yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    )
    yield Kubectl(kubectl, crds.kubeconfig, name)
    admin("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def api(crds: HubProcess) -> Api:
    """The shared hub, as its administrator, without anything between a test and the wire."""
    return Api.of(crds.kubeconfig)


@pytest.fixture
def maps(api: Api) -> Iterator[str]:
    """Address of the config maps in a namespace that belongs to the test."""
    name = f"test-{uuid4().hex[:12]}"
    api.ok("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield f"/api/v1/namespaces/{name}/configmaps"
    api("DELETE", f"/api/v1/namespaces/{name}")
