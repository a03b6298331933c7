"""The rolling update of decisions: its integration cases, read by somebody who sees every committed state."""

from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.controllers.publication import MARK_ANNOTATION, REGROUP_ANNOTATION
from tests.controllers.hub import NS, Hub, names, told


def strategy(per_group: int | str = "100%", *groups: str, update: str = "RollingUpdate") -> dict[str, Any]:
    named = [
        {"groupName": name, "groupClusterSelector": {"labelSelector": {"matchLabels": {"group": name}}}}
        for name in groups
    ]
    return {
        "groupStrategy": {"clustersPerDecisionGroup": per_group, "decisionGroups": named},
        "updateStrategy": {"type": update},
    }


async def fleet_of_150(hub: Hub, **spec: Any) -> None:
    await hub.bound_set()
    await hub.clusters(names("c", 150, start=1))
    hub.start()
    await hub.place(decisionStrategy=strategy(), **spec)
    await hub.settle()
    assert await hub.groups() == [("", 150)]
    hub.sight.protect("p")
    hub.sight.writes.clear()


def test_150_clusters_are_published_in_two_decisions() -> None:
    async def story(hub: Hub) -> None:
        await fleet_of_150(hub)
        sizes = {name: len(item.status.decisions) for name, item in (await hub.decisions()).items() if item.status}
        assert sizes == {"p-decision-1": 100, "p-decision-2": 50}
        assert (await hub.satisfied())[0] == "True"

    told(story)


def test_a_cluster_that_is_added_costs_one_write_and_nobody_vanishes() -> None:
    async def story(hub: Hub) -> None:
        await fleet_of_150(hub)
        await hub.clusters(["a-first"])
        await hub.settle()
        assert await hub.groups() == [("", 151)]
        assert hub.sight.writes == ["p-decision-2"]
        assert hub.sight.vanished == set()

    told(story)


def test_a_cluster_that_is_deleted_costs_one_write_and_nobody_else_vanishes() -> None:
    async def story(hub: Hub) -> None:
        await fleet_of_150(hub)
        hub.sight.protect("p", "c001")
        await hub.delete(MANAGED_CLUSTER, "c001")
        await hub.settle()
        assert await hub.groups() == [("", 149)]
        assert hub.sight.writes == ["p-decision-1"]
        assert hub.sight.vanished == set()

    told(story)


def test_another_group_size_moves_clusters_without_losing_sight_of_one() -> None:
    async def story(hub: Hub) -> None:
        await fleet_of_150(hub)
        for size, groups in ((50, 3), ("20%", 5), (149, 2), ("100%", 1), (7, 22)):
            await hub.respec(decisionStrategy=strategy(size))
            await hub.settle()
            assert len(await hub.groups()) == groups
            assert await hub.selected() == names("c", 150, start=1)
        assert hub.sight.vanished == set()

    told(story)


def test_clusters_that_swap_groups_surge_and_everybody_hears_of_it() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("a", 100), group="one")
        await hub.clusters(names("b", 100), group="two")
        hub.start()
        await hub.place(decisionStrategy=strategy("100%", "one", "two"))
        await hub.settle()
        assert await hub.groups() == [("one", 100), ("two", 100)]
        hub.sight.protect("p")
        await hub.stop()  # so that both changes are seen at once
        await hub.patch(MANAGED_CLUSTER, "a000", {"metadata": {"labels": {"group": "two"}}})
        await hub.patch(MANAGED_CLUSTER, "b000", {"metadata": {"labels": {"group": "one"}}})
        hub.start()
        await hub.settle()
        assert await hub.groups() == [("one", 100), ("two", 100)]
        assert hub.sight.vanished == set()
        assert hub.sight.largest == 101
        events = await hub.events()
        assert [reason for reason, _ in events].count("DecisionSurge") == 2
        registry = hub.metrics.registry
        assert registry.get_sample_value("scheduling_surge_duration_seconds_count") is not None

    told(story)


@pytest.mark.parametrize("update", ["All", "RollingUpdate"])
def test_events_tell_what_became_of_decisions(update: str) -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 150))
        hub.start()
        await hub.place(decisionStrategy=strategy(update=update))
        await hub.settle()
        for name in names("c", 50, start=100):
            await hub.delete(MANAGED_CLUSTER, name)
        await hub.settle()
        one, two = "p-decision-1", "p-decision-2"
        events = await hub.events()
        assert events[:6] == [
            ("DecisionCreate", one),
            ("DecisionCreate", two),
            ("DecisionUpdate", one),
            ("ScoreUpdate", one),
            ("DecisionUpdate", two),
            ("ScoreUpdate", two),
        ]
        assert events[-1] == ("DecisionDelete", two)
        bound = hub.metrics.registry.get_sample_value(
            "scheduling_bind_duration_seconds_count", {"name": "placement_scheduling"}
        )
        assert bound is not None
        assert bound >= 2

    told(story)


