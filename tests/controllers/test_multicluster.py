"""Decisions in the form of SIG Multicluster, beside the ones that they are copied from."""

import asyncio
from typing import Any

import pytest

from echelon.api import multicluster, registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.multicluster import MULTICLUSTER_DECISION, PlacementDecision
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.controllers.running import Controllers, MissingKinds
from echelon.fleet.loop import running
from echelon.hub.controllers import run_controllers
from echelon.kube.errors import NotFound
from echelon.kube.metrics import Metrics
from tests.controllers.hub import NS, Hub, names, told
from tests.controllers.test_rolling_update import strategy

KEY, INDEX, WORKLOAD = (
    "multicluster.x-k8s.io/decision-key",
    "multicluster.x-k8s.io/decision-index",
    "multicluster.x-k8s.io/placement-key",
)


async def install(hub: Hub) -> None:
    for definition in registry.collect(multicluster.KINDS).crds():
        await hub.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)


async def published(hub: Hub, name: str = "p") -> list[PlacementDecision]:
    """Return what a consumer finds, in the order in which it reads."""
    page = await hub.client.list(MULTICLUSTER_DECISION, NS, labels=f"{KEY}={name}")
    return sorted(page.items, key=lambda item: int(item.metadata.labels[INDEX]))


def clusters(item: PlacementDecision) -> list[str]:
    return [entry.cluster_profile_ref.name for entry in item.decisions]


class Reader:
    """Sees every committed state, as a consumer that reads by the label does."""

    def __init__(self, hub: Hub) -> None:
        self._lists: dict[str, set[str]] = {}
        self.protected: set[str] = set()
        self.vanished: set[str] = set()
        hub.client._cluster.store.on_commit(self._see)

    def _see(self, change: Any) -> None:
        key = change.entry.key
        if key.resource != MULTICLUSTER_DECISION.resource:
            return
        if change.type == "DELETED":
            self._lists.pop(key.name, None)
        else:
            decisions = change.entry.object["decisions"]
            assert len(decisions) <= 100
            self._lists[key.name] = {entry["clusterProfileRef"]["name"] for entry in decisions}
        self.vanished |= self.protected - set().union(*self._lists.values())


async def mirrored(hub: Hub, **spec: Any) -> None:
    await install(hub)
    await hub.bound_set()
    hub.start("placement", "multicluster")
    await hub.place(**spec)


def test_decisions_are_published_with_the_labels_by_which_consumers_find_them() -> None:
    async def story(hub: Hub) -> None:
        await hub.clusters(names("c", 150))
        await mirrored(hub)
        await hub.settle()
        found = await published(hub)
        assert [(item.metadata.name, len(item.decisions)) for item in found] == [
            ("p-decision-1", 100),
            ("p-decision-2", 50),
        ]
        assert [cluster for item in found for cluster in clusters(item)] == names("c", 150)
        assert [item.metadata.labels for item in found] == [{KEY: "p", INDEX: str(n), WORKLOAD: "p"} for n in (0, 1)]
        assert {item.scheduler_name for item in found} == {"echelon"}
        owner = found[0].metadata.owner_references[0]
        assert (owner.kind, owner.uid) == ("Placement", (await hub.placement()).metadata.uid)

    told(story)


def test_clusters_that_come_and_go_are_followed_and_nobody_else_vanishes() -> None:
    async def story(hub: Hub) -> None:
        await hub.clusters(names("c", 150))
        reader = Reader(hub)
        await mirrored(hub, decisionStrategy=strategy())
        await hub.settle()
        reader.protected = set(names("c", 150)) - {"c000"}
        for size in (50, 7, "100%"):
            await hub.respec(decisionStrategy=strategy(size))
            await hub.settle()
        await hub.delete(MANAGED_CLUSTER, "c000")
        await hub.clusters(["d"])
        await hub.settle()
        assert {cluster for item in await published(hub) for cluster in clusters(item)} == {
            *names("c", 150, 1)[:-1],
            "d",
        }
        assert reader.vanished == set()

    told(story)


def test_full_decisions_that_exchange_clusters_stay_within_the_limit_of_the_server() -> None:
    async def story(hub: Hub) -> None:
        await hub.clusters(names("a", 100), group="one")
        await hub.clusters(names("b", 100), group="two")
        reader = Reader(hub)
        await mirrored(hub, decisionStrategy=strategy("100%", "one", "two"))
        await hub.settle()
        reader.protected = {*names("a", 100), *names("b", 100)}
        await hub.patch(MANAGED_CLUSTER, "a000", {"metadata": {"labels": {"group": "two"}}})
        await hub.patch(MANAGED_CLUSTER, "b000", {"metadata": {"labels": {"group": "one"}}})
        await hub.settle()
        one, two = await published(hub)
        assert "b000" in clusters(one)
        assert "a000" in clusters(two)
        assert reader.vanished == set()

    told(story)


def test_a_placement_that_selects_nothing_is_published_as_an_empty_decision() -> None:
    async def story(hub: Hub) -> None:
        await mirrored(hub)
        await hub.settle()
        assert [clusters(item) for item in await published(hub)] == [[]]

    told(story)


def test_what_somebody_deletes_or_changes_is_put_right() -> None:
    async def story(hub: Hub) -> None:
        await hub.clusters(names("c", 3))
        await mirrored(hub)
        await hub.settle()
        await hub.patch(MULTICLUSTER_DECISION, "p-decision-1", {"decisions": []}, NS)
        await hub.settle()
        assert [clusters(item) for item in await published(hub)] == [names("c", 3)]
        await hub.patch(MULTICLUSTER_DECISION, "p-decision-1", {"metadata": {"labels": {WORKLOAD: "x"}}}, NS)
        await hub.settle()
        assert (await published(hub))[0].metadata.labels[WORKLOAD] == "p"
        await hub.delete(MULTICLUSTER_DECISION, "p-decision-1", NS)
        await hub.settle()
        assert [clusters(item) for item in await published(hub)] == [names("c", 3)]

    told(story)


def test_what_was_published_goes_with_its_placement() -> None:
    async def story(hub: Hub) -> None:
        await hub.clusters(names("c", 3))
        await mirrored(hub)
        await hub.settle()
        keeping = asyncio.create_task(run_controllers(hub.client._cluster))
        await hub.delete(PLACEMENT, "p", NS)
        await hub.settle(60)
        keeping.cancel()
        assert await published(hub) == []
        assert await hub.decisions() == {}

    told(story)


def test_without_the_flag_nothing_is_published() -> None:
    async def story(hub: Hub) -> None:
        await install(hub)
        await hub.bound_set()
        await hub.clusters(names("c", 3))
        hub.start()
        await hub.place()
        await hub.settle()
        assert await hub.selected() == names("c", 3)
        assert await published(hub) == []

    told(story)


def test_a_hub_without_the_kind_is_a_mistake_that_names_the_command_to_install_it() -> None:
    async def story(hub: Hub) -> None:
        made = Controllers(
            hub.client,
            running().clock,
            ["placement", "multicluster"],
            random=running().random,
            metrics=Metrics(),
            instance="test",
        )
        with pytest.raises(MissingKinds, match=r"placementdecisions\.multicluster\.x-k8s\.io.*crds --multicluster"):
            await made.check()
        with pytest.raises(NotFound):
            await hub.client.list(MULTICLUSTER_DECISION, NS)
        assert not (await hub.client.list(PLACEMENT_DECISION, NS)).items

    told(story)
