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
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from echelon.hub import pki
from echelon.hub.kubeconfig import ClusterEntry, ContextEntry, UserEntry, merge_kubeconfig
from tests.environment.processes import NotStartedError, ProcessGroup, Server, free_ports, wait_until
from tests.environment.programs import Programs

START_SECONDS = 90.0  # a cold kube-apiserver needs some seconds of CPU, and CI machines share theirs
ATTEMPTS = 3
STAGES = Path(__file__).parent / "stages.yaml"
_TAKEN = "address already in use"


class ControlPlaneError(Exception):
    """A control plane did not come up; the message has the last words of its servers."""


@dataclass(frozen=True)
class _Address:
    etcd: str
    port: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


class ControlPlane:
    """A Kubernetes cluster without machines. Use it as a context manager, or call `start` and `stop`.

    `kwok_nodes` are nodes whose pods become ready at once and run nothing; pods reach them through the scheduler.
    `api_options` are further arguments of kube-apiserver.
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
    ) -> None:
        self._programs = programs
        self.directory = directory
        self._controller_manager = controller_manager
        self._scheduler = scheduler
        self._kwok_nodes = kwok_nodes
        self._api_options = api_options
        self._keys = pki.make_pki((), datetime.now(UTC))
        self._group: ProcessGroup | None = None
        self._address: _Address | None = None
        self._tls: ssl.SSLContext | None = None
        self.start_seconds = 0.0

    @property
    def url(self) -> str:
        """Where the API is served."""
        if self._address is None:
            raise ControlPlaneError("the control plane does not run")
        return self._address.url

    @property
    def kubeconfig(self) -> Path:
        """The way in for an administrator."""
        return self.directory / "kubeconfig"

    @property
    def servers(self) -> Sequence[Server]:
        """The running programs."""
        return tuple(self._group.servers) if self._group else ()

    def __enter__(self) -> "ControlPlane":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and return when it serves."""
        began = time.monotonic()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_keys()
        for attempt in range(1, ATTEMPTS + 1):
            self._group = ProcessGroup(self.directory)
            try:
                self._start_api(self._group)
                self._start_others(self._group)
                break
            except BaseException as error:
                logs = [server.log for server in self.servers]
                self.stop()
                if not isinstance(error, NotStartedError):
                    raise
                if attempt == ATTEMPTS or not any(_TAKEN in log.read_text(errors="replace") for log in logs):
                    raise ControlPlaneError(str(error)) from None
                for log in logs:
                    log.replace(log.with_suffix(f".{attempt}.log"))
        self.start_seconds = time.monotonic() - began

    def stop(self) -> None:
        """Stop everything; the logs stay. What was stored is gone."""
        if self._group is not None:
            self._group.stop()
            self._group = None
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    def memory(self) -> int:
        """Return the bytes of memory that all programs together occupy."""
        return sum(server.memory() for server in self.servers)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig for a user, whose rights are what RBAC gives to that name and those groups."""
        path = self.directory / f"kubeconfig-{user.replace(':', '-').replace('/', '-')}"
        issued = self._keys.client_certificate(user, groups, datetime.now(UTC))
        path.unlink(missing_ok=True)
        merge_kubeconfig(
            path,
            [ClusterEntry("plane", self.url, self._keys.authority.certificate_pem)],
            [UserEntry(user, certificate_pem=issued.certificate_pem, key_pem=issued.key_pem)],
            [ContextEntry("plane", "plane", user)],
            "plane",
        )
        return path

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request as the administrator, for what a plane needs before a client is there."""
        data = msgspec.json.encode(body) if body is not None else None
        headers = {"Content-Type": "application/json"}
        asked = Request(f"{self.url}{path}", data, headers, method=method)  # noqa: S310 - always https
        with urlopen(asked, timeout=10, context=self._tls) as answer:  # noqa: S310
            text = answer.read()
        found: dict[str, Any] = msgspec.json.decode(text) if text[:1] == b"{" else {"text": text.decode()}
        return found

    def _write_keys(self) -> None:
        admin = self._keys.client_certificate("admin", ["system:masters"], datetime.now(UTC))
        for name, issued in (("ca", self._keys.authority), ("serving", self._keys.serving), ("admin", admin)):
            (self.directory / f"{name}.crt").write_bytes(issued.certificate_pem)
            (self.directory / f"{name}.key").write_bytes(issued.key_pem)
        accounts = pki.Issued(self._keys.serving.certificate, self._keys.signing_key)
        (self.directory / "accounts.key").write_bytes(accounts.key_pem)
        public = self._keys.signing_key.public_key()
        (self.directory / "accounts.pub").write_bytes(
            public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
        self._tls = ssl.create_default_context(cafile=self._file("ca.crt"))
        self._tls.load_cert_chain(self._file("admin.crt"), self._file("admin.key"))

    def _file(self, name: str) -> str:
        return str(self.directory / name)

    def _start_api(self, group: ProcessGroup) -> None:
        client, peer, secure = free_ports(3)
        self._address = _Address(f"http://127.0.0.1:{client}", secure)
        # kube-apiserver waits for etcd, so both may start at once.
        group.start(self._programs.path("etcd"), self._etcd_options(self._address.etcd, f"http://127.0.0.1:{peer}"))
        group.start(self._programs.path("kube-apiserver"), self._api_server_options(self._address))
        wait_until(self._serves, group.servers, START_SECONDS)
        admin = self.kubeconfig_for("admin", ["system:masters"])
        admin.replace(self.kubeconfig)

    def _etcd_options(self, client: str, peer: str) -> list[str]:
        return [
            f"--data-dir={self._file('etcd')}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # nothing here is worth waiting for a disk
            "--log-level=warn",
        ]

    def _api_server_options(self, address: _Address) -> list[str]:
        options = [
            f"--etcd-servers={address.etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={address.port}",
            f"--cert-dir={self._file('certificates')}",
            f"--tls-cert-file={self._file('serving.crt')}",
            f"--tls-private-key-file={self._file('serving.key')}",
            f"--client-ca-file={self._file('ca.crt')}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._file('accounts.pub')}",
            f"--service-account-signing-key-file={self._file('accounts.key')}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
            "--profiling=false",
        ]
        if not self._controller_manager:
            # Nobody makes the accounts that this plugin insists on.
            options.append("--disable-admission-plugins=ServiceAccount")
        return [*options, *self._api_options]

    def _serves(self) -> bool:
        try:
            return self.request("GET", "/readyz") == {"text": "ok"}
        except (URLError, OSError):
            return False

    def _start_others(self, group: ProcessGroup) -> None:
        credentials = [f"--kubeconfig={self.kubeconfig}"]
        alone = [*credentials, "--leader-elect=false", "--bind-address=127.0.0.1"]
        healthy: list[tuple[Server, int]] = []
        if self._controller_manager:
            (port,) = free_ports(1)
            options = [
                *alone,
                f"--secure-port={port}",
                f"--service-account-private-key-file={self._file('accounts.key')}",
                f"--root-ca-file={self._file('ca.crt')}",
                f"--cluster-signing-cert-file={self._file('ca.crt')}",
                f"--cluster-signing-key-file={self._file('ca.key')}",
                "--use-service-account-credentials=true",
            ]
            healthy.append((group.start(self._programs.path("kube-controller-manager"), options), port))
        if self._scheduler:
            (port,) = free_ports(1)
            server = group.start(self._programs.path("kube-scheduler"), [*alone, f"--secure-port={port}"])
            healthy.append((server, port))
        if self._kwok_nodes:
            options = [*credentials, "--manage-all-nodes=true", f"--config={STAGES}", "--node-lease-duration-seconds=40"]
            group.start(self._programs.path("kwok"), options)
        for number in range(self._kwok_nodes):
            self.request("POST", "/api/v1/nodes", _node(f"node-{number}"))
        for _, port in healthy:
            wait_until(lambda port=port: _is_healthy(port), group.servers, START_SECONDS)  # type: ignore[misc]
        wait_until(self._nodes_are_ready, group.servers, START_SECONDS)

    def _nodes_are_ready(self) -> bool:
        if not self._kwok_nodes:
            return True
        nodes = self.request("GET", "/api/v1/nodes")["items"]
        ready = [node for node in nodes if {"Ready"} <= set(_true_conditions(node)) and not node["spec"].get("taints")]
        return len(ready) == self._kwok_nodes


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


def _node(name: str) -> dict[str, Any]:
    room = {"cpu": "32", "memory": "256Gi", "pods": "250"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room},
    }


def _true_conditions(obj: dict[str, Any]) -> list[str]:
    return [each["type"] for each in obj.get("status", {}).get("conditions", ()) if each["status"] == "True"]


def _is_healthy(port: int) -> bool:
    """Ask a component that serves with a certificate of its own making."""
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    try:
        with urlopen(f"https://127.0.0.1:{port}/healthz", timeout=5, context=trusting) as answer:
            return bool(answer.read() == b"ok")
    except (URLError, OSError):
        return False
