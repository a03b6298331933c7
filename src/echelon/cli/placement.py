"""`echelon placement`: look at placements, ask why a cluster was or was not chosen, have groups cut again."""

from collections.abc import Sequence
from typing import TextIO

import click

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
    "-f", "--filename", type=click.File(), help="Explain the placement in this file instead, which need not be stored."
)
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
    filename: TextIO | None,
    clusters: Sequence[str],
    output: str,
) -> None:
    """Tell for every cluster whether a placement selects it, and why not, or with which score.

    This is computed now, from what the hub has, and does not depend on a controller that runs. With a file it tells
    what would come of a placement, or of a change to one, before it is applied.
    """
    from echelon.cli import placement_looking as looking

    where = namespace or connection.load().namespace
    if (name is None) == (filename is None):
        raise click.UsageError("name a placement, or give a file with one")
    looking.print_explanation(connection, filename or name or "", where, clusters, output)


@placement.command()
@click.argument("name", shell_complete=placements)
@connected
@namespace_option
def regroup(*, name: str, connection: Connection, namespace: str) -> None:
    """Have the decision groups of a placement cut again from scratch, once."""
    from echelon.cli import placement_looking as looking

    looking.regroup(connection, name, namespace or connection.load().namespace)
