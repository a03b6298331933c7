"""What becomes of a binding: works as Karmada makes them, a ledger, and statuses that people and tools can rely on."""

from typing import Any

import pytest

from echelon.api.apps import DAEMON_SET, DEPLOYMENT
from echelon.api.karmada import RESOURCE_BINDING, WORK
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.engine.workload.names import (
    ALIGN,
    BINDING_UID,
    FINALIZER,
    MADE_BY,
    POLICY_NAME,
    PROPAGATION,
    PUSH_ID,
    RETAIN_REPLICAS,
    execution_namespace,
)
from echelon.kube.errors import NotFound
from tests.controllers.hub import NS
from tests.controllers.workload_world import WorkloadWorld, of_deployment, pod_template, rolling, told


async def begun(world: WorkloadWorld, strategy: Any = None, **fields: Any) -> None:
    """Have a workload of four and six pods that is complete."""
    await world.join("c1", "c2")
    await world.template(10, strategy=strategy or of_deployment(2, 1), **fields)
    await world.bind({"c1": 4, "c2": 6})
    world.start()
    await world.finish()


def test_a_work_is_what_karmada_would_have_written() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, annotations={"team": "shop", "echelon.dev/approval": "x"})
        work, binding = (await world.works())["c1"], await world.binding()
        assert work.metadata.name.startswith("web-")
        assert work.metadata.namespace == "karmada-es-c1"
        assert work.metadata.finalizers == [FINALIZER]
        assert work.metadata.annotations["resourcebinding.karmada.io/name"] == "web-deployment"
        (manifest,) = work.spec.workload.manifests
        notes = manifest["metadata"]["annotations"]
        template = await world.found()
        assert manifest["metadata"]["labels"]["karmada.io/managed"] == "true"
        assert notes["resourcetemplate.karmada.io/uid"] == template["metadata"]["uid"]
        assert notes["resourcetemplate.karmada.io/generation"] == str(template["metadata"]["generation"])
        assert notes["work.karmada.io/namespace"] == "karmada-es-c1"
        assert notes["work.karmada.io/conflict-resolution"] == "abort"
        assert (notes[BINDING_UID], notes["team"]) == (binding.metadata.uid, "shop")
        assert notes[PUSH_ID].isdigit()
        assert "echelon.dev/approval" not in notes
        assert not {"uid", "resourceVersion", "managedFields", "generation"} & manifest["metadata"].keys()
        assert "status" not in manifest

    told(story)


def test_people_see_figures_sums_and_conditions() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        template, binding, ledger = await world.found(), await world.binding(), await world.ledger()
        assert template["status"]["replicas"] == template["status"]["availableReplicas"] == 10
        assert template["status"]["observedGeneration"] == template["metadata"]["generation"]
        assert [each.cluster_name for each in binding.status.aggregated_status] == ["c1", "c2"]
        assert all(each.applied and "snapshot" not in (each.status or {}) for each in binding.status.aggregated_status)
        said = {kind: said[:2] for kind, said in (await world.conditions()).items()}
        assert said == {
            "Scheduled": ("True", "Success"),
            "FullyApplied": ("True", "FullyAppliedSuccess"),
            "PlacementVerified": ("True", "AsExpected"),
            "PlacementRolledOut": ("True", "Complete"),
            "RolloutBlocked": ("False", "NotBlocked"),
            "ClustersTimedOut": ("False", "NoneTimedOut"),
            "RolloutAligned": ("True", "Aligned"),
            "RolloutProgressing": ("False", "Complete"),
            "RolloutStalled": ("False", "NotStalled"),
            "BlockedByPartition": ("False", "NotBlocked"),
        }
        assert all(each.observed_generation == binding.metadata.generation for each in binding.status.conditions)
        assert ledger.metadata.owner_references[0].uid == binding.metadata.uid
        assert (ledger.status.complete, ledger.status.available, ledger.status.updated) == (True, 10, 10)
        budget = ledger.status.budget
        assert budget is not None
        assert (budget.total, budget.unavailable, budget.surge) == (10, 2, 1)
        (first, second) = ledger.status.clusters
        assert (first.name, first.replicas, first.floor, first.ceiling, first.wait) == ("c1", 4, 4, 4, "")
        assert (second.name, second.available, second.outstanding) == ("c2", 6, 1)

    told(story)


