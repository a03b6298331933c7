"""The stories of policy rollouts on a simulated fleet: hub, controllers, agents and members in one virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import msgspec
import pytest

from echelon.api import configuration_policy, placement_rule, policy, policy_binding, registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import CONFIG_MAP
from echelon.api.placement import PLACEMENT
from echelon.api.policy import POLICY, Policy
from echelon.api.policy_binding import PLACEMENT_BINDING
from echelon.controllers.running import NAMES, POLICY_NAMES, Controllers
from echelon.fleet.local import agent_user, register
from echelon.fleet.loop import run, running
from echelon.fleet.member.fleet import Fleet
from echelon.hub.client import InProcessClient
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import MergePatch
from echelon.kube.errors import NotFound
from echelon.kube.metrics import Metrics
from tests.controllers.policy_world import template
from tests.controllers.strict import STRICT, end
from tests.fleet.test_leaving import NS, agent, create, furnish

KINDS = (*policy.KINDS, *policy_binding.KINDS, *configuration_policy.KINDS, *placement_rule.KINDS)


@dataclass
class PolicyFleet:
    """What a story is told with."""

    client: InProcessClient
    fleet: Fleet

    async def write(self, version: str, strategy: JSONObject) -> None:
        """Make the policy of the seed, or change it."""
        spec: JSONObject = {
            "disabled": False,
            "remediationAction": "enforce",
            "rolloutStrategy": strategy,
            "policy-templates": [template(version, "sample", pruneObjectBehavior="DeleteIfCreated")],
        }
        try:
            await self.client.patch(POLICY.untyped(), "sample-policy", MergePatch({"spec": spec}), NS)
        except NotFound:
            await create(self.client, POLICY, "sample-policy", spec, NS)

    async def policy(self) -> Policy:
        return await self.client.get(POLICY, "sample-policy", NS)

    async def replica(self, cluster: str) -> Policy:
        return await self.client.get(POLICY, f"{NS}.sample-policy", cluster)

    async def copy(self, cluster: str) -> Policy:
        """Return the replica as its cluster has it."""
        return await self.fleet.members[cluster].client().get(POLICY, f"{NS}.sample-policy", cluster)

    async def version(self, cluster: str) -> str:
        """Return what the cluster really has."""
        try:
            found = await self.fleet.members[cluster].client().get(CONFIG_MAP.untyped(), "sample", "default")
        except NotFound:
            return ""
        version: str = found["data"]["version"]
        return version

    async def standing(self) -> list[tuple[str, str, str]]:
        listed = (await self.policy()).status.status
        return [(each.clustername, each.compliant, each.rollout_status) for each in listed]


@asynccontextmanager
async def policy_fleet() -> AsyncIterator[PolicyFleet]:
    logical = memory_cluster(clock=running().clock.now, seed=1)
    await bootstrap(logical)
    client = InProcessClient(logical, ROOT)
    await furnish(client)
    for definition in registry.collect(KINDS).crds():
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    size = MergePatch({"spec": {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": 1}}}})
    await client.patch(PLACEMENT.untyped(), "p", size, NS)
    ref = {"apiGroup": PLACEMENT.group, "kind": "Placement", "name": "p"}
    subjects = [{"apiGroup": policy.GROUP, "kind": "Policy", "name": "sample-policy"}]
    body = {**PLACEMENT_BINDING.type_meta, "metadata": {"name": "sample-placementbinding"}}
    await client.create(PLACEMENT_BINDING.untyped(), {**body, "placementRef": ref, "subjects": subjects}, NS)
    fleet = await Fleet.build("3 clusters; nodes 1", clock=running().clock.now)
    await fleet.start()
    chance = Random(1)  # noqa: S311 - repeatable on purpose
    controllers = Controllers(
        client,
        running().clock,
        (*NAMES, *POLICY_NAMES),
        random=chance,
        metrics=Metrics(),
        instance="test",
        settings=STRICT,
    )
    tasks = [asyncio.create_task(run_controllers(logical)), asyncio.create_task(controllers.run())]
    for member in fleet.members.values():
        await register(client, member)
        tasks.append(asyncio.create_task(agent(InProcessClient(logical, agent_user(member.name)), member).run()))
    await asyncio.sleep(120)
    try:
        yield PolicyFleet(client, fleet)
    finally:
        await end(*tasks)
        await fleet.stop()


def told(story: Callable[[PolicyFleet], Awaitable[None]]) -> None:
    async def main() -> None:
        async with policy_fleet() as here:
            await story(here)

    run(main())


def per_group(**settings: str) -> JSONObject:
    return {"type": "ProgressivePerGroup", "progressivePerGroup": settings}


def test_the_status_tells_of_each_cluster_whether_it_has_the_policy_and_how_far_all_is() -> None:
    async def story(here: PolicyFleet) -> None:
        first, second, third = sorted(here.fleet.members)
        await here.write("1", per_group(minSuccessTime="5m", progressDeadline="10m", maxFailures="2%"))
        await asyncio.sleep(330)
        await here.client.patch(
            POLICY.untyped(), "sample-policy", MergePatch({"metadata": {"labels": {"seen": "yes"}}}), NS
        )
        await asyncio.sleep(5)
        found = (await here.policy()).status
        assert found.rollout_status == "Progressing"
        assert msgspec.to_builtins(found.placement) == [
            {"placementBinding": "sample-placementbinding", "placement": "p"}
        ]
        assert await here.standing() == [
            (first, "Compliant", "Succeeded"),
            (second, "Compliant", "Succeeded"),
            (third, "NonCompliant", "ToApply"),
        ], "the second soaks, and the third only looks"
        waiting = await here.replica(third)
        assert (waiting.spec.remediation_action, waiting.status.rollout_status) == ("inform", "ToApply")
        assert waiting.metadata.labels["seen"] == "yes", "a label reaches who waits, and starts nothing"
        assert [await here.version(each) for each in (first, second, third)] == ["1", "1", ""]
        done, copied = await here.replica(first), await here.copy(first)
        for each in (done, copied):
            assert (each.status.compliant, each.status.rollout_status) == ("Compliant", "Succeeded")
            assert each.status.details[0].history
        await asyncio.sleep(900)
        assert (await here.policy()).status.rollout_status == "Succeeded"
        assert [await here.version(each) for each in (first, second, third)] == ["1", "1", "1"]

    told(story)


def test_an_update_is_only_looked_at_before_its_turn_and_what_it_leaves_out_is_pruned_then() -> None:
    async def story(here: PolicyFleet) -> None:
        first, *others = sorted(here.fleet.members)
        await here.write("1", per_group())
        await asyncio.sleep(300)
        assert [await here.version(each) for each in (first, *others)] == ["1", "1", "1"]
        await here.write("2", per_group(minSuccessTime="1h"))
        await asyncio.sleep(120)
        assert [await here.version(each) for each in (first, *others)] == ["2", "1", "1"]
        preview = [(await here.replica(each)).status.details[0].pending_changes for each in others]
        assert [[(change.change, change.name) for change in each] for each in preview] == [[("Update", "sample")]] * 2
        assert all('+  version: "2"' in each[0].diff for each in preview)
        await asyncio.sleep(3 * 3600)
        assert [await here.version(each) for each in (first, *others)] == ["2", "2", "2"]
        await here.client.delete(POLICY, "sample-policy", NS)
        await asyncio.sleep(120)
        assert [await here.version(each) for each in (first, *others)] == ["", "", ""], "what it made goes with it"

    told(story)


def test_a_cluster_that_leaves_the_fleet_keeps_nothing_of_its_policies() -> None:
    async def story(here: PolicyFleet) -> None:
        leaving, *others = sorted(here.fleet.members)
        await here.write("1", per_group())
        await asyncio.sleep(300)
        assert [await here.version(each) for each in (leaving, *others)] == ["1", "1", "1"]
        await here.client.delete(MANAGED_CLUSTER, leaving)
        await asyncio.sleep(120)
        with pytest.raises(NotFound):
            await here.client.get(MANAGED_CLUSTER, leaving)
        member = here.fleet.members[leaving].client()
        left = [(await member.list(each.untyped())).items for each in (POLICY, CONFIGURATION_POLICY)]
        assert [[each["metadata"]["name"] for each in kind] for kind in left] == [[], []]
        assert [await here.version(each) for each in (leaving, *others)] == ["", "1", "1"], "what they made goes along"
        assert [cluster for cluster, _, _ in await here.standing()] == others

    told(story)
