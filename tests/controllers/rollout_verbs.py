"""What people tell a rollout, whatever is rolled out: the verbs of `echelon rollout`, as annotations."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.fleet.loop import running
from echelon.kube.client import Client, MergePatch
from tests.controllers.hub import NS


@dataclass(frozen=True)
class Verbs:
    """Tells one object what to do. The names of groups are those that it may have."""

    client: Client
    chance: Random
    kind: Kind[Any]
    name: str
    revision: Callable[[], str | None]  # of the present content, as people read it: from what is stored

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

    async def clean_up(self) -> None:
        """Let everything go on."""
        await self.say(paused=None, aborted=None, approval=None, **{"retried-at": running().clock.now().isoformat()})

    async def say(self, **words: str | None) -> None:
        await self.alter({"metadata": {"annotations": {f"echelon.dev/{name}": word for name, word in words.items()}}})

    async def alter(self, body: JSONObject) -> None:
        await self.client.patch(self.kind, self.name, MergePatch(body), NS)
