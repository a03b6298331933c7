"""Replicas of policies follow bindings, decisions and the policy itself, and what others write there is put back."""

import asyncio
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.placement_rule import PLACEMENT_RULE
from echelon.api.policy import GROUP, POLICY
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET
from echelon.controllers.settings import ControllerSettings
from echelon.engine.policy.names import ROOT_LABEL
from echelon.engine.rollout.annotations import STATUS_ANNOTATION
from echelon.engine.rollout.packed import unpack
from echelon.engine.rollout.removal import approve_removal
from echelon.hub.controllers import run_controllers
from echelon.kube.errors import Invalid
from tests.controllers.hub import NS, PLACEMENT_LABEL
from tests.controllers.policy_world import CRDS, PolicyWorld, template, told
from tests.controllers.strict import end
from tests.controllers.work_world import progressive

KINDS = ("Placement", "PlacementRule")
NAMES = [f"{GROUP}/cluster-name", f"{GROUP}/cluster-namespace"]


async def select(world: PolicyWorld, kind: str, *clusters: str) -> None:
    """Have a placement, or a rule, select clusters."""
    if kind == "PlacementRule":
        await world.rule(*clusters)
        return
    if not (await world.hub.client.list(PLACEMENT, NS)).items:
        await world.place([("", clusters)])
    else:
        await world.decide([("", clusters)])


async def spread(world: PolicyWorld, *clusters: str, **fields: Any) -> None:
    """Have a policy on clusters, with the controller at work."""
    await world.place([("", clusters or ("c1", "c2"))])
    await world.write(**fields)
    await world.bind()
    world.start()
    await world.settle()


@pytest.mark.parametrize("kind", KINDS)
def test_replicas_follow_decisions(kind: str) -> None:
    async def story(world: PolicyWorld) -> None:
        await select(world, kind, "c1")
        await world.write()
        await world.bind(kind=kind)
        world.start()
        await world.settle()
        assert await world.reach() == ["c1"]
        await select(world, kind, "c2")
        await world.settle()
        assert await world.reach() == ["c2"]
        await select(world, kind, "c1", "c2")
        await world.settle()
        assert await world.reach() == ["c1", "c2"]
        await select(world, kind, "c1")
        await world.settle()
        assert await world.reach() == ["c1"]

    told(story)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_cluster_may_be_deselected(kind: str) -> None:
    async def story(world: PolicyWorld) -> None:
        await select(world, kind, "c1")
        await world.write()
        await world.bind(kind=kind)
        world.start()
        await world.settle()
        await select(world, kind)
        await world.settle()
        assert await world.reach() == []

    told(story)


@pytest.mark.parametrize("kind", KINDS)
def test_a_selection_that_becomes_empty_removes_nothing_without_an_approval(kind: str) -> None:
    async def story(world: PolicyWorld) -> None:
        await select(world, kind, "c1", "c2")
        await world.write()
        await world.bind(kind=kind)
        world.start()
        await world.settle()
        await select(world, kind)
        await world.settle()
        assert await world.reach() == ["c1", "c2"]
        assert await world.said("PlacementRolledOut") == ("False", "RemovalHeld")
        assert list(await world.told()) == ["c1", "c2"]
        await world.annotate(approve_removal(["c1", "c2"]))
        await world.settle()
        assert await world.reach() == []
        assert await world.told() == {}

    told(story)


@pytest.mark.parametrize("kind", KINDS)
def test_a_binding_to_a_placement_that_is_not_there_removes_nothing_until_it_is_corrected(kind: str) -> None:
    async def story(world: PolicyWorld) -> None:
        await select(world, kind, "c1", "c2")
        await world.write()
        await world.bind(kind=kind)
        world.start()
        await world.settle()
        await world.rebind(placement="mistyped")
        await world.settle()
        assert await world.reach() == ["c1", "c2"]
        assert await world.said("PlacementRolledOut") == ("False", "RemovalHeld")
        assert await world.said("PlacementVerified") == ("False", "PlacementDecisionNotFound")
        await world.rebind(placement="p")
        await world.settle()
        assert await world.said("PlacementVerified") == ("True", "AsExpected")
        assert await world.reach() == ["c1", "c2"]

    told(story)


