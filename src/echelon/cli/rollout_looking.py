"""What `echelon rollout list` and `status` do: look once.

The hub is asked before anything is imported that only its answers need.
"""

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from echelon.cli.connection import Connection
from echelon.cli.terminal import echo
from echelon.rollouts.kinds import find, find_all

if TYPE_CHECKING:
    from echelon.rollouts.picture import Picture


def pictures(connection: Connection, namespace: str) -> "list[Picture]":
    """Look at the rollouts of a namespace, or of all if none is named."""

    async def look() -> "list[Picture]":
        async with connection.open() as client:
            found = await find_all(client, namespace, partial(echo, err=True))
        return [each.picture(datetime.now(UTC)) for each in found]

    return asyncio.run(look())


def picture(connection: Connection, name: str, namespace: str) -> "Picture":
    """Look at one rollout."""

    async def look() -> "Picture":
        async with connection.open() as client:
            _, found = await find(client, name, namespace)
        return found.picture(datetime.now(UTC))

    return asyncio.run(look())
