"""The hubs on which a story is told: the embedded one in virtual time, and a real kube-apiserver.

The real one is shared with everybody who tests at the same moment, so a story there has a namespace, a prefix for names
and controllers of its own, and these controllers see nothing but that namespace. Its reader is a watch, as a consumer
would have it; the server tells it of every state.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.hub.client import InProcessClient
from echelon.kube import config
from echelon.kube.client import Client, Event, EventType, Page
from echelon.kube.clock import SystemClock
from echelon.kube.http import HttpClient
from tests.conformance.targets import serve_crds
from tests.controllers.hub import Hub, told
from tests.environment import Access

Story = Callable[[Hub], Awaitable[None]]
Told = Callable[[Story], None]

PATIENCE_SECONDS = 60.0
_IN_FLIGHT = 32
_numbers = itertools.count(1)
_furnished: set[str] = set()  # the servers that have the CRDs


class OneNamespace(HttpClient):
    """Shows of all namespaces only one, so that what others make on the same server stays theirs."""

    only = ""

    async def list(self, kind: Any, namespace: str = "", **options: Any) -> Page[Any]:
        """List, in the only namespace there is."""
        return await super().list(kind, self._seen(kind, namespace), **options)

    async def watch(self, kind: Any, namespace: str = "", **options: Any) -> AsyncGenerator[Event[Any], None]:
        """Watch, in the only namespace there is."""
        async for event in super().watch(kind, self._seen(kind, namespace), **options):
            yield event

    def _seen(self, kind: Kind[Any], namespace: str) -> str:
        return namespace or (self.only if kind.namespaced else "")


def on_embedded(story: Story) -> None:
    """Tell a story on a hub of its own, and see that there is silence after it."""
    told(story)


def on_kubernetes(access: Access) -> Told:
    """Return what tells stories on a real kube-apiserver."""

    def tell(story: Story) -> None:
        async def main() -> None:
            async with _real(access) as here:
                await story(here)

        asyncio.run(main())

    return tell


@asynccontextmanager
async def _real(access: Access) -> AsyncIterator[Hub]:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    name = f"story-{worker}-{os.getpid()}-{next(_numbers)}"
    async with OneNamespace(config.load(access.kubeconfig)) as client:
        client.only = name
        if access.url not in _furnished:
            await serve_crds(client)
            _furnished.add(access.url)
        await client.create(NAMESPACE.untyped(), {"metadata": {"name": name}})
        here = Hub(cast("InProcessClient", client), SystemClock(), name, f"{name}-", PATIENCE_SECONDS)
        here.sight.prefix = here.prefix
        reading = asyncio.create_task(_read(client, here))
        try:
            yield here
        finally:
            await here.stop()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await _clean(client, here)


async def _read(client: Client, hub: Hub) -> None:
    """Let the reader of a hub see every state of its decisions."""
    kind = PLACEMENT_DECISION.untyped()
    version = (await client.list(kind, hub.namespace)).resource_version
    while True:
        async for event in client.watch(kind, hub.namespace, resource_version=version):
            version = event.resource_version
            if event.object is not None:
                gone = event.type is EventType.DELETED
                hub.sight.see(event.object["metadata"]["name"], None if gone else event.object)


async def _clean(client: Client, hub: Hub) -> None:
    """Take everything away: on this server nobody empties a namespace that is deleted."""
    limit = asyncio.Semaphore(_IN_FLIGHT)

    async def delete(kind: Kind[Any], name: str, namespace: str) -> None:
        async with limit:
            await client.delete(kind, name, namespace)

    work: list[Coroutine[Any, Any, None]] = []
    for kind in (PLACEMENT, PLACEMENT_DECISION, MANAGED_CLUSTER_SET_BINDING, MANAGED_CLUSTER, MANAGED_CLUSTER_SET):
        namespace = hub.namespace if kind.namespaced else ""
        found = (item["metadata"]["name"] for item in (await client.list(kind.untyped(), namespace)).items)
        work += [delete(kind, name, namespace) for name in found if namespace or name.startswith(hub.prefix)]
    await asyncio.gather(*work)
    await client.delete(NAMESPACE, hub.namespace)
