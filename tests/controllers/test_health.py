"""Silent agents are noticed by our own clock, and taints keep placements away."""

import asyncio
from random import Random
from typing import Any

from echelon.api.cluster import GROUP, MANAGED_CLUSTER, ManagedCluster
from echelon.api.coordination import LEASE
from echelon.api.namespaces import NAMESPACE
from echelon.controllers.running import Controllers
from echelon.kube.faults import Faults, FaultyClient
from echelon.kube.metrics import Metrics
from tests.controllers.hub import Hub, now, told
from tests.controllers.strict import STRICT

AVAILABLE = "ManagedClusterConditionAvailable"
UNREACHABLE, UNAVAILABLE = f"{GROUP}/unreachable", f"{GROUP}/unavailable"


def available(status: str) -> dict[str, Any]:
    at = now().strftime("%Y-%m-%dT%H:%M:%SZ")
    said = {"type": AVAILABLE, "status": status, "reason": "Test", "message": "", "lastTransitionTime": at}
    return {"conditions": [said]}


async def joined(hub: Hub, name: str = "c", lease_seconds: int = 60) -> None:
    await hub.cluster(name, spec={"leaseDurationSeconds": lease_seconds}, status=available("True"))
    await hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": name}})
    await hub.create(LEASE, "managed-cluster-lease", name, spec={"renewTime": "2020-01-01T00:00:00.000000Z"})


async def renew(hub: Hub, name: str = "c", says: str = "") -> None:
    """Renew a lease, with whatever time the agent believes it is."""
    at = says or now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    await hub.patch(LEASE, "managed-cluster-lease", {"spec": {"renewTime": at}}, name)


async def state(hub: Hub, name: str = "c") -> tuple[str, str, list[str]]:
    cluster: ManagedCluster = await hub.client.get(MANAGED_CLUSTER, name)
    condition = next(each for each in cluster.status.conditions if each.type == AVAILABLE)
    return condition.status, condition.reason, [taint.key for taint in cluster.spec.taints]


def test_a_cluster_whose_lease_is_not_renewed_becomes_unknown_and_is_tainted() -> None:
    async def story(hub: Hub) -> None:
        await joined(hub)
        hub.start("cluster-health")
        for _ in range(10):
            await asyncio.sleep(60)
            await renew(hub)
        assert await state(hub) == ("True", "Test", [])
        await asyncio.sleep(299)
        assert await state(hub) == ("True", "Test", [])
        await asyncio.sleep(2)
        assert await state(hub) == ("Unknown", "ManagedClusterLeaseUpdateStopped", [UNREACHABLE])
        cluster = await hub.client.get(MANAGED_CLUSTER, "c")
        assert cluster.spec.taints[0].time_added == now().replace(second=now().second - 1).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )

    told(story)


def test_a_wrong_clock_on_the_cluster_does_not_matter() -> None:
    async def story(hub: Hub) -> None:
        await joined(hub)
        hub.start("cluster-health")
        for minute in range(10):
            await asyncio.sleep(60)
            await renew(hub, says=f"1999-01-01T00:{minute:02d}:00.000000Z")
        assert await state(hub) == ("True", "Test", [])
        await renew(hub, says="2099-01-01T00:00:00.000000Z")
        await asyncio.sleep(301)
        assert (await state(hub))[0] == "Unknown"

    told(story)


def test_the_lease_duration_of_the_cluster_counts() -> None:
    async def story(hub: Hub) -> None:
        await joined(hub, lease_seconds=10)
        hub.start("cluster-health")
        await asyncio.sleep(48)
        assert (await state(hub))[0] == "True"
        await asyncio.sleep(5)
        assert (await state(hub))[0] == "Unknown"

    told(story)


def test_taints_follow_the_available_condition_and_leave_others_alone() -> None:
    async def story(hub: Hub) -> None:
        await joined(hub)
        await hub.patch(MANAGED_CLUSTER, "c", {"spec": {"taints": [{"key": "mine", "effect": "NoSelect"}]}})
        hub.start("cluster-health")
        for status, expected in (
            ("False", ["mine", UNAVAILABLE]),
            ("True", ["mine"]),
            ("Unknown", ["mine", UNREACHABLE]),
        ):
            await hub.patch(MANAGED_CLUSTER, "c", {"status": available(status)}, subresource="status")
            await hub.settle()
            assert (await state(hub))[2] == expected

    told(story)


