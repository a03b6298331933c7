"""Services, rights and autoscalers: as many as there are replicas, gone when those are, and no more than is needed."""

import copy
from typing import Any

from echelon.api.base import JSONObject
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.pod_clique.infrastructure import infrastructure, infrastructure_patch, write_infrastructure
from echelon.engine.pod_clique.shape import expected
from tests.engine.pod_clique.sets import a_set, clique, group, spec_of

Existing = dict[str, dict[str, JSONObject]]


def wanted(body: JSONObject) -> Existing:
    spec = spec_of(body)
    found: Existing = {}
    for kind, child in infrastructure(body, spec, expected(spec, "w", {}, {})):
        found.setdefault(kind.kind, {})[child["metadata"]["name"]] = child
    return found


def writes(body: JSONObject, existing: Existing) -> list[Write]:
    spec = spec_of(body)
    return list(write_infrastructure(body, infrastructure(body, spec, expected(spec, "w", {}, {})), existing))


def scaled(**more: Any) -> JSONObject:
    return clique("a", 2, autoScalingConfig={"maxReplicas": 4, **more})


def test_every_replica_has_a_headless_service() -> None:
    services = wanted(a_set(clique("a"), replicas=2))["Service"]
    assert services.keys() == {"w-0", "w-1"}
    assert services["w-1"]["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": "w",
            "grove.io/podcliqueset-replica-index": "1",
        },
    }
    assert services["w-1"]["metadata"]["labels"]["app.kubernetes.io/component"] == "pcs-headless-service"


def test_whether_pods_that_are_not_ready_have_a_name_is_the_sets_to_say() -> None:
    body = a_set(clique("a"), headlessServiceConfig={"publishNotReadyAddresses": False})
    service = wanted(body)["Service"]["w-0"]
    assert service["spec"]["publishNotReadyAddresses"] is False
    there = wanted(a_set(clique("a")))
    assert [write.body for write in writes(body, there) if isinstance(write, Patch)] == [
        {"spec": {"publishNotReadyAddresses": False}}
    ]
    # A server leaves false out.
    del service["spec"]["publishNotReadyAddresses"]
    assert infrastructure_patch(service, wanted(body)["Service"]["w-0"]) is None


def test_the_services_of_replicas_that_are_gone_go_too() -> None:
    # Grove keeps them until the set goes.
    there = wanted(a_set(scaled(), replicas=3))
    for kind in ("Service", "HorizontalPodAutoscaler"):
        for child in there[kind].values():
            child["metadata"]["uid"] = "u"
    gone = [write for write in writes(a_set(scaled(), replicas=1), there) if isinstance(write, Delete)]
    assert {(write.kind.kind, write.name, write.uid) for write in gone} == {
        ("Service", "w-1", "u"),
        ("Service", "w-2", "u"),
        ("HorizontalPodAutoscaler", "w-1-a", "u"),
        ("HorizontalPodAutoscaler", "w-2-a", "u"),
    }
    for child in there["Service"].values():
        child["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    again = [each for each in writes(a_set(scaled(), replicas=1), there) if isinstance(each, Delete)]
    assert {write.kind.kind for write in again} == {"HorizontalPodAutoscaler"}


def test_an_autoscaler_that_the_set_drops_goes() -> None:
    there = wanted(a_set(scaled()))
    [write] = writes(a_set(clique("a", 2)), there)
    assert isinstance(write, Delete)
    assert (write.kind.kind, write.name) == ("HorizontalPodAutoscaler", "w-0-a")


def test_a_clique_and_a_group_are_scaled_by_autoscalers_of_their_own() -> None:
    groups = [group("g", "b", replicas=2, scaleConfig={"minReplicas": 1, "maxReplicas": 4})]
    found = wanted(a_set(scaled(minReplicas=3), clique("b"), groups=groups))["HorizontalPodAutoscaler"]
    assert found.keys() == {"w-0-a", "w-0-g"}
    one, other = found["w-0-a"]["spec"], found["w-0-g"]["spec"]
    version = "grove.io/v1alpha1"
    assert one["scaleTargetRef"] == {"apiVersion": version, "kind": "PodClique", "name": "w-0-a"}
    assert other["scaleTargetRef"] == {"apiVersion": version, "kind": "PodCliqueScalingGroup", "name": "w-0-g"}
    assert (one["minReplicas"], one["maxReplicas"]) == (3, 4)
    assert (other["minReplicas"], other["maxReplicas"]) == (1, 4)


def test_a_clique_and_a_group_of_one_name_do_not_share_an_autoscaler() -> None:
    groups = [group("a", "b", scaleConfig={"maxReplicas": 4})]
    found = wanted(a_set(scaled(), clique("b"), groups=groups))["HorizontalPodAutoscaler"]
    targets = {name: each["spec"]["scaleTargetRef"]["kind"] for name, each in found.items()}
    assert targets == {"w-0-a": "PodClique", "w-0-a.group": "PodCliqueScalingGroup"}


def test_metrics_that_a_server_spells_its_own_way_are_left_alone() -> None:
    metric = {
        "type": "Pods",
        "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "0.5"}},
    }
    there = wanted(a_set(scaled(metrics=[metric])))["HorizontalPodAutoscaler"]["w-0-a"]
    stored = copy.deepcopy(there)
    stored["spec"]["metrics"][0]["pods"]["target"]["averageValue"] = "500m"
    assert infrastructure_patch(stored, there) is None
    stored["spec"]["metrics"][0]["pods"]["target"]["averageValue"] = "501m"
    assert infrastructure_patch(stored, there) == {"spec": {"metrics": [metric]}}


def test_an_autoscaler_without_metrics_has_those_that_a_server_would_take() -> None:
    [metric] = wanted(a_set(scaled()))["HorizontalPodAutoscaler"]["w-0-a"]["spec"]["metrics"]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}


