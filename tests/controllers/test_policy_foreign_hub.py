"""Policies on a hub whose definition of them is upstream's: nothing goes everywhere by mistake, and soaks still end."""

import json
from dataclasses import replace

from echelon.api.policy import POLICY
from echelon.engine.policy.names import GOOD_ANNOTATION, STRATEGY_ANNOTATION
from tests.controllers.hub import NS, now
from tests.controllers.policy_world import CRDS, PolicyWorld, told
from tests.controllers.work_world import TRUSTING, progressive
from tests.engine.policy.definitions import upstream

FOREIGN = [each if each["metadata"]["name"] != POLICY.resource else upstream() for each in CRDS]
THREE = ["c1", "c2", "c3"]


async def begin(world: PolicyWorld, **settings: object) -> None:
    annotations = {STRATEGY_ANNOTATION: json.dumps(progressive(**settings))} if settings else {}
    await world.place([("", THREE)])
    await world.write(annotations=annotations)
    await world.bind()
    world.start()
    await world.settle()


async def report(world: PolicyWorld, cluster: str, event: str, compliant: str = "Compliant") -> None:
    """Have an agent report, as much of it as such a hub keeps."""
    history = [{"eventName": event, "message": compliant, "lastTimestamp": now().strftime("%Y-%m-%dT%H:%M:%SZ")}]
    details = [{"templateMeta": {"name": "demo"}, "compliant": compliant, "history": history}]
    status = {"compliant": compliant, "details": details}
    await world.hub.patch(POLICY, f"{NS}.audit", {"status": status}, cluster, "status")


def test_a_policy_whose_strategy_may_have_been_dropped_is_held() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world)
        assert await world.reach() == THREE
        assert await world.enforced() == []
        await world.annotate({STRATEGY_ANNOTATION: '{"type": "All"}'})
        await world.settle()
        assert await world.enforced() == THREE

    told(story, crds=FOREIGN)


def test_who_says_so_lets_policies_without_a_strategy_go_everywhere() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world)
        assert await world.enforced() == THREE

    told(story, crds=FOREIGN, settings=replace(TRUSTING, allow_all=True))


def test_a_soak_ends_there_also_over_a_restart() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world, minSuccessTime="60s")
        assert await world.enforced() == ["c1"]
        await report(world, "c1", "demo.1")
        await world.settle(40)
        await world.restart()
        await world.settle(10)
        assert await world.enforced() == ["c1"]
        await world.settle(15)
        assert await world.enforced() == ["c1", "c2"]
        await report(world, "c1", "demo.2", "NonCompliant")  # which is drift now
        await report(world, "c2", "demo.1")
        await world.settle(65)
        assert await world.enforced() == THREE

    told(story, crds=FOREIGN)


def test_who_fails_in_its_soak_begins_it_anew() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world, minSuccessTime="60s")
        await report(world, "c1", "demo.1")
        await world.settle(40)
        await report(world, "c1", "demo.2", "NonCompliant")
        await world.settle()
        assert GOOD_ANNOTATION not in (await world.replica("c1")).metadata.annotations
        await report(world, "c1", "demo.3")
        await world.settle(50)
        assert await world.enforced() == ["c1"]
        await world.settle(15)
        assert await world.enforced() == ["c1", "c2"]

    told(story, crds=FOREIGN)


def test_a_hub_that_keeps_everything_has_no_need_for_such_notes() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", THREE)])
        await world.write(strategy=progressive(minSuccessTime="60s"))
        await world.bind()
        world.start()
        await world.settle()
        await world.report("c1")
        await world.settle()
        assert GOOD_ANNOTATION not in (await world.replica("c1")).metadata.annotations
        await world.settle(70)

    told(story)
