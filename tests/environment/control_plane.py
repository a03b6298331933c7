"""One real control plane: etcd and kube-apiserver, and on request what makes workloads run.

Everything is on loopback and in one directory, certificates and logs included, so a failed test leaves its evidence
and several planes, a hub and its members, run side by side. Authorisation is RBAC: a controller that works only as
an administrator must not pass its tests.

A port that was free may be taken a moment later, by another plane above all. The servers take no port 0, so a plane
that did not come up because of it tries again with others.
"""

import shutil
import ssl
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.request import urlopen

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from echelon.hub.access import pki
from tests.environment.access import Access, Administrator
from tests.environment.etcd import ATTEMPTS, TAKEN, Etcd, etcd_options
from tests.environment.processes import NotStartedError, ProcessGroup, Server, free_ports, wait_until
from tests.environment.programs import Programs

START_SECONDS = 90.0  # a cold kube-apiserver needs some seconds of CPU, and CI machines share theirs
STAGES = Path(__file__).parent / "stages.yaml"


class ControlPlaneError(Exception):
    """A control plane did not come up; the message has the last words of its servers."""


class ControlPlane:
    """A Kubernetes cluster without machines. Use it as a context manager, or call `start` and `stop`.

    `kwok_nodes` are nodes whose pods become ready at once and run nothing; pods reach them through the scheduler.
    `api_options` and `manager_options` are further arguments of kube-apiserver and kube-controller-manager. With an
    `etcd` of several planes, each stores under the name of its directory there.
    """

    def __init__(
        self,
        programs: Programs,
        directory: Path,
        *,
        controller_manager: bool = False,
        scheduler: bool = False,
        kwok_nodes: int = 0,
        api_options: Sequence[str] = (),
        manager_options: Sequence[str] = (),
        etcd: Etcd | None = None,
    ) -> None:
        self._programs = programs
        self._directory = directory
        self._controller_manager = controller_manager
        self._scheduler = scheduler
        self._kwok_nodes = kwok_nodes
        self._api_options = api_options
        self._manager_options = manager_options
        self._etcd = etcd
        self._group: ProcessGroup | None = None
        self._access: Access | None = None
        self.start_seconds = 0.0

    @property
    def access(self) -> Access:
        """The way in; raises while the plane does not run."""
        if self._access is None:
            raise ControlPlaneError("the control plane does not run")
        return self._access

    @property
    def servers(self) -> Sequence[Server]:
        """The running programs."""
        return tuple(self._group.servers) if self._group else ()

    def memory(self) -> int:
        """Return the bytes of memory that all programs together occupy."""
        return sum(server.memory() for server in self.servers)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and return when it serves."""
        began = time.monotonic()
        self._directory.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._attempt()
                break
            except NotStartedError as error:
                logs = sorted(self._directory.glob("*.log"))
                taken = any(TAKEN in log.read_text(errors="replace") for log in logs)
                if attempt == ATTEMPTS or not taken:
                    raise ControlPlaneError(str(error)) from None
                for log in logs:
                    log.replace(log.with_suffix(f".{attempt}"))
        self.start_seconds = time.monotonic() - began

    def _attempt(self) -> None:
        self._group = ProcessGroup(self._directory)
        try:
            access, administrator = self._start_api(self._group)
            self._start_others(self._group, access, administrator)
            self._access = access
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything; the logs stay. What was stored is gone."""
        self._access = None
        if self._group is not None:
            self._group.stop()
            self._group = None
        shutil.rmtree(self._directory / "etcd", ignore_errors=True)

    def _start_api(self, group: ProcessGroup) -> tuple[Access, Administrator]:
        client, peer, secure = free_ports(3)
        access = Access(f"https://127.0.0.1:{secure}", self._directory)
        signing_key = pki.open_pki(access.keys, (), datetime.now(UTC)).signing_key
        public = signing_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (access.keys / "service-accounts.pub").write_bytes(public)
        storage = self._etcd.url if self._etcd else f"http://127.0.0.1:{client}"
        # kube-apiserver waits for etcd, so both may start at once.
        if self._etcd is None:
            options = etcd_options(self._directory / "etcd", storage, f"http://127.0.0.1:{peer}")
            group.start(self._programs.path("etcd"), options)
        group.start(self._programs.path("kube-apiserver"), self._api_server_options(storage, secure, access.keys))
        administrator = Administrator.of(access)
        wait_until(partial(_is_ready, administrator), group.servers, START_SECONDS)
        access.write_admin()
        return access, administrator

    def _api_server_options(self, storage: str, port: int, keys: Path) -> list[str]:
        options = [
            f"--etcd-servers={storage}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self._directory / 'certificates'}",
            f"--tls-cert-file={keys / 'serving.crt'}",
            f"--tls-private-key-file={keys / 'serving.key'}",
            f"--client-ca-file={keys / 'ca.crt'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={keys / 'service-accounts.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
            "--profiling=false",
        ]
        if not self._controller_manager:
            # Nobody makes the accounts that this plugin insists on.
            options.append("--disable-admission-plugins=ServiceAccount")
        if self._etcd is not None:
            options.append(f"--etcd-prefix=/{self._directory.name}")
        return [*options, *self._api_options]

    def _start_others(self, group: ProcessGroup, access: Access, administrator: Administrator) -> None:
        credentials = f"--kubeconfig={access.kubeconfig}"
        alone = [credentials, "--leader-elect=false", "--bind-address=127.0.0.1"]
        manager_port, scheduler_port = free_ports(2)
        asked: list[int] = []
        if self._controller_manager:
            options = [*alone, f"--secure-port={manager_port}", *_signing_options(access.keys), *self._manager_options]
            group.start(self._programs.path("kube-controller-manager"), options)
            asked.append(manager_port)
        if self._scheduler:
            options = [*alone, f"--secure-port={scheduler_port}"]
            group.start(self._programs.path("kube-scheduler"), options)
            asked.append(scheduler_port)
        if self._kwok_nodes:
            options = [credentials, "--manage-all-nodes=true", f"--config={STAGES}", "--node-lease-duration-seconds=40"]
            group.start(self._programs.path("kwok"), options)
        for number in range(self._kwok_nodes):
            administrator.request("POST", "/api/v1/nodes", _node(f"node-{number}"))
        for port in asked:
            wait_until(partial(_is_healthy, port), group.servers, START_SECONDS)
        wait_until(partial(_nodes_are_ready, administrator, self._kwok_nodes), group.servers, START_SECONDS)


