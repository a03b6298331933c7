"""The promises of a watch, one test each, on random histories with concurrent writers and followers.

The nine names are those under which etcd tests its own watches. A follower is a client: it reads at its own pace, goes
away and comes back where it stopped. The reference is kept by the writers themselves, from what they wrote.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from echelon.hub.storage.log import Log
from echelon.hub.storage.store import Change, Compacted, Entry, Key, Store, WatchClosed
from tests.examples import examples

RESOURCES = ("configmaps", "works.example.io")
NAMESPACES = ("a", "b", "")

unhurried = settings(examples(80), suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Plan:
    """What one follower does."""

    resource: str | None
    namespace: str | None
    late: bool  # starts when half of the writers are done, somewhere in the past
    resume_every: int  # batches after which it comes back; 0 for never
    from_bookmark: bool  # where it comes back: at its bookmark, or at the last change that it saw
    pause: int  # how many turns it lets pass between two reads


@dataclass
class Write:
    """A write as its writer knows it."""

    type: str
    key: Key
    object: dict[str, Any]
    before: dict[str, Any] | None
    revision: int = 0


@dataclass
class Follower:
    plan: Plan
    since: int
    seen: list[Change] = field(default_factory=list)
    bookmarks: list[tuple[int, int]] = field(default_factory=list)  # revision, how many had been seen

    def concerns(self, key: Key) -> bool:
        plan = self.plan
        return plan.resource in (None, key.resource) and plan.namespace in (None, key.namespace)

    def owed(self, writes: Sequence[Write], until: int) -> list[Write]:
        return [write for write in writes if self.concerns(write.key) and self.since < write.revision <= until]


@dataclass
class Story:
    writes: list[Write]
    followers: list[Follower]
    revision: int


def plans(**fixed: Any) -> st.SearchStrategy[Plan]:
    about = st.one_of(st.just((None, None)), st.tuples(st.sampled_from(RESOURCES), st.sampled_from((None, "a", "b"))))
    free = {
        "late": st.booleans(),
        "resume_every": st.integers(0, 3),
        "from_bookmark": st.booleans(),
        "pause": st.integers(0, 3),
    }
    free.update({name: st.just(value) for name, value in fixed.items()})
    return st.builds(lambda what, **rest: Plan(what[0], what[1], **rest), about, **free)


KEYS = st.builds(Key, st.sampled_from(RESOURCES), st.sampled_from(NAMESPACES), st.sampled_from(("x", "y")))
STEPS = st.lists(st.tuples(st.sampled_from(("put", "put", "remove", "pause")), KEYS, st.integers(0, 99)), max_size=25)
WRITERS = st.lists(STEPS, min_size=1, max_size=4)


def followers(**fixed: Any) -> st.SearchStrategy[list[Plan]]:
    return st.lists(plans(**fixed), min_size=1, max_size=5)


@asynccontextmanager
async def opened(*, durable: bool) -> AsyncIterator[Store]:
    if not durable:
        yield Store(None, "test")
        return
    with tempfile.TemporaryDirectory() as directory:
        log = Log(Path(directory) / "hub.db")
        yield Store(log, "test")
        await log.close()


async def tell(steps: Sequence[Sequence[tuple[str, Key, int]]], wanted: Sequence[Plan], *, durable: bool) -> Story:
    async with opened(durable=durable) as store:
        state: dict[Key, Write] = {}
        writes: list[Write] = []

        async def write(todo: Sequence[tuple[str, Key, int]]) -> None:
            for what, key, number in todo:
                before = state.get(key)
                if what == "pause" or (what == "remove" and before is None):
                    await asyncio.sleep(0)
                    continue
                obj = {"kind": "Thing", "metadata": {"name": key.name, "labels": {"n": str(number)}}, "n": number}
                kind = "DELETED" if what == "remove" else "MODIFIED" if before else "ADDED"
                mine = Write(kind, key, obj, before.object if before else None)
                writes.append(mine)
                if kind == "DELETED":
                    del state[key]
                    entry = await store.remove(key, obj)
                else:
                    state[key] = mine
                    entry = await store.put(key, obj)
                mine.revision = entry.revision
                # The key may have been written by others meanwhile, but never may an older state be shown.
                assert store.revision >= entry.revision

        half, done = asyncio.Event(), asyncio.Event()

        async def follow(plan: Plan) -> Follower:
            if plan.late:
                await half.wait()
            me = Follower(plan, store.revision // 2 if plan.late else 0)
            watch = store.watch(plan.resource, plan.namespace, since=me.since)
            batches = 0
            while not done.is_set() or watch.revision < store.revision:
                batch = await watch.next(0 if done.is_set() else 0.001)
                batches += bool(batch)
                me.seen += batch
                me.bookmarks.append((watch.revision, len(me.seen)))
                if batch and plan.resume_every and batches % plan.resume_every == 0:
                    since = watch.revision if plan.from_bookmark else batch[-1].revision
                    watch.close()
                    watch = store.watch(plan.resource, plan.namespace, since=since)
                for _ in range(plan.pause):
                    await asyncio.sleep(0)
            watch.close()
            return me

        tasks = [asyncio.create_task(follow(plan)) for plan in wanted]
        await asyncio.sleep(0)
        middle = len(steps) // 2
        await asyncio.gather(*(write(todo) for todo in steps[:middle]))
        half.set()
        await asyncio.gather(*(write(todo) for todo in steps[middle:]))
        done.set()
        return Story(writes, [await task for task in tasks], store.revision)


def told(steps: Sequence[Sequence[tuple[str, Key, int]]], wanted: Sequence[Plan], *, durable: bool = False) -> Story:
    return asyncio.run(tell(steps, wanted, durable=durable))


def check_filter(story: Story) -> None:
    for follower in story.followers:
        assert all(follower.concerns(change.entry.key) for change in follower.seen)


def check_ordered(story: Story) -> None:
    for follower in story.followers:
        revisions = [change.revision for change in follower.seen]
        assert revisions == sorted(revisions)
    assert [write.revision for write in story.writes] == sorted(write.revision for write in story.writes)


def check_unique(story: Story) -> None:
    for follower in story.followers:
        revisions = [change.revision for change in follower.seen]
        assert len(revisions) == len(set(revisions))
    lines: dict[int, bytes] = {}
    for follower in story.followers:
        for change in follower.seen:
            assert lines.setdefault(change.revision, change.line) == change.line


def check_atomic(story: Story) -> None:
    """A change is one whole write, under the revision that its writer was told."""
    written = {write.revision: write for write in story.writes}
    for follower in story.followers:
        for change in follower.seen:
            assert change.entry.object == stamped(written[change.revision].object, change.revision)
            assert change.entry.revision == change.revision


def check_reliable(story: Story) -> None:
    for follower in story.followers:
        owed = follower.owed(story.writes, story.revision)
        assert [write.revision for write in owed] == [change.revision for change in follower.seen]


def check_bookmarkable(story: Story) -> None:
    for follower in story.followers:
        last = follower.since
        for revision, count in follower.bookmarks:
            assert revision >= last
            last = revision
            assert len(follower.owed(story.writes, revision)) == count


def check_previous(story: Story) -> None:
    written = {write.revision: write for write in story.writes}
    for follower in story.followers:
        for change in follower.seen:
            before = written[change.revision].before
            if before is None:
                assert change.previous is None
            else:
                assert change.previous is not None
                assert change.previous.object == stamped(before, change.previous.revision)
                assert change.previous.revision < change.revision


def check_is_create(story: Story) -> None:
    written = {write.revision: write for write in story.writes}
    for follower in story.followers:
        for change in follower.seen:
            write = written[change.revision]
            assert change.type == write.type
            assert (change.type == "ADDED") == (change.entry.created == change.revision) == (change.previous is None)
            if change.previous is not None:
                assert change.entry.created == change.previous.created


def stamped(obj: dict[str, Any], revision: int) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


@unhurried
@given(WRITERS, followers())
def test_filter_a_watch_gets_only_what_it_asked_for(steps: Any, wanted: Any) -> None:
    check_filter(told(steps, wanted))


@unhurried
@given(WRITERS, followers())
def test_ordered_changes_come_in_order_of_revision(steps: Any, wanted: Any) -> None:
    check_ordered(told(steps, wanted))


@unhurried
@given(WRITERS, followers())
def test_unique_no_change_comes_twice_and_a_revision_means_one_change(steps: Any, wanted: Any) -> None:
    check_unique(told(steps, wanted))


@unhurried
@given(WRITERS, followers())
def test_atomic_a_change_is_one_whole_write(steps: Any, wanted: Any) -> None:
    check_atomic(told(steps, wanted))


@unhurried
@given(WRITERS, followers())
def test_reliable_no_change_is_left_out(steps: Any, wanted: Any) -> None:
    check_reliable(told(steps, wanted))


@unhurried
@given(WRITERS, followers(resume_every=1, from_bookmark=False))
def test_resumable_a_watch_that_comes_back_misses_nothing(steps: Any, wanted: Any) -> None:
    check_reliable(told(steps, wanted))


@unhurried
@given(WRITERS, followers())
def test_bookmarkable_a_bookmark_covers_all_before_it_and_nothing_after(steps: Any, wanted: Any) -> None:
    check_bookmarkable(told(steps, wanted))


@unhurried
@given(WRITERS, followers())
def test_previous_state_is_the_one_before_the_write(steps: Any, wanted: Any) -> None:
    check_previous(told(steps, wanted))


@unhurried
@given(WRITERS, followers())
def test_is_create_tells_a_new_object_from_a_changed_one(steps: Any, wanted: Any) -> None:
    check_is_create(told(steps, wanted))


@settings(unhurried, max_examples=examples(25).max_examples)
@given(WRITERS, followers())
def test_all_nine_hold_with_a_durable_log(steps: Any, wanted: Any) -> None:
    story = told(steps, wanted, durable=True)
    check_filter(story)
    check_ordered(story)
    check_unique(story)
    check_atomic(story)
    check_reliable(story)
    check_bookmarkable(story)
    check_previous(story)
    check_is_create(story)


def thing(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": name}, "spec": spec}


def put(store: Store, name: str, namespace: str = "", resource: str = "things", **spec: Any) -> None:
    store.put(Key(resource, namespace, name), thing(name, **spec))


def test_a_batch_is_everything_that_is_ready() -> None:
    async def scene() -> None:
        store = Store(None, "test")
        watch = store.watch("things", since=0)
        for name in "abc":
            put(store, name)
        assert [change.entry.key.name for change in await watch.next()] == ["a", "b", "c"]

    asyncio.run(scene())


def test_a_deletion_shows_the_last_state_at_the_revision_of_the_deletion() -> None:
    async def scene() -> None:
        store = Store(None, "test")
        put(store, "a", size=1)
        store.remove(Key("things", "", "a"), thing("a", size=2))
        (change,) = await store.watch("things", since=1).next()
        assert change.type == "DELETED"
        assert change.entry.object == stamped(thing("a", size=2), 2)
        assert change.line.startswith(b'{"type":"DELETED","object":{')
        assert change.line.endswith(b"}}\n")
        assert change.previous is not None
        assert change.previous.object == stamped(thing("a", size=1), 1)

    asyncio.run(scene())


def test_an_idle_watch_comes_back_empty_in_time_for_a_bookmark() -> None:
    async def scene() -> None:
        store = Store(None, "test")
        watch = store.watch("things", since=0)
        put(store, "a", resource="others")
        assert await watch.next(0.01) == []
        assert watch.revision == 1

    asyncio.run(scene())


def test_a_change_wakes_only_the_watches_that_it_concerns() -> None:
    async def scene() -> None:
        store = Store(None, "test")
        concerned = asyncio.create_task(store.watch("things", "here", since=0).next())
        other_namespace = asyncio.create_task(store.watch("things", "there", since=0).next())
        other_resource = asyncio.create_task(store.watch("others", since=0).next())
        await asyncio.sleep(0)
        put(store, "a", "here")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert concerned.done()
        assert not other_namespace.done()
        assert not other_resource.done()
        other_namespace.cancel()
        other_resource.cancel()

    asyncio.run(scene())


def test_closing_one_watch_does_not_disturb_its_neighbour() -> None:
    async def scene() -> None:
        store = Store(None, "test")
        closed, other = store.watch("things", since=0), store.watch("things", since=0)
        first, second = asyncio.create_task(closed.next()), asyncio.create_task(other.next())
        await asyncio.sleep(0)
        closed.close()
        with pytest.raises(WatchClosed):
            await first
        assert not second.done()
        put(store, "a")
        assert len(await second) == 1

    asyncio.run(scene())


def test_closing_the_store_ends_iterations() -> None:
    async def scene() -> None:
        store = Store(None, "test")
        batches: list[list[Change]] = []

        async def read() -> None:
            async for batch in store.watch(None, since=0):
                batches.append(batch)  # noqa: PERF401 - the iteration is what is tested

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        put(store, "a")
        await asyncio.sleep(0.01)
        store.close()
        await task
        assert [change.revision for batch in batches for change in batch] == [1]

    asyncio.run(scene())


def test_a_watch_that_fell_behind_has_to_start_over() -> None:
    async def scene() -> None:
        store = Store(None, "test", history=10)
        slow, idle, quick = store.watch("things", since=0), store.watch("others", since=0), store.watch(None, since=0)
        for number in range(40):
            put(store, f"n{number}")
            await quick.next(0)
        with pytest.raises(Compacted):
            await slow.next()
        assert await idle.next(0) == []  # nothing that it is about was lost
        assert idle.revision == 40
        with pytest.raises(Compacted):
            store.watch("others", since=store.compacted - 1)
        assert len(await store.watch("things", since=store.compacted).next()) == 40 - store.compacted

    asyncio.run(scene())


def test_a_watch_from_a_revision_to_come_starts_there() -> None:
    async def scene() -> None:
        store = Store(None, "test")
        watch = store.watch("things", since=2)
        task = asyncio.create_task(watch.next())
        for name in "abc":
            await asyncio.sleep(0)
            put(store, name)
        assert [change.revision for change in await task] == [3]

    asyncio.run(scene())


def test_a_cancelled_read_loses_nothing() -> None:
    async def scene() -> None:
        store = Store(None, "test")
        watch = store.watch("things", since=0)
        task = asyncio.create_task(watch.next())
        await asyncio.sleep(0)
        put(store, "a")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(await watch.next(0)) == 1

    asyncio.run(scene())


def test_watches_wake_in_the_order_in_which_they_came() -> None:
    async def scene() -> list[int]:
        store = Store(None, "test")
        order: list[int] = []

        async def follow(number: int) -> None:
            await store.watch("things", since=0).next()
            order.append(number)

        tasks = [asyncio.create_task(follow(number)) for number in range(50)]
        await asyncio.sleep(0)
        put(store, "a")
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(scene()) == list(range(50))


def test_watching_names_that_never_exist_leaves_nothing_behind() -> None:
    store = Store(None, "test")
    for number in range(100):
        store.watch("things", f"nowhere-{number}", since=0).close()
    assert not store._history._threads


def test_the_line_of_a_change_is_made_once_for_all_watches() -> None:
    async def scene() -> None:
        store = Store(None, "test")
        put(store, "a")
        first = await store.watch("things", since=0).next()
        second = await store.watch(None, since=0).next()
        assert first[0].line is second[0].line

    asyncio.run(scene())


def test_an_entry_in_the_history_is_the_one_in_the_state() -> None:
    async def scene() -> None:
        store = Store(None, "test")
        entry: Entry = await store.put(Key("things", "", "a"), thing("a"))
        (change,) = await store.watch("things", since=0).next()
        assert change.entry is entry is store.get(Key("things", "", "a"))

    asyncio.run(scene())


def test_a_watch_that_does_not_wait_lets_others_run() -> None:
    async def scene() -> None:
        with Store(None, "c").watch(None, since=0) as watch:
            other = asyncio.create_task(asyncio.sleep(0))
            for _ in range(100):
                assert await watch.next(0) == []
            assert other.done()

    asyncio.run(scene())
