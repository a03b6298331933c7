"""Carrying out plans, against a real store."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from echelon.api.core import CONFIG_MAP
from echelon.api.namespaces import NAMESPACE
from echelon.engine.plan import Apply, Create, Delete, Emit, InOrder, Patch, Plan, Reference, Together
from echelon.fleet.loop import run
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.act import Failed, Superseded, Written, act
from echelon.kube.client import MergePatch
from echelon.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from echelon.kube.metrics import Metrics
from echelon.kube.pace import AT_ONCE


class Heard:
    """A recorder that remembers."""

    def __init__(self) -> None:
        self.events: list[Emit] = []

    async def emit(self, event: Emit) -> None:
        self.events.append(event)


def in_hub(story: Callable[[InProcessClient], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        await story(InProcessClient(cluster, ROOT))

    run(main())


def body(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def create(name: str) -> Create:
    return Create(CONFIG_MAP, body(name), "default")


async def done(client: InProcessClient, *actions: Any, status: Patch | None = None, **options: Any) -> list[Written]:
    """Carry out a plan to its end; raise the first failure."""
    outcomes = [each async for each in act(Plan(actions, status), client, Heard(), manager="tester", **options)]
    for outcome in outcomes:
        if isinstance(outcome, Failed):
            raise outcome.error
    return [outcome for outcome in outcomes if isinstance(outcome, Written)]


async def names(client: InProcessClient) -> list[str]:
    return [obj.metadata.name for obj in (await client.list(CONFIG_MAP, "default")).items]


def test_actions_are_carried_out_in_order_and_each_write_is_reported() -> None:
    async def story(client: InProcessClient) -> None:
        heard, metrics = Heard(), Metrics()
        old = await client.create(CONFIG_MAP, body("old"), "default")
        event = Emit(Reference(CONFIG_MAP, "old", "default"), "Reason", "Act", "note")
        actions = (
            create("new"),
            Patch(CONFIG_MAP, "new", {"data": {"k": "1"}}, "default"),
            event,
            Apply(CONFIG_MAP, "applied", body("applied", k="2"), "default"),
            Delete(CONFIG_MAP, "old", "default", uid=old.metadata.uid),
        )
        outcomes = [each async for each in act(Plan(actions), client, heard, manager="tester", metrics=metrics)]
        made = [each for each in outcomes if isinstance(each, Written)]
        assert [w.name for w in made] == ["new", "new", "applied", "old"]
        assert made[3].resource_version is None
        assert made[3].uid == old.metadata.uid
        new = await client.get(CONFIG_MAP, "new", "default")
        assert new.data == {"k": "1"}
        assert made[1].resource_version == new.metadata.resource_version
        wire = await client.get(CONFIG_MAP.untyped(), "new", "default")
        assert {entry["manager"] for entry in wire["metadata"]["managedFields"]} == {"tester"}
        assert await names(client) == ["applied", "new"]
        assert heard.events == [event]
        sample = metrics.registry.get_sample_value
        assert sample("echelon_writes_total", {"verb": "create", "kind": "configmaps", "code": "200"}) == 1

    in_hub(story)


def test_what_follows_a_failure_is_left_out_and_every_outcome_is_known() -> None:
    async def story(client: InProcessClient) -> None:
        metrics = Metrics()
        await client.create(CONFIG_MAP, body("taken"), "default")
        status = Patch(CONFIG_MAP, "a", {"data": {"k": "1"}}, "default")
        plan = Plan((create("a"), create("taken"), create("b")), status, status_waits=True)
        outcomes = [each async for each in act(plan, client, Heard(), manager="tester", metrics=metrics)]
        made, failed = outcomes
        assert isinstance(made, Written)
        assert isinstance(failed, Failed)
        assert (made.name, failed.write.name) == ("a", "taken")
        assert isinstance(failed.error, AlreadyExists)
        assert await names(client) == ["a", "taken"]
        assert (await client.get(CONFIG_MAP, "a", "default")).data == {}
        sample = metrics.registry.get_sample_value
        assert sample("echelon_writes_total", {"verb": "create", "kind": "configmaps", "code": "409"}) == 1

    in_hub(story)


def test_the_status_is_tried_whatever_became_of_the_actions() -> None:
    async def story(client: InProcessClient) -> None:
        await client.create(CONFIG_MAP, body("taken"), "default")
        status = Patch(CONFIG_MAP, "taken", {"data": {"k": "1"}}, "default")
        plan = Plan((create("taken"), create("never")), status)
        outcomes = [each async for each in act(plan, client, Heard(), manager="tester")]
        assert [type(each) for each in outcomes] == [Failed, Written]
        assert await names(client) == ["taken"]
        assert (await client.get(CONFIG_MAP, "taken", "default")).data == {"k": "1"}

    in_hub(story)


def test_a_failure_holds_back_what_waits_for_it_and_nothing_else() -> None:
    async def story(client: InProcessClient) -> None:
        heard = Heard()
        await client.create(CONFIG_MAP, body("taken"), "default")
        about = {name: Emit(Reference(CONFIG_MAP, name, "default"), "Made", "Make", name) for name in ("a", "b", "c")}
        rows = (
            InOrder((create("a"), about["a"], create("a2"))),
            InOrder((create("taken"), about["b"], create("b2"))),
            InOrder((create("c"), about["c"], create("c2"))),
        )
        plan = Plan((Together(rows), create("never")))
        outcomes = [each async for each in act(plan, client, heard, manager="tester")]
        assert [each.write.name for each in outcomes if isinstance(each, Failed)] == ["taken"]
        assert await names(client) == ["a", "a2", "c", "c2", "taken"]
        assert {event.note for event in heard.events} == {"a", "c"}

    in_hub(story)


def test_a_burst_in_a_row_waits_for_the_row_and_is_held_back_with_it() -> None:
    async def story(client: InProcessClient) -> None:
        await client.create(CONFIG_MAP, body("taken"), "default")
        rows = tuple(
            InOrder((create(first), Together((create(f"{first}1"), create(f"{first}2"))))) for first in ("a", "taken")
        )
        outcomes = [each async for each in act(Plan((Together(rows),)), client, Heard(), manager="tester")]
        assert [each.write.name for each in outcomes if isinstance(each, Failed)] == ["taken"]
        assert await names(client) == ["a", "a1", "a2", "taken"]

    in_hub(story)


class Busy(InProcessClient):
    """A server that takes its time, and knows how many requests were under way at once."""

    running = most = asked = 0

    async def create(self, *args: Any, **options: Any) -> Any:
        self.running, self.asked = self.running + 1, self.asked + 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(1)
        self.running -= 1
        return await super().create(*args, **options)


def under_load(story: Callable[[Busy], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        await story(Busy(cluster, ROOT))

    run(main())


def burst(prefix: str, count: int = 100, *, slow_start: bool = True) -> Together:
    return Together(tuple(create(f"{prefix}{number:03}") for number in range(count)), slow_start=slow_start)


def test_a_burst_begins_with_as_many_writes_as_keep_a_server_busy() -> None:
    async def story(client: Busy) -> None:
        loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        await done(client, burst("c", slow_start=False))
        assert loop.time() - began == 4  # 32 at a time
        assert client.most == AT_ONCE

    under_load(story)


def test_a_burst_that_starts_slowly_doubles_until_the_server_is_busy() -> None:
    async def story(client: Busy) -> None:
        loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        await done(client, burst("c"))
        # 1, 2, 4, 8 and 16 in the first five seconds, then 32 at a time.
        assert loop.time() - began == 5 + 3
        assert client.most == AT_ONCE

    under_load(story)


def test_a_burst_that_starts_slowly_and_is_refused_costs_one_request_at_a_time_and_all_are_tried() -> None:
    async def story(client: Busy) -> None:
        await done(client, burst("c", 20))
        client.most = client.asked = 0
        plan = Plan((burst("c", 20),))
        outcomes = [each async for each in act(plan, client, Heard(), manager="tester")]
        assert all(isinstance(each, Failed) for each in outcomes)
        assert (client.asked, client.most) == (20, 1)

    under_load(story)


def test_the_trouble_of_one_plan_does_not_slow_down_another() -> None:
    async def story(client: Busy) -> None:
        await done(client, burst("a"))
        with pytest.raises(AlreadyExists):
            await done(client, burst("a"))
        loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        await done(client, burst("b"))
        assert loop.time() - began == 5 + 3

    under_load(story)


def test_many_writes_stop_soon_after_nobody_wants_them_any_more() -> None:
    async def story(client: InProcessClient) -> None:
        made: list[str] = []
        plan = Plan((Together(tuple(create(f"c{number:03}") for number in range(200))), create("last")))
        steps = act(plan, client, Heard(), manager="tester", is_wanted=lambda: len(made) < 10)

        async def carry_out() -> None:
            async for outcome in steps:
                made.append(outcome.name if isinstance(outcome, Written) else "failed")  # noqa: PERF401 - see is_wanted

        with pytest.raises(Superseded):
            await carry_out()
        assert 10 <= len(made) <= 10 + 2 * AT_ONCE
        assert await names(client) == sorted(made)

    in_hub(story)


def test_the_status_is_written_last() -> None:
    async def story(client: InProcessClient) -> None:
        status = Patch(NAMESPACE, "default", {"status": {"phase": "Active"}}, subresource="status")
        made = await done(client, create("a"), status=status)
        assert [w.kind.kind for w in made] == ["ConfigMap", "Namespace"]

    in_hub(story)


@pytest.mark.parametrize("what", ["patch", "delete"])
@pytest.mark.parametrize("precondition", ["uid", "resource_version"])
def test_a_write_that_was_planned_for_another_object_or_state_is_refused(what: str, precondition: str) -> None:
    async def story(client: InProcessClient) -> None:
        await client.create(CONFIG_MAP, body("a"), "default")
        expected = {precondition: "1"}
        action = (
            Patch(CONFIG_MAP, "a", {"data": {"k": "1"}}, "default", **expected)
            if what == "patch"
            else Delete(CONFIG_MAP, "a", "default", **expected)
        )
        # Kubernetes calls another uid in a patch the change of an immutable field.
        with pytest.raises((Conflict, Invalid)):
            await done(client, action)
        assert (await client.get(CONFIG_MAP, "a", "default")).data == {}

    in_hub(story)


def test_preconditions_that_hold_let_a_write_through_and_keep_its_other_metadata() -> None:
    async def story(client: InProcessClient) -> None:
        obj = await client.create(CONFIG_MAP, body("a"), "default")
        metadata = obj.metadata
        change = {"metadata": {"labels": {"app": "web"}}}
        patch = Patch(CONFIG_MAP, "a", change, "default", metadata.uid, metadata.resource_version)
        (made,) = await done(client, patch)
        assert made.labels == {"app": "web"}
        assert change == {"metadata": {"labels": {"app": "web"}}}
        version = made.resource_version or ""
        await done(client, Delete(CONFIG_MAP, "a", "default", metadata.uid, version))
        assert await names(client) == []

    in_hub(story)


def test_deleting_what_is_gone_is_a_failure_like_any_other() -> None:
    async def story(client: InProcessClient) -> None:
        with pytest.raises(NotFound):
            await done(client, Delete(CONFIG_MAP, "a", "default"))

    in_hub(story)


def test_applying_over_somebody_else_takes_force() -> None:
    async def story(client: InProcessClient) -> None:
        await client.create(CONFIG_MAP, body("a", k="theirs"), "default")
        with pytest.raises(Conflict):
            await done(client, Apply(CONFIG_MAP, "a", body("a", k="ours"), "default", force=False))
        await done(client, Apply(CONFIG_MAP, "a", body("a", k="ours"), "default"))
        assert (await client.get(CONFIG_MAP, "a", "default")).data == {"k": "ours"}

    in_hub(story)


def test_an_answer_that_never_came_is_counted_and_passed_on() -> None:
    class Deaf(InProcessClient):
        async def create(self, *_: Any, **__: Any) -> Any:
            raise ConnectionResetError("cut")

    async def main() -> None:
        cluster, metrics = memory_cluster(), Metrics()
        with pytest.raises(ConnectionResetError):
            await done(Deaf(cluster, ROOT), create("a"), metrics=metrics)
        sample = metrics.registry.get_sample_value
        assert sample("echelon_writes_total", {"verb": "create", "kind": "configmaps", "code": "none"}) == 1

    run(main())


def test_documents_instead_of_types_are_understood() -> None:
    async def story(client: InProcessClient) -> None:
        (made,) = await done(client, Create(CONFIG_MAP.untyped(), body("a"), "default"))
        assert made.name == "a"
        assert made.namespace == "default"
        assert made.resource_version == (await client.get(CONFIG_MAP, "a", "default")).metadata.resource_version

    in_hub(story)


def test_a_cancelled_plan_stops_where_it_is() -> None:
    class Slow(InProcessClient):
        async def create(self, *args: Any, **options: Any) -> Any:
            await asyncio.sleep(10)
            return await super().create(*args, **options)

    async def main() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        client = Slow(cluster, ROOT)
        task = asyncio.create_task(done(client, create("a"), create("b")))
        await asyncio.sleep(15)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(60)
        assert await names(client) == ["a"]

    run(main())


def test_a_second_write_of_an_object_builds_on_the_first() -> None:
    async def story(client: InProcessClient) -> None:
        old = await client.create(CONFIG_MAP, body("twice"), "default")
        seen = old.metadata.resource_version
        first = Patch(CONFIG_MAP, "twice", {"data": {"a": "1"}}, "default", resource_version=seen)
        second = Patch(CONFIG_MAP, "twice", {"data": {"b": "2"}}, "default", resource_version=seen)
        await done(client, first, second)
        assert (await client.get(CONFIG_MAP, "twice", "default")).data == {"a": "1", "b": "2"}

    in_hub(story)


def test_a_second_write_still_notices_what_somebody_else_wrote_between() -> None:
    async def story(client: InProcessClient) -> None:
        await client.create(CONFIG_MAP, body("between"), "default")
        first = Patch(CONFIG_MAP, "between", {"data": {"a": "1"}}, "default")
        second = Patch(CONFIG_MAP, "between", {"data": {"b": "2"}}, "default")
        steps = act(Plan((first, second)), client, Heard(), manager="tester")
        await anext(steps)
        await client.patch(CONFIG_MAP, "between", MergePatch({"data": {"c": "3"}}), "default")
        refused = await anext(steps)
        assert isinstance(refused, Failed)
        assert isinstance(refused.error, Conflict)

    in_hub(story)


def test_independent_writes_are_all_tried_and_a_failure_among_them_ends_the_plan_after_them() -> None:
    async def story(client: InProcessClient) -> None:
        await client.create(CONFIG_MAP, body("taken"), "default")
        with pytest.raises(AlreadyExists):
            await done(client, Together((create("a"), create("taken"), create("b"))), create("never"))
        assert await names(client) == ["a", "b", "taken"]

    in_hub(story)


def test_more_independent_writes_than_are_made_at_once_are_made_all_the_same() -> None:
    async def story(client: InProcessClient) -> None:
        wanted = [f"c{number:03}" for number in range(100)]
        written = await done(client, Together(tuple(map(create, wanted))), create("last"))
        assert [one.name for one in written][-1] == "last"
        assert await names(client) == [*wanted, "last"]

    in_hub(story)


def test_what_follows_independent_writes_builds_on_the_versions_that_they_led_to() -> None:
    async def story(client: InProcessClient) -> None:
        old = await client.create(CONFIG_MAP, body("one"), "default")
        version = old.metadata.resource_version
        first, second = (
            Patch(CONFIG_MAP, "one", {"data": {key: "x"}}, "default", resource_version=version) for key in "ab"
        )
        await done(client, Together((first,)), second)
        assert (await client.get(CONFIG_MAP, "one", "default")).data == {"a": "x", "b": "x"}

    in_hub(story)


def test_a_burst_in_a_row_that_nobody_wants_any_more_lets_others_finish_what_they_began() -> None:
    async def story(client: Busy) -> None:
        loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        rows = (InOrder((create("a"), burst("b", slow_start=False))), InOrder((create("c"), create("d"))))
        plan = Plan((Together(rows), create("never")))
        outcomes = act(plan, client, Heard(), manager="tester", is_wanted=lambda: loop.time() - began < 1)
        with pytest.raises(Superseded):
            [each async for each in outcomes]
        assert await names(client) == ["a", "c", "d"]

    under_load(story)


def rows_of_bursts() -> Plan:
    """Return what a set plans of which many cliques are scaled in at one moment: first the clique, then its pods."""
    rows = [InOrder((create(f"{row:02}"), burst(f"{row:02}-", 20, slow_start=False))) for row in range(20)]
    return Plan((Together(tuple(rows)), create("last")))


def test_bursts_within_a_burst_are_together_no_more_than_one() -> None:
    async def story(client: Busy) -> None:
        await done(client, *rows_of_bursts().actions)
        assert client.most == AT_ONCE
        assert len(await names(client)) == 20 + 20 * 20 + 1

    under_load(story)


def test_what_waits_for_a_place_is_not_written_if_nobody_wants_it_by_then() -> None:
    async def story(client: Busy) -> None:
        loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        plan = rows_of_bursts()
        outcomes = act(plan, client, Heard(), manager="tester", is_wanted=lambda: loop.time() - began < 2)
        with pytest.raises(Superseded):
            [each async for each in outcomes]
        assert len(await names(client)) == 20 + AT_ONCE

    under_load(story)
