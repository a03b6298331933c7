"""Handlers that keep indexes, and the checks that these follow the caches and plans follow what was observed."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from tests.kube.controller_world import A, Deciding, Scripted, World, body, told

from echelon.api.core import CONFIG_MAP, SECRET, ConfigMap
from echelon.api.keys import Key
from echelon.engine.plan import NOTHING, Patch, Plan
from echelon.fleet.loop import running
from echelon.kube.checking import (
    AFTER_FAILURE_SECONDS,
    STRICT_VERIFY_SECONDS,
    VERIFY_SECONDS,
    IndexesDiffer,
    PlansDiffer,
    plan_twice,
)
from echelon.kube.client import MergePatch
from echelon.kube.informer import Delta
from echelon.kube.queue import Debounce

NOW = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass
class Names:
    """An index of the names of all ConfigMaps, which can be made to fail or to forget."""

    here: World
    names: set[str] = field(default_factory=set)
    failing: bool = False
    forgetting: bool = False

    def changed(self, delta: Delta[ConfigMap]) -> Iterator[Key]:
        if self.failing:
            raise ValueError("a handler's mistake")
        meta = delta.object.metadata
        if not self.forgetting:
            (self.names.discard if delta.new is None else self.names.add)(meta.name)
        yield Key(meta.namespace, meta.name)

    def verify(self) -> Iterator[str | None]:
        rebuilt = {each.metadata.name for each in self.here.maps.values()}
        for name in sorted(rebuilt ^ self.names):
            yield None
            yield name
        self.names = rebuilt


def differences(here: World) -> float:
    return here.count("echelon_index_differences_total")


async def failure_of(task: asyncio.Task[None]) -> Exception:
    """Return why a controller has ended."""
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(task, 3 * STRICT_VERIFY_SECONDS)
    (error,) = caught.value.exceptions
    return error


def test_a_handler_hears_of_a_change_before_the_keys_that_it_returns_are_planned() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            planned.append((key.name, key.name in index.names, here.maps.get(key) is not None))
            return NOTHING

        planned: list[tuple[str, bool, bool]] = []
        index = Names(here)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        controller = here.controller(Deciding(plan))
        controller.follow(here.maps, index.changed)
        here.start(controller)
        await asyncio.sleep(1)
        await here.client.create(CONFIG_MAP, body("b"), "default")
        await asyncio.sleep(1)
        await here.client.delete(CONFIG_MAP, "b", "default")
        await asyncio.sleep(1)
        assert planned == [("a", True, True), ("b", True, True), ("b", False, False)]

    told(story)


def test_what_was_there_before_gives_way_to_what_changes() -> None:
    async def story(here: World) -> None:
        for number in range(10):
            await here.client.create(CONFIG_MAP, body(f"c{number}"), "default")
        await here.maps.wait_synced()
        reconciler = Scripted()
        controller = here.controller(reconciler)
        controller.follow(here.maps, Names(here).changed)
        await here.client.create(CONFIG_MAP, body("new"), "default")
        await asyncio.sleep(1)
        here.start(controller)
        await asyncio.sleep(1)
        assert reconciler.keys()[0] == Key("default", "new")
        assert len(reconciler.asked) == 11

    told(story)


def test_own_writes_are_waited_for_in_a_cache_that_is_followed_also_by_a_handler_that_fails() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            obj = here.maps.get(key)
            assert obj is not None
            planned.append((running().time(), obj.data["n"]))
            change = {"data": {"n": str(int(obj.data["n"]) + 1)}}
            return Plan((Patch(CONFIG_MAP, key.name, change, key.namespace),), look_again_after=timedelta(0))

        planned: list[tuple[float, str]] = []
        here.client.delay = 2.0
        await here.client.create(CONFIG_MAP, body("a", n="0"), "default")
        await here.maps.wait_synced()
        index = Names(here)
        controller = here.controller(Deciding(plan), guard_seconds=1000.0)
        controller.follow(here.maps, index.changed)
        index.failing = True
        here.start(controller)
        await asyncio.sleep(21)
        assert [number for _, number in planned] == [str(number) for number in range(len(planned))]
        assert len(planned) >= 10
        assert here.count("echelon_guard_timeouts_total") == 0

    told(story)


def test_changes_are_collected_and_longer_after_a_write() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            obj = here.maps.get(key)
            planned.append(round(loop.time() - began, 3))
            wanted = obj is not None and "done" not in obj.data
            return Plan((Patch(CONFIG_MAP, key.name, {"data": {"done": "1"}}, key.namespace),)) if wanted else NOTHING

        planned: list[float] = []
        controller = here.controller(Deciding(plan), debounce=Debounce(0.1, 0.5, after_write=2.0))
        controller.follow(here.maps, Names(here).changed)
        here.start(controller)
        await here.maps.wait_synced()
        loop = running()
        began = loop.time()
        await here.client.create(CONFIG_MAP, body("a"), "default")
        for number in range(4):
            await here.change("a", n=str(number))
            await asyncio.sleep(0.05)
        await asyncio.sleep(9.8)
        assert planned == [0.25, 2.25]
        await here.change("a", n="5")
        await asyncio.sleep(1)
        assert planned == [0.25, 2.25, 10.1]

    told(story)


def test_whoever_remembers_what_a_plan_relied_on_hears_of_it_before_it_is_carried_out() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            obj = here.maps.get(key)
            wanted = obj is not None and "done" not in obj.data
            return Plan((Patch(CONFIG_MAP, key.name, {"data": {"done": "1"}}, key.namespace),)) if wanted else NOTHING

        heard: list[str] = []
        controller = here.controller(
            Deciding(plan),
            on_plan=lambda key, plan: heard.append(f"plan {key} of {len(plan.actions)}"),
            on_written=lambda key, _: heard.append(f"written {key}"),
            strict=True,
        )
        controller.watch(here.maps)
        here.start(controller)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        await asyncio.sleep(5)
        assert heard == ["plan default/a of 1", "written default/a", "plan default/a of 0"]

    told(story)


def test_an_index_is_compared_with_the_caches_from_time_to_time_and_everything_is_planned_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(here: World) -> None:
        index, reconciler = Names(here), Scripted()
        controller = here.controller(reconciler, verify=index.verify)
        controller.follow(here.maps, index.changed)
        controller.watch(here.maps)
        here.start(controller)
        await asyncio.sleep(1)
        index.forgetting = True
        for number in range(8):
            await here.client.create(CONFIG_MAP, body(f"c{number}"), "default")
        await asyncio.sleep(1)
        assert len(reconciler.asked) == 8
        assert not index.names
        await asyncio.sleep(1.1 * VERIFY_SECONDS)
        assert len(index.names) == 8
        assert differences(here) == 8
        assert len(reconciler.asked) == 16
        await asyncio.sleep(2 * VERIFY_SECONDS)
        assert differences(here) == 8
        assert len(reconciler.asked) == 16

    with caplog.at_level(logging.ERROR):
        told(story)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == "test: indexes were not what the caches say: c0; c1; c2; c3; c4, and 3 more"


def test_an_index_is_repaired_soon_after_its_handler_failed() -> None:
    async def story(here: World) -> None:
        index, reconciler = Names(here), Scripted()
        controller = here.controller(reconciler, verify=index.verify)
        controller.follow(here.maps, index.changed)
        controller.watch(here.maps)
        here.start(controller)
        await asyncio.sleep(1)
        index.failing = True
        await here.client.create(CONFIG_MAP, body("a"), "default")
        await asyncio.sleep(AFTER_FAILURE_SECONDS / 2)
        assert not index.names
        await asyncio.sleep(AFTER_FAILURE_SECONDS)
        assert index.names == {"a"}
        assert differences(here) == 1

    told(story)


def test_a_wrong_index_ends_a_strict_controller() -> None:
    async def story(here: World) -> None:
        index = Names(here, forgetting=True)
        controller = here.controller(Scripted(), verify=index.verify, strict=True)
        controller.follow(here.maps, index.changed)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        error = await failure_of(here.start(controller))
        here.tasks.pop()
        assert isinstance(error, IndexesDiffer)
        assert str(error) == "test: indexes were not what the caches say: a"

    told(story)


Change = Callable[[int], Plan]


@dataclass(frozen=True)
class Remembering(Plan):
    """A plan with what is to be remembered of it."""

    told: int = 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda number: Plan((patch(number),)), "action 0 is Patch("),
        (lambda number: Plan((patch(0),) * number), "action 1 is None, then Patch("),
        (lambda number: Plan(status=patch(number)), "status is Patch("),
        (
            lambda number: Plan(look_again_after=timedelta(seconds=number)),
            "look_again_after is 0:00:01, then 0:00:02",
        ),
        (lambda number: Remembering(told=number), "told is 1, then 2"),
        (lambda number: Remembering() if number == 1 else Plan(), "it is a Remembering, then a Plan"),
    ],
)
def test_a_plan_that_differs_when_it_is_made_again_ends_a_strict_controller(change: Change, why: str) -> None:
    async def story(here: World) -> None:
        def plan(_: Key) -> Plan:
            calls.append(1)
            return change(len(calls))

        calls: list[int] = []
        controller = here.controller(Deciding(plan), strict=True)
        controller.watch(here.maps)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        error = await failure_of(here.start(controller))
        here.tasks.pop()
        assert isinstance(error, PlansDiffer)
        assert str(error).startswith(f"default/a was planned twice: {why}")

    told(story)


def patch(number: int) -> Patch:
    return Patch(SECRET, f"s{number}", {}, "default")


def test_equal_plans_are_one_plan() -> None:
    scripted = Deciding(lambda _: Plan((patch(1),), patch(2), timedelta(seconds=3)))
    assert plan_twice(scripted, A, NOW) == Plan((patch(1),), patch(2), timedelta(seconds=3))


def test_a_controller_that_is_not_strict_plans_once() -> None:
    async def story(here: World) -> None:
        reconciler = Scripted()
        controller = here.controller(reconciler)
        controller.watch(here.maps)
        here.start(controller)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        await here.client.patch(CONFIG_MAP, "a", MergePatch({"data": {"k": "v"}}), "default")
        await asyncio.sleep(5)
        assert len(reconciler.asked) <= 2

    told(story)
