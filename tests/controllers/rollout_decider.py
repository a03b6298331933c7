"""Somebody who decides where a placement's clusters are, and writes that as upstream does.

One decision after the other in any order, some made anew, and the status of the placement after them. So clusters which
are moved are in no decision for a while, and where others come and go at the same time, what is committed can look
complete when it is not.
"""

import asyncio
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.fleet.simulation import World
from echelon.kube.client import Client, MergePatch
from tests.controllers.hub import INDEX_LABEL, NAME_LABEL, NS, PLACEMENT_LABEL
from tests.controllers.placement_world import create

NAMES = ("canary", "", "")  # of the groups


@dataclass
class Decider:
    """Writes the decisions of a placement with three groups."""

    world: World
    client: Client
    chance: Random
    clusters: list[str]  # all that may be selected
    placement: str = "p"
    groups: list[list[str]] = field(default_factory=lambda: [[], [], []])

    @property
    def there(self) -> list[str]:
        """All clusters that are decided."""
        return [cluster for group in self.groups for cluster in group]

    async def move(self) -> None:
        """Deal the clusters out among the groups anew."""
        names = self.chance.sample(self.there, len(self.there))
        cut = sorted((self.chance.randint(0, len(names)), self.chance.randint(0, len(names))))
        await self.publish([names[: cut[0]], names[cut[0] : cut[1]], names[cut[1] :]])

    async def come_and_go(self) -> None:
        """Let clusters come to any group, or let some go."""
        there = self.there
        free = [each for each in self.clusters if each not in there]
        if free and self.chance.random() < 0.6:
            group = self.chance.randrange(3)
            coming = self.chance.sample(free, self.chance.randint(1, len(free)))
            await self.publish([[*each, *(coming if index == group else ())] for index, each in enumerate(self.groups)])
        elif len(there) > 2:
            going = self.chance.sample(there, self.chance.choice((1, 1, 2)))
            await self.publish([[one for one in each if one not in going] for each in self.groups])

    async def shift(self) -> None:
        """Let one cluster come for another, and keep all in the order of their names, as upstream does."""
        free = [each for each in self.clusters if each not in self.there]
        if not free or not self.there:
            return
        names = sorted({*self.there, self.chance.choice(free)} - {self.chance.choice(self.there)})
        ends = list(accumulate(map(len, self.groups)))
        await self.publish([names[start:end] for start, end in zip((0, *ends), ends, strict=False)])

    async def make_anew(self) -> None:
        """Delete a decision, and make it again, of which nothing else tells."""
        self._begin()
        index = self.chance.randrange(3)
        await self.client.delete(PLACEMENT_DECISION, self._name(index), NS)
        await asyncio.sleep(self.chance.choice((0, 1, 5, 12)))
        await self.make(index)
        await asyncio.sleep(self.chance.choice((0, 1, 5)))
        await self.fill(index, self.groups[index])
        self._end()

    async def make(self, index: int) -> None:
        """Make a decision, which has no clusters yet."""
        labels = {PLACEMENT_LABEL: self.placement, INDEX_LABEL: str(index), NAME_LABEL: NAMES[index]}
        await create(self.client, PLACEMENT_DECISION, self._name(index), NS, metadata={"labels": labels})

    async def fill(self, index: int, clusters: list[str]) -> None:
        body = MergePatch({"status": {"decisions": [{"clusterName": each, "reason": ""} for each in clusters]}})
        await self.client.patch(PLACEMENT_DECISION, self._name(index), body, NS, subresource="status")

    async def publish(self, groups: list[list[str]], *, at_once: bool = False) -> None:
        """Write the decisions that change, in any order, and the status after them."""
        self._begin()
        changed = [index for index in range(3) if groups[index] != self.groups[index]]
        for index in self.chance.sample(changed, len(changed)):
            await self.fill(index, groups[index])
            # Never as long as it takes until decisions without a word of the status are believed.
            await asyncio.sleep(0 if at_once else self.chance.choice((0, 0, 0.5, 1.5)))
        await self._agree(groups)
        self._end()

    async def _agree(self, groups: list[list[str]]) -> None:
        """Let the status of the placement say what is decided."""
        self.groups = groups
        listed = [
            {
                "decisionGroupIndex": index,
                "decisionGroupName": NAMES[index],
                "decisions": [self._name(index)],
                "clusterCount": len(group),
            }
            for index, group in enumerate(groups)
        ]
        status = {"numberOfSelectedClusters": sum(map(len, groups)), "decisionGroups": listed}
        await self.client.patch(PLACEMENT, self.placement, MergePatch({"status": status}), NS, subresource="status")

    def _name(self, index: int) -> str:
        return f"{self.placement}-decision-{index + 1}"

    def _begin(self) -> None:
        """Let it be known that what is committed is not what is decided, whatever numbers say."""
        self.world.memory["rewriting"] = self.world.clusters[""].store.revision

    def _end(self) -> None:
        self.world.memory["rewriting"] = None
