"""Works that ask to be deleted some time after they are complete."""

from typing import Any

from echelon.api.work import MANIFEST_WORK
from echelon.engine.work_set.names import SET_LABEL
from tests.controllers.hub import now
from tests.controllers.work_world import WorkWorld, template, told

DONE = {"type": "Complete", "status": "True", "reason": "ConditionRulesAggregated", "message": ""}


async def work(world: WorkWorld, name: str, ttl: int | None, *, complete: bool = True, **metadata: Any) -> None:
    spec = template(deleteOption={"ttlSecondsAfterFinished": ttl} if ttl is not None else {})
    await world.hub.create(MANIFEST_WORK, name, "a", spec=spec, metadata=metadata)
    if complete:
        condition = {**DONE, "lastTransitionTime": now().strftime("%Y-%m-%dT%H:%M:%SZ")}
        await world.hub.patch(MANIFEST_WORK, name, {"status": {"conditions": [condition]}}, "a", "status")


async def left(world: WorkWorld) -> list[str]:
    return sorted(each.metadata.name for each in (await world.hub.client.list(MANIFEST_WORK, "a")).items)


def test_a_work_goes_when_its_time_is_over_and_no_other_work_goes() -> None:
    async def story(world: WorkWorld) -> None:
        await world.cluster("a")
        world.hub.start("work-expiry")
        await work(world, "at-once", 0)
        await work(world, "kept-without", None)
        await work(world, "kept-incomplete", 0, complete=False)
        await work(world, "kept-of-a-set", 0, labels={SET_LABEL: "x.y"})
        await work(world, "labelled", 0, labels={"other": "x"})
        await work(world, "later", 100)
        await work(world, "never", 2**62)
        await world.settle(90)
        kept = ["kept-incomplete", "kept-of-a-set", "kept-without"]
        assert await left(world) == [*kept, "later", "never"]
        await world.settle(20)
        assert await left(world) == [*kept, "never"]
        condition = {**DONE, "lastTransitionTime": now().strftime("%Y-%m-%dT%H:%M:%SZ")}
        await world.hub.patch(MANIFEST_WORK, "kept-incomplete", {"status": {"conditions": [condition]}}, "a", "status")
        await world.settle()
        assert await left(world) == ["kept-of-a-set", "kept-without", "never"]

    told(story)


def test_a_time_that_is_made_longer_counts() -> None:
    async def story(world: WorkWorld) -> None:
        await world.cluster("a")
        world.hub.start("work-expiry")
        await work(world, "later", 100)
        await world.settle(50)
        longer = {"spec": {"deleteOption": {"ttlSecondsAfterFinished": 1000}}}
        await world.hub.patch(MANIFEST_WORK, "later", longer, "a")
        await world.settle(100)
        assert await left(world) == ["later"]
        await world.settle(900)
        assert await left(world) == []

    told(story)
