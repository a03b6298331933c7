"""Objects that do not fit their types: nothing is deleted, made anew or taken out of a decision because of them."""

import asyncio
from typing import Any

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET_BINDING
from echelon.api.events import EVENT
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.placement.current import STAMP_ANNOTATION
from echelon.kube.client import MergePatch
from echelon.kube.errors import NotFound
from tests.controllers import hub as hubs
from tests.controllers.hub import NS, Hub
from tests.controllers.work_world import WorkWorld, told

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


async def loosen(hub: Hub, kind: Kind[Any]) -> None:
    """Have a hub whose schema of a kind allows what ours does not."""
    crds = CUSTOM_RESOURCE_DEFINITION.untyped()
    spec = (await hub.client.get(crds, kind.resource))["spec"]
    versions = [{**each, "schema": {"openAPIV3Schema": ANYTHING}} for each in spec["versions"]]
    await hub.client.patch(crds, kind.resource, MergePatch({"spec": {"versions": versions}}))


async def spoil(hub: Hub, kind: Kind[Any], name: str, namespace: str = "", **what: Any) -> None:
    """Write what no type of ours can hold."""
    await loosen(hub, kind)
    subresource = "status" if "status" in what else ""
    await hub.patch(kind, name, what, namespace, subresource)


async def work(world: WorkWorld, cluster: str) -> dict[str, Any] | None:
    try:
        return await world.hub.client.get(MANIFEST_WORK.untyped(), "web", cluster)
    except NotFound:
        return None


async def spoilt_work(world: WorkWorld) -> None:
    """Roll out to two clusters, and have a report on one that nobody can read when the controllers start again."""
    await world.place([("", ["a", "b"])])
    world.start()
    await world.roll_out(spec={"cascadeDeletionPolicy": "Foreground"})
    await world.settle()
    await world.hub.stop()
    world.hub.controllers.clear()
    await spoil(world.hub, MANIFEST_WORK, "web", "a", status={"conditions": "none"})
    world.start()
    await world.settle()


def test_a_work_that_cannot_be_read_is_neither_made_anew_nor_called_done() -> None:
    async def story(world: WorkWorld) -> None:
        await spoilt_work(world)
        found = (await world.hub.client.list(MANIFEST_WORK.untyped())).items
        assert sorted(each["metadata"]["namespace"] for each in found) == ["a", "b"]
        rollout = (await world.set()).status.rollout
        assert rollout is not None
        said = {name: (each.status, each.message) for each in rollout.clusters for name in each.names}
        assert said["a"][0] == "Failed"
        assert "the work web is there and cannot be read: Expected `array`, got `str`" in said["a"][1]
        assert await world.said("PlacementRolledOut") == ("False", "Progressing")

    told(story)


def test_people_are_told_which_object_cannot_be_read_once() -> None:
    async def story(world: WorkWorld) -> None:
        await spoilt_work(world)
        for number in range(3):
            await world.hub.patch(MANIFEST_WORK, "web", {"metadata": {"annotations": {"n": str(number)}}}, "a")
            await asyncio.sleep(60)
        (found,) = (await world.hub.client.list(EVENT, "a")).items
        assert (found.type, found.reason, found.series) == ("Warning", "Unreadable", None)
        assert (found.regarding.kind, found.regarding.name) == ("ManifestWork", "web")
        assert "$.status.conditions" in found.note

    told(story)


def test_a_work_that_can_be_read_again_goes_on() -> None:
    async def story(world: WorkWorld) -> None:
        await spoilt_work(world)
        await world.hub.patch(MANIFEST_WORK, "web", {"status": {"conditions": []}}, "a", "status")
        await world.settle()
        await world.finish()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")

    told(story)


def test_a_set_does_not_end_before_the_work_that_nobody_can_read() -> None:
    async def story(world: WorkWorld) -> None:
        await spoilt_work(world)
        await world.hub.patch(MANIFEST_WORK, "web", {"metadata": {"finalizers": ["example.com/agent"]}}, "a")
        await world.settle()
        await world.hub.delete(MANIFEST_WORK_REPLICA_SET, "web", NS)
        await world.settle()
        left = await work(world, "a")
        assert left is not None
        assert left["metadata"]["deletionTimestamp"]
        assert await work(world, "b") is None
        assert (await world.set()).metadata.deletion_timestamp
        await world.hub.patch(MANIFEST_WORK, "web", {"metadata": {"finalizers": None}}, "a")
        await world.settle()
        assert (await world.hub.client.list(MANIFEST_WORK_REPLICA_SET, NS)).items == []

    told(story)


def test_nobody_loses_a_work_because_of_a_decision_that_cannot_be_read() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"]), ("", ["c"])])
        for name in ("p-decision-1", "p-decision-2"):  # as Echelon writes them: with the status, they tell everything
            await world.hub.patch(
                PLACEMENT_DECISION, name, {"metadata": {"annotations": {STAMP_ANNOTATION: "1:x"}}}, NS
            )
        world.start()
        await world.roll_out()
        await world.settle()
        await world.finish()
        await spoil(
            world.hub, PLACEMENT_DECISION, "p-decision-1", NS, status={"decisions": [{"clusterName": "a", "reason": 7}]}
        )
        await world.restart()
        await world.settle()
        # The status agrees with what can be read, and who is in the other decision is unknown.
        groups = [{"decisionGroupIndex": 1, "decisionGroupName": "", "decisions": ["p-decision-2"], "clusterCount": 1}]
        status = {"numberOfSelectedClusters": 1, "decisionGroups": groups}
        await world.hub.patch(PLACEMENT, "p", {"status": status}, NS, "status")
        await asyncio.sleep(300)
        assert sorted(await world.works()) == ["a", "b", "c"]

    told(story, quiet=False)


def test_a_cluster_that_cannot_be_read_stays_in_its_decisions() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["a", "b", "c"])
        hub.start()
        await hub.place()
        await hub.settle()
        await hub.stop()
        await spoil(hub, MANAGED_CLUSTER, "b", status={"conditions": 7})
        hub.start()
        await asyncio.sleep(600)
        assert await hub.selected() == ["a", "b", "c"]
        await hub.patch(MANAGED_CLUSTER, "b", {"status": {"conditions": []}}, subresource="status")
        await hub.delete(MANAGED_CLUSTER, "a")
        await hub.settle()
        assert await hub.selected() == ["b", "c"]

    hubs.told(story)


def test_a_binding_that_cannot_be_read_empties_no_placement() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["a", "b"])
        hub.start()
        await hub.place()
        await hub.settle()
        await hub.stop()
        await spoil(hub, MANAGED_CLUSTER_SET_BINDING, "set", NS, spec={"clusterSet": ["set"]})
        hub.start()
        await asyncio.sleep(600)
        assert await hub.selected() == ["a", "b"]

    hubs.told(story)


def test_a_placement_writes_nothing_while_it_cannot_read_one_of_its_decisions() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["a", "b"])
        hub.start()
        await hub.place(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 1}})
        await hub.settle()
        await hub.stop()
        await spoil(
            hub, PLACEMENT_DECISION, "p-decision-1", NS, status={"decisions": [{"clusterName": "a", "reason": 7}]}
        )
        written = len(hub.sight.writes)
        hub.start()
        await asyncio.sleep(60)
        assert hub.sight.writes[written:] == []
        await hub.patch(
            PLACEMENT_DECISION,
            "p-decision-1",
            {"status": {"decisions": [{"clusterName": "a", "reason": ""}]}},
            NS,
            "status",
        )
        await hub.settle()
        assert await hub.selected() == ["a", "b"]

    hubs.told(story)
