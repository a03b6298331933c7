"""Bindings that enforce a policy on some of its clusters: who is enforced, who is placed, and what the status lists."""

from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.placement import PLACEMENT
from tests.controllers.hub import NS
from tests.controllers.policy_world import PolicyWorld, template, told
from tests.controllers.work_world import progressive

ENFORCE = {"remediationAction": "enforce"}
RESTRICTED: JSONObject = {"bindingOverrides": ENFORCE, "subFilter": "restricted"}


async def based(world: PolicyWorld, *clusters: str, **fields: Any) -> None:
    """Have a policy that informs, on some clusters."""
    await world.place([("", clusters)], "base")
    await world.write(spec={"remediationAction": "inform"}, **fields)
    await world.bind(name="base", placement="base")


async def override(world: PolicyWorld, *clusters: str, name: str = "extra", **fields: Any) -> None:
    await world.place([("", clusters)], name)
    await world.bind(name=name, placement=name, **fields)


async def bindings(world: PolicyWorld) -> list[str]:
    return [each.placement_binding for each in (await world.policy()).status.placement]


def test_a_restricted_binding_enforces_where_another_places_and_nowhere_else() -> None:
    """The whole story, in order."""

    async def story(world: PolicyWorld) -> None:
        await based(world, "c1", "c2")
        await override(world, "c1", "c2", "c3", **RESTRICTED)
        world.start()
        await world.settle()
        assert (await world.enforced(), await world.reach()) == (["c1", "c2"], ["c1", "c2"])
        assert await bindings(world) == ["base", "extra"]
        assert list(await world.told()) == ["c1", "c2"]

        await world.decide([("", ["c2", "c3"])], "extra")
        await world.settle()
        assert (await world.enforced(), await world.reach()) == (["c2"], ["c1", "c2"])

        await world.decide([("", ["c1"])], "base")
        await world.settle()
        assert (await world.enforced(), await world.reach()) == ([], ["c1"])
        assert await bindings(world) == ["base"]

        await world.decide([("", ["c1", "c2", "c3"])], "extra")
        await world.rebind("extra", subFilter=None)
        await world.settle()
        assert await world.enforced() == ["c1", "c2", "c3"]

        await world.rebind("extra", bindingOverrides=None)
        await world.settle()
        assert (await world.enforced(), await world.reach()) == ([], ["c1", "c2", "c3"])

    told(story)


@pytest.mark.parametrize(
    ("extras", "enforced", "informed"),
    [
        ([(("a", "b"), {"bindingOverrides": ENFORCE})], "ab", "cd"),
        ([(("a", "b", "e", "f"), {"bindingOverrides": ENFORCE})], "abef", "cd"),
        ([(("a", "b", "e", "f"), RESTRICTED)], "ab", "cd"),
        ([(("e", "f"), {}), (("a", "b", "e", "f"), RESTRICTED)], "abef", "cd"),
        ([(("e", "f"), RESTRICTED)], "", "abcd"),
        ([(("a", "e"), {"subFilter": "restricted"})], "", "abcd"),
    ],
    ids=["some", "more", "restricted", "placed-by-another", "restricted-elsewhere", "restricted-without-override"],
)
def test_examples(extras: list[tuple[tuple[str, ...], JSONObject]], enforced: str, informed: str) -> None:
    async def story(world: PolicyWorld) -> None:
        await based(world, "a", "b", "c", "d")
        for number, (clusters, fields) in enumerate(extras):
            await override(world, *clusters, name=f"extra{number}", **fields)
        world.start()
        await world.settle()
        assert await world.enforced() == list(enforced)
        assert await world.reach() == sorted(enforced + informed)
        assert list(await world.told()) == sorted(enforced + informed)

    told(story)


def test_clusters_that_only_restricted_bindings_select_are_in_no_list() -> None:
    async def story(world: PolicyWorld) -> None:
        await based(world, "c1")
        await override(world, "c2", "c3", name="one", **RESTRICTED)
        await override(world, "c3", name="two", **RESTRICTED)
        world.start()
        await world.settle()
        await world.report("c1")
        await world.settle()
        status = (await world.policy()).status
        assert [each.clustername for each in status.status] == ["c1"]
        assert status.compliant == "Compliant"
        assert await bindings(world) == ["base"]

    told(story)


def test_an_override_ends_with_its_binding_and_placement_together() -> None:
    async def story(world: PolicyWorld) -> None:
        await based(world, "c1", "c2")
        await override(world, "c1", **RESTRICTED)
        world.start()
        await world.settle()
        assert await world.enforced() == ["c1"]
        await world.hub.delete(PLACEMENT, "extra", NS)
        await world.unbind("extra")
        await world.settle()
        assert (await world.enforced(), await world.reach()) == ([], ["c1", "c2"])

    told(story)


