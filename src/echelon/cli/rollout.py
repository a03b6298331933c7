"""`echelon rollout`: watch changes move through a fleet, ask what they wait for, and say how they are to go on."""

import asyncio
import difflib
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click
import yaml

from echelon.api.base import JSONObject
from echelon.cli import rollout_verbs as verbs
from echelon.cli.columns import print_columns
from echelon.cli.connection import Connection, connected
from echelon.cli.output import is_document, output_option, print_document
from echelon.cli.placement import namespace_option
from echelon.cli.rollout_outdated import outdated
from echelon.cli.rollout_tree import Screen, columns, tree
from echelon.cli.terminal import echo, style
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.rollouts.kinds import RolloutKind, find, find_all
from echelon.rollouts.picture import (
    COMPLETE,
    DONE,
    FAILED,
    FINISHED,
    LEFT,
    MOVING,
    SOAKING,
    TIMED_OUT,
    Picture,
    document,
)
from echelon.rollouts.reading import Found
from echelon.rollouts.steering import pick


@click.group()
def rollout() -> None:
    """Watch rollouts, ask what they wait for, and steer them."""


@rollout.command("list")
@connected
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="Rollouts of all namespaces.")
@output_option
def list_(*, connection: Connection, namespace: str, all_namespaces: bool, output: str) -> None:
    """List rollouts, with how far they are."""
    where = "" if all_namespaces else namespace or connection.load().namespace
    pictures = asyncio.run(_pictures(connection, where))
    if is_document(output):
        print_document([document(each) for each in pictures], output)
        return
    if not pictures:
        echo(f"No rollouts found in {f'namespace {where}' if where else 'any namespace'}.", err=True)
        return
    headers = ["Name", "State", "Done", "InFlight", "Failed", "At", "Revision", "Age"]
    wide = output == "wide"
    several = len({each.kind for each in pictures}) > 1
    rows = [_row(each, wide=wide, several=several) for each in pictures]
    if all_namespaces:
        headers, rows = ["Namespace", *headers], [[e.namespace, *row] for e, row in zip(pictures, rows, strict=True)]
    print_columns([*headers, *(["Message"] if wide else [])], rows)


@rollout.command()
@click.argument("name", metavar="[KIND/]NAME")
@connected
@namespace_option
@output_option
def status(*, name: str, connection: Connection, namespace: str, output: str) -> None:
    """Show a rollout: its groups, what moves or fails, and what the rest waits for. -o wide names every cluster."""
    picture = asyncio.run(_picture(connection, name, namespace or connection.load().namespace))
    if is_document(output):
        print_document(document(picture), output)
        return
    for line in tree(picture, everything=output == "wide", width=columns()):
        echo(line)


@rollout.command()
@click.argument("name", metavar="[KIND/]NAME")
@connected
@namespace_option
@click.option("--timeout", type=float, metavar="SECONDS", help="Give up after so long, with exit code 1.")
@click.option("--interval", type=click.FloatRange(min=0.1), default=1.0, show_default=True, metavar="SECONDS")
@click.option(
    "--updated",
    is_flag=True,
    help="Of a PodCliqueSet under OnDelete: wait until somebody has deleted all outdated pods.",
)
def watch(
    *, name: str, connection: Connection, namespace: str, timeout: float | None, interval: float, updated: bool
) -> None:
    """Follow a rollout until it is over, or waits for people. The exit code is 0 only if it came to its end."""
    where = namespace or connection.load().namespace
    picture = asyncio.run(_watch(connection, name, where, timeout, interval, updated=updated))
    if picture.state not in (COMPLETE, FINISHED, LEFT):
        raise SystemExit(1)


@rollout.command()
@click.argument("name", metavar="[KIND/]NAME")
@connected
@namespace_option
@output_option
def history(*, name: str, connection: Connection, namespace: str, output: str) -> None:
    """List the stored revisions of what a rollout brings."""
    where = namespace or connection.load().namespace
    kind, found = asyncio.run(_found(connection, name, where))
    rows = [_revision(each, found.subject.revision, kind) for each in found.subject.revisions]
    if is_document(output):
        print_document(rows, output)
    elif not rows:
        echo(f"{found.title} has no stored revisions yet.", err=True)
    else:
        print_columns(list(rows[0]), [list(row.values()) for row in rows])


