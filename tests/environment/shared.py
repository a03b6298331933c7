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
from pathlib import Path

import pytest

from tests.environment.access import Access
from tests.environment.control_plane import START_SECONDS, ControlPlane, ControlPlaneError
from tests.environment.programs import Programs

ROOT = Path(__file__).parents[2]
_RUNNING = "address"


def directory_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that all workers of a run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


@contextmanager
def shared_plane(programs: Programs, directory: Path) -> Iterator[Access]:
    """Use the plane of a directory, started by whoever needs it first; it stops after its last user."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "users.lock").open("ab") as users:
        with (directory / "start.lock").open("ab") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            # Waits for a keeper that is just stopping; from here on none can stop.
            fcntl.flock(users, fcntl.LOCK_SH)
            running = directory / _RUNNING
            if not running.exists():
                _start_keeper(programs, directory, running)
        yield Access(running.read_text(), directory / "plane")


def _start_keeper(programs: Programs, directory: Path, running: Path) -> None:
    command = [sys.executable, "-m", "tests.environment.shared", str(programs.directory), str(directory)]
    log = directory / "keeper.log"
    with log.open("wb") as output:
        # A session of its own, so that an interrupt at the keyboard ends the users first.
        keeper = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=ROOT
        )
    deadline = time.monotonic() + 2 * START_SECONDS
    while not running.exists():
        if keeper.poll() is not None or time.monotonic() > deadline:
            raise ControlPlaneError(log.read_text())
        time.sleep(0.05)


def keep(programs: Programs, directory: Path) -> None:
    """Run a plane until it has no users any more."""
    running = directory / _RUNNING
    # In this order: the lock is given back after the plane has stopped.
    with (directory / "users.lock").open("ab") as users, ControlPlane(programs, directory / "plane") as plane:
        unfinished = directory / f"{_RUNNING}.unfinished"
        unfinished.write_text(plane.access.url)
        unfinished.replace(running)
        fcntl.flock(users, fcntl.LOCK_EX)
        running.unlink()


if __name__ == "__main__":
    keep(Programs(Path(sys.argv[1])), Path(sys.argv[2]))
