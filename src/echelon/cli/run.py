"""`echelon run`: controllers in the foreground, against any hub."""

import asyncio
import logging
import os
import socket
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from secrets import token_hex

import click
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from echelon.cli.connection import Connection, connected
from echelon.cli.process import parse_listen, stop_on_signals
from echelon.cli.process import run as run_main
from echelon.controllers.running import (
    LEASE_NAMESPACE,
    MULTICLUSTER,
    NAMES,
    Controllers,
    Lease,
    MissingKinds,
    UnknownController,
    freeze,
)
from echelon.controllers.settings import DEFAULTS, ControllerSettings
from echelon.engine.rollout.removal import GRACE, read_limit
from echelon.engine.rollout.thresholds import Threshold
from echelon.kube.clock import SystemClock
from echelon.kube.errors import ApiError
from echelon.kube.leader import ElectionImpossible, WorkDidNotStop
from echelon.kube.metrics import Metrics

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Settings:
    connection: Connection
    names: tuple[str, ...]
    lease: Lease | None
    metrics_listen: tuple[str, int] | None
    controllers: ControllerSettings


def _limit(_: click.Context, __: click.Parameter, value: str) -> Threshold:
    try:
        return read_limit(value)
    except ValueError as mistake:
        raise click.BadParameter(f'it is "{value}": {mistake}') from mistake


@click.command()
@connected
@click.option(
    "--controllers",
    default=",".join(NAMES),
    show_default=True,
    metavar="NAME,...",
    help="Controllers to run.",
)
@click.option(
    "--publish-multicluster",
    is_flag=True,
    help="Publish decisions also as the PlacementDecision of multicluster.x-k8s.io.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Work only with the lease. Without it, nothing keeps a second process from working on the same objects.",
)
@click.option("--namespace", default=LEASE_NAMESPACE, show_default=True, help="Namespace of the lease.")
@click.option(
    "--trust-decisions",
    is_flag=True,
    help="Only controllers may write placement decisions on this hub: believe all, of clusters in no bound set too.",
)
@click.option(
    "--max-removals",
    default="100%",
    show_default=True,
    metavar="N|P%",
    callback=_limit,
    help="Clusters that may lose their content at once, where an object does not say otherwise.",
)
@click.option(
    "--removal-grace",
    type=click.FloatRange(min=0),
    default=GRACE.total_seconds(),
    show_default=True,
    metavar="SECONDS",
    help="How long a cluster that is tainted unreachable or unavailable keeps its content.",
)
@click.option("--metrics-listen", metavar="HOST:PORT", help="Serve /metrics and /healthz there.")
@click.option(
    "--silent-share",
    type=click.FloatRange(0, 1, min_open=True),
    default=DEFAULTS.silent_share,
    show_default=True,
    help="No cluster is tainted unreachable while more than this share of them is silent; 1: regardless of the others.",
)
@click.option("-v", "--verbose", is_flag=True, help="Say more.")
def run(
    *,
    connection: Connection,
    controllers: str,
    publish_multicluster: bool,
    leader_elect: bool,
    namespace: str,
    trust_decisions: bool,
    max_removals: Threshold,
    removal_grace: float,
    metrics_listen: str | None,
    silent_share: float,
    verbose: bool,
) -> None:
    """Run controllers in the foreground, until SIGTERM or Ctrl-C.

    Of several processes that name the same namespace for their lease, one works and the others wait.
    """
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    names = tuple(filter(None, (name.strip() for name in controllers.split(","))))
    names += (MULTICLUSTER,) if publish_multicluster else ()
    listen = parse_listen(metrics_listen, "--metrics-listen") if metrics_listen else None
    lease = Lease(namespace) if leader_elect else None
    try:
        settings = ControllerSettings(silent_share, trust_decisions, max_removals, timedelta(seconds=removal_grace))
        run_main(_serve(_Settings(connection, names, lease, listen, settings)))
    except UnknownController as error:
        raise click.BadParameter(str(error), param_hint="--controllers") from error
    except (MissingKinds, ElectionImpossible, WorkDidNotStop) as error:
        raise click.ClickException(str(error)) from error


async def _serve(settings: _Settings) -> None:
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
        await made.check()
        await _warn_of_rivals(made, settings.lease)
        if settings.metrics_listen is not None:
            runner = await _show_metrics(metrics.registry, *settings.metrics_listen)
            stack.push_async_callback(runner.cleanup)
        working = asyncio.create_task(made.run(settings.lease, ready=_ready), name="controllers")
        asked = asyncio.create_task(stopping.wait(), name="stop")
        try:
            await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            working.cancel()
            # What is under way comes to its end, and the lease is given back.
            with suppress(asyncio.CancelledError):
                await working
    click.echo("the controllers have stopped", err=True)


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
    click.echo("the controllers are ready", err=True)


async def _show_metrics(registry: CollectorRegistry, host: str, port: int) -> web.AppRunner:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    bound = runner.addresses[0]
    click.echo(f"metrics at http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}/metrics", err=True)
    return runner
