"""What is planned for a work set, one phenomenon a test."""

from copy import deepcopy
from datetime import timedelta

import pytest

from echelon.api.work import MANIFEST_WORK
from echelon.engine.plan import Create, Delete, Patch
from echelon.engine.rollout.annotations import WRITTEN_ANNOTATION
from echelon.engine.rollout.failed_writes import FailedWrite
from echelon.engine.rollout.subject import WriteOutcomes
from echelon.engine.work_set.names import FINALIZER, PLACEMENT_LABEL, SET_LABEL
from tests.engine.work_set.world import (
    NAME,
    NS,
    PlacementState,
    World,
    flat,
    per_group,
    progressive,
    template,
    writes_of,
)


def test_the_first_pass_only_adds_the_finalizer_and_the_second_adds_none() -> None:
    world = World.of([("", ["a"])], metadata={"finalizers": ["other"]})
    found = world.step()
    assert [type(each) for each in flat(found)] == [Patch]
    assert world.metadata["finalizers"] == ["other", FINALIZER]
    world.settle()
    assert world.metadata["finalizers"] == ["other", FINALIZER]


def test_every_selected_cluster_gets_a_work_with_upstreams_labels_and_all_labels_of_the_set() -> None:
    world = World.of([("", ["a", "b"])], labels={"team": "x"})
    world.settle()
    work = world.works["a", NAME]
    assert work["metadata"]["labels"] == {"team": "x", SET_LABEL: f"{NS}.{NAME}", PLACEMENT_LABEL: "p"}
    assert work["spec"] == template()
    assert "ownerReferences" not in work["metadata"]
    assert world.at("1") == ["a", "b"]
    assert world.told().summary.total == 2


def test_at_rest_nothing_is_written() -> None:
    world = World.of([("", ["a", "b"])], labels={"team": "x"})
    world.settle()
    world.finish()
    world.settle()
    world.wait(3600)
    assert world.plan().empty


def test_works_are_created_where_they_are_missing_and_deleted_where_nobody_wants_them() -> None:
    world = World.of([("", ["b", "c", "d"])])
    for cluster in ("a", "b"):
        world.add_work(cluster, NAME)
    world.finish()
    found = world.step()
    assert [(type(each), each.namespace) for each in writes_of(found)] == [(Create, "c"), (Create, "d"), (Delete, "a")]
    assert world.told().summary.total == 3


def test_nothing_is_deleted_while_decisions_and_status_do_not_agree() -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    world.placements["p"] = PlacementState([("", ["b"])], settled=False)
    world.settle()
    assert world.at("1") == ["a", "b"]
    assert "nothing is removed" in world.said("PlacementVerified")[2]
    world.placements["p"].settled = True
    world.settle()
    assert world.at("1") == ["b"]


def test_a_placement_that_has_not_decided_yet_takes_nothing_away() -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    world.placements["p"] = PlacementState([])  # made anew, and its scheduler has not come to it
    world.settle()
    assert world.at("1") == ["a", "b"]


def test_nothing_is_deleted_on_knowledge_that_is_older_than_the_work() -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    world.placements["p"] = PlacementState([("", ["b"])])
    world.stale = True
    assert world.plan().look_again_after is not None
    world.settle()
    assert world.at("1") == ["a", "b"]
    world.stale = False
    world.settle()
    assert world.at("1") == ["b"]


def test_a_stale_work_on_a_cluster_that_left_is_removed_as_well() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1))
    world.settle()
    world.finish()
    world.settle()
    world.finish()
    world.upgrade("2")
    world.settle()
    assert world.at("1") == ["b"]
    world.placements["p"].groups = [("", ["a"])]
    world.settle()
    assert world.at("1") == []


def test_a_cluster_that_moves_between_groups_keeps_its_work() -> None:
    world = World.of([("", ["a", "b"]), ("", ["c"])])
    world.settle()
    before = deepcopy(world.works)
    world.placements["p"].groups = [("", ["a"]), ("", ["b", "c"])]
    world.settle()
    assert world.works == before


def test_a_cluster_in_flight_keeps_its_place_while_its_decision_is_rewritten() -> None:
    world = World.of([("", ["a", "b", "c"])], progressive(maxConcurrency=1))
    world.settle()
    assert world.at("1") == ["a"]
    world.placements["p"] = PlacementState([("", ["b", "c"])], settled=False)
    world.settle()
    assert world.at("1") == ["a"]


def test_a_cluster_that_is_busy_with_older_content_keeps_its_place_and_gets_nothing_while_nobody_lists_it() -> None:
    world = World.of([("", ["a", "b", "c"])], progressive(maxConcurrency=1))
    world.settle()
    world.upgrade("2")
    world.placements["p"] = PlacementState([("", ["b", "c"])], settled=False)
    world.settle()
    assert world.at("2") == []
    assert world.at("1") == ["a"]
    world.placements["p"] = PlacementState([("", ["a", "b", "c"])])
    world.settle()
    assert world.at("2") == ["a"]


