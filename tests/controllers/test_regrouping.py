"""Decision groups over time: what they remember, what makes them forget, and what that costs in writes."""

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.engine.placement.current import STAMP_ANNOTATION
from echelon.engine.placement.desired import REGROUP_ANNOTATION
from tests.controllers.hub import NS, Hub, names, told
from tests.controllers.test_rolling_update import members, strategy


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
            await hub.patch(PLACEMENT_DECISION, name, {"metadata": {"annotations": {STAMP_ANNOTATION: None}}}, NS)
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
