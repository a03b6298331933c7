import pytest

from echelon.api.base import JSONObject
from echelon.engine.align.budgets import RollingStrategy, strategy_of
from echelon.engine.align.contract import CLONE_SET
from echelon.engine.align.grant import Grant
from echelon.engine.align.interpreters import AlreadyInterpreted, Interpreter, interpreter_of, register, unregister
from echelon.engine.align.rolling_status import NoPushId, RollingStatus, view_of
from echelon.engine.align.template import template_hash

KINDS = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps.kruise.io/v1alpha1", "CloneSet"),
    ("apps.kruise.io/v1beta1", "CloneSet"),
]


def workload(api_version: str, kind: str, **spec: object) -> JSONObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "demo"}, "spec": {"replicas": 3, **spec}}


@pytest.mark.parametrize(("api_version", "kind"), KINDS)
def test_what_was_written_is_read_again_and_the_rest_is_left_alone(api_version: str, kind: str) -> None:
    obj = workload(api_version, kind, minReadySeconds=7, updateStrategy={"scatterStrategy": []})
    interpreter = interpreter_of(obj)
    assert interpreter is not None
    revised = interpreter.revise_rolling_strategy(obj, strategy_of(Grant(5, "v1", 3, 2, 1, 1, paused=True)))
    found = interpreter.get_rolling_strategy(revised)
    assert found is not None
    has = interpreter.contract
    assert found.max_unavailable == 2
    assert found.max_surge == (1 if has.has_surge else None)
    assert found.partition == (1 if has.has_partition else None)
    assert found.paused == has.has_surge
    assert revised["spec"]["minReadySeconds"] == 7
    assert obj["spec"].get("strategy") is None


@pytest.mark.parametrize(
    ("api_version", "kind", "field", "strategy"),
    [
        ("apps/v1", "Deployment", "strategy", {"type": "Recreate"}),
        ("apps/v1", "StatefulSet", "updateStrategy", {"type": "OnDelete"}),
        ("apps.kruise.io/v1beta1", "CloneSet", "updateStrategy", {"type": "OnDelete"}),
    ],
)
def test_what_does_not_roll_has_no_strategy(api_version: str, kind: str, field: str, strategy: JSONObject) -> None:
    obj = workload(api_version, kind, **{field: strategy})
    interpreter = interpreter_of(obj)
    assert interpreter is not None
    assert interpreter.get_rolling_strategy(obj) is None


def test_a_kind_is_added_by_four_functions() -> None:
    obj = workload("example.io/v1", "Fleet", pace={"keep": 2})
    assert interpreter_of(obj) is None
    mine = Interpreter(
        "example.io/v1",
        "Fleet",
        contract=CLONE_SET,
        get_rolling_strategy=lambda each: RollingStrategy(partition=each["spec"]["pace"]["keep"]),
        revise_rolling_strategy=lambda each, said: {**each, "spec": {"pace": {"keep": said.partition}}},
        interpret_rolling_status=lambda _: RollingStatus(1, 3, 3, 3, 1),
        template_hash=lambda _: "fixed",
    )
    register(mine)
    try:
        assert interpreter_of(obj) is mine
        assert mine.get_rolling_strategy(obj) == RollingStrategy(partition=2)
        with pytest.raises(AlreadyInterpreted, match=r"Fleet of example\.io/v1 has an interpreter"):
            register(mine)
    finally:
        unregister("example.io/v1", "Fleet")
    assert interpreter_of(obj) is None


def test_a_template_has_one_hash_whatever_controllers_put_into_it() -> None:
    plain = workload("apps/v1", "Deployment", template={"metadata": {"labels": {"app": "demo"}}, "spec": {"x": 1.0}})
    labels = {"pod-template-hash": "abc", "app": "demo"}
    marked = workload("apps/v1", "Deployment", template={"spec": {"x": 1}, "metadata": {"labels": labels}})
    other = workload("apps/v1", "Deployment", template={"metadata": {"labels": {"app": "other"}}, "spec": {"x": 1}})
    assert template_hash(plain) == template_hash(marked) != template_hash(other)


def test_a_snapshot_is_of_one_version_of_the_object() -> None:
    obj = workload("apps/v1", "Deployment")
    obj["metadata"] |= {
        "uid": "u",
        "resourceVersion": "77",
        "generation": 4,
        "annotations": {"echelon.dev/push-id": "9"},
    }
    obj["status"] = {"observedGeneration": 3, "replicas": 4, "availableReplicas": 2, "unavailableReplicas": 3}
    interpreter = interpreter_of(obj)
    assert interpreter is not None
    view = view_of(obj, interpreter.interpret_rolling_status(obj["status"]))
    assert (view.push_id, view.version, view.generation, view.observed_generation) == (9, 77, 4, 3)
    assert (view.replicas, view.pods, view.available, view.updated, view.told) == (3, 5, 2, 0, 5)
    assert view.missing == 1
    assert (view.observed, view.settled) == (False, None)


@pytest.mark.parametrize("annotations", [{}, {"echelon.dev/push-id": "-3"}, {"echelon.dev/push-id": "x"}])
def test_an_object_that_was_not_pushed_is_refused(annotations: JSONObject) -> None:
    obj = workload("apps/v1", "Deployment")
    obj["metadata"]["annotations"] = annotations
    with pytest.raises(NoPushId, match=r"the annotation echelon.dev/push-id is '.*', and must be a number"):
        view_of(obj, RollingStatus(0, 0, 0, 0, 0))
