"""`python -m bench.dashboard`: the dashboard in front of a large fleet in the middle of a rollout, as pages see it.

Hub and dashboard are processes of their own, and the CPU time that is told is the dashboard's. A page is a connection
that reads the feed; of a hundred, one understands what it reads and the others only take it. The first view is every
cluster with its health, and every rollout with its state and progress.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import aiohttp
import click

from bench.fleet import name_of
from bench.halfway import NAMESPACE_OF_SET, SET, report, store
from bench.processes import usage
from bench.servers import HubProcess, Server
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.kinds import Kind
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli.dashboard_process import dashboard_beside
from echelon.kube.client import Client, MergePatch
from echelon.kube.config import load
from echelon.kube.http import HttpClient

_SECONDS = 10.0
_A_SECOND = 25  # changes, of clusters or of works
_TRIES = 10
_ROUNDS = 10
_SET = {"kind": MANIFEST_WORK_REPLICA_SET.singular, "namespace": NAMESPACE_OF_SET, "name": SET}


class Page:
    """An open page. One with an open rollout asks for its clusters whenever the feed tells of a change of it."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, reads: bool, opens: bool) -> None:
        self._session, self._url, self._reads, self._opens = session, url, reads, opens
        self.clusters: dict[str, Any] = {}
        self.rollouts: dict[str, Any] = {}
        self.rows: list[list[Any]] = []  # of the open rollout, by wave
        self._version = ""
        self._heard = asyncio.Event()

    async def follow(self) -> None:
        """Read the feed."""
        async with self._session.get(f"{self._url}/api/feed") as answer:
            text = b""
            async for chunk in answer.content.iter_any():
                text += chunk
                *messages, text = text.split(b"\n\n")
                for message in messages:
                    if message.startswith(b"data: ") and (self._reads or self._opens):
                        await self._take(message[6:])

    async def _take(self, text: bytes) -> None:
        if self._reads:
            message = json.loads(text)
            self.clusters.update(message.get("clusters", {}).get("set", {}))
            self.rollouts.update(message.get("rollouts", {}).get("set", {}))
            if "rollouts" not in message:
                self._heard.set()
                return
        if self._opens and b'"rollouts"' in text:
            await self._ask()
        self._heard.set()

    async def _ask(self) -> None:
        query = urlencode({**_SET, "after": self._version})
        async with self._session.get(f"{self._url}/api/rollout?{query}") as answer:
            text = await answer.read()
        if not self._reads:
            return
        told = json.loads(text)["clusters"]
        self._version, self.rows = told["version"], told.get("rows", self.rows)
        for wave, place, row in told.get("changed", ()):
            self.rows[wave][place] = row

    async def until(self, shown: Callable[["Page"], bool]) -> None:
        """Wait until the page shows something."""
        while not shown(self):
            self._heard.clear()
            await self._heard.wait()

    @property
    def rollout(self) -> Any:
        """The one rollout; nothing if there is none yet."""
        return next(iter(self.rollouts.values()), None)


@click.command()
@click.option("--clusters", default=10_000, show_default=True)
@click.option("--rolled-out", default=10_000, show_default=True, help="How many of them a rollout is about.")
@click.option("--data", type=click.Path(path_type=Path), help="Keep the fleet in a directory, or take it from there.")
def main(*, clusters: int, rolled_out: int, data: Path | None) -> None:
    """Measure the dashboard: the first view, how far it is behind the hub, and what pages cost."""
    asyncio.run(_measure(clusters, min(clusters, rolled_out), data))


async def _measure(size: int, rolled_out: int, data: Path | None) -> None:
    async with AsyncExitStack() as stack:
        directory = data or Path(stack.enter_context(TemporaryDirectory(prefix="echelon-bench-")))
        directory.mkdir(parents=True, exist_ok=True)
        if not (directory / "data").exists():
            await store(directory / "data", size, rolled_out)
        hub = HubProcess(directory, ())
        server = await asyncio.to_thread(hub.start)
        stack.callback(hub.stop)
        client = await stack.enter_async_context(HttpClient(load(hub.kubeconfig), field_manager="bench"))
        works = {each.metadata.namespace: each for each in await _listed(client, MANIFEST_WORK, server)}
        await _listed(client, MANAGED_CLUSTER, server)
        options = ("--kubeconfig", str(hub.kubeconfig), "--listen", "127.0.0.1:0")
        url = await stack.enter_async_context(dashboard_beside(options))
        session = await stack.enter_async_context(_session())
        body = {"token": server.token}
        async with session.post(f"{url}/api/login", json=body, headers={"Origin": url}) as answer:
            answer.raise_for_status()
        bench = _Bench(client, session, url, _child(str(hub.kubeconfig)), server.pids, size, rolled_out, works)
        await bench.measure()


