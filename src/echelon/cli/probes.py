"""The port on which a process that stays shows how it is: `/metrics`, `/healthz`, `/livez` and `/readyz`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from echelon.cli.listening import Address
from echelon.kube.health import LAG_LIMIT_SECONDS, Check, Heartbeat
from echelon.kube.metrics import Metrics


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
    try:
        async with AsyncExitStack() as stack:
            base = ""
            if listen:
                from echelon.cli import probe_server  # a web server is a tenth of all imports

                base = await stack.enter_async_context(probe_server.serving(listen, metrics, heartbeat, readiness))
            yield base
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
