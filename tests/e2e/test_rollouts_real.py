"""Rollouts on real clusters: real API servers, real Deployments, and every part of Echelon a process of its own.

Each test has its own namespace and leaves the fleet as it found it. None asserts how long something takes; that one
thing happens after another is read from the times that are written on the objects.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from echelon.agent.settings import hub_hash
from echelon.api.base import JSONObject
from tests.e2e.conftest import CLUSTERS
from tests.e2e.fleet import Answer, Fleet

pytestmark = pytest.mark.xdist_group("fleet")

ON_HUB, ON_CLUSTER = "work.open-cluster-management.io", "cluster.open-cluster-management.io"


@dataclass(frozen=True)
class Rollout:
    """A placement and a work set of the same name, and a namespace for both, here and on the members."""

    fleet: Fleet
    name: str

    def prepare(self, *groups: str, **strategy: Any) -> None:
        """Make the namespace and a placement with named groups, for clusters that have a label of that name."""
        inside = {"namespace": self.name}
        binding = _object(f"{ON_CLUSTER}/v1beta2", "ManagedClusterSetBinding", {"name": "global", **inside})
        named = [
            {
                "groupName": group,
                "groupClusterSelector": {"labelSelector": {"matchExpressions": [{"key": group, "operator": "Exists"}]}},
            }
            for group in groups
        ]
        profile = {"matchExpressions": [{"key": "common-profile", "operator": "In", "values": ["true"]}]}
        spec = {
            "predicates": [{"requiredClusterSelector": {"labelSelector": profile}}],
            "decisionStrategy": {"groupStrategy": {"decisionGroups": named, **strategy}},
            # A cluster that cannot be reached stays selected: the rollout has to deal with it.
            "tolerations": [{"key": f"{ON_CLUSTER}/{why}"} for why in ("unreachable", "unavailable")],
        }
        self.fleet.apply(
            [
                _object("v1", "Namespace", {"name": self.name}),
                {**binding, "spec": {"clusterSet": "global"}},
                _object(f"{ON_CLUSTER}/v1beta1", "Placement", {"name": self.name, **inside}, spec=spec),
            ]
        )

    def roll_out(self, image: str, strategy: JSONObject, *, schedulable: bool = True, **spec: Any) -> None:
        """Create the work set or change it: a Deployment with an image, if need be one for which there is no node."""
        pod: JSONObject = {"containers": [{"name": "web", "image": image}]}
        pod |= {} if schedulable else {"nodeSelector": {"no-node": "has-this-label"}}
        labels = {"app": self.name}
        deployment = {
            "replicas": 2,
            "progressDeadlineSeconds": 600 if schedulable else 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        manifests = [
            _object("v1", "Namespace", {"name": self.name}),
            _object("apps/v1", "Deployment", {"name": "web", "namespace": self.name}, spec=deployment),
        ]
        body = {
            "placementRefs": [{"name": self.name, "rolloutStrategy": strategy}],
            "manifestWorkTemplate": {"workload": {"manifests": manifests}},
            **spec,
        }
        meta = {"name": self.name, "namespace": self.name}
        self.fleet.apply([_object(f"{ON_HUB}/v1alpha1", "ManifestWorkReplicaSet", meta, spec=body)])

    def ask(self, verb: str, *options: str) -> Answer:
        return self.fleet.echelon("rollout", verb, self.name, "-n", self.name, *options)

    def work_set(self) -> JSONObject:
        return self.fleet.get("manifestworkreplicaset", self.name, self.name)

    def condition(self, of: str) -> JSONObject:
        """Return a condition of the set if it is about the present spec."""
        found = self.work_set()
        said: list[JSONObject] = found.get("status", {}).get("conditions", [])
        generation = found["metadata"]["generation"]
        return next((each for each in said if each["type"] == of and each["observedGeneration"] == generation), {})

    def wait(self, of: str, status: str = "True") -> None:
        self.fleet.until(lambda: self.condition(of).get("status") == status, f"{self.name} is not {of}={status}")

    def standing(self) -> dict[str, str]:
        """Return the status of every cluster, as the set has it."""
        listed = self.work_set().get("status", {}).get("rollout", {}).get("clusters", [])
        named = [
            (name, each["status"]) for each in listed for name in (each["cluster"], *each.get("others", "").split(", "))
        ]
        return {name: status for name, status in named if name}

    def work(self, cluster: str) -> JSONObject:
        return self.fleet.get("manifestwork", self.name, cluster)

    def written(self, cluster: str) -> datetime:
        return datetime.fromisoformat(self.work(cluster)["metadata"]["annotations"]["echelon.dev/written-at"])

    def succeeded(self, cluster: str) -> datetime:
        """Return since when nothing on the cluster is progressing any more."""
        said = {each["type"]: each for each in self.work(cluster)["status"]["conditions"]}["Progressing"]
        assert said["status"] == "False"
        return datetime.fromisoformat(said["lastTransitionTime"])

    def deployment(self, cluster: str) -> JSONObject:
        return self.fleet.get("deployment", "web", self.name, where=cluster)

    def record(self, cluster: str) -> JSONObject:
        """Return what the member has of its work, under the name that upstream's agents give it."""
        return self.fleet.get("appliedmanifestwork", f"{hub_hash(self.fleet.url)}-{self.name}", where=cluster)

    def running(self) -> dict[str, str]:
        """Return the image of every cluster whose Deployment is complete, as Kubernetes itself sees it."""
        seen = {cluster: self.deployment(cluster) for cluster in CLUSTERS}
        return {cluster: _image(each) for cluster, each in seen.items() if each and _is_complete(each)}