@pytest.mark.parametrize("kind", KINDS)
def test_a_deleted_placement_removes_nothing(kind: str) -> None:
    async def story(world: PolicyWorld) -> None:
        await select(world, kind, "c1", "c2")
        await world.write()
        await world.bind(kind=kind)
        world.start()
        await world.settle()
        await world.hub.delete(PLACEMENT if kind == "Placement" else PLACEMENT_RULE, "p", NS)
        await world.settle()
        assert await world.reach() == ["c1", "c2"]
        assert await world.said("PlacementRolledOut") == ("False", "RemovalHeld")

    told(story)


def test_a_decision_that_is_deleted_while_the_placement_still_names_it_removes_nothing() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.hub.delete(PLACEMENT_DECISION, "p-decision-1", NS)
        await world.settle()
        assert await world.reach() == ["c1", "c2"]
        await world.placing.agree([])
        await world.settle()
        assert await world.reach() == ["c1", "c2"]

    told(story)


def test_a_binding_that_names_another_policy_takes_its_clusters_along() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.rebind(subjects=[{"apiGroup": GROUP, "kind": "Policy", "name": "another"}])
        await world.settle()
        assert await world.reach() == []
        await world.rebind(subjects=[{"apiGroup": GROUP, "kind": "Policy", "name": "audit"}])
        await world.settle()
        assert await world.reach() == ["c1", "c2"]

    told(story)


def test_the_end_of_the_binding_ends_the_replicas() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.unbind()
        await world.settle()
        assert await world.reach() == []
        assert await world.count("ReplicasRemoved", "c1, c2") == 1

    told(story)


@pytest.mark.parametrize(
    "mistake",
    [
        {"subjects": [{"apiGroup": "apps.open-cluster-management.io", "kind": "Policy", "name": "audit"}]},
        {"subjects": [{"apiGroup": GROUP, "kind": "ConfigMap", "name": "audit"}]},
        {"subjects": []},
        {"placementRef": {"apiGroup": "apps.open-cluster-management.io", "kind": "Placement", "name": "p"}},
        {"placementRef": {"apiGroup": "cluster.open-cluster-management.io", "kind": "PlacementRule", "name": "p"}},
        {"subFilter": "unrestricted"},
        {"bindingOverrides": {"remediationAction": "inform"}},
    ],
)
def test_a_binding_that_could_never_be_followed_is_refused(mistake: JSONObject) -> None:
    async def story(world: PolicyWorld) -> None:
        await world.bind()
        with pytest.raises(Invalid):
            await world.rebind(**mistake)

    told(story)


def test_a_binding_of_a_hub_that_checks_nothing_is_passed_over_where_group_and_kind_do_not_fit() -> None:
    lax = [_lax(each) for each in CRDS]

    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1"])])
        await world.write()
        subject = {"apiGroup": "apps.open-cluster-management.io", "kind": "Policy", "name": "audit"}
        await world.bind(name="a", subjects=[subject])
        right = {"apiGroup": GROUP, "kind": "Policy", "name": "audit"}
        ref = {"apiGroup": "apps.open-cluster-management.io", "kind": "Placement", "name": "p"}
        await world.hub.create(PLACEMENT_BINDING, "b", NS, placementRef=ref, subjects=[right])
        world.start()
        await world.settle()
        assert await world.reach() == []
        await world.bind(name="c")
        await world.settle()
        assert await world.reach() == ["c1"]

    told(story, crds=lax)


def _lax(schema: JSONObject) -> JSONObject:
    """Return a definition without rules."""
    if isinstance(schema, dict):
        return {key: _lax(each) for key, each in schema.items() if key not in ("x-kubernetes-validations", "enum")}
    return [_lax(each) for each in schema] if isinstance(schema, list) else schema


