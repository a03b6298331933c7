"""What keeps a pod from serving, in one line."""

from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.engine.work.pod_trouble import (
    CANNOT_START,
    CRASHES,
    HAS_FAILED,
    NO_NODE,
    NOT_READY,
    STARTING,
    last_line,
    one_line,
    pod_trouble,
)
from tests.engine.work.statuses import said

IMAGE = "shop.example/web:2"
OOM = {"exitCode": 137, "reason": "OOMKilled"}
PANIC = {"exitCode": 2, "reason": "Error", "message": "starting\npanic: no route to db\n\n"}


def pod(status: JSONObject, *, containers: int = 1, **meta: Any) -> JSONObject:
    spec = {"containers": [{"name": f"c{number}"} for number in range(containers)]}
    return {"metadata": {"name": "web-1", **meta}, "spec": spec, "status": {"phase": "Running", **status}}


def container(state: JSONObject, last: JSONObject | None = None, **more: Any) -> JSONObject:
    return {"name": "web", "image": IMAGE, "ready": False, "state": state, "lastState": last or {}, **more}


def waiting(reason: str, message: str = "", last: JSONObject | None = None, **more: Any) -> JSONObject:
    return {"containerStatuses": [container({"waiting": {"reason": reason, "message": message}}, last, **more)]}


UNSCHEDULABLE = said("PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
UNREADY = said("Ready", "False", "ContainersNotReady", "containers with unready status: [web]")


@pytest.mark.parametrize(
    ("status", "rank", "expected"),
    [
        (
            waiting("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"'),
            CANNOT_START,
            f'ImagePullBackOff: image "{IMAGE}"',
        ),
        (
            waiting("ImagePullBackOff", f'Back-off pulling image "{IMAGE}": ErrImagePull: unauthorized'),
            CANNOT_START,
            f'ImagePullBackOff: image "{IMAGE}": unauthorized',
        ),
        (
            waiting("ErrImagePull", f'failed to pull and unpack image "{IMAGE}": not found'),
            CANNOT_START,
            f'ImagePullBackOff: failed to pull and unpack image "{IMAGE}": not found',
        ),
        (
            waiting("CreateContainerConfigError", 'secret "db" not found'),
            CANNOT_START,
            'CreateContainerConfigError: secret "db" not found',
        ),
        (
            waiting("CrashLoopBackOff", "back-off 40s restarting", {"terminated": PANIC}),
            CRASHES,
            "CrashLoopBackOff: exit code 2: panic: no route to db",
        ),
        (
            waiting("CrashLoopBackOff", "back-off 40s", {"terminated": OOM}),
            CRASHES,
            "CrashLoopBackOff: OOMKilled, exit code 137",
        ),
        (
            {"containerStatuses": [container({"running": {}}, {"terminated": PANIC})]},
            CRASHES,
            "CrashLoopBackOff: exit code 2: panic: no route to db",
        ),
        (
            {"phase": "Failed", "containerStatuses": [container({"terminated": OOM})]},
            CRASHES,
            "OOMKilled: exit code 137",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource"},
            HAS_FAILED,
            "Evicted: The node was low on resource",
        ),
        (
            {"phase": "Pending", "conditions": [UNSCHEDULABLE]},
            NO_NODE,
            "FailedScheduling: 0/3 nodes are available: 3 Insufficient cpu.",
        ),
        (
            {"phase": "Pending", "conditions": [said("PodScheduled", "False", "SchedulingGated", "gated")]},
            NO_NODE,
            "SchedulingGated: gated",
        ),
        ({"conditions": [UNREADY]}, NOT_READY, "NotReady: containers with unready status: [web]"),
        ({**waiting("ContainerCreating"), "phase": "Pending"}, STARTING, "NotReady"),
        ({}, NOT_READY, "NotReady"),
    ],
)
def test_a_pod_says_what_stands_in_its_way(status: JSONObject, rank: int, expected: str) -> None:
    found = pod_trouble(pod(status))
    assert found is not None
    assert (found.rank, found.text) == (rank, expected)
    assert found.text.startswith(found.reason)


@pytest.mark.parametrize(
    "there",
    [
        pod({"conditions": [said("Ready", "True")]}),
        pod({"phase": "Succeeded", "containerStatuses": [container({"terminated": {"exitCode": 0}})]}),
        pod(waiting("ImagePullBackOff"), deletionTimestamp="2026-05-01T12:00:00Z"),
    ],
)
def test_what_serves_has_succeeded_or_goes_is_in_no_trouble(there: JSONObject) -> None:
    assert pod_trouble(there) is None


def test_of_several_containers_the_worst_is_named() -> None:
    statuses = [
        container({"running": {}}, name="proxy", ready=True),
        container({"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": PANIC}, name="app"),
        container({"waiting": {"reason": "InvalidImageName", "message": "no"}}, name="side"),
    ]
    found = pod_trouble(pod({"containerStatuses": statuses}, containers=3))
    assert found is not None
    assert (found.container, found.text) == ("side", "InvalidImageName: no")


def test_what_a_cluster_says_fits_into_a_line_and_steers_no_terminal() -> None:
    assert one_line("a\x1b[31mb\r\n\tc\u202ed\x00") == "a [31mb c d"
    cut = one_line("word " * 1000)
    assert len(cut) <= 200
    assert cut.endswith("…")
    assert last_line("one\r\ntwo\r\n  \n") == "two"
    assert last_line("\n \n") == ""
