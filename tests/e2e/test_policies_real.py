"""Policies on real clusters: the seed's stories, with real API servers and every part of Echelon a process of its own.

The agents have on their clusters what the guide gives them, and no more.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from echelon.api.base import JSONObject
from tests.e2e.conftest import CLUSTERS
from tests.e2e.fleet import Fleet

pytestmark = pytest.mark.xdist_group("fleet")

CLUSTER_GROUP, POLICY_GROUP = "cluster.open-cluster-management.io", "policy.open-cluster-management.io"


@dataclass(frozen=True)
class PolicyRollout:
    """A policy, a placement and a binding of the same name, and a namespace for all of them."""

    fleet: Fleet
    name: str

    def prepare(self, *groups: str) -> None:
        """Make the namespace, a placement with named groups, and the binding, as in the seed."""
        inside = {"name": self.name, "namespace": self.name}
        named = [
            {
                "groupName": group,
                "groupClusterSelector": {"labelSelector": {"matchExpressions": [{"key": group, "operator": "Exists"}]}},
            }
            for group in groups
        ]
        tolerations = [{"key": f"{CLUSTER_GROUP}/{why}"} for why in ("unreachable", "unavailable")]
        spec = {"decisionStrategy": {"groupStrategy": {"decisionGroups": named}}, "tolerations": tolerations}
        ref = {"apiGroup": CLUSTER_GROUP, "kind": "Placement", "name": self.name}
        subjects = [{"apiGroup": POLICY_GROUP, "kind": "Policy", "name": self.name}]
        self.fleet.apply(
            [
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}},
                {
                    "apiVersion": f"{CLUSTER_GROUP}/v1beta2",
                    "kind": "ManagedClusterSetBinding",
                    "metadata": {"name": "global", "namespace": self.name},
                    "spec": {"clusterSet": "global"},
                },
                {"apiVersion": f"{CLUSTER_GROUP}/v1beta1", "kind": "Placement", "metadata": inside, "spec": spec},
                {
                    "apiVersion": f"{POLICY_GROUP}/v1",
                    "kind": "PlacementBinding",
                    "metadata": inside,
                    "placementRef": ref,
                    "subjects": subjects,
                },
            ]
        )

    def write(self, *templates: JSONObject, strategy: JSONObject | None = None, action: str = "enforce") -> None:
        """Make the policy, or change it."""
        definition = {
            "apiVersion": f"{POLICY_GROUP}/v1",
            "kind": "ConfigurationPolicy",
            "metadata": {"name": self.name},
            "spec": {"pruneObjectBehavior": "DeleteIfCreated", "object-templates": list(templates)},
        }
        spec = {
            "disabled": False,
            "remediationAction": action,
            "policy-templates": [{"objectDefinition": definition}],
            **({"rolloutStrategy": strategy} if strategy else {}),
        }
        meta = {"name": self.name, "namespace": self.name}
        self.fleet.apply([{"apiVersion": f"{POLICY_GROUP}/v1", "kind": "Policy", "metadata": meta, "spec": spec}])

    def policy(self) -> JSONObject:
        return self.fleet.get("policies.policy.open-cluster-management.io", self.name, self.name)

    def replica(self, cluster: str, where: str = "hub") -> JSONObject:
        name = f"{self.name}.{self.name}"
        return self.fleet.get("policies.policy.open-cluster-management.io", name, cluster, where)

    def standing(self) -> dict[str, str]:
        listed = self.policy().get("status", {}).get("status", [])
        return {each["clustername"]: each.get("rolloutStatus", "") for each in listed}

    def wait(self, status: str) -> None:
        def so() -> bool:
            found = self.policy()
            seen = {each["type"]: each["observedGeneration"] for each in found.get("status", {}).get("conditions", [])}
            present = seen.get("PlacementRolledOut") == found["metadata"]["generation"]
            return bool(present and found["status"].get("rolloutStatus") == status)

        self.fleet.until(so, f"{self.name} is not {status}")

    def written(self, cluster: str) -> datetime:
        return datetime.fromisoformat(self.replica(cluster)["metadata"]["annotations"]["echelon.dev/written-at"])

    def data(self, cluster: str, name: str = "settings") -> JSONObject:
        found: JSONObject = self.fleet.get("configmap", name, "default", where=cluster).get("data", {})
        return found


def must(kind: str, name: str = "settings", **data: str) -> JSONObject:
    wanted: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
    return {"complianceType": kind, "objectDefinition": wanted | ({"data": data} if data else {})}


def per_group(**settings: Any) -> JSONObject:
    return {"type": "ProgressivePerGroup", "progressivePerGroup": settings}


def test_groups_are_enforced_one_after_the_other_and_both_statuses_tell_how_far_it_is(fleet: Fleet) -> None:
    story = PolicyRollout(fleet, "waves")
    story.prepare("prod-canary-west", "prod-canary-east")
    fleet.kubectl("annotate", "namespace", "waves", "story=1")
    strategy = per_group(minSuccessTime="2s", progressDeadline="10m", maxFailures="2%")
    story.write(must("musthave", level="1"), strategy=strategy)
    story.wait("Succeeded")
    assert story.standing() == dict.fromkeys(CLUSTERS, "Succeeded")
    policy = story.policy()
    assert policy["status"]["compliant"] == "Compliant"
    assert policy["status"]["placement"] == [{"placementBinding": "waves", "placement": "waves"}]
    soak = timedelta(seconds=2)
    assert story.written("east") >= story.written("west") + soak
    assert story.written("south") >= story.written("east") + soak
    for cluster in CLUSTERS:
        on_hub, on_member = story.replica(cluster), story.replica(cluster, cluster)
        assert on_hub["spec"]["remediationAction"] == "enforce"
        assert on_hub["spec"]["rolloutStrategy"]["type"] == "ProgressivePerGroup"
        for status in (on_hub["status"], on_member["status"]):
            assert (status["compliant"], status["rolloutStatus"]) == ("Compliant", "Succeeded")
            assert status["details"][0]["templateMeta"]["name"] == "waves"
        assert story.data(cluster) == {"level": "1"}
    assert fleet.echelon("rollout", "watch", "policy/waves", "-n", "waves", "--timeout", "60").code == 0


def test_a_canary_that_does_not_comply_stops_it_and_the_others_only_look(fleet: Fleet) -> None:
    story = PolicyRollout(fleet, "stopped")
    story.prepare("prod-canary-west")
    nowhere = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "no-such-place"}}
    story.write({"complianceType": "musthave", "objectDefinition": nowhere}, strategy=per_group(progressDeadline="10m"))
    story.wait("Failed")
    assert story.standing() == {"west": "Failed", "east": "ToApply", "south": "ToApply"}
    for cluster in ("east", "south"):
        assert story.replica(cluster)["spec"]["remediationAction"] == "inform"
    shown = fleet.echelon("rollout", "status", "policy/stopped", "-n", "stopped").text
    assert "stopped" in shown
    assert 'namespaces "no-such-place" not found' in " ".join(shown.replace("│", " ").split())
    preview = fleet.echelon("policy", "diff", "stopped", "-n", "stopped")
    assert preview.code == 1
    assert "create ConfigMap no-such-place/settings" in preview.text


def test_what_must_be_there_is_and_what_must_not_is_not_and_drift_is_healed(fleet: Fleet) -> None:
    story = PolicyRollout(fleet, "kinds")
    for cluster in CLUSTERS:
        fleet.kubectl("create", "configmap", "unwanted", "-n", "default", "--from-literal=a=b", where=cluster)
        fleet.kubectl("create", "configmap", "exact", "-n", "default", "--from-literal=more=x", where=cluster)
    story.prepare()
    story.write(
        must("musthave", "part", a="1"), must("mustnothave", "unwanted"), must("mustonlyhave", "exact", only="this")
    )
    story.wait("Succeeded")
    for cluster in CLUSTERS:
        assert story.data(cluster, "part") == {"a": "1"}
        assert story.data(cluster, "exact") == {"only": "this"}
        assert fleet.get("configmap", "unwanted", "default", where=cluster) == {}
    fleet.kubectl("patch", "configmap", "part", "-n", "default", "-p", '{"data":{"a":"2","b":"3"}}', where="west")
    fleet.kubectl("create", "configmap", "unwanted", "-n", "default", where="east")
    fleet.kubectl("delete", "configmap", "exact", "-n", "default", where="south")
    fleet.until(lambda: story.data("west", "part") == {"a": "1", "b": "3"}, "the value is not back")
    fleet.until(lambda: not fleet.get("configmap", "unwanted", "default", where="east"), "it was not deleted again")
    fleet.until(lambda: story.data("south", "exact") == {"only": "this"}, "it was not made again")
    # What the policy made goes with it.
    fleet.kubectl("delete", "policies.policy.open-cluster-management.io", "kinds", "-n", "kinds")
    fleet.until(lambda: not fleet.get("configmap", "part", "default", where="west"), "it stays without its policy")


def test_an_inform_policy_has_succeeded_when_everybody_has_looked(fleet: Fleet) -> None:
    story = PolicyRollout(fleet, "looking")
    story.prepare("prod-canary-west")
    story.write(must("musthave", "absent", a="1"), strategy=per_group(), action="inform")
    story.wait("Succeeded")
    assert story.policy()["status"]["compliant"] == "NonCompliant"
    assert story.data("west", "absent") == {}
