"""Tells a rollout how to go on: verbs write annotations, or the spec for undo, and the controller does the rest."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from echelon.cli.connection import Connection, connected
from echelon.cli.placement import namespace_option
from echelon.cli.rollout_kinds import RolloutKind, find
from echelon.cli.rollout_picture import COMPLETE, LEFT
from echelon.cli.rollout_reading import Found
from echelon.cli.terminal import echo
from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout import control
from echelon.engine.rollout.control import Annotations
from echelon.engine.rollout.departures import listed
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.history import load
from echelon.engine.rollout.model import group_names
from echelon.engine.rollout.removal import approve_removal
from echelon.engine.rollout.secret_data import SECRET_DATA
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.kube.client import Client, JSONPatch, MergePatch
from echelon.kube.errors import Conflict

T = TypeVar("T")

_TRIES = 8
_Tell = Callable[[Found], Annotations]


def _steered(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("name", metavar="[KIND/]NAME")(connected(namespace_option(command)))


@click.command()
@_steered
def pause(*, name: str, connection: Connection, namespace: str) -> None:
    """Let nothing new start. What is in flight goes on."""
    done = "is paused; echelon rollout resume lets it go on"
    _tell(connection, name, namespace, lambda _: control.pause(), done, verb="pause")


@click.command()
@_steered
def resume(*, name: str, connection: Connection, namespace: str) -> None:
    """Go on after a pause, or after too many failures where those are final."""
    _tell(connection, name, namespace, lambda _: control.resume(datetime.now(UTC)), "goes on", verb="resume")


@click.command()
@_steered
def promote(*, name: str, connection: Connection, namespace: str) -> None:
    """Skip the rest of the soak of all clusters that have succeeded so far."""
    now = datetime.now(UTC)
    done = "is promoted: what succeeded has soaked enough"
    _tell(connection, name, namespace, lambda _: control.promote(now), done, verb="promote")


@click.command()
@_steered
def retry(*, name: str, connection: Connection, namespace: str) -> None:
    """Give all clusters that failed or timed out another chance, and an aborted revision too."""
    now = datetime.now(UTC)
    _tell(connection, name, namespace, lambda _: control.retry(now), "tries again what failed", verb="retry")


@click.command()
@_steered
def abort(*, name: str, connection: Connection, namespace: str) -> None:
    """Give the present revision up: the last one that was complete is put back everywhere, at once."""

    if asyncio.run(_abort_by_undo(connection, name, namespace or connection.load().namespace)):
        return

    def tell(found: Found) -> Annotations:
        rollout = roll_out(found.subject, datetime.now(UTC))
        if rollout.complete or rollout.was_complete:
            meta = found.subject.metadata
            raise click.ClickException(
                f"{found.title} is complete, so there is nothing to abort; "
                f"echelon rollout undo {found.name} -n {meta.namespace} brings an earlier revision back"
            )
        last = _last_complete(found.subject.revisions, found.subject.revision)
        if last is not None and last.content is None:
            back = rollout.history.completed
            instead = f"revision {back.number} is put back instead" if back is not None else "nothing new starts"
            echo(f"{_unusable(last)}: {instead}", err=True)
        elif rollout.history.completed is None:
            rest = "released clusters are held again" if found.recalls else "nothing is put back"
            echo(f"no earlier revision was ever complete: {rest}, nothing new starts", err=True)
        return control.abort(found.subject.revision)

    _tell(
        connection, name, namespace, tell, "is aborted; a new revision or echelon rollout retry ends that", verb="abort"
    )


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

    def tell(found: Found) -> Annotations:
        if removal:
            return _removal(found)
        known = _names(found)
        if unknown := [group for group in groups if group not in known]:
            raise click.BadParameter(
                f"there is no group {unknown[0]}; there are {', '.join(known)}", param_hint="--group"
            )
        existing = found.subject.metadata.annotations.get(control.APPROVED, "")
        return control.approve(found.subject.revision, groups or _waiting(found), existing)

    _tell(connection, name, namespace, tell, "has its approval", verb="approve")


@click.command()
@_steered
@click.option("--to-revision", type=int, help="Revision to go back to; the last that was complete by default.")
def undo(*, name: str, connection: Connection, namespace: str, to_revision: int | None) -> None:
    """Write a stored revision into the spec. It is rolled out like any other change."""
    where = namespace or connection.load().namespace
    title, number = asyncio.run(_undo(connection, name, where, to_revision))
    echo(f"rollout {title} goes back to revision {number}")


COMMANDS = (pause, resume, promote, retry, abort, approve, undo)


def pick(
    stored: Sequence[StoredRevision], number: int | None, default: StoredRevision | None, title: str
) -> StoredRevision:
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


def _last_complete(stored: Sequence[StoredRevision], present: str) -> StoredRevision | None:
    """Return the last revision before the present one that was complete, whether or not it can be put back."""
    found = load([replace(each, content={}) for each in stored], present).completed
    return next((each for each in stored if found is not None and each.name == found.name), None)


def _unusable(revision: StoredRevision) -> str:
    """Say why a revision cannot be put back."""
    if not revision.secrets_lost:
        return f"revision {revision.number} cannot be read: {revision.name} has no content"
    return (
        f"revision {revision.number} cannot be put back: what the Secrets in it held is no longer kept "
        f"in the annotation {SECRET_DATA}"
    )


def _tell(connection: Connection, name: str, namespace: str, tell: _Tell, done: str, *, verb: str) -> None:
    async def say(client: Client, found: Found, _: RolloutKind) -> str:
        _refuse(found, verb)
        await _annotate(client, found, tell(found))
        return found.title

    title = asyncio.run(_read_and(say, connection, name, namespace or connection.load().namespace))
    echo(f"rollout {title} {done}")


async def _read_and(
    do: Callable[[Client, Found, RolloutKind], Awaitable[T]], connection: Connection, name: str, namespace: str
) -> T:
    """Do something with what was read; once more if somebody was faster, as the controller is with its status."""
    async with connection.open() as client:
        for _ in range(_TRIES - 1):
            kind, found = await find(client, name, namespace)
            with suppress(Conflict):
                return await do(client, found, kind)
        kind, found = await find(client, name, namespace)
        return await do(client, found, kind)


async def _annotate(client: Client, found: Found, annotations: Annotations) -> None:
    """Write annotations, unless somebody changed the object after it was read: they may depend on what was read."""
    meta = found.subject.metadata
    body = {"metadata": {"annotations": annotations, "uid": meta.uid, "resourceVersion": meta.resource_version}}
    await client.patch(found.subject.kind.untyped(), meta.name, MergePatch(body), meta.namespace)


def _removal(found: Found) -> Annotations:
    """Approve what is held now, and say whom that is about; an error if nothing is held."""
    held = tuple(roll_out(found.subject, datetime.now(UTC)).allocations.removal.held) or found.losing
    if not held:
        raise click.ClickException("no removal is held")
    echo(f"{len(held)} clusters lose what they have: {listed(held)}", err=True)
    return approve_removal(held)


def _groups(found: Found) -> list[GroupKey]:
    """Return the groups of all placements, which say of which one they are if there are several."""
    refs = found.subject.references
    return [
        replace(key, placement=ref.name) if len(refs) > 1 else key
        for ref in refs
        if ref.placement is not None
        for key in sorted(ref.placement.groups.groups)
    ]


def _names(found: Found) -> list[str]:
    return list(dict.fromkeys(name for key in _groups(found) for name in sorted(group_names(key), reverse=True)))


def _waiting(found: Found) -> list[str]:
    """Return the groups that need an approval; an error if none does."""
    told = roll_out(found.subject, datetime.now(UTC)).control
    held = [control.approval_name(key) for key in _groups(found) if told.holds_back(key)]
    if not held:
        raise click.ClickException("no group waits for an approval")
    return list(dict.fromkeys(held))


def _refuse(found: Found, verb: str) -> None:
    """Say why a verb means nothing for a rollout, if so."""
    if why := found.refused.get(verb):
        raise click.ClickException(f"{verb} does nothing for {found.kind.singular} {found.title}: {why}")


async def _abort_by_undo(connection: Connection, name: str, namespace: str) -> bool:
    """Abort what has no way back of its own: write the revision before the present one. False if it has one."""
    async with connection.open() as client:
        _, found = await find(client, name, namespace)
    if found.undo is None:
        return False
    picture = found.picture(datetime.now(UTC))
    if picture.state in (COMPLETE, LEFT):
        raise click.ClickException(
            f"{found.title} is complete, so there is nothing to abort; "
            f"echelon rollout undo {found.name} -n {namespace} brings an earlier revision back"
        )
    title, number = await _undo(connection, name, namespace, None)
    echo(f"rollout {title} is aborted: it goes back to revision {number}")
    return True


async def _undo(connection: Connection, name: str, namespace: str, number: int | None) -> tuple[str, int]:
    async def write(client: Client, found: Found, kind: RolloutKind) -> tuple[str, int]:
        _refuse(found, "undo")
        stored, meta = found.subject.revisions, found.subject.metadata
        present = found.subject.revision
        earlier = found.previous or _last_complete(stored, present)
        if number is None and earlier is None:
            there = ", ".join(str(each.number) for each in stored if each.revision != present) or "none"
            raise click.ClickException(
                f"no earlier revision of {found.title} was complete; --to-revision names one that was not: {there}"
            )
        chosen = pick(stored, number, earlier, found.title)
        if chosen.revision == present:
            raise click.ClickException(f"revision {chosen.number} is the present one")
        if chosen.content is None:
            others = [str(each.number) for each in stored if each.revision != present and each.content is not None]
            there = f"--to-revision names another: {', '.join(others)}" if others else "there is no other"
            raise click.ClickException(f"{_unusable(chosen)}; {there}")
        unchanged = {"op": "test", "path": "/metadata/generation", "value": meta.generation}
        patch = JSONPatch([unchanged, *(found.undo or kind.undo)(chosen)])
        await client.patch(found.kind.untyped(), found.name, patch, meta.namespace)
        return found.title, chosen.number

    return await _read_and(write, connection, name, namespace)
