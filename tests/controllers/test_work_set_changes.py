"""Work sets whose template, strategy, placements and clusters change in the middle of a rollout."""

from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work import MANIFEST_WORK
from echelon.engine.rollout import control
from echelon.engine.work_set.names import PLACEMENT_LABEL
from tests.controllers.hub import NS, now
from tests.controllers.work_world import EVERYWHERE, SET, WorkWorld, per_group, progressive, template, told


def mandatory(*groups: str, **settings: object) -> dict[str, object]:
    return progressive(mandatoryDecisionGroups=[{"groupName": group} for group in groups], **settings)


def test_a_template_that_changes_midway_begins_again_and_older_works_stay_until_their_turn() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b", "c", "d"])])
        world.start()
        await world.roll_out(EVERYWHERE)
        await world.settle()
        await world.finish()
        await world.change(placementRefs=[{"name": "p", "rolloutStrategy": progressive(maxConcurrency=1)}])
        await world.upgrade("2")
        await world.settle()
        await world.finish()
        assert await world.versions() == {"a": "2", "b": "2", "c": "1", "d": "1"}
        await world.upgrade("3")  # b is still busy with 2 and goes first
        await world.settle()
        assert await world.versions() == {"a": "2", "b": "3", "c": "1", "d": "1"}
        for _ in range(4):
            await world.finish()
        assert await world.at("3") == ["a", "b", "c", "d"]
        assert await world.said("PlacementRolledOut") == ("True", "Complete")
        assert [each.revision for each in await world.revisions()] == [1, 2, 3]

    told(story)


def test_a_strategy_that_changes_counts_at_once() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", list("abcdef"))])
        world.start()
        await world.roll_out(progressive(maxConcurrency=1))
        await world.settle()
        assert await world.at("1") == ["a"]
        await world.change(placementRefs=[{"name": "p", "rolloutStrategy": progressive(maxConcurrency=3)}])
        await world.settle()
        assert await world.at("1") == ["a", "b", "c"]
        await world.change(placementRefs=[{"name": "p", "rolloutStrategy": EVERYWHERE}])
        await world.settle()
        assert await world.at("1") == list("abcdef")

    told(story)


def test_the_canary_groups_of_the_seed_go_first_and_hold_the_others_back() -> None:
    async def story(world: WorkWorld) -> None:
        groups = [("prod-canary-west", ["a", "b"]), ("prod-canary-east", ["c"]), ("", ["d", "e"]), ("", ["f"])]
        await world.place(groups, size=2)
        world.start()
        await world.roll_out(mandatory("prod-canary-west", "prod-canary-east", progressDeadline="50m"))
        await world.settle()
        assert await world.at("1") == ["a", "b"]
        await world.finish()
        assert await world.at("1") == ["a", "b", "c"]
        await world.report("c", progressing="True", degraded="True")
        await world.settle(3600)
        assert await world.at("1") == ["a", "b", "c"]
        assert await world.said("RolloutBlocked") == ("True", "MaxFailuresExceeded")
        await world.report("c")
        await world.settle()
        assert await world.at("1") == ["a", "b", "c", "d", "e"]  # as many as a decision group has

    told(story)


def test_a_cluster_that_joins_an_earlier_group_is_served_while_a_later_one_rolls() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"]), ("", ["b"]), ("", ["c", "d"]), ("", ["e"])])
        await world.cluster("x")
        world.start()
        await world.roll_out(per_group())
        for _ in range(2):
            await world.settle()
            await world.finish()
        assert await world.at("1") == ["a", "b", "c", "d"]
        await world.decide([("", ["a", "x"]), ("", ["b"]), ("", ["c", "d"]), ("", ["e"])])
        await world.settle()
        assert await world.at("1") == ["a", "b", "c", "d", "x"]
        await world.report("c", "d")
        await world.settle()
        assert await world.at("1") == ["a", "b", "c", "d", "x"]  # e waits for x
        await world.report("x")
        await world.settle()
        assert await world.at("1") == ["a", "b", "c", "d", "e", "x"]

    told(story)


