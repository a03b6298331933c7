"""Removal on a hub: quick where it is certain, whoever decides, and never because of a mistake or a short outage."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET_BINDING
from echelon.api.events import EVENT
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work import MANIFEST_WORK
from echelon.controllers.settings import ControllerSettings
from echelon.engine.cluster_health import UNAVAILABLE
from echelon.engine.rollout.thresholds import Threshold
from echelon.fleet.loop import running
from echelon.kube.errors import Unavailable
from echelon.rollouts.kinds import find
from echelon.rollouts.picture import Picture, draw
from tests.controllers.hub import NS
from tests.controllers.strict import STRICT
from tests.controllers.work_world import TRUSTING, Groups, WorkWorld, told

ABC: Groups = [("", ["a", "b", "c"])]
SOON = 3.0  # seconds within which a deselected cluster loses its work


async def bind(world: WorkWorld, *clusters: str) -> None:
    """Let a set with these clusters be bound to the namespace."""
    await world.hub.bound_set()
    for name in clusters:
        await world.hub.cluster(name)


async def own(world: WorkWorld, *decisions: str, placement: str = "p") -> None:
    """Let a placement own decisions."""
    uid = (await world.hub.placement(placement)).metadata.uid
    owner = {"apiVersion": PLACEMENT.api_version, "kind": "Placement", "name": placement, "uid": uid}
    for name in decisions:
        await world.hub.patch(PLACEMENT_DECISION, name, {"metadata": {"ownerReferences": [owner]}}, NS)


async def notes(world: WorkWorld, reason: str) -> list[str]:
    found = (await world.hub.client.list(EVENT.untyped(), NS)).items
    return [each["note"] for each in found if each["reason"] == reason]


async def drawn(world: WorkWorld) -> Picture:
    """Return what the command line shows."""
    _, found = await find(world.hub.client, "web", NS)
    return draw(found.subject, found.objects, world.hub.clock.now())


async def seconds_until(world: WorkWorld, version: str, clusters: list[str]) -> float:
    began = running().time()
    while await world.at(version) != clusters:
        await asyncio.sleep(0.05)
        assert running().time() - began < 300, await world.versions()
    return running().time() - began


async def shrink(world: WorkWorld) -> None:
    await world.decide([("", ["a", "b"])])


async def exchange(world: WorkWorld) -> None:
    """Let one come for another, of which no number tells, so that the status has nothing new to say."""
    await world.slice("p-decision-1", 0, "", ["a", "b", "d"])


@pytest.mark.parametrize("settings", [TRUSTING, STRICT], ids=["trusting", "careful"])
@pytest.mark.parametrize("owned", [False, True], ids=["labelled", "owned"])
@pytest.mark.parametrize("change", [shrink, exchange])
def test_a_deselected_cluster_loses_its_work_soon_whoever_wrote_the_decisions(
    change: Callable[[WorkWorld], Awaitable[None]], owned: bool, settings: ControllerSettings
) -> None:
    async def story(world: WorkWorld) -> None:
        await world.place(ABC)
        await world.cluster("d")
        await bind(world, "a", "b", "c", "d")
        if owned:
            await own(world, "p-decision-1")
        world.start()
        await world.roll_out()
        await world.settle(600)
        await change(world)
        await world.settle(0.5)
        left = ["a", "b"] if change is shrink else ["a", "b", "d"]
        assert await seconds_until(world, "1", left) < SOON - 0.5
        (note,) = await notes(world, "WorksRemoved")
        assert note == "the work of c is deleted: placement p does not select it"

    told(story, settings=settings)


@pytest.mark.parametrize("settings", [TRUSTING, STRICT], ids=["trusting", "careful"])
def test_a_placement_whose_status_tells_of_no_groups_is_rolled_out_and_shrinks(settings: ControllerSettings) -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b", "c"])])
        await world.hub.patch(PLACEMENT, "p", {"status": None}, NS, "status")
        await bind(world, "a", "b", "c")
        world.start()
        await world.roll_out()
        await world.settle()
        await world.finish()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")
        await world.slice("p-decision-1", 0, "", ["a", "b"])
        assert await seconds_until(world, "1", ["a", "b"]) < SOON

    told(story, settings=settings)


def test_decisions_that_nobody_owns_are_believed_when_they_have_been_the_same_for_a_moment() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        await bind(world, "a", "b", "c")
        await world.cluster("c")
        world.start()
        await world.roll_out()
        await world.settle()
        assert await world.at("1") == ["a", "b"]
        await world.decide([("", ["a", "b", "c"])])
        await world.settle(1.5)
        assert await world.at("1") == ["a", "b"]
        await world.settle(1.5)
        assert await world.at("1") == ["a", "b", "c"]

    told(story, settings=STRICT)


def test_decisions_of_others_are_ignored_where_a_placement_owns_some_and_that_is_told() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        await own(world, "p-decision-1")
        await bind(world, "a", "b", "c")
        await world.cluster("c")
        await world.slice("made-by-hand", 0, "", ["c"])
        world.start()
        await world.roll_out()
        await world.settle(10)
        assert await world.at("1") == ["a", "b"]
        (note,) = await notes(world, "DecisionsIgnored")
        assert note.startswith("p: made-by-hand have its label")
        assert "made-by-hand" in (await world.condition("PlacementVerified")).message

    told(story, settings=STRICT)


def test_a_decision_made_by_hand_brings_nothing_to_a_cluster_of_no_bound_set() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "victim"])])
        await own(world, "p-decision-1")  # which can be forged
        await bind(world, "a")
        await world.hub.cluster_set("others")
        await world.hub.cluster("victim", "others")
        world.start()
        await world.roll_out()
        await world.settle(10)
        assert await world.at("1") == ["a"]
        status, reason = await world.said("PlacementVerified")
        assert (status, reason) == ("False", "ClusterNotBound")
        assert await world.standing("victim") == ("Skip", "ClusterNotBound")
        await world.hub.bind("others")
        await world.settle(10)
        assert await world.at("1") == ["a", "victim"]

    told(story, settings=STRICT)


@pytest.mark.parametrize("others", [1, 120])
def test_the_command_line_waits_for_no_cluster_that_may_not_be_written(others: int) -> None:
    async def story(world: WorkWorld) -> None:
        bound = [f"c{number}" for number in range(others)]
        await world.place([("", [*bound, "victim"])])
        await own(world, "p-decision-1")
        await bind(world, *bound)
        await world.hub.cluster_set("others")
        await world.hub.cluster("victim", "others")
        world.start()
        await world.roll_out()
        await world.settle(10)
        picture = await drawn(world)
        assert (picture.state, picture.over) == ("rolling out", False), "the others are still moving"
        await world.finish()
        picture = await drawn(world)
        assert (picture.state, picture.over) == ("held", True)
        assert "victim: selected, but in no cluster set that is bound to namespace apps" in picture.message
        (line,) = [each for group in picture.groups for each in group.clusters if each.name == "victim"]
        assert line.state == "skipped"

    told(story, settings=STRICT)


def test_the_command_line_calls_nothing_complete_while_clusters_have_yet_to_lose_their_works() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place(ABC)
        await bind(world, "a", "b", "c")
        world.start()
        await world.roll_out()
        await world.settle()
        await world.finish()
        assert (await drawn(world)).state == "complete"
        for cluster in ("b", "c"):
            await world.hub.patch(MANIFEST_WORK, "web", {"metadata": {"finalizers": ["example.com/hold"]}}, cluster)
        await world.decide([("", ["a"])])
        await world.settle(10)
        picture = await drawn(world)
        assert (picture.state, picture.over) == ("rolling out", False)
        assert "1 are still to lose what they have" in picture.message
        for cluster in ("b", "c"):
            await world.hub.patch(MANIFEST_WORK, "web", {"metadata": {"finalizers": None}}, cluster)
            await world.settle()
        assert await world.at("1") == ["a"]
        assert (await drawn(world)).state == "complete"

    told(story, settings=replace(STRICT, max_removals=Threshold(number=1)))


def test_a_cluster_that_leaves_its_set_keeps_its_work_until_that_is_approved() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place(ABC)
        await bind(world, "a", "b", "c")
        world.start()
        await world.roll_out()
        await world.settle()
        await world.hub.patch(MANAGED_CLUSTER, "c", {"metadata": {"labels": {hub_label(): None}}})
        await shrink(world)
        await world.settle(60)
        assert await world.at("1") == ["a", "b", "c"]
        assert await world.said("PlacementRolledOut") == ("False", "RemovalHeld")
        # One that does not exist any more has nothing to lose.
        await world.hub.delete(MANAGED_CLUSTER, "c")
        await world.settle(10)
        assert await world.at("1") == ["a", "b"]

    told(story, settings=STRICT)


def hub_label() -> str:
    return "cluster.open-cluster-management.io/clusterset"


async def placed(world: WorkWorld, **spec: Any) -> None:
    """Let placement and works be the controllers' business, for three clusters in the region eu."""
    await world.hub.bound_set()
    for name in ("a", "b", "c"):
        await world.cluster(name)
        await world.hub.cluster(name, labels={"region": "eu"})
    predicate = {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"region": "eu"}}}}
    await world.hub.place(predicates=[predicate], **spec)
    world.hub.start("placement", "work-sets")
    await world.roll_out()
    await world.settle(10)
    await world.finish()
    assert await world.said("PlacementRolledOut") == ("True", "Complete")


