"""What the field's integration tests assert of placements, in virtual time."""

from collections.abc import Awaitable, Callable

import pytest

from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from tests.controllers.hub import NS, PLACEMENT_LABEL, SET_LABEL, Hub, names, told

ALL = ("True", "AllDecisionsScheduled")
NOT_ALL = ("False", "NotAllDecisionsScheduled")
NO_MATCH = ("False", "NoManagedClusterMatched")
Story = Callable[[Hub], Awaitable[None]]


async def five_of_ten(hub: Hub) -> None:
    """A set with five clusters and a placement that wants ten."""
    await hub.bound_set()
    await hub.clusters(names("c", 5))
    hub.start()
    await hub.place(numberOfClusters=10)
    await hub.settle()
    assert await hub.groups() == [("", 5)]
    assert await hub.satisfied() == NOT_ALL


def test_decisions_deleted_by_hand_are_created_again() -> None:
    async def story(hub: Hub) -> None:
        await five_of_ten(hub)
        await hub.delete(PLACEMENT_DECISION, "p-decision-1", NS)
        await hub.settle()
        assert list(await hub.decisions()) == ["p-decision-1"]
        assert await hub.groups() == [("", 5)]

    told(story)


def test_a_selected_cluster_that_is_being_deleted_leaves_the_decisions() -> None:
    async def story(hub: Hub) -> None:
        await five_of_ten(hub)
        await hub.patch(MANAGED_CLUSTER, "c002", {"metadata": {"finalizers": ["example.com/stay"]}})
        await hub.delete(MANAGED_CLUSTER, "c002")
        await hub.settle()
        assert await hub.selected() == ["c000", "c001", "c003", "c004"]
        assert await hub.groups() == [("", 4)]

    told(story)


def test_without_bindings_there_is_one_empty_decision() -> None:
    async def story(hub: Hub) -> None:
        await hub.cluster_set()
        await hub.clusters(names("c", 5))
        hub.start()
        await hub.place(numberOfClusters=10)
        await hub.settle()
        assert await hub.groups() == [("", 0)]
        assert list(await hub.decisions()) == ["p-decision-1"]
        assert await hub.satisfied() == ("False", "NoManagedClusterSetBindings")

    told(story)


def test_101_clusters_are_two_decisions_of_one_group() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 101))
        hub.start()
        await hub.place(numberOfClusters=101)
        await hub.settle()
        assert await hub.groups() == [("", 101)]
        assert sorted(await hub.decisions()) == ["p-decision-1", "p-decision-2"]
        assert await hub.satisfied() == ALL

    told(story)


def test_other_cluster_sets_narrow_the_choice() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set("one")
        await hub.bound_set("two")
        await hub.clusters(names("a", 3), "one")
        await hub.clusters(names("b", 2), "two")
        hub.start()
        await hub.place(clusterSets=["one", "two"])
        await hub.settle()
        assert await hub.groups() == [("", 5)]
        await hub.respec(clusterSets=["two"])
        await hub.settle()
        assert await hub.selected() == names("b", 2)

    told(story)


def test_fewer_clusters_can_be_wanted_later() -> None:
    async def story(hub: Hub) -> None:
        await five_of_ten(hub)
        await hub.respec(numberOfClusters=4)
        await hub.settle()
        assert await hub.groups() == [("", 4)]
        assert await hub.satisfied() == ALL

    told(story)


def test_more_clusters_can_be_wanted_later() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 10))
        hub.start()
        await hub.place(numberOfClusters=5)
        await hub.settle()
        assert await hub.satisfied() == ALL
        await hub.respec(numberOfClusters=8)
        await hub.settle()
        assert await hub.groups() == [("", 8)]
        assert await hub.satisfied() == ALL

    told(story)


def test_five_more_clusters_satisfy_a_placement() -> None:
    async def story(hub: Hub) -> None:
        await five_of_ten(hub)
        await hub.clusters(names("d", 5))
        await hub.settle()
        assert await hub.groups() == [("", 10)]
        assert await hub.satisfied() == ALL

    told(story)


@pytest.mark.parametrize("selector", [{"matchLabels": {"vendor": "x"}}, {}], ids=["label selector", "global"])
def test_a_set_with_a_selector_follows_clusters_that_come_and_go(selector: dict[str, object]) -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set("set", selector)
        await hub.clusters(["a"], vendor="x")
        hub.start()
        await hub.place()
        await hub.settle()
        assert await hub.groups() == [("", 1)]
        await hub.clusters(["b"], vendor="x")
        await hub.settle()
        assert await hub.groups() == [("", 2)]
        for left, name in ((1, "a"), (0, "b")):
            await hub.delete(MANAGED_CLUSTER, name)
            await hub.settle()
            assert await hub.groups() == [("", left)]
            assert list(await hub.decisions()) == ["p-decision-1"]

    told(story)


