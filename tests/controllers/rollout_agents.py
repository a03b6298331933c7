"""Agents in few lines: they report as the real one does, and it is drawn how well things go on their clusters.

A real agent with a real cluster costs a hundred times as much as all that its reports can cause. What matters to a
rollout is what is reported and when: of which generation, with which times, late, never, or one thing after another.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.work import MANIFEST_WORK
from echelon.fleet.loop import running
from echelon.hub.storage.store import Change, Key
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.errors import NotFound
from tests.controllers.work_rules import version_of

FINALIZER = "cluster.open-cluster-management.io/manifest-work-cleanup"
DONE = {"Applied": "True", "Available": "True", "Progressing": "False", "Degraded": "False"}
MOVING = {**DONE, "Available": "False", "Progressing": "True"}
BROKEN = {**MOVING, "Degraded": "True"}
REFUSED = {"Applied": "False", "Available": "False"}

# What a cluster reports of a content, after so many seconds each.
COURSES: dict[str, tuple[tuple[float, JSONObject], ...]] = {
    "quick": ((0.3, DONE),),
    "usual": ((0.5, MOVING), (3.0, DONE)),
    "slow": ((1.0, MOVING), (40.0, DONE)),
    "broken": ((1.0, MOVING), (4.0, BROKEN)),
    "refused": ((2.0, REFUSED),),
    "recovers": ((1.0, REFUSED), (2.0, BROKEN), (9.0, DONE)),
    "flaps": ((1.0, DONE), (6.0, BROKEN), (5.0, DONE), (8.0, MOVING), (2.0, DONE)),
    "silent": (),
}
WELL = ("quick", "usual", "usual", "usual")
ILL = ("slow", "broken", "refused", "recovers", "flaps", "silent")


@dataclass
class Agents:
    """The agents of all clusters."""

    client: Client
    seed: int
    trouble: float  # the share of contents and clusters that do not go well
    finalizers: bool  # whether they hold works until their objects are gone
    restarts_clocks: bool  # whether a time moves with the generation, or as upstream's only with the status
    dead: frozenset[str] = frozenset()  # clusters that nobody hears of
    offline_until: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    _works: dict[str, JSONObject] = field(default_factory=dict)
    _news: dict[str, asyncio.Event] = field(default_factory=dict)

    def follow(self, change: Change) -> None:
        """Hear of every commit; most of them are nothing to an agent."""
        key: Key = change.entry.key
        if key.resource != MANIFEST_WORK.resource or key.namespace in self.dead:
            return
        work = change.entry.object
        meta = work["metadata"]
        if change.type is EventType.DELETED:
            self._works.pop(key.namespace, None)
            return
        self._works[key.namespace] = work
        asked = (meta["uid"], meta["generation"], meta.get("deletionTimestamp"), _retried(meta))
        if self._seen.get(key.namespace) != asked:
            self._seen[key.namespace] = asked
            self._news[key.namespace].set()

    def lives(self, clusters: Iterable[str]) -> list[Any]:
        """Return what every agent does, to be run side by side."""
        self._news = {cluster: asyncio.Event() for cluster in clusters if cluster not in self.dead}
        return [self._live(cluster, news) for cluster, news in self._news.items()]

    async def _live(self, cluster: str, news: asyncio.Event) -> None:
        while True:
            await news.wait()
            news.clear()
            await asyncio.sleep(max(0.0, self.offline_until.get(cluster, 0.0) - running().time()))
            work = self._works.get(cluster)
            if work is None:
                continue
            if "deletionTimestamp" in work["metadata"]:
                await asyncio.sleep(1.0)
                await self._patch(cluster, {"metadata": {"finalizers": None}})
            else:
                await self._serve(cluster, work, news)

    async def _serve(self, cluster: str, work: JSONObject, news: asyncio.Event) -> None:
        """Report on one content until there is another one."""
        meta, chance = work["metadata"], self._chance(cluster, work)
        if self.finalizers and not meta.get("finalizers"):
            await self._patch(cluster, {"metadata": {"finalizers": [FINALIZER]}})
        course = COURSES[chance.choice(ILL if chance.random() < self.trouble else WELL)]
        heedless = chance.random() < 0.2  # it finishes its report although there is newer content already
        for wait, said in course:
            try:
                async with asyncio.timeout(wait * chance.uniform(0.5, 1.5)):
                    await news.wait()
                    if not heedless:
                        return
            except TimeoutError:
                pass
            await self._report(cluster, meta["uid"], meta["generation"], said)
            if news.is_set():
                return

    def _chance(self, cluster: str, work: JSONObject) -> Random:
        """Fate depends on the cluster, the content and how often it was tried, and on nothing that happens."""
        attempt = _retried(work["metadata"]) or ""
        return Random(f"{self.seed} {cluster} {version_of(work['spec'])} {attempt}")  # noqa: S311 - repeatable on purpose

    async def _report(self, cluster: str, uid: str, generation: int, said: JSONObject) -> None:
        work = self._works.get(cluster)
        if work is None or work["metadata"]["uid"] != uid:
            return
        before = work.get("status", {}).get("conditions", [])
        now = running().clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        found = conditions(said, generation, now, before, restart=self.restarts_clocks)
        await self._patch(cluster, {"status": {"conditions": found}}, "status")

    async def _patch(self, cluster: str, body: JSONObject, subresource: str = "") -> None:
        name = self._works[cluster]["metadata"]["name"] if cluster in self._works else "gone"
        try:
            await self.client.patch(MANIFEST_WORK.untyped(), name, MergePatch(body), cluster, subresource=subresource)
        except NotFound:
            return


def conditions(
    said: JSONObject, generation: int, now: str, before: Iterable[JSONObject] = (), *, restart: bool = False
) -> list[JSONObject]:
    """Return what a work is told: what was said of it before, and what is said now."""
    known = {each["type"]: each for each in before}
    for kind, status in said.items():
        was = known.get(kind, {})
        same = was.get("status") == status and (not restart or was["observedGeneration"] == generation)
        known[kind] = {
            "type": kind,
            "status": status,
            "reason": "Said",
            "message": "",
            "observedGeneration": generation,
            "lastTransitionTime": was["lastTransitionTime"] if same else now,
        }
    return list(known.values())


def _retried(meta: JSONObject) -> str | None:
    found: str | None = meta.get("annotations", {}).get("echelon.dev/retried-at")
    return found