def test_works_of_another_hub_are_taken_over_by_their_labels() -> None:
    world = World.of([("", ["a", "b"])])
    world.add_work("a", "web7xk2p")
    world.report("a")
    before = deepcopy(world.works)
    world.settle()
    assert world.works["a", "web7xk2p"] == before["a", "web7xk2p"]
    assert sorted(world.works) == [("a", "web7xk2p"), ("b", NAME)]


def test_a_work_of_another_hub_that_nobody_reports_on_gets_a_clock() -> None:
    world = World.of([("", ["a"])], progressive(progressDeadline="1m"))
    world.add_work("a", "web7xk2p")
    world.wait(3600)
    world.settle()
    assert WRITTEN_ANNOTATION in world.works["a", "web7xk2p"]["metadata"]["annotations"]
    assert world.told().rollout is not None
    assert world.said("ClustersTimedOut")[0] == "False"
    world.wait(60)
    world.settle()
    assert world.said("ClustersTimedOut")[:2] == ("True", "ProgressDeadlineExceeded")
    assert world.said("ClustersTimedOut")[2].startswith("a;")


def test_of_two_works_on_one_cluster_one_is_kept() -> None:
    world = World.of([("", ["a"])])
    world.add_work("a", "web2")
    world.add_work("a", "web1", placement="old")
    world.settle()
    assert list(world.works) == [("a", "web2")]


def test_the_first_of_two_placements_owns_a_cluster_that_both_select() -> None:
    world = World.of([("", ["a", "b"])])
    world.placements["q"] = PlacementState([("", ["b", "c"])])
    world.spec["placementRefs"].append({"name": "q", "rolloutStrategy": {"type": "All"}})
    world.settle()
    assert {key: work["metadata"]["labels"][PLACEMENT_LABEL] for key, work in world.works.items()} == {
        ("a", NAME): "p",
        ("b", NAME): "p",
        ("c", NAME): "q",
    }
    status = world.told()
    assert (status.summary.total, [each.summary.total for each in status.placement_summary]) == (3, [2, 2])
    world.finish()
    world.settle()
    assert world.said("PlacementRolledOut")[0] == "True"
    world.placements["p"].groups = [("", ["a"])]
    world.settle()
    assert world.works["b", NAME]["metadata"]["labels"][PLACEMENT_LABEL] == "q"
    assert world.works["b", NAME]["metadata"]["generation"] == 1


def test_another_placement_takes_over_the_works_of_clusters_that_stay() -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    world.placements = {"q": PlacementState([("", ["b", "c"])])}
    world.change(placementRefs=[{"name": "q"}])
    world.settle()
    assert world.at("1") == ["b", "c"]
    assert {work["metadata"]["labels"][PLACEMENT_LABEL] for work in world.works.values()} == {"q"}
    assert world.works["b", NAME]["metadata"]["generation"] == 1


def test_a_work_without_a_placement_label_is_one_of_the_set_all_the_same() -> None:
    world = World.of([("", ["a"])])
    for cluster in ("a", "z"):
        world.add_work(cluster, "webx", placement="")
    world.settle()
    assert list(world.works) == [("a", "webx")]


def test_somebody_elses_work_of_the_same_name_is_left_alone() -> None:
    world = World.of([("", ["a", "b"])], taken={"a"})
    world.settle()
    assert {cluster: name == NAME for cluster, name in world.works} == {"a": False, "b": True}
    assert world.plan().empty


def test_changed_labels_reach_finished_works_and_are_no_new_revision() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1), labels={"team": "x", "old": "1"})
    for _ in range(2):
        world.settle()
        world.finish()
    world.settle()
    for work in world.works.values():
        work["metadata"]["labels"]["theirs"] = "kept"
    world.labels = {"team": "y"}
    world.settle()
    for work in world.works.values():
        labels = work["metadata"]["labels"]
        assert {key: labels.get(key) for key in ("team", "old", "theirs")} == {
            "team": "y",
            "old": None,
            "theirs": "kept",
        }
        assert work["metadata"]["generation"] == 1
    assert len(world.revisions) == 1
    assert world.said("PlacementRolledOut")[0] == "True"


def test_a_work_that_was_edited_by_hand_is_rewritten_in_its_turn() -> None:
    world = World.of([("", ["a", "b", "c"])], progressive(maxConcurrency=1))
    for _ in range(3):
        world.settle()
        world.finish()
    world.settle()
    world.wait(1)
    for cluster in ("b", "c"):
        world.works[cluster, NAME]["spec"] = template("by hand")
        world.works[cluster, NAME]["metadata"]["generation"] += 1
    world.settle()
    assert world.at("by hand") == ["c"]
    assert world.works["b", NAME]["metadata"]["managedFields"] == [{}], "asks the server to forget who owns what"
    world.finish()
    world.settle()
    assert world.at("by hand") == []