def test_a_rollout_in_the_middle_says_what_every_cluster_waits_for() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, of_deployment(1, 0))
        world.budgets(9, 10)
        await world.upgrade("2")
        await world.settle(3)
        figures = await world.figures()
        assert figures["c2"].unavailable == 1
        assert (figures["c1"].unavailable, figures["c1"].paused, figures["c1"].wait) == (0, True, "WaitingForBudget")
        assert await world.said("RolloutProgressing") == ("True", "Progressing")
        template = await world.found()
        assert template["status"]["observedGeneration"] < template["metadata"]["generation"] or (
            template["status"]["updatedReplicas"] < 10
        )
        await world.finish(1200)

    told(story)


def test_a_stateful_set_is_updated_within_one_budget() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, {"type": "RollingUpdate", "rollingUpdate": rolling(2, partition=0)})
        world.budgets(8, 10)
        await world.upgrade("2")
        await world.finish(1200)
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}

    told(story, "StatefulSet")


def test_scaling_moves_clusters_within_the_budget() -> None:
    """Three pods move from one cluster to another: never fewer than 9 are available, never more than 11 there."""

    async def story(world: WorkloadWorld) -> None:
        await begun(world, of_deployment(1, 1))
        world.budgets(9, 11)
        await world.rebind({"c1": 7, "c2": 3})
        await world.finish()
        assert world.pods() == {"c1": "0/0, 7/7", "c2": "0/0, 3/3"}

    told(story)


def test_a_cluster_that_is_left_is_ramped_down_and_loses_its_work_when_it_is_empty() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, of_deployment(1, 1))
        await world.join("c3")
        world.budgets(9, 11)
        await world.rebind({"c1": 4, "c3": 6})
        await world.settle(5)
        assert sorted(await world.works()) == ["c1", "c2", "c3"]
        await world.finish()
        assert sorted(await world.works()) == ["c1", "c3"]
        assert sorted(await world.figures()) == ["c1", "c3"]
        assert world.pods() == {"c1": "0/0, 4/4", "c3": "0/0, 6/6"}

    told(story)


def test_a_change_beside_the_pod_template_is_a_new_push_and_no_new_revision() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        before = {name: agent.taken[-1] for name, agent in world.limits.agents.items()}
        await world.change(minReadySeconds=5)
        await world.finish()
        works = await world.works()
        for name, agent in world.limits.agents.items():
            (manifest,) = works[name].spec.workload.manifests
            assert manifest["spec"]["minReadySeconds"] == 5
            assert agent.taken[-1] > before[name]
            assert agent.fenced == []
        assert len(await world.revisions()) == 1
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}

    told(story)