def test_a_change_of_the_action_or_of_a_template_reaches_the_replicas() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.change(remediationAction="inform")
        await world.settle()
        assert {each.spec.remediation_action for each in (await world.replicas()).values()} == {"inform"}
        await world.upgrade("2")
        await world.settle()
        for each in (await world.replicas()).values():
            assert each.spec.policy_templates[0].object_definition == template("2")["objectDefinition"]
        assert await world.count("PolicyPropagation", f"Policy {NS}/audit was updated for clusters c1, c2") == 2

    told(story)


def test_a_disabled_policy_is_taken_off_its_clusters_which_is_told_once() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.change(disabled=True)
        await world.settle()
        assert await world.reach() == []
        assert await world.count("PolicyPropagation", "the policy is disabled") == 1
        await world.annotate({"example.com/note": "looked at again"})
        await world.settle()
        assert await world.count("PolicyPropagation", "the policy is disabled") == 1
        assert await world.said("PlacementRolledOut") == ("False", "Disabled")

    told(story)


def test_a_policy_that_was_never_on_a_cluster_is_disabled_without_a_word() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world, spec={"disabled": True})
        assert await world.reach() == []
        assert await world.events() == []

    told(story)


def test_a_deleted_policy_takes_its_replicas_along() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.hub.delete(POLICY, "audit", NS)
        await world.settle()
        assert await world.reach() == []

    told(story)


def test_a_policy_that_is_deleted_while_nobody_looks_takes_its_replicas_along() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.hub.stop()
        world.hub.controllers.clear()
        await world.hub.delete(POLICY, "audit", NS)
        world.start()
        await world.settle()
        assert await world.reach() == []

    told(story)


def test_labels_and_annotations_reach_the_replicas_but_not_those_of_echelon() -> None:
    async def story(world: PolicyWorld) -> None:
        annotations = {"example.com/why": "audit", f"{GROUP}/trigger-update": "1", "echelon.dev/max-removals": "1"}
        await spread(world, annotations=annotations)
        await world.hub.patch(POLICY, "audit", {"metadata": {"labels": {"team": "blue"}}}, NS)
        await world.annotate({"example.com/more": "yes", "example.com/why": None})
        await world.settle()
        for cluster, each in (await world.replicas()).items():
            assert each.metadata.labels == {
                "team": "blue",
                ROOT_LABEL: f"{NS}.audit",
                **dict.fromkeys(NAMES, cluster),
            }
            theirs = {k: v for k, v in each.metadata.annotations.items() if not k.startswith("echelon.dev/")}
            assert theirs == {"argocd.argoproj.io/compare-options": "IgnoreExtraneous", "example.com/more": "yes"}
            assert "echelon.dev/max-removals" not in each.metadata.annotations

    told(story)


@pytest.mark.parametrize(("copies", "expected"), [(None, True), (True, True), (False, False)])
def test_the_metadata_of_a_policy_is_copied_unless_it_says_otherwise(copies: bool | None, expected: bool) -> None:
    async def story(world: PolicyWorld) -> None:
        labels = {"team": "blue", f"{GROUP}/kind": "ours"}
        annotations = {"example.com/why": "audit", f"{GROUP}/standards": "NIST"}
        await spread(world, "c1", spec={"copyPolicyMetadata": copies}, labels=labels, annotations=annotations)
        found = (await world.replica("c1")).metadata
        assert found.labels[f"{GROUP}/kind"] == "ours"
        assert found.annotations[f"{GROUP}/standards"] == "NIST"
        assert ("team" in found.labels, "example.com/why" in found.annotations) == (expected, expected)

    told(story)


def test_what_copies_less_metadata_takes_it_back_in_place() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world, "c1", labels={"team": "blue"})
        await world.finish()
        before = await world.replica("c1")
        assert before.metadata.labels["team"] == "blue"
        await world.change(copyPolicyMetadata=False)
        await world.settle()
        after = await world.replica("c1")
        assert "team" not in after.metadata.labels
        assert await world.verdict() == "Succeeded"
        written = "echelon.dev/written-at"
        assert after.metadata.annotations[written] == before.metadata.annotations[written]

    told(story)


