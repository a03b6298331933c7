"""A client of a hub that does not take some writes, or takes its time."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.work import MANIFEST_WORK
from echelon.controllers.running import Controllers
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT
from echelon.kube.errors import ApiError
from echelon.kube.metrics import Metrics
from tests.controllers.hub import Hub

Refusal = Callable[[str, Kind[Any], str, JSONObject], ApiError | None]  # verb, kind, namespace, body


class Refusing(InProcessClient):
    """A client of a server that does not take some writes, or takes its time."""

    refuses: Refusal | None = None
    seconds: float = 0.0
    asked: int = 0

    async def create(self, kind: Kind[Any], body: dict[str, Any], namespace: str = "", **options: Any) -> Any:
        await self._ask("create", kind, namespace, body)
        return await super().create(kind, body, namespace, **options)

    async def patch(self, kind: Kind[Any], name: str, patch: Any, namespace: str = "", **options: Any) -> Any:
        await self._ask("patch", kind, namespace, patch.body)
        return await super().patch(kind, name, patch, namespace, **options)

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", **options: Any) -> None:
        await self._ask("delete", kind, namespace, {})
        await super().delete(kind, name, namespace, **options)

    async def _ask(self, verb: str, kind: Kind[Any], namespace: str, body: JSONObject) -> None:
        if self.seconds and kind.resource == MANIFEST_WORK.resource:
            await asyncio.sleep(self.seconds)
        error = self.refuses(verb, kind, namespace, body) if self.refuses is not None else None
        if error is not None:
            self.asked += 1
            raise error


def start_refusing(hub: Hub, name: str, refuses: Refusal | None = None, seconds: float = 0.0) -> Refusing:
    """Start a controller on such a server."""
    client = Refusing(hub.client._cluster, ROOT)
    client.refuses, client.seconds = refuses, seconds
    chance = Random(0)  # noqa: S311 - repeatable on purpose
    made = Controllers(
        client, hub.clock, (name,), random=chance, metrics=Metrics(), instance="test", settings=hub.settings
    )
    hub.controllers.append(asyncio.create_task(made.run()))
    return client
