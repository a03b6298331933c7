"""From a template and a policy to a binding, on a hub: what it says, what it follows, and what changes nothing."""

import asyncio

import pytest

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.apps import DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET_BINDING
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.kruise import CLONE_SET
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.propagation import PROPAGATION_POLICY
from echelon.controllers.workload.template_caches import CLONE_SET_V1BETA1
from echelon.engine.rollout.removal import fingerprint
from echelon.engine.workload.names import MADE_BY, PERMANENT_ID, STRATEGY
from echelon.engine.workload.names import PLACEMENT as BY_PLACEMENT
from echelon.hub.controllers import run_controllers
from echelon.kube.client import MergePatch, WriteOptions
from echelon.kube.errors import AlreadyExists
from tests.controllers.hub import NS, PLACEMENT_LABEL, SET_LABEL, Hub, told
from tests.controllers.policy_set_world import serve
from tests.controllers.propagation_world import (
    DEPLOYMENTS,
    DIVIDED,
    binding,
    bindings,
    fleet,
    policy,
    respec,
    said,
    shares,
    template,
    told_of,
    warnings,
)

CONTROLLERS = ("workload-propagation",)
SUCCESS = ("True", "Success")


def test_a_template_and_a_policy_make_a_binding_as_karmada_does() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2")
        hub.start(*CONTROLLERS)
        await template(hub, replicas=5)
        await policy(hub, placement={"replicaScheduling": DIVIDED}, conflictResolution="Overwrite")
        await hub.settle()
        made, source = await binding(hub), await hub.client.get(DEPLOYMENT, "web", NS)
        resource = made.spec.resource
        assert (resource.api_version, resource.kind, resource.namespace) == ("apps/v1", "Deployment", NS)
        assert (resource.name, resource.uid) == ("web", source.metadata.uid)
        assert resource.resource_version == source.metadata.resource_version
        assert (made.spec.replicas, await shares(hub)) == (5, {"c1": 3, "c2": 2})
        assert made.spec.conflict_resolution == "Overwrite"
        assert made.spec.placement == {"replicaScheduling": DIVIDED}
        [owner] = made.metadata.owner_references
        assert (owner.kind, owner.uid, owner.controller) == ("Deployment", source.metadata.uid, True)
        assert made.metadata.annotations == {
            MADE_BY: "workload-propagation",
            "propagationpolicy.karmada.io/namespace": NS,
            "propagationpolicy.karmada.io/name": "p",
            "resourcetemplate.karmada.io/generation": "1",
        }
        assert made.metadata.labels[PERMANENT_ID]
        assert (await said(hub))[:2] == SUCCESS
        assert [each.type for each in made.status.conditions] == ["Scheduled"]
        assert await warnings(hub) == []

    told(story)


def test_a_binding_follows_template_policy_and_fleet() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2")
        await template(hub, replicas=4)
        await policy(hub, placement={"replicaScheduling": DIVIDED})
        hub.start(*CONTROLLERS)
        await hub.settle()
        assert await shares(hub) == {"c1": 2, "c2": 2}
        await hub.patch(DEPLOYMENT, "web", {"spec": {"replicas": 6}}, NS)
        await hub.settle()
        assert await shares(hub) == {"c1": 3, "c2": 3}
        assert (await binding(hub)).spec.replicas == 6
        await hub.cluster("c3")
        await hub.settle()
        assert await shares(hub) == {"c1": 2, "c2": 2, "c3": 2}
        await respec(hub, placement={"clusterAffinity": {"exclude": ["c1"]}})
        await hub.settle()
        assert await shares(hub) == {"c2": 3, "c3": 3}
        await respec(hub, placement={"clusterAffinity": None, "replicaScheduling": None})
        await hub.settle()
        assert await shares(hub) == {"c1": 6, "c2": 6, "c3": 6}
        await hub.delete(MANAGED_CLUSTER, "c2")
        await hub.settle()
        assert await shares(hub) == {"c1": 6, "c3": 6}
        await respec(hub, suspension={"dispatching": True}, preserveResourcesOnDeletion=True)
        await hub.settle()
        spec = (await binding(hub)).spec
        assert spec.suspension is not None
        assert (spec.suspension.dispatching, spec.preserve_resources_on_deletion) == (True, True)
        await respec(hub, suspension=None, preserveResourcesOnDeletion=None)
        await hub.settle()
        spec = (await binding(hub)).spec
        assert (spec.suspension, spec.preserve_resources_on_deletion) == (None, None)

    told(story)


