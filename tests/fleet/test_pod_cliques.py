"""The end-to-end test cases of the OnDelete proposal, on simulated members that begin the controller with a first set.

The workload is that of Grove's own tests: a standalone clique of two, and a scaling group of two replicas, in each of
which one pod leads and three work.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import yaml

from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.grove import GROUP, POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.placement import PLACEMENT
from echelon.api.podgangs import GROUP as GANGS
from echelon.api.registry import by_gvk
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.running import Controllers
from echelon.fleet.local import agent_user, register
from echelon.fleet.loop import run, running
from echelon.fleet.member.clone import clone_cluster
from echelon.fleet.member.fleet import Fleet
from echelon.fleet.member.profile import NodeShape
from echelon.fleet.pod_cliques import MemberControllers
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import MergePatch
from echelon.kube.metrics import Metrics
from echelon.rollouts.kinds import find
from tests.controllers.clique_world import NS, SETTINGS, CliqueWorld, clique, clique_world, group, set_of
from tests.controllers.strict import STRICT, end
from tests.fleet.test_leaving import NS as HUB_NS
from tests.fleet.test_leaving import agent, create, furnish

EXAMPLES = Path(__file__).parents[2] / "examples"
WORKLOAD = (clique("pc-a", 2, minAvailable=1), clique("pc-b", 1), clique("pc-c", 3))
GROUPS = [group("sg-x", "pc-b", "pc-c", replicas=2, least=2)]


def workload(strategy: str = "OnDelete", replicas: int = 1) -> JSONObject:
    return set_of(*WORKLOAD, replicas=replicas, strategy=strategy, podCliqueScalingGroups=GROUPS)


@asynccontextmanager
async def living(nodes: tuple[NodeShape, ...]) -> AsyncIterator[CliqueWorld]:
    async with clique_world(nodes) as world:
        controllers = MemberControllers(running().clock, settings=SETTINGS, leases=False)
        controllers.follow([world.member])
        assert controllers.members == [], "there is no set yet"
        try:
            yield world
        finally:
            await controllers.stop()
        assert controllers.members == [world.member.name]


def told(story: Callable[[CliqueWorld], Awaitable[None]], *nodes: NodeShape, seed: int = 0) -> None:
    """Tell a story in virtual time; after it there is silence, and no index ever had two live pods."""

    async def main() -> None:
        async with living(nodes or (NodeShape(), NodeShape(), NodeShape())) as world:
            await story(world)
            await world.settle()
            written = len(world.log.writes)
            await asyncio.sleep(900)
            assert world.log.writes[written:] == []
            assert world.log.doubled == []

    run(main(), seed)


async def began(world: CliqueWorld, spec: JSONObject, name: str = "w") -> list[str]:
    """Apply a set and wait until it serves; return its pods."""
    await world.apply(spec, name)
    await world.settle(120)
    assert world.ready() == len(world.names()) > 0
    return world.names()


def uids(world: CliqueWorld) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.pods()}


def test_case_1_nothing_is_deleted_a_deleted_pod_comes_back_new_and_outdated_pods_go_first_at_scale_in() -> None:
    async def story(world: CliqueWorld) -> None:
        pods = await began(world, workload())
        await world.roll("v2", "pc-a")
        await world.settle()
        assert (world.names(), world.log.ended) == (pods, [])
        status = (await world.set()).status
        progress = status.update_progress
        assert progress is not None
        assert progress.update_started_at == progress.update_ended_at
        assert (progress.currently_updating, status.updated_replicas, status.available_replicas) == ([], 0, 1)
        found = (await world.client.get(POD_CLIQUE, "w-0-pc-a", NS)).status
        assert (found.replicas, found.updated_replicas) == (2, 0)
        assert sorted(status.outdated_pods) == world.names("w-0-pc-a")

        gone, kept = world.names("w-0-pc-a")
        await world.delete(gone)
        await world.settle()
        assert world.images("w-0-pc-a") == ["v1", "v2"]
        assert (await world.client.get(POD_CLIQUE, "w-0-pc-a", NS)).status.updated_replicas == 1

        await world.scale("w-0-pc-a", 1)
        await world.settle()
        assert world.images("w-0-pc-a") == ["v2"]
        assert kept not in world.names()
        status = (await world.set()).status
        assert (status.updated_replicas, status.outdated_pods_count) == (1, 0)

    told(story)


def avoiding(node: str) -> JSONObject:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def on_nodes(world: CliqueWorld) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in world.pods()}


@pytest.mark.parametrize("edits", [True, False])
def test_case_2_only_the_pods_of_a_failed_node_are_made_anew_and_elsewhere_once_the_affinity_says_so(
    edits: bool,
) -> None:
    async def story(world: CliqueWorld) -> None:
        training = clique("worker", 6, minAvailable=1, pods={"containers": [GPU]})
        await began(world, set_of(training, strategy="OnDelete"))
        failed = next(iter(world.member.context.index.nodes))
        before, ids = on_nodes(world), uids(world)
        affected = [name for name, node in before.items() if node == failed]
        assert 0 < len(affected) < 6
        if edits:

            def avoid(spec: JSONObject) -> None:
                spec["template"]["cliques"][0]["spec"]["podSpec"]["affinity"] = avoiding(failed)

            await world.edit(avoid)
            await world.settle()
            assert on_nodes(world) == before, "the pods on healthy nodes go on, and so do the others until they end"
        await world.delete(*affected)
        await world.settle()
        after = on_nodes(world)
        assert len(after) == world.ready() == 6
        assert {name: uid for name, uid in uids(world).items() if name in before} == {
            name: uid for name, uid in ids.items() if name not in affected
        }
        # Without the edit they are placed where there is room: on the node that they came from.
        assert (failed in after.values()) is not edits

    told(story, *(NodeShape(resources={"nvidia.com/gpu": "2"}) for _ in range(5)))


GPU = {"name": "main", "image": "v1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}


def test_case_2_a_node_that_goes_down_loses_its_pods_and_they_come_back_with_the_new_template() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, set_of(clique("worker", 6, minAvailable=1), strategy="OnDelete"))
        failed = next(iter(world.member.context.index.nodes))
        before, ids = on_nodes(world), uids(world)
        affected = {name for name, node in before.items() if node == failed}
        await world.member.fail_node(failed)

        def avoid(spec: JSONObject) -> None:
            spec["template"]["cliques"][0]["spec"]["podSpec"]["affinity"] = avoiding(failed)

        await world.edit(avoid)
        await world.settle(1200)
        assert failed not in on_nodes(world).values()
        assert world.ready() == 6
        kept = {name: uid for name, uid in ids.items() if name not in affected}
        assert kept.items() <= uids(world).items(), "all others keep on training"
        await world.member.restore_node(failed)
        await world.settle(600)
        assert failed not in on_nodes(world).values()

    told(story)


def test_case_2_the_strategy_is_changed_both_ways_in_mid_update() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, set_of(clique("worker", 6, minAvailable=1), strategy="RollingRecreate"))
        await world.roll("v2")
        while world.images().count("v2") < 2:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.5)
        await world.respec({"updateStrategy": {"type": "OnDelete"}})
        await world.settle(600)
        mixed = world.images()
        assert mixed.count("v1") >= 3, "the brake holds at once, but for what was taken already"
        progress = (await world.set()).status.update_progress
        assert progress is not None
        assert progress.update_ended_at
        assert progress.currently_updating == []
        await world.respec({"updateStrategy": {"type": "RollingRecreate"}})
        await world.settle(600)
        assert world.images() == ["v2"] * 6, "what was left is rolled without another edit"
        status = (await world.set()).status
        assert (status.updated_replicas, status.outdated_pods_count) == (1, 0)

    told(story)


def test_case_2_scale_in_with_three_templates_takes_the_oldest_first() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, set_of(clique("worker", 6, minAvailable=1), strategy="OnDelete"))
        for image in ("v2", "v3"):
            await world.roll(image)
            await world.settle()
            old = [pod["metadata"]["name"] for pod in world.pods() if pod["spec"]["containers"][0]["image"] == "v1"]
            await world.delete(*old[:2])
            await world.settle()
        assert world.images() == ["v1", "v1", "v2", "v2", "v3", "v3"]
        for left in (["v1", "v2", "v2", "v3", "v3"], ["v2", "v2", "v3", "v3"], ["v2", "v3", "v3"], ["v3", "v3"]):
            await world.scale("w-0-worker", len(left))
            await world.settle()
            assert world.images() == left

    told(story)


@pytest.mark.parametrize("by", ["cliques", "pods"])
def test_case_3_a_replica_of_a_scaling_group_that_is_deleted_by_hand_comes_back_new(by: str) -> None:
    async def story(world: CliqueWorld) -> None:
        pods = await began(world, workload())
        await world.roll("v2", "pc-b", "pc-c")
        await world.settle()
        assert (world.names(), world.log.ended) == (pods, [])
        members = ["w-0-sg-x-1-pc-b", "w-0-sg-x-1-pc-c"]
        if by == "cliques":
            await world.delete(*members, kind=POD_CLIQUE)
        else:
            await world.delete(*(name for each in members for name in world.names(each)))
        await world.settle(120)
        assert [world.images(each) for each in members] == [["v2"], ["v2"] * 3]
        assert world.images("w-0-sg-x-0-pc-c") == ["v1"] * 3
        found = (await world.client.get(POD_CLIQUE_SCALING_GROUP, "w-0-sg-x", NS)).status
        assert (found.updated_replicas, found.available_replicas) == (1, 2)

    told(story)


def test_case_4_standalone_cliques_and_scaling_groups_are_treated_alike() -> None:
    async def story(world: CliqueWorld) -> None:
        pods = await began(world, workload(replicas=2))
        assert len(pods) == 20
        await world.roll("v2")
        await world.settle()
        assert (world.names(), world.log.ended) == (pods, [])
        await world.delete(world.names("w-0-pc-a")[0], world.names("w-1-sg-x-0-pc-c")[0])
        await world.settle()
        assert world.images("w-0-pc-a") == ["v1", "v2"]
        assert world.images("w-1-sg-x-0-pc-c") == ["v1", "v1", "v2"]
        assert world.images().count("v2") == 2
        assert (await world.set()).status.outdated_pods_count == 18

    told(story)


STAGED = {"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "30s", "maxFailures": 0}}


@asynccontextmanager
async def fleet_with_waves() -> AsyncIterator[tuple[InProcessClient, Fleet]]:
    """Have a hub and three members, on which nothing is until a work brings it."""
    logical = memory_cluster(clock=running().clock.now, seed=1)
    await bootstrap(logical)
    client = InProcessClient(logical, ROOT)
    await furnish(client)

    async def cluster_for(name: str) -> LogicalCluster:
        kinds = ("apps.kruise.io", GROUP, GANGS)
        return await clone_cluster(name, clock=running().clock.now, seed=hash(name), groups=kinds)

    wanted = "3 clusters; regions eu/us; canary label on 1; nodes 2"
    fleet = await Fleet.build(wanted, clock=running().clock.now, cluster_for=cluster_for)
    await fleet.start()
    pod_cliques = MemberControllers(running().clock, settings=SETTINGS)
    pod_cliques.follow(fleet.members.values())
    chance = Random(1)  # noqa: S311 - repeatable on purpose
    controllers = Controllers(
        client, running().clock, random=chance, metrics=Metrics(), instance="test", settings=STRICT
    )
    clusters = [logical, *(member.cluster for member in fleet.members.values())]
    tasks = [asyncio.create_task(run_controllers(each)) for each in clusters]
    tasks.append(asyncio.create_task(controllers.run()))
    for member in fleet.members.values():
        await register(client, member)
        hub = InProcessClient(logical, agent_user(member.name))
        tasks.append(asyncio.create_task(agent(hub, member).run()))
    try:
        yield client, fleet
    finally:
        await end(*tasks)
        await pod_cliques.stop()
        await fleet.stop()


def test_a_set_is_rolled_out_over_a_fleet_in_waves_and_tells_of_what_on_delete_left() -> None:
    async def main() -> None:
        async with fleet_with_waves() as (client, fleet):
            first, *others = sorted(fleet.members)
            await client.patch(
                PLACEMENT.untyped(),
                "p",
                MergePatch({"spec": {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": 1}}}}),
                HUB_NS,
            )
            manifest = {
                **POD_CLIQUE_SET.type_meta,
                "metadata": {"name": "w", "namespace": "default"},
                "spec": set_of(clique("front", 2, minAvailable=1), strategy="OnDelete"),
            }
            spec = {
                "placementRefs": [{"name": "p", "rolloutStrategy": STAGED}],
                "manifestWorkTemplate": {"workload": {"manifests": [manifest]}},
            }
            await create(client, MANIFEST_WORK_REPLICA_SET, "sets", spec, HUB_NS)
            await asyncio.sleep(600)
            images = await pods_of(fleet)
            assert images == {name: ["v1", "v1"] for name in (first, *others)}
            manifest["spec"] = set_of(clique("front", 2, "v2", minAvailable=1), strategy="OnDelete")
            spec["manifestWorkTemplate"] = {"workload": {"manifests": [manifest]}}
            await client.patch(MANIFEST_WORK_REPLICA_SET.untyped(), "sets", MergePatch({"spec": spec}), HUB_NS)
            await asyncio.sleep(600)
            assert await pods_of(fleet) == images, "nobody deletes pods because of an edit"
            for name in fleet.members:
                work = (await client.list(MANIFEST_WORK, name)).items[0]
                told_of = {each.type: (each.status, each.message) for each in work.status.conditions}
                left = "PodCliqueSet default/w: pods that run an older template until somebody deletes them: 2"
                assert told_of["Progressing"] == ("False", f"All objects are healthy; {left}")

    run(main(), 0)


def test_the_example_brings_an_inference_service_to_a_fleet_in_waves() -> None:
    async def main() -> None:
        async with fleet_with_waves() as (client, fleet):
            for document in yaml.safe_load_all((EXAMPLES / "pod-cliques-in-waves.yaml").read_text()):
                group_name, _, version = document["apiVersion"].rpartition("/")
                kind = by_gvk(group_name, version, document["kind"])
                assert kind is not None
                await client.create(kind.untyped(), document, document["metadata"].get("namespace", ""))
            while not any((await pods_of(fleet, "inference")).values()):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(1)
            begun = [name for name, pods in (await pods_of(fleet, "inference")).items() if pods]
            canaries = [name for name, each in fleet.members.items() if each.profile.cluster_labels.get("canary")]
            assert begun == canaries, "the others wait for the canary"
            await asyncio.sleep(600)
            assert {name: len(pods) for name, pods in (await pods_of(fleet, "inference")).items()} == dict.fromkeys(
                fleet.members, 8
            )
            _, found = await find(client, "manifestworkreplicaset/chat", "inference")
            assert found.picture(running().clock.now()).state == "complete"

    run(main(), 0)


@pytest.mark.parametrize("example", ["inference", "on-delete"])
def test_an_example_comes_to_life_on_a_cluster(example: str) -> None:
    async def story(world: CliqueWorld) -> None:
        document = yaml.safe_load((EXAMPLES / f"pod-cliques-{example}.yaml").read_text())
        name = document["metadata"]["name"]
        await began(world, document["spec"], name)
        assert (await world.set(name)).status.available_replicas == 1
        before = world.names()
        await world.roll("registry.example.com/new:1", name=name)
        await world.settle(600)
        assert (world.names() == before) is (example == "on-delete")

    told(story)


async def pods_of(fleet: Fleet, namespace: str = "default") -> dict[str, list[str]]:
    found = {}
    for name, member in sorted(fleet.members.items()):
        pods = (await member.client().list(POD.untyped(), namespace)).items
        ours = [each for each in pods if "grove.io/podclique" in each["metadata"].get("labels", {})]
        found[name] = sorted(each["spec"]["containers"][0]["image"] for each in ours)
    return found
