"""Servers that cannot outlive the test run that started them.

A test run may be interrupted, or killed outright, and then no handler of its own runs. So a tiny shell leads the
process group of the servers and reads from a pipe that only we hold the other end of: however we end, the pipe
closes, and the shell takes the whole group with it.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

STOP_SECONDS = 15.0


class NotStartedError(Exception):
    """A server ended, or said nothing, when it should have begun to serve; the message has its last words."""


@dataclass(frozen=True)
class Server:
    """A running program and the file that it talks into."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def last_words(self, lines: int = 15) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def memory(self) -> int:
        """Return the bytes of memory that it occupies; 0 where that cannot be known."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0


class ProcessGroup:
    """Starts servers and ends them in reverse order."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", "cat >/dev/null; kill -9 0"], stdin=subprocess.PIPE, process_group=0
        )
        self.servers: list[Server] = []

    def start(self, program: Path, arguments: Sequence[str], name: str = "") -> Server:
        """Start a program; its output goes into a file of that name, or of the program's."""
        log = self._directory / f"{name or program.name}.log"
        with ExitStack() as stack:
            output = stack.enter_context(log.open("ab"))
            process = subprocess.Popen(
                [str(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=self._guard.pid,
            )
        server = Server(name or program.name, process, log)
        self.servers.append(server)
        return server

    def stop(self) -> None:
        """End every server, politely at first, and the guard."""
        for server in reversed(self.servers):
            with suppress(ProcessLookupError):
                server.process.send_signal(signal.SIGTERM)
            try:
                server.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()
        self.servers.clear()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard.wait()


def free_ports(count: int) -> list[int]:
    """Return ports that nobody used a moment ago; whoever takes one must expect to find it taken after all."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def wait_until(ready: Callable[[], bool], servers: Sequence[Server], seconds: float) -> None:
    """Poll until something is true; raises `NotStartedError` when a server ends or time runs out before that."""
    deadline = time.monotonic() + seconds
    while not ready():
        for server in servers:
            if not server.running:
                raise NotStartedError(f"{server.name} exited with {server.process.returncode}:\n{server.last_words()}")
        if time.monotonic() > deadline:
            words = "\n".join(f"{server.name}:\n{server.last_words()}" for server in servers)
            raise NotStartedError(f"not ready after {seconds:.0f} s\n{words}")
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Tell whether a process, perhaps somebody else's child, has not ended; one that nobody has buried has."""
    try:
        os.kill(pid, 0)
        return not Path("/proc").exists() or " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_for_the_end(pids: list[int]) -> None:
    """Wait until none of them runs: a process that was killed is on its way out for a while."""
    deadline = time.monotonic() + 30
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.05)
