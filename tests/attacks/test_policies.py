"""Members and tenants that write what policies are judged by."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest

from echelon.api.base import JSONObject
from echelon.api.policy import POLICY, ROOT_LABEL
from echelon.kube.errors import Invalid
from tests.controllers.policy_world import PolicyWorld, template, told
from tests.controllers.work_world import progressive

MOST_BYTES = 1024 * 1024
HISTORY = [{"lastTimestamp": "2026-01-01T00:00:00Z", "message": "x" * 200, "eventName": f"e{n}"} for n in range(10)]
MANY = [{"compliant": "NonCompliant", "history": HISTORY, "templateMeta": {"name": f"t{n}"}} for n in range(300)]
LIES: dict[str, Any] = {
    "huge lists": {"compliant": "NonCompliant", "details": MANY},
    "a state that is none": {"compliant": "Excellent"},
    "generations of the future": {"compliant": "Compliant", "observedGeneration": 2**62},
    "times of the future": {"compliant": "Compliant", "rolloutLastTransitionTime": "9999-12-31T23:59:59Z"},
    "a turn that nobody gave": {"compliant": "Compliant", "rolloutStatus": "Succeeded"},
}


@pytest.mark.parametrize("what", sorted(LIES))
def test_a_member_that_lies_decides_for_itself_alone(what: str) -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2", "c3", "c4"])])
        world.start()
        await world.write(strategy=progressive(maxConcurrency=2, maxFailures=1))
        await world.bind("audit")
        await world.settle()
        replica = await world.replica("c1")
        with suppress(Invalid):  # what is refused at the door does no harm
            await world.hub.patch(POLICY, replica.metadata.name, {"status": LIES[what]}, "c1", "status")
        for _ in range(6):
            await world.report("c2", "c3", "c4")
            await world.settle(30)
        assert len(await world.enforced()) <= 4
        assert {"c2", "c3", "c4"} <= {*await world.reach()}
        whole = await world.policy()
        assert len(msgspec.json.encode(whole)) < MOST_BYTES
        assert whole.metadata.name == "audit"

    told(story)


def test_a_replica_that_somebody_forged_gives_no_cluster_a_policy_that_nobody_bound() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1"])])
        await world.join(["c2"])
        world.start()
        await world.write()
        await world.bind("audit")
        await world.settle()
        (name,) = {each.metadata.name for each in (await world.replicas()).values()}
        spec: JSONObject = {"disabled": False, "remediationAction": "enforce", "policy-templates": [template("666")]}
        await world.hub.create(POLICY, name, "c2", labels={ROOT_LABEL: name}, spec=spec)
        await world.settle(60)
        assert sorted(await world.replicas()) == ["c1"]

    told(story)
