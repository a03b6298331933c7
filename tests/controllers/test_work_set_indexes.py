"""What events keep up to date is wrong when a handler fails: it is noticed, put right, counted, and fails a seed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.controllers.rollout.bound_clusters import BoundClusters
from echelon.controllers.rollout.decision_cache import DecisionCache
from echelon.controllers.settings import ControllerSettings
from echelon.controllers.work_set.work_index import WorkIndex
from echelon.engine.cluster_health import UNREACHABLE
from echelon.fleet.simulation import SimulationFailed, simulate
from echelon.kube.faults import Faults
from tests.controllers.rollout_world import ONE
from tests.controllers.work_world import TRUSTING, WorkWorld, told

# Not strict: a difference is to be found and put right here, not to end the controller.
FORGIVING = replace(TRUSTING, strict=False)
BOUND = ControllerSettings()


@contextmanager
def failing(owner: type[Any], handler: str, which: Callable[[Any], bool], times: int = 1) -> Iterator[list[Any]]:
    """Let a handler fail so many times on changes of a kind. Return those that it failed on."""
    whole = getattr(owner, handler)
    failed: list[Any] = []

    def broken(self: Any, delta: Any) -> Any:
        if len(failed) < times and not delta.initial and which(delta):
            failed.append(delta)
            raise RuntimeError("not today")
        return whole(self, delta)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, handler, broken)
        yield failed


def differences(world: WorkWorld) -> float:
    found = world.hub.metrics.registry.get_sample_value("echelon_index_differences_total", {"controller": "work-sets"})
    return found or 0.0


def test_a_report_that_was_not_taken_in_is_found_and_the_rollout_goes_on() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.roll_out()
        world.start()
        await world.settle()
        with failing(WorkIndex, "changed", lambda delta: delta.new is not None) as failed:
            await world.report("c1", "c2")
            await world.settle(0.5)
            assert failed
            assert await world.said("PlacementRolledOut") == ("False", "Progressing")
        await world.settle()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")
        assert differences(world) == 1

    told(story, settings=FORGIVING)


@pytest.mark.parametrize("gone", [False, True])
def test_a_decision_that_was_not_taken_in_is_found(gone: bool) -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["c1"]), ("", ["c2"])])
        await world.cluster("c3")
        await world.roll_out()
        world.start()
        await world.settle()
        with failing(DecisionCache, "decision_changed", lambda delta: (delta.new is None) is gone) as failed:
            await world.decide([("", ["c1"])] if gone else [("", ["c1"]), ("", ["c3"])])
            await world.settle()
            assert failed
        await world.settle(60)
        assert sorted(await world.works()) == (["c1"] if gone else ["c1", "c3"])
        assert differences(world) == 1

    told(story, settings=FORGIVING)


async def bind(world: WorkWorld) -> None:
    await world.hub.bind()


async def label(world: WorkWorld) -> None:
    change: JSONObject = {"metadata": {"labels": {"cluster.open-cluster-management.io/clusterset": "set"}}}
    await world.hub.patch(MANAGED_CLUSTER, "c1", change)


async def include(world: WorkWorld) -> None:
    await world.hub.cluster_set()


@pytest.mark.parametrize(
    ("handler", "missing"), [("binding_changed", bind), ("cluster_changed", label), ("set_changed", include)]
)
def test_a_change_of_what_a_namespace_may_use_that_was_not_taken_in_is_found(
    handler: str, missing: Callable[[WorkWorld], Any]
) -> None:
    async def story(world: WorkWorld) -> None:
        if missing is not include:
            await world.hub.cluster_set()
        if missing is not bind:
            await world.hub.bind()
        await world.place([("", ["c1"])])
        await world.hub.cluster("c1", "none" if missing is label else "set")
        await world.roll_out()
        world.start()
        await world.settle()
        assert not await world.works()
        with failing(BoundClusters, handler, lambda _: True) as failed:
            await missing(world)
            await world.settle()
            assert failed
        assert sorted(await world.works()) == ["c1"]
        assert differences(world) == 1

    told(story, settings=BOUND)


def test_an_absence_that_was_not_taken_in_is_found() -> None:
    async def story(world: WorkWorld) -> None:
        await world.hub.cluster("c1")
        world.start()
        await world.settle()
        taint = {"key": UNREACHABLE, "effect": "NoSelect", "timeAdded": None}
        with failing(BoundClusters, "cluster_changed", lambda _: True) as failed:
            await world.hub.patch(MANAGED_CLUSTER, "c1", {"spec": {"taints": [taint]}})
            await world.settle()
            assert failed
        assert differences(world) == 1

    told(story, settings=FORGIVING)


def test_one_failure_after_the_other_is_taken_in(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["c1", "c2", "c3"])])
        await world.roll_out()
        world.start()
        await world.settle()
        for cluster in ("c1", "c2", "c3"):
            await world.report(cluster, progressing="True", degraded="True")
        await world.settle()

    told(story, settings=FORGIVING)
    assert [record.getMessage() for record in caplog.records if "a handler failed" in record.getMessage()] == []


def test_a_life_with_a_handler_that_fails_is_a_failed_seed() -> None:
    """So the simulation would notice it, and does not notice anything where handlers do their work."""
    simulate(ONE, 1, Faults())
    with (
        failing(WorkIndex, "changed", lambda delta: delta.object.metadata.namespace == "c5", times=99),
        pytest.raises(SimulationFailed, match="a handler failed"),
    ):
        simulate(ONE, 1, Faults())
