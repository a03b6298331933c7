"""A small world for placements in which everything goes wrong, and a reader who sees each of its committed states.

Clusters that are selected from the beginning to the end change their groups, the groups are cut differently, other
clusters and a set come and go, and controllers die, stand still and are two at a time. The reader knows nothing of how
decisions are made. Decisions are cut far smaller than in production, so that a handful of clusters fills several of
them and exchanges clusters between full ones: that is when a cluster can get lost.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from random import Random
from typing import Any
from unittest.mock import patch

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.core import CONFIG_MAP
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.controllers.running import Controllers, Lease
from echelon.engine.placement import desired
from echelon.engine.placement.desired import REGROUP_ANNOTATION
from echelon.engine.placement.publish import publish
from echelon.engine.placement.slices import reslice
from echelon.engine.placement.status import PUBLISHED
from echelon.fleet.loop import running
from echelon.fleet.simulation import Committed, Component, Invariant, LifeOutcome, Scenario, World, simulate
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.faults import Faults, FaultyClient
from echelon.kube.metrics import Metrics
from tests.controllers.hub import CRDS, INDEX_LABEL, NAME_LABEL, NS, SET_LABEL
from tests.controllers.strict import STRICT

STABLE = [f"s{number}" for number in range(7)]
CHURNING = [f"x{number}" for number in range(4)]
GROUPS = ("one", "two")
HOME = {name: GROUPS[number % 2] for number, name in enumerate(STABLE)}
LIMIT = 2  # clusters in a decision
STEPS = 14

SEEN: Counter[str] = Counter()  # what happened in all worlds of this process, to know that they are worth running

# Deaths in the middle of updates, requests that arrive after the death, and reads of an older state.
CRUEL = Faults(crash=0.2, late_write=0.5, stale=0.3, delay=0.3, conflict=0.1, latency=(0.0, 0.5))


@contextmanager
def small_decisions() -> Iterator[None]:
    """Have decisions of at most `LIMIT` clusters. The engine takes any limit; controllers know that of the API only."""
    cut, order = partial(reslice, limit=LIMIT), partial(publish, limit=LIMIT)
    with patch.object(desired, "reslice", cut), patch.object(desired, "publish", order):
        yield


async def create(client: Client, kind: Kind[Any], name: str, namespace: str = "", **fields: Any) -> None:
    metadata = {"name": name, **fields.pop("metadata", {})}
    await client.create(
        kind.untyped(), {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}, namespace
    )


async def cluster(client: Client, name: str, **labels: str) -> None:
    await create(client, MANAGED_CLUSTER, name, metadata={"labels": labels}, spec={"hubAcceptsClient": True})


async def furnish(client: Client) -> None:
    """Make what is there from the beginning to the end."""
    for definition in CRDS:
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    await create(client, NAMESPACE, NS)
    await create(client, MANAGED_CLUSTER_SET, "set")
    await create(client, MANAGED_CLUSTER_SET_BINDING, "set", NS, spec={"clusterSet": "set"})
    for name, group in HOME.items():
        await cluster(client, name, **{SET_LABEL: "set", "app": "yes", "group": group})
    selector = {"labelSelector": {"matchLabels": {"app": "yes"}}}
    spec = {"predicates": [{"requiredClusterSelector": selector}], "decisionStrategy": strategy(4)}
    await create(client, PLACEMENT, "p", NS, spec=spec)
    # Replicas that lag must not show a time before the beginning: then these clusters were not there.
    for number in range(Faults().stale_revisions):
        await create(client, CONFIG_MAP, f"filler{number}", NS)


def strategy(size: int | str) -> JSONObject:
    named = [
        {"groupName": name, "groupClusterSelector": {"labelSelector": {"matchLabels": {"group": name}}}}
        for name in GROUPS
    ]
    grouping = {"decisionGroups": named, "clustersPerDecisionGroup": size}
    return {"groupStrategy": grouping, "updateStrategy": {"type": "RollingUpdate"}}


@dataclass
class People:
    """Those who change clusters, sets and the placement."""

    client: Client
    chance: Random
    regroup: bool  # whether groups are also cut from scratch
    groups: dict[str, str] = field(default_factory=lambda: dict(HOME))
    present: set[str] = field(default_factory=set)
    bound: bool = False

    async def meddle(self) -> None:
        for step in range(STEPS):
            what = self.chance.random()
            SEEN["regrouping"] += what >= 0.8 and self.regroup
            if what < 0.3:
                await self.exchange()
            elif what < 0.4:
                await self.wander()
            elif what < 0.7:
                await self.churn()
            elif what < 0.8 or not self.regroup:
                await self.change_sets()
            elif what < 0.93:
                size = self.chance.choice((1, 2, 3, 4, 7, "30%", "100%"))
                await self.alter({"spec": {"decisionStrategy": strategy(size)}})
            else:
                await self.alter({"metadata": {"annotations": {REGROUP_ANNOTATION: str(step)}}})
            await asyncio.sleep(self.chance.choice((0, 0, 0.05, 1, 6)))

    async def exchange(self) -> None:
        """Let clusters change places with others, which takes a surge where decisions are full."""
        names = self.chance.sample(STABLE, len(STABLE))
        for one, other in zip(names[:2], names[2:4], strict=True):
            self.groups[one], self.groups[other] = self.groups[other], self.groups[one]
        for name in names[:4]:
            await self.relabel(name, group=self.groups[name])

    async def wander(self) -> None:
        """Let a cluster go to another group."""
        name = self.chance.choice(STABLE)
        self.groups[name] = self.chance.choice((*GROUPS, "none"))
        await self.relabel(name, group=self.groups[name])

    async def churn(self) -> None:
        """Let a cluster come, go or change its mind. Some are in the first set, and some in the second one."""
        chance, name = self.chance, self.chance.choice(CHURNING)
        app, group = chance.choice(("yes", "no")), chance.choice(GROUPS)
        if name not in self.present:
            home = {SET_LABEL: "set"} if chance.random() < 0.5 else {"pool": "more"}
            await cluster(self.client, name, app=app, group=group, **home)
            self.present.add(name)
        elif chance.random() < 0.4:
            await self.client.delete(MANAGED_CLUSTER, name)
            self.present.discard(name)
        else:
            await self.relabel(name, app=app, group=group)

    async def change_sets(self) -> None:
        """Bind a second set, or take it away; or name the sets that count."""
        SEEN["sets"] += 1
        if self.chance.random() < 0.3:
            await self.alter({"spec": {"clusterSets": self.chance.choice((None, ["set"], ["more", "set"]))}})
        elif self.bound:
            await self.client.delete(MANAGED_CLUSTER_SET_BINDING, "more", NS)
            await self.client.delete(MANAGED_CLUSTER_SET, "more")
            self.bound = False
        else:
            chosen = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"pool": "more"}}}
            await create(self.client, MANAGED_CLUSTER_SET, "more", spec={"clusterSelector": chosen})
            await create(self.client, MANAGED_CLUSTER_SET_BINDING, "more", NS, spec={"clusterSet": "more"})
            self.bound = True

    async def relabel(self, name: str, **labels: str) -> None:
        await self.client.patch(MANAGED_CLUSTER, name, MergePatch({"metadata": {"labels": labels}}))

    async def alter(self, change: JSONObject) -> None:
        await self.client.patch(PLACEMENT, "p", MergePatch(change), NS)


async def controller(client: FaultyClient, *, name: str = "only", lease: Lease | None = None) -> None:
    chance = Random(running().random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    made = Controllers(
        client,
        running().clock,
        ["placement"],
        random=chance,
        metrics=Metrics(),
        instance=name,
        settings=STRICT,
    )
    await made.run(lease)


def listed(decision: JSONObject) -> list[str]:
    return [entry["clusterName"] for entry in decision.get("status", {}).get("decisions", [])]


def index_of(decision: JSONObject) -> int:
    return int(decision["metadata"]["labels"][INDEX_LABEL])


def group_of(decision: JSONObject) -> str:
    name: str = decision["metadata"]["labels"][NAME_LABEL]
    return name


@dataclass
class Reader:
    """Follows the decisions of the placement, one committed change after the other."""

    decisions: dict[str, JSONObject] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)  # stable clusters that have been in a decision
    strict: bool = False  # whether it also reads by index

    def follow(self, commit: Committed) -> str | None:
        """Take a change; tell what is wrong with it."""
        before, after = commit.previous, None if commit.type is EventType.DELETED else commit.object
        if after is None:
            del self.decisions[commit.key.name]
            SEEN["deletion"] += 1
        else:
            self.decisions[commit.key.name] = after
        wrong = self._vanished()
        if after is not None and listed(after):
            wrong = wrong or self._blended(before, after) or self._too_large(before, after)
        return wrong or (self._hidden() if self.strict else None)

    def _vanished(self) -> str | None:
        union = {each for decision in self.decisions.values() for each in listed(decision)}
        missing = self.known - union
        self.known |= union.intersection(STABLE)
        return f"{sorted(missing)} are in no decision" if missing else None

    def _blended(self, before: JSONObject | None, after: JSONObject) -> str | None:
        if before is None or not listed(before) or group_of(before) == group_of(after):
            return None
        return f"a decision of group {group_of(before)!r} became one of {group_of(after)!r} with clusters in it"

    def _too_large(self, before: JSONObject | None, after: JSONObject) -> str | None:
        """A surge lists clusters that another decision still has."""
        here = listed(after)
        if len(here) <= LIMIT or (before is not None and here == listed(before)):
            return None
        SEEN["surge"] += 1
        others = (listed(decision) for decision in self.decisions.values() if decision is not after)
        return None if set(here).intersection(chain.from_iterable(others)) else f"{here} are too many without a surge"

    def _hidden(self) -> str | None:
        """Some count the indexes, look at no higher one, and know one name for each."""
        names: dict[int, set[str]] = {}
        for decision in self.decisions.values():
            names.setdefault(index_of(decision), set()).add(group_of(decision))
        found = {
            each
            for decision in self.decisions.values()
            if index_of(decision) < len(names) and len(names[index_of(decision)]) == 1
            for each in listed(decision)
        }
        missing = self.known - found
        return f"{sorted(missing)} are hidden by a gap in the indexes, or by two names at one" if missing else None


def reader_of(world: World) -> Reader:
    reader: Reader = world.memory.setdefault("reader", Reader())
    return reader


def decisions_are_in_order(world: World, commit: Committed) -> str | None:
    return reader_of(world).follow(commit) if commit.key.resource == PLACEMENT_DECISION.resource else None


def status_is_in_order(world: World, commit: Committed) -> str | None:
    """The status never has a gap in its groups, and never promises more clusters than there are decisions for."""
    del world
    if commit.key.resource != PLACEMENT.resource:
        return None
    groups = commit.object.get("status", {}).get("decisionGroups", [])
    indexes = [group["decisionGroupIndex"] for group in groups]
    return None if indexes == list(range(len(indexes))) else f"the status has groups {indexes}"


def everything_is_published(world: World) -> str | None:
    bound = {item["metadata"]["name"] for item in world.objects(MANAGED_CLUSTER_SET_BINDING.resource, namespace=NS)}
    (placement,) = world.objects(PLACEMENT.resource, namespace=NS)
    sets = bound.intersection(placement["spec"].get("clusterSets") or bound)
    wanted = {}
    for item in world.objects(MANAGED_CLUSTER.resource):
        labels = item["metadata"]["labels"]
        if labels["app"] == "yes" and sets.intersection((labels.get(SET_LABEL), labels.get("pool"))):
            wanted[item["metadata"]["name"]] = labels["group"] if labels["group"] in GROUPS else ""
    found: dict[str, str] = {}
    sizes: dict[int, int] = {}
    for name, decision in reader_of(world).decisions.items():
        index, here = index_of(decision), listed(decision)
        if len(here) > LIMIT:
            return f"{name} has {here}"
        sizes[index] = sizes.get(index, 0) + len(here)
        for each in here:
            if each in found:
                return f"{each} is there twice"
            found[each] = group_of(decision)
    if found != wanted:
        return f"there are {found}, wanted are {wanted}"
    size = placement["spec"]["decisionStrategy"]["groupStrategy"]["clustersPerDecisionGroup"]
    most = -(-int(size.removesuffix("%")) * len(wanted) // 100) if isinstance(size, str) else size
    if sorted(sizes) != list(range(len(sizes))) or max(sizes.values()) > most:
        return f"there are groups {sizes} of at most {most}"
    told = placement.get("status", {})
    counts = {group["decisionGroupIndex"]: group["clusterCount"] for group in told.get("decisionGroups", [])}
    if counts != sizes or told.get("numberOfSelectedClusters") != len(wanted):
        return f"the status is {told}, and there are {sizes}"
    failing = [each for each in told["conditions"] if (each["type"], each["status"]) == (PUBLISHED, "False")]
    return f"all is written, and the status still says {failing}" if failing else None


async def build(world: World) -> None:
    await world.add_cluster()
    await furnish(world.client())
    if world.random.random() < 0.3:
        lease = Lease(NS)
        SEEN["two leaders"] += 1
        for name in ("first", "second"):
            world.start(Component(name, partial(controller, name=name, lease=lease)))
    else:
        world.start(Component("only", controller))
    # Whoever starts on a server that lags counts on groups that are no longer where they were.
    reader_of(world).strict = not world.faults.stale
    people = People(world.client(), world.random, regroup=world.scenario is not GENTLE)
    world.spawn(people.meddle(), "people")


SCENARIO = Scenario(
    name="placement",
    build=build,
    goal=everything_is_published,
    invariants=(
        Invariant("decisions", decisions_are_in_order),
        Invariant("status", status_is_in_order),
    ),
    chaos_seconds=45.0,
    settle_seconds=1200.0,
    silence_seconds=90.0,  # longer than any stream is silent
    kill_seconds=(2.0, 40.0),
    pause_seconds=(0.0, 30.0),  # at most twice as long as a lease
    restart_seconds=(0.0, 8.0),
    replay="ECHELON_SEED={seed} python -m pytest -n 0 tests/controllers/test_placement_simulation.py",
)


# Nobody dies here and no group is cut from scratch, so that what goes wrong is easy to understand.
GENTLE = replace(SCENARIO, name="placement, gently", kill_seconds=None, pause_seconds=(0.0, 0.0))
READING = ("gone", "close", "repeat")


def live(seed: int) -> LifeOutcome:
    """Run the world once. Every fourth seed is gentle, every fourth is cruel, the others draw a mixture of faults."""
    drawn = Faults.swarm(Random(f"faults of {seed}"))  # noqa: S311 - repeatable on purpose
    if seed % 4 == 0:
        scenario, drawn = GENTLE, Faults(**{name: getattr(drawn, name) for name in READING})
    else:
        scenario, drawn = SCENARIO, CRUEL if seed % 4 == 1 else drawn
    with small_decisions():
        return simulate(scenario, seed, replace(drawn, stall_seconds=(5.0, 60.0)))
