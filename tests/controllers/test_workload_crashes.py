"""Whoever leads dies at whichever write: no budget is broken, no push has two contents, and it all comes to one end.

A workload over three clusters is made, updated, and moved, all at once or group by group. Every write of the controller
is once its last one, before it was committed and after; as many of them as the budget allows.
"""

import asyncio
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.karmada import WORK
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.controllers.running import Controllers
from echelon.engine.align import Ledger
from echelon.engine.workload.names import PLACEMENT, PUSH_ID, STRATEGY, cluster_of
from echelon.hub.server import ROOT
from echelon.kube.client import MergePatch
from echelon.kube.metrics import Metrics
from tests.budgets import Lives
from tests.controllers.strict import end
from tests.controllers.test_policy_crashes import Fate, Mortal
from tests.controllers.work_world import Groups, per_group
from tests.controllers.workload_world import WorkloadWorld, of_deployment, told

GROUPS: Groups = (("canary", ["c3"]), ("", ["c1", "c2"]))
SIZES = {"c1": 3, "c2": 4, "c3": 1}
MOVED = {"c1": 5, "c2": 2, "c3": 1}
STORIES: dict[str, dict[str, str]] = {
    "at once": {},
    "groups": {PLACEMENT: "p", STRATEGY: json.dumps(per_group(minSuccessTime="5s"))},
}
MODES = ("before", "after")
LEAST, MOST = 60, 400  # writes of the controller in its life


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong in hundreds of lives."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@dataclass
class Witness:
    """Sees every committed work and ledger: a push is in the ledger before any work has it, and has one content."""

    granted: set[tuple[str, int]] = field(default_factory=set)
    contents: dict[tuple[str, int], JSONObject] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __call__(self, change: Any) -> None:
        key, obj = change.entry.key, change.entry.object
        if change.type == "DELETED":
            return
        if key.resource == ROLLOUT_LEDGER.resource:
            ledger = Ledger.read(obj["spec"]["content"].encode())
            for cluster, entry in ledger.clusters.items():
                self.granted |= {(cluster, each.grant.id) for each in entry.grants}
        elif key.resource == WORK.resource:
            (manifest,) = obj["spec"]["workload"]["manifests"]
            push = (cluster_of(key.namespace) or "", int(manifest["metadata"]["annotations"][PUSH_ID]))
            if push not in self.granted:
                self.wrong.append(f"{push} was sent before it was granted")
            if self.contents.setdefault(push, manifest) != manifest:
                self.wrong.append(f"{push} was sent with two contents")


async def play(world: WorkloadWorld, notes: dict[str, str], fate: Fate) -> dict[str, Any]:
    """Tell the story; return its end."""
    await world.place(GROUPS)
    await world.template(8, strategy=of_deployment(1, 1))
    await world.bind(SIZES, annotations=notes)
    leaders = [start(world, fate)]

    async def replace_the_dead() -> None:
        await fate.died.wait()
        await asyncio.sleep(1)
        await end(leaders[0])
        world.hub.controllers.remove(leaders[0])
        leaders.append(start(world, Fate()))

    watching = asyncio.create_task(replace_the_dead())
    await done(world)
    world.budgets(7, 9)
    await world.upgrade("2")
    await done(world)
    await world.rebind(MOVED)
    await done(world)
    await world.settle(10)
    await end(watching)
    return {
        "pods": world.pods(),
        "conditions": {kind: said[:2] for kind, said in (await world.conditions()).items()},
        "status": (await world.found())["status"],
        "revisions": len(await world.revisions()),
        "works": sorted(await world.works()),
        "available": {name: each.available for name, each in (await world.figures()).items()},
    }