def test_changed_limits_are_patched() -> None:
    there = wanted(a_set(scaled()))
    there["HorizontalPodAutoscaler"]["w-0-a"]["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    [write] = writes(a_set(scaled(maxReplicas=9)), there)
    assert isinstance(write, Patch)
    assert (write.body, write.uid, write.resource_version) == ({"spec": {"maxReplicas": 9}}, "u", "7")


def test_rights_are_made_once_and_are_their_users_from_then_on() -> None:
    body = a_set(clique("a"))
    there = wanted(body)
    assert there.keys() == {"ServiceAccount", "Role", "RoleBinding", "Service"}
    role, binding = there["Role"]["grove.io:pcs:w"], there["RoleBinding"]["grove.io:pcs:w"]
    rule = {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list", "watch"]}
    assert role["rules"] == [rule]
    assert role["metadata"]["labels"]["app.kubernetes.io/name"] == "grove.io-pcs-w"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "w", "namespace": "ns"}]
    assert there["ServiceAccount"]["w"]["automountServiceAccountToken"] is True
    role["rules"] = []
    role["metadata"]["labels"] = {}
    assert writes(body, there) == []


def test_a_token_is_made_only_where_somebody_waits() -> None:
    assert "Secret" not in wanted(a_set(clique("a"), clique("b")))
    secret = wanted(a_set(clique("a"), clique("b"), cliqueStartupType="CliqueStartupTypeInOrder"))["Secret"]["w-ic-sat"]
    assert secret["type"] == "kubernetes.io/service-account-token"
    assert secret["metadata"]["annotations"] == {"kubernetes.io/service-account.name": "w"}


def test_everything_is_made_and_then_nothing_more() -> None:
    groups = [group("g", "b", scaleConfig={"maxReplicas": 4})]
    body = a_set(scaled(), clique("b"), groups=groups, replicas=2, cliqueStartupType="CliqueStartupTypeInOrder")
    made = writes(body, {})
    assert all(isinstance(write, Create) for write in made)
    assert len(made) == 4 + 2 + 4
    assert writes(body, wanted(body)) == []


def test_every_child_belongs_to_the_set_and_carries_its_label() -> None:
    for kind in wanted(a_set(scaled())).values():
        for child in kind.values():
            assert child["metadata"]["labels"]["app.kubernetes.io/part-of"] == "w"
            assert [each["uid"] for each in child["metadata"]["ownerReferences"]] == ["uid-of-w"]