def test_groups_follow_clusters_that_come_and_go() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("canary", 2), kind="canary")
        await hub.clusters(names("other", 3))
        hub.start()
        canary = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"kind": "canary"}}}}
        strategy = {"decisionGroups": [canary], "clustersPerDecisionGroup": 2}
        await hub.place(decisionStrategy={"groupStrategy": strategy})
        await hub.settle()
        assert await hub.groups() == [("canary", 2), ("", 2), ("", 1)]
        assert sorted(await hub.decisions()) == ["p-decision-1", "p-decision-2", "p-decision-3"]
        await hub.delete(MANAGED_CLUSTER, "canary000")
        await hub.delete(MANAGED_CLUSTER, "other002")
        await hub.settle()
        assert await hub.groups() == [("canary", 1), ("", 2)]
        await hub.clusters(["canary007"], kind="canary")
        await hub.settle()
        assert await hub.groups() == [("canary", 2), ("", 2)]
        await hub.clusters(["other009"])
        await hub.settle()
        assert await hub.groups() == [("canary", 2), ("", 2), ("", 1)]
        for name in ("canary001", "canary007", "other000", "other001", "other009"):
            await hub.delete(MANAGED_CLUSTER, name)
        await hub.settle()
        assert await hub.groups() == [("", 0)]

    told(story)


def test_binding_one_more_set_gives_more_clusters() -> None:
    async def story(hub: Hub) -> None:
        await five_of_ten(hub)
        await hub.clusters(names("e", 3), "more")
        await hub.bound_set("more")
        await hub.settle()
        assert await hub.groups() == [("", 8)]
        assert await hub.satisfied() == NOT_ALL

    told(story)


def test_binding_one_more_set_with_a_selector_gives_more_clusters() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set("one", {"matchLabels": {"vendor": "x"}})
        await hub.clusters(["a"], vendor="x")
        await hub.clusters(["b"], vendor="y")
        hub.start()
        await hub.place(numberOfClusters=2)
        await hub.settle()
        assert await hub.satisfied() == NOT_ALL
        await hub.bound_set("two", {"matchLabels": {"vendor": "y"}})
        await hub.settle()
        assert await hub.groups() == [("", 2)]
        assert await hub.satisfied() == ALL

    told(story)


@pytest.mark.parametrize("selector", [None, {"matchLabels": {"vendor": "x"}}], ids=["exclusive", "label selector"])
def test_a_set_that_is_deleted_takes_its_clusters_along_until_it_comes_back(selector: dict[str, object] | None) -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set("set", selector)
        await hub.clusters(names("c", 5), vendor="x")
        hub.start()
        await hub.place()
        await hub.settle()
        assert await hub.groups() == [("", 5)]
        await hub.delete(MANAGED_CLUSTER_SET, "set")
        await hub.settle()
        assert await hub.groups() == [("", 0)]
        await hub.cluster_set("set", selector)
        await hub.settle()
        assert await hub.groups() == [("", 5)]
        for name in names("c", 5):
            await hub.delete(MANAGED_CLUSTER, name)
        await hub.settle()
        assert await hub.groups() == [("", 0)]
        assert (await hub.satisfied())[1] == "AllManagedClusterSetsEmpty"

    told(story)


def test_a_binding_that_is_deleted_takes_the_clusters_along_until_it_comes_back() -> None:
    async def story(hub: Hub) -> None:
        await five_of_ten(hub)
        await hub.delete(MANAGED_CLUSTER_SET_BINDING, "set", NS)
        await hub.settle()
        assert await hub.groups() == [("", 0)]
        await hub.bind()
        await hub.settle()
        assert await hub.groups() == [("", 5)]

    told(story)


def test_a_placement_that_opted_out_is_left_alone() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 2))
        hub.start()
        opt_out = "cluster.open-cluster-management.io/experimental-scheduling-disable"
        await hub.place(annotations={opt_out: "true"})
        await hub.settle()
        assert await hub.decisions() == {}
        assert (await hub.placement()).status.conditions == []
        await hub.patch(PLACEMENT, "p", {"metadata": {"annotations": {opt_out: "false"}}}, NS)
        await hub.settle()
        assert await hub.groups() == [("", 2)]
        await hub.patch(PLACEMENT, "p", {"metadata": {"annotations": {opt_out: "true"}}}, NS)
        await hub.settle()
        await hub.clusters(["d"])
        await hub.settle()
        assert len(await hub.selected()) == 2

    told(story)


def test_decisions_of_others_are_left_alone_and_their_names_avoided() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 2))
        foreign = {"decisions": [{"clusterName": "c000", "reason": ""}]}
        await hub.create(PLACEMENT_DECISION, "p-decision-1", NS, labels={PLACEMENT_LABEL: "p"}, status=foreign)
        before = (await hub.decisions())["p-decision-1"]
        hub.start()
        await hub.place()
        await hub.settle()
        decisions = await hub.decisions()
        assert decisions["p-decision-1"] == before
        assert [entry.cluster_name for entry in decisions["p-decision-2"].status.decisions] == names("c", 2)  # type: ignore[union-attr]
        assert (await hub.placement()).status.decision_groups[0].decisions == ["p-decision-2"]

    told(story)


