"""A placement controller that is killed, starved and lied to: no cluster that stays selected is ever missing.

The reader here sees every committed state of the decisions and knows nothing of how they are made. Clusters that are
selected from the beginning to the end may change their groups, the groups may be cut differently, other clusters come
and go; in no state may one of them be in no decision, once it has been in one.
"""

import asyncio
from random import Random
from typing import Any

import pytest

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.core import CONFIG_MAP, NAMESPACE
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.controllers.publication import REGROUP_ANNOTATION
from echelon.controllers.running import Controllers
from echelon.fleet.loop import running
from echelon.fleet.simulation import (
    Committed,
    Component,
    Invariant,
    Scenario,
    World,
    seeds,
    simulate,
)
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.faults import Faults, FaultyClient
from echelon.kube.metrics import Metrics
from tests.controllers.hub import CRDS, INDEX_LABEL, NAME_LABEL, NS, PLACEMENT_LABEL, SET_LABEL

STABLE = [f"s{number:02d}" for number in range(12)]
CHURNING = [f"x{number:02d}" for number in range(6)]
GROUPS = ("one", "two")
PLACEMENTS = ("p", "q")


async def create(client: Client, kind: Kind[Any], name: str, namespace: str = "", **fields: Any) -> None:
    metadata = {"name": name, **fields.pop("metadata", {})}
    await client.create(
        kind.untyped(), {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}, namespace
    )


async def cluster(client: Client, name: str, **labels: str) -> None:
    metadata = {"labels": {SET_LABEL: "set", **labels}}
    await create(client, MANAGED_CLUSTER, name, metadata=metadata, spec={"hubAcceptsClient": True})


async def furnish(client: Client) -> None:
    """Make what is there from the beginning to the end."""
    for definition in CRDS:
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    await create(client, NAMESPACE, NS)
    await create(client, MANAGED_CLUSTER_SET, "set")
    await create(client, MANAGED_CLUSTER_SET_BINDING, "set", NS, spec={"clusterSet": "set"})
    for number, name in enumerate(STABLE):
        await cluster(client, name, app="yes", group=GROUPS[number % 2])
    for name in PLACEMENTS:
        spec = {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"app": "yes"}}}}]}
        await create(client, PLACEMENT, name, NS, spec={**spec, "decisionStrategy": strategy(3)})
    # Replicas that lag must not show a time before the beginning: then these clusters were not there.
    for number in range(Faults().stale_revisions):
        await create(client, CONFIG_MAP, f"filler{number}", NS)


def strategy(size: int) -> JSONObject:
    named = [
        {"groupName": name, "groupClusterSelector": {"labelSelector": {"matchLabels": {"group": name}}}}
        for name in GROUPS
    ]
    grouping = {"decisionGroups": named, "clustersPerDecisionGroup": size}
    return {"groupStrategy": grouping, "updateStrategy": {"type": "RollingUpdate"}}


async def meddle(client: Client) -> None:
    """Change clusters and placements for four minutes."""
    chance = running().random
    present: set[str] = set()
    for step in range(40):
        what = chance.random()
        if what < 0.35:
            for name in chance.sample(STABLE, chance.randint(1, 3)):
                await relabel(client, name, group=chance.choice((*GROUPS, "none")))
        elif what < 0.8:
            name = chance.choice(CHURNING)
            if name not in present:
                await cluster(client, name, app=chance.choice(("yes", "no")), group=chance.choice(GROUPS))
                present.add(name)
            elif chance.random() < 0.4:
                await client.delete(MANAGED_CLUSTER, name)
                present.discard(name)
            else:
                await relabel(client, name, app=chance.choice(("yes", "no")), group=chance.choice(GROUPS))
        elif what < 0.9:
            body = {"spec": {"decisionStrategy": strategy(chance.randint(2, 7))}}
            await client.patch(PLACEMENT, chance.choice(PLACEMENTS), MergePatch(body), NS)
        else:
            body = {"metadata": {"annotations": {REGROUP_ANNOTATION: str(step)}}}
            await client.patch(PLACEMENT, chance.choice(PLACEMENTS), MergePatch(body), NS)
        await asyncio.sleep(chance.choice((0, 0, 0.05, 1, 12)))


async def relabel(client: Client, name: str, **labels: str) -> None:
    await client.patch(MANAGED_CLUSTER, name, MergePatch({"metadata": {"labels": labels}}))


