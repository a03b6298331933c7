"""`echelon rollout outdated`: the pods that OnDelete left, and a way to work through them that keeps a set serving."""

import click
from click.core import ParameterSource

from echelon.cli.completing import rollouts
from echelon.cli.connection import Connection, connected, namespace_option
from echelon.cli.output import output_option


@click.command()
@click.argument("name", metavar="[podcliqueset/]NAME", shell_complete=rollouts)
@connected
@namespace_option
@click.option("--delete", is_flag=True, help="Delete them, in an order that keeps minAvailable.")
@click.option(
    "--max",
    "most",
    default="1",
    show_default=True,
    metavar="N|P%",
    help="With --delete: how many at most, or which share of the outdated ones.",
)
@click.option("--dry-run", is_flag=True, help="With --delete: say what would be deleted, and delete nothing.")
@output_option
def outdated(
    *, name: str, connection: Connection, namespace: str, delete: bool, most: str, dry_run: bool, output: str
) -> None:
    """List the pods of a PodCliqueSet that run an older template, or delete some of them.

    Under OnDelete the controller replaces no pod because of an edit; whoever deletes one gets it back with the new
    template. --delete takes those first that are not ready, then the oldest revisions. A ready pod is left where its
    clique, or its scaling group, would have fewer ready than it needs. What stays is told, with its reason; once the
    replacements are ready, the same command goes on.
    """
    from echelon.cli import outdated_pods

    limit = outdated_pods.read_limit(most)
    if dry_run and not delete:
        raise click.UsageError("--dry-run says what --delete would do: name both")
    given = click.get_current_context().get_parameter_source("most")
    if given is not ParameterSource.DEFAULT and not delete:
        raise click.UsageError("--max limits what --delete takes: name both")
    where = namespace or connection.load().namespace
    if delete:
        outdated_pods.take(connection, name, where, limit, output, dry_run=dry_run)
    else:
        outdated_pods.show(connection, name, where, output)