async def times(hub: Hub, name: str = "c") -> dict[str, str | None]:
    cluster: ManagedCluster = await hub.client.get(MANAGED_CLUSTER, name)
    return {taint.key: taint.time_added for taint in cluster.spec.taints}


def test_a_taint_without_a_time_is_stamped_and_one_with_a_time_is_left_alone() -> None:
    async def story(hub: Hub) -> None:
        await joined(hub)
        hub.start("cluster-health")
        await hub.settle()
        old, before = "2020-01-01T00:00:00Z", now().strftime("%Y-%m-%dT%H:%M:%SZ")
        taints = [{"key": "new", "effect": "NoSelect"}, {"key": "old", "effect": "NoSelect", "timeAdded": old}]
        await hub.patch(MANAGED_CLUSTER, "c", {"spec": {"taints": taints}})
        await hub.settle()
        assert await times(hub) == {"new": before, "old": old}
        # Whoever applies the same file again takes the time away, and adds no taint.
        taints = [{"key": "new", "effect": "NoSelect"}, {"key": "old", "effect": "NoSelect"}]
        await hub.patch(MANAGED_CLUSTER, "c", {"spec": {"taints": taints}})
        await hub.settle()
        assert await times(hub) == {"new": before, "old": old}
        taints = [{"key": "new", "effect": "NoSelect", "value": "another"}]
        await hub.patch(MANAGED_CLUSTER, "c", {"spec": {"taints": taints}})
        later = now().strftime("%Y-%m-%dT%H:%M:%SZ")
        await hub.settle()
        assert before != later
        assert await times(hub) == {"new": later}
        await hub.stop()

    told(story)


def test_a_cluster_of_which_nothing_is_known_is_unreachable() -> None:
    async def story(hub: Hub) -> None:
        await hub.cluster("c")
        hub.start("cluster-health")
        await hub.settle()
        cluster = await hub.client.get(MANAGED_CLUSTER, "c")
        assert [taint.key for taint in cluster.spec.taints] == [UNREACHABLE]
        await asyncio.sleep(300)
        assert (await state(hub))[:2] == ("Unknown", "ManagedClusterLeaseUpdateStopped")

    told(story)


def test_a_placement_loses_a_silent_cluster_and_gets_it_back() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await joined(hub)
        hub.start("placement", "cluster-sets", "cluster-health")
        await hub.place()
        await hub.settle()
        assert await hub.selected() == ["c"]
        await asyncio.sleep(301)
        assert await hub.selected() == []
        await renew(hub)
        await hub.patch(MANAGED_CLUSTER, "c", {"status": available("True")}, subresource="status")
        await hub.settle()
        assert await hub.selected() == ["c"]
        await hub.patch(MANAGED_CLUSTER, "c", {"status": available("Unknown")}, subresource="status")

    told(story)


def health_over(client: FaultyClient, hub: Hub) -> asyncio.Task[None]:
    chance = Random(1)  # noqa: S311 - repeatable on purpose
    made = Controllers(
        client, hub.clock, ["cluster-health"], random=chance, metrics=Metrics(), instance="test", settings=STRICT
    )
    hub.controllers.append(asyncio.create_task(made.run()))
    return hub.controllers[-1]


def test_a_stream_that_stands_still_does_not_make_the_fleet_unreachable() -> None:
    async def story(hub: Hub) -> None:
        names = ("a", "b", "c")
        for name in names:
            await joined(hub, name)
        standing_still = Faults(stall=1.0, stall_seconds=(900.0, 900.0))
        client = FaultyClient(hub.client, standing_still, Random(2))  # noqa: S311 - repeatable on purpose
        health_over(client, hub)
        for _ in range(60):
            await asyncio.sleep(60)
            for name in names:
                await renew(hub, name)
                assert await state(hub, name) == ("True", "Test", [])
        assert client.injected["stall"] > 3

    told(story)


def test_after_an_outage_of_the_hub_agents_have_their_time_to_come_back() -> None:
    async def story(hub: Hub) -> None:
        await joined(hub)
        client = FaultyClient(hub.client, Faults(server_error=1.0, close=1.0), Random(1))  # noqa: S311 - as above
        client.process.calm = True
        health_over(client, hub)
        await asyncio.sleep(100)
        await renew(hub)
        client.process.calm = False
        await asyncio.sleep(1200)
        client.process.calm = True
        await asyncio.sleep(120)
        assert await state(hub) == ("True", "Test", [])
        await asyncio.sleep(360)
        assert await state(hub) == ("Unknown", "ManagedClusterLeaseUpdateStopped", [UNREACHABLE]), "gone for good"

    told(story)