def test_the_version_of_a_template_is_that_of_its_spec_and_not_of_its_status() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await template(hub)
        await policy(hub)
        hub.start(*CONTROLLERS)
        await hub.settle()
        before = (await binding(hub)).metadata.resource_version
        await hub.client.patch(
            DEPLOYMENT.untyped(), "web", MergePatch({"status": {"replicas": 1}}), NS, subresource="status"
        )
        await hub.settle()
        assert (await binding(hub)).metadata.resource_version == before
        await hub.patch(DEPLOYMENT, "web", {"spec": {"minReadySeconds": 3}}, NS)
        await hub.settle()
        source = await hub.client.get(DEPLOYMENT, "web", NS)
        assert (await binding(hub)).spec.resource.resource_version == source.metadata.resource_version

    told(story)


def test_all_kinds_of_workloads_are_templates_and_daemon_sets_have_no_replicas() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2")
        await serve(hub, CLONE_SET.resource)
        kinds = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET, CLONE_SET)
        for kind in kinds:
            count = {} if kind is DAEMON_SET else {"replicas": 4}
            names = {"serviceName": "web"} if kind is STATEFUL_SET else {}
            await template(hub, "web", kind, **count, **names)
        selectors = [{"apiVersion": kind.api_version, "kind": kind.kind} for kind in kinds]
        await policy(hub, resourceSelectors=selectors, placement={"replicaScheduling": DIVIDED})
        hub.start(*CONTROLLERS)
        await hub.settle()
        assert sorted(await bindings(hub)) == ["web-cloneset", "web-daemonset", "web-deployment", "web-statefulset"]
        assert await shares(hub, "web-statefulset") == {"c1": 2, "c2": 2}
        assert await shares(hub, "web-cloneset") == {"c1": 2, "c2": 2}
        assert await shares(hub, "web-daemonset") == {"c1": 0, "c2": 0}

    told(story)


