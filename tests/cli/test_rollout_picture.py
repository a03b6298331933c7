"""In which state a rollout is shown: never a better one than the controller sees, and over when waiting is no use."""

import msgspec
import pytest
from tests.engine.work_set.world import PlacementState, World, progressive

from echelon.api.work import ManifestWork
from echelon.cli.exit_codes import ExitCode
from echelon.cli.rollout_tree import headline
from echelon.cli.rollout_watching import Watching
from echelon.engine.rollout import control
from echelon.rollouts.picture import REASONS, Picture, draw
from echelon.rollouts.work_sets import found_work_set, read_with_objects


def drawn(world: World) -> Picture:
    works = [read_with_objects(msgspec.convert(work, ManifestWork)) for work in world.works.values()]
    found = found_work_set(world.view(), works)
    return draw(found.subject, found.objects, world.now)


def done(world: World) -> World:
    for _ in range(4):
        world.settle()
        world.finish()
    world.settle()
    world.wait(1)
    return world


def test_no_clusters_is_over_and_not_complete() -> None:
    world = World.of([("", [])])
    world.settle()
    picture = drawn(world)
    assert (picture.state, picture.over) == ("no clusters", True)
    assert headline(picture).startswith("no clusters: placement p selects nobody")


def test_a_placement_that_has_not_decided_yet_is_waited_for() -> None:
    world = World.of([])
    picture = drawn(world)
    assert (picture.state, picture.over) == ("rolling out", False)


def test_a_group_that_does_not_exist_is_named_and_ends_the_wait() -> None:
    world = World.of([("", ["a"])], progressive(mandatoryDecisionGroups=[{"groupName": "canari"}]))
    world.settle()
    picture = drawn(world)
    assert (picture.state, picture.over) == ("held", True)
    assert "canari" in headline(picture)
    world.placements["p"].settled = False
    assert not drawn(world).over, "the decisions are being written"


def test_what_the_controller_holds_for_people_is_shown_with_its_words() -> None:
    world = done(World.of([("", ["a"])]))
    for each in world.status["conditions"]:
        if each["type"] == "PlacementRolledOut":
            each |= {"status": "False", "reason": "RemovalHeld", "message": "2 clusters would go"}
    picture = drawn(world)
    assert (picture.state, picture.message, picture.over) == ("held", "2 clusters would go", True)


def test_a_stop_that_is_final_stays_one_when_the_failure_is_mended() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1))
    world.annotations[control.ON_BREACH] = "stop"
    world.settle()
    world.report("a", degraded="True")
    world.settle()
    world.report("a")
    world.settle()
    picture = drawn(world)
    assert (picture.state, picture.over) == ("stopped", True)


def test_a_cluster_that_falls_ill_after_the_end_is_shown_and_nothing_is_stopped() -> None:
    world = done(World.of([("", ["a", "b"])], progressive(maxConcurrency=1)))
    assert drawn(world).state == "complete"
    world.report("a", progressing="True")
    world.settle()
    picture = drawn(world)
    assert (picture.state, picture.over) == ("disturbed", False)
    assert picture.message.endswith("on a")


def aborted(report: dict[str, str] | None = None) -> World:
    world = done(World.of([("", ["a", "b"])], progressive(maxConcurrency=1, progressDeadline="60s")))
    world.upgrade("2")
    world.settle()
    world.finish()
    world.settle()
    world.annotations[control.ABORTED] = world.view().content.digest
    world.settle()
    if report is not None:
        world.report("a", **report)
        world.report("b")
        world.settle()
    return world


def test_the_way_back_of_an_abort_is_followed_to_its_end() -> None:
    picture = drawn(aborted())
    assert (picture.state, picture.over) == ("going back", False)
    picture = drawn(aborted({}))
    assert (picture.state, picture.over) == ("aborted", True)
    assert headline(picture).endswith("aborted: revision 1 is back everywhere")


def test_a_way_back_that_fails_somewhere_says_where() -> None:
    picture = drawn(aborted({"degraded": "True"}))
    assert (picture.state, picture.over) == ("aborted", True)
    assert picture.message.endswith("does not work on a")


def test_an_abort_without_anything_to_go_back_to_is_over_at_once() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1))
    world.settle()
    world.annotations[control.ABORTED] = world.view().content.digest
    picture = drawn(world)
    assert (picture.state, picture.over) == ("aborted", True)


@pytest.mark.parametrize("state", ["complete", "finished, not everywhere"])
def test_nothing_but_an_end_is_an_end(state: str) -> None:
    world = World.of([("", ["a"])], progressive(maxFailures=1, progressDeadline="60s"))
    world.settle()
    assert drawn(world).state == "rolling out"
    world.report("a", **({} if state == "complete" else {"degraded": "True"}))
    world.settle()
    assert drawn(world).state == state


def test_a_failure_that_no_budget_allows_for_is_no_success() -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    world.report("a", degraded="True")
    world.report("b")
    world.settle()
    picture = drawn(world)
    assert (picture.state, picture.over, REASONS[picture.state]) == ("failed", True, "Failed")
    assert Watching("web", None, 1.0).code(picture) is ExitCode.FAILED
    world.report("a")
    world.settle()
    world.wait(1)
    world.settle()
    assert drawn(world).state == "complete"
    world.report("a", degraded="True")
    assert drawn(world).state == "disturbed", "it was everywhere"


def test_two_placements_of_which_one_selects_nobody_can_be_complete() -> None:
    world = World.of([("", ["a"])])
    world.placements["q"] = PlacementState([("", [])])
    world.spec["placementRefs"].append({"name": "q"})
    assert drawn(done(world)).state == "complete"
