"""When a rollout is over: nobody waits or moves, and whatever failed is tolerated."""

from tests.engine.work_set.world import World, progressive


def finished(world: World) -> bool:
    return world.rollout().finished


def test_a_tolerated_failure_does_not_keep_a_rollout_from_its_end() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1, maxFailures=1, progressDeadline="1m"))
    world.settle()
    assert not finished(world), "b waits"
    world.report("a", degraded="True")
    world.wait(61)
    world.settle()
    assert not finished(world), "b moves"
    world.report("b")
    world.settle()
    assert finished(world)
    assert not world.rollout().complete


def test_a_rollout_that_stopped_is_not_finished() -> None:
    world = World.of([("", ["a"])], progressive())
    world.settle()
    world.report("a", degraded="True")
    world.settle()
    assert not finished(world), "one failure is more than none"