def test_labels_that_somebody_damaged_are_repaired_and_foreign_ones_kept() -> None:
    async def story(hub: Hub) -> None:
        await five_of_ten(hub)
        damage = {PLACEMENT_LABEL: None, "cluster.open-cluster-management.io/decision-group-index": "x", "mine": "yes"}
        await hub.patch(PLACEMENT_DECISION, "p-decision-1", {"metadata": {"labels": damage}}, NS)
        await hub.settle()
        assert await hub.groups() == [("", 5)]
        assert (await hub.decisions())["p-decision-1"].metadata.labels["mine"] == "yes"

    told(story)


def test_clusters_that_somebody_wrote_into_a_decision_are_taken_out() -> None:
    async def story(hub: Hub) -> None:
        await five_of_ten(hub)
        forged = {"status": {"decisions": [{"clusterName": "evil", "reason": ""}]}}
        await hub.patch(PLACEMENT_DECISION, "p-decision-1", forged, NS, "status")
        await hub.settle()
        assert await hub.selected() == names("c", 5)

    told(story)


def test_a_status_that_somebody_damaged_is_repaired() -> None:
    async def story(hub: Hub) -> None:
        await five_of_ten(hub)
        await hub.patch(
            PLACEMENT, "p", {"status": {"numberOfSelectedClusters": 99, "decisionGroups": []}}, NS, "status"
        )
        await hub.settle()
        assert await hub.groups() == [("", 5)]

    told(story)


def test_a_label_selector_can_be_added_and_changed() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("a", 3), cloud="a")
        await hub.clusters(names("b", 2), cloud="b")
        hub.start()
        await hub.place()
        await hub.settle()
        assert await hub.groups() == [("", 5)]
        for cloud, count in (("a", 3), ("b", 2)):
            selector = {"labelSelector": {"matchLabels": {"cloud": cloud}}}
            await hub.respec(predicates=[{"requiredClusterSelector": selector}])
            await hub.settle()
            assert await hub.selected() == names(cloud, count)
            assert await hub.groups() == [("", count)]

    told(story)


def test_a_claim_selector_can_be_added_and_changed() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        for cloud, count in (("a", 3), ("b", 2)):
            for name in names(cloud, count):
                await hub.cluster(name, status={"clusterClaims": [{"name": "cloud", "value": cloud}]})
        hub.start()
        await hub.place()
        await hub.settle()
        for cloud, count in (("a", 3), ("b", 2)):
            terms = [{"key": "cloud", "operator": "In", "values": [cloud]}]
            await hub.respec(predicates=[{"requiredClusterSelector": {"claimSelector": {"matchExpressions": terms}}}])
            await hub.settle()
            assert await hub.selected() == names(cloud, count)

    told(story)


def test_an_expression_with_a_mistake_is_a_misconfiguration_and_scores_can_be_asked_for() -> None:
    pytest.importorskip("cel_expr_python")

    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 2))
        await hub.score("c000", 70)
        await hub.score("c001", 90)
        hub.start()

        def predicate(text: str) -> list[dict[str, object]]:
            return [{"requiredClusterSelector": {"celSelector": {"celExpressions": [text]}}}]

        await hub.place(predicates=predicate("nothing.metadata.name == 'c000'"))
        await hub.settle()
        assert (await hub.condition("PlacementMisconfigured"))[0] == "True"
        assert await hub.groups() == [("", 0)]
        asked = "managedCluster.scores('demo').filter(s, s.name == 'demo').all(e, e.value > 80)"
        await hub.respec(predicates=predicate(asked))
        await hub.settle()
        assert await hub.selected() == ["c001"]
        await hub.score("c000", 85)
        await hub.settle()
        assert await hub.selected() == names("c", 2)

    told(story)


def test_a_cluster_that_changes_its_set_changes_placements() -> None:
    async def story(hub: Hub) -> None:
        await five_of_ten(hub)
        await hub.patch(MANAGED_CLUSTER, "c001", {"metadata": {"labels": {SET_LABEL: "elsewhere"}}})
        await hub.settle()
        assert await hub.selected() == ["c000", "c002", "c003", "c004"]

    told(story)


def test_a_placement_that_is_made_anew_under_its_name_begins_from_nothing() -> None:
    async def story(hub: Hub) -> None:
        await five_of_ten(hub)
        await hub.delete(PLACEMENT, "p", NS)
        await hub.delete(PLACEMENT_DECISION, "p-decision-1", NS)
        await hub.place(numberOfClusters=3)
        await hub.settle()
        assert await hub.selected() == names("c", 3)
        assert await hub.groups() == [("", 3)]

    told(story)
