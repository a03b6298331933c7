"""A cluster without policies costs one stream from the hub, and one with others' controllers is left to them."""

import logging

import pytest

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.events import EVENT
from echelon.api.policy import POLICY
from echelon.fleet.loop import run
from tests.agent.policy.world import NAME, Looker, PolicyWorld, serve_policies, template, told
from tests.agent.world import CLUSTER, Way, deployment, world

ADDON = "open-cluster-management-agent-addon"


def asked(way: Way, *resources: str) -> list[tuple[str, str]]:
    return [(verb, what) for verb, what, _ in way.requests if what in resources]


def test_a_cluster_without_policies_is_asked_once_whether_something_is_left() -> None:
    async def story(here: PolicyWorld) -> None:
        way = Way(here.here.hub)
        here.start(hub=way)
        await here.settle(200)
        assert asked(way, "policies") == [("list", "policies"), ("list", "policies"), ("watch", "policies")]
        member = asked(here.here.way, "policies", "configurationpolicies", "events", "deployments", "namespaces")
        assert [each for each in member if each != ("get", "namespaces")] == [
            ("list", "policies"),
            ("list", "configurationpolicies"),
        ]
        assert not [each for each in here.here.member.commits if "policies" in each]

    told(story, started=False)


def test_a_hub_without_policies_is_asked_now_and_then_and_works_once_it_has_some() -> None:
    async def main() -> None:
        async with world() as here:
            made, way = PolicyWorld(here, Looker()), Way(here.hub)
            made.start(hub=way)
            await here.settle(3600)
            assert 10 < len(asked(way, "policies")) < 30
            await serve_policies(here)
            await made.write(template(), said="Progressing")
            await here.settle(320)
            assert (await made.status())["rolloutStatus"] == "Succeeded"

    run(main(), 0)


def test_streams_end_some_time_after_the_last_policy_and_begin_again_with_the_next() -> None:
    async def story(here: PolicyWorld) -> None:
        for _ in range(2):
            await here.write(template())
            assert await here.children() == ["web"]
            await here.here.hub.delete(POLICY, NAME, CLUSTER)
            await here.settle(700)
            mark = len(here.here.way.requests)
            await here.settle(1500)
            assert {what for _, what, _ in here.here.way.requests[mark:]}.isdisjoint({"policies", "events"})

    told(story)


def others(name: str = "governance-policy-framework") -> JSONObject:
    body = deployment(name)
    body["metadata"]["namespace"] = ADDON
    return body


async def warnings(here: PolicyWorld) -> list[str]:
    found = await here.here.hub.client.list(EVENT.untyped(), CLUSTER)
    return [each["note"] for each in found.items if each["regarding"]["kind"] == "ManagedCluster"]


def test_policies_are_left_to_upstreams_controllers_where_they_are(caplog: pytest.LogCaptureFixture) -> None:
    async def story(here: PolicyWorld) -> None:
        member = here.here.member
        await member.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ADDON}})
        await member.create(others())
        with caplog.at_level(logging.WARNING):
            await here.write(template())
            await here.settle(300)
        said = "Policies are left to governance-policy-framework, which the cluster has already."
        assert await warnings(here) == [said]
        assert [each.message for each in caplog.records if "left to" in each.message] == [f"{CLUSTER}: {said}"]
        assert not [each for each in member.commits if "policies" in each]
        await member.create(others("config-policy-controller"))
        await here.settle()
        assert min(await warnings(here)).startswith("Policies are left to config-policy-controller and governance-")
        for name in ("governance-policy-framework", "config-policy-controller"):
            await member.delete(DEPLOYMENT, name, ADDON)
        await here.settle(20)
        assert await here.children() == ["web"]
        # They come back, and everything is theirs from then on.
        await member.create(others())
        await here.settle()
        await member.patch(POLICY, NAME, {"spec": {"remediationAction": "inform"}}, CLUSTER)
        await here.settle(60)
        assert (await here.copy())["spec"]["remediationAction"] == "inform"
        assert (await here.child())["spec"]["remediationAction"] == "enforce"

    told(story)