def test_groups_that_are_cut_anew_are_walked_from_the_first_one_again() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"]), ("", ["b"]), ("", ["c"])])
        await world.cluster("x", "y", "z")
        world.start()
        await world.roll_out(per_group())
        await world.settle()
        for _ in range(2):
            await world.finish()
        assert await world.at("1") == ["a", "b", "c"]
        await world.decide([("", ["x", "c"]), ("", ["y", "a"]), ("", ["z"])])
        await world.settle(90)
        assert await world.at("1") == ["a", "c", "x"]  # b is gone, x is in the first group
        await world.report("x", "c")
        await world.settle()
        assert await world.at("1") == ["a", "c", "x", "y"]
        await world.finish()
        assert await world.at("1") == ["a", "c", "x", "y", "z"]

    told(story)


def test_a_cluster_that_moves_between_slices_one_write_at_a_time_keeps_its_work() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"]), ("", ["c"])])
        world.start()
        await world.roll_out()
        await world.settle()
        await world.finish()
        uid = (await world.works())["b"].metadata.uid
        await world.slice("p-decision-1", 0, "", ["a"])
        await world.settle(600)  # for as long as it takes
        assert "b" in await world.works()
        await world.slice("p-decision-2", 1, "", ["b", "c"])
        await world.settle()
        await world.agree([("", ["a"]), ("", ["b", "c"])])
        await world.settle()
        assert (await world.works())["b"].metadata.uid == uid
        assert await world.said("PlacementRolledOut") == ("True", "Complete")

    told(story)


def test_slices_that_vanish_for_a_while_take_no_work_along() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"]), ("", ["c"])])
        world.start()
        await world.roll_out()
        await world.settle()
        await world.hub.delete(PLACEMENT_DECISION, "p-decision-1", NS)
        await world.settle(600)
        assert sorted(await world.works()) == ["a", "b", "c"]
        await world.decide([("", ["a", "b"]), ("", ["c"])])
        await world.settle()
        assert sorted(await world.works()) == ["a", "b", "c"]

    told(story)


def test_a_cluster_listed_in_two_groups_is_treated_as_one_of_the_later() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"]), ("", ["b"])])
        await world.slice("p-decision-1", 0, "", ["a", "b"])
        world.start()
        await world.roll_out(per_group())
        await world.settle()
        assert await world.at("1") == ["a"]

    told(story)


def test_another_placement_replaces_the_works_of_the_one_before() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        await world.place([("", ["b", "c"])], "q")
        world.start()
        await world.roll_out()
        await world.settle()
        uid = (await world.works())["b"].metadata.uid
        await world.change(placementRefs=[{"name": "q", "rolloutStrategy": EVERYWHERE}])
        await world.settle(90)
        works = await world.works()
        assert sorted(works) == ["b", "c"]
        assert works["b"].metadata.uid == uid
        assert {each.metadata.labels[PLACEMENT_LABEL] for each in works.values()} == {"q"}

    told(story)


def test_a_placement_that_is_deleted_and_made_again_costs_no_work() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        world.start()
        await world.roll_out()
        await world.settle()
        uids = {each.metadata.uid for each in (await world.works()).values()}
        await world.hub.delete(PLACEMENT, "p", NS)
        await world.hub.delete(PLACEMENT_DECISION, "p-decision-1", NS)
        await world.settle(60)
        assert await world.said("PlacementVerified") == ("False", "PlacementDecisionNotFound")
        await world.hub.create(PLACEMENT, "p", NS, spec={})
        await world.settle(60)
        await world.decide([("", ["a", "b"])])
        await world.settle()
        assert {each.metadata.uid for each in (await world.works()).values()} == uids
        assert await world.said("PlacementVerified") == ("True", "AsExpected")

    told(story)