@dataclass
class _Bench:
    client: Client
    session: aiohttp.ClientSession
    url: str
    pid: int
    hub: tuple[int, ...]
    size: int
    rolled_out: int
    works: dict[str, ManifestWork]
    turn: int = 0

    def __post_init__(self) -> None:
        # Those that are in flight come first: they have a content that they have not reported on.
        having = [name for name, each in self.works.items() if each.metadata.generation > 1]
        self.moving = sorted(having, key=lambda name: _has_reported(self.works[name]))

    async def measure(self) -> None:
        """Take all figures."""
        for what in ("first view of somebody", "first view of another page of the same person"):
            await self._first(what)
        _say("memory of the dashboard", f"{usage([self.pid]).memory / 2**20:.0f} MiB")
        async with self._page(opens=True) as page:
            await page.until(lambda page: bool(page.rows))
            for busy in (False, True):
                while_busy = f", {_A_SECOND} others a second" if busy else ""
                async with self._busy(busy):
                    await self._lag(f"a change of a cluster{while_busy}", self._move, page)
                    await self._lag(f"a change of a work{while_busy}", self._report, page)
        for opens in (False, True):
            for pages in (1, 100):
                await self._cost(pages, opens=opens)
        _say("memory of the dashboard, at the most", f"{usage([self.pid]).peak / 2**20:.0f} MiB")

    async def _first(self, what: str) -> None:
        began, spent, hub = time.perf_counter(), usage([self.pid]).cpu, usage(self.hub).cpu
        async with self._page() as page:
            await page.until(lambda page: len(page.clusters) == self.size)
            clusters = time.perf_counter() - began
            await page.until(lambda page: page.rollout is not None and page.rollout["total"] == self.rolled_out)
            seen, cpu, of_hub = time.perf_counter() - began, usage([self.pid]).cpu - spent, usage(self.hub).cpu - hub
            await page.until(lambda page: bool(page.rollout["groups"]))
            drawn, all_of_it = time.perf_counter() - began, usage([self.pid]).cpu - spent
        _say(what, f"{seen:.2f} s ({clusters:.2f} s to the clusters), {cpu:.2f} s of CPU, {of_hub:.2f} s of the hub's")
        _say("  with every cluster of the rollout", f"{drawn:.2f} s, {all_of_it:.2f} s of CPU")

    async def _lag(
        self, what: str, change: Callable[[int, Page], Awaitable[Callable[[Page], bool]]], page: Page
    ) -> None:
        behind: list[float] = []
        spent = usage([self.pid]).cpu
        for number in range(_TRIES):
            await asyncio.sleep(0.5 + number / _TRIES)
            shown = await change(number, page)
            began = time.perf_counter()
            await page.until(shown)
            behind.append(time.perf_counter() - began)
        cpu = (usage([self.pid]).cpu - spent) / _TRIES
        told = f"median {median(behind):.2f} s, most {max(behind):.2f} s; {cpu:.3f} s of CPU each"
        _say(f"{what}, behind the hub", told)

    async def _move(self, number: int, _: Page) -> Callable[[Page], bool]:
        """Move a cluster into another region."""
        self.turn += 1
        name, region = name_of(number * 7), f"lag-{self.turn}"
        await self.client.patch(MANAGED_CLUSTER, name, MergePatch({"metadata": {"labels": {"region": region}}}))
        return lambda page: bool(page.clusters[name][3] == region)

    async def _report(self, number: int, page: Page) -> Callable[[Page], bool]:
        """Have a cluster report, and see it among the clusters of the open rollout."""
        self.turn += 1
        name, problem = self.moving[number], f"problem {self.turn}"
        (wave, place), *_ = [
            (wave, place) for wave, rows in enumerate(page.rows) for place, row in enumerate(rows) if row[0] == name
        ]
        await report(self.client, self.works[name], problem)
        return lambda page: problem in json.dumps(page.rows[wave][place])

    @asynccontextmanager
    async def _busy(self, busy: bool) -> AsyncIterator[None]:
        """Have clusters and works change all the while, or nothing."""
        tasks = [asyncio.create_task(each()) for each in (self._move_others, self._report_others)] if busy else []
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _move_others(self) -> None:
        number = 0
        while True:
            number += 1
            name = name_of((number * 13 + 1) % self.size)
            patch = MergePatch({"metadata": {"labels": {"region": f"r{number % 50}"}}})
            await self.client.patch(MANAGED_CLUSTER, name, patch)
            await asyncio.sleep(1 / _A_SECOND)

    async def _report_others(self) -> None:
        others, number = self.moving[_TRIES:], 0
        while True:
            number += 1
            problem = f"another problem {number}" if number % 2 else ""
            await report(self.client, self.works[others[number % len(others)]], problem)
            await asyncio.sleep(1 / _A_SECOND)

    async def _cost(self, pages: int, *, opens: bool) -> None:
        """Tell what the dashboard costs while so many pages are open: at rest, and in a second with changes.

        A second is as long as it takes until one of the pages shows all of them, so that a machine which has other
        work to do tells the same.
        """
        async with AsyncExitStack() as stack:
            reading = await stack.enter_async_context(self._page(opens=opens))
            for _ in range(pages - 1):
                await stack.enter_async_context(self._page(reads=False, opens=opens))
            await reading.until(lambda page: len(page.clusters) == self.size and (bool(page.rows) or not opens))
            await asyncio.sleep(5)
            what = f"{pages} pages{' with the rollout open' if opens else ''}"
            before, began = usage([self.pid]).cpu, time.perf_counter()
            await asyncio.sleep(_SECONDS)
            share = 100 * (usage([self.pid]).cpu - before) / (time.perf_counter() - began)
            _say(f"{what}, nothing changes", f"{share:.1f} % of a core")
            before = usage([self.pid]).cpu
            for _ in range(_ROUNDS):
                began = time.perf_counter()
                await self._round(reading)
                await asyncio.sleep(max(0.0, began + 1 - time.perf_counter()))
            cpu = (usage([self.pid]).cpu - before) / _ROUNDS
            _say(f"{what}, {_A_SECOND} clusters and {_A_SECOND} works a second", f"{100 * cpu:.1f} % of a core")

    async def _round(self, page: Page) -> None:
        """Change some clusters and works, and wait until a page has heard of the last."""
        self.turn += 1
        region = f"r{self.turn}"
        names = [name_of((self.turn * _A_SECOND + number) % self.size) for number in range(_A_SECOND)]
        patch = MergePatch({"metadata": {"labels": {"region": region}}})
        chosen = [self.moving[(self.turn * _A_SECOND + number) % len(self.moving)] for number in range(_A_SECOND)]
        problem = "" if self.turn % 2 else f"problem {self.turn}"
        for name, other in zip(names, chosen, strict=True):
            await self.client.patch(MANAGED_CLUSTER, name, patch)
            await report(self.client, self.works[other], problem)
        await page.until(lambda page: bool(page.clusters[names[-1]][3] == region))

    @asynccontextmanager
    async def _page(self, *, reads: bool = True, opens: bool = False) -> AsyncIterator[Page]:
        page = Page(self.session, self.url, reads=reads, opens=opens)
        task = asyncio.create_task(page.follow())
        try:
            yield page
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _has_reported(work: ManifestWork) -> bool:
    return work.metadata.generation in {each.observed_generation for each in work.status.conditions}


