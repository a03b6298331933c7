"""`echelon placement`: look at placements, ask why a cluster was or was not chosen, have groups cut again."""

from collections.abc import Sequence
from pathlib import Path

import click

from echelon.cli.change_options import fleet_option, recursive_option
from echelon.cli.completing import clusters as known_clusters
from echelon.cli.completing import placements
from echelon.cli.connection import Connection, connected, namespace_option
from echelon.cli.output import headers_option, output_option
from echelon.cli.program import Group


@click.group(cls=Group)
def placement() -> None:
    """Look at placements, and ask why."""


@placement.command("list")
@connected
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="Placements of all namespaces.")
@headers_option
@output_option
def list_(*, connection: Connection, namespace: str, all_namespaces: bool, no_headers: bool, output: str) -> None:
    """List placements, with what they selected."""
    from echelon.cli import placement_looking as looking

    where = "" if all_namespaces else namespace or connection.load().namespace
    looking.print_list(connection, where, output, headers=not no_headers)


@placement.command()
@click.argument("name", shell_complete=placements)
@connected
@namespace_option
@output_option
def show(*, name: str, connection: Connection, namespace: str, output: str) -> None:
    """Show the groups, decisions and clusters of a placement. With -o wide all clusters are listed."""
    from echelon.cli import placement_looking as looking

    looking.show(connection, name, namespace or connection.load().namespace, output)


@placement.command("explain")
@click.argument("name", required=False, shell_complete=placements)
@connected
@namespace_option
@click.option(
    "-f",
    "--filename",
    "sources",
    multiple=True,
    help="Explain with these files applied, which change nothing; repeatable.",
)
@recursive_option
@fleet_option
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME",
    shell_complete=known_clusters,
    help="Only this cluster; repeatable.",
)
@output_option
def explain_(
    *,
    name: str | None,
    connection: Connection,
    namespace: str,
    sources: Sequence[str],
    recursive: bool,
    fleet: Path | None,
    clusters: Sequence[str],
    output: str,
) -> None:
    """Tell for every cluster whether a placement selects it, and why not, or with which score.

    This is computed now, from what the hub has, and does not depend on a controller that runs. With files, the same as
    echelon plan takes, it tells what would come of the placement in them, or of the named one when something around it
    changes, and who would come, go and move.
    """
    if name is None and not sources:
        raise click.UsageError("name a placement, or give a file with one")
    if fleet is not None and not sources:
        raise click.UsageError("--fleet is for files: give some with -f")
    from echelon.cli import placement_looking as looking

    if sources:
        from echelon.cli.plan_explaining import explained

        told, change = explained(
            connection, fleet, sources, namespace=namespace, name=name, clusters=clusters, recursive=recursive
        )
        looking.print_explanation(told, output, details=bool(clusters))
        looking.print_membership(change, output)
    else:
        told = looking.explained(connection, name or "", namespace or connection.load().namespace, clusters)
        looking.print_explanation(told, output, details=bool(clusters))


@placement.command()
@click.argument("name", shell_complete=placements)
@connected
@namespace_option
def regroup(*, name: str, connection: Connection, namespace: str) -> None:
    """Have the decision groups of a placement cut again from scratch, once."""
    from echelon.cli import placement_looking as looking

    looking.regroup(connection, name, namespace or connection.load().namespace)
