"""`echelon run`: controllers in the foreground, against any hub."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from echelon.cli.connection import Connection, connected
from echelon.cli.controller_options import removals_told
from echelon.cli.listening import Address, probed
from echelon.cli.logs import logged

if TYPE_CHECKING:
    from echelon.engine.rollout.thresholds import Threshold

# Written down again, because help is to be quick, and whoever knows these imports every controller. A test compares.
USUAL = "placement,cluster-sets,cluster-health,cluster-registration,cluster-joining,work-sets,work-expiry"
LEASE_NAMESPACE = "echelon-system"
SILENT_SHARE = 0.55


@click.command()
@connected
@click.option(
    "--controllers",
    default=USUAL,
    show_default=True,
    metavar="NAME,...",
    help="Controllers to run. Those of policies (policies, policy-sets), of federated workloads (workloads, "
    "for all of them) and of PodCliqueSets (pod-cliques, on a cluster that runs pods) run where they are named: "
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
@removals_told
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
    default=SILENT_SHARE,
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
    max_removals: "Threshold",
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
    from echelon.cli.process import run as run_main
    from echelon.cli.run_process import RunOptions, serve
    from echelon.controllers.running import MULTICLUSTER, Lease, MissingKinds, UnknownController, lease_name
    from echelon.controllers.settings import ControllerSettings
    from echelon.kube.leader import ElectionImpossible, WorkDidNotStop

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
        run_main(serve(RunOptions(connection, names, lease, metrics_listen, settings, dashboard)))
    except UnknownController as error:
        raise click.BadParameter(str(error), param_hint="--controllers") from error
    except (MissingKinds, ElectionImpossible, WorkDidNotStop) as error:
        raise click.ClickException(str(error)) from error
