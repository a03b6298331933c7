"""Each fault does what the thing does that it stands for, and nothing that could not happen."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import fields
from random import Random
from typing import Any

import pytest

from echelon.api.core import CONFIG_MAP, ConfigMap
from echelon.fleet.loop import PROCESS, run, running
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube import errors
from echelon.kube.client import Client, DeleteOptions, Event, EventType, MergePatch, Preconditions, WriteOptions
from echelon.kube.faults import Crash, Faults, FaultyClient, Process

Test = Callable[[InProcessClient, Callable[[Faults], FaultyClient]], Coroutine[Any, Any, None]]


def on_a_hub(test: Test, count: int = 5) -> None:
    async def main() -> None:
        cluster = memory_cluster(clock=running().clock.now, seed=1)
        await bootstrap(cluster)
        await test(
            InProcessClient(cluster, ROOT),
            lambda faults: FaultyClient(InProcessClient(cluster, ROOT), faults, running().random),
        )

    for seed in range(count):
        run(main(), seed)


async def create(client: Client, name: str) -> ConfigMap:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": "0"}}
    return await client.create(CONFIG_MAP, body, "default")


async def number(client: Client, name: str, value: int) -> ConfigMap:
    return await client.patch(CONFIG_MAP, name, MergePatch({"data": {"n": str(value)}}), "default")


async def names(client: Client) -> list[str]:
    return [item.metadata.name for item in (await client.list(CONFIG_MAP, "default")).items]


def test_without_faults_it_is_the_client_itself() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        same = faulty(Faults())
        made = await create(same, "a")
        assert await client.get(CONFIG_MAP, "a", "default") == made == await same.get(CONFIG_MAP, "a", "default")
        assert (await number(same, "a", 1)).data == {"n": "1"}
        assert await same.list(CONFIG_MAP, "default") == await client.list(CONFIG_MAP, "default")
        version = made.metadata.resource_version
        stream = same.watch(CONFIG_MAP, "default", resource_version=version)
        assert (await anext(aiter(stream))).type is EventType.MODIFIED
        await same.delete(CONFIG_MAP, "a", "default")
        assert await names(client) == []
        assert not same.injected
        assert same.process.writes == 3

    on_a_hub(main)


@pytest.mark.parametrize(
    ("faults", "refusal"),
    [
        (Faults(too_many_requests=1), errors.TooManyRequests),
        (Faults(server_error=1), errors.ApiError),
    ],
)
def test_a_request_that_is_refused_changes_nothing(faults: Faults, refusal: type[errors.ApiError]) -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        await create(client, "a")
        refused = faulty(faults)
        for attempt in (
            create(refused, "b"),
            number(refused, "a", 1),
            refused.delete(CONFIG_MAP, "a", "default"),
            refused.get(CONFIG_MAP, "a", "default"),
            refused.list(CONFIG_MAP, "default"),
            anext(aiter(refused.watch(CONFIG_MAP, "default"))),
        ):
            with pytest.raises(refusal) as caught:
                await attempt
            assert caught.value.retry_after > 0 or refusal is errors.ApiError
        assert [item.data["n"] for item in (await client.list(CONFIG_MAP, "default")).items] == ["0"]
        assert refused.injected.total() == 6

    on_a_hub(main)


def test_a_conflict_meets_patches_and_guarded_deletions_and_nothing_else() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        unlucky = faulty(Faults(conflict=1))
        made = await create(unlucky, "a")
        with pytest.raises(errors.Conflict, match="the object has been modified"):
            await number(unlucky, "a", 1)
        guarded = DeleteOptions(preconditions=Preconditions(uid=made.metadata.uid))
        with pytest.raises(errors.Conflict):
            await unlucky.delete(CONFIG_MAP, "a", "default", options=guarded)
        assert (await client.get(CONFIG_MAP, "a", "default")).data == {"n": "0"}
        await unlucky.delete(CONFIG_MAP, "a", "default")
        assert await names(client) == []

    on_a_hub(main)


def test_a_lost_answer_is_an_error_of_a_write_that_was_made() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        with pytest.raises(errors.ServerTimeout, match="before the answer came"):
            await create(faulty(Faults(lost_answer=1)), "a")
        assert await names(client) == ["a"]

    on_a_hub(main)


def test_a_write_whose_caller_gave_up_is_made_all_the_same() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        slow = Faults(latency=(10, 10))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(create(faulty(slow), "never"), 5)
        late = faulty(Faults(latency=(10, 10), late_write=1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(create(late, "late"), 5)
        assert await names(client) == []
        await asyncio.sleep(10)
        assert await names(client) == ["late"]
        assert late.injected == {"late_write": 1}

    on_a_hub(main)


def test_a_write_on_the_wire_does_not_stand_still_with_its_process() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        late = faulty(Faults(latency=(10, 10), late_write=1))

        async def process() -> None:
            PROCESS.set("paused")
            await create(late, "a")

        writing = asyncio.create_task(process())
        await asyncio.sleep(5)
        running().pause("paused", 100)
        await asyncio.sleep(10)
        assert await names(client) == ["a"]
        assert not writing.done()
        await writing
        assert running().time() == 105

    on_a_hub(main)


def test_latency_is_there_on_the_way_and_on_the_way_back() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        began = running().time()
        writing = asyncio.create_task(create(faulty(Faults(latency=(1, 1))), "a"))
        await asyncio.sleep(0.9)
        assert await names(client) == []
        await asyncio.sleep(0.2)
        assert await names(client) == ["a"]
        await writing
        assert running().time() == began + 2

    on_a_hub(main, 2)


@pytest.mark.parametrize(("faults", "made"), [(Faults(crash_before=3), 2), (Faults(crash_after=3), 3)])
def test_a_crash_at_a_write_is_the_end_of_the_process(faults: Faults, made: int) -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        dying = faulty(faults)
        sibling = FaultyClient(client, faults, Random(1), dying.process)  # noqa: S311 - repeatable on purpose
        await create(dying, "a")
        dry = WriteOptions(dry_run=True)
        await dying.patch(CONFIG_MAP, "a", MergePatch({"data": {"n": "9"}}), "default", options=dry)
        await create(sibling, "b")
        with pytest.raises(Crash):
            await create(dying, "c")
        assert len(await names(client)) == made
        assert dying.process.died.is_set()
        for end in (dying, sibling):
            with pytest.raises(Crash, match="has ended"):
                await create(end, "d")
            with pytest.raises(Crash, match="has ended"):
                await end.get(CONFIG_MAP, "a", "default")
        dying.process.restart()
        with pytest.raises(Crash, match="has ended"):
            await create(dying, "d")
        await create(FaultyClient(client, faults, running().random, dying.process), "d")
        assert dying.injected == {"crash": 1}

    on_a_hub(main)


def test_a_crash_gets_through_code_that_handles_every_exception() -> None:
    async def main(_: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        dying = faulty(Faults(crash=1))

        async def careful() -> None:
            try:
                await create(dying, "a")
            except Exception:  # noqa: BLE001 - that is what this is about
                pytest.fail("handled")

        with pytest.raises(BaseExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(careful())
        assert caught.group_contains(Crash)

    on_a_hub(main)


def test_stale_reads_are_of_one_earlier_state_until_the_replica_catches_up() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        await create(client, "a")
        for value in range(1, 40):
            await number(client, "a", value)
        stale = faulty(Faults(stale=1, stale_revisions=20, stale_seconds=(30, 30)))
        then = int((await stale.get(CONFIG_MAP, "a", "default")).data["n"])
        assert 39 - 20 <= then < 39
        await number(stale, "a", 40)
        assert int((await stale.get(CONFIG_MAP, "a", "default")).data["n"]) == then, "not even its own writes"
        page = await stale.list(CONFIG_MAP, "default")
        assert [int(item.data["n"]) for item in page.items] == [then]
        newest = (await client.list(CONFIG_MAP, "default")).resource_version
        assert int(page.resource_version) < int(newest)
        with pytest.raises(errors.ServerTimeout, match="Too large resource version"):
            await stale.list(CONFIG_MAP, "default", resource_version=newest, resource_version_match="NotOlderThan")
        stale.process.calm = True
        await asyncio.sleep(30)
        assert (await stale.get(CONFIG_MAP, "a", "default")).data["n"] == "40"

    on_a_hub(main, 20)


def test_an_object_that_a_stale_replica_does_not_know_yet_is_not_found() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        await create(client, "a")
        stale = faulty(Faults(stale=1, stale_revisions=1))
        with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
            await stale.get(CONFIG_MAP, "a", "default")

    on_a_hub(main)


async def follow(client: Client, since: str, seconds: float) -> list[tuple[float, Event[ConfigMap]]]:
    """Return what one stream brings, and when, until it ends or the time is up."""
    seen: list[tuple[float, Event[ConfigMap]]] = []
    stream = client.watch(CONFIG_MAP, "default", resource_version=since, bookmarks=False)
    try:
        async with asyncio.timeout(seconds):
            async for event in stream:
                seen.append((running().time(), event))  # noqa: PERF401 - what came before the time-out counts
    except TimeoutError:
        pass
    finally:
        await stream.aclose()  # type: ignore[attr-defined]
    return seen


async def count_up(client: Client, to: int) -> None:
    for value in range(1, to + 1):
        await number(client, "a", value)
        await asyncio.sleep(1)


def numbers(seen: list[tuple[float, Event[ConfigMap]]]) -> list[int]:
    return [int(event.object.data["n"]) for _, event in seen if event.object is not None]


def test_a_stale_replica_is_silent_about_the_news_and_then_tells_all_of_it() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        since = (await create(client, "a")).metadata.resource_version
        await count_up(client, 20)
        began = running().time()
        seen = await follow(faulty(Faults(stale=1, stale_revisions=5, stale_seconds=(60, 60))), since, 100)
        assert numbers(seen) == list(range(1, 21))
        late = [moment - began for moment, _ in seen]
        assert sorted(set(late)) == [0, 60]
        assert 1 <= late.count(60) <= 5

    on_a_hub(main, 20)


def test_a_stream_that_stalls_loses_nothing_that_a_new_one_would_not_bring() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        since = (await create(client, "a")).metadata.resource_version
        counting = asyncio.create_task(count_up(client, 20))
        stalling = faulty(Faults(stall=1, stall_seconds=(50, 50)))
        began = running().time()
        seen = await follow(stalling, since, 200)
        last = seen[-1][0] if seen else began
        assert numbers(seen) == list(range(1, len(seen) + 1)), "what comes, comes in order and without holes"
        assert len(seen) < 20
        assert running().time() == last + 50, "then there is silence, and the end"
        await counting
        resumed = await follow(client, seen[-1][1].resource_version if seen else since, 5)
        assert numbers(seen) + numbers(resumed) == list(range(1, 21))

    on_a_hub(main, 20)


def test_a_stream_that_is_closed_early_ends_cleanly_or_with_an_error() -> None:
    ends: set[str] = set()

    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        since = (await create(client, "a")).metadata.resource_version
        await count_up(client, 20)
        try:
            assert len(await follow(faulty(Faults(close=1)), since, 5)) < 20
            ends.add("clean")
        except errors.Unavailable:
            ends.add("error")

    on_a_hub(main, 20)
    assert ends == {"clean", "error"}


def test_repeated_events_are_earlier_ones_in_their_order() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        await create(client, "a")
        await count_up(client, 20)
        since = (await client.get(CONFIG_MAP, "a", "default")).metadata.resource_version
        seen = numbers(await follow(faulty(Faults(repeat=1, repeat_revisions=5)), since, 5))
        assert seen == list(range(21 - len(seen), 21))
        assert 1 <= len(seen) <= 5

    on_a_hub(main, 20)


def test_delayed_events_hold_up_what_is_behind_them() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        since = (await create(client, "a")).metadata.resource_version
        await count_up(client, 10)
        began = running().time()
        seen = await follow(faulty(Faults(delay=1, delay_seconds=(2, 2))), since, 100)
        assert numbers(seen) == list(range(1, 11))
        assert [moment - began for moment, _ in seen] == [2.0 * count for count in range(1, 11)]

    on_a_hub(main, 2)


def test_a_version_that_is_gone_can_not_be_resumed_from_and_a_list_helps() -> None:
    async def main(client: InProcessClient, faulty: Callable[[Faults], FaultyClient]) -> None:
        for name in ("a", "b", "c"):
            await create(client, name)
        forgetful = faulty(Faults(gone=1))
        with pytest.raises(errors.Gone, match="too old resource version"):
            await follow(forgetful, "3", 5)
        page = await forgetful.list(CONFIG_MAP, "default", limit=1)
        with pytest.raises(errors.Gone, match="continue parameter is too old"):
            await forgetful.list(CONFIG_MAP, "default", limit=1, continue_=page.continue_)
        assert await names(forgetful) == ["a", "b", "c"]

    on_a_hub(main)


def test_a_calm_process_meets_no_faults() -> None:
    async def main(client: InProcessClient, _: Callable[[Faults], FaultyClient]) -> None:
        rates = {field.name: 1.0 for field in fields(Faults) if field.default == 0.0 and field.type is float}
        assert len(rates) > 10
        calm = FaultyClient(client, Faults(**rates), running().random, Process(calm=True))  # type: ignore[arg-type]
        since = (await create(calm, "a")).metadata.resource_version
        await count_up(calm, 12)
        assert numbers(await follow(calm, since, 100)) == list(range(1, 13))
        assert not calm.injected

    on_a_hub(main, 2)


def test_a_swarm_mixes_about_half_of_the_faults_and_is_drawn_by_the_seed() -> None:
    mixtures = [Faults.swarm(Random(seed)) for seed in range(50)]  # noqa: S311 - repeatable on purpose
    assert mixtures == [Faults.swarm(Random(seed)) for seed in range(50)]  # noqa: S311 - repeatable on purpose
    for name in ("conflict", "lost_answer", "stale", "gone", "stall", "close", "repeat", "delay", "crash"):
        assert 10 < sum(getattr(faults, name) > 0 for faults in mixtures) < 40