async def done(world: WorkloadWorld) -> None:
    """Wait until everything is as it should be, and has soaked."""
    wanted = {each.name: each.replicas for each in (await world.binding()).spec.clusters}
    image = (await world.found())["spec"]["template"]["spec"]["containers"][0]["image"]
    for _ in range(400):
        await world.settle(1)
        has = {}
        for name, agent in world.limits.agents.items():
            revisions = agent.revisions.get(image, set())
            pods = agent.member.pods if agent.member is not None else []
            good = [each for each in pods if each.available and each.revision in revisions]
            has[name] = len(good) if len(good) == len(pods) else -1
        told = [each for each in (await world.binding()).status.conditions if each.type == "PlacementRolledOut"]
        if has == wanted and told and told[0].status == "True" and await world.is_complete():
            return
    raise AssertionError(f"it does not end: {world.pods()}, {await world.conditions()}")


def start(world: WorkloadWorld, fate: Fate) -> asyncio.Task[None]:
    client = Mortal(world.hub.client._cluster, ROOT)
    client.fate = fate
    chance = Random(0)  # noqa: S311 - repeatable on purpose
    hub = world.hub
    made = Controllers(
        client, hub.clock, ("workloads",), random=chance, metrics=Metrics(), instance="test", settings=hub.settings
    )
    hub.controllers.append(asyncio.create_task(made.run()))
    return hub.controllers[-1]


def lived(name: str, fate: Fate) -> dict[str, Any]:
    """Run the story on a hub of its own; return its end."""
    ends: list[dict[str, Any]] = []

    async def story(world: WorkloadWorld) -> None:
        witness = Witness()
        world.hub.client._cluster.store.on_commit(witness)
        ends.append(await play(world, STORIES[name], fate))
        assert witness.wrong == []

    told(story)
    return ends[0]


@cache
def undisturbed(name: str) -> tuple[dict[str, Any], int]:
    """Return how the story ends when nobody dies, and how much the controller wrote."""
    fate = Fate()
    return lived(name, fate), fate.writes


@cache
def moments() -> list[tuple[str, str, int]]:
    """Return every write, mixed so that the first ones are a fair sample, the same one each time."""
    found = [(name, how, at) for name in STORIES for how in MODES for at in range(1, undisturbed(name)[1] + 1)]
    Random(0).shuffle(found)  # noqa: S311 - repeatable on purpose
    return found


@pytest.mark.parametrize("name", STORIES)
def test_the_controller_has_something_to_write(name: str) -> None:
    end_of_it, writes = undisturbed(name)
    assert LEAST < writes < MOST
    assert end_of_it["pods"] == {"c1": "0/0, 5/5", "c2": "0/0, 2/2", "c3": "0/0, 1/1"}


@pytest.mark.lives("crashes of federated workloads")
def test_a_crash_at_any_write_breaks_no_budget_and_changes_nothing_in_the_end(lives: Lives) -> None:
    for number in lives.below(len(moments())):
        name, how, at = moments()[number]
        fate = Fate(at, how)
        assert lived(name, fate) == undisturbed(name)[0], (name, how, at)
        assert fate.died.is_set(), (name, how, at)


def test_the_witness_sees_what_may_never_be() -> None:
    async def story(world: WorkloadWorld) -> None:
        witness = Witness()
        world.hub.client._cluster.store.on_commit(witness)
        await play(world, {}, Fate())
        assert witness.wrong == []
        await world.hub.stop()
        world.hub.controllers.clear()
        work = (await world.works())["c1"]
        (manifest,) = work.spec.workload.manifests
        push = int(manifest["metadata"]["annotations"][PUSH_ID])
        edited = {**manifest, "spec": {**manifest["spec"], "replicas": 9}}
        notes = {**manifest["metadata"]["annotations"], PUSH_ID: str(push + 1000)}
        unknown = {**manifest, "metadata": {**manifest["metadata"], "annotations": notes}}
        for each in (edited, unknown):
            body = MergePatch({"spec": {"workload": {"manifests": [each]}}})
            await world.hub.client.patch(WORK.untyped(), work.metadata.name, body, work.metadata.namespace)
        assert witness.wrong == [
            f"('c1', {push}) was sent with two contents",
            f"('c1', {push + 1000}) was sent before it was granted",
        ]

    told(story)
