"""From a template and a policy to pods: propagation and workloads together, with members that act as real ones do."""

from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.override import CLUSTER_OVERRIDE_POLICY, OVERRIDE_POLICY
from echelon.engine.workload.names import PLACEMENT, STRATEGY
from tests.controllers.hub import NS
from tests.controllers.propagation_world import DEPLOYMENTS, DIVIDED, policy, respec
from tests.controllers.workload_world import WorkloadWorld, of_deployment, told

pytestmark = pytest.mark.full


async def images(world: WorkloadWorld) -> dict[str, str]:
    found = {}
    for cluster, work in (await world.works()).items():
        manifest: Any = work.spec.workload.manifests[0]
        found[cluster] = manifest["spec"]["template"]["spec"]["containers"][0]["image"]
    return found


def test_a_template_with_a_policy_runs_and_is_updated_within_one_budget() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join("c1", "c2")
        await world.template(10, strategy=of_deployment(2, 1))
        weights = [{"targetCluster": {"clusterNames": [name]}, "weight": each} for name, each in (("c1", 2), ("c2", 3))]
        divided = {**DIVIDED, "weightPreference": {"staticWeightList": weights}}
        await policy(world.hub, placement={"replicaScheduling": divided})
        world.start()
        await world.finish()
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}
        world.budgets(8, 11)
        await world.upgrade("2")
        await world.finish()
        assert await world.said("Scheduled") == ("True", "Success")
        found = await world.conditions()
        assert found["FullyApplied"][0] == "True", found

    told(story)


def test_a_cluster_that_comes_gets_its_share_as_a_ramp() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join("c1")
        await world.template(6, strategy=of_deployment(1, 1))
        await policy(world.hub, placement={"replicaScheduling": DIVIDED})
        world.start()
        await world.finish()
        world.budgets(5, 7)
        await world.join("c2")
        await world.settle(300)
        assert world.pods() == {"c1": "0/0, 3/3", "c2": "0/0, 3/3"}
        await respec(world.hub, placement={"clusterAffinity": {"exclude": ["c1"]}})
        await world.settle(300)
        assert world.pods()["c2"] == "0/0, 6/6"
        assert list(await world.works()) == ["c2"]

    told(story)


def test_decision_groups_come_one_after_the_other() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.place([("canary", ["c1"]), ("", ["c2", "c3"])])
        await world.template(6, strategy=of_deployment(2, 0))
        strategy = '{"type":"ProgressivePerGroup","progressivePerGroup":{"minSuccessTime":"60s"}}'
        notes = {PLACEMENT: "p", STRATEGY: strategy}
        await policy(world.hub, annotations=notes, placement={"replicaScheduling": DIVIDED})
        world.start()
        await world.finish(3600)
        assert len(world.pods()) == 3
        await world.upgrade("2")
        await world.settle(40)
        assert await images(world) == {"c1": "web:2", "c2": "web:1", "c3": "web:1"}
        await world.finish(3600)
        assert await images(world) == dict.fromkeys(("c1", "c2", "c3"), "web:2")
        await world.settle(120)  # until the last group has soaked

    told(story)


def test_overrides_change_what_clusters_are_sent_and_never_what_budgets_are_made_of() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join("c1", "c2")
        await world.template(4, strategy=of_deployment(1, 1))
        await policy(world.hub, placement={"replicaScheduling": DIVIDED})
        mirror = {"imageOverrider": [{"component": "Registry", "operator": "replace", "value": "mirror.io"}]}
        rule = {"targetCluster": {"labelSelector": {"matchLabels": {"at": "edge"}}}, "overriders": mirror}
        await world.hub.create(OVERRIDE_POLICY, "edge", NS, spec={"overrideRules": [rule]})
        world.start()
        await world.finish()
        assert await images(world) == {"c1": "web:1", "c2": "web:1"}
        await world.hub.patch(MANAGED_CLUSTER, "c2", {"metadata": {"labels": {"at": "edge"}}})
        await world.finish()
        assert await images(world) == {"c1": "web:1", "c2": "mirror.io/web:1"}
        greedy = {"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": 99}]}
        spec = {"resourceSelectors": [DEPLOYMENTS], "overrideRules": [{"overriders": greedy}]}
        await world.hub.create(CLUSTER_OVERRIDE_POLICY, "greedy", spec=spec)
        await world.settle()
        await world.upgrade("2")
        await world.settle(30)
        assert await world.said("RolloutAligned") == ("False", "OverrideConflict")
        assert await images(world) == {"c1": "web:1", "c2": "mirror.io/web:1"}, "nothing is written"
        wrong = {"plaintext": [{"path": "/spec/nothing/there", "operator": "replace", "value": 1}]}
        await world.hub.patch(CLUSTER_OVERRIDE_POLICY, "greedy", {"spec": {"overrideRules": [{"overriders": wrong}]}})
        await world.settle(30)
        status, reason, message = (await world.conditions())["RolloutAligned"]
        assert (status, reason) == ("False", "OverrideFailed")
        assert "ClusterOverridePolicy greedy: /spec/nothing/there" in message
        await world.hub.delete(CLUSTER_OVERRIDE_POLICY, "greedy")
        await world.finish()
        assert await images(world) == {"c1": "web:2", "c2": "mirror.io/web:2"}

    told(story)
