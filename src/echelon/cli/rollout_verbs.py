"""The verbs of `echelon rollout`, which tell a rollout how to go on."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from echelon.cli.completing import rollouts
from echelon.cli.connection import Connection, connected, namespace_option
from echelon.cli.terminal import clean, echo


def _steered(command: Callable[..., Any]) -> Callable[..., Any]:
    named = click.argument("name", metavar="[KIND/]NAME", shell_complete=rollouts)
    return named(connected(namespace_option(command)))


@click.command()
@_steered
def pause(*, name: str, connection: Connection, namespace: str) -> None:
    """Let nothing new start. What is in flight goes on."""
    _tell(connection, name, namespace, "pause")


@click.command()
@_steered
def resume(*, name: str, connection: Connection, namespace: str) -> None:
    """Go on after a pause, or after too many failures where those are final."""
    _tell(connection, name, namespace, "resume")


@click.command()
@_steered
def promote(*, name: str, connection: Connection, namespace: str) -> None:
    """Skip the rest of the soak of all clusters that have succeeded so far."""
    _tell(connection, name, namespace, "promote")


@click.command()
@_steered
def retry(*, name: str, connection: Connection, namespace: str) -> None:
    """Give all clusters that failed or timed out another chance, and an aborted revision too."""
    _tell(connection, name, namespace, "retry")


@click.command()
@_steered
def abort(*, name: str, connection: Connection, namespace: str) -> None:
    """Give the present revision up: the last one that was complete is put back everywhere, at once."""
    _tell(connection, name, namespace, "abort")


@click.command()
@_steered
@click.option(
    "--group",
    "groups",
    multiple=True,
    help="Group by name or index, or PLACEMENT/GROUP; repeatable. All that wait by default.",
)
@click.option("--removal", is_flag=True, help="Let the clusters that nobody selects any more lose what they have.")
def approve(*, name: str, connection: Connection, namespace: str, groups: Sequence[str], removal: bool) -> None:
    """Let groups start that wait for an approval of the present revision, or a removal go on that is held."""
    if removal and groups:
        raise click.UsageError("--removal approves what is removed, --group what starts: name one of them")
    _tell(connection, name, namespace, "approve", groups=tuple(groups), removal=removal)


@click.command()
@_steered
@click.option("--to-revision", type=int, help="Revision to go back to; the last that was complete by default.")
def undo(*, name: str, connection: Connection, namespace: str, to_revision: int | None) -> None:
    """Write a stored revision into the spec. It is rolled out like any other change."""
    _tell(connection, name, namespace, "undo", to_revision=to_revision)


COMMANDS = (pause, resume, promote, retry, abort, approve, undo)


def _tell(connection: Connection, name: str, namespace: str, verb: str, **more: Any) -> None:
    import asyncio

    from echelon.rollouts.steering import Change, UnknownGroup, Wish, steer

    async def told() -> tuple[str, Change]:
        async with connection.open() as client:
            found, change = await steer(client, name, where, Wish(verb, **more))
        return found.title, change

    where = namespace or connection.load().namespace
    try:
        title, change = asyncio.run(told())
    except UnknownGroup as error:
        raise click.BadParameter(clean(error.message), param_hint="--group") from error
    for note in change.notes:
        echo(note, err=True)
    echo(f"rollout {title} {change.done}")
