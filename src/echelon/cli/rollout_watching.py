"""What `echelon rollout watch` does: look until a rollout is over, also while the hub is away for a while."""

import asyncio
import time
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime

from echelon.cli.connection import Connection
from echelon.cli.exit_codes import Ended, ExitCode, ended_by
from echelon.cli.rollout_tree import Screen
from echelon.cli.terminal import echo
from echelon.rollouts.kinds import find
from echelon.rollouts.picture import (
    ABORTED,
    APPROVAL,
    COMPLETE,
    DISABLED,
    FINISHED,
    HELD,
    LEFT,
    MOVING,
    NO_CLUSTERS,
    SOAKING,
    Picture,
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
