"""`python -m bench.dashboard`: the dashboard in front of a large fleet, as browsers see it.

The hub and the controllers are in this process and the dashboard in another one, whose CPU time is what is told. A page
is a connection that reads the feed and does nothing with it.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import click
import yaml

from bench.fleet import cluster, heartbeat, name_of
from bench.processes import usage
from echelon.api import registry
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT
from echelon.api.work import MANIFEST_WORK
from echelon.cli.dashboard_process import dashboard_beside
from echelon.cli.demo import apply
from echelon.cli.examples import example
from echelon.cli.hub import write_kubeconfig
from echelon.controllers.running import NAMES, Controllers
from echelon.fleet.local import _serve as serve_kinds
from echelon.hub.server import Hub, Settings
from echelon.kube.client import Client, MergePatch
from echelon.kube.clock import SystemClock
from echelon.kube.metrics import Metrics

_SECONDS = 8.0
_A_SECOND = 25  # changes of clusters
_TRIES = 10


class Page:
    """An open page."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url
        self.clusters: dict[str, Any] = {}
        self.rollouts: dict[str, Any] = {}
        self.heard = asyncio.Event()
        self.messages = 0

    async def follow(self, *, reads: bool) -> None:
        """Read the feed, and understand it or not."""
        async with self._session.get(f"{self._url}/api/feed") as answer:
            text = b""
            async for chunk in answer.content.iter_any():
                if not reads:
                    continue
                text += chunk
                while b"\n\n" in text:
                    message, _, text = text.partition(b"\n\n")
                    if message.startswith(b"data: "):
                        self._take(json.loads(message[6:]))

    def _take(self, message: Any) -> None:
        self.messages += 1
        self.clusters.update(message.get("clusters", {}).get("set", {}))
        self.rollouts.update(message.get("rollouts", {}).get("set", {}))
        self.heard.set()

    async def until(self, shown: Callable[["Page"], bool]) -> None:
        """Wait until the page shows something."""
        while not shown(self):
            self.heard.clear()
            await self.heard.wait()


@click.command()
@click.option("--clusters", default=10_000, show_default=True)
@click.option("--rolled-out", default=10_000, show_default=True, help="How many of them a rollout is about.")
def main(*, clusters: int, rolled_out: int) -> None:
    """Measure the dashboard: the first view, how far it is behind the hub, and what pages cost."""
    asyncio.run(_measure(clusters, min(clusters, rolled_out)))


async def _measure(size: int, rolled_out: int) -> None:
    async with AsyncExitStack() as stack:
        hub = await Hub.start(Settings(keep_objects=True))
        stack.push_async_callback(hub.stop)
        client = hub.client(field_manager="bench")
        await serve_kinds(client, registry.crds())
        for number in range(size):
            await client.create(MANAGED_CLUSTER, cluster(number))
            await client.create(NAMESPACE.untyped(), {"metadata": {"name": name_of(number)}})
            await client.patch(MANAGED_CLUSTER, name_of(number), MergePatch(heartbeat(0)), subresource="status")
        await _rolled_out(client, rolled_out)
        directory = stack.enter_context(TemporaryDirectory())
        write_kubeconfig(hub, Path(directory) / "kubeconfig")
        options = ("--kubeconfig", f"{directory}/kubeconfig", "--listen", "127.0.0.1:0")
        url = await stack.enter_async_context(dashboard_beside(options))
        pid = _child(directory)
        session = await stack.enter_async_context(_session())
        body = {"token": hub.admin_token}
        async with session.post(f"{url}/api/login", json=body, headers={"Origin": url}) as answer:
            answer.raise_for_status()
        for what in ("first view, cold", "first view of another page"):
            began, spent = time.perf_counter(), usage([pid]).cpu
            async with _page(session, url) as page:
                await page.until(lambda page: len(page.clusters) == size)
                seen = time.perf_counter() - began
                await page.until(lambda page: any(each["total"] == rolled_out for each in page.rollouts.values()))
                took, cpu = time.perf_counter() - began, usage([pid]).cpu - spent
                _say(what, f"{seen:.2f} s to the clusters, {took:.2f} s to the rollout; {cpu:.2f} s of CPU")
        _say("memory of the dashboard", f"{usage([pid]).memory / 2**20:.0f} MiB")
        async with _page(session, url) as page:
            await page.until(lambda page: len(page.clusters) == size)
            await _lag(client, page, pid, rolled_out)
        for pages in (1, 100):
            await _cost(client, lambda: _page(session, url, reads=False), pid, size, pages)


