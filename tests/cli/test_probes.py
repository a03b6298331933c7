"""The probes of processes that stay, over real HTTP: alive while the event loop turns, ready when caches are full."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.core import CONFIG_MAP, SECRET
from echelon.api.namespaces import NAMESPACE
from echelon.cli.hub import write_kubeconfig
from echelon.cli.probes import probes
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, Hub, Settings, bootstrap, memory_cluster
from echelon.kube.client import MergePatch
from echelon.kube.health import Check, check_caches
from echelon.kube.informer import Informer
from echelon.kube.metrics import Metrics

PATIENCE_SECONDS = 60.0


def ask(url: str, timeout: float = PATIENCE_SECONDS) -> tuple[int, str]:
    """Return the status and the text of an answer. Raises TimeoutError."""
    try:
        with urlopen(url, timeout=timeout) as answer:  # noqa: S310 - our own
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@contextmanager
def served(readiness: Callable[[], Iterable[Check]], lag_limit: float) -> Iterator[tuple[str, Callable[..., object]]]:
    """Probes in a loop of their own; their address, and how to call something in that loop."""
    address: list[str] = []
    loops: list[asyncio.AbstractEventLoop] = []
    begun = threading.Event()

    async def main() -> None:
        stop = asyncio.Event()
        loops.append(asyncio.get_running_loop())
        async with probes(("127.0.0.1", 0), Metrics(), readiness, lag_limit=lag_limit) as base:
            address.append(base)
            stopping.append(stop)
            begun.set()
            await stop.wait()

    stopping: list[asyncio.Event] = []
    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert begun.wait(PATIENCE_SECONDS)
    try:
        yield address[0], loops[0].call_soon_threadsafe
    finally:
        loops[0].call_soon_threadsafe(stopping[0].set)
        thread.join(PATIENCE_SECONDS)


def test_a_process_is_alive_while_its_loop_turns_and_says_how_late_it_is() -> None:
    with served(list, 1000.0) as (base, _):
        for path in ("/healthz", "/livez", "/readyz"):
            assert ask(base + path) == (200, "ok")
        status, text = ask(f"{base}/healthz?verbose")
        assert status == 200
        assert re.fullmatch(r"\[\+\]event-loop ok: \d+\.\d{3} s late\nhealthz check passed\n", text)
        assert "echelon_event_loop_lag_seconds_count" in ask(f"{base}/metrics")[1]


def test_a_loop_that_stands_still_does_not_answer_and_is_not_alive_for_a_while_after_that() -> None:
    release = threading.Event()
    with served(list, 0.2) as (base, call):
        call(release.wait)
        try:
            with pytest.raises(TimeoutError):
                ask(f"{base}/healthz", timeout=1.0)
        finally:
            release.set()
        for path in ("healthz", "readyz"):
            status, text = ask(f"{base}/{path}")
            assert status == 503
            failed = rf"\[-\]event-loop failed: \d+\.\d{{3}} s late, which is more than 0\.2 s\n{path} check failed\n"
            assert re.fullmatch(failed, text)


def test_a_process_with_empty_caches_is_alive_and_not_ready_and_says_what_is_missing() -> None:
    async def story() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        chance = Random(1)  # noqa: S311 - repeatable on purpose
        maps = Informer(InProcessClient(cluster, ROOT), CONFIG_MAP, random=chance)
        secrets = Informer(InProcessClient(cluster, ROOT), SECRET, random=chance)
        checks = lambda: [check_caches([maps, secrets])]  # noqa: E731 - asked again and again
        async with probes(("127.0.0.1", 0), Metrics(), checks, lag_limit=1000.0) as base:
            assert await asyncio.to_thread(ask, f"{base}/healthz") == (200, "ok")
            status, text = await asyncio.to_thread(ask, f"{base}/readyz")
            assert status == 503
            assert "[+]event-loop ok" in text
            assert "[-]caches failed: not full yet: configmaps, secrets\nreadyz check failed\n" in text
            running = [asyncio.create_task(each.run()) for each in (maps, secrets)]
            await maps.wait_synced()
            await secrets.wait_synced()
            assert await asyncio.to_thread(ask, f"{base}/readyz") == (200, "ok")
            assert "[+]caches ok: 2 full\n" in (await asyncio.to_thread(ask, f"{base}/readyz?verbose"))[1]
            for task in running:
                task.cancel()

    asyncio.run(story())


class Program:
    """A process of the command line that logs JSON and serves probes."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "echelon", *arguments]
        options = ["--metrics-listen", "127.0.0.1:0", "--log-format", "json"]
        self.process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(json.loads(line)["message"])  # each line is an object

    async def base(self) -> str:
        """Return where it serves, once it does."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for line in self.lines:
                    if found := re.fullmatch(r"metrics at (\S+)/metrics", line):
                        return found[1]
                await asyncio.sleep(0.05)

    async def answers(self, status: int, said: str) -> None:
        """Wait until it is as ready as that, and says so."""
        base, last = await self.base(), (0, "")
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while last[0] != status or not re.search(said, last[1]):
                    await asyncio.sleep(0.05)
                    last = await asyncio.to_thread(ask, f"{base}/readyz?verbose")
        except TimeoutError:
            raise AssertionError(f"not {status} with {said!r}, but {last}") from None

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        code = await asyncio.to_thread(self.process.wait, PATIENCE_SECONDS)
        await asyncio.to_thread(self._reading.join, PATIENCE_SECONDS)
        return code


@asynccontextmanager
async def hub_at(kubeconfig: Path) -> AsyncIterator[Hub]:
    hub = await Hub.start(Settings(clusters=["c1"]))
    try:
        for definition in registry.crds():
            await hub.client().create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        write_kubeconfig(hub, kubeconfig)
        yield hub
    finally:
        await hub.stop()


def test_who_leads_and_who_stands_by_are_ready_and_say_which(tmp_path: Path) -> None:
    async def story() -> None:
        kubeconfig = tmp_path / "kubeconfig"
        async with hub_at(kubeconfig):
            arguments = ("run", "--kubeconfig", str(kubeconfig), "--controllers", "cluster-sets")
            first = Program(*arguments)
            second = None
            try:
                await first.answers(200, r"\[\+\]leader-election ok: leading, with the lease echelon-system/")
                await first.answers(200, r"\[\+\]caches ok: \d+ full")
                second = Program(*arguments)
                await second.answers(200, r"\[\+\]leader-election ok: standing by, \S+ holds the lease echelon-system/")
                assert "caches" not in (await asyncio.to_thread(ask, f"{await second.base()}/readyz?verbose"))[1]
                first.process.send_signal(signal.SIGSTOP)
                with pytest.raises(TimeoutError):
                    await asyncio.to_thread(ask, f"{await first.base()}/healthz", 1.0)
            finally:
                codes = [await each.stop() for each in (first, second) if each is not None]
            assert codes == [0, 0]
            assert "the controllers are ready" in first.lines

    asyncio.run(story())


def test_an_agent_is_ready_when_its_cluster_was_let_in_and_its_caches_are_full(tmp_path: Path) -> None:
    async def story() -> None:
        kubeconfig = tmp_path / "kubeconfig"
        async with hub_at(kubeconfig) as hub:
            where = ("--hub-kubeconfig", str(kubeconfig), "--kubeconfig", str(kubeconfig), "--context", "echelon-c1")
            agent = Program("agent", "--cluster", "c1", *where)
            try:
                await agent.answers(503, r"\[-\]caches failed: not full yet: manifestworks\.\S+, appliedmanifestworks")
                await accept(hub)
                await agent.answers(200, r"\[\+\]caches ok: 2 full")
            finally:
                code = await agent.stop()
            assert code == 0

    asyncio.run(story())


async def accept(hub: Hub) -> None:
    """Let the cluster in as soon as it asks for it, with the namespace that controllers would make for its lease."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (await hub.client().list(MANAGED_CLUSTER)).items:  # noqa: ASYNC110 - another process tells nobody
            await asyncio.sleep(0.05)
    await hub.client().create(NAMESPACE, {**NAMESPACE.type_meta, "metadata": {"name": "c1"}})
    await hub.client().patch(MANAGED_CLUSTER, "c1", MergePatch({"spec": {"hubAcceptsClient": True}}))
