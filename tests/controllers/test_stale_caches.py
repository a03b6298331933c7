"""Controllers whose caches are behind: on one kind, on another, or on all because the server was restored."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.core import CONFIG_MAP
from echelon.api.placement import PLACEMENT_DECISION
from echelon.controllers.running import Controllers
from echelon.fleet.loop import running
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT
from echelon.kube.client import Event, Page
from echelon.kube.errors import Gone
from echelon.kube.metrics import Metrics
from tests.controllers.hub import NS, Hub, hub, told
from tests.controllers.strict import STRICT
from tests.controllers.test_rolling_update import members, strategy


class Outdated(InProcessClient):
    """Shows objects of one kind as they were at some time, until it catches up."""

    kind: Any = PLACEMENT_DECISION
    view: Page[Any] | None = None
    caught_up: asyncio.Event

    async def list(self, kind: Any, *args: Any, **options: Any) -> Page[Any]:
        if kind is self.kind and self.view is not None and not self.caught_up.is_set():
            return self.view
        return await super().list(kind, *args, **options)

    async def watch(self, kind: Any, *args: Any, **options: Any) -> AsyncIterator[Event[Any]]:
        if kind is self.kind and self.view is not None:
            await self.caught_up.wait()
        async for event in super().watch(kind, *args, **options):
            yield event
            if kind is self.kind and self.view is not None and not self.caught_up.is_set():
                raise Gone("the replica that answers now does not know this version")


def start(hub: Hub, client: InProcessClient) -> Metrics:
    chance, metrics = Random(1), Metrics()  # noqa: S311 - repeatable on purpose
    names = ["placement"]
    made = Controllers(client, running().clock, names, random=chance, metrics=metrics, instance="next", settings=STRICT)
    hub.controllers.append(asyncio.create_task(made.run()))
    return metrics


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
        start(hub, client)
        await hub.settle(30)
        assert hub.sight.union("p") == {"a", "b", "moving"}
        client.caught_up.set()
        await hub.settle(30)
        assert await members(hub) == [["a"], ["b", "moving"]]
        assert hub.sight.vanished == set()

    told(story)


def test_clusters_that_an_old_list_does_not_have_stay_decided_until_the_cache_has_caught_up() -> None:
    async def story(hub: Hub) -> None:
        client = Outdated(hub.client._cluster, ROOT)
        client.kind, client.caught_up = MANAGED_CLUSTER, asyncio.Event()
        before = await hub.client.list(MANAGED_CLUSTER)
        await hub.bound_set()
        await hub.clusters(["a", "b", "c"])
        metrics = start(hub, client)
        await hub.place(decisionStrategy=strategy())
        await hub.settle()
        assert await hub.selected() == ["a", "b", "c"]
        hub.sight.protect("p", "c")
        # After this change a replica answers that has seen no cluster yet.
        client.view = before
        await hub.delete(MANAGED_CLUSTER, "c")
        await hub.settle(200)
        assert metrics.registry.get_sample_value("echelon_informer_backs_total", {"kind": MANAGED_CLUSTER.resource})
        assert await hub.selected() == ["a", "b"]
        assert metrics.registry.get_sample_value("scheduling_removals_held_total") == 1
        assert ("DecisionHeld", "") in await hub.events()
        client.caught_up.set()
        await hub.settle(120)
        assert await hub.selected() == ["a", "b"]
        assert hub.sight.vanished == set()

    told(story)


def test_a_controller_that_starts_before_the_clusters_of_its_decisions_existed_keeps_them() -> None:
    async def story(hub: Hub) -> None:
        before = await hub.client.list(MANAGED_CLUSTER)
        await hub.bound_set()
        await hub.clusters(["a", "b"])
        hub.start()
        await hub.place(decisionStrategy=strategy())
        await hub.settle()
        await hub.stop()
        hub.sight.protect("p")
        client = Outdated(hub.client._cluster, ROOT)
        client.kind, client.view, client.caught_up = MANAGED_CLUSTER, before, asyncio.Event()
        start(hub, client)
        await hub.settle(60)
        client.caught_up.set()
        await hub.settle(120)
        assert await hub.selected() == ["a", "b"]
        assert hub.sight.vanished == set()

    told(story)


def test_what_a_restored_server_has_is_followed() -> None:
    async def story(hub: Hub) -> None:
        await restored(hub)

    async def restored(now: Hub) -> None:
        async with hub() as backup:
            # The backup is of a time when the cluster that was to replace the first one had not come yet.
            await backup.place()  # the first on either hub, so it is the same object
            await backup.bound_set()
            await backup.clusters(["first"])
            backup.start()
            await backup.settle()
            await backup.delete(MANAGED_CLUSTER, "first")
            await backup.clusters(["second"])
            await backup.stop()
            await now.place()
            assert (await now.placement()).metadata.uid == (await backup.placement()).metadata.uid
            await now.bound_set()
            await now.clusters(["second", "third"])
            for number in range(100):
                await now.create(CONFIG_MAP, f"later{number}", NS)
            client = InProcessClient(now.client._cluster, ROOT)
            start(now, client)
            await now.settle()
            assert await now.selected() == ["second", "third"]
            client._cluster = backup.client._cluster
            await now.settle(1200)  # streams have come to their ends, and older lists were refused often enough
            assert await backup.selected() == ["second"]
            await now.stop()

    told(story)
