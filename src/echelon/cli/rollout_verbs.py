"""Tells a rollout how to go on: verbs write annotations, or the spec for undo, and the controller does the rest."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli.connection import Connection, connected
from echelon.cli.placement import namespace_option
from echelon.cli.rollout_reading import Found, read
from echelon.engine.rollout import control
from echelon.engine.rollout.control import Annotations
from echelon.engine.rollout.removal import approve_removal
from echelon.engine.work_set.history import recall
from echelon.engine.work_set.leaving import listed
from echelon.engine.work_set.rollout import roll_out
from echelon.engine.work_set.view import RevisionView
from echelon.kube.client import Client, JSONPatch, MergePatch
from echelon.kube.errors import Conflict

T = TypeVar("T")

_TRIES = 8
_Tell = Callable[[Found], Annotations]


def _steered(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("name")(connected(namespace_option(command)))


@click.command()
@_steered
def pause(*, name: str, connection: Connection, namespace: str) -> None:
    """Let nothing new start. What is in flight goes on."""
    _tell(connection, name, namespace, lambda _: control.pause(), "is paused; echelon rollout resume lets it go on")


@click.command()
@_steered
def resume(*, name: str, connection: Connection, namespace: str) -> None:
    """Go on after a pause, or after too many failures where those are final."""
    _tell(connection, name, namespace, lambda _: control.resume(datetime.now(UTC)), "goes on")


@click.command()
@_steered
def promote(*, name: str, connection: Connection, namespace: str) -> None:
    """Skip the rest of the soak of all clusters that have succeeded so far."""
    now = datetime.now(UTC)
    _tell(connection, name, namespace, lambda _: control.promote(now), "is promoted: what succeeded has soaked enough")


@click.command()
@_steered
def retry(*, name: str, connection: Connection, namespace: str) -> None:
    """Give all clusters that failed or timed out another chance, and an aborted revision too."""
    now = datetime.now(UTC)
    _tell(connection, name, namespace, lambda _: control.retry(now), "tries its failed clusters again")


@click.command()
@_steered
def abort(*, name: str, connection: Connection, namespace: str) -> None:
    """Give the present revision up: the last one that was complete is put back everywhere, at once."""

    def tell(found: Found) -> Annotations:
        rollout = roll_out(found.view, datetime.now(UTC))
        if rollout.complete or rollout.was_complete:
            meta = found.view.work_set.metadata
            raise click.ClickException(
                f"{meta.namespace}/{meta.name} is complete, so there is nothing to abort; "
                f"echelon rollout undo {meta.name} -n {meta.namespace} brings an earlier revision back"
            )
        if rollout.past.completed is None:
            click.echo("no earlier revision was ever complete: nothing is put back, nothing new starts", err=True)
        return control.abort(found.view.content.digest)

    _tell(connection, name, namespace, tell, "is aborted; a new template or echelon rollout retry ends that")


@click.command()
@_steered
@click.option("--group", "groups", multiple=True, help="Group by name or index; repeatable. All that wait by default.")
@click.option("--removal", is_flag=True, help="Let the clusters that nobody selects any more lose what they have.")
def approve(*, name: str, connection: Connection, namespace: str, groups: Sequence[str], removal: bool) -> None:
    """Let groups start that wait for an approval of the present revision, or a removal go on that is held."""
    if removal and groups:
        raise click.UsageError("--removal approves what is removed, --group what starts: name one of them")

    def tell(found: Found) -> Annotations:
        if removal:
            return _removal(found)
        known = _groups(found)
        if unknown := [group for group in groups if group not in known]:
            raise click.BadParameter(
                f"there is no group {unknown[0]}; there are {', '.join(known)}", param_hint="--group"
            )
        existing = found.view.work_set.metadata.annotations.get(control.APPROVED, "")
        return control.approve(found.view.content.digest, groups or _waiting(found), existing)

    _tell(connection, name, namespace, tell, "has its approval")


@click.command()
@_steered
@click.option("--to-revision", type=int, help="Revision to go back to; the last that was complete by default.")
def undo(*, name: str, connection: Connection, namespace: str, to_revision: int | None) -> None:
    """Write a stored revision into the spec. It is rolled out like any other change."""
    where = namespace or connection.load().namespace
    number = asyncio.run(_undo(connection, name, where, to_revision))
    click.echo(f"rollout {where}/{name} goes back to revision {number}")


COMMANDS = (pause, resume, promote, retry, abort, approve, undo)


def pick(stored: Sequence[RevisionView], number: int | None, default: RevisionView | None, title: str) -> RevisionView:
    """Return the revision of a number, or the default."""
    if number is None:
        if default is None:
            raise click.ClickException(f"{title} has no earlier revision")
        return default
    for each in stored:
        if each.number == number:
            return each
    there = ", ".join(str(each.number) for each in stored) or "none"
    raise click.ClickException(f"{title} has no revision {number}; there are {there}")


def _tell(connection: Connection, name: str, namespace: str, tell: _Tell, done: str) -> None:
    where = namespace or connection.load().namespace

    async def say(client: Client, found: Found) -> None:
        await _annotate(client, found, tell(found))

    asyncio.run(_read_and(say, connection, name, where))
    click.echo(f"rollout {where}/{name} {done}")


async def _read_and(
    do: Callable[[Client, Found], Awaitable[T]], connection: Connection, name: str, namespace: str
) -> T:
    """Do something with what was read; once more if somebody was faster, as the controller is with its status."""
    async with connection.open() as client:
        for _ in range(_TRIES - 1):
            with suppress(Conflict):
                return await do(client, await read(client, name, namespace))
        return await do(client, await read(client, name, namespace))


async def _annotate(client: Client, found: Found, annotations: Annotations) -> None:
    """Write annotations, unless somebody changed the set after it was read: they may depend on what was read."""
    meta = found.view.work_set.metadata
    body = {"metadata": {"annotations": annotations, "uid": meta.uid, "resourceVersion": meta.resource_version}}
    await client.patch(MANIFEST_WORK_REPLICA_SET.untyped(), meta.name, MergePatch(body), meta.namespace)


def _removal(found: Found) -> Annotations:
    """Approve what is held now, and say whom that is about; an error if nothing is held."""
    held = roll_out(found.view, datetime.now(UTC)).sharing.removal.held
    if not held:
        raise click.ClickException("no removal is held")
    click.echo(f"{len(held)} clusters lose what they have: {listed(held)}", err=True)
    return approve_removal(held)


def _groups(found: Found) -> list[str]:
    keys = [key for ref in found.view.refs if ref.placement for key in sorted(ref.placement.groups.groups)]
    return list(dict.fromkeys(name for key in keys for name in (key.name, str(key.index)) if name))


def _waiting(found: Found) -> list[str]:
    """Return the groups that need an approval; an error if none does."""
    told = roll_out(found.view, datetime.now(UTC)).control
    keys = [key for ref in found.view.refs if ref.placement for key in sorted(ref.placement.groups.groups)]
    held = [control.approval_name(key) for key in keys if told.holds_back(key)]
    if not held:
        raise click.ClickException("no group waits for an approval")
    return list(dict.fromkeys(held))


async def _undo(connection: Connection, name: str, namespace: str, number: int | None) -> int:
    async def write(client: Client, found: Found) -> int:
        stored, meta = found.view.revisions, found.view.work_set.metadata
        present = found.view.content.digest
        earlier = recall(stored, present, None).completed
        if number is None and earlier is None:
            there = ", ".join(str(each.number) for each in stored if each.revision != present) or "none"
            raise click.ClickException(
                f"no earlier revision of {namespace}/{name} was complete; --to-revision names one that was not: {there}"
            )
        chosen = pick(stored, number, earlier, f"{namespace}/{name}")
        if chosen.revision == present:
            raise click.ClickException(f"revision {chosen.number} is the present one")
        if chosen.template is None:
            raise click.ClickException(f"revision {chosen.number} cannot be read: {chosen.name} has no template")
        unchanged = {"op": "test", "path": "/metadata/generation", "value": meta.generation}
        change = {"op": "replace", "path": "/spec/manifestWorkTemplate", "value": chosen.template}
        await client.patch(MANIFEST_WORK_REPLICA_SET.untyped(), name, JSONPatch([unchanged, change]), namespace)
        return chosen.number

    return await _read_and(write, connection, name, namespace)