def _object(api_version: str, kind: str, metadata: JSONObject, **body: Any) -> JSONObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def _image(deployment: JSONObject) -> str:
    image: str = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def _is_complete(deployment: JSONObject) -> bool:
    status, wanted = deployment["status"], deployment["spec"]["replicas"]
    seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    counts = [status.get(each, 0) for each in ("replicas", "updatedReplicas", "availableReplicas")]
    return bool(seen and counts == [wanted] * 3)


def _progressive(**config: Any) -> JSONObject:
    return {"type": "Progressive", "progressive": config}


def everywhere(image: str) -> dict[str, str]:
    return dict.fromkeys(CLUSTERS, image)


def test_canary_groups_come_first_and_one_after_the_other(fleet: Fleet) -> None:
    ztp = Rollout(fleet, "ztp")
    soak = timedelta(seconds=2)
    ztp.prepare("prod-canary-west", "prod-canary-east", clustersPerDecisionGroup=150)
    canaries = [{"groupName": group} for group in ("prod-canary-west", "prod-canary-east")]
    config = {"mandatoryDecisionGroups": canaries, "progressDeadline": "50m", "minSuccessTime": "2s"}
    ztp.roll_out("example.com/web:1", _progressive(**config))

    watched = ztp.ask("watch", "--timeout", "120")
    assert (watched.code, watched.text.splitlines()[-1]) == (0, "complete, 3 of 3 done")
    assert ztp.running() == everywhere("example.com/web:1")
    # Nobody was written to before the group before it had succeeded and been watched for a while.
    assert ztp.written("east") >= ztp.succeeded("west") + soak
    assert ztp.written("south") >= ztp.succeeded("east") + soak

    shown = ztp.ask("status", "-o", "wide").text
    for line in ("prod-canary-west (0)  1 of 1 done", "prod-canary-east (1)  1 of 1 done", "group 2  1 of 1 done"):
        assert line in shown
    assert shown.count("Deployment ztp/web") == 3
    said = {each["type"]: (each["status"], each["reason"]) for each in ztp.work_set()["status"]["conditions"]}
    assert said == {
        "PlacementVerified": ("True", "AsExpected"),
        "PlacementRolledOut": ("True", "Complete"),
        "ManifestworkApplied": ("True", "AsExpected"),
        "RolloutBlocked": ("False", "NotBlocked"),
        "ClustersTimedOut": ("False", "NoneTimedOut"),
    }
    summary = {"total": 3, "applied": 3, "available": 3, "degraded": 0, "progressing": 0}
    assert ztp.work_set()["status"]["summary"] == {**summary, "desiredTotal": 3, "updated": 3}


