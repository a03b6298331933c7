"""How often a status is written while a rollout runs: at most once a second, and no plan is made in vain for that."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from echelon.api.keys import Key
from echelon.api.meta import ObjectMeta
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.rollout.reconciler import STATUS_SECONDS, Observation, RolloutReconciler
from echelon.engine.plan import NOTHING, Plan
from echelon.kube.act import Written

KEY, BEGAN = Key("team", "web"), datetime(2026, 1, 1, tzinfo=UTC)


def asked_after(seconds: float) -> tuple[bool, timedelta | None]:
    """Plan so long after a status was written; return whether in brief, and when it is looked at again."""
    briefs: list[bool] = []
    found = SimpleNamespace(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace, uid="u"))

    def planner(view: object, now: datetime, *, brief: bool = False) -> Plan:  # noqa: ARG001 - as planners are called
        briefs.append(brief)
        return NOTHING

    observer = SimpleNamespace(observe=lambda *_, **__: Observation(None, None, None))
    reconciler = RolloutReconciler[Any, Any, Any](
        MANIFEST_WORK_REPLICA_SET,
        MANIFEST_WORK,
        objects=cast("Any", {KEY: found}),
        indexes=cast("Any", None),
        observer=cast("Any", observer),
        planner=planner,
        failures=cast("Any", SimpleNamespace(written=lambda *_: None)),
        reader=cast("Any", None),
        users_of=lambda _: (),
        clock=cast("Any", SimpleNamespace(now=lambda: BEGAN)),
    )
    reconciler.written(KEY, Written(MANIFEST_WORK_REPLICA_SET, KEY.name, KEY.namespace, "u", "2"))
    plan = reconciler.plan(KEY, BEGAN + timedelta(seconds=seconds))
    return briefs.pop(), plan.look_again_after


def test_a_status_is_put_off_for_the_rest_of_its_second() -> None:
    assert asked_after(0.4) == (True, timedelta(seconds=STATUS_SECONDS - 0.4))
    assert asked_after(STATUS_SECONDS) == (False, None)


def test_a_status_that_would_be_due_in_a_moment_is_told_at_once() -> None:
    assert asked_after(STATUS_SECONDS - 0.005) == (False, None)
