"""What a policy says of itself: its ways, exactly the clusters that have a replica, and the worst of their states."""

from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.placement_rule import PLACEMENT_RULE
from echelon.api.policy import POLICY, PolicyStatus
from tests.controllers.hub import NS
from tests.controllers.policy_world import CRDS, PolicyWorld, template, told
from tests.controllers.work_world import progressive


async def spread(world: PolicyWorld, *clusters: str) -> None:
    await world.place([("", clusters or ("c1", "c2"))])
    await world.write(spec={"remediationAction": "inform"})
    await world.bind()
    world.start()
    await world.settle()


async def states(world: PolicyWorld) -> dict[str, str]:
    """Return the compliance of each cluster, as the policy tells it."""
    return {each.clustername: each.compliant for each in (await world.policy()).status.status}


async def ways(world: PolicyWorld) -> list[tuple[str, str, str]]:
    """Return binding, placement and rule of each way."""
    listed = (await world.policy()).status.placement
    return [(each.placement_binding, each.placement, each.placement_rule) for each in listed]


def test_the_list_follows_the_decisions() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world, "c1")
        assert await states(world) == {"c1": ""}
        await world.decide([("", ["c1", "c2"])])
        await world.settle()
        assert await states(world) == {"c1": "", "c2": ""}
        await world.report("c1", "c2")
        await world.decide([("", ["c2"])])
        await world.settle()
        assert await states(world) == {"c2": "Compliant"}

    told(story)


def test_each_binding_is_listed_with_what_it_names_if_that_exists() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world, "c1")
        await world.rule("c2", name="r")
        await world.bind(name="a", placement="r", kind="PlacementRule")
        await world.bind(name="c", placement="missing")
        await world.settle()
        assert await ways(world) == [("a", "", "r"), ("b", "p", ""), ("c", "", "")]
        await world.hub.delete(PLACEMENT_RULE, "r", NS)
        await world.settle()
        assert await ways(world) == [("a", "", ""), ("b", "p", ""), ("c", "", "")]

    told(story)


def test_without_bindings_there_is_nothing_to_list() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.report("c1", "c2")
        await world.settle()
        await world.unbind()
        await world.settle()
        status = (await world.policy()).status
        assert (status.compliant, status.rollout_status, status.placement, status.status) == ("", "", [], [])
        assert await world.said("PlacementRolledOut") == ("False", "PlacementDecisionEmpty")

    told(story)


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        (("Compliant", "Compliant"), "Compliant"),
        (("Compliant", "NonCompliant"), "NonCompliant"),
        (("Pending", "NonCompliant"), "NonCompliant"),
        (("Pending", "Compliant"), "Pending"),
        (("Compliant", ""), ""),
        (("Pending", ""), "Pending"),
    ],
)
def test_a_policy_is_as_compliant_as_the_worst_of_its_clusters(reports: tuple[str, str], expected: str) -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        for cluster, compliant in zip(("c1", "c2"), reports, strict=True):
            if compliant:
                await world.report(cluster, compliant=compliant)
        await world.settle()
        assert (await world.policy()).status.compliant == expected
        assert await states(world) == dict(zip(("c1", "c2"), reports, strict=True))

    told(story)


def test_the_state_of_a_cluster_stays_while_it_is_released() -> None:
    async def story(world: PolicyWorld) -> None:
        seen: set[str] = set()

        def look(change: Any) -> None:
            entry = change.entry
            if entry.key.name == "audit" and entry.object.get("status", {}).get("compliant"):
                seen.add(entry.object["status"]["compliant"])
            elif entry.key.name == "audit" and watching:
                seen.add("")

        watching: list[bool] = []
        await world.place([("", ["c1", "c2", "c3"])])
        await world.write(strategy=progressive())
        await world.annotate({"echelon.dev/paused": "true"})
        await world.bind()
        world.start()
        await world.settle()
        await world.report("c1", "c2", "c3", compliant="NonCompliant")
        await world.settle()
        world.hub.client._cluster.store.on_commit(look)
        watching.append(True)
        await world.annotate({"echelon.dev/paused": None})
        await world.settle()
        assert await world.enforced() == ["c1"]
        assert seen == {"NonCompliant"}

    told(story)


