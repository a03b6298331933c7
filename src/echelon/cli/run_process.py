"""How `echelon run` runs controllers: with a lease, probes, and a dashboard beside it if there is to be one."""

import asyncio
import logging
import os
import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import Random
from secrets import token_hex

from echelon.cli.connection import Connection
from echelon.cli.dashboard_process import dashboard_beside
from echelon.cli.listening import Address
from echelon.cli.logs import say
from echelon.cli.probes import probes
from echelon.cli.process import stop_on_signals, until
from echelon.controllers.running import Controllers, Lease, freeze
from echelon.controllers.settings import ControllerSettings
from echelon.kube.clock import SystemClock
from echelon.kube.errors import ApiError
from echelon.kube.metrics import Metrics

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunOptions:
    """What the process is told."""

    connection: Connection
    names: tuple[str, ...]
    lease: Lease | None
    metrics_listen: Address | None
    controllers: ControllerSettings
    dashboard: str


async def serve(settings: RunOptions) -> None:
    """Run controllers until asked to stop."""
    stopping, metrics = stop_on_signals(), Metrics()
    instance = f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(settings.connection.open())
        chance = Random()  # noqa: S311 - jitter is no secret
        made = Controllers(
            client,
            SystemClock(),
            settings.names,
            random=chance,
            metrics=metrics,
            instance=instance,
            settings=settings.controllers,
        )
        await stack.enter_async_context(probes(settings.metrics_listen, metrics, made.readiness))
        await made.check()
        await _warn_of_rivals(made, settings.lease)
        if settings.dashboard:
            options = (*settings.connection.options, "--listen", settings.dashboard)
            say(f"the dashboard is at {await stack.enter_async_context(dashboard_beside(options))}")
        working = asyncio.create_task(made.run(settings.lease, ready=_ready), name="controllers")
        await until(stopping, working)  # and the lease is given back
    say("the controllers have stopped")


async def _warn_of_rivals(made: Controllers, lease: Lease | None) -> None:
    """Say so if two are about to work on the same objects. It may be meant: they may have different controllers."""
    try:
        rivals = await made.rivals(lease)
    except ApiError as error:
        _log.warning("whether others lead here cannot be seen: %s", error)
        return
    for rival in rivals:
        _log.warning("%s leads on this hub, too: two that run the same controllers undo each other's work", rival)


def _ready() -> None:
    freeze()
    say("the controllers are ready")
