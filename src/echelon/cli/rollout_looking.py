"""What `echelon rollout list`, `status` and `watch` do: look at rollouts once, or until they are over."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import partial

from echelon.cli.columns import print_columns
from echelon.cli.connection import Connection
from echelon.cli.exit_codes import Ended, ExitCode, ended_by
from echelon.cli.output import SHARED, is_document, print_document
from echelon.cli.rollout_tree import Screen, columns, tree
from echelon.cli.terminal import echo
from echelon.rollouts.kinds import find, find_all
from echelon.rollouts.picture import (
    ABORTED,
    APPROVAL,
    COMPLETE,
    DISABLED,
    DONE,
    FAILED,
    FINISHED,
    HELD,
    LEFT,
    MOVING,
    NO_CLUSTERS,
    SOAKING,
    TIMED_OUT,
    Picture,
    document,
)

_SILENCE_SECONDS = 300.0  # that a hub may not answer for after it has
_CODES = {
    COMPLETE: ExitCode.DONE,
    FINISHED: ExitCode.DONE,
    LEFT: ExitCode.DONE,
    ABORTED: ExitCode.ABORTED,
    APPROVAL: ExitCode.HELD,
    HELD: ExitCode.HELD,
    NO_CLUSTERS: ExitCode.HELD,
    DISABLED: ExitCode.HELD,
}


@dataclass(frozen=True)
class Watching:
    """How somebody watches a rollout."""

    namespace: str
    timeout_seconds: float | None
    interval: float
    _: KW_ONLY
    allow_no_clusters: bool = False
    wait_for_approval: bool = False
    updated: bool = False  # also wait for pods that somebody has to delete

    def code(self, picture: Picture) -> ExitCode | None:
        """Return with which code to end; None to go on."""
        if picture.state == APPROVAL and not self.wait_for_approval and _at_rest(picture):
            return ExitCode.HELD
        if not picture.over or (self.updated and picture.state == LEFT):
            return None
        if picture.state == NO_CLUSTERS and self.allow_no_clusters:
            return ExitCode.DONE
        return _CODES.get(picture.state, ExitCode.FAILED)


def _at_rest(picture: Picture) -> bool:
    """Whether nothing moves that might yet fail."""
    return not picture.counts.get(MOVING) and not picture.counts.get(SOAKING)


def pictures(connection: Connection, namespace: str) -> list[Picture]:
    """Look at the rollouts of a namespace, or of all if none is named."""

    async def look() -> list[Picture]:
        async with connection.open() as client:
            found = await find_all(client, namespace, partial(echo, err=True))
        return [each.picture(datetime.now(UTC)) for each in found]

    return asyncio.run(look())


def picture(connection: Connection, name: str, namespace: str) -> Picture:
    """Look at one rollout."""

    async def look() -> Picture:
        async with connection.open() as client:
            _, found = await find(client, name, namespace)
        return found.picture(datetime.now(UTC))

    return asyncio.run(look())


def watch(connection: Connection, name: str, how: Watching) -> ExitCode:
    """Follow a rollout; return with which code to end."""
    return asyncio.run(_watch(connection, name, how))


async def _watch(connection: Connection, name: str, how: Watching) -> ExitCode:
    began, screen = time.monotonic(), Screen()
    answered: float | None = None  # when the hub did last
    silent = False
    async with connection.open() as client:
        while True:
            asked = time.monotonic()
            try:
                _, found = await find(client, name, how.namespace)
            except Exception as error:
                ended = ended_by(error)
                if ended is None or ended.exit_code != ExitCode.UNREACHABLE or answered is None:
                    raise
                if asked - answered > _SILENCE_SECONDS:
                    raise
                if not silent:
                    echo(f"the hub does not answer, and is asked again: {ended.message}", err=True)
                silent = True
            else:
                if silent:
                    echo("the hub answers again", err=True)
                answered, silent = time.monotonic(), False
                drawn = found.picture(datetime.now(UTC))
                screen.show(drawn)
                if (code := how.code(drawn)) is not None:
                    return code
            now = time.monotonic()
            if how.timeout_seconds is not None and now - began > how.timeout_seconds:
                raise Ended(f"not complete after {how.timeout_seconds:g} s", ExitCode.TIMED_OUT)
            # A large fleet takes long to read; looking must not become the hub's main work.
            pause = max(how.interval, 3 * (now - asked)) if not silent else how.interval
            await asyncio.sleep(pause)


def print_list(found: Sequence[Picture], where: str, output: str, *, headers: bool) -> None:
    """Print rollouts, one a line."""
    if is_document(output):
        print_document([document(each) for each in found], output)
        return
    if not found:
        echo(f"No rollouts found in {f'namespace {where}' if where else 'any namespace'}.", err=True)
        return
    titles = ["Name", "State", "Done", "InFlight", "Failed", "At", "Revision", "Age"]
    wide = output == "wide"
    several = len({each.kind for each in found}) > 1
    rows = [_row(each, wide=wide, several=several) for each in found]
    if not where:
        titles, rows = ["Namespace", *titles], [[e.namespace, *row] for e, row in zip(found, rows, strict=True)]
    print_columns([*titles, *(["Message"] if wide else [])], rows, headers=headers)


def print_picture(drawn: Picture, output: str) -> None:
    """Print a rollout."""
    if is_document(output):
        print_document(document(drawn), output)
        return
    if output in SHARED:
        from echelon.rollouts import sharing

        made = {"svg": sharing.svg, "html": sharing.html}[output](drawn, datetime.now(UTC))
        for line in made.splitlines():
            echo(line)
        return
    for line in tree(drawn, everything=output == "wide", width=columns()):
        echo(line)


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
