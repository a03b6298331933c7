"""What the end-to-end tests of the field assert of placements, from the first cluster to what a deleted one leaves."""

import asyncio

from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET_BINDING
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.hub.controllers import run_controllers
from tests.controllers.hub import INDEX_LABEL, NAME_LABEL, NS, Hub, names, told

UNREACHABLE = "cluster.open-cluster-management.io/unreachable"
ALL = ("True", "AllDecisionsScheduled")
NOT_ALL = ("False", "NotAllDecisionsScheduled")


def test_a_placement_is_satisfied_once_the_global_set_brings_enough_clusters() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 5))
        hub.start()
        await hub.place(numberOfClusters=10)
        await hub.settle()
        assert len(await hub.selected()) == 5
        await hub.respec(numberOfClusters=6)
        await hub.settle()
        assert await hub.groups() == [("", 5)]
        assert await hub.satisfied() == NOT_ALL
        await hub.bound_set("global", {})
        await hub.clusters(names("d", 2), "elsewhere")
        await hub.settle()
        assert await hub.groups() == [("", 6)]
        assert await hub.satisfied() == ALL

    told(story)


def test_a_predicate_that_matches_nothing_is_no_mistake_and_leaves_an_empty_decision() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 3))
        hub.start()
        selector = {"labelSelector": {"matchLabels": {"vendor": "nobody"}}}
        await hub.place(predicates=[{"requiredClusterSelector": selector}])
        await hub.settle()
        assert await hub.groups() == [("", 0)]
        assert list(await hub.decisions()) == ["p-decision-1"]
        assert await hub.satisfied() == ("False", "NoManagedClusterMatched")
        assert (await hub.condition("PlacementMisconfigured"))[0] == "False"

    told(story)


def test_a_toleration_with_nothing_but_a_key_tolerates_an_unreachable_cluster() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.cluster("c", spec={"taints": [{"key": UNREACHABLE, "effect": "NoSelect"}]})
        hub.start()
        await hub.place(tolerations=[{"key": UNREACHABLE}])
        await hub.place("strict")
        await hub.settle()
        assert await hub.selected() == ["c"]
        assert await hub.selected("strict") == []

    told(story)


def test_a_cluster_that_was_not_let_in_can_be_selected() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.cluster("c", spec={"hubAcceptsClient": False})
        hub.start()
        await hub.place()
        await hub.settle()
        assert await hub.selected() == ["c"]
        await hub.patch(MANAGED_CLUSTER, "c", {"spec": {"hubAcceptsClient": True}})
        await hub.settle()
        assert await hub.selected() == ["c"]

    told(story)


def test_the_decisions_of_a_deleted_placement_go_with_it_and_are_not_made_again() -> None:
    async def story(hub: Hub) -> None:
        keeping = asyncio.create_task(run_controllers(hub.client._cluster))
        await hub.bound_set()
        await hub.clusters(names("c", 150))
        hub.start()
        await hub.place()
        await hub.place("other", numberOfClusters=2)
        await hub.settle()
        assert len(await hub.decisions()) == 2
        await hub.delete(PLACEMENT, "p", NS)
        await hub.clusters(["d"])  # a change that would have concerned it
        await hub.settle(60)
        assert await hub.decisions() == {}
        assert len(await hub.decisions("other")) == 1
        keeping.cancel()

    told(story)


def test_a_fleet_that_shrinks_to_nothing_leaves_one_empty_decision() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 128))
        hub.start()
        await hub.place()
        await hub.settle()
        assert await hub.groups() == [("", 128)]
        hub.sight.writes.clear()
        await hub.delete(MANAGED_CLUSTER_SET_BINDING, "set", NS)
        await hub.settle()
        assert await hub.groups() == [("", 0)]
        assert hub.sight.writes == ["p-decision-1", "p-decision-2"]  # emptied, and deleted

    told(story)


def test_a_named_group_that_matches_nobody_takes_no_index() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 3))
        hub.start()
        canary = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"a": "b"}}}}
        await hub.place(decisionStrategy={"groupStrategy": {"decisionGroups": [canary]}})
        await hub.settle()
        assert await hub.groups() == [("", 3)]

    told(story)


def test_a_label_that_is_put_right_is_no_event_and_a_missing_decision_is_made_again() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 128))
        hub.start()
        await hub.place()
        await hub.settle()
        told_before = await hub.events()
        await hub.patch(PLACEMENT_DECISION, "p-decision-1", {"metadata": {"labels": {INDEX_LABEL: "wrong"}}}, NS)
        await hub.settle()
        assert await hub.groups() == [("", 128)]
        assert await hub.events() == told_before
        await hub.delete(PLACEMENT_DECISION, "p-decision-2", NS)
        await hub.settle()
        assert sorted(await hub.decisions()) == ["p-decision-1", "p-decision-2"]
        assert await hub.groups() == [("", 128)]

    told(story)


def test_a_decision_that_somebody_gave_to_another_group_is_replaced_without_losing_sight_of_anybody() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 128))
        hub.start()
        await hub.place(decisionStrategy={"updateStrategy": {"type": "RollingUpdate"}})
        await hub.settle()
        hub.sight.protect("p")
        await hub.patch(PLACEMENT_DECISION, "p-decision-1", {"metadata": {"labels": {NAME_LABEL: "wrong"}}}, NS)
        await hub.settle()
        assert await hub.groups() == [("", 128)]
        assert hub.sight.vanished == set()

    told(story)


def test_the_metrics_of_the_field_are_there() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 3))
        hub.start()
        await hub.place()
        await hub.settle()
        read, labels = hub.metrics.registry.get_sample_value, {"name": "placement_scheduling"}
        for metric in ("scheduling_scheduling_duration_seconds", "scheduling_bind_duration_seconds"):
            assert (read(f"{metric}_count", labels) or 0) >= 1
            assert read(f"{metric}_bucket", {**labels, "le": "1e-06"}) is not None

    told(story)
