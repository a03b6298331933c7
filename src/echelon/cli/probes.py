"""The port on which a process that stays shows how it is: `/metrics`, `/healthz`, `/livez` and `/readyz`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import click
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from echelon.cli.logs import say
from echelon.cli.process import parse_listen
from echelon.kube.health import LAG_LIMIT_SECONDS, Check, Heartbeat, report
from echelon.kube.metrics import Metrics

Address: TypeAlias = tuple[str, int]


def _address(_: click.Context, __: click.Parameter, value: str | None) -> Address | None:
    return parse_listen(value, "--metrics-listen") if value else None


probed = click.option(
    "--metrics-listen", metavar="HOST:PORT", callback=_address, help="Serve /metrics, /healthz and /readyz there."
)


@asynccontextmanager
async def probes(
    listen: Address | None,
    metrics: Metrics,
    readiness: Callable[[], Iterable[Check]],
    *,
    lag_limit: float = LAG_LIMIT_SECONDS,
) -> AsyncIterator[str]:
    """Measure how late the event loop is, and serve at an address if one is given. Return the base of all URLs."""
    heartbeat = Heartbeat(metrics, limit=lag_limit)
    beating = asyncio.create_task(heartbeat.run(), name="heartbeat")
    runner = web.AppRunner(_application(metrics, heartbeat, readiness), access_log=None)
    try:
        yield await _serve(runner, *listen) if listen else ""
    finally:
        await runner.cleanup()
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _serve(runner: web.AppRunner, host: str, port: int) -> str:
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    bound = runner.addresses[0]
    base = f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"
    say(f"metrics at {base}/metrics")
    return base


def _application(metrics: Metrics, heartbeat: Heartbeat, readiness: Callable[[], Iterable[Check]]) -> web.Application:
    def said(request: web.Request, checks: Iterable[Check]) -> web.Response:
        well, text = report(request.path.strip("/"), checks, verbose="verbose" in request.query)
        return web.Response(text=text, status=200 if well else 503)

    async def shown(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def alive(request: web.Request) -> web.Response:
        return said(request, [heartbeat.check()])

    async def ready(request: web.Request) -> web.Response:
        return said(request, [heartbeat.check(), *readiness()])

    app = web.Application()
    app.add_routes(
        [web.get("/metrics", shown), web.get("/healthz", alive), web.get("/livez", alive), web.get("/readyz", ready)]
    )
    return app
