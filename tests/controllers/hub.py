"""A hub in virtual time with controllers on it, and a reader that sees every committed state of its decisions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import (
    ADD_ON_PLACEMENT_SCORE,
    GROUP,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
)
from echelon.api.events import EVENT
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement, PlacementDecision
from echelon.controllers.running import Controllers
from echelon.controllers.settings import ControllerSettings
from echelon.fleet.loop import run, running
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import MergePatch
from echelon.kube.clock import Clock
from echelon.kube.errors import AlreadyExists
from echelon.kube.metrics import Metrics
from tests.controllers.strict import STRICT, end

NS = "apps"
SET_LABEL = f"{GROUP}/clusterset"
PLACEMENT_LABEL = f"{GROUP}/placement"
INDEX_LABEL = f"{GROUP}/decision-group-index"
NAME_LABEL = f"{GROUP}/decision-group-name"
CRDS = [definition for definition in registry.crds() if definition["spec"]["group"] == GROUP]

Shape = list[tuple[str, int]]  # name and size of each decision group


@dataclass
class Sight:
    """Reads decisions as a consumer does, at every commit, and notes clusters that vanish."""

    prefix: str = ""
    lists: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)  # placement and clusters, by decision
    protected: dict[str, frozenset[str]] = field(default_factory=dict)  # by placement
    vanished: set[str] = field(default_factory=set)
    largest: int = 0
    writes: list[str] = field(default_factory=list)  # names of decisions, one for each commit
    contents: list[tuple[str, list[str]]] = field(default_factory=list)  # and the clusters that they had then
    versions: dict[str, str] = field(default_factory=dict)

    def see(self, name: str, obj: JSONObject | None) -> None:
        self.writes.append(name)
        placement = self.lists.get(name, ("", frozenset()))[0]
        if obj is None:
            self.lists.pop(name, None)
            self.versions.pop(name, None)
        else:
            self.versions[name] = obj["metadata"]["resourceVersion"]
            placement = obj["metadata"]["labels"].get(PLACEMENT_LABEL, "")
            entries = obj.get("status", {}).get("decisions", [])
            listed = [entry["clusterName"].removeprefix(self.prefix) for entry in entries]
            self.lists[name] = (placement, frozenset(listed))
            self.contents.append((name, listed))
            self.largest = max(self.largest, len(listed))
        self.vanished |= self.protected.get(placement, frozenset()) - self.union(placement)

    def union(self, placement: str) -> frozenset[str]:
        return frozenset().union(*(clusters for owner, clusters in self.lists.values() if owner == placement))

    def protect(self, placement: str, *leaving: str) -> None:
        """From now on everything that a placement has must stay, but for some clusters."""
        self.protected[placement] = self.union(placement) - set(leaving)


@dataclass
class Hub:
    """What a story is told with."""

    client: InProcessClient  # on a real hub another one, which does the same
    clock: Clock
    namespace: str = NS
    prefix: str = ""  # of the names of what is in no namespace
    patience: float = 0.0  # seconds of real time within which controllers answer; 0 where time is virtual
    settings: ControllerSettings = STRICT
    metrics: Metrics = field(default_factory=Metrics)
    sight: Sight = field(default_factory=Sight)
    commits: list[str] = field(default_factory=list)
    controllers: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self, *names: str, settings: ControllerSettings | None = None) -> asyncio.Task[None]:
        self.metrics = Metrics()
        wanted = names or ("placement",)
        chance = Random(len(self.controllers))  # noqa: S311 - repeatable on purpose
        made = Controllers(
            self.client,
            self.clock,
            wanted,
            random=chance,
            metrics=self.metrics,
            instance="test",
            settings=settings or self.settings,
        )
        self.controllers.append(asyncio.create_task(made.run()))
        return self.controllers[-1]

    async def stop(self) -> None:
        await end(*self.controllers)

    async def settle(self, seconds: float = 5.0) -> None:
        """Let time pass, far more than controllers need."""
        assert not self.patience, "time is real here: wait for something"
        await asyncio.sleep(seconds)

    async def until(self, check: Callable[[], Awaitable[None]]) -> None:
        """Wait until a check holds; where time is virtual, until it should."""
        if not self.patience:
            await self.settle()
            await check()
            return
        async with asyncio.timeout(self.patience):
            while True:
                try:
                    await check()
                except (AssertionError, LookupError):
                    await asyncio.sleep(0.05)
                else:
                    break
        await check()

    async def shows(self, shape: Shape, name: str = "p") -> None:
        """Wait until a placement has these groups, and the reader has seen all of it."""

        async def check() -> None:
            assert await self.groups(name) == shape
            for each, decision in (await self.decisions(name)).items():
                assert self.sight.versions[each] == decision.metadata.resource_version

        await self.until(check)

    async def create(self, kind: Kind[Any], name: str, namespace: str = "", **fields: Any) -> None:
        labels, annotations = fields.pop("labels", {}), fields.pop("annotations", {})
        metadata = {"name": self.named(kind, name), "labels": labels, "annotations": annotations}
        metadata |= fields.pop("metadata", {})
        status = fields.pop("status", None)
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
        await self.client.create(kind.untyped(), body, namespace)
        if status is not None:
            await self.patch(kind, name, {"status": status}, namespace, subresource="status")

    async def patch(
        self, kind: Kind[Any], name: str, body: JSONObject, namespace: str = "", subresource: str = ""
    ) -> None:
        named = self.named(kind, name)
        await self.client.patch(kind.untyped(), named, MergePatch(body), namespace, subresource=subresource)

    def named(self, kind: Kind[Any], name: str) -> str:
        """Return the name that something has on this hub; what is in no namespace may not meet that of others."""
        return name if kind.namespaced else f"{self.prefix}{name}"

    async def cluster(self, name: str, cluster_set: str = "set", **fields: Any) -> None:
        labels = {SET_LABEL: f"{self.prefix}{cluster_set}", **fields.pop("labels", {})}
        await self.create(
            MANAGED_CLUSTER, name, labels=labels, spec={"hubAcceptsClient": True, **fields.pop("spec", {})}, **fields
        )

    async def clusters(self, names: Iterable[str], cluster_set: str = "set", **labels: str) -> None:
        work = [self.cluster(name, cluster_set, labels=labels) for name in names]
        if self.patience:  # a real server answers late, and many at once
            await asyncio.gather(*work)
        else:
            for each in work:
                await each

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        await self.client.delete(kind, self.named(kind, name), namespace)

    async def cluster_set(self, name: str = "set", selector: JSONObject | None = None) -> None:
        wanted: JSONObject = {"selectorType": "ExclusiveClusterSetLabel"}
        if selector is not None:
            wanted = {"selectorType": "LabelSelector", "labelSelector": selector}
        await self.create(MANAGED_CLUSTER_SET, name, spec={"clusterSelector": wanted})

    async def bind(self, name: str = "set", namespace: str = "") -> None:
        bound = f"{self.prefix}{name}"
        await self.create(MANAGED_CLUSTER_SET_BINDING, bound, namespace or self.namespace, spec={"clusterSet": bound})

    async def bound_set(self, name: str = "set", selector: JSONObject | None = None) -> None:
        await self.cluster_set(name, selector)
        await self.bind(name)

    async def score(self, cluster: str, value: int, **status: Any) -> None:
        try:
            await self.client.create(NAMESPACE.untyped(), {"metadata": {"name": cluster}})
            await self.create(ADD_ON_PLACEMENT_SCORE, "demo", cluster)
        except AlreadyExists:
            pass
        body = {"status": {"scores": [{"name": "demo", "value": value}], **status}}
        await self.patch(ADD_ON_PLACEMENT_SCORE, "demo", body, cluster, "status")

    async def place(self, name: str = "p", namespace: str = "", **spec: Any) -> None:
        annotations = spec.pop("annotations", {})
        await self.create(PLACEMENT, name, namespace or self.namespace, annotations=annotations, spec=spec)

    async def respec(self, name: str = "p", **spec: Any) -> None:
        await self.patch(PLACEMENT, name, {"spec": spec}, self.namespace)

    async def placement(self, name: str = "p") -> Placement:
        return await self.client.get(PLACEMENT, name, self.namespace)

    async def decisions(self, name: str = "p") -> dict[str, PlacementDecision]:
        page = await self.client.list(PLACEMENT_DECISION, self.namespace, labels=f"{PLACEMENT_LABEL}={name}")
        return {item.metadata.name: item for item in page.items}

    async def selected(self, name: str = "p") -> list[str]:
        found = (await self.decisions(name)).values()
        listed = (entry.cluster_name for item in found for entry in (item.status.decisions if item.status else ()))
        return sorted(name.removeprefix(self.prefix) for name in listed)

    async def groups(self, name: str = "p") -> Shape:
        """Return the groups as the placement's status has them, having checked that the decisions agree with it."""
        placement, decisions = await self.placement(name), await self.decisions(name)
        groups = placement.status.decision_groups
        assert [group.decision_group_index for group in groups] == list(range(len(groups)))
        assert sorted(each for group in groups for each in group.decisions) == sorted(decisions)
        for group in groups:
            members = [decisions[each] for each in group.decisions]
            for each in members:
                assert each.metadata.labels[INDEX_LABEL] == str(group.decision_group_index)
                assert each.metadata.labels[NAME_LABEL] == group.decision_group_name
                assert each.status is not None
                owner = each.metadata.owner_references[0]
                assert (owner.uid, owner.controller) == (placement.metadata.uid, True)
            assert group.cluster_count == sum(len(each.status.decisions) for each in members if each.status)
        assert placement.status.number_of_selected_clusters == len(await self.selected(name))
        return [(group.decision_group_name, group.cluster_count) for group in groups]

    async def condition(self, kind: str = "PlacementSatisfied", name: str = "p") -> tuple[str, str, str]:
        found = next(each for each in (await self.placement(name)).status.conditions if each.type == kind)
        assert found.observed_generation == (await self.placement(name)).metadata.generation
        return found.status, found.reason, found.message

    async def satisfied(self, name: str = "p") -> tuple[str, str]:
        status, reason, _ = await self.condition(name=name)
        return status, reason

    async def events(self) -> list[tuple[str, str]]:
        """Return reason and related object of all events, in the order in which they were written."""
        found = (await self.client.list(EVENT.untyped(), self.namespace)).items
        ordered = sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [(event["reason"], event.get("related", {}).get("name", "")) for event in ordered]


