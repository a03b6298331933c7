"""People who do to a rollout what people do: change their minds in the middle of it, in every way there is."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.fleet.simulation import World
from echelon.kube.client import Client
from tests.controllers.hub import NS
from tests.controllers.rollout_decider import Decider
from tests.controllers.rollout_verbs import Verbs
from tests.controllers.work_rules import version_of
from tests.controllers.work_world import EVERYWHERE, per_group, progressive, template

CLUSTERS = [f"c{number}" for number in range(6)]
SPARE = ["c6", "c7"]

SEEN: Counter[str] = Counter()  # what happened in all worlds of this process, to know that they are worth running


def drawn_strategy(chance: Random) -> JSONObject:
    limits: JSONObject = {
        "minSuccessTime": chance.choice(("0", "5s", "20s")),
        "progressDeadline": chance.choice(("15s", "30s", "30s", "None")),
        "maxFailures": chance.choice((0, 1, 1, 2)),
    }
    canary, last = {"groupName": "canary"}, {"groupIndex": 2}
    if first := chance.choice(([], [canary], [{"groupIndex": 0}], [canary, last])):
        limits["mandatoryDecisionGroups"] = first
    what = chance.random()
    if what < 0.45:
        return progressive(maxConcurrency=chance.choice((1, 2, 2, 3)), **limits)
    return per_group(**limits) if what < 0.95 else EVERYWHERE


@dataclass
class People:
    """Those who change sets and decisions."""

    world: World
    client: Client
    chance: Random
    steps: int
    version: int = 1
    decider: Decider = field(init=False)

    def __post_init__(self) -> None:
        self.decider = Decider(self.world, self.client, self.chance, CLUSTERS + SPARE)

    @cached_property
    def verbs(self) -> Verbs:
        return Verbs(self.client, self.chance, MANIFEST_WORK_REPLICA_SET, "web", self.revision)

    async def meddle(self) -> None:
        """Do one thing after the other, and leave the world in order, or not."""
        verbs, decider = self.verbs, self.decider
        acts = (
            (5, self.upgrade),
            (1, self.undo),
            (2, self.change_strategy),
            (2, verbs.pause),
            (2, verbs.resume),
            (2, verbs.promote),
            (2, verbs.retry),
            (1, verbs.abort),
            (2, verbs.gate),
            (3, verbs.approve),
            (1, verbs.relabel),
            (1, self.lose_a_work),
            (5, decider.move),
            (4, decider.come_and_go),
            (3, decider.shift),
            (2, decider.make_anew),
        )
        await self.upgrade()
        for _ in range(self.steps):
            (act,) = self.chance.choices([act for _, act in acts], [weight for weight, _ in acts])
            SEEN[act.__name__] += 1
            await act()
            await asyncio.sleep(self.chance.choice((0, 0.05, 1, 4, 12)))
        if self.chance.random() < 0.7:
            await verbs.clean_up()
            await self.upgrade()

    async def upgrade(self) -> None:
        self.version += 1
        body: JSONObject = {"spec": {"manifestWorkTemplate": template(str(self.version))}}
        if self.chance.random() < 0.3:
            body["metadata"] = {"labels": {"release": str(self.version)}}
        await self.verbs.alter(body)

    async def undo(self) -> None:
        version = str(self.chance.randint(1, self.version))
        await self.verbs.alter({"spec": {"manifestWorkTemplate": template(version)}})

    async def change_strategy(self) -> None:
        refs = [{"name": "p", "rolloutStrategy": drawn_strategy(self.chance)}]
        await self.verbs.alter({"spec": {"placementRefs": refs}})

    async def lose_a_work(self) -> None:
        works = self.world.objects(MANIFEST_WORK.resource)
        there = [each["metadata"]["namespace"] for each in works if "deletionTimestamp" not in each["metadata"]]
        if there:
            self.world.memory["lost"] = cluster = self.chance.choice(there)
            await self.client.delete(MANIFEST_WORK, "web", cluster)

    def revision(self) -> str | None:
        """Return the revision of the present template, as people read it: from what is stored."""
        (work_set,) = self.world.objects(MANIFEST_WORK_REPLICA_SET.resource, namespace=NS)
        wanted = version_of(work_set["spec"]["manifestWorkTemplate"])
        stored = self.world.objects(CONTROLLER_REVISION.resource, namespace=NS)
        return next((hash_of(each) for each in stored if content_of(each) == wanted), None)


def content_of(revision: JSONObject) -> str:
    """Return which content a revision stores."""
    return version_of(revision["data"]["spec"]["manifestWorkTemplate"])


def hash_of(revision: JSONObject) -> str:
    """Return what the content of a revision is called."""
    name: str = revision["metadata"]["name"]
    return name.removeprefix("web-")
