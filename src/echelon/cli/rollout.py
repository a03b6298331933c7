"""`echelon rollout`: watch changes move through a fleet, ask what they wait for, and say how they are to go on."""

from collections.abc import Callable
from typing import Any

import click

from echelon.cli import rollout_verbs as verbs
from echelon.cli.completing import rollouts
from echelon.cli.connection import Connection, connected, namespace_option
from echelon.cli.exit_codes import ExitCode, troubled
from echelon.cli.output import headers_option, output_option, shared_output_option
from echelon.cli.program import Group
from echelon.cli.rollout_outdated import outdated
from echelon.cli.time_span import TimeSpan

_named: Callable[[Callable[..., Any]], Callable[..., Any]] = click.argument(
    "name", metavar="[KIND/]NAME", shell_complete=rollouts
)


@click.group(cls=Group)
def rollout() -> None:
    """Watch rollouts, ask what they wait for, and steer them."""


@rollout.command("list")
@connected
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="Rollouts of all namespaces.")
@headers_option
@output_option
def list_(*, connection: Connection, namespace: str, all_namespaces: bool, no_headers: bool, output: str) -> None:
    """List rollouts, with how far they are."""
    from echelon.cli.rollout_looking import pictures

    where = "" if all_namespaces else namespace or connection.load().namespace
    found = pictures(connection, where)

    from echelon.cli.rollout_views import print_list

    print_list(found, where, output, headers=not no_headers)


@rollout.command()
@_named
@connected
@namespace_option
@shared_output_option
def status(*, name: str, connection: Connection, namespace: str, output: str) -> None:
    """Show a rollout: its groups, what moves or fails, and what the rest waits for.

    -o wide names every cluster; -o svg and -o html make a file for a chat or a ticket. The exit code says whether it
    could be read; watch has one for how it ends.
    """
    from echelon.cli.rollout_looking import picture

    found = picture(connection, name, namespace or connection.load().namespace)

    from echelon.cli.rollout_views import print_picture

    print_picture(found, output)


@rollout.command()
@_named
@connected
@namespace_option
@click.option("--timeout", type=TimeSpan(), help="Give up after so long, such as 90s or 10m, with 4.")
@click.option("--interval", type=TimeSpan(0.1), default="1s", show_default=True, help="How often to look.")
@click.option("--allow-no-clusters", is_flag=True, help="A rollout that nobody is selected for is done.")
@click.option("--wait-for-approval", is_flag=True, help="Go on while it awaits an approval, instead of ending with 8.")
@click.option(
    "--updated",
    is_flag=True,
    help="Of a PodCliqueSet under OnDelete: wait until somebody has deleted all outdated pods.",
)
def watch(
    *,
    name: str,
    connection: Connection,
    namespace: str,
    timeout: float | None,
    interval: float,
    allow_no_clusters: bool,
    wait_for_approval: bool,
    updated: bool,
) -> None:
    """Follow a rollout until it is over, or waits for people.

    A hub that restarts meanwhile is waited for.

    \b
    The exit code is
      0  it came to its end
      1  it is stopped, misconfigured, or failed
      3  it was aborted, and the earlier revision is back
      4  --timeout has passed
      8  it is held: awaits an approval, a removal is held, no clusters, disabled
    and 5, 6, 7 for what is not found, not allowed and not reachable.
    """
    from echelon.cli import rollout_watching as watching

    how = watching.Watching(
        namespace or connection.load().namespace,
        timeout,
        interval,
        allow_no_clusters=allow_no_clusters,
        wait_for_approval=wait_for_approval,
        updated=updated,
    )
    if code := watching.watch(connection, name, how):
        raise SystemExit(code)


@rollout.command()
@_named
@connected
@namespace_option
@output_option
def history(*, name: str, connection: Connection, namespace: str, output: str) -> None:
    """List the stored revisions: when they were made and complete, their images, their cause, and who steered them.

    The cause is what the annotation kubernetes.io/change-cause of the object said. What people did is what they
    did with echelon; -o wide shows all that is remembered.
    """
    from echelon.cli import rollout_history

    rollout_history.show(connection, name, namespace or connection.load().namespace, output)


@rollout.command()
@_named
@connected
@namespace_option
@click.option("--from-revision", type=int, help="Older one; the one before the newer by default.")
@click.option("--to-revision", type=int, help="Newer one; the present one by default.")
def diff(
    *, name: str, connection: Connection, namespace: str, from_revision: int | None, to_revision: int | None
) -> None:
    """Show what differs between two revisions.

    The exit code is that of diff: 0 if nothing does, 1 if something does, more if there is trouble.
    """
    from echelon.cli import rollout_history

    with troubled():
        where = namespace or connection.load().namespace
        differs = rollout_history.print_diff(connection, name, where, from_revision, to_revision)
    if differs:
        raise SystemExit(ExitCode.FAILED)


for _verb in (*verbs.COMMANDS, outdated):
    rollout.add_command(_verb)