async def _rolled_out(client: Client, size: int) -> None:
    """Have the controllers bring something everywhere, and leave."""
    documents = list(yaml.safe_load_all(example("everywhere.yaml").read_text()))
    (placement,) = [each for each in documents if each["kind"] == PLACEMENT.kind]
    placement["spec"]["numberOfClusters"] = size
    made = Controllers(client, SystemClock(), NAMES, random=Random(0), metrics=Metrics(), instance="bench")  # noqa: S311
    working = asyncio.create_task(made.run(None))
    await apply(client, documents)
    while len((await client.list(MANIFEST_WORK.untyped(), limit=size)).items) < size:  # noqa: ASYNC110 - of the hub
        await asyncio.sleep(1)
    while not made.idle:  # noqa: ASYNC110 - queues have no event for being empty
        await asyncio.sleep(0.2)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


@asynccontextmanager
async def _page(session: aiohttp.ClientSession, url: str, *, reads: bool = True) -> AsyncIterator[Page]:
    page = Page(session, url)
    task = asyncio.create_task(page.follow(reads=reads))
    try:
        yield page
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _lag(client: Client, page: Page, pid: int, size: int) -> None:
    """Tell how long a change of a cluster takes to a page, and one of a work to the rollout on it."""
    behind: list[float] = []
    spent = usage([pid]).cpu
    for number in range(_TRIES):
        await asyncio.sleep(0.5 + number / _TRIES)
        name, region = name_of(number * 7), f"lag-{number}"
        began = time.perf_counter()
        await client.patch(MANAGED_CLUSTER, name, MergePatch({"metadata": {"labels": {"region": region}}}))
        await page.until(lambda page, name=name, region=region: page.clusters[name][3] == region)  # type: ignore[misc]
        behind.append(time.perf_counter() - began)
    cpu = (usage([pid]).cpu - spent) / _TRIES
    _say("a cluster behind the hub", f"median {median(behind):.2f} s, most {max(behind):.2f} s; {cpu:.3f} s of CPU")
    behind, spent = [], usage([pid]).cpu
    for number in range(_TRIES):
        await asyncio.sleep(0.5 + number / _TRIES)
        before = json.dumps([each["counts"] for each in page.rollouts.values()])
        began = time.perf_counter()
        await _report(client, name_of(number))
        await page.until(
            lambda page, before=before: json.dumps([each["counts"] for each in page.rollouts.values()]) != before  # type: ignore[misc]
        )
        behind.append(time.perf_counter() - began)
    cpu = (usage([pid]).cpu - spent) / _TRIES
    told = f"median {median(behind):.2f} s, most {max(behind):.2f} s; {cpu:.3f} s of CPU"
    _say(f"a rollout over {size} behind the hub", told)


async def _report(client: Client, namespace: str) -> None:
    """Report a failure, as an agent would."""
    (work,) = (await client.list(MANIFEST_WORK.untyped(), namespace)).items
    told = {
        "type": "Applied",
        "status": "False",
        "reason": "AppliedManifestWorkFailed",
        "message": "it cannot be applied",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": work["metadata"]["generation"],
    }
    patch = MergePatch({"status": {"conditions": [told]}})
    await client.patch(MANIFEST_WORK.untyped(), work["metadata"]["name"], patch, namespace, subresource="status")


async def _cost(client: Client, open_page: Callable[[], Any], pid: int, size: int, pages: int) -> None:
    """Tell what the dashboard costs while clusters change and so many pages are open."""
    async with AsyncExitStack() as stack:
        for _ in range(pages):
            await stack.enter_async_context(open_page())
        await asyncio.sleep(5)
        for changes in (0, _A_SECOND):
            before, began = usage([pid]).cpu, time.perf_counter()
            number = 0
            while time.perf_counter() - began < _SECONDS:
                for _ in range(changes):
                    number += 1
                    patch = MergePatch({"metadata": {"labels": {"region": f"r{number}"}}})
                    await client.patch(MANAGED_CLUSTER, name_of(number * 13 % size), patch)
                await asyncio.sleep(1)
            seconds = time.perf_counter() - began
            share = 100 * (usage([pid]).cpu - before) / seconds
            _say(f"{pages} pages, {changes} changes a second", f"{share:.1f} % of a core")


def _session() -> aiohttp.ClientSession:
    """Return what keeps cookies, and has as many connections as there are pages."""
    jar, connector = aiohttp.CookieJar(unsafe=True), aiohttp.TCPConnector(limit=0)
    return aiohttp.ClientSession(cookie_jar=jar, connector=connector, read_bufsize=2**20)


def _child(directory: str) -> int:
    """Return the process of the dashboard: the one that has our kubeconfig on its command line."""
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                if f"{directory}/kubeconfig" in (each / "cmdline").read_text():
                    return int(each.name)
            except OSError:
                continue
    raise click.ClickException("the dashboard has no process")


def _say(what: str, figure: str) -> None:
    click.echo(f"{what:44} {figure}")


if __name__ == "__main__":
    main()