def test_a_disabled_policy_keeps_its_ways_and_lists_no_cluster() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.report("c1", "c2")
        await world.settle()
        await world.change(disabled=True)
        await world.settle()
        status = (await world.policy()).status
        assert (status.compliant, status.rollout_status, status.status, status.rollout) == ("", "", [], None)
        assert await ways(world) == [("b", "p", "")]

    told(story)


def test_one_word_tells_how_far_the_rollout_is_and_since_when() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        before = (await world.policy()).status
        assert before.rollout_status == "Progressing"
        await world.settle(60)
        await world.report("c1", "c2", compliant="NonCompliant")
        await world.settle()
        after = (await world.policy()).status
        assert after.rollout_status == "Succeeded"
        assert after.rollout_last_transition_time > before.rollout_last_transition_time
        await world.settle(60)
        await world.report("c1")
        await world.settle()
        assert (await world.policy()).status.rollout_last_transition_time == after.rollout_last_transition_time

    told(story)


def test_nothing_to_do_is_no_progress() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.write(strategy=progressive())
        world.start()
        await world.settle()
        assert await world.verdict() == ""
        await world.place([])
        await world.bind()
        await world.settle()
        assert await world.verdict() == ""
        assert await world.said("PlacementVerified") == ("False", "PlacementDecisionEmpty")

    told(story)


def test_everywhere_at_once_a_failure_is_one_of_the_whole() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.write()
        await world.bind()
        world.start()
        await world.settle()
        await world.report("c1", compliant="NonCompliant")
        await world.settle()
        assert await world.verdict() == "Progressing"
        await world.report("c2")
        await world.settle()
        assert await world.verdict() == "Failed"
        assert await world.told() == {"c1": "Failed", "c2": "Succeeded"}
        await world.report("c1")
        await world.settle()
        assert await world.verdict() == "Succeeded"

    told(story)


def test_a_tolerated_failure_is_none_of_the_whole() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.write(strategy=progressive(maxConcurrency=2, maxFailures=1))
        await world.bind()
        world.start()
        await world.settle()
        await world.report("c1", compliant="NonCompliant")
        await world.report("c2")
        await world.settle()
        assert await world.verdict() == "Succeeded"
        assert await world.told() == {"c1": "Failed", "c2": "Succeeded"}

    told(story)


def test_the_whole_progresses_while_anybody_soaks_and_never_times_out() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.write(
            strategy=progressive(maxConcurrency=2, minSuccessTime="60s", progressDeadline="30s", maxFailures=1)
        )
        await world.bind()
        world.start()
        await world.settle()
        await world.report("c1")
        await world.settle(40)
        assert await world.told() == {"c1": "Succeeded", "c2": "TimeOut"}
        assert await world.verdict() == "Progressing"
        await world.settle(30)
        assert await world.verdict() == "Succeeded"
        assert await world.said("ClustersTimedOut") == ("True", "ProgressDeadlineExceeded")

    told(story)


def test_a_template_that_cannot_be_understood_is_told_and_reaches_nobody() -> None:
    def unchecked(schema: JSONObject) -> JSONObject:
        if isinstance(schema, dict):
            kept = {k: unchecked(v) for k, v in schema.items() if k != "x-kubernetes-validations"}
            if "objectDefinition" in kept.get("properties", {}):
                kept["properties"]["objectDefinition"] = {"x-kubernetes-preserve-unknown-fields": True}
            return kept
        return [unchecked(each) for each in schema] if isinstance(schema, list) else schema

    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1"])])
        await world.write(spec={"policy-templates": [template(), {"objectDefinition": "kind: ConfigMap"}]})
        await world.bind()
        world.start()
        await world.settle()
        found = (await world.hub.client.get(POLICY.untyped(), "audit", NS))["status"]["conditions"]
        assert {(each["type"], each["reason"]) for each in found} == {
            ("PlacementVerified", "InvalidTemplate"),
            ("PlacementRolledOut", "InvalidTemplate"),
        }
        assert "spec.policy-templates[1].objectDefinition" in found[0]["message"]
        assert (await world.hub.client.list(POLICY.untyped(), "c1")).items == []

    told(story, crds=[unchecked(each) for each in CRDS])


def test_a_new_policy_says_nothing_before_it_was_looked_at() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.write()
        assert (await world.policy()).status == PolicyStatus()

    told(story)