def test_a_work_that_was_deleted_by_hand_is_written_again_when_it_is_gone() -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    world.finish()
    world.works["a", NAME]["metadata"]["deletionTimestamp"] = world.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    world.settle()
    assert world.said("PlacementRolledOut")[0] == "False"
    del world.works["a", NAME]
    world.settle()
    assert world.at("1") == ["a", "b"]


def test_the_whole_spec_is_replaced_and_nothing_of_the_old_one_stays() -> None:
    world = World.of([("", ["a"])])
    orphans = {"orphaningRules": [{"resource": "configmaps", "name": "demo"}]}
    world.spec["manifestWorkTemplate"] = template(
        deleteOption={"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": orphans},
        executor={"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "x", "name": "y"}}},
        manifestConfigs=[{"resourceIdentifier": {"resource": "configmaps", "name": "demo"}}],
    )
    world.settle()
    wanted = template("2", deleteOption={"propagationPolicy": "Orphan"})
    world.change(manifestWorkTemplate=wanted)
    world.settle()
    assert world.works["a", NAME]["spec"] == wanted


def test_fields_that_echelon_does_not_know_reach_the_works() -> None:
    world = World.of([("", ["a"])])
    world.spec["manifestWorkTemplate"] = template(somethingNew={"x": 1})
    world.settle()
    assert world.works["a", NAME]["spec"]["somethingNew"] == {"x": 1}


def test_what_a_server_fills_in_does_not_make_a_work_stale() -> None:
    world = World.of([("", ["a"])])
    world.spec["manifestWorkTemplate"]["workload"]["manifests"][0]["metadata"]["creationTimestamp"] = None
    world.settle()
    work = world.works["a", NAME]
    del work["spec"]["workload"]["manifests"][0]["metadata"]["creationTimestamp"]
    work["spec"]["deleteOption"] = None
    assert world.plan().empty


def test_an_ending_set_takes_its_works_along_and_waits_for_them_only_if_asked_to() -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    world.metadata["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    foreground = deepcopy(world)
    world.step()
    assert world.works == {}
    assert world.metadata["finalizers"] == []
    foreground.spec["cascadeDeletionPolicy"] = "Foreground"
    found = foreground.plan()
    assert [each.kind for each in flat(found) if isinstance(each, Delete)] == [MANIFEST_WORK] * 2
    for work in foreground.works.values():
        work["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    assert foreground.plan().empty
    foreground.works.clear()
    foreground.step()
    assert foreground.metadata["finalizers"] == []


def test_without_a_number_as_many_clusters_as_a_decision_group_has_start_at_once() -> None:
    world = World.of([("", ["a", "b", "c", "d"])], progressive())
    world.placements["p"].size = "50%"
    world.settle()
    assert world.at("1") == ["a", "b"]


def test_an_older_sight_of_the_set_does_not_take_the_fleet_back() -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    old = (world.spec.copy(), world.generation)
    world.upgrade("2")
    world.settle()
    world.spec, world.generation = old
    found = world.plan()
    assert found.empty
    assert found.look_again_after is not None
    assert world.at("2") == ["a", "b"]


def test_those_that_are_busy_with_older_content_go_first() -> None:
    world = World.of([("", ["a", "b", "c", "d"])], progressive(maxConcurrency=2))
    world.settle()
    world.report("a", "b")
    world.settle()
    assert world.at("1") == ["a", "b", "c", "d"]  # c and d are under way
    world.upgrade("2")
    world.settle()
    assert world.at("2") == ["c", "d"]


@pytest.mark.parametrize("cluster", ["a", "b"])
def test_a_cluster_where_nothing_can_be_written_is_a_failure_with_a_reason(cluster: str) -> None:
    world = World.of([("", ["a", "b", "c"])], progressive(maxConcurrency=1, maxFailures=1, progressDeadline="1m"))
    revision = world.view().content.digest
    refused = FailedWrite(revision, world.now, True, f'namespaces "{cluster}" not found')
    world.outcomes = WriteOutcomes({cluster: refused}, next_try=world.now + timedelta(hours=1))
    world.settle()
    world.finish()
    world.wait(60)
    world.settle()
    listed = {each.cluster: each for each in (world.told().rollout or pytest.fail("no list")).clusters}
    assert listed[cluster].status == "TimeOut"
    assert "not found" in listed[cluster].message
    world.finish()
    world.settle()
    assert len(world.works) == 2


def test_groups_come_one_after_the_other_and_an_added_cluster_of_an_earlier_group_is_served() -> None:
    world = World.of([("", ["a", "b"]), ("", ["c", "d"])], per_group())
    world.settle()
    assert world.at("1") == ["a", "b"]
    world.finish()
    world.settle()
    assert world.at("1") == ["a", "b", "c", "d"]
    world.placements["p"].groups[0][1].append("e")
    world.settle()
    assert world.at("1") == ["a", "b", "c", "d", "e"]
