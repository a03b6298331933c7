"""Decisions that no scheduler wrote: of clusters that nobody knows or that are others', and of groups that are none.

A tenant may turn scheduling off for its own placement and write what it likes, and may claim any owner.
"""

from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work import MANIFEST_WORK
from echelon.hub.client import InProcessClient
from tests.controllers.hub import INDEX_LABEL, NAME_LABEL, NS, PLACEMENT_LABEL
from tests.controllers.strict import STRICT
from tests.controllers.work_world import EVERYWHERE, WorkWorld, told

UNSCHEDULED = {"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"}
CLUSTERS = ["c1", "c2", "c3"]


def attempts(client: InProcessClient) -> list[str]:
    """Return where works are made from now on, with the attempts that are refused."""
    made: list[str] = []
    create = client.create

    async def counted(kind: Kind[Any], body: JSONObject, namespace: str = "", **options: Any) -> Any:
        if kind.resource == MANIFEST_WORK.resource:
            made.append(namespace)
        return await create(kind, body, namespace, **options)

    vars(client)["create"] = counted
    return made


async def fleet(world: WorkWorld) -> None:
    """Three clusters in a set that is bound to the tenant's namespace, one in another that is not."""
    await world.hub.bound_set("set")
    await world.hub.cluster_set("secret")
    await world.hub.clusters(CLUSTERS)
    await world.hub.cluster("vault", "secret")
    for name in (*CLUSTERS, "vault"):
        await world.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": name}})


async def forge(world: WorkWorld, name: str, clusters: list[str], index: str = "0", *, owned: bool = False) -> None:
    metadata: JSONObject = {}
    if owned:
        placement = await world.hub.placement()
        metadata["ownerReferences"] = [{**PLACEMENT.owner_reference("p", placement.metadata.uid), "controller": True}]
    labels = {PLACEMENT_LABEL: "p", INDEX_LABEL: index, NAME_LABEL: ""}
    decisions = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
    await world.hub.create(
        PLACEMENT_DECISION, name, NS, labels=labels, metadata=metadata, status={"decisions": decisions}
    )


@pytest.mark.parametrize("owned", [False, True], ids=["no owner", "owner forged"])
def test_a_tenant_who_decides_by_itself_reaches_the_clusters_that_are_bound_to_it_and_no_others(owned: bool) -> None:
    async def story(world: WorkWorld) -> None:
        await fleet(world)
        await world.hub.place(annotations=UNSCHEDULED)
        world.hub.start("placement", "work-sets")
        await forge(world, "mine", ["c1", "vault"], owned=owned)
        await world.roll_out(EVERYWHERE)
        await world.settle(20)
        assert sorted(await world.works()) == ["c1"]
        said = await world.condition("PlacementVerified")
        assert (said.status, said.reason, "vault" in said.message) == ("False", "ClusterNotBound", True)

    told(story, settings=STRICT)


@pytest.mark.parametrize("owned", [False, True], ids=["no owner", "owner forged"])
@pytest.mark.parametrize("decisions", [10, pytest.param(100, marks=pytest.mark.full)])
def test_thousands_of_clusters_that_nobody_knows_are_not_written_to(decisions: int, owned: bool) -> None:
    async def story(world: WorkWorld) -> None:
        await fleet(world)
        await world.hub.place(annotations=UNSCHEDULED)
        made = attempts(world.hub.client)
        world.hub.start("placement", "work-sets")
        for number in range(decisions):
            strangers = [f"nobody-{number}-{each}" for each in range(100)]
            await forge(world, f"many-{number}", strangers, owned=owned)
        await forge(world, "mine", ["c1"], owned=owned)
        await world.roll_out(EVERYWHERE)
        await world.settle(20)
        assert made == ["c1"]
        assert f"and {decisions * 100 - 3} more" in (await world.condition("PlacementVerified")).message

    told(story, settings=STRICT)


def test_a_decision_of_a_group_that_is_none_does_not_stop_the_others() -> None:
    async def story(world: WorkWorld) -> None:
        await fleet(world)
        await world.hub.place(annotations=UNSCHEDULED)
        await forge(world, "p-decision-1", CLUSTERS, owned=True)
        groups = [{"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": ["p-decision-1"], "clusterCount": 3}]
        status = {"numberOfSelectedClusters": 3, "decisionGroups": groups}
        await world.hub.patch(PLACEMENT, "p", {"status": status}, NS, "status")
        world.hub.start("work-sets")
        await forge(world, "strange", ["c1"], "first", owned=True)
        await world.roll_out(EVERYWHERE)
        await world.settle(20)
        assert sorted(await world.works()) == CLUSTERS
        assert "decision strange does not count" in (await world.condition("PlacementVerified")).message
        assert "DecisionsIgnored" in await world.events()

    told(story, settings=STRICT)


def test_a_placement_that_is_scheduled_takes_back_what_was_forged_for_it() -> None:
    async def story(world: WorkWorld) -> None:
        await fleet(world)
        await world.hub.place()
        world.hub.start("placement", "work-sets")
        await world.settle()
        await forge(world, "p-decision-7", ["vault"], "first", owned=True)
        await world.roll_out(EVERYWHERE)
        await world.settle(20)
        assert sorted(await world.works()) == CLUSTERS
        await world.settle(90)  # until the caches have come further than what was forged
        assert await world.hub.selected() == CLUSTERS

    told(story, settings=STRICT)