def test_objects_carry_what_upstream_knows_them_by(fleet: Fleet) -> None:
    marks = Rollout(fleet, "marks")
    marks.prepare()
    marks.roll_out("example.com/web:1", {"type": "All"})
    marks.wait("PlacementRolledOut")
    assert marks.work_set()["metadata"]["finalizers"] == [f"{ON_HUB}/manifest-work-cleanup"]
    labels = {f"{ON_HUB}/manifestworkreplicaset": "marks.marks", f"{ON_HUB}/placementname": "marks"}
    for cluster in CLUSTERS:
        work, record, live = marks.work(cluster), marks.record(cluster), marks.deployment(cluster)
        assert work["metadata"]["finalizers"] == [f"{ON_CLUSTER}/manifest-work-cleanup"]
        assert work["metadata"]["labels"] == labels
        assert record["metadata"]["finalizers"] == [f"{ON_CLUSTER}/applied-manifest-work-cleanup"]
        assert record["metadata"]["labels"] == labels
        assert record["spec"]["manifestWorkName"] == "marks"
        applied = {each["resource"]: each["uid"] for each in record["status"]["appliedResources"]}
        assert applied["deployments"] == live["metadata"]["uid"]
        owner = {"apiVersion": f"{ON_HUB}/v1", "kind": "AppliedManifestWork", "name": record["metadata"]["name"]}
        assert live["metadata"]["ownerReferences"] == [{**owner, "uid": record["metadata"]["uid"]}]


def test_a_hub_that_was_set_up_as_the_guide_says_lacks_nothing(fleet: Fleet) -> None:
    found = fleet.echelon("doctor")
    assert found.code == 0, found.text


def test_an_agent_has_no_business_in_the_namespace_of_another_cluster(fleet: Fleet) -> None:
    west = fleet.identity("west")
    assert fleet.ask("get", "manifestworks", "-n", "west", kubeconfig=west).code == 0
    refused = fleet.ask("get", "manifestworks", "-n", "east", kubeconfig=west)
    assert "system:serviceaccount:west:echelon-agent" in refused.text
    assert "Forbidden" in refused.text
    assert fleet.ask("get", "secrets", "-n", "west", kubeconfig=west).code == 1


def test_a_failing_canary_stops_the_rest_and_undo_heals_it(fleet: Fleet) -> None:
    shop = Rollout(fleet, "shop")
    shop.prepare("prod-canary-west")
    strategy = _progressive(mandatoryDecisionGroups=[{"groupName": "prod-canary-west"}], maxConcurrency=2)
    shop.roll_out("example.com/web:1", strategy)
    shop.wait("PlacementRolledOut")
    untouched = {cluster: shop.work(cluster)["metadata"]["generation"] for cluster in ("east", "south")}

    # The new pods wait for a node until the Deployment gives up.
    shop.roll_out("example.com/web:2", strategy, schedulable=False)
    watched = shop.ask("watch", "--timeout", "120")
    assert watched.code == 1
    assert watched.text.splitlines()[-1].startswith("stopped, 0 of 3 done, 1 failed, 2 waiting")
    shown = " ".join(shop.ask("status").text.replace("│", " ").split())
    assert "1 failure in group prod-canary-west (0) (west), none tolerated" in shown
    assert "Deployment shop/web: ReplicaSet" in shown
    # Why, in the words of the scheduler: in the tree, and where kubectl looks.
    why = "has timed out progressing: FailedScheduling: 0/"
    assert why in shown
    shop.wait("RolloutBlocked")
    assert why in " ".join(fleet.kubectl("describe", "mwrs", "shop", "-n", "shop").split())
    listed = fleet.kubectl("get", "mwrs", "shop", "-n", "shop").splitlines()
    assert listed[0].split() == ["NAME", "STATE", "DONE", "AGE"]
    assert listed[1].split()[:3] == ["shop", "MaxFailuresExceeded", "0/3"]
    wanted = shop.work("west")["status"]["resourceStatus"]["manifests"][1]["conditions"]
    assert next(each["reason"] for each in wanted if each["type"] == "Degraded") == "ProgressDeadlineExceeded"
    assert shop.condition("RolloutBlocked")["reason"] == "MaxFailuresExceeded"
    assert _image(shop.deployment("west")) == "example.com/web:2"
    assert shop.running() == {"east": "example.com/web:1", "south": "example.com/web:1"}
    assert {cluster: shop.work(cluster)["metadata"]["generation"] for cluster in untouched} == untouched

    assert shop.ask("undo").text == "rollout shop/shop goes back to revision 1\n"
    shop.wait("PlacementRolledOut")
    assert shop.ask("watch", "--timeout", "120").code == 0
    assert shop.running() == everywhere("example.com/web:1")
    shop.wait("RolloutBlocked", "False")


