"""`echelon cluster`: the life of a cluster in the fleet."""

from collections.abc import Sequence

import click

from echelon.cli.completing import clusters
from echelon.cli.connection import Connection, connected
from echelon.cli.output import output_option
from echelon.cli.program import Group
from echelon.cli.time_span import TimeSpan


@click.group(cls=Group)
def cluster() -> None:
    """Let clusters join the fleet, look at them, take them out."""


@cluster.command()
@click.argument("name", required=False, default="")
@connected
@click.option("--server", default="", metavar="URL", help="Address of the hub as the member reaches it.")
@click.option("--ttl", default="1h", show_default=True, help="How long the invitation is good: 30m, 2h.")
@click.option("--accept", "accepted", is_flag=True, help="Accept the cluster now: who asks with this invitation is it.")
def join(*, name: str, connection: Connection, server: str, ttl: str, accepted: bool) -> None:
    """Invite a cluster: print the one command that its side runs.

    The invitation is good for an hour, and for a cluster of this NAME. Without a NAME whoever uses it chooses one.
    The cluster waits for `echelon cluster accept` unless it is accepted already.
    """
    from echelon.cli import cluster_join

    cluster_join.join(connection, name, server, ttl, accepted=accepted)


@cluster.command()
@click.argument("name", shell_complete=clusters)
@connected
@click.option(
    "--request", default="", metavar="NAME", help="Of several requests of the cluster, the one that is meant."
)
def accept(*, name: str, connection: Connection, request: str) -> None:
    """Accept a cluster: approve the certificate that it asked for, and let it in.

    A request that does not have exactly the form of an agent's is not approved, and what is wrong with it is said.
    """
    from echelon.cli import cluster_join

    cluster_join.accept(connection, name, request)


@cluster.command("list")
@connected
@click.option("-l", "--selector", default="", help="Only clusters with these labels.")
@output_option
def list_(*, connection: Connection, selector: str, output: str) -> None:
    """List clusters: whether they are accepted, how they do, and when they were last heard."""
    from echelon.cli import cluster_show

    cluster_show.show_all(connection, selector, output)


@cluster.command()
@click.argument("name", shell_complete=clusters)
@connected
@output_option
def show(*, name: str, connection: Connection, output: str) -> None:
    """Show a cluster: how it does, who its agent is, and what it waits for."""
    from echelon.cli import cluster_show

    cluster_show.show(connection, name, output)


@cluster.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=clusters)
@connected
@click.option("--evict", is_flag=True, help="Take what placements have put there away, too (NoSelect).")
@click.option("--reason", default="", help="Why, for whoever looks at the cluster.")
def cordon(*, names: Sequence[str], connection: Connection, evict: bool, reason: str) -> None:
    """Keep new work away from clusters.

    Placements that have the cluster keep it, and none takes it anew, until uncordon: it gets the taint
    echelon.dev/cordoned with the effect NoSelectIfNew. With --evict the effect is NoSelect, and placements give it up.
    """
    from echelon.cli import cluster_cordon

    cluster_cordon.cordon(connection, names, evict=evict, reason=reason)


@cluster.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=clusters)
@connected
def uncordon(*, names: Sequence[str], connection: Connection) -> None:
    """Let clusters have new work again."""
    from echelon.cli import cluster_cordon

    cluster_cordon.uncordon(connection, names)


@cluster.command()
@click.argument("name", shell_complete=clusters)
@connected
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("--force", is_flag=True, help="Do not wait for the agent: it is gone, and what it applied stays.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when the cluster is gone.")
@click.option(
    "--timeout",
    type=TimeSpan(),
    default="5m",
    show_default=True,
    help="Give up waiting after so long, with exit code 4. What was begun goes on.",
)
def detach(*, name: str, connection: Connection, dry_run: bool, force: bool, wait: bool, timeout: float) -> None:
    """Take a cluster out of the fleet: its workloads, its works, its namespace on the hub, its agent's rights.

    The agent removes the workloads, so it has to run until the cluster is gone. If it never will again, --force ends
    the works without it and says what stays behind on the cluster.
    """
    from echelon.cli import cluster_detach

    cluster_detach.detach(connection, name, dry_run=dry_run, force=force, patience=timeout if wait else None)
