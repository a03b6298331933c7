"""What the hub says of its own health, and that each check can fail."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from echelon.api.core import CONFIG_MAP
from echelon.hub.controllers.roles import RoleAggregator
from echelon.hub.server import ROOT, Hub, Settings
from echelon.kube import errors, health

ENDPOINTS = ("livez", "healthz", "readyz")


class Probes:
    """Asks a hub how it is: as anybody may, and about a single check as the administrator."""

    def __init__(self, hub: Hub, session: aiohttp.ClientSession) -> None:
        self.hub = hub
        self._session = session

    async def __call__(self, path: str, **query: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {self.hub.admin_token}"} if "/" in path else {}
        async with self._session.get(f"{self.hub.url()}/{path}", params=query, headers=headers) as answer:
            return answer.status, await answer.text()

    async def failing(self) -> dict[str, list[str]]:
        """Return the checks that fail, an endpoint at a time."""
        found = {}
        for endpoint in ENDPOINTS:
            status, text = await self(endpoint)
            failed = [line[3:].partition(" ")[0] for line in text.splitlines() if line.startswith("[-]")]
            assert (status, text == "ok") == ((500, False) if failed else (200, True)), text
            if failed:
                found[endpoint] = failed
        return found


@asynccontextmanager
async def probed(data: Path | None) -> AsyncIterator[Probes]:
    hub = await Hub.start(Settings(data=data, clusters=["member"]))
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
            yield Probes(hub, session)
    finally:
        await hub.stop()


async def write(hub: Hub, name: str) -> None:
    await hub.client(user=ROOT).create(CONFIG_MAP, {"metadata": {"name": name}}, "default")


def test_all_is_well_and_verbose_tells_what_was_looked_at(tmp_path: Path) -> None:
    async def scene() -> None:
        async with probed(tmp_path) as probes:
            assert await probes.failing() == {}
            status, text = await probes("readyz", verbose="")
            lines = [f"[+]{name} ok" for name in ("ping", "event-loop", "controllers", "log", "shutdown")]
            assert (status, text.splitlines()) == (200, [*lines, "readyz check passed"])
            assert "[+]log" not in (await probes("livez", verbose=""))[1]

    asyncio.run(scene())


def test_a_hub_in_memory_has_no_log_to_look_at() -> None:
    async def scene() -> None:
        async with probed(None) as probes:
            assert await probes.failing() == {}
            assert "log" not in (await probes("readyz", verbose=""))[1]
            assert (await probes("readyz/log"))[0] == 404

    asyncio.run(scene())


def test_a_log_that_cannot_be_written_makes_the_hub_unready_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with probed(tmp_path) as probes:
            log = probes.hub._log
            assert log is not None
            log._db.execute("PRAGMA query_only = ON")
            with pytest.raises(errors.Unavailable):
                await write(probes.hub, "lost")
            assert await probes.failing() == {"healthz": ["log"], "readyz": ["log"]}
            _, text = await probes("readyz")
            assert "[-]log failed: reason withheld" in text.splitlines()  # anybody may ask
            assert (await probes("readyz", exclude="log"))[1] == "ok"
            assert "[+]log excluded: ok" in (await probes("readyz", exclude="log", verbose=""))[1]
            assert (await probes("readyz/log"))[0] == 500
            assert await probes("readyz/ping") == (200, "ok")
            log._db.execute("PRAGMA query_only = OFF")  # nobody writes: the hub has to find out by itself
            assert await probes.failing() == {}
            await write(probes.hub, "kept")

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    told = [record.getMessage() for record in caplog.records if "health check" in record.getMessage()]
    assert told == ["health check log failed: attempt to write a readonly database"]


def test_controllers_that_ended_are_a_reason_to_start_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: RoleAggregator) -> None:
        raise ZeroDivisionError("a mistake of ours")

    async def scene() -> None:
        async with probed(None) as probes:
            monkeypatch.setattr(RoleAggregator, "work", fail)
            await write(probes.hub, "news")
            await asyncio.wait([probes.hub._controllers[""]])
            assert await probes.failing() == {endpoint: ["controllers"] for endpoint in ENDPOINTS}

    asyncio.run(scene())
    assert any("controllers of the hub have failed" in record.getMessage() for record in caplog.records)


def test_an_event_loop_that_falls_behind_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.Heartbeat, "lag", property(lambda _: 6.0))

    async def scene() -> None:
        async with probed(None) as probes:
            assert await probes.failing() == {endpoint: ["event-loop"] for endpoint in ENDPOINTS}

    asyncio.run(scene())


def test_a_hub_that_stops_is_alive_and_not_ready() -> None:
    async def scene() -> None:
        async with probed(None) as probes:
            probes.hub._stopping = True
            assert await probes.failing() == {"readyz": ["shutdown"]}

    asyncio.run(scene())


@pytest.mark.parametrize("path", ["readyz/etcd", "livez/log", "livez/ping/ping"])
def test_a_check_that_there_is_not_cannot_be_asked_for(tmp_path: Path, path: str) -> None:
    async def scene() -> None:
        async with probed(tmp_path) as probes:
            assert (await probes(path))[0] == 404

    asyncio.run(scene())