@rollout.command()
@click.argument("name", metavar="[KIND/]NAME")
@connected
@namespace_option
@click.option("--from-revision", type=int, help="Older one; the one before the newer by default.")
@click.option("--to-revision", type=int, help="Newer one; the present one by default.")
def diff(
    *, name: str, connection: Connection, namespace: str, from_revision: int | None, to_revision: int | None
) -> None:
    """Show what differs between two revisions. The exit code is 1 if anything does, as with diff."""
    where = namespace or connection.load().namespace
    lines = asyncio.run(_diff(connection, name, where, from_revision, to_revision))
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        echo(style(line, fg=colour))
    if lines:
        raise SystemExit(1)


for _verb in (*verbs.COMMANDS, outdated):
    rollout.add_command(_verb)


def _row(each: Picture, *, wide: bool, several: bool) -> list[object]:
    at = next((group.title for group in each.groups if group.active), None) if each.state != COMPLETE else None
    counts = each.counts
    return [
        f"{each.kind}/{each.name}" if several else each.name,
        each.state,
        f"{counts.get(DONE, 0)}/{each.total}",
        counts.get(MOVING, 0) + counts.get(SOAKING, 0),
        counts.get(FAILED, 0) + counts.get(TIMED_OUT, 0),
        at,
        each.number or None,
        each.age,
        *([each.message] if wide else []),
    ]


def _revision(each: StoredRevision, present: str, kind: RolloutKind) -> JSONObject:
    return {
        "revision": each.number,
        "hash": each.revision,
        "present": each.revision == present,
        "completed": each.completed or None,
        **kind.describe(each),
    }


async def _found(connection: Connection, name: str, namespace: str) -> tuple[RolloutKind, Found]:
    async with connection.open() as client:
        return await find(client, name, namespace)


async def _picture(connection: Connection, name: str, namespace: str) -> Picture:
    _, found = await _found(connection, name, namespace)
    return found.picture(datetime.now(UTC))


async def _pictures(connection: Connection, namespace: str) -> list[Picture]:
    async with connection.open() as client:
        found = await find_all(client, namespace, partial(echo, err=True))
    return [each.picture(datetime.now(UTC)) for each in found]


async def _watch(
    connection: Connection,
    name: str,
    namespace: str,
    timeout_seconds: float | None,
    interval: float,
    *,
    updated: bool,
) -> Picture:
    began = time.monotonic()
    screen = Screen()
    async with connection.open() as client:
        while True:
            asked = time.monotonic()
            _, found = await find(client, name, namespace)
            picture = found.picture(datetime.now(UTC))
            screen.show(picture)
            now = time.monotonic()
            if picture.over and not (updated and picture.state == LEFT):
                return picture
            if timeout_seconds is not None and now - began > timeout_seconds:
                raise click.ClickException(f"not complete after {timeout_seconds:g} s")
            # A large fleet takes long to read; looking must not become the hub's main work.
            await asyncio.sleep(max(interval, 3 * (now - asked)))


async def _diff(
    connection: Connection, name: str, namespace: str, older: int | None, newer: int | None
) -> Sequence[str]:
    _, found = await _found(connection, name, namespace)
    stored = found.subject.revisions
    after = pick(stored, newer, stored[-1] if stored else None, found.title)
    earlier = [each for each in stored if each.number < after.number]
    before = pick(stored, older, earlier[-1] if earlier else None, found.title)
    old, new = (f"revision {each.number} ({each.revision})" for each in (before, after))
    return list(difflib.unified_diff(_yaml(before), _yaml(after), old, new, lineterm=""))


def _yaml(revision: StoredRevision) -> list[str]:
    fields = revision.content or {}
    shown = next(iter(fields.values())) if len(fields) == 1 else fields  # the name of the only field says nothing
    text: Any = yaml.safe_dump(shown, sort_keys=True, width=120)
    lines: list[str] = text.splitlines()
    return lines