async def mistype(world: WorkWorld) -> None:
    predicate = {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"region": "ue"}}}}
    await world.hub.respec(predicates=[predicate])


async def unbind(world: WorkWorld) -> None:
    await world.hub.delete(MANAGED_CLUSTER_SET_BINDING, "set", NS)


async def name_another_set(world: WorkWorld) -> None:
    await world.hub.respec(clusterSets=["sett"])


async def delete_the_placement(world: WorkWorld) -> None:
    await world.hub.delete(PLACEMENT, "p", NS)


@pytest.mark.parametrize(
    ("mistake", "cause"),
    [
        (mistype, "No ManagedCluster matches any of the cluster predicate"),
        (unbind, "No valid ManagedClusterSetBindings found in placement namespace"),
        (name_another_set, "None of ManagedClusterSets [sett] is bound to placement namespace"),
        (delete_the_placement, "there is no placement p in namespace apps"),
    ],
)
def test_a_mistake_in_a_placement_costs_no_workload_and_is_told(
    mistake: Callable[[WorkWorld], Awaitable[None]], cause: str
) -> None:
    async def story(world: WorkWorld) -> None:
        await placed(world)
        await mistake(world)
        await world.settle(600)
        assert await world.at("1") == ["a", "b", "c"]
        assert await world.said("PlacementRolledOut") == ("False", "RemovalHeld")
        assert cause in (await notes(world, "RemovalHeld"))[-1]
        assert (await world.events()).count("RolloutComplete") == 1
        assert await world.counts() == {"total": 3, "available": 3, "applied": 3, "updated": 3}

    told(story, settings=STRICT)


