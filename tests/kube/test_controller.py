"""The controller loop against a real store, in virtual time."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.kube.controller_world import A, Deciding, Delayed, Scripted, Silent, World, body, seeded, told, world

from echelon.api.core import CONFIG_MAP, SECRET, ConfigMap
from echelon.api.keys import Key
from echelon.engine.plan import NOTHING, Create, Delete, Patch, Plan
from echelon.fleet.loop import run, running
from echelon.hub.server import ROOT
from echelon.kube.client import MergePatch
from echelon.kube.controller import Controller
from echelon.kube.errors import ApiError, Conflict, TooManyRequests
from echelon.kube.informer import Delta, Informer
from echelon.kube.reconciler import TerminalError


def test_a_change_leads_to_a_plan_and_the_plan_is_acted_on() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            if here.maps.get(key) is None or here.secrets.get(key):
                return NOTHING
            return Plan((Create(SECRET, {**body(key.name, "Secret"), "data": {}}, key.namespace),))

        controller = here.controller(Deciding(plan), workers=3)
        controller.watch(here.maps)
        controller.watch(here.secrets)
        here.start(controller)
        for number in range(20):
            await here.client.create(CONFIG_MAP, body(f"c{number}"), "default")
        await asyncio.sleep(5)
        assert len((await here.client.list(SECRET, "default")).items) == 20
        await here.client.delete(SECRET, "c7", "default")
        await asyncio.sleep(5)
        assert (await here.client.get(SECRET, "c7", "default")).metadata.name == "c7"
        assert here.count("echelon_reconciles_total", result="ok") >= 21

    told(story)


def test_workers_start_when_all_caches_are_complete() -> None:
    async def story(here: World) -> None:
        await here.client.create(CONFIG_MAP, body("a"), "default")
        late = Informer(here.client, SECRET, "kube-system", random=seeded())
        reconciler = Scripted()
        controller = here.controller(reconciler)
        controller.watch(here.maps)
        controller.watch(late)
        here.start(controller)
        await asyncio.sleep(100)
        assert reconciler.asked == []
        here.tasks.append(asyncio.create_task(late.run()))
        await asyncio.sleep(1)
        assert reconciler.keys() == [A]

    told(story)


def test_objects_are_mapped_to_keys_by_what_they_were_and_what_they_are_about() -> None:
    async def story(here: World) -> None:
        def owner(obj: ConfigMap) -> Iterable[Key]:
            return [Key("", obj.data["owner"])] if "owner" in obj.data else []

        reconciler = Scripted()
        controller = here.controller(reconciler)
        controller.watch(here.maps, keys=owner)
        here.start(controller)
        await here.client.create(CONFIG_MAP, body("a", owner="x"), "default")
        await asyncio.sleep(1)
        await here.change("a", owner="y")
        await asyncio.sleep(1)
        await here.client.delete(CONFIG_MAP, "a", "default")
        await asyncio.sleep(1)
        assert reconciler.keys() == [Key("", "x"), Key("", "x"), Key("", "y"), Key("", "y")]

    told(story)


def test_changes_that_do_not_matter_are_passed_over() -> None:
    async def story(here: World) -> None:
        def data_changed(delta: Delta[ConfigMap]) -> bool:
            return delta.old is None or delta.new is None or delta.old.data != delta.new.data

        reconciler = Scripted()
        controller = here.controller(reconciler)
        controller.watch(here.maps, when=data_changed)
        here.start(controller)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        await asyncio.sleep(1)
        await here.client.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"labels": {"x": "y"}}}), "default")
        await asyncio.sleep(1)
        assert len(reconciler.asked) == 1
        await here.change("a", k="1")
        await asyncio.sleep(1)
        assert len(reconciler.asked) == 2

    told(story)


def test_a_plan_is_made_again_when_it_asked_for_that() -> None:
    async def story(here: World) -> None:
        reconciler = Scripted(
            [Plan(look_again_after=timedelta(minutes=5)), Plan(look_again_after=timedelta(0)), NOTHING]
        )
        controller = here.controller(reconciler)
        controller.watch(here.maps)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        here.start(controller)
        await asyncio.sleep(3600)
        began = reconciler.asked[0][0]
        assert [round(when - began, 3) for when, _ in reconciler.asked] == [0, 300, 300]

    told(story)


def test_an_unexpected_error_is_logged_with_its_key_and_tried_again_later_and_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(here: World) -> None:
        reconciler = Scripted([*(KeyError("oops") for _ in range(6)), NOTHING])
        controller = here.controller(reconciler)
        controller.watch(here.maps)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        here.start(controller)
        await asyncio.sleep(600)
        times = [when for when, _ in reconciler.asked]
        gaps = [after - before for before, after in pairwise(times)]
        assert len(times) == 7
        assert gaps[0] < 0.06
        assert gaps[5] > 0.5
        assert controller.queue.failures(A) == 0
        assert here.count("echelon_reconciles_total", result="error") == 6

    with caplog.at_level(logging.ERROR):
        told(story)
    record: Any = caplog.records[0]
    assert (record.controller, record.key, record.attempt) == ("test", "default/a", 1)
    assert record.exc_info is not None


def test_a_terminal_error_is_left_alone_until_something_changes(caplog: pytest.LogCaptureFixture) -> None:
    async def story(here: World) -> None:
        reconciler = Scripted([TerminalError("spec.size: must not be negative")])
        controller = here.controller(reconciler)
        controller.watch(here.maps)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        here.start(controller)
        await asyncio.sleep(3600)
        assert len(reconciler.asked) == 1
        await here.change("a", k="1")
        await asyncio.sleep(3600)
        assert len(reconciler.asked) == 2
        assert here.count("echelon_reconciles_total", result="terminal") == 2

    told(story)
    assert "must not be negative" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_conflict_is_planned_again_soon_however_often_it_happens() -> None:
    async def story(here: World) -> None:
        reconciler = Scripted([Conflict("somebody was faster")])
        controller = here.controller(reconciler)
        controller.watch(here.maps)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        here.start(controller)
        await asyncio.sleep(60)
        assert 60 <= len(reconciler.asked) <= 140
        assert here.count("echelon_reconciles_total", result="conflict") == len(reconciler.asked)

    told(story)


def test_a_server_that_asks_for_patience_gets_it() -> None:
    async def story(here: World) -> None:
        reconciler = Scripted([TooManyRequests("slow down", details={"retryAfterSeconds": 30}), NOTHING])
        controller = here.controller(reconciler)
        controller.watch(here.maps)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        here.start(controller)
        await asyncio.sleep(60)
        (first, _), (second, _) = reconciler.asked
        assert second - first == 30

    told(story)


def test_one_key_in_trouble_does_not_hold_up_the_others() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            if key == A:
                raise ApiError("boom")
            done[key] += 1
            return NOTHING

        done = Counter[Key]()
        controller = here.controller(Deciding(plan))
        controller.watch(here.maps)
        here.start(controller)
        for name in ("a", "b", "c"):
            await here.client.create(CONFIG_MAP, body(name), "default")
        await asyncio.sleep(10)
        assert done == {Key("default", "b"): 1, Key("default", "c"): 1}

    told(story)


def test_new_work_goes_before_what_was_there_at_the_start() -> None:
    async def story(here: World) -> None:
        for number in range(100):
            await here.client.create(CONFIG_MAP, body(f"old-{number}"), "default")
        await here.maps.wait_synced()
        await asyncio.sleep(1)
        reconciler = Scripted()
        controller = here.controller(reconciler)
        controller.watch(here.maps)
        await here.client.create(CONFIG_MAP, body("new"), "default")
        await asyncio.sleep(1)
        here.start(controller)
        await asyncio.sleep(1)
        assert reconciler.keys()[0] == Key("default", "new")
        assert len(reconciler.asked) == 101

    told(story)


def test_everything_is_looked_at_now_and_then_and_gives_way_to_new_work() -> None:
    async def story(here: World) -> None:
        for number in range(10):
            await here.client.create(CONFIG_MAP, body(f"c{number}"), "default")
        reconciler = Scripted()
        controller = here.controller(reconciler, routine_seconds=600.0)
        controller.watch(here.maps)
        here.start(controller)
        await asyncio.sleep(6000)
        counts = Counter(reconciler.keys())
        assert len(counts) == 10
        assert all(9 <= count <= 12 for count in counts.values())

    told(story)


@pytest.mark.parametrize("seed", range(5))
def test_no_plan_is_made_before_the_cache_shows_our_own_writes(seed: int) -> None:
    async def story(here: World) -> None:
        """A counter that trusts its cache: each step must be planned exactly once, however late the watch is."""

        def plan(key: Key) -> Plan:
            obj = here.maps.get(key)
            assert obj is not None
            number = int(obj.data["n"])
            planned.append(number)
            change = {"data": {"n": str(number + 1)}}
            return Plan((Patch(CONFIG_MAP, key.name, change, key.namespace),), look_again_after=timedelta(0))

        planned: list[int] = []
        here.client.delay = 2.0
        await here.client.create(CONFIG_MAP, body("a", n="0"), "default")
        controller = here.controller(Deciding(plan), workers=2)
        controller.watch(here.maps)
        here.start(controller)
        await asyncio.sleep(50)
        assert planned == list(range(len(planned)))
        assert len(planned) >= 20
        assert here.count("echelon_guard_waits_total") > 0
        assert here.count("echelon_guard_timeouts_total") == 0

    told(story, seed)


def test_writes_that_were_made_before_a_failure_are_waited_for_too() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            present = here.secrets.get(Key("default", "made")) is not None
            planned.append(present)
            if present:
                return NOTHING
            made = Create(SECRET, {**body("made", "Secret"), "data": {}}, "default")
            return Plan((made, Patch(CONFIG_MAP, key.name, {"data": {"k": "v"}}, key.namespace, resource_version="1")))

        planned: list[bool] = []
        here.client.delay = 3.0
        controller = here.controller(Deciding(plan))
        controller.watch(here.maps)
        controller.watch(here.secrets, keys=lambda _: [A])
        here.start(controller)
        await here.client.create(CONFIG_MAP, body("a"), "default")
        await asyncio.sleep(60)
        assert planned[:2] == [False, True]

    told(story)


def test_own_deletions_are_waited_for() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            obj = here.maps.get(key)
            planned.append(obj is not None)
            if obj is None:
                return NOTHING
            return Plan((Delete(CONFIG_MAP, key.name, key.namespace, obj.metadata.uid),), look_again_after=timedelta(0))

        planned: list[bool] = []
        here.client.delay = 4.0
        await here.client.create(CONFIG_MAP, body("a"), "default")
        controller = here.controller(Deciding(plan))
        controller.watch(here.maps)
        here.start(controller)
        await asyncio.sleep(30)
        assert planned == [True, False]

    told(story)


def test_a_deletion_that_has_to_wait_for_a_finalizer_does_not_hold_up_its_controller() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            obj = here.maps.get(key)
            assert obj is not None
            planned.append(bool(obj.metadata.deletion_timestamp))
            if planned[-1]:
                return NOTHING
            return Plan((Delete(CONFIG_MAP, key.name, key.namespace, obj.metadata.uid),), look_again_after=timedelta(0))

        planned: list[bool] = []
        kept = {**body("a"), "metadata": {"name": "a", "finalizers": ["example.io/keep"]}}
        await here.client.create(CONFIG_MAP, kept, "default")
        await here.maps.wait_synced()
        here.client.delay = 2.0
        controller = here.controller(Deciding(plan))
        controller.watch(here.maps)
        here.start(controller)
        await asyncio.sleep(5)
        assert planned == [False, True]

    told(story)


def test_a_cache_that_never_shows_a_write_is_not_waited_for_longer_than_the_limit() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            planned.append(running().time())
            change = {"data": {"n": str(len(planned))}}
            return Plan((Patch(CONFIG_MAP, key.name, change, key.namespace),), look_again_after=timedelta(0))

        planned: list[float] = []
        await here.client.create(CONFIG_MAP, body("a"), "default")
        await here.maps.wait_synced()
        here.client.delay = 10_000.0
        controller = here.controller(Deciding(plan), guard_seconds=20.0)
        controller.watch(here.maps)
        here.start(controller)
        await asyncio.sleep(61)
        gaps = [after - before for before, after in pairwise(planned)]
        assert gaps == pytest.approx([20.0, 20.0, 20.0], abs=0.1)
        assert here.count("echelon_guard_timeouts_total") == 3

    told(story)


def test_a_cache_that_hears_of_other_things_is_behind_and_gets_more_time() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            if key.name != "a":
                return NOTHING
            planned.append(running().time())
            return Plan((Patch(CONFIG_MAP, "a", {"data": {"n": str(len(planned))}}, key.namespace),))

        planned: list[float] = []
        await here.client.create(CONFIG_MAP, body("a"), "default")
        for number in range(15):
            await here.client.create(CONFIG_MAP, body(f"other-{number}"), "default")
        await here.maps.wait_synced()
        here.client.delay = 1.0  # each event comes a second after the one before
        controller = here.controller(Deciding(plan), guard_seconds=5.0)
        controller.watch(here.maps)
        for number in range(15):
            await here.client.patch(CONFIG_MAP, f"other-{number}", MergePatch({"data": {"x": "y"}}), "default")
        here.start(controller)
        await asyncio.sleep(1)
        controller.queue.add(Key("default", "a"))
        await asyncio.sleep(100)
        assert here.count("echelon_guard_timeouts_total") == 0
        assert len(planned) >= 2

    told(story)


def test_writes_that_no_cache_of_the_controller_will_show_are_not_waited_for() -> None:
    async def story(here: World) -> None:
        def plan(_: Key) -> Plan:
            planned.append(len(planned))
            elsewhere = Create(CONFIG_MAP, body(f"c{len(planned)}"), "kube-system")
            other = Create(SECRET, {**body(f"s{len(planned)}", "Secret"), "data": {}}, "default")
            return Plan((elsewhere, other), look_again_after=timedelta(seconds=1) if len(planned) < 5 else None)

        planned: list[int] = []
        await here.client.create(CONFIG_MAP, body("a"), "default")
        controller = here.controller(Deciding(plan))
        controller.watch(here.maps)
        here.start(controller)
        await asyncio.sleep(6)
        assert len(planned) == 5
        assert here.count("echelon_guard_waits_total") == 0

    told(story)


@pytest.mark.parametrize(("apps", "waits"), [(["db"], False), (["web", "db"], True)])
def test_through_a_selector_only_what_will_be_shown_is_waited_for(apps: list[str], waits: bool) -> None:
    async def story(here: World) -> None:
        def plan(_: Key) -> Plan:
            planned.append(running().time())
            made = []
            for app in apps:
                metadata = {"name": f"{app}-{len(planned)}", "labels": {"app": app}}
                made.append(Create(CONFIG_MAP, {**body(""), "metadata": metadata}, "default"))
            return Plan(tuple(made), look_again_after=timedelta(0) if len(planned) < 3 else None)

        planned: list[float] = []
        web = Informer(here.client, CONFIG_MAP, "default", labels="app=web", random=seeded())
        here.tasks.append(asyncio.create_task(web.run()))
        await web.wait_synced()
        here.client.delay = 2.0
        controller = here.controller(Deciding(plan))
        controller.watch(web, keys=lambda _: [])
        controller.queue.add(A)
        here.start(controller)
        await asyncio.sleep(30)
        assert len(planned) == 3
        # Not before the cache has them, and then at once although no change is mapped to the key.
        took = planned[-1] - planned[0]
        assert 4.0 <= took < 9.0 if waits else took < 1.0

    told(story)


def test_a_stopped_controller_has_ended_everything_when_it_returns() -> None:
    class Slow(Delayed):
        ended = 0

        async def create(self, *args: Any, **options: Any) -> Any:
            try:
                await asyncio.sleep(100)
            finally:
                self.ended += 1
            return await super().create(*args, **options)

    async def story(here: World) -> None:
        for number in range(3):
            await here.client.create(CONFIG_MAP, body(f"c{number}"), "default")
        slow = Slow(here.client._cluster, ROOT)
        plan = Plan((Create(SECRET, {**body("s", "Secret"), "data": {}}, "default"),))
        controller = Controller(
            "test", Scripted([plan]), slow, running().clock, recorder=Silent(), random=seeded(), workers=3
        )
        controller.watch(here.maps)
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(10)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert slow.ended == 3
        await here.client.create(CONFIG_MAP, body("later"), "default")
        await asyncio.sleep(300)
        assert (await here.client.list(SECRET, "default")).items == []
        assert len(controller.queue) == 0
        assert here.maps._handlers == ()

    told(story)


def test_a_long_row_of_keys_lets_others_have_their_turn() -> None:
    async def story(here: World) -> int:
        controller = here.controller(Scripted())
        for number in range(2000):
            controller.queue.add(Key("", f"c{number}"))
        here.start(controller)
        turns = 0
        while not controller.queue.idle or not turns:
            turns += 1
            await asyncio.sleep(0)
        return turns

    async def main() -> int:
        async with world() as here:
            return await story(here)

    assert run(main()) > 200


def test_at_rest_nothing_is_written() -> None:
    async def story(here: World) -> None:
        def plan(key: Key) -> Plan:
            obj = here.maps.get(key)
            if obj is None or obj.data.get("seen"):
                return NOTHING
            metadata = obj.metadata
            change = {"data": {"seen": "yes"}}
            patch = Patch(CONFIG_MAP, key.name, change, key.namespace, metadata.uid, metadata.resource_version)
            return Plan((patch,))

        for number in range(5):
            await here.client.create(CONFIG_MAP, body(f"c{number}"), "default")
        controller = here.controller(Deciding(plan), workers=2, routine_seconds=60.0)
        controller.watch(here.maps)
        here.start(controller)
        await asyncio.sleep(10)
        quiet = here.client._cluster.store.revision
        await asyncio.sleep(3600)
        assert here.client._cluster.store.revision == quiet
        writes = here.metrics.registry.get_sample_value(
            "echelon_writes_total", {"verb": "patch", "kind": "configmaps", "code": "200"}
        )
        assert writes == 5

    told(story)
