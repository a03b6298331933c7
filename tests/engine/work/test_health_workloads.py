"""Stage by stage: a set of pods must not count as done one stage too early."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.engine.work.health import HEALTHY, Degraded, Progressing, health
from tests.engine.work.statuses import counts, deployment, made, said


@pytest.mark.parametrize(
    ("stage", "status", "message"),
    [
        ("nothing was reported yet", {}, "the controller has not seen the present spec yet"),
        ("only the old spec was seen", counts(2, 5, 5, 5), "the controller has not seen the present spec yet"),
        ("the new ReplicaSet is empty", counts(3, 5, 0, 5), "0 of 5 updated"),
        ("a surge has begun", counts(3, 6, 2, 5), "2 of 5 updated"),
        ("all are new and old ones still serve", counts(3, 6, 5, 5), "1 old still running"),
        ("all are new and some are starting", counts(3, 5, 5, 4), "4 of 5 available"),
        ("too many after scaling down", counts(3, 7, 7, 7), "2 more than 5 running"),
    ],
)
def test_a_deployment_is_progressing_while(stage: str, status: JSONObject, message: str) -> None:
    assert stage
    judged = health(deployment(status))
    assert isinstance(judged, Progressing)
    assert judged.message == message


def test_a_deployment_is_healthy_when_all_pods_are_new_and_available_and_no_other_is_left() -> None:
    assert health(deployment(counts(3, 5, 5, 5))) == HEALTHY
    assert health(deployment({"observedGeneration": 3}, replicas=0)) == HEALTHY


def test_a_deployment_without_replicas_in_its_spec_wants_one() -> None:
    assert health(made("apps/v1", "Deployment", {}, counts(3, 1, 1, 0))) == Progressing(
        "Unavailable", "0 of 1 available"
    )
    assert health(made("apps/v1", "Deployment", {}, counts(3, 1, 1, 1))) == HEALTHY


def test_a_deployment_that_missed_its_deadline_is_degraded_with_its_own_words() -> None:
    late = said("Progressing", "False", "ProgressDeadlineExceeded", 'ReplicaSet "web-1" has timed out progressing.')
    status = counts(3, 6, 2, 4, conditions=[said("Available", "True"), late])
    assert health(deployment(status)) == Degraded("ProgressDeadlineExceeded", late["message"])


def test_a_missed_deadline_of_the_old_spec_says_nothing_about_the_new_one() -> None:
    late = said("Progressing", "False", "ProgressDeadlineExceeded")
    assert isinstance(health(deployment(counts(2, 6, 2, 4, conditions=[late]))), Progressing)


def test_a_deployment_whose_pods_are_refused_is_degraded() -> None:
    refused = said("ReplicaFailure", "True", "FailedCreate", "exceeded quota: pods")
    status = counts(3, 3, 3, 3, conditions=[refused])
    assert health(deployment(status)) == Degraded("ReplicaFailure", "exceeded quota: pods")


def test_a_paused_deployment_waits_only_if_an_update_is_outstanding() -> None:
    assert health(deployment(counts(3, 5, 2, 5), paused=True)) == Progressing("Paused", "is paused with 2 of 5 updated")
    assert health(deployment(counts(3, 5, 5, 5), paused=True)) == HEALTHY


def stateful(status: JSONObject, **strategy: Any) -> JSONObject:
    return made("apps/v1", "StatefulSet", {"replicas": 3, "updateStrategy": strategy}, status)


def revisions(current: str, update: str, *numbers: int) -> JSONObject:
    return {**counts(*numbers), "currentRevision": current, "updateRevision": update}


@pytest.mark.parametrize(
    ("status", "strategy", "message"),
    [
        (revisions("a", "b", 2, 3, 3, 3), {}, "the controller has not seen the present spec yet"),
        (revisions("a", "b", 3, 3, 1, 3), {}, "1 of 3 updated"),
        (revisions("a", "b", 3, 3, 3, 3), {}, "the new revision is not yet the current one"),
        (revisions("b", "b", 3, 3, 3, 2), {}, "2 of 3 available"),
        (revisions("b", "b", 3, 2, 2, 2), {}, "2 of 3 available"),
        (revisions("b", "b", 3, 4, 4, 4), {}, "1 more than 3 running"),
        (revisions("a", "b", 3, 3, 0, 3), {"rollingUpdate": {"partition": 2}}, "0 of 1 updated"),
        (revisions("a", "b", 3, 3, 1, 2), {"rollingUpdate": {"partition": 2}}, "2 of 3 available"),
        (revisions("a", "b", 3, 3, 0, 1), {"type": "OnDelete"}, "1 of 3 available"),
    ],
)
def test_a_stateful_set_is_progressing(status: JSONObject, strategy: JSONObject, message: str) -> None:
    judged = health(stateful(status, **strategy))
    assert isinstance(judged, Progressing)
    assert judged.message == message


@pytest.mark.parametrize(
    ("status", "strategy"),
    [
        (revisions("b", "b", 3, 3, 3, 3), {}),
        (revisions("a", "b", 3, 3, 1, 3), {"rollingUpdate": {"partition": 2}}),
        (revisions("a", "b", 3, 3, 0, 3), {"rollingUpdate": {"partition": 7}}),
        (revisions("a", "b", 3, 3, 0, 3), {"type": "OnDelete"}),
        ({"observedGeneration": 3, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3}, {}),
    ],
)
def test_a_stateful_set_is_healthy_with_the_pods_old_that_its_strategy_keeps(
    status: JSONObject, strategy: JSONObject
) -> None:
    assert health(stateful(status, **strategy)) == HEALTHY


def daemon(observed: int, wanted: int, updated: int, available: int, **strategy: Any) -> JSONObject:
    status = {
        "observedGeneration": observed,
        "desiredNumberScheduled": wanted,
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
    }
    return made("apps/v1", "DaemonSet", {"updateStrategy": strategy}, status)


def test_a_daemon_set_is_done_when_every_node_has_a_new_and_available_pod() -> None:
    assert isinstance(health(daemon(2, 4, 4, 4)), Progressing)
    assert health(daemon(3, 4, 1, 4)) == Progressing("Updating", "1 of 4 updated")
    assert health(daemon(3, 4, 4, 3)) == Progressing("Unavailable", "3 of 4 available")
    assert health(daemon(3, 4, 4, 4)) == HEALTHY
    assert health(daemon(3, 0, 0, 0)) == HEALTHY
    assert health(daemon(3, 4, 1, 4, type="OnDelete")) == HEALTHY


def test_a_replica_set_is_done_when_its_pods_are_available() -> None:
    spec = {"replicas": 2}
    assert health(made("apps/v1", "ReplicaSet", spec, counts(3, 2, 0, 2))) == HEALTHY
    assert isinstance(health(made("apps/v1", "ReplicaSet", spec, counts(3, 2, 0, 1))), Progressing)
    failing = counts(3, 1, 0, 1, conditions=[said("ReplicaFailure", "True", "FailedCreate", "forbidden")])
    assert health(made("apps/v1", "ReplicaSet", spec, failing)) == Degraded("ReplicaFailure", "forbidden")


@given(
    numbers=st.tuples(*[st.integers(0, 6)] * 4),
    wanted=st.integers(0, 6),
)
def test_a_deployment_is_done_only_with_exactly_the_wanted_pods_all_new_and_available(
    numbers: tuple[int, int, int, int], wanted: int
) -> None:
    observed, total, updated, available = numbers
    done = observed >= 3 and total == updated == wanted <= available
    # A real status never has more updated or available pods than pods.
    if updated <= total and available <= total:
        assert (health(deployment(counts(*numbers), replicas=wanted)) == HEALTHY) == done
