"""Whose an object is, what fences a push off, and what somebody changed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.engine.align import Grant, RollingStrategy, interpreter_of
from echelon.engine.workload.names import BINDING_UID, CONFLICT_RESOLUTION, MANAGED, PUSH_ID, RETAIN_REPLICAS
from echelon.engine.workload.pushing import (
    FAILED,
    FENCED,
    PUSH_HASH,
    BadWork,
    Hold,
    Keep,
    Push,
    WriteObject,
    body_of,
    decide,
    drift_of,
    read_push,
)

KIND = DEPLOYMENT.untyped()


def manifest(push: int | None = 1, unavailable: int = 1, *, binding: str = "b", **meta: Any) -> JSONObject:
    annotations = {BINDING_UID: binding, **meta.pop("annotations", {})}
    if push is not None:
        annotations[PUSH_ID] = str(push)
    obj: JSONObject = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations, **meta},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "main", "image": "web:1"}]}}},
    }
    interpreter = interpreter_of(obj)
    assert interpreter is not None
    return interpreter.revise_rolling_strategy(obj, RollingStrategy(False, None, unavailable, 1))


def push(*args: Any, **options: Any) -> Push:
    return read_push([manifest(*args, **options)])


def carrying(body: JSONObject, **spec: Any) -> JSONObject:
    """Return the object that a push made."""
    made = body_of(read_push([body]), KIND)
    meta = {**made["metadata"], "resourceVersion": "7", "uid": "u", "generation": 1}
    return {**made, "metadata": meta, "spec": {**made["spec"], **spec}}


def test_an_object_that_is_not_there_is_made() -> None:
    decision = decide(push(1), KIND, None)
    assert isinstance(decision, WriteObject)
    meta = decision.body["metadata"]
    assert "resourceVersion" not in meta
    assert meta["labels"] == {MANAGED: "true"}
    assert meta["annotations"][PUSH_HASH] == push(1).content


def test_a_write_is_for_the_version_that_was_looked_at() -> None:
    decision = decide(push(2, 2), KIND, carrying(manifest(1)))
    assert isinstance(decision, WriteObject)
    assert decision.body["metadata"]["resourceVersion"] == "7"
    assert isinstance(decide(push(1), KIND, carrying(manifest(1))), Keep)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 2), st.integers(1, 2), st.sampled_from("bc"))
def test_the_fence(carried: int, wanted: int, before: int, after: int, binding: str) -> None:
    live = carrying(manifest(carried, before))
    decision = decide(push(wanted, after, binding=binding), KIND, live)
    if binding == "b" and (wanted < carried or (wanted == carried and before != after)):
        assert isinstance(decision, Hold)
        assert (decision.reason, decision.refused, decision.ours) == (FENCED, False, True)
    else:
        same = binding == "b" and wanted == carried
        assert isinstance(decision, Keep if same else WriteObject)


def test_what_was_written_in_this_life_fences_off_what_is_older_even_if_the_object_is_gone() -> None:
    assert isinstance(decide(push(4), KIND, None, at_least=5), Hold)
    assert isinstance(decide(push(5), KIND, None, at_least=5), WriteObject)


def test_an_id_that_somebody_removed_is_no_fence() -> None:
    live = carrying(manifest(5))
    del live["metadata"]["annotations"][PUSH_ID]
    assert isinstance(decide(push(5), KIND, live), WriteObject)


def test_what_nobody_manages_is_refused_or_overwritten() -> None:
    live = carrying(manifest(1))
    live["metadata"] |= {"labels": {}, "annotations": {}}
    decision = decide(push(1), KIND, live)
    assert isinstance(decision, Hold)
    assert (decision.reason, decision.refused, decision.ours) == (FAILED, True, False)
    passed = decide(push(None), KIND, live)
    assert isinstance(passed, Hold)
    assert not passed.refused  # there is no budget to free
    for said in ("Overwrite", "overwrite"):
        assert isinstance(decide(push(1, annotations={CONFLICT_RESOLUTION: said}), KIND, live), WriteObject)


def test_an_object_that_is_being_deleted_is_waited_for() -> None:
    live = carrying(manifest(1))
    live["metadata"]["deletionTimestamp"] = "now"
    decision = decide(push(2), KIND, live)
    assert isinstance(decision, Hold)
    assert (decision.refused, decision.ours) == (False, True)


def test_the_member_keeps_its_replicas_where_it_owns_them() -> None:
    body = manifest(1, labels={RETAIN_REPLICAS: "true"})
    live = carrying(body, replicas=9)
    assert isinstance(decide(read_push([body]), KIND, live), Keep)
    assert body_of(read_push([body]), KIND, live)["spec"]["replicas"] == 9
    assert body_of(read_push([body]), KIND)["spec"]["replicas"] == 3
    assert drift_of(read_push([body]), live, None) is None


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, None),
        ({"replicas": 5}, Grant(1, "", 5, 1, 1)),
        ({"paused": True}, Grant(1, "", 3, 1, 1, paused=True)),
        ({"strategy": {"rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 1}}}, Grant(1, "", 3, 3, 1)),
        ({"strategy": {"type": "Recreate"}}, Grant(1, "", 3, 3)),
        ({"strategy": {"rollingUpdate": {"maxUnavailable": "lots"}}}, Grant(1, "", 3, 3, 3)),
    ],
)
def test_drift_is_what_the_object_permits(spec: JSONObject, found: Grant | None) -> None:
    wanted = push(1)
    drift = drift_of(wanted, carrying(manifest(1), **spec), None)
    if found is None or drift is None:
        assert drift is found
    else:
        assert drift.permits_as_much_as(Grant(found.id, wanted.template, *_numbers(found), paused=found.paused))


def _numbers(grant: Grant) -> tuple[int, int, int, int]:
    return grant.replicas, grant.unavailable, grant.surge, grant.partition


def test_another_template_is_drift_with_a_revision_of_its_own() -> None:
    wanted = push(1)
    live = carrying(manifest(1))
    live["spec"] = {**live["spec"], "template": {"spec": {}}}
    drift = drift_of(wanted, live, wanted.template)
    assert drift is not None
    assert drift.revision not in ("", wanted.template)
    assert drift_of(push(2), live, wanted.template) is None  # it carries another push, which is no drift of this one


def test_works_that_cannot_be_applied() -> None:
    with pytest.raises(BadWork, match="has 0 manifests"):
        read_push([])
    with pytest.raises(BadWork, match="no apiVersion"):
        read_push(["a"])
    for said in ("", "-1", "1.5", "٣", str(1 << 53), "9" * 5000, 7):
        with pytest.raises(BadWork, match="must be a number"):
            read_push([manifest(None, annotations={PUSH_ID: said})])
    other = {**manifest(7), "kind": "DaemonSet"}
    with pytest.raises(BadWork, match="DaemonSet of apps/v1 is not aligned") as failure:
        read_push([other])
    assert failure.value.push_id == 7
    deep: JSONObject = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(BadWork, match="nested too deeply"):
        read_push([{**manifest(1), "spec": {"template": deep}}])
