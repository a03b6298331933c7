"""A controller of work sets that is killed, starved and lied to, while a fleet is upgraded and its decisions rewritten.

All clusters are selected from the beginning to the end, so no work may ever be deleted, however their decisions are
moved about; and no more clusters than allowed may be busy at once, in any committed state, whatever the controller
believed that it saw.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.running import Controllers
from echelon.fleet.loop import running
from echelon.fleet.simulation import Committed, Component, Invariant, Scenario, World, simulate
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.faults import Faults, FaultyClient
from echelon.kube.metrics import Metrics
from tests.budgets import Lives
from tests.controllers.hub import CRDS as CLUSTER_CRDS
from tests.controllers.hub import INDEX_LABEL, NS, PLACEMENT_LABEL
from tests.controllers.work_world import CRDS, TRUSTING, condition, per_group, progressive, template

CLUSTERS = [f"c{number}" for number in range(6)]
ALLOWED = 2
LAST = "4"
CRUEL = Faults(crash=0.1, late_write=0.3, stale=0.2, delay=0.3, conflict=0.1, server_error=0.1, latency=(0.0, 0.3))


async def create(client: Client, kind: Kind[Any], name: str, namespace: str = "", **fields: Any) -> None:
    metadata = {"name": name, **fields.pop("metadata", {})}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
    await client.create(kind.untyped(), body, namespace)


async def furnish(client: Client, strategy: JSONObject) -> None:
    for definition in (*CLUSTER_CRDS, *CRDS):
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    for name in (NS, *CLUSTERS):
        await create(client, NAMESPACE, name)
    await create(client, PLACEMENT, "p", NS, spec={})
    for index in range(3):
        labels = {PLACEMENT_LABEL: "p", INDEX_LABEL: str(index)}
        await create(client, PLACEMENT_DECISION, f"p-decision-{index + 1}", NS, metadata={"labels": labels})
    await publish(client, Random(0), [CLUSTERS[:2], CLUSTERS[2:4], CLUSTERS[4:]])  # noqa: S311 - repeatable on purpose
    # Replicas that lag must not show a time before the beginning.
    for number in range(Faults().stale_revisions):
        await create(client, CONFIG_MAP, f"filler{number}", NS)
    spec = {"manifestWorkTemplate": template("1"), "placementRefs": [{"name": "p", "rolloutStrategy": strategy}]}
    await create(client, MANIFEST_WORK_REPLICA_SET, "web", NS, spec=spec)


async def publish(client: Client, chance: Random, groups: Sequence[Sequence[str]]) -> None:
    """Rewrite decisions as upstream does: one by one, in any order, and the status after them."""
    for index in chance.sample(range(3), 3):
        decisions = [{"clusterName": cluster, "reason": ""} for cluster in groups[index]]
        body = MergePatch({"status": {"decisions": decisions}})
        await client.patch(PLACEMENT_DECISION, f"p-decision-{index + 1}", body, NS, subresource="status")
        await asyncio.sleep(chance.choice((0, 0, 1, 5)))
    status = {
        "numberOfSelectedClusters": len(CLUSTERS),
        "decisionGroups": [
            {
                "decisionGroupIndex": index,
                "decisionGroupName": "",
                "decisions": [f"p-decision-{index + 1}"],
                "clusterCount": len(group),
            }
            for index, group in enumerate(groups)
        ],
    }
    await client.patch(PLACEMENT, "p", MergePatch({"status": status}), NS, subresource="status")


async def people(client: Client, chance: Random, *, regroup: bool) -> None:
    for version in range(2, int(LAST) + 1):
        await asyncio.sleep(chance.choice((1, 10, 30)))
        body = {"spec": {"manifestWorkTemplate": template(str(version))}, "metadata": {"labels": {"v": str(version)}}}
        await client.patch(MANIFEST_WORK_REPLICA_SET, "web", MergePatch(body), NS)
        if regroup:
            names = chance.sample(CLUSTERS, len(CLUSTERS))
            cut = sorted((chance.randint(0, 6), chance.randint(0, 6)))
            await publish(client, chance, [names[: cut[0]], names[cut[0] : cut[1]], names[cut[1] :]])


async def agents(client: Client, chance: Random) -> None:
    """Report that all is done, some time after it was written."""
    while True:
        await asyncio.sleep(chance.uniform(0.5, 3))
        for work in (await client.list(MANIFEST_WORK)).items:
            meta, known = work.metadata, {each.type: each for each in work.status.conditions}
            if chance.random() < 0.5 or is_done(meta.generation, known.get("Progressing")):
                continue
            moment = running().clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            said = {"Applied": "True", "Available": "True", "Progressing": "False"}
            conditions = [condition(kind, how, meta.generation, known.get(kind), moment) for kind, how in said.items()]
            body = MergePatch({"status": {"conditions": conditions}})
            await client.patch(MANIFEST_WORK, meta.name, body, meta.namespace, subresource="status")


def is_done(generation: int, said: Any) -> bool:
    return said is not None and said.observed_generation == generation


async def controller(client: FaultyClient) -> None:
    chance = Random(running().random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    made = Controllers(
        client,
        running().clock,
        ["work-sets"],
        random=chance,
        metrics=Metrics(),
        instance="only",
        settings=TRUSTING,
    )
    await made.run()


def busy(world: World) -> dict[str, str]:
    """Return the clusters whose present content nobody has called done, and its version."""
    found = {}
    for work in world.objects(MANIFEST_WORK.resource):
        said = [each for each in work.get("status", {}).get("conditions", []) if each["type"] == "Progressing"]
        if not said or said[0]["observedGeneration"] != work["metadata"]["generation"]:
            version = work["spec"]["workload"]["manifests"][0]["data"]["version"]
            found[work["metadata"]["namespace"]] = version
    return found


def few_are_busy(world: World, commit: Committed) -> str | None:
    if commit.key.resource != MANIFEST_WORK.resource or len(found := busy(world)) <= ALLOWED:
        return None
    return f"{found} are busy at once"


def few_are_busy_with_one_version(world: World, commit: Committed) -> str | None:
    """A window knows no versions; a new one walks the groups from the first, whatever later groups are at."""
    if commit.key.resource != MANIFEST_WORK.resource or not (found := busy(world)):
        return None
    return f"{found} are busy at once" if Counter(found.values()).most_common(1)[0][1] > ALLOWED else None


def no_work_goes(world: World, commit: Committed) -> str | None:
    if commit.key.resource != MANIFEST_WORK.resource:
        return None
    if commit.type is EventType.DELETED:
        return f"the work of {commit.key.namespace} was deleted"
    places = [work["metadata"]["namespace"] for work in world.objects(MANIFEST_WORK.resource)]
    return None if len(places) == len(set(places)) else f"there are works in {sorted(places)}"


def everybody_has_the_last(world: World) -> str | None:
    found = {
        work["metadata"]["namespace"]: work["spec"]["workload"]["manifests"][0]["data"]["version"]
        for work in world.objects(MANIFEST_WORK.resource)
    }
    if found != dict.fromkeys(CLUSTERS, LAST):
        return f"there are {found}"
    (work_set,) = world.objects(MANIFEST_WORK_REPLICA_SET.resource, namespace=NS)
    said = {each["type"]: each["status"] for each in work_set["status"]["conditions"]}
    return None if said["PlacementRolledOut"] == "True" else f"the set says {said}"


def scenario(strategy: JSONObject, *, regroup: bool) -> Scenario:
    async def build(world: World) -> None:
        await world.add_cluster()
        client, chance = world.client(), Random(world.random.getrandbits(64))  # noqa: S311 - repeatable on purpose
        await furnish(client, strategy)
        world.start(Component("controller", controller))
        world.spawn(people(client, chance, regroup=regroup), "people")
        world.spawn(agents(client, chance), "agents")

    few = Invariant("few are busy", few_are_busy if regroup else few_are_busy_with_one_version)
    return Scenario(
        "work sets",
        build,
        everybody_has_the_last,
        (Invariant("no work goes", no_work_goes), few),
        chaos_seconds=150.0,
        settle_seconds=900.0,
        silence_seconds=120.0,
        kill_seconds=(10.0, 60.0),
        restart_seconds=(0.0, 10.0),
    )


WINDOW = scenario(progressive(maxConcurrency=ALLOWED), regroup=True)
GROUPS = scenario(per_group(), regroup=False)  # of two clusters each
SIDES = ((WINDOW, "crash_after"), (GROUPS, "crash_before"))


@pytest.mark.lives("work sets")
def test_no_work_is_lost_and_few_are_busy_whatever_goes_wrong(lives: Lives) -> None:
    for seed in lives:
        assert lives.note(simulate(WINDOW if seed % 3 else GROUPS, seed, CRUEL)).commits > 60


@pytest.mark.lives("crashes of work sets")
def test_a_crash_at_any_write_changes_nothing_in_the_end(lives: Lives) -> None:
    moments = [(scenario, side, number) for scenario, side in SIDES for number in range(1, 55)]
    Random(0).shuffle(moments)  # noqa: S311 - so that the first ones are a fair sample, the same one each time
    for each in lives.below(len(moments)):
        scenario, side, number = moments[each]
        crash: Any = {side: number}
        lives.note(simulate(scenario, each, Faults(**crash)))