def test_a_cluster_whose_namespace_is_on_its_way_out_gets_the_policy_when_it_is_back() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.hub.delete(NAMESPACE, "c2")
        await world.write()
        await world.bind()
        world.start()
        await world.settle()
        assert await world.reach() == ["c1"]
        assert "namespace c2 because it is being terminated" in (await world.condition("PlacementVerified")).message
        keeping = asyncio.create_task(run_controllers(world.hub.client._cluster))
        await world.settle()
        await end(keeping)
        await world.placing.cluster("c2")
        await world.settle(70)
        assert await world.reach() == ["c1", "c2"]

    told(story)


def test_several_bindings_bring_the_union_and_the_end_of_one_keeps_the_others() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.rule("c2", "c3", name="r")
        await world.write()
        await world.bind(name="by-placement")
        await world.bind(name="by-rule", placement="r", kind="PlacementRule")
        world.start()
        await world.settle()
        assert await world.reach() == ["c1", "c2", "c3"]
        await world.unbind("by-placement")
        await world.settle()
        assert await world.reach() == ["c2", "c3"]
        await world.bind(name="by-placement")
        await world.settle()
        await world.unbind("by-rule")
        await world.settle()
        assert await world.reach() == ["c1", "c2"]

    told(story)


def test_a_deleted_replica_is_made_again() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.hub.delete(POLICY, f"{NS}.audit", "c1")
        await world.settle()
        assert await world.reach() == ["c1", "c2"]

    told(story)


@pytest.mark.parametrize(
    "edit",
    [
        {"spec": {"disabled": True}},
        {"spec": {"remediationAction": "inform"}},
        {"spec": {"remediationAction": None, "policy-templates": [template("2", remediationAction="inform")]}},
        {"spec": {"policy-templates": [template("666")]}},
        {"spec": {"copyPolicyMetadata": False}},
        {"metadata": {"labels": {"extra": "yes"}}},
        {"metadata": {"labels": {ROOT_LABEL: None}}},
        {"metadata": {"labels": {NAMES[0]: "another"}}},
        {"metadata": {"annotations": {"extra": "yes"}}},
        {"metadata": {"annotations": {"argocd.argoproj.io/compare-options": None}}},
        {"metadata": {"annotations": {"echelon.dev/held": "true"}}},
    ],
)
def test_what_somebody_edits_on_a_replica_is_put_back(edit: JSONObject) -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world, "c1")
        await world.finish()
        before = await world.replica("c1")
        await world.hub.patch(POLICY, f"{NS}.audit", edit, "c1")
        await world.settle()
        await world.finish()
        after = await world.replica("c1")
        assert after.spec == before.spec
        assert after.metadata.labels == before.metadata.labels
        times = {"echelon.dev/written-at": "", "echelon.dev/events-at-release": ""}
        assert {**after.metadata.annotations, **times} == {**before.metadata.annotations, **times}
        assert after.status.conditions == []
        assert await world.verdict() == "Succeeded"

    told(story)


def test_nobody_gets_its_turn_by_an_edit() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world, "c1", "c2", "c3", strategy=progressive())
        assert await world.enforced() == ["c1"]
        await world.hub.patch(POLICY, f"{NS}.audit", {"spec": {"remediationAction": "enforce"}}, "c3")
        await world.settle()
        assert await world.enforced() == ["c1"]
        assert (await world.stored())["c3"] == "ToApply"
        await world.finish()
        assert await world.enforced() == ["c1", "c2", "c3"]

    told(story)


def test_a_policy_in_the_namespace_of_a_cluster_is_reported_and_not_rolled_out() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1"])])
        await world.hub.create(POLICY, "stray", "c1", spec={"disabled": False, "policy-templates": []})
        world.start()
        await world.settle()
        found = await world.hub.client.get(POLICY, "stray", "c1")
        assert {each.reason for each in found.status.conditions} == {"InClusterNamespace"}

    told(story)


