"""What is read of a pod, from whatever a server may hold."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.pod_clique.pod_facts import read_pod
from echelon.engine.pod_clique.tally import tally_of


def pod(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "w-0-a-x", "uid": "u", "creationTimestamp": "2026-11-01T12:00:00Z"},
        "spec": {"hostname": "w-0-a-3"},
        "status": status,
    }


def test_a_ready_pod_is_never_unhealthy_because_of_an_old_exit_code() -> None:
    crashed = {"name": "c", "started": True, "ready": True, "lastState": {"terminated": {"exitCode": 137}}}
    facts = read_pod(
        pod(phase="Running", conditions=[{"type": "Ready", "status": "True"}], containerStatuses=[crashed])
    )
    assert facts.ready
    assert not facts.failing
    assert not facts.unhealthy
    assert facts.serves


def test_a_pod_that_is_not_ready_fails_or_is_unhealthy_but_not_both() -> None:
    crashed = {"name": "c", "started": True, "ready": False, "lastState": {"terminated": {"exitCode": 1}}}
    slow = {"name": "c", "started": True, "ready": False}
    starting = {"name": "c", "started": False, "ready": False}
    facts = [read_pod(pod(phase="Running", containerStatuses=[each])) for each in (crashed, slow, starting)]
    assert [(each.failing, each.unhealthy) for each in facts] == [(True, False), (False, True), (False, False)]


def test_the_index_is_the_host_name_s_and_not_the_label_s() -> None:
    body = pod()
    body["metadata"]["labels"] = {"grove.io/podclique-pod-index": "9"}
    assert read_pod(body).index == 3
    body["spec"] = {}
    assert read_pod(body).index == 9


@pytest.mark.parametrize("hostname", ["w-0-a-", "w-0-a-x", "w-0-a-01", "w-0-a-9999999999"])
def test_a_host_name_without_an_index_tells_none(hostname: str) -> None:
    body = pod()
    body["spec"]["hostname"] = hostname
    body["metadata"]["labels"] = {"grove.io/podclique-pod-index": "2"}
    assert read_pod(body).index is None


def test_when_a_pod_ended_is_when_its_last_container_did() -> None:
    ended = [{"name": n, "state": {"terminated": {"finishedAt": f"2026-11-01T12:0{n}:00Z"}}} for n in "12"]
    facts = read_pod(pod(phase="Failed", containerStatuses=ended))
    assert facts.ended
    assert facts.ended_at == datetime(2026, 11, 1, 12, 2, tzinfo=UTC)
    assert not facts.live


def test_foreign_gates_are_told_apart() -> None:
    body = pod()
    body["spec"]["schedulingGates"] = [{"name": "grove.io/podgang-pending-creation"}, {"name": "example.com/quota"}]
    facts = read_pod(body)
    assert facts.gated
    assert facts.foreign_gates == ({"name": "example.com/quota"},)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = ("conditions", "containerStatuses", "phase", "schedulingGates", "hostname", "labels", "annotations", "nodeName")


@given(
    st.fixed_dictionaries({part: JUNK | st.dictionaries(st.sampled_from(KEYS), JUNK) for part in ("spec", "status")})
)
def test_nothing_that_a_server_may_hold_breaks_the_reading(body: dict[str, Any]) -> None:
    read_pod({"metadata": {"name": "p", "uid": "u"}, **body})


def test_the_tally_counts_live_pods_only() -> None:
    body = pod(phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    dying = {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-11-01T12:00:00Z"}}
    failed = pod(phase="Failed")
    tally = tally_of([read_pod(each) for each in (body, dying, failed)])
    assert (tally.live, tally.ready, tally.terminating, len(tally.ended)) == (1, 1, 1, 1)
    assert tally.indices == {3}
    assert tally.doubled == ()


def test_pods_that_share_an_index_are_told() -> None:
    older, younger = pod(), pod()
    younger["metadata"] = {"name": "w-0-a-y", "uid": "v", "creationTimestamp": "2026-11-01T12:00:01Z"}
    assert tally_of([read_pod(each) for each in (younger, older)]).doubled == ("w-0-a-y",)
