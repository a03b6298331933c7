"""The whole way: from a replica on the hub to objects on the cluster, evaluated by the real evaluator."""

from typing import Any

from echelon.agent.agent import FAMILIES
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import CONFIG_MAP, EVENT
from echelon.api.policy import POLICY
from echelon.fleet.loop import running
from tests.agent.policy.world import NAME, PolicyWorld, template, told
from tests.agent.world import CLUSTER, config_map


def pruned(name: str, value: str = "1", **more: Any) -> JSONObject:
    """Return a template whose config map goes with it."""
    made = template(name, value, **more)
    spec = made["objectDefinition"]["spec"]
    spec["pruneObjectBehavior"] = "DeleteIfCreated"
    spec["object-templates"][0]["objectDefinition"]["metadata"]["namespace"] = "default"
    return made


async def maps(here: PolicyWorld) -> dict[str, str]:
    found = await here.here.member.client.list(CONFIG_MAP, "default")
    return {each.metadata.name: each.data["value"] for each in found.items if "value" in each.data}


async def said(here: PolicyWorld) -> tuple[str, str]:
    status = await here.status()
    return status.get("rolloutStatus", ""), status.get("compliant", "")


def test_a_policy_is_looked_at_enforced_changed_and_removed() -> None:
    async def story(here: PolicyWorld) -> None:
        here.here.start(families=FAMILIES)
        await here.write(pruned("a"), pruned("b"), held=True, said="ToApply")
        await here.settle(20)
        assert (await maps(here), await said(here)) == ({}, ("ToApply", "NonCompliant"))
        changes = [each["pendingChanges"][0] for each in (await here.status())["details"]]
        assert [(each["kind"], each["name"], each["change"]) for each in changes] == [
            ("ConfigMap", "a", "Create"),
            ("ConfigMap", "b", "Create"),
        ]
        await here.write(pruned("a"), pruned("b"), said="Progressing")
        await here.settle(20)
        assert (await maps(here), await said(here)) == ({"a": "1", "b": "1"}, ("Succeeded", "Compliant"))
        await here.write(pruned("a", "2"), pruned("c"), held=True, said="ToApply")
        await here.settle(120)
        assert (await maps(here), await said(here)) == ({"a": "1", "b": "1"}, ("ToApply", "NonCompliant"))
        await here.write(pruned("a", "2"), pruned("c"), said="Progressing")
        await here.settle(30)
        assert (await maps(here), await said(here)) == ({"a": "2", "c": "1"}, ("Succeeded", "Compliant"))
        await here.here.member.patch(CONFIG_MAP, "a", {"data": {"value": "drift"}})
        await here.settle(30)
        assert (await maps(here), await said(here)) == ({"a": "2", "c": "1"}, ("Succeeded", "Compliant"))
        await here.here.hub.delete(POLICY, NAME, CLUSTER)
        await here.settle(60)
        assert await maps(here) == {}
        assert await here.children() == []

    told(story, started=False)


def test_everything_is_written_once_on_the_way_to_the_first_report() -> None:
    async def story(here: PolicyWorld) -> None:
        here.here.start(families=FAMILIES)
        await here.write(pruned("first"), name="policies.first")  # with which definitions come
        marks = len(here.here.hub.commits), len(here.here.member.commits)
        plain = pruned("a")
        del plain["objectDefinition"]["spec"]["pruneObjectBehavior"]
        await here.write(plain, held=True, said="ToApply")
        await here.settle(20)
        assert await said(here) == ("ToApply", "NonCompliant")
        assert [each.split()[:2] for each in here.here.hub.writes_since(marks[0])] == [
            ["ADDED", POLICY.resource],
            ["MODIFIED", POLICY.resource],  # the hub's word
            ["MODIFIED", POLICY.resource],
        ]
        assert sorted(each.split()[:2] for each in here.here.member.writes_since(marks[1])) == [
            ["ADDED", CONFIGURATION_POLICY.resource],
            ["ADDED", EVENT.resource],
            ["ADDED", POLICY.resource],
            ["MODIFIED", CONFIGURATION_POLICY.resource],
            ["MODIFIED", POLICY.resource],
        ]

    told(story, started=False)


def test_a_failure_that_a_person_mends_is_over_after_a_retry() -> None:
    async def story(here: PolicyWorld) -> None:
        here.here.start(families=FAMILIES)
        once = pruned("a")
        spec = once["objectDefinition"]["spec"]
        spec["evaluationInterval"] = {"noncompliant": "never"}
        del spec["object-templates"][0]["objectDefinition"]["metadata"]["name"]  # what has no name cannot be made
        await here.write(once, said="Progressing")
        await here.settle(30)
        assert await said(here) == ("Failed", "NonCompliant")
        await here.here.member.create(config_map("any", value="1"))
        await here.settle(60)
        assert await said(here) == ("Failed", "NonCompliant")
        note = {"metadata": {"annotations": {"echelon.dev/retried-at": running().clock.now().isoformat()}}}
        await here.here.hub.patch(POLICY, NAME, note, CLUSTER)
        await here.say("Progressing")
        await here.settle(30)
        assert await said(here) == ("Succeeded", "Compliant")

    told(story, started=False)
