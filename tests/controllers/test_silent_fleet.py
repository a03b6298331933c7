"""When most of a fleet is silent at once, nobody is given up, and everybody is told why."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from echelon.api.cluster import GROUP, MANAGED_CLUSTER, MANAGED_CLUSTER_SET
from echelon.api.coordination import LEASE
from echelon.api.events import EVENT
from echelon.api.namespaces import NAMESPACE
from tests.controllers.hub import Hub, names, now, told
from tests.controllers.strict import STRICT

AVAILABLE = "ManagedClusterConditionAvailable"
UNREACHABLE, UNAVAILABLE = f"{GROUP}/unreachable", f"{GROUP}/unavailable"


class Agents:
    """Agents that renew their leases every minute, but for those that are silent."""

    def __init__(self, hub: Hub, *clusters: str) -> None:
        self.hub = hub
        self.clusters = clusters
        self.silent: set[str] = set()

    async def join(self) -> None:
        await self.hub.bound_set("global", {})
        for name in self.clusters:
            await self.hub.cluster(name)
            await self.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": name}})
            await self.hub.create(LEASE, "managed-cluster-lease", name, spec={"renewTime": clock()})
            await self.say(name, "True")

    async def say(self, name: str, status: str) -> None:
        at = now().strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {"type": AVAILABLE, "status": status, "reason": "Test", "message": "", "lastTransitionTime": at}
        await self.hub.patch(MANAGED_CLUSTER, name, {"status": {"conditions": [said]}}, subresource="status")

    async def live(self, minutes: int) -> None:
        """Let minutes pass; who is not silent renews its lease in each, and says that it is well if that is doubted."""
        for _ in range(minutes):
            await asyncio.sleep(60)
            for name in self.clusters:
                if name not in self.silent:
                    await self.hub.patch(LEASE, "managed-cluster-lease", {"spec": {"renewTime": clock()}}, name)
                    if await self.available(name) != "True":
                        await self.say(name, "True")

    async def condition(self, name: str) -> Any:
        cluster = await self.hub.client.get(MANAGED_CLUSTER, name)
        return next(each for each in cluster.status.conditions if each.type == AVAILABLE)

    async def available(self, name: str) -> str:
        return str((await self.condition(name)).status)

    async def tainted(self) -> list[str]:
        found = (await self.hub.client.list(MANAGED_CLUSTER)).items
        return [each.metadata.name for each in found if any(taint.key == UNREACHABLE for taint in each.spec.taints)]

    async def unknown(self) -> set[str]:
        return {name for name in self.clusters if await self.available(name) == "Unknown"}


def clock(ago: timedelta = timedelta()) -> str:
    return (now() - ago).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def fleet_says(hub: Hub) -> list[tuple[str, str]]:
    found = await hub.client.get(MANAGED_CLUSTER_SET, "global")
    return [(each.status, each.reason) for each in found.status.conditions if each.type == "MostClustersHeard"]


async def warnings(hub: Hub) -> list[tuple[str, str, str]]:
    found: Iterable[Any] = (await hub.client.list(EVENT.untyped(), "default")).items
    ordered = sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))
    return [(event["type"], event["reason"], event["regarding"]["name"]) for event in ordered]


def measured(hub: Hub, name: str) -> float | None:
    return hub.metrics.registry.get_sample_value(name)


def test_nobody_is_given_up_while_most_are_silent_and_everybody_is_told_why() -> None:
    async def story(hub: Hub) -> None:
        agents = Agents(hub, *names("c", 10))
        await agents.join()
        hub.start("cluster-health", "placement")
        await hub.place()
        await agents.live(5)
        assert await hub.selected() == list(agents.clusters)
        assert await fleet_says(hub) == []
        agents.silent = set(agents.clusters[:6])
        await agents.live(3)
        assert await fleet_says(hub) == [("False", "FleetSilent")]
        await agents.live(20)
        assert await agents.tainted() == []
        assert await hub.selected() == list(agents.clusters)
        assert await agents.unknown() == agents.silent
        said = await agents.condition("c000")
        assert said.reason == "ManagedClusterLeaseUpdateStopped"
        assert "hub or its network" in said.message
        assert await warnings(hub) == [("Warning", "FleetSilent", "global")]
        assert measured(hub, "echelon_clusters_heard") == 10
        assert measured(hub, "echelon_clusters_silent") == 6
        assert measured(hub, "echelon_unreachable_taints_held") == 1
        await hub.stop()

    told(story)


def test_when_the_share_falls_all_get_their_full_grace_and_who_is_dead_is_given_up_then() -> None:
    async def story(hub: Hub) -> None:
        agents = Agents(hub, *names("c", 10))
        await agents.join()
        hub.start("cluster-health")
        agents.silent = set(agents.clusters[:6])
        await agents.live(20)
        agents.silent = {"c000", "c001"}
        await agents.live(1)
        await asyncio.sleep(10)
        assert await fleet_says(hub) == [("True", "FleetHeard")]
        assert await warnings(hub) == [("Warning", "FleetSilent", "global"), ("Normal", "FleetHeard", "global")]
        assert measured(hub, "echelon_unreachable_taints_held") == 0
        assert await agents.unknown() == agents.silent
        await agents.live(4)
        assert await agents.tainted() == []
        await agents.live(1)
        assert await agents.tainted() == ["c000", "c001"]
        said = await agents.condition("c000")
        assert (said.reason, said.message) == (
            "ManagedClusterLeaseUpdateStopped",
            "Registration agent stopped updating its lease.",
        )
        await hub.stop()

    told(story)


def test_a_short_silence_of_most_gives_a_dead_cluster_its_full_grace_too() -> None:
    async def story(hub: Hub) -> None:
        agents = Agents(hub, *names("c", 10))
        await agents.join()
        hub.start("cluster-health")
        agents.silent = set(agents.clusters[:6])
        await agents.live(3)
        agents.silent = {"c000"}
        await agents.live(5)
        assert await agents.available("c000") == "True"
        await agents.live(2)
        assert await agents.tainted() == ["c000"]
        await hub.stop()

    told(story)


def test_a_restart_in_the_middle_gives_nobody_up_and_tells_nobody_again() -> None:
    async def story(hub: Hub) -> None:
        agents = Agents(hub, *names("c", 10))
        await agents.join()
        hub.start("cluster-health")
        agents.silent = set(agents.clusters[:6])
        await agents.live(20)
        await hub.stop()
        hub.start("cluster-health")
        await hub.settle()
        assert measured(hub, "echelon_clusters_silent") == 6, "which it reads from the leases"
        await agents.live(20)
        assert await agents.tainted() == []
        assert await warnings(hub) == [("Warning", "FleetSilent", "global")]
        agents.silent = {"c000"}
        await agents.live(5)
        assert await agents.tainted() == []
        await agents.live(2)
        assert await agents.tainted() == ["c000"]
        await hub.stop()

    told(story)


def test_after_a_restart_who_was_given_up_days_ago_is_not_counted() -> None:
    async def story(hub: Hub) -> None:
        agents = Agents(hub, *names("c", 10))
        await agents.join()
        for name in agents.clusters[:6]:
            old = {"spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}}
            await hub.patch(LEASE, "managed-cluster-lease", old, name)
        hub.start("cluster-health")
        agents.silent = set(agents.clusters[:7])
        await agents.live(7)
        assert await agents.tainted() == list(agents.clusters[:7])
        assert await fleet_says(hub) == []
        assert measured(hub, "echelon_clusters_heard") == 4
        await hub.stop()

    told(story)


def test_in_a_fleet_of_two_each_is_judged_by_itself() -> None:
    async def story(hub: Hub) -> None:
        agents = Agents(hub, "a", "b")
        await agents.join()
        hub.start("cluster-health")
        agents.silent = {"a", "b"}
        await agents.live(6)
        assert await agents.tainted() == ["a", "b"]
        assert await fleet_says(hub) == []
        await hub.stop()

    told(story)


def test_half_of_a_fleet_is_given_up() -> None:
    async def story(hub: Hub) -> None:
        agents = Agents(hub, *names("c", 10))
        await agents.join()
        hub.start("cluster-health")
        agents.silent = set(agents.clusters[:5])
        await agents.live(6)
        assert await agents.tainted() == list(agents.clusters[:5])
        await hub.stop()

    told(story)


def test_with_a_share_of_one_everybody_is_given_up_whatever_the_others_do() -> None:
    async def story(hub: Hub) -> None:
        agents = Agents(hub, *names("c", 10))
        await agents.join()
        hub.start("cluster-health", settings=replace(STRICT, silent_share=1.0))
        agents.silent = set(agents.clusters)
        await agents.live(6)
        assert await agents.tainted() == list(agents.clusters)
        await hub.stop()

    told(story)


def test_a_cluster_that_placements_keep_away_from_is_not_let_in_by_a_silent_fleet() -> None:
    async def story(hub: Hub) -> None:
        agents = Agents(hub, *names("c", 10))
        await agents.join()
        hub.start("cluster-health")
        agents.silent = {"c000"}
        await agents.live(6)
        assert await agents.tainted() == ["c000"]
        await agents.say("c001", "False")
        agents.silent = set(agents.clusters)
        await agents.live(10)
        keys = {
            each.metadata.name: [taint.key for taint in each.spec.taints]
            for each in (await hub.client.list(MANAGED_CLUSTER)).items
        }
        assert {name for name, found in keys.items() if found} == {"c000", "c001"}
        assert (keys["c000"], keys["c001"]) == ([UNREACHABLE], [UNAVAILABLE])
        await hub.stop()

    told(story)


def test_a_silence_of_all_for_more_than_a_day_ends_in_giving_them_up() -> None:
    async def story(hub: Hub) -> None:
        agents = Agents(hub, *names("c", 3))
        await agents.join()
        for name in agents.clusters:
            nearly = {"spec": {"renewTime": clock(timedelta(hours=23, minutes=30))}}
            await hub.patch(LEASE, "managed-cluster-lease", nearly, name)
        hub.start("cluster-health")
        await asyncio.sleep(30 * 60 + 290)
        assert await agents.tainted() == []
        assert await agents.unknown() == set(agents.clusters)
        await asyncio.sleep(30)
        assert await agents.tainted() == list(agents.clusters)

    told(story)