async def _listed(client: Client, kind: Kind[Any], server: Server) -> list[Any]:
    """List a kind and tell what that costs at least: the hub, and reading its answer."""
    began, hub, own = time.perf_counter(), usage(server.pids).cpu, time.process_time()
    found, token = list[Any](), ""
    while not found or token:
        page = await client.list(kind, limit=500, continue_=token)
        found, token = [*found, *page.items], page.continue_
    costs = f"{usage(server.pids).cpu - hub:.2f} s of CPU of the hub, {time.process_time() - own:.2f} s of the reader"
    _say(f"listing {len(found)} {kind.plural}", f"{time.perf_counter() - began:.2f} s: {costs}")
    return found


def _session() -> aiohttp.ClientSession:
    """Return what keeps cookies, and has as many connections as there are pages."""
    jar, connector = aiohttp.CookieJar(unsafe=True), aiohttp.TCPConnector(limit=0)
    return aiohttp.ClientSession(cookie_jar=jar, connector=connector, read_bufsize=2**20)


def _child(kubeconfig: str) -> int:
    """Return the process of the dashboard: the one that has our kubeconfig on its command line, and is no hub."""
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                told = (each / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if kubeconfig in told and "dashboard" in told:
                return int(each.name)
    raise click.ClickException("the dashboard has no process")


def _say(what: str, figure: str) -> None:
    load_of_machine = os.getloadavg()[0]
    click.echo(f"{what:62} {figure}  (load {load_of_machine:.1f})")


if __name__ == "__main__":
    main()