def test_clone_sets_are_propagated_as_soon_as_the_hub_serves_them() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await policy(hub, resourceSelectors=[{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet"}])
        hub.start(*CONTROLLERS)
        await hub.settle()
        await serve(hub, CLONE_SET.resource)
        await template(hub, "web", CLONE_SET, replicas=2)
        await hub.settle(120)
        made = await binding(hub, "web-cloneset")
        assert made.spec.resource.api_version == "apps.kruise.io/v1alpha1"
        assert await shares(hub, "web-cloneset") == {"c1": 2}

    told(story)


def test_a_hub_may_serve_clone_sets_in_their_later_version_only() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        [definition] = [each for each in registry.crds() if each["metadata"]["name"] == CLONE_SET.resource]
        [version] = definition["spec"]["versions"]
        later = {**definition, "spec": {**definition["spec"], "versions": [{**version, "name": "v1beta1"}]}}
        await hub.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), later)
        await template(hub, "web", CLONE_SET_V1BETA1, replicas=2)
        await policy(hub, resourceSelectors=[{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}])
        hub.start(*CONTROLLERS)
        await hub.settle()
        assert (await binding(hub, "web-cloneset")).spec.resource.api_version == "apps.kruise.io/v1beta1"
        assert await shares(hub, "web-cloneset") == {"c1": 2}

    told(story)


# --- who has a say ---------------------------------------------------------------------------------------------------


def test_a_policy_of_a_namespace_means_only_clusters_of_sets_that_are_bound_to_it() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2")
        await hub.cluster_set("other")
        await hub.cluster("o1", "other")
        await template(hub, replicas=2)
        await policy(hub, placement={"clusterAffinity": {"clusterNames": ["c1", "o1", "typo"]}})
        hub.start(*CONTROLLERS)
        await hub.settle()
        assert await shares(hub) == {"c1": 2}
        status, _, message = await said(hub)
        assert status == "True"
        assert "there is no cluster typo" in message
        assert "o1 get nothing" in message
        await hub.bind("other")
        await hub.settle()
        assert await shares(hub) == {"c1": 2, "o1": 2}
        await hub.delete(MANAGED_CLUSTER_SET_BINDING, "other", NS)
        await hub.settle()
        assert await shares(hub) == {"c1": 2, "o1": 2}, "it loses nothing"
        assert (await said(hub))[1] == "ClusterNotBound"
        await hub.patch(DEPLOYMENT, "web", {"spec": {"replicas": 7}}, NS)
        await hub.settle()
        assert await shares(hub) == {"c1": 7, "o1": 2}, "and gets nothing"

    told(story)


def test_a_policy_for_all_namespaces_needs_no_bound_set() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub)
        await hub.cluster_set("other")
        await hub.cluster("o1", "other")
        await template(hub, replicas=2)
        await policy(hub, everywhere=True)
        hub.start(*CONTROLLERS)
        await hub.settle()
        assert await shares(hub) == {"o1": 2}
        made = await binding(hub)
        assert made.metadata.annotations["clusterpropagationpolicy.karmada.io/name"] == "p"
        assert "propagationpolicy.karmada.io/name" not in made.metadata.annotations

    told(story)


def test_the_first_policy_keeps_a_template_until_it_goes_and_bindings_outlive_policies() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2")
        await template(hub, replicas=2)
        await policy(hub, "later", placement={"clusterAffinity": {"clusterNames": ["c1"]}})
        hub.start(*CONTROLLERS)
        await hub.settle()
        await policy(hub, "earlier", priority=9, placement={"clusterAffinity": {"clusterNames": ["c2"]}})
        await hub.settle()
        assert await shares(hub) == {"c1": 2}
        await hub.delete(PROPAGATION_POLICY, "later", NS)
        await hub.settle()
        assert await shares(hub) == {"c2": 2}
        await hub.delete(PROPAGATION_POLICY, "earlier", NS)
        await hub.settle()
        assert await shares(hub) == {"c2": 2}
        assert (await said(hub))[:2] == ("False", "NoPolicy")
        assert told_of(await warnings(hub), "ResourceBinding", "NoPolicy")
        await policy(hub, "again", placement={"clusterAffinity": {"clusterNames": ["c1", "c2"]}})
        await hub.settle()
        assert await shares(hub) == {"c1": 2, "c2": 2}

    told(story)


def test_a_binding_goes_with_its_template() -> None:
    async def story(hub: Hub) -> None:
        keeping = asyncio.create_task(run_controllers(hub.client._cluster))
        await fleet(hub, "c1")
        await template(hub)
        await policy(hub)
        hub.start(*CONTROLLERS)
        await hub.settle()
        first = await binding(hub)
        await hub.delete(DEPLOYMENT, "web", NS)
        await hub.settle()
        assert await bindings(hub) == {}
        await template(hub)
        await hub.settle()
        second = await binding(hub)
        assert second.metadata.labels[PERMANENT_ID] != first.metadata.labels[PERMANENT_ID]
        keeping.cancel()

    told(story)


