"""A controller that starts on an outdated view of the decisions, in the middle of somebody's update."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.placement import PLACEMENT_DECISION
from echelon.controllers.running import Controllers
from echelon.fleet.loop import running
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT
from echelon.kube.client import Event, Page
from echelon.kube.metrics import Metrics
from tests.controllers.hub import NS, Hub, told
from tests.controllers.test_rolling_update import members, strategy


class Outdated(InProcessClient):
    """Shows decisions as they were at some time, until it catches up."""

    view: Page[Any] | None = None
    caught_up: asyncio.Event

    async def list(self, kind: Any, *args: Any, **options: Any) -> Page[Any]:
        if kind is PLACEMENT_DECISION and self.view is not None and not self.caught_up.is_set():
            return self.view
        return await super().list(kind, *args, **options)

    async def watch(self, kind: Any, *args: Any, **options: Any) -> AsyncIterator[Event[Any]]:
        if kind is PLACEMENT_DECISION:
            await self.caught_up.wait()
        async for event in super().watch(kind, *args, **options):
            yield event


async def write(hub: Hub, name: str, *clusters: str) -> None:
    listed = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
    await hub.patch(PLACEMENT_DECISION, name, {"status": {"decisions": listed}}, NS, "status")


def test_a_cluster_is_not_taken_out_because_of_a_decision_that_does_not_have_it_any_more() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["a", "moving"], group="one")
        await hub.clusters(["b"], group="two")
        hub.start()
        await hub.place(decisionStrategy=strategy("100%", "one", "two"))
        await hub.settle()
        assert await members(hub) == [["a", "moving"], ["b"]]
        await hub.stop()
        # An earlier process was moving the cluster from the second decision to the first, and died at once after ...
        await write(hub, "p-decision-2", "b", "moving")
        client = Outdated(hub.client._cluster, ROOT)
        client.view = await hub.client.list(PLACEMENT_DECISION)
        client.caught_up = asyncio.Event()
        # ... the last write of that update, which the next process does not see.
        await write(hub, "p-decision-2", "b")
        hub.sight.protect("p")
        await hub.patch(MANAGED_CLUSTER, "moving", {"metadata": {"labels": {"group": "two"}}})
        chance = Random(1)  # noqa: S311 - repeatable on purpose
        made = Controllers(client, running().clock, ["placement"], random=chance, metrics=Metrics(), instance="next")
        hub.controllers.append(asyncio.create_task(made.run()))
        await hub.settle(30)
        assert hub.sight.union("p") == {"a", "b", "moving"}
        client.caught_up.set()
        await hub.settle(30)
        assert await members(hub) == [["a"], ["b", "moving"]]
        assert hub.sight.vanished == set()

    told(story)
