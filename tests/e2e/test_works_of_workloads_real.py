"""Works of federated workloads on a real cluster: its own controllers, and an agent that has the guide's rights."""

import json
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.engine.align import MemberView
from echelon.engine.align.reflection import read_snapshot
from echelon.engine.workload.names import BINDING_UID, FINALIZER, MANAGED, PUSH_ID
from tests.e2e.fleet import Fleet

pytestmark = pytest.mark.xdist_group("fleet")

CLUSTER, SPACE, WORKS = "west", "karmada-es-west", "works.work.karmada.io"


def manifest(push: int, image: str = "web:1", *, unavailable: int = 1, surge: int = 1, **spec: Any) -> JSONObject:
    labels = spec.pop("selected", {"app": "web"})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "workloads",
            "labels": {MANAGED: "true"},
            "annotations": {PUSH_ID: str(push), BINDING_UID: "b"},
        },
        "spec": {
            "replicas": 4,
            "paused": False,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge},
            },
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}},
            **spec,
        },
    }


class Story:
    """A work, and what is told of it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def send(self, body: JSONObject) -> None:
        meta = {"name": "web", "namespace": SPACE, "finalizers": [FINALIZER]}
        work = {"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": meta}
        self.fleet.apply([{**work, "spec": {"workload": {"manifests": [body]}}}])

    def status(self) -> JSONObject:
        listed = self.fleet.get(WORKS, "web", SPACE).get("status", {}).get("manifestStatuses") or [{}]
        found: JSONObject = listed[0].get("status") or {}
        return found

    def view(self) -> MemberView | None:
        return read_snapshot(self.status())

    def applied(self) -> JSONObject:
        generation = self.fleet.get(WORKS, "web", SPACE)["metadata"]["generation"]
        said = self.fleet.condition("Applied", WORKS, "web", SPACE)
        return said if said.get("observedGeneration") == generation else {}

    def live(self) -> JSONObject:
        return self.fleet.get("deployment", "web", "workloads", where=CLUSTER)

    def wait_settled(self, push: int) -> MemberView:
        def so() -> bool:
            view = self.view()
            return view is not None and (view.push_id, view.available, view.updated, view.settled) == (push, 4, 4, True)

        self.fleet.until(so, f"push {push} has not settled: {self.status()}")
        found = self.view()
        assert found is not None
        return found

    def wait_said(self, reason: str) -> str:
        self.fleet.until(lambda: self.applied().get("reason") == reason, f"nobody says {reason}: {self.applied()}")
        return str(self.applied()["message"])


@pytest.fixture(scope="module")
def story(fleet: Fleet) -> Story:
    fleet.kubectl("apply", "--server-side", "-f", "-", stdin=fleet.echelon("crds", WORKS).text)
    fleet.kubectl("wait", "--for=condition=Established", f"crd/{WORKS}", "--timeout=60s")
    fleet.until(lambda: fleet.get("rolebinding", f"open-cluster-management:{CLUSTER}:agent", SPACE), "no rights")
    fleet.kill_agent(CLUSTER)  # it has found no works on the hub, and would ask again only after some minutes
    fleet.start_agent(CLUSTER)
    return Story(fleet)


def test_an_agent_has_rights_to_the_works_of_its_cluster_and_to_no_others(story: Story) -> None:
    def may(verb: str, what: str, namespace: str = SPACE) -> bool:
        identity = story.fleet.identity(CLUSTER)
        return story.fleet.ask("auth", "can-i", verb, what, "-n", namespace, kubeconfig=identity).code == 0

    assert all(may(verb, WORKS) for verb in ("get", "list", "watch", "update", "patch"))
    assert may("patch", f"{WORKS}/status")
    assert not any(may(verb, WORKS) for verb in ("create", "delete"))
    assert not may("list", WORKS, "karmada-es-east")
    assert not may("get", "secrets")


def test_a_push_is_rolled_out_and_told_until_nothing_is_under_way(story: Story) -> None:
    story.send(manifest(1))
    first = story.wait_settled(1)
    assert (first.pods, first.told, first.drift) == (4, 4, None)
    assert story.applied()["status"] == "True"
    story.send(manifest(2, "web:2"))
    second = story.wait_settled(2)
    assert second.version > first.version
    assert second.generation > first.generation
    assert story.live()["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
    health = story.fleet.get(WORKS, "web", SPACE)["status"]["manifestStatuses"][0]["health"]
    assert health == "Healthy"


def test_older_pushes_are_fenced_off_and_drift_is_put_back(story: Story) -> None:
    story.send(manifest(3, "web:2"))
    story.wait_settled(3)
    story.send(manifest(2, "web:1"))
    assert "push 2 is older" in story.wait_said("Fenced")
    story.send(manifest(4, "web:2"))
    story.wait_settled(4)
    patch = {"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": "100%"}}}}
    story.fleet.kubectl("patch", "deployment", "web", "-n", "workloads", "-p", json.dumps(patch), where=CLUSTER)
    story.fleet.until(
        lambda: story.live()["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 1, "drift was not put back"
    )
    story.wait_settled(4)


def test_what_the_server_refuses_is_told_with_its_words(story: Story) -> None:
    story.send(manifest(10, selected={"app": "other"}))
    assert "field is immutable" in story.wait_said("AppliedFailed")
    assert story.status()["refusedPushId"] == 10
    story.send(manifest(11, "web:2"))
    story.wait_settled(11)
    assert "refusedPushId" not in story.status()


def test_a_deleted_work_takes_its_deployment_along_although_its_agent_was_away(story: Story) -> None:
    story.send(manifest(20))
    story.wait_settled(20)
    story.fleet.kill_agent(CLUSTER)
    story.fleet.kubectl("delete", WORKS, "web", "-n", SPACE, "--wait=false")
    story.fleet.start_agent(CLUSTER)
    story.fleet.until(lambda: not story.fleet.get(WORKS, "web", SPACE), "the work is still there")
    assert not story.live()
