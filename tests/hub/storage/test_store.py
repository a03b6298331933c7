"""The store, by example and against a model."""

import asyncio
import json
import tempfile
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from echelon.hub.storage.log import Log
from echelon.hub.storage.store import Change, Compacted, Entry, FutureRevision, Key, StaleWrite, Store, Watch
from echelon.kube.errors import Unavailable
from tests.examples import examples

T = TypeVar("T")


def thing(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def at(namespace: str, name: str, resource: str = "things") -> Key:
    return Key(resource, namespace, name)


def names(store: Store, *parts: Any, **options: Any) -> list[str]:
    return [f"{entry.key.namespace}/{entry.key.name}" for entry in store.list(*parts, **options).entries]


def now(awaitable: Awaitable[T]) -> T:
    """Get the result of a write to memory without any event loop."""
    try:
        next(iter(awaitable.__await__()))
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the write was not committed at once")


@pytest.fixture(params=[True, False], ids=["objects", "bytes"])
def store(request: pytest.FixtureRequest) -> Store:
    return Store(None, "test", keep_objects=request.param)


def test_a_write_is_stamped_with_its_revision(store: Store) -> None:
    first = now(store.put(at("a", "x"), thing("x")))
    second = now(store.put(at("a", "y"), thing("y")))
    assert (first.revision, second.revision, store.revision) == (1, 2, 2)
    assert second.object["metadata"]["resourceVersion"] == "2"
    assert json.loads(second.raw) == second.object
    assert second.labels == {"app": "y"}


def test_what_the_writer_passed_is_not_modified(store: Store) -> None:
    mine = thing("x", deep={"list": [1, 2]})
    now(store.put(at("a", "x"), thing("x", deep={"list": [1, 2]})))
    now(store.put(at("a", "x"), mine))
    assert mine == thing("x", deep={"list": [1, 2]})


def test_objects_of_all_stores_share_what_is_equal_in_them() -> None:
    one, other = (Store(None, name, keep_objects=True) for name in ("one", "other"))
    first = now(one.put(at("a", "x"), thing("x", image="web:1")))
    second = now(other.put(at("a", "y"), thing("y", image="web:1")))
    third = now(other.put(at("a", "y"), {**thing("y", image="web:1"), "status": {"ready": True}}))
    assert first.object["spec"] is second.object["spec"] is third.object["spec"]
    assert second.object["metadata"]["labels"] is third.object["metadata"]["labels"] is third.labels
    assert first.object["metadata"] == {"name": "x", "labels": {"app": "x"}, "resourceVersion": "1"}


def test_what_is_read_from_disk_shares_what_is_equal_in_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        for _ in range(2):
            log = Log(tmp_path / "log")
            try:
                store = Store(log, "test", keep_objects=True)
                if not store.revision:
                    await store.put(at("a", "x"), thing("x", image="web:1"))
                    await store.put(at("a", "y"), thing("y", image="web:1"))
                x, y = store.list("things").entries
                assert x.object["spec"] is y.object["spec"]
            finally:
                await log.close()

    asyncio.run(scenario())


class Typed(msgspec.Struct, frozen=True):
    kind: str
    spec: dict[str, int] = {}


class Other(msgspec.Struct, frozen=True):
    kind: str


def test_all_readers_of_the_newest_state_get_the_same_object() -> None:
    store = Store(None, "test", keep_objects=True)
    entry = now(store.put(at("a", "x"), thing("x", size=1)))
    assert entry.read_as(Typed) == Typed("Thing", {"size": 1})
    assert entry.read_as(Typed) is entry.read_as(Typed)
    assert entry.read_as(Other) == Other("Thing")
    plain = entry.read_as(dict)
    assert plain == entry.object
    assert plain is not entry.object


def test_nothing_is_kept_for_readers_of_a_former_state(store: Store) -> None:
    before = now(store.put(at("a", "x"), thing("x", size=1)))
    assert before.read_as(Typed).spec == {"size": 1}
    after = now(store.put(at("a", "x"), thing("x", size=2)))
    assert before.read_as(Typed).spec == {"size": 1}
    assert before.read_as(Typed) is not before.read_as(Typed)
    assert after.read_as(Typed).spec == {"size": 2}


def test_labels_of_an_encoded_entry_are_its_own() -> None:
    store = Store(None, "test", keep_objects=False)
    mine = thing("x")
    entry = now(store.put(at("a", "x"), mine))
    mine["metadata"]["labels"]["app"] = "changed"
    assert entry.labels == {"app": "x"}


def test_an_update_keeps_the_revision_of_creation_and_a_new_object_starts_over(store: Store) -> None:
    now(store.put(at("a", "x"), thing("x")))
    assert now(store.put(at("a", "x"), thing("x", size=2))).created == 1
    now(store.remove(at("a", "x"), thing("x")))
    assert now(store.put(at("a", "x"), thing("x"))).created == 4


@pytest.mark.parametrize(("exists", "expected"), [(True, 0), (True, 7), (False, 1), (False, 7)])
def test_a_write_that_builds_on_something_else_is_refused(store: Store, exists: bool, expected: int) -> None:
    if exists:
        now(store.put(at("a", "x"), thing("x")))
    revision = store.revision
    with pytest.raises(StaleWrite, match=f"expected revision {expected}, found {revision}"):
        store.put(at("a", "x"), thing("x", size=2), expected=expected)
    with pytest.raises(StaleWrite):
        store.remove(at("a", "x"), thing("x"), expected=expected)
    assert store.revision == revision


def test_what_does_not_exist_cannot_be_removed(store: Store) -> None:
    with pytest.raises(StaleWrite):
        store.remove(at("a", "x"), thing("x"))


def test_an_object_that_cannot_be_encoded_leaves_no_trace() -> None:
    store = Store(None, "test", keep_objects=False)
    with pytest.raises(TypeError):
        store.put(at("a", "x"), thing("x", bad=object()))
    assert store.latest(at("a", "x")) is None
    assert now(store.put(at("a", "x"), thing("x"))).revision == 1


def test_lists_are_sorted_by_namespace_and_name(store: Store) -> None:
    for namespace, name in [("b", "a"), ("a", "z"), ("", "m"), ("a", "b"), ("a-b", "a"), ("a", "b-c")]:
        now(store.put(at(namespace, name), thing(name)))
    now(store.put(at("a", "other", "others"), thing("other")))
    assert names(store, "things") == ["/m", "a/b", "a/b-c", "a/z", "a-b/a", "b/a"]
    assert names(store, "things", "a") == ["a/b", "a/b-c", "a/z"]
    assert names(store, "things", "nowhere") == []
    assert names(store, "nothing") == []
    assert store.count("things") == 6
    assert sorted(store.resources()) == ["others", "things"]


def test_a_list_in_pages_is_the_list(store: Store) -> None:
    for number in range(10):
        now(store.put(at("ab"[number % 2], f"n{number}"), thing("n")))
    after, pages, remaining = None, [], []
    while True:
        page = store.list("things", at=10, after=after, limit=3)
        pages += page.entries
        remaining.append(page.remaining)
        if not page.remaining:
            break
        after = page.entries[-1].key[1:]
        now(store.put(at("a", "n0"), thing("changed meanwhile")))
        if len(remaining) == 2:
            now(store.remove(at("b", "n9"), thing("n9")))
    assert remaining == [7, 4, 1, 0]
    assert [entry.key.name for entry in pages] == ["n0", "n2", "n4", "n6", "n8", "n1", "n3", "n5", "n7", "n9"]
    assert all(entry.revision <= 10 for entry in pages)


def test_the_last_page_may_be_exactly_full(store: Store) -> None:
    for name in "ab":
        now(store.put(at("a", name), thing(name)))
    assert not store.list("things", limit=2).remaining


def test_a_list_of_the_past_needs_history(store: Store) -> None:
    for size in range(3):
        now(store.put(at("a", "x"), thing("x", size=size)))
    store.compact(2)
    assert store.compacted == 2
    assert store.list("things", at=2).entries[0].object["spec"] == {"size": 1}
    with pytest.raises(Compacted):
        store.list("things", at=1)
    with pytest.raises(FutureRevision):
        store.list("things", at=4)


def test_a_list_of_the_past_is_sorted_too(store: Store) -> None:
    for name in "dbca":
        now(store.put(at("a", name), thing(name)))
    now(store.put(at("a", "a"), thing("a", changed=True)))
    now(store.remove(at("a", "b"), thing("b")))
    now(store.put(at("a", "e"), thing("e")))
    assert names(store, "things", at=4) == ["a/a", "a/b", "a/c", "a/d"]
    assert names(store, "things", at=4, after=("a", "a"), limit=2) == ["a/b", "a/c"]


def test_history_is_limited_by_count_and_by_bytes() -> None:
    by_count = Store(None, "test", history=100)
    by_bytes = Store(None, "test", history_bytes=20_000)
    for size in range(500):
        now(by_count.put(at("a", "x"), thing("x", size=size)))
        now(by_bytes.put(at("a", "x"), thing("x", text="x" * 1000)))
    assert 500 - 125 <= by_count.compacted <= 500 - 100
    assert 500 - 25 <= by_bytes.compacted < 500 - 10


def test_an_object_larger_than_the_whole_window_is_stored_all_the_same() -> None:
    store = Store(None, "test", history_bytes=1000)
    now(store.put(at("a", "x"), thing("x", text="x" * 5000)))
    assert store.compacted == store.revision == 1
    assert names(store, "things", at=1) == ["a/x"]


def test_observers_are_told_of_each_change_when_it_is_the_state(store: Store) -> None:
    told: list[tuple[int, str, int, bool]] = []

    def observe(change: Change) -> None:
        told.append((change.revision, change.type, store.revision, store.get(change.entry.key) is change.entry))

    store.on_commit(observe)
    now(store.put(at("a", "x"), thing("x")))
    now(store.put(at("a", "x"), thing("x", size=2)))
    now(store.remove(at("a", "x"), thing("x")))
    assert told == [(1, "ADDED", 1, True), (2, "MODIFIED", 2, True), (3, "DELETED", 3, False)]


def test_a_closed_store_refuses_writes(store: Store) -> None:
    store.close()
    with pytest.raises(Unavailable):
        store.put(at("a", "x"), thing("x"))


def test_equal_strings_are_kept_once() -> None:
    store = Store(None, "test", keep_objects=False)
    first = now(store.put(Key("-things"[1:], "a", "x"), thing("x")))
    second = now(store.put(Key("-things"[1:], "a", "y"), thing("x")))
    assert first.key.resource is second.key.resource
    assert next(iter(first.labels)) is next(iter(second.labels))


@dataclass
class Event:
    revision: int
    type: str
    key: Key
    spec: dict[str, Any]
    created: int


@dataclass
class Follower:
    resource: str | None
    namespace: str | None
    since: int
    watch: Watch
    seen: list[Change]


KEYS = st.builds(
    Key, st.sampled_from(("things", "others")), st.sampled_from(("", "a", "b")), st.sampled_from(("x", "y", "z"))
)
PERCENT = st.integers(0, 100)
FILTERS = st.one_of(
    st.just((None, None)), st.tuples(st.sampled_from(("things", "others")), st.sampled_from((None, "a", "b")))
)


class DurableStore(RuleBasedStateMachine):
    """A store with a log, against a list of events: writers overlap, commits fail, the process restarts."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "hub.db"
        self.events: list[Event] = []  # in order of writing; those not committed are at the end
        self.waiting: list[tuple[Event, Awaitable[Entry]]] = []
        self.followers: list[Follower] = []
        self.highest = 0  # revision that anybody ever saw
        self.counter = 0
        self.open()

    def open(self) -> None:
        self.log = Log(self.path) if self.durable else None
        self.store = Store(self.log, "test", keep_objects=False, history=10_000)

    def teardown(self) -> None:
        if self.log is not None:
            self.loop.run_until_complete(self.log.close())
        self.loop.close()
        self.directory.cleanup()

    def state(self, revision: int | None = None) -> dict[Key, Event]:
        """Return the model's state at a revision, or the latest."""
        state: dict[Key, Event] = {}
        for event in self.events:
            if revision is not None and event.revision > revision:
                break
            if event.type == "DELETED":
                del state[event.key]
            else:
                state[event.key] = event
        return state

    def known(self, percent: int) -> int:
        """Choose a revision that the store still knows.

        What is drawn must not depend on how far the writer thread is, or Hypothesis could not replay it.
        """
        return self.store.compacted + (self.store.revision - self.store.compacted) * percent // 100

    async def write(self, key: Key, *, remove: bool) -> None:
        before = self.state().get(key)
        self.counter += 1
        obj = thing(key.name, number=self.counter)
        expected = before.revision if before else 0
        done = (self.store.remove if remove else self.store.put)(key, obj, expected=expected)
        latest = self.store.latest(key)
        revision = self.store._assigned
        assert (latest is None) if remove else (latest is not None and latest.revision == revision)
        created = before.created if before else revision
        kind = "DELETED" if remove else "MODIFIED" if before else "ADDED"
        event = Event(revision, kind, key, obj["spec"], created)
        self.events.append(event)
        self.waiting.append((event, done))

    async def settle(self) -> None:
        failed: list[Event] = []
        for event, done in self.waiting:
            try:
                entry = await done
                assert entry.revision == event.revision
                assert not failed, "a write survived although one before it was lost"
                assert self.store.revision >= entry.revision
            except Unavailable:
                failed.append(event)
        self.waiting = []
        self.events = [event for event in self.events if event not in failed]

    @rule(key=KEYS)
    def put(self, key: Key) -> None:
        self.loop.run_until_complete(self.write(key, remove=False))

    @rule(keys=st.lists(KEYS, min_size=2, max_size=8))
    def put_several_at_once(self, keys: list[Key]) -> None:
        async def write() -> None:
            await asyncio.gather(*(self.write(key, remove=False) for key in keys))

        self.loop.run_until_complete(write())

    @rule(key=KEYS)
    def remove(self, key: Key) -> None:
        if key in self.state():
            self.loop.run_until_complete(self.write(key, remove=True))

    @rule(key=KEYS, wrong=st.integers(-1, 50))
    def stale_writes_are_refused(self, key: Key, wrong: int) -> None:
        before = self.state().get(key)
        if wrong != (before.revision if before else 0):
            with pytest.raises(StaleWrite):
                self.store.put(key, thing("never"), expected=wrong)

    @rule()
    def wait_for_commits(self) -> None:
        self.loop.run_until_complete(self.settle())
        assert self.store.revision == max([self.store.compacted, *(event.revision for event in self.events)])

    @precondition(lambda self: self.durable)
    @rule(keys=st.lists(KEYS, min_size=1, max_size=6))
    def lose_a_commit(self, keys: list[Key]) -> None:
        async def scene() -> None:
            assert self.log is not None
            self.log.query("PRAGMA query_only = ON")
            for key in keys:
                await self.write(key, remove=False)
            await self.settle()
            assert all(self.store.latest(key) is self.store.get(key) for key in keys)
            self.log.query("PRAGMA query_only = OFF")

        self.loop.run_until_complete(scene())

    @precondition(lambda self: self.durable)
    @rule()
    def restart(self) -> None:
        self.loop.run_until_complete(self.settle())
        before = self.store.revision
        assert self.log is not None
        self.loop.run_until_complete(self.log.close())
        compacted = self.store.compacted
        self.open()
        assert self.store.revision == before
        assert self.store.compacted <= compacted  # less if the removal of old rows had failed
        for follower in self.followers:
            if follower.watch.revision >= compacted:
                follower.watch = self.store.watch(follower.resource, follower.namespace, since=follower.watch.revision)
        self.followers = [f for f in self.followers if f.watch.revision >= compacted]

    @rule(percent=PERCENT)
    def compact(self, percent: int) -> None:
        revision = self.known(percent)
        for follower in self.followers:  # nobody falls behind here; that has its own test
            self.read(follower)
        self.store.compact(revision)
        assert self.store.compacted == revision

    @rule(about=FILTERS, percent=PERCENT)
    def follow(self, about: tuple[str | None, str | None], percent: int) -> None:
        since = self.known(percent)
        self.followers.append(Follower(*about, since, self.store.watch(*about, since=since), []))

    @rule(chosen=st.integers(1, 4), resume=st.booleans())
    def read_some(self, chosen: int, resume: bool) -> None:
        for follower in self.followers[::chosen]:
            self.read(follower)
            if resume:
                follower.watch.close()
                follower.watch = self.store.watch(follower.resource, follower.namespace, since=follower.watch.revision)

    def read(self, follower: Follower) -> None:
        follower.seen += self.loop.run_until_complete(follower.watch.next(0))
        owed = [
            (event.revision, event.type, event.key, event.spec, event.created)
            for event in self.events
            if follower.since < event.revision <= follower.watch.revision
            and follower.resource in (None, event.key.resource)
            and follower.namespace in (None, event.key.namespace)
        ]
        assert owed == [
            (c.revision, c.type, c.entry.key, c.entry.object["spec"], c.entry.created) for c in follower.seen
        ]

    @rule(about=FILTERS, percent=PERCENT, after=st.none() | KEYS, limit=st.integers(0, 4))
    def list_the_past(self, about: tuple[str | None, str | None], percent: int, after: Key | None, limit: int) -> None:
        resource, namespace = about[0] or "things", about[1]
        revision = self.known(percent)
        behind = (after.namespace, after.name) if after else None
        found = self.store.list(resource, namespace, at=revision, after=behind, limit=limit)
        keys = [
            key
            for key in sorted(self.state(revision))
            if key.resource == resource and namespace in (None, key.namespace) and (behind is None or key[1:] > behind)
        ]
        page = keys[:limit] if limit else keys
        events = self.state(revision)
        assert [(e.key, e.revision, e.object["spec"]) for e in found.entries] == [
            (key, events[key].revision, events[key].spec) for key in page
        ]
        assert found.revision == revision
        assert found.remaining == len(keys) - len(page)

    @invariant()
    def only_committed_state_is_shown(self) -> None:
        shown = {
            entry.key: entry.object["spec"]
            for resource in ("things", "others")
            for entry in self.store.list(resource).entries
        }
        assert shown == {key: event.spec for key, event in self.state(self.store.revision).items()}

    @invariant()
    def revisions_only_grow(self) -> None:
        assert self.store.revision >= self.highest
        self.highest = self.store.revision


class MemoryStore(DurableStore):
    durable = False


TestDurableStore = DurableStore.TestCase
TestDurableStore.settings = settings(examples(40), stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow])
TestMemoryStore = MemoryStore.TestCase
TestMemoryStore.settings = settings(TestDurableStore.settings, max_examples=examples(60).max_examples)
