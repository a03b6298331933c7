"""Policy sets on a hub: their status follows policies, bindings, placements and decisions, and is written seldom."""

import asyncio

import pytest

from echelon.api.base import JSONObject
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.placement_rule import PLACEMENT_RULE
from echelon.api.policy import POLICY
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET, PolicySetStatus
from tests.controllers.hub import NS, PLACEMENT_LABEL, Hub, told
from tests.controllers.policy_set_world import (
    REPORTING,
    bind,
    placed_set,
    policy,
    report,
    said,
    serve,
    serve_policies,
    status_of,
)


def test_a_set_follows_its_policies() -> None:
    async def story(hub: Hub) -> None:
        await placed_set(hub, "a", "b")
        hub.start("placement", "policy-sets")
        await hub.settle()
        assert await said(hub) == ("", "Deleted policies: a, b")
        await policy(hub, "a", c1="Compliant", c2="Compliant")
        await policy(hub, "b")
        await hub.settle()
        assert await said(hub) == ("", "No status provided while awaiting policy status: b")
        await report(hub, "b", c1="Compliant", c2="NonCompliant")
        await hub.settle()
        assert await said(hub) == ("NonCompliant", REPORTING)
        await hub.patch(POLICY, "b", {"spec": {"disabled": True}}, NS)
        await hub.settle()
        assert await said(hub) == ("Compliant", "Disabled policies: b")
        await hub.delete(POLICY, "b", NS)
        await hub.settle()
        assert await said(hub) == ("Compliant", "Deleted policies: b")
        await hub.patch(POLICY_SET, "basics", {"spec": {"policies": ["a"]}}, NS)
        await hub.settle()
        assert await said(hub) == ("Compliant", REPORTING)
        await hub.patch(POLICY_SET, "basics", {"spec": {"policies": []}}, NS)
        await hub.settle()
        assert await status_of(hub) == PolicySetStatus()

    told(story)


def test_a_set_follows_its_bindings_placements_and_decisions() -> None:
    async def story(hub: Hub) -> None:
        await placed_set(hub, "a")
        await policy(hub, "a", c1="Compliant", c2="NonCompliant")
        hub.start("placement", "policy-sets")
        await hub.settle()
        assert await said(hub) == ("NonCompliant", REPORTING)
        await hub.respec(numberOfClusters=0)
        await hub.settle()
        assert await said(hub) == ("", "No status provided while awaiting policy status: a")
        await hub.respec(numberOfClusters=None)
        await hub.settle()
        await hub.patch(POLICY_SET, "basics", {"spec": {"exclusions": [exclusion("a", "c2")]}}, NS)
        await hub.settle()
        status = await status_of(hub)
        assert status.compliant == "Compliant"
        assert [(each.policy_name, each.clusters) for each in status.exclusions] == [("a", ["c2"])]
        assert [(each.placement_binding, each.placement) for each in status.placement] == [("bind", "p")]
        await hub.delete(PLACEMENT, "p", NS)
        await hub.settle()
        status = await status_of(hub)
        assert [(each.placement_binding, each.placement) for each in status.placement] == [("bind", "")]
        assert status.exclusions == []
        await hub.delete(PLACEMENT_BINDING, "bind", NS)
        await hub.settle()
        assert (await status_of(hub)).placement == []

    told(story)


def exclusion(name: str, *clusters: str) -> JSONObject:
    return {"policyName": name, "clusterNames": list(clusters)}


def test_decisions_that_nobody_owns_count_a_moment_later() -> None:
    async def story(hub: Hub) -> None:
        await serve_policies(hub)
        await hub.place("p")
        await hub.create(POLICY_SET, "basics", NS, spec={"policies": ["a"]})
        await bind(hub, "bind", "basics")
        await policy(hub, "a", c1="Compliant")
        hub.start("policy-sets")
        await hub.settle()
        decided = {"decisions": [{"clusterName": "c1", "reason": ""}]}
        await hub.create(PLACEMENT_DECISION, "d", NS, labels={PLACEMENT_LABEL: "p"}, status=decided)
        await hub.settle()
        assert await said(hub) == ("Compliant", REPORTING)

    told(story)


@pytest.mark.parametrize("every", [0.05, 0.3])
def test_a_set_is_written_once_a_second_however_often_policies_report(every: float) -> None:
    async def story(hub: Hub) -> None:
        await placed_set(hub, "a")
        await policy(hub, "a", c1="Compliant")
        hub.start("placement", "policy-sets")
        await hub.settle()
        before = len(hub.commits)
        for number in range(round(6 / every)):
            await report(hub, "a", c1="Compliant" if number % 2 else "NonCompliant")
            await asyncio.sleep(every)
        await hub.settle()
        written = [each for each in hub.commits[before:] if each.startswith(POLICY_SET.resource)]
        assert 1 <= len(written) <= 7
        assert await said(hub) == ("Compliant", REPORTING)

    told(story)


def test_a_status_that_somebody_else_wrote_is_put_right() -> None:
    async def story(hub: Hub) -> None:
        await placed_set(hub, "a")
        await policy(hub, "a", c1="NonCompliant")
        hub.start("placement", "policy-sets")
        await hub.settle()
        lie = {"status": {"compliant": "Compliant", "exclusions": [{"policyName": "a", "clusters": ["c9"]}]}}
        await hub.patch(POLICY_SET, "basics", lie, NS, "status")
        await hub.settle()
        assert await said(hub) == ("NonCompliant", REPORTING)
        assert (await status_of(hub)).exclusions == []

    told(story)


def test_a_policy_that_is_in_no_set_changes_none() -> None:
    async def story(hub: Hub) -> None:
        await placed_set(hub, "a")
        hub.start("placement", "policy-sets")
        await policy(hub, "a", c1="Compliant", c2="Compliant")
        await hub.settle()
        before = len(hub.commits)
        await policy(hub, "unrelated", c1="NonCompliant")
        await hub.settle()
        assert [each for each in hub.commits[before:] if each.startswith(POLICY_SET.resource)] == []

    told(story)


def test_a_binding_may_name_a_placement_rule_and_becomes_one_of_many_ways() -> None:
    async def story(hub: Hub) -> None:
        await placed_set(hub, "a")
        await serve(hub, PLACEMENT_RULE.resource)
        await policy(hub, "a", c1="Compliant", c9="Pending")
        await bind(hub, "another", "basics", to="r", rule=True)
        hub.start("placement", "policy-sets")
        await hub.settle()
        assert (await said(hub))[0] == "Compliant"
        decisions = [{"clusterName": "c9", "clusterNamespace": "c9"}]
        await hub.create(PLACEMENT_RULE, "r", NS, spec={"clusterReplicas": 1}, status={"decisions": decisions})
        await hub.settle()
        assert await said(hub) == ("Pending", "Policies awaiting pending dependencies: a")
        placement = (await status_of(hub)).placement
        assert [(each.placement_binding, each.placement, each.placement_rule) for each in placement] == [
            ("another", "", "r"),
            ("bind", "p", ""),
        ]

    told(story)
