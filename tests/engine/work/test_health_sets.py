"""CloneSets and sets of pod cliques, which may be told to keep old pods."""

from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.engine.work.health import HEALTHY, Degraded, Healthy, Progressing, health
from tests.engine.work.statuses import made, said


def clones(status: JSONObject, **strategy: Any) -> JSONObject:
    return made("apps.kruise.io/v1alpha1", "CloneSet", {"replicas": 5, "updateStrategy": strategy}, status)


def cloned(current: str, *numbers: int) -> JSONObject:
    observed, total, updated, ready, available = numbers
    return {
        "currentRevision": current,
        "updateRevision": "b",
        "observedGeneration": observed,
        "replicas": total,
        "updatedReplicas": updated,
        "updatedReadyReplicas": ready,
        "readyReplicas": available,
        "availableReplicas": available,
    }


@pytest.mark.parametrize(
    ("status", "strategy", "message"),
    [
        (cloned("a", 2, 5, 5, 5, 5), {}, "the controller has not seen the present spec yet"),
        (cloned("a", 3, 5, 1, 1, 5), {}, "1 of 5 updated"),
        (cloned("a", 3, 5, 5, 4, 5), {}, "4 of 5 updated and available"),
        (cloned("a", 3, 6, 5, 5, 6), {}, "1 more than 5 running"),
        (cloned("a", 3, 5, 1, 1, 5), {"partition": 3}, "1 of 2 updated"),
        (cloned("a", 3, 5, 2, 1, 5), {"partition": 3}, "1 of 2 updated and available"),
        (cloned("a", 3, 5, 2, 2, 4), {"partition": 3}, "4 of 5 available"),
        (cloned("a", 3, 5, 1, 1, 5), {"partition": "55%"}, "1 of 2 updated"),
        (cloned("a", 3, 5, 0, 0, 5), {"partition": "99%"}, "0 of 1 updated"),
        (cloned("a", 3, 5, 1, 1, 5), {"paused": True}, "is paused with 1 of 5 updated"),
        (cloned("b", 3, 5, 5, 3, 3), {}, "3 of 5 available"),
    ],
)
def test_a_clone_set_is_progressing(status: JSONObject, strategy: JSONObject, message: str) -> None:
    judged = health(clones(status, **strategy))
    assert isinstance(judged, Progressing)
    assert judged.message == message


@pytest.mark.parametrize(
    ("status", "strategy"),
    [
        (cloned("b", 3, 5, 5, 5, 5), {}),
        (cloned("a", 3, 5, 5, 5, 5), {}),
        (cloned("a", 3, 5, 2, 2, 5), {"partition": 3}),
        (cloned("a", 3, 5, 2, 2, 5), {"partition": "60%", "paused": True}),
        (cloned("a", 3, 5, 0, 0, 5), {"partition": "100%"}),
        (cloned("a", 3, 5, 0, 0, 5), {"partition": 9}),
    ],
)
def test_a_clone_set_is_healthy_with_its_partition_kept_old(status: JSONObject, strategy: JSONObject) -> None:
    assert health(clones(status, **strategy)) == HEALTHY


def test_a_clone_set_that_cannot_change_its_pods_is_degraded() -> None:
    status = {**cloned("a", 3, 5, 1, 1, 5), "conditions": [said("FailedScale", "True", message="quota")]}
    assert health(clones(status)) == Degraded("FailedScale", "quota")


def cliques(status: JSONObject, strategy: str = "RollingRecreate", **annotations: str) -> JSONObject:
    spec = {"replicas": 2, "updateStrategy": {"type": strategy}}
    found = made("grove.io/v1alpha1", "PodCliqueSet", spec, {"observedGeneration": 3, **status})
    noted = {f"echelon.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {**found, "metadata": {**found["metadata"], "annotations": noted}}


def test_a_pod_clique_set_is_done_when_its_replicas_are_updated_and_available() -> None:
    ended = {"updateStartedAt": "2026-01-01T00:00:00Z", "updateEndedAt": "2026-01-01T00:10:00Z"}
    started = {"updateStartedAt": "2026-01-01T00:00:00Z"}
    done = {"updatedReplicas": 2, "availableReplicas": 2}
    assert health(cliques(done)) == HEALTHY
    assert health(cliques({**done, "updateProgress": ended})) == HEALTHY
    assert isinstance(health(cliques({**done, "updateProgress": started})), Progressing)
    assert isinstance(health(cliques({**done, "observedGeneration": 2})), Progressing)
    assert health(cliques({**done, "updatedReplicas": 1})) == Progressing("Updating", "1 of 2 updated")
    errors = [{"code": "ERR", "description": "no topology"}]
    assert health(cliques({**done, "availableReplicas": 1, "lastErrors": errors})) == Progressing(
        "Unavailable", "1 of 2 available; no topology"
    )


def test_a_pod_clique_set_under_on_delete_waits_for_no_update() -> None:
    assert health(cliques({"updatedReplicas": 0, "availableReplicas": 2}, "OnDelete")) == HEALTHY
    assert isinstance(health(cliques({"updatedReplicas": 2, "availableReplicas": 1}, "OnDelete")), Progressing)


def test_a_pod_clique_set_under_on_delete_tells_of_outdated_pods_and_waits_for_them_where_it_is_told_to() -> None:
    left = {"updatedReplicas": 0, "availableReplicas": 2, "outdatedPodsCount": 3}
    told = "pods that run an older template until somebody deletes them: 3"
    assert health(cliques(left, "OnDelete")) == Healthy(told)
    assert health(cliques(left, "OnDelete", wait_for_updated="false")) == Healthy(told)
    assert health(cliques(left, "OnDelete", wait_for_updated="true")) == Progressing("Outdated", told)
    assert health(cliques({**left, "outdatedPodsCount": 0}, "OnDelete", wait_for_updated="true")) == HEALTHY


def test_a_pod_clique_set_that_is_not_accepted_is_degraded() -> None:
    refused = {"conditions": [said("Accepted", "False", message="clique a starts after itself")]}
    done = {"updatedReplicas": 2, "availableReplicas": 2, **refused}
    assert health(cliques(done)) == Degraded("NotAccepted", "clique a starts after itself")