def test_nobody_fights_an_agent_over_the_status_of_a_policy_in_the_namespace_of_its_cluster() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1"])])
        await world.hub.create(POLICY, "stray", "c1", spec={"disabled": False, "policy-templates": []})
        history = [{"eventName": "stray.1", "message": "Compliant; it is so"}]
        details = [{"templateMeta": {"name": "demo"}, "compliant": "Compliant", "history": history}]
        own = {"status": {"compliant": "Compliant", "details": details}}
        await world.hub.patch(POLICY, "stray", own, "c1", "status")
        world.start()
        await world.settle()
        found = await world.hub.client.get(POLICY, "stray", "c1")
        assert not found.status.conditions
        assert "InClusterNamespace" in unpack(found.metadata.annotations[STATUS_ANNOTATION]).decode()
        await world.settle(700)  # a look at everything, at least
        assert (await world.hub.client.get(POLICY, "stray", "c1")) == found

    told(story)


def test_a_replica_of_nobody_goes_from_the_namespace_of_a_cluster_and_stays_elsewhere() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1"])])
        await world.placing.cluster("elsewhere")
        for namespace in ("c1", "elsewhere"):
            spec = {"disabled": False, "policy-templates": []}
            await world.hub.create(POLICY, "gone.stray", namespace, labels={ROOT_LABEL: "gone.stray"}, spec=spec)
        world.start()
        await world.settle()
        found = (await world.hub.client.list(POLICY)).items
        assert [each.metadata.namespace for each in found] == ["elsewhere"]

    told(story)


def test_a_replica_that_nobody_selects_stays_where_no_cluster_is() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.placing.cluster("hosted")
        await spread(world, "c1")
        spec = {"disabled": False, "policy-templates": []}
        await world.hub.create(POLICY, f"{NS}.audit", "hosted", labels={ROOT_LABEL: f"{NS}.audit"}, spec=spec)
        await world.settle()
        assert await world.reach() == ["c1", "hosted"]
        assert list(await world.told()) == ["c1"]

    told(story)


def test_a_namespace_that_becomes_a_clusters_loses_the_replica_that_nobody_wants_there() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.placing.cluster("late")
        await spread(world, "c1")
        spec = {"disabled": False, "policy-templates": []}
        await world.hub.create(POLICY, f"{NS}.audit", "late", labels={ROOT_LABEL: f"{NS}.audit"}, spec=spec)
        await world.settle()
        await world.hub.create(MANAGED_CLUSTER, "late", spec={"hubAcceptsClient": True})
        await world.settle()
        assert await world.reach() == ["c1"]

    told(story)


def test_a_cluster_in_no_set_that_is_bound_to_the_namespace_gets_nothing() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.hub.bound_set()
        await world.hub.cluster("inside")
        await world.placing.cluster("inside")
        await spread(world, "inside", "outside")
        assert await world.reach() == ["inside"]
        assert await world.said("PlacementVerified") == ("False", "ClusterNotBound")

    told(story, settings=ControllerSettings(strict=True))


def test_names_with_dots_are_told_apart_at_the_first_one() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1"])])
        await world.write("au.dit.v1")
        await world.bind("au.dit.v1")
        world.start()
        await world.settle()
        assert await world.reach("au.dit.v1") == ["c1"]
        assert await world.told("au.dit.v1") == {"c1": "Progressing"}

    told(story)


def test_decisions_without_a_group_index_are_of_the_first_group() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.join(["c1"])
        await world.hub.create(PLACEMENT, "p", NS, spec={})
        labels = {PLACEMENT_LABEL: "p"}
        status = {"decisions": [{"clusterName": "c1", "reason": ""}]}
        await world.hub.create(PLACEMENT_DECISION, "p-decision-1", NS, labels=labels, status=status)
        await world.write()
        await world.bind()
        world.start()
        await world.settle(10)
        assert await world.reach() == ["c1"]

    told(story)