async def taint(world: WorkWorld, name: str, *, tainted: bool) -> None:
    added = running().clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    taints = [{"key": UNAVAILABLE, "effect": "NoSelect", "timeAdded": added}] if tainted else []
    await world.hub.patch(MANAGED_CLUSTER, name, {"spec": {"taints": taints}})


def test_a_cluster_whose_control_plane_restarts_keeps_its_work_and_one_that_stays_away_loses_it() -> None:
    async def story(world: WorkWorld) -> None:
        await placed(world)
        before = {name: work.metadata.uid for name, work in (await world.works()).items()}
        await taint(world, "a", tainted=True)
        await world.settle(80)
        assert await world.hub.selected() == ["b", "c"]
        await taint(world, "a", tainted=False)
        await world.settle(60)
        assert await world.hub.selected() == ["a", "b", "c"]
        assert {name: work.metadata.uid for name, work in (await world.works()).items()} == before
        await taint(world, "a", tainted=True)
        await world.settle(290)
        assert await world.at("1") == ["a", "b", "c"]
        await world.settle(20)
        assert await world.at("1") == ["b", "c"]

    told(story, settings=STRICT)


class Mute:
    """A client that is not told which decisions there are."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.refused = 0
        self.heals = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list(self, kind: Any, namespace: str = "", **options: Any) -> Any:
        if kind is PLACEMENT_DECISION and options.get("labels") and not self.heals:
            self.refused += 1
            raise Unavailable("the hub is busy with something else")
        return await self._client.list(kind, namespace, **options)


def test_a_hub_that_does_not_tell_is_asked_again_and_again_and_people_are_told() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place(ABC)
        client, mute = world.hub.client, Mute(world.hub.client)
        world.hub.client = mute  # type: ignore[assignment]
        world.start()
        world.hub.client = client
        await world.roll_out()
        await world.settle()
        await shrink(world)
        await world.settle(60)
        assert await world.at("1") == ["a", "b", "c"]
        assert "the hub is busy with something else" in (await world.condition("PlacementVerified")).message
        assert 3 < mute.refused < 20
        mute.heals = True
        await world.settle(60)
        assert await world.at("1") == ["a", "b"]
        assert (await world.condition("PlacementVerified")).message == ""

    told(story)


def test_a_cluster_that_is_back_keeps_its_work_until_it_can_be_selected_again() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place(ABC)
        await bind(world, "a", "b", "c")
        world.start()
        await world.roll_out()
        await world.settle()
        uid = (await world.works())["c"].metadata.uid
        await taint(world, "c", tainted=True)
        await shrink(world)
        await world.settle(80)
        await taint(world, "c", tainted=False)
        await world.annotate({"touched": "so that somebody looks before it is selected again"})
        await world.settle(10)
        await world.decide(ABC)
        await world.settle(60)
        assert (await world.works())["c"].metadata.uid == uid

    told(story)
