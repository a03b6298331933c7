"""The server that is measured: a hub of our own as a child process, or any API server that a kubeconfig leads to."""

import base64
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from echelon.api.base import JSONObject

_START_SECONDS = 120.0
_STOP_SECONDS = 30.0


class NoServer(Exception):
    """There is no server to measure; the text is for people."""


@dataclass(frozen=True)
class Server:
    """Where a server is, how it is talked to, and which processes it consists of."""

    url: str
    token: str
    authority: str  # PEM
    pids: tuple[int, ...] = ()
    start_seconds: float = 0.0


def from_kubeconfig(path: Path, pids: Sequence[int] = ()) -> Server:
    """Read the current context of a kubeconfig; it must have a token."""
    config: JSONObject = yaml.safe_load(path.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    if "token" not in user:
        raise NoServer(f"{path}: the user of the current context has no token")
    if "certificate-authority-data" in cluster:
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    else:
        authority = Path(cluster["certificate-authority"]).read_text()
    return Server(cluster["server"], user["token"], authority, tuple(pids))


def _named(entries: list[JSONObject], name: str) -> JSONObject:
    return next(entry for entry in entries if entry["name"] == name)


class HubProcess:
    """`echelon hub` with a data directory of its own, that can be started again on what it stored."""

    def __init__(self, directory: Path, options: Sequence[str]) -> None:
        self._directory = directory
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        """Where it writes how it can be reached."""
        return self._directory / "kubeconfig"

    def start(self) -> Server:
        """Start it and wait until it is ready."""
        kubeconfig = self.kubeconfig
        kubeconfig.unlink(missing_ok=True)
        command = [sys.executable, "-m", "echelon", "hub", "--data", str(self._directory / "data")]
        begun = time.perf_counter()
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [*command, "--kubeconfig", str(kubeconfig), *self._options], stdout=log, stderr=log
            )
        while not kubeconfig.exists():
            if self._process.poll() is not None or time.perf_counter() - begun > _START_SECONDS:
                raise NoServer("the hub did not start:\n" + (self._directory / "log").read_text())
            time.sleep(0.002)
        took = time.perf_counter() - begun
        server = from_kubeconfig(kubeconfig)
        return Server(server.url, server.token, server.authority, (self._process.pid,), took)

    def stop(self) -> None:
        """Stop it, and wait until it is gone."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def stored_bytes(self) -> int:
        """How much disk its state takes."""
        return sum(path.stat().st_size for path in (self._directory / "data").glob("hub.db*"))


@contextmanager
def hub_process(options: Sequence[str] = ()) -> Iterator[HubProcess]:
    """Have a hub for a while, with its data in the directory for temporary files."""
    with tempfile.TemporaryDirectory(prefix="echelon-bench-") as made:
        process = HubProcess(Path(made), options)
        try:
            yield process
        finally:
            process.stop()
