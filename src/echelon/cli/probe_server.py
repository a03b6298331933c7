"""The web server behind the port of `probes`, apart from it because most processes start without one."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, ProcessCollector

from echelon.cli.logs import say
from echelon.kube.health import Check, Heartbeat, report
from echelon.kube.metrics import Metrics, written_out


@asynccontextmanager
async def serving(
    listen: tuple[str, int], metrics: Metrics, heartbeat: Heartbeat, readiness: Callable[[], Iterable[Check]]
) -> AsyncIterator[str]:
    """Serve at an address for as long as it is needed. Return the base of all URLs."""
    ProcessCollector(registry=metrics.registry)
    runner = web.AppRunner(_application(metrics, heartbeat, readiness), access_log=None)
    try:
        await runner.setup()
        await web.TCPSite(runner, *listen).start()
        bound = runner.addresses[0]
        base = f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"
        say(f"metrics at {base}/metrics")
        yield base
    finally:
        await runner.cleanup()


def _application(metrics: Metrics, heartbeat: Heartbeat, readiness: Callable[[], Iterable[Check]]) -> web.Application:
    def said(request: web.Request, checks: Iterable[Check]) -> web.Response:
        well, text = report(request.path.strip("/"), checks, verbose="verbose" in request.query)
        return web.Response(text=text, status=200 if well else 503)

    async def shown(_: web.Request) -> web.Response:
        return web.Response(body=await written_out(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def alive(request: web.Request) -> web.Response:
        return said(request, [heartbeat.check()])

    async def ready(request: web.Request) -> web.Response:
        return said(request, [heartbeat.check(), *readiness()])

    app = web.Application()
    app.add_routes(
        [web.get("/metrics", shown), web.get("/healthz", alive), web.get("/livez", alive), web.get("/readyz", ready)]
    )
    return app
