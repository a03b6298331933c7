"""`echelon policy`: look at policies, what clusters say of them, and what enforcing them would change."""

from collections.abc import Sequence

import click

from echelon.cli.completing import clusters as known_clusters
from echelon.cli.completing import policies
from echelon.cli.connection import Connection, connected, namespace_option
from echelon.cli.exit_codes import troubled
from echelon.cli.output import headers_option, output_option
from echelon.cli.program import Group


@click.group(cls=Group)
def policy() -> None:
    """Look at policies: compliance, and what enforcing would change.

    `echelon rollout` shows how far policies are enforced, and steers that.
    """


@policy.command("list")
@connected
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="Policies of all namespaces.")
@headers_option
@output_option
def list_(*, connection: Connection, namespace: str, all_namespaces: bool, no_headers: bool, output: str) -> None:
    """List policies, as their own status tells of them.

    C/N/P/U are the clusters that are compliant, noncompliant, pending, and of which nothing is known. DONE are those
    on which the present policy has succeeded.
    """
    from echelon.cli import policy_looking as looking

    where = "" if all_namespaces else namespace or connection.load().namespace
    looking.print_list(connection, where, output, headers=not no_headers)


@policy.command()
@click.argument("name", shell_complete=policies)
@connected
@namespace_option
@output_option
def show(*, name: str, connection: Connection, namespace: str, output: str) -> None:
    """Show the ways of a policy to its clusters, and what they say of each template. -o wide names every cluster.

    A cluster has two rollout statuses: the one that the policy's own status tells, and that of its replica. Where they
    differ, both are shown.
    """
    from echelon.cli import policy_looking as looking

    looking.show(connection, name, namespace or connection.load().namespace, output)


@policy.command()
@click.argument("name", shell_complete=policies)
@connected
@namespace_option
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME",
    shell_complete=known_clusters,
    help="Only this cluster; repeatable.",
)
@output_option
def diff(*, name: str, connection: Connection, namespace: str, clusters: Sequence[str], output: str) -> None:
    """Show what would change on clusters on which a policy is not enforced yet.

    Their agents report it, so nothing but the hub is asked. Clusters that would change in the same way are shown
    together; -o wide names all of them. The exit code is that of diff: 0 if nothing would change, 1 if something would,
    and more if there is trouble, of which 11 is that nothing is known to change and some clusters have not told yet.
    """
    from echelon.cli import policy_looking as looking

    with troubled():
        code = looking.diff(connection, name, namespace or connection.load().namespace, clusters, output)
    if code:
        raise SystemExit(code)
