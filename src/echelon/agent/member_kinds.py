"""Kinds of our own that the cluster has to serve before an agent can work there."""

import asyncio
import logging
from typing import Any

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.crd import crd
from echelon.api.kinds import Kind
from echelon.kube.client import Client
from echelon.kube.errors import AlreadyExists, ApiError, NotFound

_PAUSE_SECONDS = 0.5

_log = logging.getLogger(__name__)


async def ensure_served(member: Client, kind: Kind[Any]) -> None:
    """Return when the cluster serves a kind; its definition is created if it does not."""
    while True:
        try:
            await member.list(kind, limit=1)
        except NotFound:
            await _define(member, kind)
        except ApiError as error:
            _log.warning("the cluster cannot be asked for %s: %s", kind.plural, error)
        else:
            return
        await asyncio.sleep(_PAUSE_SECONDS)


async def _define(member: Client, kind: Kind[Any]) -> None:
    try:
        await member.create(CUSTOM_RESOURCE_DEFINITION.untyped(), crd(kind))
    except AlreadyExists:
        pass
    except ApiError as error:
        _log.warning("the definition of %s cannot be created: %s", kind.plural, error)