def test_labels_of_a_set_reach_clusters_that_are_done() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        world.start()
        await world.roll_out(progressive(maxConcurrency=1), labels={"team": "x"})
        await world.settle()
        for _ in range(2):
            await world.finish()
        await world.hub.patch(MANIFEST_WORK, "web", {"metadata": {"labels": {"theirs": "1"}}}, "a")
        labels = {"metadata": {"labels": {"team": None, "owner": "y"}}}
        await world.hub.patch(SET, "web", labels, NS)
        await world.settle()
        for cluster, work in (await world.works()).items():
            assert ("team" in work.metadata.labels, work.metadata.labels["owner"]) == (False, "y")
            assert work.metadata.generation == 1
            assert ("theirs" in work.metadata.labels) == (cluster == "a")
        assert await world.said("PlacementRolledOut") == ("True", "Complete")

    told(story)


def test_works_of_an_upstream_hub_are_taken_over_without_a_write_of_their_content() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        await world.roll_out()
        for cluster, name in (("a", "web7h2kp"), ("b", "webx9d4f"), ("b", "webzz111")):
            labels = {"work.open-cluster-management.io/manifestworkreplicaset": f"{NS}.web", PLACEMENT_LABEL: "p"}
            await world.hub.create(MANIFEST_WORK, name, cluster, spec=template(), labels=labels)
        await world.settle()
        world.start()
        await world.settle()
        works = await world.works()
        assert {cluster: work.metadata.name for cluster, work in works.items()} == {"a": "web7h2kp", "b": "webx9d4f"}
        assert {work.metadata.generation for work in works.values()} == {1}
        await world.finish()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")
        await world.upgrade("2")
        await world.settle()
        assert {cluster: work.metadata.name for cluster, work in (await world.works()).items()} == {
            "a": "web7h2kp",
            "b": "webx9d4f",
        }
        assert await world.at("2") == ["a", "b"]

    told(story)


def test_two_placements_that_select_one_cluster_share_its_work() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        await world.place([("", ["b", "c"])], "q")
        world.start()
        refs = [{"name": name, "rolloutStrategy": EVERYWHERE} for name in ("p", "q")]
        await world.roll_out(refs=refs)
        await world.settle()
        assert sorted(await world.works()) == ["a", "b", "c"]
        await world.finish()
        assert await world.counts() == {"total": 3, "applied": 3, "available": 3, "desired_total": 3, "updated": 3}
        assert await world.said("PlacementRolledOut") == ("True", "Complete")
        await world.upgrade("2")
        await world.settle()
        assert await world.at("2") == ["a", "b", "c"]

    told(story)


def test_the_verbs_of_a_rollout() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("canary", ["a"]), ("", ["b", "c"])])
        world.start()
        await world.roll_out(per_group(), annotations={control.APPROVAL: "all"})
        await world.settle()
        assert await world.works() == {}
        assert await world.said("RolloutBlocked") == ("True", "AwaitingApproval")
        revision = await world.revision()
        await world.annotate(control.approve(revision, ["canary", "1"]))
        await world.settle()
        await world.finish()
        await world.finish()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")
        await world.annotate({control.APPROVAL: None})
        await world.upgrade("2")
        await world.annotate(control.pause())
        await world.settle()
        await world.finish()
        assert await world.at("2") in ([], ["a"])
        assert await world.said("RolloutBlocked") == ("True", "Paused")
        await world.annotate(control.resume(now()))
        await world.settle()
        await world.finish()
        assert await world.at("2") == ["a", "b", "c"]
        await world.annotate(control.abort(await world.revision()))
        await world.settle()
        assert await world.at("1") == ["a", "b", "c"]
        assert await world.said("RolloutBlocked") == ("True", "Aborted")
        await world.finish()
        await world.annotate(control.retry(now()))
        await world.settle()
        assert await world.at("2") == ["a"]

    told(story)