def start_together(planes: Iterable[ControlPlane]) -> None:
    """Start several planes at once; if one fails, none runs."""
    chosen = list(planes)
    with ThreadPoolExecutor(max(1, len(chosen))) as pool:
        started = [pool.submit(plane.start) for plane in chosen]
    failed = [error for each in started if (error := each.exception())]
    if failed:
        for plane in chosen:
            plane.stop()
        raise failed[0]


def _signing_options(keys: Path) -> list[str]:
    return [
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={keys / 'service-accounts.key'}",
        f"--root-ca-file={keys / 'ca.crt'}",
        f"--cluster-signing-cert-file={keys / 'ca.crt'}",
        f"--cluster-signing-key-file={keys / 'ca.key'}",
    ]


def _is_ready(administrator: Administrator) -> bool:
    try:
        return administrator.request("GET", "/readyz") == {"text": "ok"}
    except OSError:
        return False


def _is_healthy(port: int) -> bool:
    """Ask a component that serves with a certificate of its own making."""
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    try:
        with urlopen(f"https://127.0.0.1:{port}/healthz", timeout=5, context=trusting) as answer:
            return bool(answer.read() == b"ok")
    except OSError:
        return False


def _node(name: str) -> dict[str, Any]:
    room = {"cpu": "32", "memory": "256Gi", "pods": "250"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room},
    }


def _nodes_are_ready(administrator: Administrator, wanted: int) -> bool:
    """Whether pods can go to all nodes: they are ready, and the taint of a new node has been taken away."""
    if not wanted:
        return True
    nodes = administrator.request("GET", "/api/v1/nodes")["items"]
    ready = [node for node in nodes if "Ready" in _true_conditions(node) and not node["spec"].get("taints")]
    return len(ready) == wanted


def _true_conditions(node: dict[str, Any]) -> list[str]:
    return [each["type"] for each in node["status"].get("conditions", ()) if each["status"] == "True"]
