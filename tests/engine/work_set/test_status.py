"""What a work set says about itself."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from echelon.api.rollout import MAX_LISTED_CLUSTERS
from echelon.engine.plan import Patch
from echelon.engine.work_set.plan import plan
from tests.engine.work_set.world import PlacementState, World, flat, per_group, progressive, writes_of

VERIFIED, ROLLED_OUT, APPLIED = "PlacementVerified", "PlacementRolledOut", "ManifestworkApplied"
BLOCKED = "RolloutBlocked"


def said(world: World, kind: str) -> tuple[str, str]:
    return world.said(kind)[:2]


def entry(world: World, cluster: str) -> tuple[str, str]:
    rollout = world.told().rollout
    assert rollout is not None
    return next((each.status, each.reason) for each in rollout.clusters if cluster in each.names)


def counts(world: World) -> dict[str, int]:
    summary = world.told().summary
    return {name: value for name in summary.__struct_fields__ if (value := getattr(summary, name))}


def test_a_placement_that_does_not_exist() -> None:
    world = World.of([])
    world.placements.clear()
    found = world.step()
    assert [each.subresource for each in flat(found) if isinstance(each, Patch)] == ["status"]
    assert writes_of(found) == []
    assert said(world, VERIFIED) == ("False", "PlacementDecisionNotFound")
    assert said(world, ROLLED_OUT) == ("False", "Progressing")
    assert said(world, APPLIED) == ("False", "NotAsExpected")


def test_a_placement_that_is_gone_leaves_the_works_alone() -> None:
    world = World.of([("", ["a"])])
    world.settle()
    world.placements.clear()
    world.settle()
    assert world.at("1") == ["a"]
    assert said(world, VERIFIED) == ("False", "PlacementDecisionNotFound")


def test_a_placement_that_selects_nothing_is_not_complete_and_says_why_there_is_nothing() -> None:
    world = World.of([("", [])])
    world.settle()
    assert said(world, VERIFIED) == ("False", "PlacementDecisionEmpty")
    assert said(world, APPLIED) == ("False", "PlacementDecisionEmpty")
    assert said(world, ROLLED_OUT) == ("False", "PlacementDecisionEmpty")
    assert "RolloutComplete" not in [each.reason for each in world.events]
    assert counts(world) == {}


def test_a_placement_without_any_decision() -> None:
    world = World.of([])
    world.settle()
    assert said(world, APPLIED) == ("False", "PlacementDecisionEmpty")
    assert said(world, ROLLED_OUT) == ("False", "Progressing")


def test_each_placement_has_its_summary_and_their_sum_is_the_total() -> None:
    world = World.of([("", ["a", "b", "c"]), ("", ["d", "e"])], per_group())
    world.placements["q"] = PlacementState([("", ["x", "y"])])
    world.spec["placementRefs"].append({"name": "q", "rolloutStrategy": {"type": "All"}})
    world.settle()
    texts = [(each.name, each.available_decision_groups) for each in world.told().placement_summary]
    assert texts == [("p", "2 (3 / 5 clusters applied)"), ("q", "1 (2 / 2 clusters applied)")]
    assert counts(world) == {"total": 5, "desired_total": 7, "updated": 5}


def test_groups_are_counted_as_they_are_reached_and_the_end_is_called_complete() -> None:
    world = World.of([("", ["a", "b", "c"]), ("", ["d", "e"])], per_group())
    world.settle()
    assert (counts(world)["total"], said(world, ROLLED_OUT)) == (3, ("False", "Progressing"))
    world.finish()
    world.settle()
    assert (counts(world)["total"], said(world, ROLLED_OUT)) == (5, ("False", "Progressing"))
    world.finish()
    world.settle()
    assert said(world, ROLLED_OUT) == ("True", "Complete")
    world.upgrade("2")
    world.settle()
    assert (counts(world)["total"], said(world, ROLLED_OUT)) == (3, ("False", "Progressing"))
    assert counts(world) == {"total": 3, "updated": 3, "desired_total": 5}  # nobody has reported on the new content
    assert said(world, APPLIED) == ("False", "NotAsExpected")


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ({"a": {}, "b": {}}, ("True", "AsExpected")),
        ({"a": {}, "b": {"available": "False", "progressing": "True"}}, ("False", "Processing")),
        ({"a": {}, "b": {"available": "False"}}, ("False", "NotAsExpected")),
        ({"a": {"progressing": "True"}, "b": {"degraded": "True"}}, ("False", "NotAsExpected")),
    ],
)
def test_works_are_as_expected_when_all_are_available_and_none_moves(
    reports: dict[str, dict[str, str]], expected: tuple[str, str]
) -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    for cluster, what in reports.items():
        world.report(cluster, **what)
    world.settle()
    assert said(world, APPLIED) == expected


def test_one_done_one_moving_and_one_failed() -> None:
    world = World.of([("", ["a", "b", "c"])])
    world.settle()
    world.report("a")
    world.report("b", progressing="True")
    world.report("c", progressing="True", degraded="True")
    world.settle()
    assert counts(world) == {
        "total": 3, "applied": 3, "available": 3, "progressing": 2, "degraded": 1, "desired_total": 3, "updated": 3,
    }  # fmt: skip
    assert said(world, ROLLED_OUT) == ("False", "Progressing")
    assert [entry(world, each)[0] for each in "abc"] == ["Succeeded", "Progressing", "Failed"]


def test_a_cluster_that_falls_ill_after_the_end_takes_the_completion_back() -> None:
    world = World.of([("", ["a"])])
    world.settle()
    world.finish()
    world.settle()
    assert said(world, ROLLED_OUT) == ("True", "Complete")
    world.report("a", available="False", progressing="True", degraded="True")
    world.settle()
    assert counts(world) == {
        "total": 1, "applied": 1, "progressing": 1, "degraded": 1, "desired_total": 1, "updated": 1,
    }  # fmt: skip
    assert said(world, ROLLED_OUT) == ("False", "Progressing")


def test_a_rollout_is_complete_only_when_the_last_cluster_has_soaked() -> None:
    world = World.of([("", ["a"])], progressive(maxConcurrency=1, minSuccessTime="5s"))
    world.settle()
    world.finish()
    found = world.step()
    assert found.look_again_after is not None
    assert found.look_again_after.total_seconds() == 5
    assert entry(world, "a") == ("Succeeded", "Soaking")
    assert said(world, ROLLED_OUT) == ("False", "Progressing")
    world.wait(5)
    world.settle()
    assert said(world, ROLLED_OUT) == ("True", "Complete")


def test_a_rollout_is_not_complete_while_decisions_are_rewritten() -> None:
    world = World.of([("", ["a"])])
    world.settle()
    world.finish()
    world.placements["p"].settled = False
    world.settle()
    assert said(world, ROLLED_OUT) == ("False", "Progressing")


@pytest.mark.parametrize(
    ("strategy", "field"),
    [
        (progressive(maxConcurrency="lots"), "progressive.maxConcurrency"),
        (progressive(progressDeadline="2d"), "progressive.progressDeadline"),
        (per_group(maxFailures="x"), "progressivePerGroup.maxFailures"),
        ({"type": "Sideways"}, "type"),
    ],
)
def test_a_strategy_that_cannot_be_carried_out_is_named_and_nothing_moves(strategy: Any, field: str) -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    world.finish()
    world.settle()
    world.change(placementRefs=[{"name": "p", "rolloutStrategy": strategy}])
    world.upgrade("2")
    found = world.step()
    assert writes_of(found) == []
    status, reason, message = world.said(VERIFIED)
    assert (status, reason) == ("False", "NotAsExpected")
    assert f"spec.placementRefs[0].rolloutStrategy.{field}" in message
    assert said(world, ROLLED_OUT) == ("False", "Progressing")
    assert world.at("1") == ["a", "b"]
    assert world.plan().empty


def test_one_bad_reference_does_not_stop_the_others() -> None:
    world = World.of([("", ["a"])], {"type": "Sideways"})
    world.placements["q"] = PlacementState([("", ["b"])])
    world.spec["placementRefs"] += [{"name": "q"}, {"name": "missing"}]
    world.settle()
    assert world.at("1") == ["b"]
    assert said(world, VERIFIED) == ("False", "NotAsExpected")


def test_a_missing_placement_keeps_its_works_from_later_references() -> None:
    world = World.of([("", ["a"])])
    world.settle()
    world.placements["q"] = PlacementState([("", ["a", "b"])])
    world.change(placementRefs=[{"name": "p"}, {"name": "q"}])
    del world.placements["p"]
    world.upgrade("2")
    world.settle()
    assert world.at("1") == ["a"]
    assert world.at("2") == ["b"]


def test_a_block_that_the_type_does_not_use_is_mentioned() -> None:
    world = World.of([("", ["a"])], {"type": "All", "progressive": {"maxConcurrency": 1}})
    world.settle()
    assert "type is All" in world.said(VERIFIED)[2]


def test_a_breach_names_the_clusters_and_stops_what_has_not_started() -> None:
    world = World.of([("", ["a", "b", "c"])], progressive(maxConcurrency=2, maxFailures=1))
    world.settle()
    world.report("a", "b", degraded="True")
    world.settle()
    status, reason, message = world.said(BLOCKED)
    assert (status, reason) == ("True", "MaxFailuresExceeded")
    assert "a, b" in message
    assert world.at("1") == ["a", "b"]
    assert entry(world, "c") == ("ToApply", "TooManyFailures")
    assert "RolloutMaxFailuresExceeded" in [each.reason for each in world.events]
    world.report("a", "b")
    world.settle()
    assert said(world, BLOCKED) == ("False", "NotBlocked")


def test_a_cluster_that_never_answers_times_out_and_says_so_once() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1, maxFailures=1, progressDeadline="5s"))
    found = world.step()
    world.wait(1)
    found = world.step()
    assert found.look_again_after is not None
    assert found.look_again_after.total_seconds() == 4
    world.wait(4)
    world.settle()
    assert world.at("1") == ["a", "b"]
    late = "a; the last deadline was 2026-11-01T12:00:05.000000Z"
    assert world.said("ClustersTimedOut") == ("True", "ProgressDeadlineExceeded", late)
    assert entry(world, "a") == ("TimeOut", "ProgressDeadlineExceeded")
    assert [each.reason for each in world.events].count("ClustersTimedOut") == 1
    assert said(world, ROLLED_OUT) == ("False", "Progressing")


def test_a_manifest_that_cannot_be_applied_counts_as_a_failure() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1))
    world.settle()
    world.report("a", applied="False", available="False", progressing="")
    world.settle()
    assert said(world, BLOCKED) == ("True", "MaxFailuresExceeded")
    assert entry(world, "a") == ("Failed", "ApplyFailed")


def test_the_list_is_bounded_and_begins_with_the_worst() -> None:
    names = [f"c{number:04d}" for number in range(MAX_LISTED_CLUSTERS + 50)]
    world = World.of([("", names)])
    world.settle()
    world.finish()
    world.report("c0140", degraded="True")
    world.report("c0145", progressing="True")
    world.settle()
    rollout = world.told().rollout
    assert rollout is not None
    # Of those that are fine there is one line, however many they are.
    assert [each.cluster for each in rollout.clusters] == ["c0140", "c0145", "c0000"]
    assert sum(len(each.names) for each in rollout.clusters) == MAX_LISTED_CLUSTERS
    assert rollout.clusters[2].names == tuple(names[: MAX_LISTED_CLUSTERS - 2])
    assert (rollout.state, rollout.done) == ("Progressing", "148/150")
    assert (rollout.succeeded, rollout.failed, rollout.progressing) == (148, 1, 1)


def test_every_listed_cluster_has_a_reason_and_a_message() -> None:
    world = World.of([("canary", ["a", "b"]), ("", ["c"])], per_group(progressDeadline="1m"))
    world.settle()
    world.report("a")
    world.report("b", progressing="True", degraded="True")
    world.settle()
    rollout = world.told().rollout
    assert rollout is not None
    assert [(each.cluster, each.group, each.group_index) for each in rollout.clusters] == [
        ("b", "canary", 0),
        ("c", "", 1),
        ("a", "canary", 0),
    ]
    assert all(each.reason and each.message for each in rollout.clusters)


@pytest.mark.parametrize("name", ["n" * 59, "under_score-"])
def test_a_name_that_no_label_can_have(name: str) -> None:
    world = World.of([("", ["a"])])
    view = world.view()
    renamed = msgspec.structs.replace(view.work_set.metadata, name=name)
    found = plan(replace(view, work_set=msgspec.structs.replace(view.work_set, metadata=renamed)), world.now)
    assert found.actions == ()
    assert found.status is not None
    (condition,) = found.status.body["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == (APPLIED, "InvalidManifestWorkName")
    assert "63" in condition["message"] or name in condition["message"]


def manifest(**fields: Any) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, **fields}


@pytest.mark.parametrize(
    ("manifests", "rule"),
    [
        ([], "at least one manifest"),
        ([manifest(data={"x": "y" * 512001})], "no more than 512000"),
        ([manifest(), manifest()], "the same object"),
        ([manifest(metadata={"generateName": "x"})], "name of its own"),
    ],
)
def test_a_template_that_no_cluster_could_take_is_named_and_nothing_moves(manifests: Any, rule: str) -> None:
    world = World.of([("", ["a"])])
    world.settle()
    world.finish()
    world.settle()
    world.change(manifestWorkTemplate={"workload": {"manifests": manifests}})
    assert writes_of(world.step()) == []
    assert rule in world.said(APPLIED)[2]
    assert said(world, ROLLED_OUT)[0] == "False"


def test_the_same_name_in_another_namespace_or_kind_is_another_object() -> None:
    world = World.of([("", ["a"])])
    others = [manifest(), manifest(kind="Secret"), manifest(metadata={"name": "x", "namespace": "y"})]
    world.spec["manifestWorkTemplate"] = {"workload": {"manifests": others}}
    world.settle()
    assert len(world.works) == 1


def test_in_brief_only_a_condition_that_turns_over_is_told() -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    world.report("a")
    assert plan(world.view(), world.now, brief=True).status is None
    assert world.plan().status is not None
    world.report("b")
    assert plan(world.view(), world.now, brief=True).status is not None


def test_one_word_says_where_a_rollout_stands() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1))

    def told() -> tuple[str, str]:
        rollout = world.told().rollout
        assert rollout is not None
        return rollout.state, rollout.done

    world.settle()
    assert told() == ("Progressing", "0/2")
    world.report("a", degraded="True")
    world.settle()
    assert told() == ("MaxFailuresExceeded", "0/2")
    world.report("a")
    world.settle()
    world.report("b")
    world.settle()
    assert told() == ("Complete", "2/2")


def test_an_end_that_is_not_a_success_is_a_state_of_its_own() -> None:
    for strategy, state in ((progressive(maxFailures=1), "CompleteWithFailures"), (None, "Failed")):
        world = World.of([("", ["a"])], strategy) if strategy else World.of([("", ["a"])])
        world.settle()
        world.report("a", degraded="True")
        world.settle()
        rollout = world.told().rollout
        assert rollout is not None
        assert rollout.state == state