@pytest.mark.parametrize("why", ["annotation", "Recreate"])
def test_a_template_that_is_not_aligned_is_passed_through_and_says_so(why: str) -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join("c1", "c2")
        for agent in world.running.values():
            agent.cancel()
        strategy = {"type": "Recreate"} if why == "Recreate" else of_deployment("30%", 1)
        await world.template(10, strategy=strategy, annotations={ALIGN: "false"} if why == "annotation" else {})
        await world.bind({"c1": 4, "c2": 6})
        world.start()
        await world.settle()
        manifests = {name: work.spec.workload.manifests[0] for name, work in (await world.works()).items()}
        assert {name: each["spec"]["replicas"] for name, each in manifests.items()} == {"c1": 4, "c2": 6}
        assert manifests["c1"]["spec"]["strategy"] == strategy
        assert PUSH_ID not in manifests["c1"]["metadata"]["annotations"]
        assert await world.said("RolloutAligned") == ("False", "KindNotAligned")
        with pytest.raises(NotFound):
            await world.ledger()
        await world.upgrade("2")
        await world.settle()
        manifest = (await world.works())["c1"].spec.workload.manifests[0]
        assert manifest["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
        world.running.clear()

    told(story)


def test_a_kind_without_budgets_is_passed_through() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join("c1")
        world.running["c1"].cancel()
        spec = {"selector": {"matchLabels": {"app": "web"}}, "template": pod_template("1")}
        await world.hub.create(DAEMON_SET, "web", NS, spec=spec)
        resource = {**DAEMON_SET.type_meta, "namespace": NS, "name": "web"}
        await world.hub.create(
            RESOURCE_BINDING, "web-daemonset", NS, spec={"resource": resource, "clusters": [{"name": "c1"}]}
        )
        world.start()
        await world.settle()
        (work,) = (await world.works()).values()
        assert "replicas" not in work.spec.workload.manifests[0]["spec"]
        found = await world.hub.client.get(RESOURCE_BINDING, "web-daemonset", NS)
        assert ("RolloutAligned", "KindNotAligned") in [(each.type, each.reason) for each in found.status.conditions]
        world.running.clear()

    told(story)


@pytest.mark.parametrize(
    ("strategy", "reason", "text"),
    [
        (of_deployment("a lot", 1), "BadStrategy", "spec.strategy.rollingUpdate.maxUnavailable is 'a lot': it must be"),
        (of_deployment(-1, 1), "BadStrategy", "spec.strategy.rollingUpdate.maxUnavailable is -1: it must not"),
    ],
)
def test_a_strategy_that_cannot_be_read_widens_nothing(strategy: Any, reason: str, text: str) -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        sent = await world.sent()
        world.budgets(10, 10)
        await world.change(strategy=strategy, template=pod_template("2"))
        await world.settle(60)
        assert await world.said("RolloutAligned") == ("False", reason)
        assert text in (await world.condition("RolloutAligned")).message
        assert await world.sent() == sent

    told(story)


def test_a_negative_partition_widens_nothing() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, rolling(2, partition=4))
        await world.change(template=pod_template("2"), updateStrategy={"partition": -1})
        await world.settle(60)
        status, reason, message = (await world.conditions())["RolloutAligned"]
        assert (status, reason) == ("False", "BadStrategy")
        assert message == "spec.updateStrategy.partition is -1: it must not be negative"
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}

    told(story, "CloneSet")


def test_percentages_that_come_to_nothing_let_one_pod_be_missing() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, of_deployment("5%", "0%"))
        status, reason, message = (await world.conditions())["RolloutAligned"]
        assert (status, reason) == ("True", "BothZero")
        assert message.startswith("maxUnavailable is 5% and maxSurge is 0%: both come to zero pods, so one may be")
        world.budgets(9, 10)
        await world.upgrade("2")
        await world.finish(1800)

    told(story)


def test_a_hub_that_runs_the_template_itself_gets_nothing_from_us() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join("c1")
        await world.template(3, strategy=of_deployment(1, 1))
        status = {"conditions": [{"type": "Available", "status": "True"}], "observedGeneration": 1}
        await world.hub.patch(DEPLOYMENT, "web", {"status": status}, NS, "status")
        await world.bind({"c1": 3})
        world.start()
        await world.settle()
        assert await world.works() == {}
        assert await world.said("RolloutAligned") == ("False", "HubRunsTemplate")

    told(story)


def test_bindings_of_karmada_itself_are_left_alone() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join("c1")
        await world.template(3)
        await world.bind({"c1": 3}, annotations={POLICY_NAME: "web"})
        world.start()
        await world.settle()
        assert await world.works() == {}
        assert (await world.binding()).status.conditions == []
        await world.annotate({MADE_BY: PROPAGATION})
        await world.finish()
        assert world.pods() == {"c1": "0/0, 3/3"}

    told(story)


def test_deleting_the_binding_takes_everything_away() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        await world.hub.delete(RESOURCE_BINDING, world.name, NS)
        await world.settle()
        assert await world.works() == {}
        assert world.pods() == {}
        with pytest.raises(NotFound):
            await world.binding()
        assert ("WorksRemoved", "the work of c1, c2 is deleted: the binding is deleted") in await world.events()

    told(story)