@asynccontextmanager
async def hub(*, rules: bool = True) -> AsyncIterator[Hub]:
    cluster = memory_cluster(clock=running().clock.now, seed=1)
    await bootstrap(cluster)
    here = Hub(InProcessClient(cluster, ROOT), running().clock)
    for definition in CRDS if rules else without_rules(CRDS):
        await here.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    await here.client.create(NAMESPACE.untyped(), {"metadata": {"name": NS}})

    def committed(change: Any) -> None:
        key = change.entry.key
        here.commits.append(f"{key.resource} {key.name}")
        if key.resource == PLACEMENT_DECISION.resource and key.namespace == NS:
            here.sight.see(key.name, None if change.type == "DELETED" else change.entry.object)

    cluster.store.on_commit(committed)
    try:
        yield here
    finally:
        await here.stop()


def without_rules(schema: Any) -> Any:
    """Return the schema of a hub that checks hardly anything, as older ones do."""
    rules = ("x-kubernetes-validations", "minimum", "maximum", "pattern", "enum", "maxLength")
    if isinstance(schema, dict):
        return {key: without_rules(value) for key, value in schema.items() if key not in rules}
    return [without_rules(value) for value in schema] if isinstance(schema, list) else schema


def told(story: Callable[[Hub], Awaitable[None]], seed: int = 0, *, rules: bool = True) -> None:
    """Run a story on a hub of its own, in virtual time, and see that there is silence after it."""

    async def main() -> None:
        async with hub(rules=rules) as here:
            await story(here)
            await here.settle()
            written = len(here.commits)
            await asyncio.sleep(900)
            assert here.commits[written:] == []
            for task in here.controllers:
                assert not task.done() or task.cancelled()

    run(main(), seed)


def now() -> datetime:
    return running().clock.now()


def names(prefix: str, count: int, start: int = 0) -> list[str]:
    return [f"{prefix}{number:03d}" for number in range(start, start + count)]
