"""People who do to a rollout what people do: change their minds in the middle of it, in every way there is.

Decisions are written here as upstream writes them: one after the other in any order, some made anew, and the status of
the placement after them. So clusters which are moved are in no decision for a while, and where others come and go at
the same time, what is committed can look complete when it is not.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.fleet.loop import running
from echelon.fleet.simulation import World
from echelon.kube.client import Client, MergePatch
from tests.controllers.hub import INDEX_LABEL, NAME_LABEL, NS, PLACEMENT_LABEL
from tests.controllers.placement_world import create
from tests.controllers.rollout_rules import version_of
from tests.controllers.work_world import EVERYWHERE, per_group, progressive, template

CLUSTERS = [f"c{number}" for number in range(6)]
SPARE = ["c6", "c7"]
NAMES = ("canary", "", "")  # of the groups
CONTROLS = ("paused", "aborted", "approval", "approved")

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
    groups: list[list[str]] = field(default_factory=lambda: [[], [], []])
    version: int = 1

    @property
    def there(self) -> list[str]:
        """All clusters that are decided."""
        return [cluster for group in self.groups for cluster in group]

    async def meddle(self) -> None:
        """Do one thing after the other, and leave the world in order, or not."""
        acts = (
            (5, self.upgrade),
            (1, self.undo),
            (2, self.change_strategy),
            (2, self.pause),
            (2, self.resume),
            (2, self.promote),
            (2, self.retry),
            (1, self.abort),
            (2, self.gate),
            (3, self.approve),
            (1, self.relabel),
            (1, self.lose_a_work),
            (5, self.move),
            (4, self.come_and_go),
            (3, self.shift),
            (2, self.make_anew),
        )
        await self.upgrade()
        for _ in range(self.steps):
            (act,) = self.chance.choices([act for _, act in acts], [weight for weight, _ in acts])
            SEEN[act.__name__] += 1
            await act()
            await asyncio.sleep(self.chance.choice((0, 0.05, 1, 4, 12)))
        if self.chance.random() < 0.7:
            await self.clean_up()
            await self.upgrade()

    async def upgrade(self) -> None:
        self.version += 1
        body: JSONObject = {"spec": {"manifestWorkTemplate": template(str(self.version))}}
        if self.chance.random() < 0.3:
            body["metadata"] = {"labels": {"release": str(self.version)}}
        await self.alter(body)

    async def undo(self) -> None:
        await self.alter({"spec": {"manifestWorkTemplate": template(str(self.chance.randint(1, self.version)))}})

    async def change_strategy(self) -> None:
        await self.alter({"spec": {"placementRefs": [{"name": "p", "rolloutStrategy": drawn_strategy(self.chance)}]}})

    async def pause(self) -> None:
        await self.say(paused="true")

    async def resume(self) -> None:
        await self.say(paused=None)

    async def promote(self) -> None:
        await self.say(**{"promoted-at": running().clock.now().isoformat()})

    async def retry(self) -> None:
        await self.say(**{"retried-at": running().clock.now().isoformat(), "aborted": None})

    async def abort(self) -> None:
        if revision := self.revision():
            await self.say(aborted=revision)

    async def gate(self) -> None:
        await self.say(approval=self.chance.choice((None, "all", "canary", "1", "1,2", "canary,2")))

    async def approve(self) -> None:
        if revision := self.revision():
            await self.say(approved=f"{revision}:{self.chance.choice(('canary', '1', '2', 'canary,1', 'canary,1,2'))}")

    async def relabel(self) -> None:
        await self.alter({"metadata": {"labels": {"owner": self.chance.choice(("me", "you", None))}}})

    async def lose_a_work(self) -> None:
        works = self.world.objects(MANIFEST_WORK.resource)
        there = [each["metadata"]["namespace"] for each in works if "deletionTimestamp" not in each["metadata"]]
        if there:
            self.world.memory["lost"] = cluster = self.chance.choice(there)
            await self.client.delete(MANIFEST_WORK, "web", cluster)

    async def move(self) -> None:
        """Deal the clusters out among the groups anew."""
        names = self.chance.sample(self.there, len(self.there))
        cut = sorted((self.chance.randint(0, len(names)), self.chance.randint(0, len(names))))
        await self.publish([names[: cut[0]], names[cut[0] : cut[1]], names[cut[1] :]])

    async def come_and_go(self) -> None:
        """Let clusters come to any group, or let some go."""
        there = self.there
        free = [each for each in CLUSTERS + SPARE if each not in there]
        if free and self.chance.random() < 0.6:
            group = self.chance.randrange(3)
            coming = self.chance.sample(free, self.chance.randint(1, len(free)))
            await self.publish([[*each, *(coming if index == group else ())] for index, each in enumerate(self.groups)])
        elif len(there) > 2:
            going = self.chance.sample(there, self.chance.choice((1, 1, 2)))
            await self.publish([[one for one in each if one not in going] for each in self.groups])

    async def shift(self) -> None:
        """Let one cluster come for another, and keep all in the order of their names, as upstream does."""
        free = [each for each in CLUSTERS + SPARE if each not in self.there]
        if not free or not self.there:
            return
        names = sorted({*self.there, self.chance.choice(free)} - {self.chance.choice(self.there)})
        ends = list(accumulate(map(len, self.groups)))
        await self.publish([names[start:end] for start, end in zip((0, *ends), ends, strict=False)])

    async def make_anew(self) -> None:
        """Delete a decision, and make it again, of which nothing else tells."""
        self.world.memory["rewriting"] = self.world.clusters[""].store.revision
        index = self.chance.randrange(3)
        await self.client.delete(PLACEMENT_DECISION, f"p-decision-{index + 1}", NS)
        await asyncio.sleep(self.chance.choice((0, 1, 5, 12)))
        await self.make(index)
        await asyncio.sleep(self.chance.choice((0, 1, 5)))
        await self.fill(index, self.groups[index])
        self.world.memory["rewriting"] = None

    async def make(self, index: int) -> None:
        """Make a decision, which has no clusters yet."""
        labels = {PLACEMENT_LABEL: "p", INDEX_LABEL: str(index), NAME_LABEL: NAMES[index]}
        await create(self.client, PLACEMENT_DECISION, f"p-decision-{index + 1}", NS, metadata={"labels": labels})

    async def fill(self, index: int, clusters: list[str]) -> None:
        body = MergePatch({"status": {"decisions": [{"clusterName": each, "reason": ""} for each in clusters]}})
        await self.client.patch(PLACEMENT_DECISION, f"p-decision-{index + 1}", body, NS, subresource="status")

    async def publish(self, groups: list[list[str]], *, at_once: bool = False) -> None:
        """Write the decisions that change, in any order, and the status after them."""
        self.world.memory["rewriting"] = self.world.clusters[""].store.revision
        changed = [index for index in range(3) if groups[index] != self.groups[index]]
        for index in self.chance.sample(changed, len(changed)):
            await self.fill(index, groups[index])
            # Never as long as it takes until decisions without a word of the status are believed.
            await asyncio.sleep(0 if at_once else self.chance.choice((0, 0, 0.5, 1.5)))
        await self.agree(groups)
        self.world.memory["rewriting"] = None

    async def agree(self, groups: list[list[str]]) -> None:
        """Let the status of the placement say what is decided."""
        self.groups = groups
        listed = [
            {
                "decisionGroupIndex": index,
                "decisionGroupName": NAMES[index],
                "decisions": [f"p-decision-{index + 1}"],
                "clusterCount": len(group),
            }
            for index, group in enumerate(groups)
        ]
        status = {"numberOfSelectedClusters": sum(map(len, groups)), "decisionGroups": listed}
        await self.client.patch(PLACEMENT, "p", MergePatch({"status": status}), NS, subresource="status")

    async def clean_up(self) -> None:
        """Let everything go on."""
        await self.say(paused=None, aborted=None, approval=None, **{"retried-at": running().clock.now().isoformat()})

    async def say(self, **words: str | None) -> None:
        await self.alter({"metadata": {"annotations": {f"echelon.dev/{name}": word for name, word in words.items()}}})

    async def alter(self, body: JSONObject) -> None:
        await self.client.patch(MANIFEST_WORK_REPLICA_SET, "web", MergePatch(body), NS)

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
