"""Whether somebody else looks after policies on the cluster already.

Upstream's controllers work on the same objects, in the same namespace. Two of them would correct each other for ever,
so where upstream's run, nothing is done, and the hub is told.
"""

import asyncio
from dataclasses import replace
from typing import Any

from echelon.agent.context import AgentContext
from echelon.api.apps import DEPLOYMENT
from echelon.api.base import APIStruct
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.kube.informer import Delta, Informer

NAMESPACE = "open-cluster-management-agent-addon"
NAMES = frozenset({"governance-policy-framework", "config-policy-controller"})


class _Named(APIStruct, frozen=True, gc=False, kw_only=True):
    """A deployment of which nothing but the name matters."""

    metadata: ObjectMeta = ObjectMeta()


_DEPLOYMENT: Kind[_Named] = replace(DEPLOYMENT, type=_Named)  # type: ignore[arg-type,assignment]


class OtherControllers:
    """Follows the deployments of upstream's policy controllers on a cluster."""

    def __init__(self, context: AgentContext) -> None:
        self._informer: Informer[_Named] = context.make_informer(
            context.member, _DEPLOYMENT, NAMESPACE, random=context.random, metrics=context.metrics
        )
        self._informer.on_change(self._heard)
        self._changed = asyncio.Event()

    @property
    def found(self) -> tuple[str, ...]:
        """The controllers that are there."""
        return tuple(sorted(NAMES & {each.metadata.name for each in self._informer.values()}))

    async def run(self) -> None:
        """Follow them until cancelled."""
        await self._informer.run()

    async def wait_known(self) -> None:
        """Return when it is known which of them are there."""
        await self._informer.wait_synced()

    async def wait_changed(self, known: tuple[str, ...]) -> None:
        """Return when others are there than are known."""
        while self.found == known:
            self._changed.clear()
            await self._changed.wait()

    def _heard(self, _: Delta[Any]) -> None:
        self._changed.set()
