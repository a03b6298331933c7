"""What is too old to be told: 410, as an answer to a list and as an event of a watch."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from echelon.hub.server import Hub, Settings
from tests.hub.api import config_map

MAPS = "/api/v1/namespaces/default/configmaps"
Ask = Callable[..., Coroutine[Any, Any, tuple[int, Any]]]


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Hub, Ask]]:
    hub = await Hub.start(Settings())
    headers = {"Authorization": f"Bearer {hub.admin_token}"}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:

        async def ask(method: str, path: str, body: object = None, **query: object) -> tuple[int, Any]:
            asked = {name: str(value) for name, value in query.items()}
            async with session.request(method, hub.url() + path, json=body, params=asked) as response:
                return response.status, await response.json()

        yield hub, ask
    await hub.stop()


def test_a_version_before_the_history_is_gone() -> None:
    async def scenario() -> None:
        async with running() as (hub, ask):
            for name in "abc":
                await ask("POST", MAPS, config_map(name))
            _, page = await ask("GET", MAPS, limit=1)
            old = page["metadata"]["resourceVersion"]
            await ask("DELETE", f"{MAPS}/c")
            hub.cluster().store.compact()
            now = hub.cluster().store.revision
            status, event = await ask("GET", MAPS, watch=1, resourceVersion=old, timeoutSeconds=5)
            assert status == 200
            assert event["type"] == "ERROR"
            error = event["object"]
            assert (error["kind"], error["code"], error["reason"]) == ("Status", 410, "Expired")
            assert error["message"] == f"too old resource version: {old} ({now})"
            status, answer = await ask("GET", MAPS, **{"limit": 1, "continue": page["metadata"]["continue"]})
            assert (status, answer["reason"]) == (410, "Expired")
            assert "The provided continue parameter is too old" in answer["message"]
            status, answer = await ask("GET", MAPS, resourceVersion=old, resourceVersionMatch="Exact")
            assert (status, answer["reason"]) == (410, "Expired")
            status, answer = await ask("GET", MAPS, resourceVersion=old)  # any that is not older will do
            assert (status, len(answer["items"])) == (200, 2)

    asyncio.run(scenario())


@pytest.mark.full
def test_a_watch_ends_when_the_hub_does() -> None:
    async def scenario() -> None:
        async with running() as (hub, ask):
            asked = ask("GET", MAPS, watch=1, resourceVersion=hub.cluster().store.revision)
            watching = asyncio.create_task(asked)
            await asyncio.sleep(0.2)
            await hub.stop()
            nothing = await asyncio.wait_for(watching, timeout=20)
            assert nothing == (200, None)  # it had nothing to say, and has ended

    asyncio.run(scenario())
