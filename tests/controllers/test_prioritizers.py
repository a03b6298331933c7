"""Which clusters are preferred, end to end: three clusters, of which two are wanted."""

from datetime import timedelta
from typing import Any

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.placement import PLACEMENT_DECISION
from tests.controllers.hub import NS, PLACEMENT_LABEL, Hub, names, now, told

CPU, MEMORY = (10, 7, 9), (50, 90, 80)


def built_in(name: str, weight: int = 1) -> dict[str, Any]:
    return {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight}


def policy(mode: str, *configurations: dict[str, Any]) -> dict[str, Any]:
    return {"mode": mode, "configurations": list(configurations)}


RESOURCES = (built_in("ResourceAllocatableCPU"), built_in("ResourceAllocatableMemory"))
ADD_ON = policy(
    "Exact", {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": "demo"}}, "weight": 1}
)


async def cluster(hub: Hub, name: str, cpu: int, memory: int) -> None:
    resources = {"allocatable": {"cpu": cpu, "memory": memory}, "capacity": {"cpu": 10, "memory": 100}}
    await hub.cluster(name, status=resources)


async def three_clusters(hub: Hub) -> None:
    await hub.bound_set()
    for name, cpu, memory in zip(names("c", 3), CPU, MEMORY, strict=True):
        await cluster(hub, name, cpu, memory)
    hub.start()


async def foreign_decision(hub: Hub, *clusters: str) -> None:
    listed = [{"clusterName": name, "reason": ""} for name in clusters]
    await hub.create(
        PLACEMENT_DECISION, "other-decision-1", NS, labels={PLACEMENT_LABEL: "other"}, status={"decisions": listed}
    )


def test_by_default_the_first_by_name_are_chosen() -> None:
    async def story(hub: Hub) -> None:
        await three_clusters(hub)
        await hub.place(numberOfClusters=2)
        await hub.settle()
        assert await hub.selected() == ["c000", "c001"]

    told(story)


def test_exactly_cpu_and_memory_decide() -> None:
    async def story(hub: Hub) -> None:
        await three_clusters(hub)
        await hub.place(numberOfClusters=2, prioritizerPolicy=policy("Exact", *RESOURCES))
        await hub.settle()
        assert await hub.selected() == ["c000", "c002"]

    told(story)


def test_steady_keeps_what_was_chosen_although_a_better_cluster_comes() -> None:
    async def story(hub: Hub) -> None:
        await three_clusters(hub)
        steady = policy("Additive", built_in("Steady", 3), *RESOURCES)
        await hub.place(numberOfClusters=2, prioritizerPolicy=steady)
        await hub.settle()
        assert await hub.selected() == ["c000", "c002"]
        written = len(hub.sight.writes)
        await foreign_decision(hub, "c001")
        await hub.settle()
        assert await hub.selected() == ["c000", "c002"]
        await cluster(hub, "c003", 10, 100)  # by resources alone, this one and c002 are the best
        await hub.settle()
        assert await hub.selected() == ["c000", "c002"]
        assert set(hub.sight.writes[written:]) == {"other-decision-1"}

    told(story)


def test_balance_counts_the_decisions_of_others() -> None:
    async def story(hub: Hub) -> None:
        await three_clusters(hub)
        await foreign_decision(hub, "c000")
        await hub.settle()
        balanced = policy("Exact", built_in("Balance", 2), built_in("ResourceAllocatableCPU"))
        await hub.place(numberOfClusters=2, prioritizerPolicy=balanced)
        await hub.settle()
        assert await hub.selected() == ["c001", "c002"]

    told(story)


def test_balance_counts_what_other_placements_have_also_after_a_restart() -> None:
    async def story(hub: Hub) -> None:
        await three_clusters(hub)
        await hub.place("other", numberOfClusters=2)
        await hub.settle()
        await hub.stop()
        hub.start()
        await hub.place(numberOfClusters=1, prioritizerPolicy=policy("Exact", built_in("Balance")))
        await hub.settle()
        assert await hub.selected() == ["c002"]

    told(story)


def test_without_steady_a_better_cluster_is_taken_and_given_back() -> None:
    async def story(hub: Hub) -> None:
        await three_clusters(hub)
        await hub.place(numberOfClusters=2, prioritizerPolicy=policy("Exact", *RESOURCES))
        await hub.settle()
        await cluster(hub, "c003", 10, 100)
        await hub.settle()
        assert await hub.selected() == ["c002", "c003"]
        await hub.delete(MANAGED_CLUSTER, "c003")
        await hub.settle()
        assert await hub.selected() == ["c000", "c002"]

    told(story)


def test_scores_of_add_ons_decide() -> None:
    async def story(hub: Hub) -> None:
        await three_clusters(hub)
        for name, value in zip(names("c", 3), (80, 90, 100), strict=True):
            await hub.score(name, value)
        await hub.place(numberOfClusters=2, prioritizerPolicy=ADD_ON)
        await hub.settle()
        assert await hub.selected() == ["c001", "c002"]

    told(story)


def test_scores_that_come_and_change_and_expire_change_the_choice() -> None:
    async def story(hub: Hub) -> None:
        await three_clusters(hub)
        await hub.place(numberOfClusters=2, prioritizerPolicy=ADD_ON)
        await hub.settle()
        assert await hub.selected() == ["c000", "c001"]
        for name, value in zip(names("c", 3), (80, 90, 100), strict=True):
            await hub.score(name, value)
        await hub.settle()
        assert await hub.selected() == ["c001", "c002"]
        for name, value in zip(names("c", 3), (100, 90, 100), strict=True):
            await hub.score(name, value)
        await hub.settle()
        assert await hub.selected() == ["c000", "c002"]
        until = (now() + timedelta(seconds=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
        await hub.score("c002", 100, validUntil=until)
        await hub.settle(8)
        assert await hub.selected() == ["c000", "c002"]
        await hub.settle(4)  # nothing happens but that time passes
        assert await hub.selected() == ["c000", "c001"]

    told(story)