def test_groups_are_kept_through_a_restart_and_new_clusters_join_the_last() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 5))
        hub.start()
        await hub.place(decisionStrategy=strategy(2))
        await hub.settle()
        before = {name: item.status for name, item in (await hub.decisions()).items()}
        await hub.stop()
        await hub.clusters(["a"])
        hub.start()
        await hub.settle()
        after = {name: item.status for name, item in (await hub.decisions()).items()}
        assert {name for name in after if after[name] != before[name]} == {"p-decision-3"}
        assert await hub.groups() == [("", 2), ("", 2), ("", 2)]

    told(story)


def test_groups_are_cut_again_when_their_strategy_changes_also_while_nobody_was_there() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["b", "c", "d"])
        hub.start()
        await hub.place(decisionStrategy=strategy(2))
        await hub.settle()
        await hub.clusters(["a"])
        await hub.settle()
        assert await members(hub) == [["b", "c"], ["a", "d"]]
        await hub.stop()
        await hub.respec(decisionStrategy=strategy(3))
        hub.start()
        await hub.settle()
        assert await members(hub) == [["a", "b", "c"], ["d"]]
        await hub.respec(decisionStrategy=strategy(2))
        await hub.settle()
        assert await members(hub) == [["a", "b"], ["c", "d"]]

    told(story)


def test_groups_are_cut_again_once_for_each_request() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["b", "c", "d"])
        hub.start()
        await hub.place(decisionStrategy=strategy(2))
        await hub.settle()
        await hub.clusters(["a"])
        await hub.settle()
        assert await members(hub) == [["b", "c"], ["a", "d"]]
        await hub.patch(PLACEMENT, "p", {"metadata": {"annotations": {REGROUP_ANNOTATION: "please"}}}, NS)
        await hub.settle()
        assert await members(hub) == [["a", "b"], ["c", "d"]]
        await hub.delete(MANAGED_CLUSTER, "a")
        await hub.clusters(["e"])
        await hub.settle()
        assert await members(hub) == [["b", "e"], ["c", "d"]]
        for annotation in ("please", None):  # said again, and withdrawn
            await hub.patch(PLACEMENT, "p", {"metadata": {"annotations": {REGROUP_ANNOTATION: annotation}}}, NS)
            await hub.settle()
            assert await members(hub) == [["b", "e"], ["c", "d"]]
        await hub.patch(PLACEMENT, "p", {"metadata": {"annotations": {REGROUP_ANNOTATION: "again"}}}, NS)
        await hub.settle()
        assert await members(hub) == [["b", "c"], ["d", "e"]]

    told(story)


def test_decisions_that_another_version_made_are_taken_over_as_they_are() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["a", "b", "c"])
        hub.start()
        await hub.place(decisionStrategy=strategy(2))
        await hub.settle()
        await hub.stop()
        for name in await hub.decisions():
            await hub.patch(PLACEMENT_DECISION, name, {"metadata": {"annotations": {MARK_ANNOTATION: None}}}, NS)
        swapped = {"p-decision-1": ["b", "c"], "p-decision-2": ["a"]}
        for name, clusters in swapped.items():
            listed = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
            await hub.patch(PLACEMENT_DECISION, name, {"status": {"decisions": listed}}, NS, "status")
        hub.start()
        await hub.settle()
        assert await members(hub) == [["b", "c"], ["a"]]

    told(story)


def test_a_new_placement_costs_as_few_writes_as_there_can_be() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 3))
        hub.start()
        await hub.settle()
        hub.commits.clear()
        await hub.place(decisionStrategy=strategy(2))
        await hub.settle()
        written = [commit for commit in hub.commits if not commit.startswith("events")]
        one, two = (f"placementdecisions.cluster.open-cluster-management.io p-decision-{n}" for n in (1, 2))
        placement = "placements.cluster.open-cluster-management.io p"
        assert written == [placement, one, two, one, two, placement]

    told(story)


async def members(hub: Hub) -> list[list[str]]:
    """Return the clusters of each group."""
    await hub.groups()
    decisions = await hub.decisions()
    groups = (await hub.placement()).status.decision_groups
    return [
        sorted(entry.cluster_name for name in group.decisions for entry in decisions[name].status.decisions)  # type: ignore[union-attr]
        for group in groups
    ]
