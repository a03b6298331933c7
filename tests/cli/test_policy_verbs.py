"""`echelon rollout` says to policies what it says to all that is rolled out."""

import json
from collections.abc import Iterator

import pytest
from tests.cli.policy_hub import NAME, PolicyHub, connected, echelon, furnish
from tests.controllers.policy_world import template
from tests.controllers.work_world import per_group, progressive
from tests.hub.conftest import HubProcess

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.rollout import control
from echelon.engine.rollout.secret_data import SECRET_DATA
from echelon.kube.client import Client, MergePatch


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path_factory.mktemp("hub"), ["--memory"])
    hub.start()
    connected(hub, furnish)
    yield hub
    assert hub.stop() == 0


def annotations(world: PolicyHub) -> dict[str, str]:
    found: dict[str, str] = world.policy()["metadata"].get("annotations", {})
    return found


def test_it_is_paused_approved_promoted_shown_and_undone(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a"], ["b", "c"], strategy=per_group(minSuccessTime="1h"))
    canary, *others = world.clusters
    world.echelon("rollout", "pause", f"policy/{NAME}")
    world.reconcile()
    assert "paused: 0 of 3 done, 3 waiting" in world.echelon("rollout", "status", NAME)
    assert {each: world.replica(each)["spec"]["remediationAction"] for each in world.clusters} == dict.fromkeys(
        world.clusters, "inform"
    ), "everybody looks while it is paused, and nobody is enforced"
    world.echelon("rollout", "resume", f"plc/{NAME}")
    world.reconcile()
    world.report(*world.clusters)
    world.reconcile()
    shown = world.echelon("rollout", "status", NAME)
    assert "rolling out: 0 of 3 done, 1 soaking, 2 waiting" in shown
    world.echelon("rollout", "promote", NAME)
    world.reconcile()
    world.report(*others)
    world.reconcile()
    world.echelon("rollout", "promote", NAME)
    world.reconcile()
    assert world.echelon("rollout", "watch", NAME).startswith("complete, 3 of 3 done")
    assert "is complete" in world.echelon("rollout", "abort", NAME, code=1)
    world.patch({"spec": {"policy-templates": [template("2")], "dependencies": []}})
    world.reconcile()
    assert "+" in world.echelon("rollout", "diff", NAME, code=1)
    history = json.loads(world.echelon("rollout", "history", NAME, "-o", "json"))
    assert [(each["revision"], each["present"], each["templates"], each["action"]) for each in history] == [
        (1, False, 1, "enforce"),
        (2, True, 1, "enforce"),
    ]
    assert "goes back to revision 1" in world.echelon("rollout", "undo", NAME)
    spec = world.policy()["spec"]
    assert spec["policy-templates"] == [template()]
    assert spec["rolloutStrategy"]["type"] == "ProgressivePerGroup", "how it is rolled out is no part of a revision"
    assert "dependencies" not in spec, "what the revision did not have goes"
    assert canary in world.echelon("rollout", "status", NAME, "-o", "json")


def with_secret(password: str) -> JSONObject:
    """A template that wants a Secret."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": password}}
    made = template()
    wanted = {"complianceType": "musthave", "objectDefinition": secret}
    made["objectDefinition"]["spec"]["object-templates"] = [wanted]
    return made


def test_undo_brings_back_what_a_secret_in_a_policy_held_as_long_as_it_is_kept(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a"], strategy=progressive(), **{"policy-templates": [with_secret("hunter2")]})
    world.finish()
    world.patch({"spec": {"policy-templates": [with_secret("correct-horse")]}})
    world.reconcile()

    async def stored(client: Client) -> str:
        return str((await client.list(CONTROLLER_REVISION.untyped(), world.namespace)).items)

    said = world.run(stored)
    assert "withheld" in said
    assert "hunter2" not in said
    assert "correct-horse" not in said
    assert "goes back to revision 1" in world.echelon("rollout", "undo", NAME)
    assert world.policy()["spec"]["policy-templates"] == [with_secret("hunter2")]
    world.patch({"metadata": {"annotations": {SECRET_DATA: None}}})
    said = world.echelon("rollout", "undo", NAME, "--to-revision", "2", code=1)
    assert "revision 2 cannot be put back: what the Secrets in it held is no longer kept" in said
    assert world.policy()["spec"]["policy-templates"] == [with_secret("hunter2")]


def test_an_abort_puts_the_last_complete_revision_back_and_retry_takes_that_back(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a", "b"], strategy=progressive())
    world.finish()
    world.patch({"spec": {"policy-templates": [template("2")]}})
    world.reconcile()
    world.echelon("rollout", "abort", NAME)
    assert "going back" in world.echelon("rollout", "status", NAME)
    world.reconcile()
    assert world.replica(world.clusters[0])["spec"]["policy-templates"] == [template()]
    world.report(*world.clusters)
    world.reconcile()
    assert world.echelon("rollout", "watch", NAME, code=3).startswith("aborted, 2 of 2 done")
    world.echelon("rollout", "retry", NAME)
    world.reconcile()
    assert "rolling out: 0 of 2 done, 1 in flight, 1 waiting" in world.echelon("rollout", "status", NAME)


def test_an_abort_without_a_way_back_says_that_clusters_are_held_again(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a", "b"], strategy=progressive())
    world.reconcile()
    assert "released clusters are held again" in world.echelon("rollout", "abort", NAME)
    world.reconcile()
    assert world.echelon("rollout", "watch", NAME, code=3).startswith("aborted, 0 of 2 done, 2 waiting")


def test_groups_and_removals_are_approved(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a"], ["b"], strategy=per_group())
    world.patch({"metadata": {"annotations": {control.APPROVAL: "all"}}})
    world.reconcile()
    assert "awaiting approval" in world.echelon("rollout", "status", NAME)
    world.echelon("rollout", "approve", NAME, "--group", "canary")
    assert annotations(world)[control.APPROVED].endswith(":canary")
    world.echelon("rollout", "approve", NAME)
    world.finish()
    assert "no removal is held" in world.echelon("rollout", "approve", NAME, "--removal", code=1)

    async def decide_on_nobody(client: Client) -> None:
        for index in (0, 1):
            empty = MergePatch({"status": {"decisions": []}})
            await client.patch(PLACEMENT_DECISION, f"p-{index}", empty, world.namespace, subresource="status")
        groups = [
            {
                "decisionGroupIndex": n,
                "decisionGroupName": ["canary", ""][n],
                "decisions": [f"p-{n}"],
                "clusterCount": 0,
            }
            for n in (0, 1)
        ]
        status = MergePatch({"status": {"numberOfSelectedClusters": 0, "decisionGroups": groups}})
        await client.patch(PLACEMENT, "p", status, world.namespace, subresource="status")

    world.run(decide_on_nobody)
    assert "held" in world.echelon("rollout", "status", NAME)
    said = world.echelon("rollout", "approve", NAME, "--removal")
    assert f"2 clusters lose what they have: {', '.join(world.clusters)}" in said


def test_a_name_that_a_work_set_has_too_needs_its_kind(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a"], strategy=None)
    manifests = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]
    body = {
        "apiVersion": MANIFEST_WORK_REPLICA_SET.api_version,
        "kind": MANIFEST_WORK_REPLICA_SET.kind,
        "metadata": {"name": NAME},
        "spec": {"manifestWorkTemplate": {"workload": {"manifests": manifests}}, "placementRefs": [{"name": "p"}]},
    }
    world.run(lambda client: client.create(MANIFEST_WORK_REPLICA_SET.untyped(), body, world.namespace))
    said = world.echelon("rollout", "status", NAME, code=1)
    assert f"manifestworkreplicaset/{NAME}, policy/{NAME}" in said
    world.echelon("rollout", "status", f"policies.policy.open-cluster-management.io/{NAME}")
    listed = world.echelon("rollout", "list").splitlines()
    assert [line.split()[0] for line in listed[1:]] == [f"manifestworkreplicaset/{NAME}", f"policy/{NAME}"]


def test_replicas_are_no_rollouts(hub: HubProcess) -> None:
    world = PolicyHub(hub, ["a"], strategy=None)
    world.reconcile()
    everything = world.echelon("rollout", "list", "-A", "-o", "json")
    assert f'"{world.namespace}.{NAME}"' not in everything
    assert f'"namespace": "{world.namespace}"' in everything
    cluster = world.clusters[0]
    said = world.echelon("rollout", "pause", f"{world.namespace}.{NAME}", namespace=cluster, code=1)
    assert f"is the replica of policy {NAME} in namespace {world.namespace} for cluster {cluster}" in said


@pytest.mark.parametrize("verb", [["rollout", "status"], ["policy", "show"], ["policy", "diff"]])
def test_what_is_not_there_is_named(hub: HubProcess, verb: list[str]) -> None:
    connected(hub, lambda client: client.create(NAMESPACE.untyped(), {"metadata": {"name": f"empty-{verb[-1]}"}}))
    assert "not found" in echelon(hub, *verb, "nothing", "-n", f"empty-{verb[-1]}", code=5)
    assert "there is no namespace nowhere" in echelon(hub, *verb, "nothing", "-n", "nowhere", code=5)