async def controller(client: FaultyClient) -> None:
    chance = Random(running().random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    made = Controllers(client, running().clock, ["placement"], random=chance, metrics=Metrics(), instance="simulated")
    await made.run()


def decisions_of(world: World, placement: str) -> list[JSONObject]:
    found = world.objects(PLACEMENT_DECISION.resource, namespace=NS)
    return [item for item in found if item["metadata"]["labels"][PLACEMENT_LABEL] == placement]


def listed(decision: JSONObject) -> list[str]:
    return [entry["clusterName"] for entry in decision.get("status", {}).get("decisions", [])]


def nobody_vanishes(world: World, commit: Committed) -> str | None:
    if commit.key.resource != PLACEMENT_DECISION.resource:
        return None
    placement = commit.object["metadata"]["labels"][PLACEMENT_LABEL]
    here = {name for decision in decisions_of(world, placement) for name in listed(decision)}
    known: set[str] = world.memory.setdefault(f"seen in {placement}", set())
    missing = known - here
    known |= here.intersection(STABLE)
    return f"{placement} does not have {sorted(missing)} in any decision" if missing else None


def decisions_are_lists_of_one_group(world: World, commit: Committed) -> str | None:
    """A decision keeps its group's name while it has clusters, and is not deleted with one that is wanted."""
    del world
    if commit.key.resource != PLACEMENT_DECISION.resource or commit.previous is None:
        return None
    if commit.type is EventType.DELETED or not (listed(commit.previous) and listed(commit.object)):
        return None
    before, after = (obj["metadata"]["labels"][NAME_LABEL] for obj in (commit.previous, commit.object))
    return f"group {before} became {after}" if before != after else None


def everything_is_published(world: World) -> str | None:
    clusters = {
        item["metadata"]["name"]: item["metadata"]["labels"] for item in world.objects(MANAGED_CLUSTER.resource)
    }
    wanted = {name: labels["group"] for name, labels in clusters.items() if labels["app"] == "yes"}
    for placement in world.objects(PLACEMENT.resource, namespace=NS):
        name = placement["metadata"]["name"]
        size = placement["spec"]["decisionStrategy"]["groupStrategy"]["clustersPerDecisionGroup"]
        found: dict[str, str] = {}
        sizes: dict[int, int] = {}
        for decision in decisions_of(world, name):
            labels = decision["metadata"]["labels"]
            index = int(labels[INDEX_LABEL])
            sizes[index] = sizes.get(index, 0) + len(listed(decision))
            for each in listed(decision):
                if each in found:
                    return f"{each} is twice in {name}"
                found[each] = labels[NAME_LABEL]
        if found != {each: group if group in GROUPS else "" for each, group in wanted.items()}:
            return f"{name} has {found} and wants {wanted}"
        if sorted(sizes) != list(range(len(sizes))) or max(sizes.values()) > size:
            return f"{name} has groups {sizes} of at most {size}"
        told = placement.get("status", {})
        counts = {group["decisionGroupIndex"]: group["clusterCount"] for group in told.get("decisionGroups", [])}
        if counts != sizes or told.get("numberOfSelectedClusters") != len(wanted):
            return f"{name} says {told} and has {sizes}"
    return None


async def build(world: World) -> None:
    await world.add_cluster()
    await furnish(world.client())
    world.start(Component("placement", controller))
    world.spawn(meddle(world.client()), "people")


SCENARIO = Scenario(
    name="placement",
    build=build,
    goal=everything_is_published,
    invariants=(
        Invariant("nobody vanishes", nobody_vanishes),
        Invariant("a decision stays with its group", decisions_are_lists_of_one_group),
    ),
)


@pytest.mark.parametrize("seed", seeds(20))
def test_nobody_vanishes_whatever_goes_wrong(seed: int) -> None:
    outcome = simulate(SCENARIO, seed)
    assert outcome.commits > 60


# Deaths in the middle of updates, requests that arrive after the death, and reads of an older state.
CRUEL = Faults(crash=0.2, late_write=0.5, stale=0.3, delay=0.3, conflict=0.1, latency=(0.0, 0.5))


@pytest.mark.parametrize("seed", seeds(8))
def test_nobody_vanishes_when_updates_are_torn_again_and_again(seed: int) -> None:
    simulate(SCENARIO, seed, CRUEL)
