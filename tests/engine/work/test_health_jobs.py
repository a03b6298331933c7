"""Pods and jobs, as kubelets and controllers report them."""

import pytest

from echelon.api.base import JSONObject
from echelon.engine.work.health import HEALTHY, Degraded, Progressing, health
from tests.engine.work.statuses import made, said


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"completions": 3}, {"succeeded": 1}, Progressing("JobRunning", "1 of 3 complete")),
        ({}, {}, Progressing("JobRunning", "0 of 1 complete")),
        ({"suspend": True}, {"conditions": [said("Suspended", "True")]}, Progressing("Suspended", "is suspended")),
        (
            {},
            {"conditions": [said("SuccessCriteriaMet", "True")], "succeeded": 1},
            Progressing("JobRunning", "1 of 1 complete"),
        ),
        ({}, {"conditions": [said("Complete", "True")]}, HEALTHY),
        (
            {},
            {"conditions": [said("Failed", "True", "BackoffLimitExceeded", "Job has reached the backoff limit")]},
            Degraded("JobFailed", "Job has reached the backoff limit"),
        ),
        ({}, {"conditions": [said("Failed", "False")]}, Progressing("JobRunning", "0 of 1 complete")),
    ],
)
def test_a_job_is_done_when_it_is_complete(spec: JSONObject, status: JSONObject, expected: object) -> None:
    assert health(made("batch/v1", "Job", spec, status)) == expected


def pod(status: JSONObject) -> JSONObject:
    return made("v1", "Pod", {}, status)


def waiting(reason: str, message: str = "", containers: str = "containerStatuses") -> JSONObject:
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "phase": "Pending",
        containers: [{"name": "app", "state": {"running": {}}}, {"name": "web", "state": state}],
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Running", "conditions": [said("Ready", "True")]}, HEALTHY),
        ({"phase": "Succeeded", "conditions": [said("Ready", "False", "PodCompleted")]}, HEALTHY),
        ({"phase": "Failed", "reason": "Evicted"}, Degraded("PodFailed", "Evicted")),
        (
            {
                "phase": "Running",
                "conditions": [said("Ready", "False", message="containers with unready status: [web]")],
            },
            Progressing("PodNotReady", "containers with unready status: [web]"),
        ),
        (
            {"phase": "Pending", "conditions": [said("PodScheduled", "False", "Unschedulable", "0/3 nodes")]},
            Progressing("Unscheduled", "0/3 nodes"),
        ),
        ({}, Progressing("PodNotReady", "is pending and not ready")),
        (waiting("ContainerCreating"), Progressing("PodNotReady", "is pending and not ready")),
        (
            waiting("CrashLoopBackOff", "back-off 5m0s"),
            Degraded("CrashLoopBackOff", "container web: CrashLoopBackOff: back-off 5m0s"),
        ),
        (waiting("ErrImagePull"), Degraded("ErrImagePull", "container web: ErrImagePull")),
        (
            waiting("ImagePullBackOff", containers="initContainerStatuses"),
            Degraded("ImagePullBackOff", "container web: ImagePullBackOff"),
        ),
        (
            waiting("CreateContainerConfigError", 'secret "db" not found'),
            Degraded("CreateContainerConfigError", 'container web: CreateContainerConfigError: secret "db" not found'),
        ),
    ],
)
def test_a_pod_is_judged_by_its_containers_and_its_readiness(status: JSONObject, expected: object) -> None:
    assert health(pod(status)) == expected
