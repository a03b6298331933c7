"""Whole lives of federated workloads on a hub: templates change, pods move, leaders die, ledgers are lost.

The total and the budgets stay what they are, so the limits do, too: whatever happens, no controller takes an available
pod away below them, or makes one beyond them. In the end everything is as it should be.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest

from echelon.api.karmada import WORK
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.engine.rollout.control import PAUSED
from echelon.engine.workload.names import execution_namespace
from echelon.kube.errors import NotFound
from tests.budgets import Lives
from tests.controllers.hub import NS
from tests.controllers.strict import end
from tests.controllers.test_workload_crashes import Witness
from tests.controllers.workload_world import WorkloadWorld, of_deployment, rolling, told
from tests.engine.align.members import Pace

KINDS = ("Deployment", "CloneSet", "StatefulSet")
CLUSTERS = ("c1", "c2", "c3", "c4")
EVENTS = 12


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong in hundreds of lives."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@dataclass
class Life:
    """One life, drawn from a seed."""

    world: WorkloadWorld
    chance: Random
    total: int
    version: int = 1

    def sizes(self) -> dict[str, int]:
        """Divide the total among some clusters."""
        chosen = sorted(self.chance.sample(CLUSTERS, self.chance.randint(1, len(CLUSTERS))))
        found = dict.fromkeys(chosen, 0)
        for _ in range(self.total):
            found[self.chance.choice(chosen)] += 1
        return found

    async def upgrade(self) -> None:
        self.version = self.chance.choice((self.version + 1, max(1, self.version - 1)))
        await self.world.upgrade(str(self.version))

    async def move(self) -> None:
        await self.world.rebind(self.sizes())

    async def restart(self) -> None:
        await self.world.restart()

    async def second_leader(self) -> None:
        self.world.start()

    async def cut(self) -> None:
        """Hear nothing of a cluster for a while, without anybody noting that."""
        agent = self.world.limits.agents[self.chance.choice(CLUSTERS)]
        agent.cut = not agent.cut

    async def lose_the_ledger(self) -> None:
        if self.chance.random() < 0.5:
            await self.world.hub.delete(ROLLOUT_LEDGER, self.world.name, NS)
        else:
            await self.world.hub.patch(ROLLOUT_LEDGER, self.world.name, {"spec": {"content": "?"}}, NS)

    async def edit_a_work(self) -> None:
        """Have somebody write something else into a work, under the id that it has."""
        works = await self.world.works()
        if not works:
            return
        cluster = self.chance.choice(sorted(works))
        (manifest,) = works[cluster].spec.workload.manifests
        edited = {**manifest, "spec": {**manifest["spec"], "minReadySeconds": 7}}
        body = {"spec": {"workload": {"manifests": [edited]}}}
        await self.world.hub.patch(WORK, works[cluster].metadata.name, body, execution_namespace(cluster))

    async def pause(self) -> None:
        await self.world.annotate({PAUSED: self.chance.choice(("true", None))})

    async def wait(self) -> None:
        await self.world.settle(self.chance.choice((20, 60)))

    async def event(self) -> None:
        """Have something happen, and some time pass."""
        often: list[Callable[[], Awaitable[None]]] = [self.upgrade, self.move, self.wait]
        seldom = [self.restart, self.second_leader, self.cut, self.lose_the_ledger, self.edit_a_work, self.pause]
        with suppress(NotFound):  # the ledger was lost already
            await self.chance.choice((*often, *often, *seldom))()
        await self.world.settle(self.chance.choice((0.1, 0.5, 2, 5, 12)))


def lived(seed: int) -> list[str]:
    """Live a life; return what was seen that may never be."""
    chance = Random(seed)  # noqa: S311 - repeatable on purpose
    kind = chance.choice(KINDS)
    wrong: list[str] = []

    async def story(world: WorkloadWorld) -> None:
        world.pace = Pace(sync=0.05, lag=0.0, start=(1.0, chance.choice((1.5, 8.0))), end=0.5)
        witness = Witness()
        await world.join(*CLUSTERS)
        unavailable = chance.randint(1, 3)
        surge = chance.randint(0, 2) if kind != "StatefulSet" else 0
        life = Life(world, chance, chance.randint(4, 12))
        strategy = {
            "Deployment": of_deployment(unavailable, surge),
            "CloneSet": rolling(unavailable, surge, partition=0),
            "StatefulSet": {"type": "RollingUpdate", "rollingUpdate": rolling(unavailable, partition=0)},
        }[kind]
        await world.template(life.total, strategy=strategy)
        await world.bind(life.sizes())
        world.hub.client._cluster.store.on_commit(lambda change: witness(change) if _is_readable(change) else None)
        world.start()
        await world.finish()
        beyond = life.total if kind == "StatefulSet" else 0  # pods that are beyond those wanted go in their own order
        world.budgets(life.total - unavailable, life.total + surge + beyond)
        for _ in range(EVENTS):
            await life.event()
        for agent in world.limits.agents.values():
            agent.cut = False
        await world.annotate({PAUSED: None})
        await world.settle(5)
        await end(*world.hub.controllers)
        world.hub.controllers.clear()
        world.start()
        await world.finish(6000)
        image = f"web:{life.version}"
        for cluster, wanted in {each.name: each.replicas for each in (await world.binding()).spec.clusters}.items():
            member = world.limits.agents[cluster].member
            pods = member.active if member is not None else []
            good = [each for each in pods if each.revision in world.limits.agents[cluster].revisions.get(image, ())]
            assert len(good) == len(pods) == wanted, (cluster, world.pods())
        wrong.extend(each for each in witness.wrong if "granted" in each)

    told(story, kind)
    return wrong


def _is_readable(change: object) -> bool:
    """Whether a commit is not one by which a ledger was garbled."""
    entry = getattr(change, "entry")  # noqa: B009 - of a type that only the hub knows
    content = entry.object.get("spec", {}).get("content") if entry.key.resource == ROLLOUT_LEDGER.resource else ""
    return bool(content != "?")


@pytest.mark.lives("federated workloads")
def test_whatever_happens_no_budget_is_broken_and_it_all_comes_to_an_end(lives: Lives) -> None:
    for seed in lives:
        assert lived(seed) == [], seed
