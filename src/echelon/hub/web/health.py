"""Whether the hub works: what `/livez`, `/readyz` and `/healthz` answer, in the form of kube-apiserver.

Alive is a hub whose event loop turns and whose clusters have their controllers: if not, a new start helps. Ready is one
that also stores what is written and is not about to stop. `/healthz` is for those who know no other: everything but the
stopping. Anybody may ask, so what is wrong in detail is in the log, and not in the answer.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from aiohttp import web

from echelon.kube.errors import NotFound
from echelon.kube.health import Check, Heartbeat, report

_log = logging.getLogger(__name__)

Probe = Callable[[], Awaitable[str]]
"""Tells what is wrong; nothing if all is well."""

ENDPOINTS: Final = {
    "livez": ("ping", "event-loop", "controllers"),
    "healthz": ("ping", "event-loop", "controllers", "log"),
    "readyz": ("ping", "event-loop", "controllers", "log", "shutdown"),
}


class Health:
    """Looks at what there is to look at: a hub in memory has no log."""

    def __init__(self, heartbeat: Heartbeat, probes: Mapping[str, Probe]) -> None:
        self._heartbeat = heartbeat
        self._probes = probes
        self._said: dict[str, str] = {}

    async def answer(self, endpoint: str, only: str, *, verbose: bool, excluded: Sequence[str]) -> web.Response:
        """Answer for an endpoint, or for one of its checks."""
        names = [name for name in ENDPOINTS[endpoint] if name in ("ping", "event-loop") or name in self._probes]
        if only:
            if only not in names:
                raise NotFound("the server could not find the requested resource")
            names = [only]
        checks = [Check(f"{name} excluded:") if name in excluded else await self._check(name) for name in names]
        well, text = report(endpoint, checks, verbose=verbose)
        return web.Response(text=text, status=200 if well else 500)

    async def _check(self, name: str) -> Check:
        if name == "ping":
            return Check(name)
        failure = self._heartbeat.check().failure if name == "event-loop" else await self._probes[name]()
        if failure != self._said.get(name, ""):
            self._said[name] = failure
            if failure:
                _log.warning("health check %s failed: %s", name, failure)
            else:
                _log.info("health check %s passes again", name)
        return Check(name, "reason withheld" if failure else "")
