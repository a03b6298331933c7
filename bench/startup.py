"""How long the command line takes until it says something, and until it asks a hub, next to kubectl.

Each program is started in turn, round after round, so that whatever else the machine does hits all of them; what is
compared are medians of one run. The time is that of the clock, from the start of the process to its end, or to its
first connection; CPU time stands beside it, which a loaded machine does not stretch as much.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench import report
from bench.progress import Progress
from bench.servers import NoServer, hub_process
from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.kube.config import load
from echelon.kube.http import HttpClient

ROUNDS = 11
KUBECTL = "kubectl version --client"
_ECHELON = [sys.executable, "-m", "echelon"]
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Start:
    """A figure: milliseconds of the clock and of CPU, and how many times those of kubectl that is."""

    title: str
    milliseconds: float
    cpu: float
    ratio: float | None  # of the clock; None without kubectl
    limit: float | None = None  # milliseconds, on a quiet machine


def measure(progress: Progress, rounds: int = ROUNDS) -> list[Start]:
    """Take all figures."""
    progress.begin("starting the command line")
    kubectl = shutil.which(os.environ.get("KUBECTL") or "kubectl")
    with hub_process(["--sync", "normal"]) as process, tempfile.TemporaryDirectory(prefix="echelon-bench-") as made:
        process.start()
        asyncio.run(_furnish(process.kubeconfig))
        listing = [*_ECHELON, "rollout", "list", "--kubeconfig", str(process.kubeconfig)]
        commands = {"echelon --help": [*_ECHELON, "--help"], "echelon rollout list": listing}
        if kubectl is not None:
            commands = {KUBECTL: [kubectl, "version", "--client"], **commands}
        taken: dict[str, list[tuple[float, float]]] = {title: [] for title in commands}
        asked: list[tuple[float, float]] = []
        for _ in range(rounds + 1):  # the first one compiles, as an installer does, and warms the machine's caches up
            for title, command in commands.items():
                taken[title].append(_ended(title, command, Path(made)))
            asked.append(_asked(Path(made)))
    clock, cpu = ({title: median(one[i] for one in each[1:]) for title, each in taken.items()} for i in (0, 1))
    first = "echelon rollout list, to its first request"
    clock[first], cpu[first] = (median(one[i] for one in asked[1:]) for i in (0, 1))
    limits = {"echelon --help": 150.0, first: 300.0}
    base = clock.get(KUBECTL)
    return [
        Start(title, value * 1e3, cpu[title] * 1e3, value / base if base else None, limits.get(title))
        for title, value in clock.items()
    ]


def table(figures: Sequence[Start]) -> str:
    """Return the figures."""
    rows = [("starting", "clock", "CPU", f"times {KUBECTL}", "limit, on a quiet machine")]
    rows += [
        (
            one.title,
            f"{one.milliseconds:.0f} ms",
            f"{one.cpu:.0f} ms",
            f"{one.ratio:.1f}" if one.ratio is not None else "no kubectl",
            f"{one.limit:g} ms" if one.limit is not None else "",
        )
        for one in figures
    ]
    return report.aligned(rows)


async def _furnish(kubeconfig: Path) -> None:
    """Have the hub serve what is listed."""
    async with HttpClient(load(kubeconfig)) as client:
        for definition in registry.crds():
            if definition["metadata"]["name"] == MANIFEST_WORK_REPLICA_SET.resource:
                await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)


def _ended(title: str, command: Sequence[str], compiled: Path) -> tuple[float, float]:
    """Run a command to its end; return seconds of the clock and of CPU."""
    began = time.perf_counter()
    process = _started(command, compiled)
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise NoServer(f"{title} ended with {process.returncode}")
    return took, used.ru_utime + used.ru_stime


def _asked(directory: Path) -> tuple[float, float]:
    """Have a list ask a server that only listens; return the seconds until it did."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_PATIENCE_SECONDS)
        config = directory / "kubeconfig"
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        config.write_text(
            f"{{clusters: [{{name: hub, cluster: {{server: '{address}'}}}}],"
            " contexts: [{name: hub, context: {cluster: hub}}], current-context: hub}"
        )
        command = [*_ECHELON, "rollout", "list", "--kubeconfig", str(config)]
        began = time.perf_counter()
        process = _started(command, directory)
        with server.accept()[0]:
            took = time.perf_counter() - began
            process.kill()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    return took, used.ru_utime + used.ru_stime


def _started(command: Sequence[str], compiled: Path) -> subprocess.Popen[bytes]:
    """Start a program that finds its modules compiled, as one that is installed does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(compiled / "compiled")
    return subprocess.Popen(  # noqa: S603 - ours
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