@pytest.mark.parametrize(("own", "written"), [("enforce", "enforce"), ("Enforce", "Enforce"), ("Inform", "enforce")])
def test_an_override_changes_nothing_where_the_policy_enforces_already(own: str, written: str) -> None:
    async def story(world: PolicyWorld) -> None:
        await based(world, "c1")
        await override(world, "c1", **RESTRICTED)
        await world.change(remediationAction=own)
        world.start()
        await world.settle()
        assert (await world.replica("c1")).spec.remediation_action == written

    told(story)


def test_an_override_is_written_as_it_was_said() -> None:
    async def story(world: PolicyWorld) -> None:
        await based(world, "c1")
        await override(world, "c1", subFilter="restricted", bindingOverrides={"remediationAction": "Enforce"})
        world.start()
        await world.settle()
        assert (await world.replica("c1")).spec.remediation_action == "Enforce"
        await world.report("c1", compliant="NonCompliant")
        await world.settle()
        assert await world.told() == {"c1": "Failed"}

    told(story)


def test_an_override_makes_templates_with_their_own_actions_enforce() -> None:
    async def story(world: PolicyWorld) -> None:
        await based(world, "c1", "c2")
        own: JSONObject = {"policy-templates": [template(remediationAction="inform")]}
        await world.change(remediationAction=None, **own)
        await override(world, "c1", **RESTRICTED)
        world.start()
        await world.settle()
        assert (await world.replica("c1")).spec.remediation_action == "enforce"
        assert (await world.replica("c2")).spec.remediation_action == ""

    told(story)


def test_what_a_set_excludes_is_not_overridden_through_it() -> None:
    async def story(world: PolicyWorld) -> None:
        await based(world, "c1", "c2")
        exclusions = [{"policyName": "audit", "clusterNames": ["c1"]}]
        await world.policy_set("basics", "audit", exclusions=exclusions)
        await world.place([("", ["c1", "c2"])], "extra")
        await world.bind("nobody", sets=["basics"], name="extra", placement="extra", **RESTRICTED)
        world.start()
        await world.settle()
        assert await world.enforced() == ["c2"]

    told(story)


@pytest.mark.parametrize("action", ["inform", "enforce"])
@pytest.mark.parametrize(
    ("shape", "reached"),
    [
        ({"bindingOverrides": ENFORCE}, ["c1", "c2"]),
        (RESTRICTED, ["c1"]),
        ({"subFilter": "restricted"}, ["c1"]),
    ],
    ids=["override", "restricted-override", "restricted"],
)
def test_a_policy_that_goes_in_turn_ignores_overrides_and_says_so(
    shape: JSONObject, reached: list[str], action: str
) -> None:
    async def story(world: PolicyWorld) -> None:
        await based(world, "c1", strategy=progressive())
        await world.change(remediationAction=action)
        await override(world, "c1", "c2", **shape)
        world.start()
        await world.settle()
        assert await world.reach() == reached
        assert await world.enforced() == (["c1"] if action == "enforce" else [])
        assert await world.count("BindingOverridesIgnored") == 1
        assert "no effect" in (await world.condition("PlacementVerified")).message
        await world.finish()
        assert await world.count("BindingOverridesIgnored") == 1

    told(story)


def test_ignored_overrides_are_told_once_also_where_something_else_is_wrong() -> None:
    async def story(world: PolicyWorld) -> None:
        await based(world, "c1", "c2", strategy=progressive(mandatoryDecisionGroups=[{"groupName": "mistyped"}]))
        await world.change(remediationAction="enforce")
        await override(world, "c1", **RESTRICTED)
        world.start()
        await world.settle()
        assert await world.said("PlacementVerified") == ("False", "UnknownDecisionGroup")
        for compliant in ("Compliant", "NonCompliant", "Compliant"):
            await world.report("c1", "c2", compliant=compliant)
            await world.settle()
        assert await world.count("BindingOverridesIgnored") == 1

    told(story)


def test_a_strategy_that_is_taken_away_lets_overrides_count_again() -> None:
    async def story(world: PolicyWorld) -> None:
        await based(world, "c1", "c2", strategy=progressive())
        await override(world, "c1", **RESTRICTED)
        world.start()
        await world.settle()
        assert await world.enforced() == []
        await world.change(rolloutStrategy=None)
        await world.settle()
        assert await world.enforced() == ["c1"]

    told(story)
