"""Policies reach their clusters as inform first, and are enforced in turn."""

from tests.controllers.policy_world import PolicyWorld, template, told
from tests.controllers.work_world import per_group, progressive


def test_everybody_gets_a_progressive_policy_to_look_at_before_anybody_is_enforced() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2", "c3"])])
        await world.write(strategy=progressive())
        await world.bind()
        world.start()
        await world.settle()
        assert await world.stored() == {"c1": "Progressing", "c2": "ToApply", "c3": "ToApply"}
        assert await world.enforced() == ["c1"]
        assert (await world.policy()).status.rollout_status == "Progressing"
        await world.report("c1", "c2", "c3")
        await world.settle()
        assert await world.enforced() == ["c1", "c2"]
        await world.finish()
        assert await world.enforced() == ["c1", "c2", "c3"]
        assert await world.told() == dict.fromkeys(("c1", "c2", "c3"), "Succeeded")
        assert (await world.policy()).status.rollout_status == "Succeeded"
        assert await world.said("PlacementRolledOut") == ("True", "Complete")

    told(story)


def test_groups_go_one_after_the_other_and_a_failure_stops_them() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("canary", ["c3"]), ("", ["c1", "c2"])])
        await world.write(strategy=per_group())
        await world.bind()
        world.start()
        await world.settle()
        assert await world.enforced() == ["c3"]
        await world.report("c3", compliant="NonCompliant")
        await world.settle()
        assert await world.enforced() == ["c3"]
        assert (await world.policy()).status.rollout_status == "Failed"
        assert await world.said("RolloutBlocked") == ("True", "MaxFailuresExceeded")
        await world.report("c3")
        await world.settle()
        assert await world.enforced() == ["c1", "c2", "c3"]

    told(story)


def test_all_at_once_nobody_ever_waits() -> None:
    async def story(world: PolicyWorld) -> None:
        seen: set[str] = set()
        await world.place([("", ["c1", "c2"])])
        await world.write()
        await world.bind()
        world.start()
        for _ in range(10):
            await world.settle(0.2)
            seen |= set((await world.stored()).values())
        assert await world.enforced() == ["c1", "c2"]
        assert seen <= {"", "Progressing"}
        await world.finish()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")

    told(story)


def test_an_update_takes_everybody_back_to_looking_and_begins_again() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2", "c3"])])
        await world.write(strategy=progressive(maxConcurrency=2))
        await world.bind()
        world.start()
        await world.settle()
        await world.finish()
        assert await world.enforced() == ["c1", "c2", "c3"]
        await world.upgrade("2")
        await world.settle()
        assert await world.enforced() == ["c1", "c2"]
        assert await world.stored() == {"c1": "Progressing", "c2": "Progressing", "c3": "ToApply"}
        await world.finish()
        assert await world.enforced() == ["c1", "c2", "c3"]

    told(story)


def test_a_change_that_python_would_not_see_reaches_everybody() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1"])])
        await world.write(spec={"policy-templates": [template(severity="low", flag=1)]})
        await world.bind()
        world.start()
        await world.settle()
        await world.change("audit", **{"policy-templates": [template(severity="low", flag=True)]})
        await world.settle()
        definition = (await world.replica("c1")).spec.policy_templates[0].object_definition
        assert definition["spec"]["flag"] is True

    told(story)