class TestSets:
    """Policies that are bound through policy sets."""

    def test_a_set_brings_its_policies_and_changes_with_it(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await world.place([("", ["c1", "c2"])])
            await world.write("one")
            await world.write("two")
            await world.policy_set("basics", "one")
            await world.bind("nobody", sets=["basics"], name="b")
            world.start()
            await world.settle()
            assert await world.reach("one") == ["c1", "c2"]
            assert await world.reach("two") == []
            await world.hub.patch(POLICY_SET, "basics", {"spec": {"policies": ["two"]}}, NS)
            await world.settle()
            assert await world.reach("one") == []
            assert await world.reach("two") == ["c1", "c2"]
            await world.hub.delete(POLICY_SET, "basics", NS)
            await world.settle()
            assert await world.reach("two") == []
            await world.policy_set("basics", "two")
            await world.settle()
            assert await world.reach("two") == ["c1", "c2"]

        told(story)

    def test_two_sets_and_a_direct_binding_add_up(self) -> None:
        async def story(world: PolicyWorld) -> None:
            for number in ("1", "2", "3"):
                await world.place([("", [f"c{number}"])], f"p{number}")
            await world.write()
            await world.policy_set("first", "audit")
            await world.policy_set("second", "audit", "missing")
            await world.bind("nobody", sets=["first", "missing"], name="b1", placement="p1")
            await world.bind("nobody", sets=["second"], name="b2", placement="p2")
            await world.bind(name="b3", placement="p3")
            world.start()
            await world.settle()
            assert await world.reach() == ["c1", "c2", "c3"]
            listed = (await world.policy()).status.placement
            found = [(each.placement_binding, each.placement, each.policy_set) for each in listed]
            assert found == [("b1", "p1", "first"), ("b2", "p2", "second"), ("b3", "p3", "")]
            await world.unbind("b3")
            await world.hub.patch(POLICY_SET, "first", {"spec": {"policies": []}}, NS)
            await world.settle()
            assert await world.reach() == ["c2"]

        told(story)

    def test_one_binding_may_name_several_policies_and_sets(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await world.place([("", ["c1"])])
            for name in ("one", "two", "three"):
                await world.write(name)
            await world.policy_set("first", "one", "two")
            await world.policy_set("second", "two")
            await world.bind("three", sets=["first", "second"])
            world.start()
            await world.settle()
            for name in ("one", "two", "three"):
                assert await world.reach(name) == ["c1"]
            listed = (await world.policy("two")).status.placement
            assert [each.policy_set for each in listed] == ["first", "second"]

        told(story)

    def test_what_a_set_excludes_gets_nothing_through_it(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await world.place([("", ["c1", "c2"])])
            await world.write()
            await world.policy_set("basics", "audit", exclusions=_without("c1"))
            await world.bind("nobody", sets=["basics"])
            world.start()
            await world.settle()
            assert await world.reach() == ["c2"]
            assert list(await world.told()) == ["c2"]
            (placement,) = (await world.policy()).status.placement
            assert [each.cluster_name for each in placement.exclusions] == ["c1"]
            for excluded, reached in ((("c2",), ["c1"]), ((), ["c1", "c2"]), (("c1",), ["c2"])):
                await world.hub.patch(POLICY_SET, "basics", {"spec": {"exclusions": _without(*excluded)}}, NS)
                await world.settle()
                assert await world.reach() == reached

        told(story)

    def test_a_direct_binding_wins_over_an_exclusion_and_is_told(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await world.place([("", ["c1", "c2"])])
            await world.write()
            await world.policy_set("basics", "audit", exclusions=_without("c1"))
            await world.bind("nobody", sets=["basics"], name="by-set")
            await world.bind(name="direct")
            world.start()
            await world.settle()
            assert await world.reach() == ["c1", "c2"]
            entries = (await world.policy()).status.status
            remaining = {
                each.clustername: [one.placement_binding for one in each.remaining_bindings] for each in entries
            }
            assert remaining == {"c1": ["direct"], "c2": []}
            await world.unbind("direct")
            await world.settle()
            assert await world.reach() == ["c2"]

        told(story)

    def test_an_exclusion_of_a_policy_that_is_not_in_the_set_is_refused(self) -> None:
        async def story(world: PolicyWorld) -> None:
            with pytest.raises(Invalid, match="not in the set"):
                await world.policy_set("basics", "another", exclusions=_without("c1"))
            with pytest.raises(Invalid, match="same policyName"):
                await world.policy_set("basics", "audit", exclusions=[*_without("c1"), *_without("c2")])

        told(story)


def _without(*clusters: str) -> list[JSONObject]:
    return [{"policyName": "audit", "clusterNames": list(clusters)}] if clusters else []


class TestDependencies:
    """Dependencies say on replicas what they mean there."""

    def test_a_set_is_replaced_by_its_policies_and_followed(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await world.place([("", ["c1"])])
            on_set = {
                "apiVersion": f"{GROUP}/v1beta1",
                "kind": "PolicySet",
                "name": "basics",
                "compliance": "Compliant",
            }
            extra = {**template(), "extraDependencies": [on_set]}
            await world.write(spec={"dependencies": [on_set], "policy-templates": [extra]})
            await world.bind()
            world.start()
            await world.settle()
            assert await _depends(world) == ([f"PolicySet {NS}/basics"], [f"PolicySet {NS}/basics"])
            await world.policy_set("basics", "one", "two")
            await world.settle()
            both = [f"Policy /{NS}.one", f"Policy /{NS}.two"]
            assert await _depends(world) == (both, both)
            await world.hub.patch(POLICY_SET, "basics", {"spec": {"policies": ["two"]}}, NS)
            await world.settle()
            assert await _depends(world) == (both[1:], both[1:])

        told(story)

    @pytest.mark.parametrize("kind", ["ConfigurationPolicy", "CertificatePolicy"])
    def test_the_object_of_a_template_has_no_namespace_to_name(self, kind: str) -> None:
        async def story(world: PolicyWorld) -> None:
            on = {"apiVersion": f"{GROUP}/v1", "kind": kind, "name": "x", "compliance": "Compliant", "namespace": "y"}
            with pytest.raises(Invalid, match="namespace"):
                await world.write(spec={"dependencies": [on]})
            with pytest.raises(Invalid, match="namespace"):
                await world.write(spec={"policy-templates": [{**template(), "extraDependencies": [on]}]})
            await world.write(spec={"dependencies": [{**on, "namespace": ""}]})

        told(story)


async def _depends(world: PolicyWorld) -> tuple[list[str], list[str]]:
    spec = (await world.replica("c1")).spec
    lists = spec.dependencies, spec.policy_templates[0].extra_dependencies
    said = [[f"{each.kind} {each.namespace}/{each.name}" for each in one] for one in lists]
    return said[0], said[1]


class TestAdmission:
    """What a webhook would refuse, the hub refuses."""

    @pytest.mark.parametrize("action", [None, ""])
    def test_a_configuration_policy_needs_an_action_somewhere(self, action: str | None) -> None:
        async def story(world: PolicyWorld) -> None:
            lacking = template(**({"remediationAction": action} if action is not None else {}))
            with pytest.raises(Invalid, match="remediationAction"):
                await world.write(spec={"remediationAction": None, "policy-templates": [lacking]})
            own = [template(remediationAction="inform")]
            await world.write(spec={"remediationAction": None, "policy-templates": own})
            change: JSONObject = {"policy-templates": [lacking]}
            with pytest.raises(Invalid, match="remediationAction"):
                await world.change(**change)

        told(story)

    def test_a_name_that_fits_in_no_label_is_told_where_nobody_refused_it(self) -> None:
        async def story(world: PolicyWorld) -> None:
            name = "a" * 60  # with namespace and dot, 65 characters
            await world.place([("", ["c1"])])
            await world.write(name)
            await world.bind(name)
            world.start()
            await world.settle()
            assert await world.said("PlacementVerified", name) == ("False", "NameTooLong")
            assert await world.reach(name) == []

        told(story)
