"""Kinds of our own that the cluster has to serve before an agent can work there."""

import asyncio
import logging
from random import Random
from typing import Any

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.crd import crd
from echelon.api.kinds import Kind
from echelon.kube.client import Client
from echelon.kube.errors import AlreadyExists, ApiError, NotFound

FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.5, 30.0

_log = logging.getLogger(__name__)


async def ensure_served(member: Client, kind: Kind[Any], random: Random | None = None) -> None:
    """Return when the cluster serves a kind; its definition is created if it does not.

    What keeps it from that is told when it changes. Many agents of one process must not ask in step: `random`.
    """
    pause, told = FIRST_PAUSE_SECONDS, ""
    while True:
        trouble = await _trouble(member, kind)
        if trouble is None:
            return
        if trouble and trouble != told:
            _log.warning("%s", trouble)
            told = trouble
        if not trouble:  # it was defined just now, and is served in a moment
            await asyncio.sleep(FIRST_PAUSE_SECONDS)
            continue
        await asyncio.sleep(pause * (random.uniform(0.5, 1.0) if random is not None else 1.0))
        pause = min(pause * 2, LAST_PAUSE_SECONDS)


async def _trouble(member: Client, kind: Kind[Any]) -> str | None:
    """Say why a kind is not served, nothing if its definition was made just now; None if it is served."""
    try:
        await member.list(kind, limit=1)
    except NotFound:
        return await _define(member, kind)
    except ApiError as error:
        return f"the cluster cannot be asked for {kind.plural}: {error}"
    return None


async def _define(member: Client, kind: Kind[Any]) -> str:
    try:
        await member.create(CUSTOM_RESOURCE_DEFINITION.untyped(), crd(kind))
    except AlreadyExists:
        pass
    except ApiError as error:
        return f"the definition of {kind.plural} cannot be created: {error}"
    return ""
