"""One etcd for several control planes: its revisions put everything that any of them stores into one order."""

import shutil
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.request import urlopen

from tests.environment.processes import NotStartedError, ProcessGroup, free_ports, wait_until
from tests.environment.programs import Programs

START_SECONDS = 60.0
ATTEMPTS = 3
TAKEN = "address already in use"


class Etcd:
    """An etcd of its own; use it as a context manager, around that of the planes that store in it."""

    def __init__(self, programs: Programs, directory: Path) -> None:
        self._programs = programs
        self._directory = directory
        self._group: ProcessGroup | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._start()
                break
            except NotStartedError as error:  # another program may have taken the port
                self._stop()
                if attempt == ATTEMPTS or TAKEN not in str(error):
                    raise
        return self

    def _start(self) -> None:
        self._group = ProcessGroup(self._directory)
        client, peer = free_ports(2)
        self.url = f"http://127.0.0.1:{client}"
        options = etcd_options(self._directory / "data", self.url, f"http://127.0.0.1:{peer}")
        self._group.start(self._programs.path("etcd"), options)
        wait_until(self._is_healthy, self._group.servers, START_SECONDS)

    def _stop(self) -> None:
        if self._group is not None:
            self._group.stop()
            self._group = None
        shutil.rmtree(self._directory / "data", ignore_errors=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _is_healthy(self) -> bool:
        try:
            with urlopen(f"{self.url}/health", timeout=5) as answer:  # noqa: S310 - on loopback
                return bool(answer.status == 200)
        except OSError:
            return False


def etcd_options(data: Path, client: str, peer: str) -> list[str]:
    """Return the arguments of an etcd that stores in a directory."""
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # nothing here is worth waiting for a disk
        "--log-level=warn",
    ]
