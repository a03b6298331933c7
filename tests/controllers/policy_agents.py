"""Agents in few lines that keep to the contract between hub and agents, and it is drawn how well things go for them.

An agent copies its replica, evaluates the copy after a while, and reports on the very version of the replica that it
compared with its copy. What enforcing comes to is drawn from the seed, for each cluster and each content. Some clusters
have agents of others: those overwrite the whole status, and know no generations.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.policy import POLICY
from echelon.fleet.loop import running
from echelon.hub.storage.store import Change
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.errors import Conflict, NotFound
from tests.controllers.hub import NS
from tests.controllers.policy_content import content_of, is_enforceable, is_held, notes_of, said_of
from tests.controllers.rollout_people import SEEN
from tests.controllers.rollout_rules import RETRIED

FINALIZER = "example.com/cleanup"
GOOD, BAD, PENDING, MENDING = "Compliant", "NonCompliant", "Pending", "mending"

# What a cluster finds when it enforces a content, after so many seconds each.
COURSES: dict[str, tuple[tuple[float, str], ...]] = {
    "complies": ((0.3, GOOD),),
    "is mended": ((0.5, MENDING), (2.0, GOOD)),
    "complies late": ((1.0, MENDING), (40.0, GOOD)),
    "never complies": ((1.0, MENDING), (4.0, BAD)),
    "has a bad template": ((0.5, BAD),),
    "recovers": ((1.0, BAD), (9.0, GOOD)),
    "waits for others": ((0.5, PENDING), (20.0, GOOD)),
    "flaps": ((1.0, GOOD), (6.0, BAD), (5.0, GOOD), (8.0, BAD), (2.0, GOOD)),
    "drifts": ((1.0, GOOD), (30.0, BAD)),
    "is silent": (),
}
WELL = ("complies", "is mended", "is mended", "is mended")
ILL = tuple(name for name in COURSES if name not in WELL)


@dataclass
class Cluster:
    """A cluster with its agent."""

    name: str
    copy: JSONObject | None = None
    finding: str = ""  # of the copy as it is; nothing before it was evaluated
    found_at: float = 0.0
    has: str = ""  # the templates that were enforced last


@dataclass
class Agents:
    """The agents of all clusters."""

    client: Client
    seed: int
    trouble: float  # the share of contents and clusters that do not go well
    restarts: float = 0.0  # the share of news before which an agent dies, and forgets what it has evaluated
    restless_until: float = 0.0
    finalizers: bool = False  # whether something holds replicas for a moment when they are deleted
    strangers: frozenset[str] = frozenset()  # clusters whose agents are not ours
    dead: frozenset[str] = frozenset()  # clusters that nobody hears of
    offline_until: dict[str, float] = field(default_factory=dict)
    _replicas: dict[str, JSONObject] = field(default_factory=dict)
    _news: dict[str, asyncio.Event] = field(default_factory=dict)

    def follow(self, change: Change) -> None:
        """Hear of every commit; most of them are nothing to an agent."""
        key = change.entry.key
        if key.resource != POLICY.resource or key.namespace == NS or key.namespace in self.dead:
            return
        if change.type is EventType.DELETED:
            self._replicas.pop(key.namespace, None)
        else:
            self._replicas[key.namespace] = change.entry.object
        self._news[key.namespace].set()

    def lives(self, clusters: Iterable[str]) -> list[Any]:
        """Return what every agent does, to be run side by side."""
        self._news = {cluster: asyncio.Event() for cluster in clusters if cluster not in self.dead}
        return [self._live(Cluster(name), news) for name, news in self._news.items()]

    async def _live(self, cluster: Cluster, news: asyncio.Event) -> None:
        chance = Random(f"{self.seed} restarts of {cluster.name}")  # noqa: S311 - repeatable on purpose
        while True:
            await news.wait()
            news.clear()
            await asyncio.sleep(max(0.0, self.offline_until.get(cluster.name, 0.0) - running().time()))
            replica = self._replicas.get(cluster.name)
            if replica is None:
                cluster.copy, cluster.finding = None, ""
            elif "deletionTimestamp" in replica["metadata"]:
                await asyncio.sleep(1.0)
                await self._patch(cluster, {"metadata": {"finalizers": None}})
            elif not _is_copied(cluster.copy, replica) or self._dies(chance):
                await self._take(cluster, replica, news)
            else:
                await self._report(cluster)

    def _dies(self, chance: Random) -> bool:
        dies = running().time() < self.restless_until and chance.random() < self.restarts
        SEEN["kill of an agent"] += dies
        return dies

    async def _take(self, cluster: Cluster, replica: JSONObject, news: asyncio.Event) -> None:
        """Copy a replica, and evaluate the copy until there is another one."""
        if self.finalizers and not replica["metadata"].get("finalizers"):
            await self._patch(cluster, {"metadata": {"finalizers": [FINALIZER]}})
        await asyncio.sleep(0.1)
        cluster.copy, cluster.finding = replica, ""
        chance = self._chance(cluster.name, replica)
        for wait, finding in self._course(cluster, replica, chance):
            end = running().time() + wait * chance.uniform(0.5, 1.5)
            while not await _heard(news, end - running().time()):
                now = self._replicas.get(cluster.name)
                if now is None or not _is_copied(cluster.copy, now):
                    news.set()
                    return
                await self._report(cluster)  # what the hub says of it may be another thing now
            cluster.finding, cluster.found_at = finding, running().clock.now().timestamp()
            if finding in (GOOD, MENDING) and is_enforceable(replica["spec"]):
                cluster.has = content_of(replica["spec"]).body
            await self._report(cluster)

    def _course(self, cluster: Cluster, replica: JSONObject, chance: Random) -> tuple[tuple[float, str], ...]:
        if not is_enforceable(replica["spec"]):
            return ((0.4, GOOD if cluster.has == content_of(replica["spec"]).body else BAD),)
        name = chance.choice(ILL if chance.random() < self.trouble else WELL)
        SEEN[name] += 1
        return COURSES[name]

    def _chance(self, cluster: str, replica: JSONObject) -> Random:
        """Fate depends on the cluster, the content and how often it was tried, and on nothing that happens."""
        content, attempt = content_of(replica["spec"]), notes_of(replica).get(RETRIED, "")
        return Random(f"{self.seed} {cluster} {content} {attempt}")  # noqa: S311 - repeatable on purpose

    async def _report(self, cluster: Cluster) -> None:
        """Say what was found, on the very version of the replica that the copy was compared with."""
        while (replica := self._replicas.get(cluster.name)) is not None and _is_copied(cluster.copy, replica):
            if not cluster.finding:
                return
            strange = cluster.name in self.strangers
            SEEN["report of another agent"] += strange
            status = _foreign_status(cluster, replica) if strange else _status(cluster, replica)
            if _is_said(status, replica.get("status", {})):
                return
            version = {"resourceVersion": replica["metadata"]["resourceVersion"]}
            if await self._patch(cluster, {"metadata": version, "status": status}, "status"):
                return

    async def _patch(self, cluster: Cluster, body: JSONObject, subresource: str = "") -> bool:
        replica = self._replicas.get(cluster.name)
        if replica is None:
            return True
        try:
            await self.client.patch(
                POLICY.untyped(), replica["metadata"]["name"], MergePatch(body), cluster.name, subresource=subresource
            )
        except NotFound:
            return True
        except Conflict:
            return False
        return True


def verdict(replica: JSONObject, finding: str) -> str:
    """Return the rollout status that a replica gets of its agent, which has evaluated it as it is."""
    standing = said_of(replica)
    if is_held(replica) or standing in ("", "ToApply"):
        return standing
    if finding == GOOD or not is_enforceable(replica["spec"]):
        return "Succeeded"
    return "Failed" if finding == BAD and standing != "TimeOut" else standing


def _status(cluster: Cluster, replica: JSONObject) -> JSONObject:
    word, standing = verdict(replica, cluster.finding), said_of(replica)
    status: JSONObject = {
        "compliant": _compliance(cluster.finding),
        "details": _details(cluster, replica),
        "observedGeneration": replica["metadata"]["generation"],
    }
    if word != standing:
        moment = running().clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        status |= {"rolloutStatus": word, "rolloutLastTransitionTime": moment}
    return status


def _foreign_status(cluster: Cluster, replica: JSONObject) -> JSONObject:
    """Return what an agent puts there that knows nothing of rollouts: its own status, and nothing else."""
    status: JSONObject = dict.fromkeys(replica.get("status", {}))
    return {**status, "compliant": _compliance(cluster.finding), "details": _details(cluster, replica)}


def _details(cluster: Cluster, replica: JSONObject) -> list[JSONObject]:
    stamp = f"{int(cluster.found_at * 1e9):x}"
    compliant = _compliance(cluster.finding)
    entry = {"eventName": f"{replica['metadata']['name']}.{stamp}", "message": f"{compliant}; it is so"}
    return [
        {
            "templateMeta": {"name": each["objectDefinition"]["metadata"]["name"]},
            "compliant": compliant,
            "history": [entry],
        }
        for each in replica["spec"]["policy-templates"]
    ]


def _compliance(finding: str) -> str:
    return BAD if finding == MENDING else finding


def _is_said(status: JSONObject, before: JSONObject) -> bool:
    return all(before.get(name) == value for name, value in status.items())


def _is_copied(copy: JSONObject | None, replica: JSONObject) -> bool:
    """Whether a copy has the annotations and the spec of a replica."""
    if copy is None or copy["metadata"]["uid"] != replica["metadata"]["uid"]:
        return False
    return bool(notes_of(copy) == notes_of(replica) and copy["spec"] == replica["spec"])


async def _heard(news: asyncio.Event, seconds: float) -> bool:
    """Wait for so long, unless there is news; return whether the time is over."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return True
    news.clear()
    return False
