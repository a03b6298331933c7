"""Why an object is not well: bounded, the same whatever the order, and the worst first."""

import random
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.engine.work.cause import FRESH, MAX_CAUSE, cause_of, is_conclusive, worst_pod
from echelon.engine.work.pod_trouble import pod_trouble
from echelon.engine.work.pods_below import controller_between, present_replica_set, selector_of
from tests.engine.work.test_pod_trouble import IMAGE, PANIC, UNREADY, UNSCHEDULABLE, container, waiting
from tests.engine.work.works import START, stamp


def pod(name: str, status: JSONObject) -> JSONObject:
    return {"metadata": {"name": name, "uid": f"u-{name}"}, "spec": {}, "status": {"phase": "Pending", **status}}


def event(uid: str, reason: str, message: str, minutes: int = 0, kind: str = "Warning") -> JSONObject:
    about = {"uid": uid}
    return {
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": kind,
        "lastTimestamp": stamp(minutes),
    }


PULLING = waiting("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"')
CRASHING = waiting("CrashLoopBackOff", "back-off", {"terminated": PANIC})


def test_the_worst_pod_speaks_for_those_that_have_the_same() -> None:
    pods = [pod("b", PULLING), pod("c", CRASHING), pod("a", {"conditions": [UNSCHEDULABLE]}), pod("d", PULLING)]
    assert cause_of(pods, (), START) == f'ImagePullBackOff: image "{IMAGE}" (pod b and 1 more)'
    assert worst_pod(pods) is pods[0]


def test_a_pod_that_only_is_not_ready_is_explained_by_the_newest_warning_about_it() -> None:
    one = pod("a", {"phase": "Running", "conditions": [UNREADY]})
    events = [
        event("u-a", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 500", 2),
        event("u-a", "FailedMount", "not any more", 1),
        event("u-a", "BackOff", "what its containers tell better", 3),
        event("u-a", "Pulled", "no warning", 3, kind="Normal"),
        event("other", "Unhealthy", "of somebody else", 1),
    ]
    assert not is_conclusive([one])
    told = cause_of([one], events, START + timedelta(minutes=5))
    assert told == "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 500 (pod a)"


def test_an_object_without_pods_is_explained_by_what_was_said_of_itself_unless_that_is_long_ago() -> None:
    refused = event("set", "FailedCreate", 'admission webhook "guard" denied the request: no')
    assert cause_of([], [refused], START) == 'FailedCreate: admission webhook "guard" denied the request: no'
    assert cause_of([], [refused], START + FRESH) != ""
    assert cause_of([], [refused], START + FRESH + timedelta(seconds=1)) == ""
    assert cause_of([], [], START) == ""
    # A pod that is about to start explains less than one that nobody lets come into being.
    assert cause_of([pod("a", {})], [refused], START).startswith("FailedCreate")


_TEXT = st.text(max_size=400)
_STATES = st.one_of(
    st.builds(lambda reason, message: {"waiting": {"reason": reason, "message": message}}, _TEXT, _TEXT),
    st.builds(
        lambda reason, message: {"waiting": {"reason": reason, "message": message}},
        st.sampled_from(["ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError", "ContainerCreating"]),
        _TEXT,
    ),
    st.builds(lambda code, message: {"terminated": {"exitCode": code, "message": message}}, st.integers(0, 255), _TEXT),
    st.just({"running": {}}),
)
_CONTAINERS = st.lists(st.builds(lambda state, name: container(state, name=name), _STATES, _TEXT), max_size=3)
_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=10,
)
_STATUSES = st.one_of(
    st.builds(
        lambda phase, containers, scheduled: {
            "phase": phase,
            "containerStatuses": containers,
            "conditions": [{"type": "PodScheduled", "status": scheduled}],
        },
        st.sampled_from(["Pending", "Running", "Failed", "Succeeded"]),
        _CONTAINERS,
        st.sampled_from(["True", "False"]),
    ),
    st.dictionaries(st.sampled_from(["phase", "conditions", "containerStatuses", "reason", "message"]), _JUNK),
)
_PODS = st.lists(st.builds(pod, _TEXT, _STATUSES), max_size=6)
_EVENTS = st.lists(st.builds(event, _TEXT, _TEXT, _TEXT, st.integers(-60, 60)), max_size=4)


@given(_PODS, _EVENTS, st.integers(0, 99))
def test_a_cause_is_one_short_line_and_the_same_whatever_the_order(
    pods: list[JSONObject], events: list[JSONObject], seed: int
) -> None:
    told = cause_of(pods, events, START)
    assert len(told) <= MAX_CAUSE
    assert told.isprintable()
    shuffled = random.Random(seed)  # noqa: S311 - repeatable on purpose
    assert cause_of(shuffled.sample(pods, len(pods)), shuffled.sample(events, len(events)), START) == told


@given(_PODS)
def test_no_pod_is_in_a_worse_state_than_the_one_that_is_told_of(pods: list[JSONObject]) -> None:
    ranks = [trouble.rank for each in pods if (trouble := pod_trouble(each)) is not None]
    worst = worst_pod(pods)
    assert (worst is None) == (not ranks)
    if worst is not None:
        found = pod_trouble(worst)
        assert found is not None
        assert found.rank == min(ranks)


def owned(name: str, kind: str, uid: str, revision: str = "") -> JSONObject:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid, "controller": True}
    noted = {"annotations": {"deployment.kubernetes.io/revision": revision}} if revision else {}
    return {"metadata": {"name": name, "ownerReferences": [owner], **noted}}


def test_of_a_deployment_the_pods_of_its_present_template_count() -> None:
    web: JSONObject = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"uid": "u", "annotations": {"deployment.kubernetes.io/revision": "2"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }
    sets = [
        owned("old", "Deployment", "u", "1"),
        owned("new", "Deployment", "u", "2"),
        owned("x", "Deployment", "v", "2"),
    ]
    assert present_replica_set(web, sets) is sets[1]
    assert present_replica_set(web, sets[:1]) is None
    assert selector_of(web) == "app=web"


def test_a_selector_of_another_kind_that_means_something_else_is_none() -> None:
    strange: JSONObject = {"apiVersion": "x.example/v1", "kind": "X", "spec": {"selector": {"app": "web"}}}
    assert selector_of(strange) == ""
    assert selector_of({**strange, "spec": {"selector": {"matchLabels": {"a": 1}}}}) == ""
    assert controller_between(owned("p", "ReplicaSet", "u")) == ("apps/v1", "ReplicaSet", "web")
    assert controller_between(owned("p", "Secret", "u")) is None