@pytest.mark.parametrize("annotations", [{}, {"propagationpolicy.karmada.io/name": "theirs"}])
def test_a_binding_that_somebody_else_made_is_left_alone_and_the_policy_says_so(annotations: JSONObject) -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await template(hub)
        spec = {"resource": {**DEPLOYMENTS, "name": "web", "namespace": NS}, "clusters": [{"name": "x", "replicas": 9}]}
        await hub.create(RESOURCE_BINDING, "web-deployment", NS, annotations=annotations, spec=spec)
        await policy(hub)
        hub.start(*CONTROLLERS)
        await hub.settle()
        await hub.cluster("c2")
        await hub.patch(DEPLOYMENT, "web", {"spec": {"replicas": 5}}, NS)
        await hub.settle()
        assert await shares(hub) == {"x": 9}
        assert (await binding(hub)).status.conditions == []
        assert len(told_of(await warnings(hub), "PropagationPolicy", "BindingNotMadeHere")) == 1
        assert len([each for each in hub.commits if each.startswith("events")]) == 1, "it is told once"

    told(story)


# --- mistakes --------------------------------------------------------------------------------------------------------


def test_a_typo_that_means_nobody_removes_nothing_until_somebody_says_so() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2")
        await template(hub, replicas=2)
        await policy(hub)
        hub.start(*CONTROLLERS)
        await hub.settle()
        await respec(hub, placement={"clusterAffinity": {"labelSelector": {"matchLabels": {"env": "prdo"}}}})
        await hub.settle()
        assert await shares(hub) == {"c1": 2, "c2": 2}
        status, reason, message = await said(hub)
        assert (status, reason) == ("False", "RemovalHeld")
        assert "c1, c2 keep it" in message
        assert told_of(await warnings(hub), "PropagationPolicy", "RemovalHeld")
        approved = {"echelon.dev/approved-removal": fingerprint(["c1", "c2"])}
        await hub.patch(RESOURCE_BINDING, "web-deployment", {"metadata": {"annotations": approved}}, NS)
        await hub.settle()
        assert await shares(hub) == {}
        assert (await said(hub))[:2] == ("False", "NoClusterFit")

    told(story)


def test_a_binding_of_nobody_says_so_from_the_beginning() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub)
        await hub.cluster_set("other")
        await hub.cluster("o1", "other")
        await template(hub)
        await policy(hub)
        hub.start(*CONTROLLERS)
        await hub.settle()
        assert await shares(hub) == {}
        status, reason, message = await said(hub)
        assert (status, reason) == ("False", "NoClusterFit")
        assert "none of the 1 that are meant is in a set that is bound to the namespace" in message

    told(story)


def test_fields_without_effect_are_told_on_the_policy_and_on_the_binding() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await template(hub)
        selectors = [DEPLOYMENTS, {"apiVersion": "v1", "kind": "ConfigMap"}]
        await policy(hub, resourceSelectors=selectors, propagateDeps=True, failover={"application": {}})
        hub.start(*CONTROLLERS)
        await hub.settle()
        status, reason, message = await said(hub, "PolicyFieldsIgnored")
        assert (status, reason) == ("True", "NotSupported")
        for field in ("spec.propagateDeps", "spec.failover", "spec.resourceSelectors[1]"):
            assert field in message
        assert len(told_of(await warnings(hub), "PropagationPolicy", "FieldsWithoutEffect")) == 1
        assert await shares(hub) == {"c1": 1}
        await respec(hub, resourceSelectors=[DEPLOYMENTS], propagateDeps=None, failover=None)
        await hub.settle()
        assert (await said(hub, "PolicyFieldsIgnored"))[0] == "False"

    told(story)


