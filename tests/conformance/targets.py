"""The three servers that must be told apart by nothing but their address.

A target is made in the event loop in which its tests run; the embedded hub serves in that same loop, over TLS.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.kinds import Kind
from echelon.hub.access.identity import AUTHENTICATED, User
from echelon.hub.access.kubeconfig import ClusterEntry, ContextEntry, UserEntry, merge_kubeconfig
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, Hub, Settings, bootstrap, memory_cluster
from echelon.kube import config
from echelon.kube.client import Client
from echelon.kube.errors import AlreadyExists, NotFound
from echelon.kube.http import HttpClient
from tests.environment import Access

NOBODY = "somebody-without-rights"
SERVE_SECONDS = 60.0


@dataclass(frozen=True)
class Target:
    """A server, as its administrator and as somebody who may nothing see it."""

    name: str
    client: Client
    nobody: Client
    expire: Callable[[], str]  # returns a resource version from which nobody can resume any more
    as_user: Callable[[str], AbstractAsyncContextManager[Client]]  # as somebody whose rights are those of that name


@asynccontextmanager
async def in_process() -> AsyncIterator[Target]:
    """A logical cluster in memory, with decoded objects and no transport."""
    cluster = memory_cluster(seed=1)
    await bootstrap(cluster)
    keeping = asyncio.create_task(run_controllers(cluster))
    nobody = InProcessClient(cluster, User(NOBODY, (AUTHENTICATED,)))
    try:
        yield Target(
            "in-process",
            InProcessClient(cluster, ROOT),
            nobody,
            lambda: _compacted(cluster),
            lambda user: nullcontext(InProcessClient(cluster, User(user, (AUTHENTICATED,)))),
        )
    finally:
        cluster.store.close()
        await keeping


@asynccontextmanager
async def embedded(directory: Path) -> AsyncIterator[Target]:
    """The embedded hub with its log on disk, over TLS."""
    hub = await Hub.start(Settings(data=directory / "data"))
    try:
        admin = UserEntry("admin", token=hub.admin_token)

        def as_user(name: str) -> HttpClient:
            issued = hub.keys.client_certificate(name, [], datetime.now(UTC))
            entry = UserEntry(name, certificate_pem=issued.certificate_pem, key_pem=issued.key_pem)
            return _client(_kubeconfig(directory / name, hub, entry))

        path = _kubeconfig(directory / admin.name, hub, admin)
        async with _client(path) as first, as_user(NOBODY) as second:
            yield Target("hub", first, second, lambda: _compacted(hub.cluster()), as_user)
    finally:
        await hub.stop()


@asynccontextmanager
async def kubernetes(access: Access) -> AsyncIterator[Target]:
    """A real kube-apiserver."""
    async with _client(access.kubeconfig) as first, _client(access.kubeconfig_for(NOBODY)) as second:
        # Its watch cache has begun after this one.
        yield Target("kubernetes", first, second, lambda: "1", lambda user: _client(access.kubeconfig_for(user)))


def _client(kubeconfig: Path) -> HttpClient:
    # Reads are repeated until this is over, where a server asks for it.
    return HttpClient(config.load(kubeconfig), timeout_seconds=10.0)


def _compacted(cluster: LogicalCluster) -> str:
    before = cluster.store.revision - 1
    cluster.store.compact(cluster.store.revision)
    return str(before)


def _kubeconfig(path: Path, hub: Hub, user: UserEntry) -> Path:
    server = ClusterEntry("hub", hub.url(), hub.keys.authority.certificate_pem)
    merge_kubeconfig(path, [server], [user], [ContextEntry("hub", "hub", user.name)], "hub")
    return path


async def serve_crds(client: Client) -> None:
    """Create Echelon's CRDs, and return when their kinds are served."""
    documents = registry.crds()
    for document in documents:
        with suppress(AlreadyExists):  # another worker was faster
            await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), document)
    async with asyncio.timeout(SERVE_SECONDS):
        waiting = {document["metadata"]["name"] for document in documents}
        async for event in client.watch(CUSTOM_RESOURCE_DEFINITION.untyped(), initial_events=True):
            if event.object is not None and _is_established(event.object):
                waiting.discard(event.object["metadata"]["name"])
            if not waiting:
                break
        for kind in registry.registry().custom_kinds():
            await _served(client, kind)


def _is_established(crd: dict[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


async def _served(client: Client, kind: Kind[Any]) -> None:
    """A new kind can be established a moment before its handler is there."""
    while True:
        try:
            await client.list(kind, limit=1)
        except NotFound:
            await asyncio.sleep(0.1)
        else:
            return
