"""What people tell a rollout, and the revisions that it can go back to."""

import pytest

from echelon.engine.rollout import control
from echelon.engine.rollout.annotations import RETRIED_ANNOTATION
from echelon.engine.rollout.stored_revision import COMPLETED_ANNOTATION
from echelon.engine.work_set.names import HASH_LABEL, SET_LABEL
from tests.engine.work_set.world import NAME, NS, World, flat, per_group, progressive, template, version_of

BLOCKED = "RolloutBlocked"


def tell(world: World, annotations: control.Annotations) -> None:
    for name, value in annotations.items():
        if value is None:
            world.annotations.pop(name, None)
        else:
            world.annotations[name] = value


def done(strategy: dict[str, object], clusters: str = "abc") -> World:
    """Return a world in which version 1 has reached every cluster."""
    world = World.of([("", list(clusters))], strategy)
    for _ in clusters:
        world.settle()
        world.finish()
    world.settle()
    assert world.said("PlacementRolledOut")[0] == "True"
    return world


def revision(world: World) -> str:
    return world.view().content.digest


def test_nothing_starts_while_paused_and_what_is_under_way_goes_on() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1))
    world.settle()
    tell(world, control.pause())
    world.finish()
    world.settle()
    assert world.at("1") == ["a"]
    assert world.said(BLOCKED)[:2] == ("True", "Paused")
    tell(world, control.resume(world.now))
    world.settle()
    assert world.at("1") == ["a", "b"]
    told = [each.reason for each in world.events]
    assert [each for each in told if each != "GroupsStarted"] == ["RolloutPaused", "RolloutContinues"]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (control.PAUSED, "yes"),
        (control.PROMOTED, "now"),
        (control.RETRIED, "noon"),
        (control.APPROVED, "canary"),
        (control.RESUMED, "later"),
        (control.ON_BREACH, "halt"),
        (control.ALLOW_EMPTY, "yes"),
    ],
)
def test_a_word_that_cannot_be_understood_pauses_and_is_named(annotation: str, value: str) -> None:
    world = World.of([("", ["a"])])
    world.annotations[annotation] = value
    world.settle()
    assert world.at("1") == []
    status, reason, message = world.said(BLOCKED)
    assert (status, reason) == ("True", "Paused")
    assert annotation in message
    assert value in message


def test_promotion_ends_a_soak_and_only_the_present_one() -> None:
    world = World.of([("", ["a", "b", "c"])], progressive(maxConcurrency=1, minSuccessTime="1h"))
    world.settle()
    world.finish()
    world.wait(1)
    tell(world, control.promote(world.now))
    world.settle()
    assert world.at("1") == ["a", "b"]
    world.wait(1)
    world.finish()
    world.settle()
    assert world.at("1") == ["a", "b"]


def test_groups_wait_for_their_approval() -> None:
    world = World.of([("canary", ["a"]), ("", ["b"])], per_group())
    world.annotations[control.APPROVAL] = "1"
    world.settle()
    world.finish()
    world.settle()
    assert world.at("1") == ["a"]
    assert world.said(BLOCKED)[:2] == ("True", "AwaitingApproval")
    tell(world, control.approve(revision(world), ["1"]))
    world.settle()
    assert world.at("1") == ["a", "b"]
    world.finish()
    world.settle()
    world.upgrade("2")  # an approval is for one revision
    world.settle()
    world.finish()
    world.settle()
    assert world.at("2") == ["a"]


def test_an_abort_puts_the_last_completed_revision_back_everywhere_at_once() -> None:
    world = done(progressive(maxConcurrency=1))
    world.upgrade("2")
    world.settle()
    world.finish()
    world.settle()
    assert world.at("2") == ["a", "b"]
    tell(world, control.abort(revision(world)))
    world.settle()
    assert world.at("1") == ["a", "b", "c"]
    assert world.said(BLOCKED)[:2] == ("True", "Aborted")
    world.finish()
    world.settle()
    assert world.said("PlacementRolledOut")[0] == "False"
    assert "RolloutAborted" in [each.reason for each in world.events]
    world.upgrade("3")  # a new template is not aborted
    world.settle()
    assert world.at("3") == ["a"]
    assert world.said(BLOCKED)[:2] == ("False", "NotBlocked")


