"""Whoever leads dies at whichever write: never is more enforced than the strategy allows, and it all comes to one end.

A policy over four clusters, one at a time with a soak, or in groups; then an upgrade. Every write of the controller is
once its last one, before it was committed and after; as many of them as the budget allows.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from random import Random
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.policy import POLICY
from echelon.controllers.running import Controllers
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT
from echelon.kube.errors import ApiError
from echelon.kube.metrics import Metrics
from tests.budgets import Lives
from tests.controllers.hub import NS, now
from tests.controllers.policy_world import PolicyWorld, told
from tests.controllers.strict import end
from tests.controllers.work_world import Groups, per_group, progressive

SOAK = timedelta(seconds=5)
GROUPS: Groups = (("canary", ["c4"]), ("", ["c1", "c2"]), ("", ["c3"]))
STRATEGIES = {
    "window": progressive(minSuccessTime="5s"),
    "groups": per_group(minSuccessTime="5s"),
}
MODES = ("before", "after")
LEAST, MOST = 40, 120  # writes of the controller in its life


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong in hundreds of lives."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@dataclass
class Fate:
    """At which of its writes the controller dies."""

    at: int = 0
    how: str = ""
    writes: int = 0
    died: asyncio.Event = field(default_factory=asyncio.Event)


class Mortal(InProcessClient):
    """A client of a process that has a fate: once it is dead it never hears of anything again."""

    fate: Fate

    async def create(self, *args: Any, **options: Any) -> Any:
        return await self._write(super().create, args, options)

    async def patch(self, *args: Any, **options: Any) -> Any:
        return await self._write(super().patch, args, options)

    async def delete(self, *args: Any, **options: Any) -> None:
        await self._write(super().delete, args, options)

    async def _write(self, call: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        fate = self.fate
        if fate.died.is_set():
            await asyncio.Event().wait()
        fate.writes += 1
        if fate.writes != fate.at:
            return await call(*args, **options)
        if fate.how == "after":
            with suppress(ApiError):  # which nobody will hear of
                await call(*args, **options)
        fate.died.set()
        return await asyncio.Event().wait()


@dataclass(frozen=True)
class Seen:
    """A replica, as it was committed."""

    enforces: bool
    version: str
    status: str
    good_at: datetime | None  # since when its agent says that it is good as it is


class Witness:
    """Sees every committed state of the replicas, and what may never be."""

    def __init__(self, groups: Groups, *, window: bool) -> None:
        self.replicas: dict[str, Seen] = {}
        self.wrong: list[str] = []
        self._group = {cluster: 0 if window else n for n, (_, each) in enumerate(groups) for cluster in each}
        self._window = window

    def __call__(self, change: Any) -> None:
        key = change.entry.key
        if key.name != f"{NS}.audit":
            return
        before, after = self.replicas.pop(key.namespace, None), None
        if change.type != "DELETED":
            after = self.replicas[key.namespace] = self._read(change.entry.object, before)
        if after is None:
            self.wrong.append(f"{key.namespace} lost its replica")
        elif after.enforces and (before is None or (before.enforces, before.version) != (True, after.version)):
            self._released(key.namespace, after)

    def _read(self, obj: JSONObject, before: Seen | None) -> Seen:
        spec, status, meta = obj["spec"], obj.get("status", {}), obj["metadata"]
        (template,) = spec["policy-templates"]
        (wanted,) = template["objectDefinition"]["spec"]["object-templates"]
        version = wanted["objectDefinition"]["data"]["version"]
        good = status.get("rolloutStatus") == "Succeeded" and status.get("observedGeneration") == meta["generation"]
        since = before.good_at if before is not None and before.version == version and before.good_at else now()
        enforces = spec["remediationAction"] == "enforce"
        return Seen(enforces, version, status.get("rolloutStatus", ""), since if good and enforces else None)

    def _released(self, cluster: str, seen: Seen) -> None:
        """See whether this cluster may be enforced now."""
        others = {name: each for name, each in self.replicas.items() if name != cluster}
        for name in sorted(self._group.keys() - {cluster}):
            other = others.get(name)
            if other is None or other.version != seen.version:
                self.wrong.append(f"{cluster} is enforced before {name} has {seen.version} to look at")
            elif not other.enforces and self._is_before(name, cluster):
                self.wrong.append(f"{cluster} is enforced before {name}")
            elif other.enforces and self._is_awaited(name, cluster) and _is_in_flight(other):
                self.wrong.append(f"{cluster} is enforced while {name} is in flight")

    def _is_before(self, name: str, cluster: str) -> bool:
        """Whether a cluster comes first."""
        return self._group[name] < self._group[cluster] or (self._window and name < cluster)

    def _is_awaited(self, name: str, cluster: str) -> bool:
        """Whether a cluster that is enforced has to be done first."""
        return self._window or self._group[name] < self._group[cluster]


def _is_in_flight(seen: Seen) -> bool:
    return seen.good_at is None or now() < seen.good_at + SOAK


async def play(world: PolicyWorld, strategy: JSONObject, fate: Fate) -> dict[str, Any]:
    """Tell the story; return its end."""
    await world.place(GROUPS)
    await world.write(strategy=strategy)
    await world.bind()
    leaders = [start(world, fate)]

    async def replace_the_dead() -> None:
        await fate.died.wait()
        await asyncio.sleep(1)
        await end(leaders[0])
        world.hub.controllers.remove(leaders[0])
        leaders.append(start(world, Fate()))

    watching = asyncio.create_task(replace_the_dead())
    for version in ("1", "2"):
        if version != "1":
            await world.upgrade(version)
        for _ in range(60):
            await world.settle(1)
            await report(world)
            if await is_complete(world):
                break
        else:
            raise AssertionError(f"{version} is not complete: {await world.told()}")
    await world.settle(10)
    await end(watching)
    policy = await world.policy()
    return {
        "told": await world.told(),
        "stored": await world.stored(),
        "versions": {c: each.spec for c, each in (await world.replicas()).items()},
        "verdict": policy.status.rollout_status,
        "revisions": len(await world.revisions()),
    }


def start(world: PolicyWorld, fate: Fate) -> asyncio.Task[None]:
    client = Mortal(world.hub.client._cluster, ROOT)
    client.fate = fate
    chance = Random(0)  # noqa: S311 - repeatable on purpose
    hub = world.hub
    made = Controllers(
        client, hub.clock, ("policies",), random=chance, metrics=Metrics(), instance="test", settings=hub.settings
    )
    hub.controllers.append(asyncio.create_task(made.run()))
    return hub.controllers[-1]


async def report(world: PolicyWorld) -> None:
    """Have agents say what they have to say of replicas of which they have not said it yet."""
    for cluster, each in (await world.replicas()).items():
        done = each.status.observed_generation == each.metadata.generation
        if not done or each.status.rollout_status == "Progressing":
            await world.report(cluster)


async def is_complete(world: PolicyWorld) -> bool:
    policy = await world.policy()
    found = [each for each in policy.status.conditions if each.type == "PlacementRolledOut"]
    return bool(found) and (found[0].status, found[0].observed_generation) == ("True", policy.metadata.generation)


def lived(name: str, fate: Fate) -> dict[str, Any]:
    """Run the story on a hub of its own; return its end."""
    ends: list[dict[str, Any]] = []

    async def story(world: PolicyWorld) -> None:
        witness = Witness(GROUPS, window=name == "window")
        world.hub.client._cluster.store.on_commit(witness)
        ends.append(await play(world, STRATEGIES[name], fate))
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
    found = [(name, how, at) for name in STRATEGIES for how in MODES for at in range(1, undisturbed(name)[1] + 1)]
    Random(0).shuffle(found)  # noqa: S311 - repeatable on purpose
    return found


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_controller_has_something_to_write(name: str) -> None:
    end_of_it, writes = undisturbed(name)
    assert LEAST < writes < MOST
    assert end_of_it["told"] == dict.fromkeys(("c1", "c2", "c3", "c4"), "Succeeded")


@pytest.mark.lives("crashes of policies")
def test_a_crash_at_any_write_enforces_nobody_too_early_and_changes_nothing_in_the_end(lives: Lives) -> None:
    for number in lives.below(len(moments())):
        name, how, at = moments()[number]
        fate = Fate(at, how)
        assert lived(name, fate) == undisturbed(name)[0], (name, how, at)
        assert fate.died.is_set(), (name, how, at)


def test_the_witness_sees_what_may_never_be() -> None:
    async def story(world: PolicyWorld) -> None:
        witness = Witness(GROUPS, window=True)
        world.hub.client._cluster.store.on_commit(witness)
        await world.place(GROUPS)
        await world.write(strategy=STRATEGIES["window"])
        await world.bind()
        task = world.start()
        await world.settle()
        await end(task)
        world.hub.controllers.clear()
        assert witness.wrong == []
        await world.hub.patch(POLICY, f"{NS}.audit", {"spec": {"remediationAction": "enforce"}}, "c3")
        assert witness.wrong == ["c3 is enforced while c1 is in flight", "c3 is enforced before c2"]

    told(story)
