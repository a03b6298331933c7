"""What is told of a rollout, and that it is told once."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.rollout import MAX_LISTED_CLUSTERS
from echelon.engine.plan import Emit
from tests.engine.work_set.world import World, progressive
from tests.examples import examples

LATE = "ClustersTimedOut"


def late(world: World) -> list[Emit]:
    return [each for each in world.events if each.reason == LATE]


def named(world: World) -> Counter[str]:
    """Count how often each cluster was named as one that missed its deadline."""
    return Counter(name for each in late(world) for name in each.note.removesuffix(" missed the deadline").split(", "))


def fleet(size: int, **settings_: object) -> World:
    clusters = [f"c{number:04d}" for number in range(size)]
    return World.of([("", clusters)], progressive(maxFailures="100%", progressDeadline="1m", **settings_))


@examples(30)
@given(
    size=st.integers(1, 12),
    slots=st.integers(1, 4),
    listed=st.integers(0, 4),
    pauses=st.lists(st.integers(1, 90), min_size=10, max_size=30),
)
def test_each_time_out_is_told_once_whatever_the_status_can_hold(
    size: int, slots: int, listed: int, pauses: list[int]
) -> None:
    world = fleet(size, maxConcurrency=slots)
    for pause in [*pauses, *[90] * (size // slots + 2)]:
        world.settle()
        if listed == 0:
            world.status.pop("rollout", None)  # the hub's schema does not know it
        elif "rollout" in world.status:
            world.status["rollout"]["clusters"] = world.status["rollout"]["clusters"][:listed]
        world.wait(pause)
    world.settle()
    assert named(world) == Counter(cluster for cluster, _ in world.works)


def test_more_time_outs_than_the_status_lists_are_told_once() -> None:
    world = fleet(MAX_LISTED_CLUSTERS + 50)
    world.settle()
    world.wait(60)
    for _ in range(3):
        world.settle()
        world.report("c0000", degraded="True")  # something changes, and another plan is made
    assert len(late(world)) == 1
    assert late(world)[0].note.endswith(" more missed the deadline")


def test_a_time_out_is_not_told_before_the_status_may_say_it() -> None:
    world = fleet(2, maxConcurrency=1)
    world.settle()
    world.wait(60)
    world.settle()
    world.wait(60)
    assert LATE not in [each.reason for each in world.plan(brief=True).actions if isinstance(each, Emit)]
    world.settle()
    assert [each.note for each in late(world)] == ["c0000 missed the deadline", "c0001 missed the deadline"]


def test_a_cluster_that_missed_another_deadline_is_told_again() -> None:
    world = fleet(1)
    for version in ("1", "2"):
        world.upgrade(version)
        world.settle()
        world.wait(60)
        world.settle()
    assert named(world) == {"c0000": 2}


def test_the_end_of_a_rollout_and_what_stops_it_are_important() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1))
    world.settle()
    world.report("a", degraded="True")
    world.settle()
    world.report("a")
    world.settle()
    world.finish()
    world.settle()
    told = {each.reason: each.important for each in world.events}
    assert told == {
        "GroupsStarted": False,
        "RolloutMaxFailuresExceeded": True,
        "RolloutContinues": False,
        "RolloutComplete": True,
    }


def test_an_end_is_told_in_a_sentence() -> None:
    for clusters, said in ((["a"], "1 cluster has revision"), (["a", "b"], "2 clusters have revision")):
        world = World.of([("", clusters)])
        world.settle()
        world.finish()
        world.settle()
        [note] = [each.note for each in world.events if each.reason == "RolloutComplete"]
        assert note.startswith(said)
