"""Kinds that controllers use where a hub serves them, and do without where it does not.

That a kind is missing must be certain: whoever takes it for missing takes what its objects select from clusters. Only
"not found" says so. A server that is away, or that refuses to answer, says nothing, and is asked again.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from echelon.api.kinds import Kind
from echelon.kube.client import Reader
from echelon.kube.errors import ApiError, NotFound

# How often to look for a kind that is missing: somebody may install it, and expect that it is used from then on.
LOOK_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 0.5
LAST_PAUSE_SECONDS = 30.0

_log = logging.getLogger(__name__)


class NowServed(Exception):
    """A kind that was missing is there."""

    def __init__(self, kind: Kind[Any]) -> None:
        super().__init__(f"the hub serves {kind.resource} now")


async def is_served(reader: Reader, kind: Kind[Any]) -> bool:
    """Tell whether a hub serves a kind; raise if it does not tell."""
    try:
        await reader.list(kind, limit=1)
    except NotFound:
        return False
    return True


async def missing(reader: Reader, kinds: Iterable[Kind[Any]], random: Random) -> tuple[Kind[Any], ...]:
    """Return the kinds that a hub does not serve, as soon as it tells that of each."""
    absent = [kind for kind in kinds if not await _certainly_served(reader, kind, random)]
    for kind in absent:
        _log.info("the hub does not serve %s: it is done without until it does", kind.resource)
    return tuple(absent)


async def _certainly_served(reader: Reader, kind: Kind[Any], random: Random) -> bool:
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await is_served(reader, kind)
        except (ApiError, OSError, TimeoutError) as error:
            _log.warning("whether the hub serves %s is not known yet, so nothing begins: %s", kind.resource, error)
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 2, LAST_PAUSE_SECONDS)


async def watch_for(reader: Reader, kinds: Sequence[Kind[Any]]) -> None:
    """Raise `NowServed` when one of these kinds, which were missing, is there."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for kind in kinds:
            try:
                there = await is_served(reader, kind)
            except (ApiError, OSError, TimeoutError) as error:
                _log.info("whether the hub serves %s by now cannot be seen: %s", kind.resource, error)
            else:
                if there:
                    raise NowServed(kind)
