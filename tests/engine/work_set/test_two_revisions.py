"""A template that is changed in the middle of a rollout: two revisions are under way, and one set of rules."""

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.rollout.model import Phase
from tests.engine.work_set.world import World, per_group
from tests.examples import examples

GROUPS = [("", ["a", "b"]), ("", ["c", "d"]), ("", ["e", "f"])]
REPORTS = st.sampled_from([None, {}, {"progressing": "True"}, {"degraded": "True"}])


def test_a_group_that_is_busy_with_an_older_revision_waits_for_the_groups_before_it() -> None:
    world = World.of(GROUPS, per_group())
    world.settle()
    world.finish()
    world.settle()
    assert world.at("1") == ["a", "b", "c", "d"]
    world.upgrade("2")
    world.settle()
    assert world.at("2") == ["a", "b"], "c and d are in flight with revision 1, and keep it"
    world.report("c", "d")
    world.settle()
    assert world.at("2") == ["a", "b"]
    world.report("a", "b")
    world.settle()
    assert world.at("2") == ["a", "b", "c", "d"]
    assert world.at("1") == []


def test_where_everybody_may_start_failures_of_either_revision_stop_nobody() -> None:
    world = World.of(GROUPS, {"type": "All", "all": {"maxFailures": 0}})
    world.settle()
    world.report("a", "b", degraded="True")
    world.upgrade("2")
    world.settle()
    assert world.at("2") == ["a", "b", "c", "d", "e", "f"]
    world.report("c", applied="False")
    world.settle()
    assert world.said("RolloutBlocked")[0] == "False"


@examples(60)
@given(st.lists(st.tuples(st.booleans(), st.lists(REPORTS, min_size=6, max_size=6)), max_size=5), st.integers(0, 1))
def test_no_group_begins_with_a_revision_before_those_ahead_of_it_are_through(
    story: list[tuple[bool, list[dict[str, str] | None]]], tolerated: int
) -> None:
    world, version = World.of(GROUPS, per_group(maxFailures=tolerated)), 1
    for upgraded, reports in story:
        version += upgraded
        if upgraded:
            world.upgrade(str(version))
        before = set(world.at(str(version)))
        phases = {cluster: found[0].status.phase for cluster, found in world.view().works.items()}
        for cluster in set(after_settling(world, str(version))) - before:
            turn = next(index for index, (_, names) in enumerate(GROUPS) if cluster in names)
            for name in (each for _, names in GROUPS[:turn] for each in names):
                assert name in before
                assert phases[name] in (Phase.SUCCEEDED, Phase.FAILED)
        for name, report in zip("abcdef", reports, strict=True):
            if report is not None:
                world.report(name, **report)


def after_settling(world: World, version: str) -> list[str]:
    world.settle()
    return world.at(version)