def test_an_unreachable_cluster_times_out_and_catches_up_when_it_is_back(fleet: Fleet) -> None:
    dark = Rollout(fleet, "dark")
    dark.prepare("prod-canary-west")
    deadline = timedelta(seconds=20)
    canary = [{"groupName": "prod-canary-west"}]
    strategy = _progressive(
        mandatoryDecisionGroups=canary, maxConcurrency=1, maxFailures=1, progressDeadline="20s", minSuccessTime="0s"
    )
    fleet.kill_agent("east")
    try:
        dark.roll_out("example.com/web:1", strategy)
        wanted = {"west": "Succeeded", "east": "TimeOut", "south": "Succeeded"}
        fleet.until(lambda: dark.standing() == wanted, "the others did not go on")
        assert dark.written("south") >= dark.written("east") + deadline
        assert dark.running().keys() == {"west", "south"}
        timed_out = dark.condition("ClustersTimedOut")
        assert (timed_out["status"], timed_out["reason"]) == ("True", "ProgressDeadlineExceeded")
        assert "east" in timed_out["message"]
        assert dark.condition("PlacementRolledOut")["status"] == "False"
        assert "the agent has not reported on it yet" in dark.ask("status").text
    finally:
        fleet.start_agent("east")
    dark.wait("PlacementRolledOut")
    assert dark.running() == everywhere("example.com/web:1")
    dark.wait("ClustersTimedOut", "False")
    assert dark.ask("watch", "--timeout", "120") == Answer(0, "complete, 3 of 3 done\n")


def test_foreground_deletion_waits_for_the_objects_on_the_members(fleet: Fleet) -> None:
    end = Rollout(fleet, "end")
    end.prepare()
    end.roll_out("example.com/web:1", {"type": "All"}, cascadeDeletionPolicy="Foreground")
    end.wait("PlacementRolledOut")
    fleet.kubectl("patch", "deployment", "web", "-n", "end", *_finalizers('["example.com/hold"]'), where="east")

    fleet.kubectl("delete", "manifestworkreplicaset", "end", "-n", "end", "--wait=false")
    fleet.until(lambda: not end.work("west") and not end.work("south"), "works of others did not end")
    assert all(not end.deployment(cluster) and not end.record(cluster) for cluster in ("west", "south"))
    fleet.until(lambda: "deletionTimestamp" in end.deployment("east")["metadata"], "east does not let go")
    assert end.work_set()["metadata"]["finalizers"] == [f"{ON_HUB}/manifest-work-cleanup"]
    assert "deleting" in end.ask("status").text

    fleet.kubectl("patch", "deployment", "web", "-n", "end", *_finalizers("null"), where="east")
    fleet.until(lambda: not end.work_set(), "the set did not end")
    assert not end.work("east")
    assert not end.record("east")
    assert not end.deployment("east")
    fleet.until(lambda: _revisions(fleet, "end") == "", "the revisions outlive their set")

    end.roll_out("example.com/web:2", {"type": "All"})
    end.wait("PlacementRolledOut")
    assert end.running() == everywhere("example.com/web:2")


def _finalizers(listed: str) -> tuple[str, ...]:
    return ("--type=merge", "-p", f'{{"metadata":{{"finalizers":{listed}}}}}')


def _revisions(fleet: Fleet, namespace: str) -> str:
    return fleet.kubectl("get", "controllerrevisions", "-n", namespace, "-o", "name")
