"""One control plane for all workers of a test run.

Workers come and go in no order, and any of them may crash, so none can own the plane and nobody can count its users.
The kernel can: a user holds a shared lock for as long as it lives, and the keeper, a process of its own, stops the
plane when it gets that lock exclusively. A worker that comes later finds no plane and starts the next one.
"""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.environment.control_plane import START_SECONDS, ControlPlane, ControlPlaneError
from tests.environment.programs import Programs

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class SharedPlane:
    """What users know of a running plane."""

    url: str
    directory: Path
    authority: str  # PEM, certificate and key: whoever has it can make users

    @property
    def kubeconfig(self) -> Path:
        """The way in for an administrator."""
        return self.directory / "kubeconfig"


@contextmanager
def shared_plane(programs: Programs, directory: Path) -> Iterator[SharedPlane]:
    """Use the plane of a directory, started by whoever needs it first; it stops after the last user."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "users.lock").open("ab") as users, (directory / "start.lock").open("ab") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        # Waits for a keeper that is just stopping; from here on none can stop.
        fcntl.flock(users, fcntl.LOCK_SH)
        state = directory / "running.json"
        if not state.exists():
            _start_keeper(programs, directory, state)
        plane = msgspec.json.decode(state.read_bytes(), type=SharedPlane, dec_hook=lambda _, text: Path(text))
        fcntl.flock(starting, fcntl.LOCK_UN)
        yield plane


def _start_keeper(programs: Programs, directory: Path, state: Path) -> None:
    command = [sys.executable, "-m", "tests.environment.shared", str(programs.directory), str(directory)]
    with (directory / "keeper.log").open("wb") as log:
        # A session of its own, so that an interrupt at the keyboard ends the users first.
        keeper = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=ROOT
        )
    deadline = time.monotonic() + 2 * START_SECONDS
    while not state.exists():
        if keeper.poll() is not None or time.monotonic() > deadline:
            raise ControlPlaneError((directory / "keeper.log").read_text())
        time.sleep(0.05)


def keep(programs: Programs, directory: Path) -> None:
    """Run a plane until it has no users any more."""
    state = directory / "running.json"
    with (directory / "users.lock").open("ab") as users, ControlPlane(programs, directory / "plane") as plane:
        described = {"url": plane.url, "directory": str(plane.directory), "authority": plane.authority}
        unfinished = state.with_suffix(".unfinished")
        unfinished.write_bytes(msgspec.json.encode(described))
        unfinished.replace(state)
        fcntl.flock(users, fcntl.LOCK_EX)
        state.unlink()
        os.close(users.fileno()) if False else None


if __name__ == "__main__":
    keep(Programs(Path(sys.argv[1])), Path(sys.argv[2]))
