"""Traps into which the library falls that others use for rollouts, each with the story that shows it."""

from echelon.api.base import JSONObject
from tests.controllers.policy_world import PolicyWorld, told
from tests.controllers.work_world import Groups, per_group, progressive


async def begin(world: PolicyWorld, strategy: JSONObject, *groups: tuple[str, list[str]]) -> None:
    await world.place(groups)
    await world.write(strategy=strategy)
    await world.bind()
    world.start()
    await world.settle()


def test_a_concurrency_that_nobody_set_is_one_and_not_everybody() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world, {"type": "Progressive"}, ("", ["a", "b", "c"]))
        assert await world.enforced() == ["a"]

    told(story)


def test_to_tolerate_more_failures_than_there_are_clusters_is_to_tolerate_all() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world, progressive(maxFailures=10, maxConcurrency=2), ("", ["a", "b", "c"]))
        await world.report("a", compliant="NonCompliant")
        await world.report("b")
        await world.settle()
        assert await world.enforced() == ["a", "b", "c"]
        assert await world.verdict() == "Progressing"

    told(story)


def test_clusters_that_time_out_do_not_merge_the_groups_after_them() -> None:
    async def story(world: PolicyWorld) -> None:
        groups: Groups = [("", ["a", "b"]), ("", ["c", "d"]), ("", ["e", "f"])]
        await begin(world, per_group(maxFailures=2, progressDeadline="60s"), *((n, list(c)) for n, c in groups))
        await world.settle(60)
        assert (await world.told())["a"] == (await world.told())["b"] == "TimeOut"
        assert await world.enforced() == ["a", "b", "c", "d"]
        await world.report("c", "d")
        await world.settle()
        assert await world.enforced() == ["a", "b", "c", "d", "e", "f"]
        await world.report("e", "f")

    told(story)


def test_one_that_waits_and_comes_first_by_name_does_not_push_out_one_in_flight() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world, progressive(maxConcurrency=1), ("", ["b", "c"]))
        assert await world.enforced() == ["b"]
        await world.decide([("", ["a0", "b", "c"])])
        await world.settle()
        assert await world.enforced() == ["b"]
        assert (await world.stored())["a0"] == "ToApply"

    told(story)


def test_one_that_waits_and_comes_first_by_name_does_not_hide_a_failure() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world, progressive(maxConcurrency=1), ("", ["z"]))
        await world.report("z", compliant="NonCompliant")
        await world.decide([("", ["n", "z"])])
        await world.settle()
        assert await world.enforced() == ["z"]
        assert await world.verdict() == "Failed"

    told(story)


def test_a_stored_time_out_in_a_mandatory_group_holds_the_others_also_after_a_restart() -> None:
    async def story(world: PolicyWorld) -> None:
        strategy = progressive(progressDeadline="60s", mandatoryDecisionGroups=[{"groupName": "canary"}])
        await begin(world, strategy, ("canary", ["a", "b"]), ("", ["c"]))
        await world.report("a")
        await world.settle(60)
        assert (await world.stored())["b"] == "TimeOut"
        assert await world.verdict() == "Failed"
        await world.restart()
        await world.settle(30)
        assert await world.enforced() == ["a", "b"]
        assert (await world.stored())["b"] == "TimeOut"
        await world.report("b")
        await world.settle()
        assert await world.enforced() == ["a", "b", "c"]
        await world.report("c")

    told(story)


def test_drift_after_the_end_does_not_block_a_new_cluster_for_ever() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world, progressive(), ("", ["a", "b"]))
        await world.finish()
        await world.report("a", compliant="NonCompliant")
        await world.settle()
        await world.decide([("", ["a", "b", "c"])])
        await world.settle()
        assert await world.enforced() == ["a", "b", "c"]

    told(story)


def test_a_tolerated_failure_keeps_its_place_until_its_deadline_and_frees_it_then() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world, progressive(maxFailures=1, progressDeadline="60s"), ("", ["a", "b"]))
        await world.report("a", compliant="NonCompliant")
        await world.settle(30)
        assert await world.enforced() == ["a"]
        await world.settle(30)
        assert await world.enforced() == ["a", "b"]
        await world.report("b")

    told(story)


def test_a_tolerated_failure_of_a_group_does_not_keep_the_next_one_waiting() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world, per_group(maxFailures=1), ("", ["a"]), ("", ["b"]))
        await world.report("a", compliant="NonCompliant")
        await world.settle()
        assert await world.enforced() == ["a", "b"]

    told(story)


def test_new_content_soaks_anew() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world, progressive(minSuccessTime="60s"), ("", ["a", "b"]))
        await world.report("a")
        await world.settle(70)
        await world.report("b")
        await world.settle(70)
        assert await world.verdict() == "Succeeded"
        await world.settle(3600)
        await world.upgrade("2")
        await world.settle()
        await world.report("a")
        await world.settle(50)
        assert await world.enforced() == ["a"]
        await world.settle(15)
        assert await world.enforced() == ["a", "b"]

    told(story)