@pytest.mark.parametrize("preserved", [True, False])
def test_deleting_the_template_deletes_everywhere_unless_it_is_preserved(*, preserved: bool) -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        if preserved:
            await world.rebind(preserveResourcesOnDeletion=True)
            await world.settle()
            assert all(each.spec.preserve_resources_on_deletion for each in (await world.works()).values())
        await world.hub.delete(DEPLOYMENT, "web", NS)
        await world.settle()
        assert await world.works() == {}
        assert await world.said("RolloutAligned") == ("False", "TemplateNotFound")

    told(story)


def test_a_binding_that_names_another_template_deletes_nothing() -> None:
    """Somebody has mistyped the name: what runs goes on."""

    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        await world.hub.patch(RESOURCE_BINDING, world.name, {"spec": {"resource": {"name": "wbe"}}}, NS)
        await world.settle()
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}
        assert await world.said("RolloutAligned") == ("False", "TemplateNotFound")

    told(story)


def test_a_binding_that_suddenly_names_nobody_removes_nothing_without_a_word() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        await world.rebind({})
        await world.settle(60)
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}
        assert await world.said("PlacementRolledOut") == ("False", "RemovalHeld")

    told(story)


def test_what_members_own_is_observed() -> None:
    """An autoscaler on a member decides how many pods there are: that is what budgets are counted from."""

    async def story(world: WorkloadWorld) -> None:
        await begun(world, labels={RETAIN_REPLICAS: "true"})
        assert (await world.figures())["c1"].replicas == 4

    told(story)


def test_a_second_binding_of_a_template_is_told_that_it_is_not_the_first() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        first = await world.binding()
        spec = {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NS, "name": "web"},
            "clusters": [{"name": "c1", "replicas": 1}],
        }
        await world.hub.create(RESOURCE_BINDING, "again", NS, spec=spec)
        await world.settle()
        second = await world.hub.client.get(RESOURCE_BINDING, "again", NS)
        said = {each.type: each for each in second.status.conditions}
        assert said["RolloutAligned"].reason == "TemplateHasAnotherBinding"
        assert first.metadata.name in said["RolloutAligned"].message
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}

    told(story)


def test_eviction_tasks_and_failover_are_said_to_have_no_effect() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        task = {"fromCluster": "c1", "reason": "TaintUntolerated", "producer": "somebody"}
        await world.rebind(gracefulEvictionTasks=[task])
        await world.settle()
        assert await world.said("FieldsIgnored") == ("True", "NotSupported")
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}
        await world.rebind(gracefulEvictionTasks=None)
        await world.settle()
        assert await world.said("FieldsIgnored") == ("False", "None")

    told(story)


def test_a_work_that_somebody_deletes_is_made_again() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        work = (await world.works())["c1"]
        await world.hub.client.delete(WORK, work.metadata.name, execution_namespace("c1"))
        await world.finish()
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}

    told(story)


def test_a_work_that_somebody_edits_is_put_right_under_a_new_push() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        work = (await world.works())["c1"]
        (manifest,) = work.spec.workload.manifests
        edited = {**manifest, "spec": {**manifest["spec"], "replicas": 0}}
        before = world.limits.agents["c1"].taken[-1]
        body = {"spec": {"workload": {"manifests": [edited]}}}
        await world.hub.patch(WORK, work.metadata.name, body, execution_namespace("c1"))
        await world.finish()
        assert world.limits.agents["c1"].taken[-1] > before
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}

    told(story)


def test_the_ledger_is_deleted_when_a_workload_is_no_longer_aligned() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        for agent in world.running.values():
            agent.cancel()
        world.running.clear()
        await world.hub.patch(DEPLOYMENT, "web", {"metadata": {"annotations": {ALIGN: "false"}}}, NS)
        await world.settle()
        with pytest.raises(NotFound):
            await world.hub.client.get(ROLLOUT_LEDGER, world.name, NS)
        assert await world.said("RolloutAligned") == ("False", "KindNotAligned")

    told(story)
