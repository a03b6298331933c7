"""`echelon run`: controllers in the foreground, against any hub."""

import asyncio
import logging
import os
import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from secrets import token_hex

import click

from echelon.cli.connection import Connection, connected
from echelon.cli.dashboard_process import dashboard_beside
from echelon.cli.logs import logged, say
from echelon.cli.probes import Address, probed, probes
from echelon.cli.process import run as run_main
from echelon.cli.process import stop_on_signals, until
from echelon.controllers.running import (
    LEASE_NAMESPACE,
    MULTICLUSTER,
    NAMES,
    POD_CLIQUES,
    POLICY_NAMES,
    WORKLOADS,
    Controllers,
    Lease,
    MissingKinds,
    UnknownController,
    freeze,
    lease_name,
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
class _RunOptions:
    connection: Connection
    names: tuple[str, ...]
    lease: Lease | None
    metrics_listen: Address | None
    controllers: ControllerSettings
    dashboard: str


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
    help=f"Controllers to run. Those of policies ({', '.join(POLICY_NAMES)}), of federated workloads ({WORKLOADS}, "
    f"for all of them) and of PodCliqueSets ({POD_CLIQUES}, on a cluster that runs pods) run where they are named: "
    "another one may be at work on them.",
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
@click.option(
    "--allow-all",
    is_flag=True,
    help="Where the hub's definition of policies drops their rolloutStrategy, let those without one go everywhere at "
    "once. Otherwise they are held.",
)
@click.option(
    "--adopt-bindings",
    is_flag=True,
    help="Carry out also the ResourceBindings that Karmada's own control plane made. Its binding controller has to be "
    "off: two of them would write the same works in turn.",
)
@click.option(
    "--init-image",
    default="",
    metavar="IMAGE",
    help="Image of the program that waits for other cliques of a PodCliqueSet. Without one, a set in which cliques "
    "start one after the other is not accepted.",
)
@click.option(
    "--auto-accept",
    multiple=True,
    metavar="PATTERN",
    help="Accept clusters of this name without a person when they ask to join with a bootstrap token: a name, or a "
    "pattern such as 'edge-*'. May be given more than once; nobody is accepted so if it is not.",
)
@probed
@click.option(
    "--silent-share",
    type=click.FloatRange(0, 1, min_open=True),
    default=DEFAULTS.silent_share,
    show_default=True,
    help="No cluster is tainted unreachable while more than this share of them is silent; 1: regardless of the others.",
)
@click.option(
    "--dashboard",
    default="",
    metavar="HOST:PORT",
    help="Serve the dashboard there, in a process of its own. It has none of the controllers' rights.",
)
@logged()
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
    allow_all: bool,
    adopt_bindings: bool,
    init_image: str,
    auto_accept: tuple[str, ...],
    metrics_listen: Address | None,
    silent_share: float,
    dashboard: str,
) -> None:
    """Run controllers in the foreground, until SIGTERM or Ctrl-C.

    Of several processes that name the same namespace for their lease, one works and the others wait.

    Whoever names controllers names all of them. With policies and federated workloads, that is:

    \b
      --controllers placement,cluster-sets,cluster-health,cluster-registration,\\
    cluster-joining,work-sets,work-expiry,policies,policy-sets,workloads
    """
    names = tuple(filter(None, (name.strip() for name in controllers.split(","))))
    names += (MULTICLUSTER,) if publish_multicluster else ()
    lease = Lease(namespace, lease_name(names)) if leader_elect else None
    try:
        settings = ControllerSettings(
            silent_share,
            trust_decisions,
            max_removals,
            timedelta(seconds=removal_grace),
            allow_all,
            adopt_bindings,
            init_image,
            auto_accept,
        )
        run_main(_serve(_RunOptions(connection, names, lease, metrics_listen, settings, dashboard)))
    except UnknownController as error:
        raise click.BadParameter(str(error), param_hint="--controllers") from error
    except (MissingKinds, ElectionImpossible, WorkDidNotStop) as error:
        raise click.ClickException(str(error)) from error


async def _serve(settings: _RunOptions) -> None:
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