def test_an_abort_goes_back_whatever_is_wrong_with_the_strategy() -> None:
    world = done({"type": "All"})
    world.upgrade("2")
    world.settle()
    world.change(placementRefs=[{"name": "p", "rolloutStrategy": {"type": "Sideways"}}])
    tell(world, control.abort(revision(world)))
    world.settle()
    assert world.at("1") == ["a", "b", "c"]


def test_an_abort_without_anything_to_go_back_to_only_stops() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1))
    world.settle()
    tell(world, control.abort(revision(world)))
    world.finish()
    world.settle()
    assert world.at("1") == ["a"]
    assert world.said(BLOCKED)[:2] == ("True", "Aborted")


def test_a_retry_gives_failures_another_chance_and_tells_their_agents() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1))
    world.settle()
    world.report("a", degraded="True")
    world.settle()
    assert world.said(BLOCKED)[:2] == ("True", "MaxFailuresExceeded")
    world.wait(10)
    tell(world, control.retry(world.now))
    world.settle()
    assert world.said(BLOCKED)[:2] == ("False", "NotBlocked")
    assert RETRIED_ANNOTATION in world.works["a", NAME]["metadata"]["annotations"]
    assert world.works["a", NAME]["metadata"]["generation"] == 1
    world.wait(600)
    world.settle()
    assert world.said(BLOCKED)[:2] == ("True", "MaxFailuresExceeded")


def test_a_revision_is_stored_before_any_cluster_gets_it() -> None:
    world = World.of([("", ["a"])])
    first = next(flat(world.plan()))
    world.do(first)
    (stored,) = world.revisions.values()
    assert stored["metadata"]["name"] == f"{NAME}-{revision(world)}"
    assert stored["metadata"]["labels"] == {HASH_LABEL: revision(world), SET_LABEL: f"{NS}.{NAME}"}
    assert stored["metadata"]["ownerReferences"][0]["uid"] == "set"
    assert stored["data"] == {"spec": {"manifestWorkTemplate": template()}}
    assert world.works == {}


def test_the_present_template_has_the_highest_number_also_after_an_undo() -> None:
    world = done({"type": "All"})
    world.upgrade("2")
    world.settle()
    numbers = {
        version_of({"spec": each["data"]["spec"]["manifestWorkTemplate"]}): each for each in world.revisions.values()
    }
    assert {version: each["revision"] for version, each in numbers.items()} == {"1": 1, "2": 2}
    world.upgrade("1")
    world.settle()
    assert {each["revision"] for each in world.revisions.values()} == {2, 3}
    assert world.revisions[f"{NAME}-{revision(world)}"]["revision"] == 3
    assert world.plan().empty


def test_only_a_revision_that_reached_every_cluster_is_marked_as_completed() -> None:
    world = done({"type": "All"})
    (first,) = world.revisions.values()
    assert COMPLETED_ANNOTATION in first["metadata"]["annotations"]
    world.upgrade("2")
    world.settle()
    world.report("a", "b")
    world.settle()
    assert COMPLETED_ANNOTATION not in world.revisions[f"{NAME}-{revision(world)}"]["metadata"]["annotations"]


@pytest.mark.parametrize(("limit", "kept"), [(None, 10), (3, 3)])
def test_so_many_revisions_are_kept_and_always_the_one_to_go_back_to(limit: int | None, kept: int) -> None:
    world = done({"type": "All"})
    completed = next(iter(world.revisions))
    if limit is not None:
        world.change(revisionHistoryLimit=limit)
    for version in range(2, 16):
        world.upgrade(str(version))
        world.settle()
    assert len(world.revisions) == kept
    assert completed in world.revisions
    tell(world, control.abort(revision(world)))
    world.settle()
    assert world.at("1") == ["a", "b", "c"]
