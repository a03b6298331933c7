"""Every command of the page "Join clusters", as processes, in the order in which the page has them."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.environment.processes import free_ports

PAGE = Path(__file__).parents[2] / "docs" / "joining.md"
PATIENCE_SECONDS = 120.0
LASTING = ("agent", "run", "hub")


def commands() -> Iterator[str]:
    """Yield what the page has after a prompt."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                yield line.removeprefix("$ ")


@dataclass
class Terminal:
    """A directory in which somebody types; what lasts goes on until it is ended."""

    directory: Path
    lasting: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    invitation: str = ""

    def types(self, line: str, *more: str) -> str:
        words = [word.replace("$INVITATION", self.invitation) for word in shlex.split(line)]
        assert words[0] == "echelon"
        command = [sys.executable, "-m", "echelon", *words[1:], *more]
        environment = {**os.environ, "KUBECONFIG": str(self.directory / "hub.kubeconfig")}
        if words[1] in LASTING:
            with self._log(words[1]).open("ab") as log:
                self.end(words[1])
                started = subprocess.Popen(command, cwd=self.directory, env=environment, stdout=log, stderr=log)
                self.lasting[words[1]] = started
            return ""
        done = subprocess.run(command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        if words[1:3] == ["cluster", "join"]:
            self.invitation = done.stdout.split()[-1]
        return done.stdout

    def end(self, what: str) -> None:
        process = self.lasting.pop(what, None)
        if process is not None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0, self.log(what)

    def _log(self, what: str) -> Path:
        return self.directory / f"{what}.log"

    def log(self, what: str) -> str:
        return self._log(what).read_text() if self._log(what).exists() else ""

    def until(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            for name, process in self.lasting.items():
                assert process.poll() is None, f"{name} has ended: {self.log(name)}"
            assert time.monotonic() < deadline, f"{what}: {self.log('agent')}"
            time.sleep(0.3)

    def shows(self, cluster: str, status: str) -> None:
        self.until(
            lambda: f"Status     {status}" in self.types(f"echelon cluster show {cluster}"), f"{cluster}: {status}"
        )


@contextmanager
def terminal(directory: Path) -> Iterator[Terminal]:
    made = Terminal(directory)
    try:
        yield made
    finally:
        for process in made.lasting.values():
            process.kill()
            process.wait()


def hub(here: Terminal, port: int, line: str = "echelon hub --data hub --kubeconfig hub.kubeconfig") -> None:
    (here.directory / "hub.kubeconfig").unlink(missing_ok=True)
    members = [word for name in ("west", "edge-7") for word in ("--cluster", name)]
    here.types(line, "--listen", f"127.0.0.1:{port}", *members)
    here.until((here.directory / "hub.kubeconfig").exists, "the hub does not start")


def members(here: Terminal) -> None:
    """Give the page's clusters the kubeconfigs that it speaks of: logical clusters of the hub play their part."""
    text = (here.directory / "hub.kubeconfig").read_text()
    for name in ("west", "edge-7"):
        path = here.directory / f"{name}.kubeconfig"
        path.write_text(text.replace("current-context: echelon", f"current-context: echelon-{name}"))


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.full
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path, kubectl: str) -> None:
    (port,) = free_ports(1)
    typed: list[str] = []
    with terminal(tmp_path) as here:

        def types(line: str, *more: str) -> str:
            typed.append(line)
            return here.types(line, *more)

        hub(here, port)
        members(here)
        crds = here.types("echelon crds")
        kubeconfig = f"--kubeconfig={tmp_path / 'hub.kubeconfig'}"
        subprocess.run([kubectl, kubeconfig, "apply", "--server-side", "-f", "-"], input=crds, text=True, check=True)
        here.types("echelon run")
        types("echelon cluster join west")
        types('echelon agent --join "$INVITATION" --kubeconfig west.kubeconfig')
        here.shows("west", "Asking")
        assert "Asking" in types("echelon cluster list")
        assert "cluster west accepted" in types("echelon cluster accept west")
        here.shows("west", "Available")
        assert "Agent " in types("echelon cluster show west")
        assert "(echelon cluster accept west) to approve its request" in here.log("agent")
        types("echelon agent --kubeconfig west.kubeconfig")
        here.until(lambda: "the agent of west works for" in here.log("agent").split("has stopped")[-1], "no restart")
        types("echelon cluster join north --accept")
        types("echelon cluster join --ttl 24h")
        west = here.lasting.pop("agent")
        types("echelon run --auto-accept 'edge-*'")
        types('echelon agent --cluster edge-7 --join "$INVITATION" --kubeconfig edge-7.kubeconfig')
        here.shows("edge-7", "Available")
        here.end("agent")
        here.lasting["agent"] = west
        types("echelon cluster cordon west --reason maintenance")
        here.shows("west", "Available,Cordoned")
        types("echelon cluster uncordon west")
        assert "has left the fleet" in types("echelon cluster detach west")
        here.end("agent")
        for step in ("next", "switch", "finish"):
            here.end("hub")
            here.until(lambda: not listening(port), "the port is not free")
            line = f"echelon hub --data hub --kubeconfig hub.kubeconfig --authority {step}"
            typed.append(line)
            hub(here, port, line)
    assert typed == list(commands())


def words(lines: Sequence[str]) -> set[str]:
    return {line.split()[2] for line in lines if line.startswith("echelon cluster ")}


def test_the_page_has_every_command_of_a_clusters_life() -> None:
    assert words(list(commands())) == {"join", "accept", "list", "show", "cordon", "uncordon", "detach"}
