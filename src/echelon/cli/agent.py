"""`echelon agent`: makes a cluster part of a fleet, from anywhere that reaches both its API and the hub's."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from echelon.cli.connection import Connection, errors_said
from echelon.cli.listening import Address, probed
from echelon.cli.logs import logged

if TYPE_CHECKING:
    from echelon.agent.joining import Invitation


class _Duration(click.ParamType[float]):
    """Seconds, written as Kubernetes tools write them: 10s, 60m, 1h30m."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from echelon.engine.rollout import durations

        if isinstance(value, float):
            return value
        try:
            return durations.parse(str(value)).total_seconds()
        except durations.NotADuration as error:
            self.fail(str(error), param, ctx)


def _checked_hash(context: click.Context, param: click.Parameter, value: str) -> str:
    """Records are named after it, and the name of a work has to fit behind it."""
    if value and not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?", value):
        rule = "up to 64 lower-case letters, digits and '-', with a letter or digit at both ends"
        raise click.BadParameter(f"{value!r} must be {rule}", context, param)
    return value


def _read_invitation(context: click.Context, param: click.Parameter, value: str | None) -> "Invitation | None":
    from echelon.cli.agent_hub import read_invitation

    return read_invitation(context, param, value)


def _read_place(context: click.Context, param: click.Parameter, value: str) -> tuple[str, str]:
    from echelon.cli.agent_hub import read_place

    return read_place(context, param, value)


_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option("--cluster", default="", metavar="NAME", help="Name of the cluster on the hub, if nothing else says it.")
@click.option(
    "--join",
    "invitation",
    metavar="TEXT",
    callback=_read_invitation,
    help="Join a hub with what `echelon cluster join` printed there; - reads it from standard input.",
)
@click.option(
    "--hub-secret",
    default="echelon-agent/hub-identity",
    show_default=True,
    metavar="NAMESPACE/NAME",
    callback=_read_place,
    help="Secret on the cluster in which it keeps its identity on the hub.",
)
@click.option(
    "--certificate-duration",
    type=_Duration(),
    metavar="DURATION",
    help="How long a certificate should be good; as long as the hub has it if not given.",
)
@click.option("--hub-kubeconfig", type=_FILE, help="Kubeconfig of the hub, for a cluster that did not join by itself.")
@click.option("--hub-context", help="Context of the hub in its kubeconfig.")
@click.option("--kubeconfig", type=_FILE, help="Kubeconfig of the cluster; the pod's own cluster if not given.")
@click.option("--context", help="Context of the cluster in its kubeconfig.")
@click.option("--agent-id", default="", help="Tells agents apart that work for several hubs; the hub's hash if empty.")
@click.option(
    "--hub-hash",
    default="",
    callback=_checked_hash,
    help="What records on the cluster call the hub; the SHA-256 of its address, as its kubeconfig has it, if empty.",
)
@click.option(
    "--status-sync-interval",
    type=_Duration(),
    default="10s",
    show_default=True,
    help="How often to look at objects that are not watched.",
)
@click.option(
    "--appliedmanifestwork-eviction-grace-period",
    "grace",
    type=_Duration(),
    default="60m",
    show_default=True,
    help="How long objects stay after their work has vanished from the hub; 100 years is for ever.",
)
@click.option("--max-feedback-watch", default=50, show_default=True, type=click.IntRange(0), help="Most watches.")
@click.option(
    "--workload-agent-workers",
    "workers",
    default=10,
    show_default=True,
    type=click.IntRange(1),
    help="Works dealt with at once.",
)
@click.option(
    "--max-json-raw-length",
    type=click.IntRange(1, 1024),
    help="Report lists and objects as JSON up to this many bytes; not at all if not given.",
)
@click.option(
    "--feedback-from-secrets",
    is_flag=True,
    help="Let feedback rules and condition rules read what Secrets hold; it goes into the status of works on the hub.",
)
@click.option(
    "--policies/--no-policies",
    default=True,
    show_default=True,
    help="Look after the policies that the hub has for the cluster.",
)
@click.option(
    "--workloads/--no-workloads",
    default=True,
    show_default=True,
    help="Look after the federated workloads that the hub has for the cluster.",
)
@probed
@logged()
def agent(
    *,
    cluster: str,
    invitation: "Invitation | None",
    hub_secret: tuple[str, str],
    certificate_duration: float | None,
    hub_kubeconfig: Path | None,
    hub_context: str | None,
    kubeconfig: Path | None,
    context: str | None,
    agent_id: str,
    hub_hash: str,
    status_sync_interval: float,
    grace: float,
    max_feedback_watch: int,
    workers: int,
    max_json_raw_length: int | None,
    feedback_from_secrets: bool,
    policies: bool,
    workloads: bool,
    metrics_listen: Address | None,
) -> None:
    """Register a cluster with a hub and apply what the hub has for it, until SIGTERM or Ctrl-C.

    That is works, policies and federated workloads. With --join the cluster asks for its place on the hub; from then on
    it needs no options, because it keeps its identity in a Secret of its own and renews it.
    """
    by_kubeconfig = hub_kubeconfig is not None or hub_context is not None
    if by_kubeconfig and invitation is not None:
        raise click.UsageError("--join says where the hub is, so --hub-kubeconfig and --hub-context do not go with it")
    if by_kubeconfig and not cluster:
        raise click.UsageError("say which cluster this is on the hub: --cluster")

    from echelon.agent.settings import Settings
    from echelon.cli.agent_hub import JoinedHub, KubeconfigHub, trouble_said
    from echelon.cli.agent_process import AgentOptions, families_with, serve
    from echelon.cli.process import run

    settings = Settings(
        status_sync_seconds=status_sync_interval,
        eviction_grace_seconds=grace,
        max_watches=max_feedback_watch,
        works_at_once=workers,
        max_json_raw_bytes=max_json_raw_length,
        secret_values=feedback_from_secrets,
    )
    seconds = int(certificate_duration) if certificate_duration is not None else None
    hub = (
        KubeconfigHub(Connection(hub_kubeconfig, hub_context), cluster)
        if by_kubeconfig
        else JoinedHub(invitation, cluster, hub_secret, seconds)
    )
    member = Connection(kubeconfig, context)
    with errors_said(), trouble_said():
        families = families_with(policies=policies, workloads=workloads)
        run(serve(AgentOptions(hub, member, agent_id, hub_hash, settings, families, metrics_listen)))