def test_a_policy_that_selects_nothing_that_is_propagated_is_told() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        hub.start(*CONTROLLERS)
        await policy(hub, resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap"}])
        await hub.settle()
        [note] = told_of(await warnings(hub), "PropagationPolicy", "FieldsWithoutEffect")
        assert "ConfigMap of v1 is not propagated" in note
        assert await bindings(hub) == {}

    told(story)


@pytest.mark.parametrize("field", ["clusterAffinities", "spreadConstraints"])
def test_a_restriction_that_is_not_honoured_chooses_nobody_instead_of_everybody(field: str) -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2")
        await template(hub)
        await policy(hub, placement={"clusterAffinity": {"clusterNames": ["c1"]}})
        hub.start(*CONTROLLERS)
        await hub.settle()
        await respec(hub, placement={"clusterAffinity": None, field: [{"maxGroups": 1}]})
        await hub.settle()
        assert await shares(hub) == {"c1": 1}
        status, reason, message = await said(hub)
        assert (status, reason) == ("False", "PolicyNotUnderstood")
        assert f"spec.placement.{field}" in message
        assert told_of(await warnings(hub), "PropagationPolicy", "PolicyNotUnderstood")

    told(story)


def test_fewer_replicas_than_clusters_are_told() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2", "c3")
        await template(hub, replicas=2)
        await policy(hub, placement={"replicaScheduling": DIVIDED})
        hub.start(*CONTROLLERS)
        await hub.settle()
        assert await shares(hub) == {"c1": 1, "c2": 1}
        status, reason, message = await said(hub)
        assert (status, reason) == ("True", "FewerReplicasThanClusters")
        assert "c3 get no replica of 2" in message

    told(story)


# --- what runs on the hub --------------------------------------------------------------------------------------------


async def observed_by(hub: Hub, manager: str) -> None:
    body = MergePatch({"status": {"observedGeneration": 1, "replicas": 1}})
    await hub.client.patch(
        DEPLOYMENT.untyped(), "web", body, NS, subresource="status", options=WriteOptions(field_manager=manager)
    )


def test_a_template_that_the_hub_itself_runs_is_not_propagated() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await template(hub)
        await observed_by(hub, "kube-controller-manager")
        await policy(hub)
        hub.start(*CONTROLLERS)
        await hub.settle()
        assert await shares(hub) == {}
        status, reason, message = await said(hub)
        assert (status, reason) == ("False", "HubRunsTemplate")
        assert "kube-controller-manager" in message
        assert told_of(await warnings(hub), "PropagationPolicy", "HubRunsTemplate")

    told(story)


def test_a_new_template_waits_for_a_sign_that_the_hub_runs_it() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await policy(hub)
        hub.start(*CONTROLLERS)
        await hub.settle()
        await template(hub)
        await asyncio.sleep(0.5)
        assert await bindings(hub) == {}
        await observed_by(hub, "kube-controller-manager")
        await hub.settle()
        assert await shares(hub) == {}
        assert (await said(hub))[1] == "HubRunsTemplate"

    told(story)


def test_a_status_that_sums_up_clusters_is_no_sign_and_one_that_comes_later_removes_nothing() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await template(hub)
        await policy(hub)
        hub.start(*CONTROLLERS)
        await hub.settle()
        await observed_by(hub, "echelon")
        await hub.settle()
        assert (await said(hub))[:2] == SUCCESS
        await hub.patch(DEPLOYMENT, "web", {"status": {"observedGeneration": 9}}, NS, "status")
        await observed_by(hub, "kube-controller-manager")
        await hub.cluster("c2")
        await hub.settle()
        assert await shares(hub) == {"c1": 1}, "nobody gets it, and nobody loses it"
        assert (await said(hub))[1] == "HubRunsTemplate"

    told(story)


# --- placements ------------------------------------------------------------------------------------------------------


def test_a_policy_may_take_its_clusters_from_a_placement() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2", "c3")
        await hub.place(numberOfClusters=2)
        await template(hub, replicas=4)
        strategy = '{"type":"ProgressivePerGroup"}'
        notes = {BY_PLACEMENT: "p", STRATEGY: strategy}
        await policy(hub, annotations=notes, placement={"replicaScheduling": DIVIDED, "clusterAffinity": {}})
        hub.start("placement", *CONTROLLERS)
        await hub.settle(30)
        chosen = await hub.selected()
        assert await shares(hub) == dict.fromkeys(chosen, 2)
        found = (await binding(hub)).metadata.annotations
        assert (found[BY_PLACEMENT], found[STRATEGY]) == ("p", strategy)
        assert "spec.placement.clusterAffinity" in (await said(hub, "PolicyFieldsIgnored"))[2]
        await hub.respec(numberOfClusters=3)
        await hub.settle(30)
        assert await shares(hub) == {"c1": 2, "c2": 1, "c3": 1}
        heavy = {"targetCluster": {"labelSelector": {"matchLabels": {"heavy": "yes"}}}, "weight": 2}
        rest = {"targetCluster": {}, "weight": 1}
        weighted = {**DIVIDED, "weightPreference": {"staticWeightList": [heavy, rest]}}
        await respec(hub, placement={"replicaScheduling": weighted})
        await hub.patch(MANAGED_CLUSTER, "c3", {"metadata": {"labels": {"heavy": "yes"}}})
        await hub.settle(30)
        assert await shares(hub) == {"c1": 1, "c2": 1, "c3": 2}
        await hub.delete(PLACEMENT, "p", NS)
        await hub.settle(30)
        assert await shares(hub) == {"c1": 1, "c2": 1, "c3": 2}, "a placement that is missing changes nothing"
        assert (await said(hub))[:2] == ("False", "PlacementMissing")
        await hub.place(numberOfClusters=0)
        await hub.settle(30)
        assert await shares(hub) == {}, "that is what was asked for"

    told(story)


def test_a_placement_that_selects_nobody_removes_nothing() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2")
        await hub.place()
        await template(hub, replicas=2)
        await policy(hub, annotations={BY_PLACEMENT: "p"})
        hub.start("placement", *CONTROLLERS)
        await hub.settle(30)
        assert await shares(hub) == {"c1": 2, "c2": 2}
        typo = {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prdo"}}}}
        await hub.respec(predicates=[typo])
        await hub.settle(30)
        assert await hub.selected() == []
        assert await shares(hub) == {"c1": 2, "c2": 2}
        assert (await said(hub))[1] == "RemovalHeld"

    told(story)


async def decide(hub: Hub, name: str, *clusters: str) -> None:
    """Write a decision of the placement p as somebody else's controller would, who owns nothing."""
    listed = {"decisions": [{"clusterName": each, "reason": ""} for each in clusters]}
    try:
        await hub.create(PLACEMENT_DECISION, name, NS, labels={PLACEMENT_LABEL: "p"}, status=listed)
    except AlreadyExists:
        await hub.patch(PLACEMENT_DECISION, name, {"status": listed}, NS, "status")


def test_a_cluster_that_moves_between_decisions_loses_nothing_in_between() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2", "c3")
        await hub.place()
        await template(hub)
        await policy(hub, annotations={BY_PLACEMENT: "p"})
        await decide(hub, "d1", "c1", "c2", "c3")
        hub.start(*CONTROLLERS)
        await hub.settle(30)
        assert len(await shares(hub)) == 3
        await decide(hub, "d1", "c1", "c2")
        await asyncio.sleep(1)
        await decide(hub, "d2", "c3")
        for _ in range(100):
            await asyncio.sleep(0.1)
            assert len(await shares(hub)) == 3
        await decide(hub, "d2")
        await hub.settle(30)
        assert list(await shares(hub)) == ["c1", "c2"]

    told(story)


def test_a_cluster_that_is_listed_gets_something_when_it_is_let_in_and_bound() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await hub.cluster_set("other")
        await hub.cluster("o1", "other")
        await hub.cluster("new", spec={"hubAcceptsClient": False})
        await hub.place()
        await template(hub)
        await policy(hub, annotations={BY_PLACEMENT: "p"})
        await decide(hub, "d1", "c1", "o1", "new", "later")
        hub.start(*CONTROLLERS)
        await hub.settle(30)
        assert list(await shares(hub)) == ["c1"]
        message = (await said(hub))[2]
        assert "there is no cluster later" in message
        assert "new, o1 get nothing" in message
        await hub.patch(MANAGED_CLUSTER, "new", {"spec": {"hubAcceptsClient": True}})
        await hub.settle()
        assert list(await shares(hub)) == ["c1", "new"]
        await hub.patch(MANAGED_CLUSTER, "o1", {"metadata": {"labels": {SET_LABEL: "set"}}})
        await hub.settle()
        assert list(await shares(hub)) == ["c1", "new", "o1"]
        await hub.cluster("later")
        await hub.settle()
        assert list(await shares(hub)) == ["c1", "later", "new", "o1"]

    told(story)


def test_a_restarted_controller_asks_whether_decisions_are_complete_and_goes_on() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2", "c3")
        await hub.place()
        await template(hub, replicas=3)
        await policy(hub, annotations={BY_PLACEMENT: "p"})
        placing = hub.start("placement")
        first = hub.start(*CONTROLLERS)
        await hub.settle(30)
        assert len(await shares(hub)) == 3
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await hub.respec(numberOfClusters=1)
        await hub.settle(30)
        hub.start(*CONTROLLERS)
        await hub.settle(60)
        assert list(await shares(hub)) == await hub.selected()
        assert not placing.done()

    told(story)


# --- clusters that are away ------------------------------------------------------------------------------------------


def test_a_cluster_that_is_away_keeps_its_share_for_a_while() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2")
        await template(hub, replicas=4)
        await policy(hub, placement={"replicaScheduling": DIVIDED})
        hub.start(*CONTROLLERS)
        await hub.settle()
        away = [{"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect"}]
        await hub.patch(MANAGED_CLUSTER, "c2", {"spec": {"taints": away}})
        await hub.cluster("c3", spec={"taints": away})
        await hub.settle(200)
        assert await shares(hub) == {"c1": 2, "c2": 2}, "and one that is new gets nothing"
        await hub.settle(200)
        assert await shares(hub) == {"c1": 4}
        await hub.patch(MANAGED_CLUSTER, "c2", {"spec": {"taints": []}})
        await hub.settle()
        assert await shares(hub) == {"c1": 2, "c2": 2}

    told(story)


def test_taints_are_tolerated_in_the_words_of_kubernetes() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await hub.cluster("gpu", spec={"taints": [{"key": "gpu", "effect": "NoSelect"}]})
        await template(hub, replicas=2)
        await policy(hub)
        hub.start(*CONTROLLERS)
        await hub.settle()
        assert await shares(hub) == {"c1": 2}
        await respec(
            hub, placement={"clusterTolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]}
        )
        await hub.settle()
        assert await shares(hub) == {"c1": 2, "gpu": 2}

    told(story)


# --- trouble ---------------------------------------------------------------------------------------------------------


def test_what_somebody_else_changes_is_put_right_and_what_people_say_stays() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await template(hub, replicas=2)
        await policy(hub)
        hub.start(*CONTROLLERS)
        await hub.settle()
        theirs = {"spec": {"clusters": [{"name": "x", "replicas": 9}]}, "metadata": {"annotations": {"mine": "yes"}}}
        await hub.patch(RESOURCE_BINDING, "web-deployment", theirs, NS)
        await hub.settle()
        assert await shares(hub) == {"c1": 2}
        assert (await binding(hub)).metadata.annotations["mine"] == "yes"
        await hub.patch(RESOURCE_BINDING, "web-deployment", {"spec": {"suspension": {"scheduling": True}}}, NS)
        await hub.cluster("c2")
        await hub.settle()
        assert await shares(hub) == {"c1": 2}
        assert (await said(hub))[1] == "Suspended"
        await hub.delete(RESOURCE_BINDING, "web-deployment", NS)
        await hub.settle()
        assert await shares(hub) == {"c1": 2, "c2": 2}

    told(story)
