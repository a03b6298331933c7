"""On a hub whose definition of policies is upstream's nobody is enforced early, and nothing is lost that matters."""

from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.policy import POLICY
from echelon.controllers.settings import ControllerSettings
from echelon.engine.policy.names import STRATEGY_ANNOTATION
from echelon.engine.rollout.annotations import STATUS_ANNOTATION
from tests.controllers.hub import NS, now
from tests.controllers.policy_world import CRDS, PolicyWorld, details, told
from tests.controllers.work_world import per_group, progressive
from tests.engine.policy.test_kept_fields import upstream

FOREIGN = [upstream() if each["metadata"]["name"] == POLICY.resource else each for each in CRDS]
ALLOWING = ControllerSettings(trust_decisions=True, strict=True, allow_all=True)


def asked(strategy: JSONObject) -> dict[str, str]:
    return {STRATEGY_ANNOTATION: msgspec.json.encode(strategy).decode()}


async def overwrite(world: PolicyWorld, cluster: str, compliant: str) -> None:
    """Report as an agent of others does: with the whole status, of which the hub keeps upstream's part."""
    await world.settle(1)
    replica = await world.replica(cluster)
    status = {"compliant": compliant, "details": [details(replica, compliant)]}
    await world.hub.patch(POLICY, f"{NS}.audit", {"status": status}, cluster, "status")


async def conditions(world: PolicyWorld) -> dict[str, tuple[str, str]]:
    kept: Any = msgspec.json.decode((await world.policy()).metadata.annotations[STATUS_ANNOTATION])
    return {each["type"]: (each["status"], each["reason"]) for each in kept["conditions"]}


def test_a_policy_that_was_not_written_for_it_is_held_everywhere_and_says_why() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.write(strategy=per_group())  # of which the hub keeps nothing
        assert (await world.policy()).spec.rollout_strategy is None
        await world.bind()
        world.start()
        await world.settle()
        assert sorted(await world.replicas()) == ["c1", "c2"]
        assert await world.enforced() == []
        assert (await conditions(world))["RolloutBlocked"] == ("True", "Held")
        notes = [note for reason, note in await world.events() if reason == "RolloutHeld"]
        assert len(notes) == 1
        assert STRATEGY_ANNOTATION in notes[0]

    told(story, crds=FOREIGN)


def test_the_strategy_of_an_annotation_is_carried_out_with_agents_of_others_and_through_restarts() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("canary", ["c2"]), ("", ["c1"])])
        await world.write(annotations=asked(per_group(minSuccessTime="60s")))
        await world.bind()
        world.start()
        await world.settle()
        assert await world.enforced() == ["c2"]
        await overwrite(world, "c1", "NonCompliant")
        await overwrite(world, "c2", "Compliant")
        await world.settle()
        assert await world.enforced() == ["c2"]
        assert (await world.policy()).status.compliant == "NonCompliant"
        began = now()
        await world.restart()
        while await world.enforced() == ["c2"]:
            await world.settle(5)
        assert 40 <= (now() - began).total_seconds() <= 70, "the soak goes on where it was, and is not skipped"
        await overwrite(world, "c1", "Compliant")
        await world.settle(90)
        assert (await conditions(world))["PlacementRolledOut"] == ("True", "Complete")

    told(story, crds=FOREIGN)


def test_whoever_runs_it_can_say_that_policies_without_a_strategy_go_everywhere() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.write()
        await world.bind()
        world.start()
        await world.settle()
        assert await world.enforced() == ["c1", "c2"]

    told(story, crds=FOREIGN, settings=ALLOWING)


def test_what_was_enforced_before_stays_so_though_nobody_new_is() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1"])])
        await world.write()
        await world.bind()
        first = world.hub.start("policies", settings=ALLOWING)
        await world.settle()
        assert await world.enforced() == ["c1"]
        first.cancel()
        await world.hub.stop()
        world.hub.controllers.clear()
        await world.decide([("", ["c1", "c2"])])
        world.start()
        await world.settle()
        assert sorted(await world.replicas()) == ["c1", "c2"]
        assert await world.enforced() == ["c1"]

    told(story, crds=FOREIGN)


def test_a_strategy_that_cannot_be_read_enforces_nobody() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1"])])
        await world.write(annotations={STRATEGY_ANNOTATION: "{type: Progressive}"})
        await world.bind()
        world.start()
        await world.settle()
        assert await world.enforced() == []
        assert (await conditions(world))["RolloutBlocked"] == ("True", "Held")

    told(story, crds=FOREIGN)


def test_who_fails_in_its_soak_begins_it_anew_and_who_fails_after_it_holds_up_nobody() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2", "c3"])])
        await world.write(annotations=asked(progressive(minSuccessTime="60s")))
        await world.bind()
        world.start()
        await world.settle()
        await overwrite(world, "c1", "Compliant")
        await world.settle(40)
        await overwrite(world, "c1", "NonCompliant")
        await world.settle()
        await overwrite(world, "c1", "Compliant")
        await world.settle(50)
        assert await world.enforced() == ["c1"]
        await world.settle(15)
        assert await world.enforced() == ["c1", "c2"]
        await overwrite(world, "c1", "NonCompliant")  # which is drift now
        await overwrite(world, "c2", "Compliant")
        await world.settle(70)
        assert await world.enforced() == ["c1", "c2", "c3"]

    told(story, crds=FOREIGN)
