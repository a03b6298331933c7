"""`echelon crds`: what has to be applied to a Kubernetes cluster before Echelon can work on it."""

from pathlib import Path

import click

from echelon.cli.connection import Connection, errors_said


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="Format to print.")
@click.option("--controllers", metavar="NAME,...", help="For these controllers of `echelon run`, not for the usual.")
@click.option("--all", "everything", is_flag=True, help="All kinds that Echelon knows.")
@click.option("--member", is_flag=True, help="For a member cluster; its agent makes them, if it may.")
@click.option(
    "--multicluster",
    "foreign",
    is_flag=True,
    help="Those of SIG Multicluster that `echelon run --publish-multicluster` needs, instead of Echelon's own.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Leave out what the hub of this kubeconfig has from somebody else.",
)
@click.option("--context", help="Context in the kubeconfig.")
def crds(
    *,
    names: tuple[str, ...],
    output: str,
    controllers: str | None,
    everything: bool,
    member: bool,
    foreign: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Print the CustomResourceDefinitions that a hub needs, and the admission policies that guard them.

    They are for `kubectl apply --server-side -f -`, which says so when a field of a definition is somebody else's.
    Without options they are those for `echelon run` without options.

    A NAME is that of a CRD or its first part: placements.cluster.open-cluster-management.io or placements; or that of
    an admission policy.
    """
    ways = [bool(names), controllers is not None, everything, member, foreign]
    if sum(ways) > 1:
        raise click.UsageError("give names, or one of --controllers, --all, --member and --multicluster")

    from echelon.cli import crds_choosing as choosing
    from echelon.cli.output import print_documents

    if names:
        chosen = choosing.named(names)
    elif foreign:
        chosen = choosing.foreign()
    elif member:
        chosen = choosing.on_members()
    elif everything:
        chosen = choosing.everything()
    else:
        chosen = choosing.needed(controllers)
    if kubeconfig is not None or context is not None:
        with errors_said():
            chosen = choosing.without_foreign(Connection(kubeconfig, context), chosen)
    print_documents(chosen, output)
