"""The durable log: what survives a restart, a full disk and a file that is not ours."""

import asyncio
import contextlib
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from echelon.hub.storage.database import LogDamaged, LogForeign, LogInUse, LogUnreachable
from echelon.hub.storage.log import Log
from echelon.hub.storage.store import Change, Entry, Key, Store
from echelon.kube.errors import Unavailable


def thing(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def at(name: str) -> Key:
    return Key("things.example.io", "here", name)


def specs(store: Store) -> dict[str, Any]:
    return {entry.key.name: entry.object["spec"] for entry in store.list("things.example.io").entries}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hub.db"


@contextlib.asynccontextmanager
async def opened(path: Path, **options: Any) -> AsyncIterator[Store]:
    log = Log(path)
    try:
        yield Store(log, "hub", **options)
    finally:
        await log.close()


def described(change: Change) -> tuple[object, ...]:
    entry, previous = change.entry, change.previous
    return (
        *(change.type, change.revision, entry.key, entry.created, dict(entry.labels), entry.object),
        previous.object if previous else None,
    )


@pytest.mark.parametrize("keep_objects", [True, False])
def test_a_restart_brings_back_state_and_history(path: Path, keep_objects: bool) -> None:
    async def scene() -> None:
        async with opened(path, keep_objects=keep_objects) as store:
            for name in "abc":
                await store.put(at(name), thing(name))
            await store.put(at("a"), thing("a", size=2))
            await store.remove(at("b"), thing("b", last="words"))
            await store.put(at("b"), thing("b", again=True))
            before = [described(change) for change in await store.watch(None, since=0).next()]
            state = specs(store)
        async with opened(path, keep_objects=keep_objects) as store:
            assert store.revision == 6
            assert specs(store) == state
            assert [described(change) for change in await store.watch(None, since=0).next()] == before
            assert {entry.key.name: entry.created for entry in store.list("things.example.io").entries} == {
                "a": 1,
                "b": 6,
                "c": 3,
            }
            assert (await store.put(at("d"), thing("d"))).revision == 7

    asyncio.run(scene())


def test_revisions_grow_even_if_nothing_is_left(path: Path) -> None:
    async def scene() -> None:
        async with opened(path) as store:
            await store.put(at("a"), thing("a"))
            await store.remove(at("a"), thing("a"))
            store.compact()
        async with opened(path) as store:
            assert store.compacted == store.revision == 2
            assert (await store.put(at("a"), thing("a"))).revision == 3

    asyncio.run(scene())
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM log").fetchall() == [(1,)]


def test_reads_see_a_write_only_when_it_is_committed_and_writers_see_it_at_once(path: Path) -> None:
    async def scene() -> None:
        async with opened(path) as store:
            watch = store.watch(None, since=0)
            done = store.put(at("a"), thing("a"))
            assert store.get(at("a")) is None
            assert await watch.next(0) == []
            assert store.revision == 0
            latest = store.latest(at("a"))
            assert latest is not None
            second = store.put(at("a"), thing("a", size=2), expected=latest.revision)
            await done
            await second
            current = store.get(at("a"))
            assert current is not None
            assert current.revision == 2
            assert [change.revision for change in await watch.next(0)] == [1, 2]

    asyncio.run(scene())


def test_a_writer_that_goes_away_does_not_take_its_write_along(path: Path) -> None:
    async def scene() -> None:
        async with opened(path) as store:

            async def write() -> Entry:
                return await store.put(at("a"), thing("a"))

            task = asyncio.create_task(write())
            await asyncio.sleep(0)
            task.cancel()
            await store.put(at("b"), thing("b"))
            assert sorted(specs(store)) == ["a", "b"]

    asyncio.run(scene())


def test_an_observer_that_fails_does_not_cost_the_writers_their_answer(path: Path) -> None:
    async def scene() -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))

        def observe(change: Change) -> None:
            raise RuntimeError(change.entry.key.name)

        async with opened(path) as store:
            store.on_commit(observe)
            await asyncio.gather(*(store.put(at(name), thing(name)) for name in "ab"))
        assert [str(problem["exception"]) for problem in problems] == ["a", "b"]

    asyncio.run(scene())


def test_a_full_disk_takes_back_what_was_not_committed_and_nothing_else(path: Path) -> None:
    async def scene() -> None:
        log = Log(path)
        store, other = Store(log, "hub"), Store(log, "member")
        await store.put(at("a"), thing("a", size=1))
        ((pages,),) = log.query("PRAGMA page_count")
        log.query(f"PRAGMA max_page_count = {pages + 2}")
        writes = [store.put(at("a"), thing("a", text="x" * 20_000)), store.put(at("b"), thing("b"))]
        writes.append(other.put(at("c"), thing("c")))
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(result, Unavailable) for result in results), results
        assert "disk is full" in str(results[0])
        assert store.latest(at("a")) is store.get(at("a"))
        assert other.latest(at("c")) is None
        assert specs(store) == {"a": {"size": 1}}
        assert await store.watch(None, since=1).next(0) == []
        log.query("PRAGMA max_page_count = 1000000")
        # Revisions of lost writes may have been noted somewhere, so they are not used again.
        assert (await store.put(at("a"), thing("a", size=3), expected=1)).revision == 4
        await log.close()
        async with opened(path) as again:
            assert specs(again) == {"a": {"size": 3}}
            assert again.revision == 4

    asyncio.run(scene())


def test_writes_that_came_after_a_failure_and_before_its_news_are_lost_too(path: Path) -> None:
    async def scene() -> None:
        log = Log(path)
        store = Store(log, "hub")
        await store.put(at("a"), thing("a"))
        log.query("PRAGMA query_only = ON")
        first = store.put(at("a"), thing("a", size=1))
        await asyncio.sleep(0)  # the thread is woken once a turn of the loop
        while not log._failed:  # the thread has failed, and the loop cannot know it yet
            time.sleep(0.001)  # noqa: ASYNC251 - the loop must not turn, that is the point
        log.query("PRAGMA query_only = OFF")
        second = store.put(at("a"), thing("a", built="on the lost one"))
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert all(isinstance(result, Unavailable) for result in results), results
        await store.put(at("b"), thing("b"))
        assert specs(store) == {"a": {}, "b": {}}
        await log.close()

    asyncio.run(scene())


def test_a_write_that_the_database_cannot_take_fails_alone_later_ones_do_not(path: Path) -> None:
    async def scene() -> None:
        async with opened(path) as store:
            with pytest.raises(Unavailable):
                await store.put(at("\ud800"), thing("not text"))
            await store.put(at("a"), thing("a"))
            assert specs(store) == {"a": {}}

    asyncio.run(scene())


def test_a_log_can_be_closed_after_its_loop(path: Path) -> None:
    log = Log(path)
    store = Store(log, "hub")

    async def scene() -> None:
        log._database.acquire()  # the writer thread has to wait until the loop is gone
        store.put(at("a"), thing("a"))

    asyncio.run(scene())
    log._db.execute("PRAGMA query_only = ON")
    log._database.release()
    asyncio.run(log.close())


def test_clusters_count_for_themselves(path: Path) -> None:
    async def scene() -> None:
        log = Log(path)
        stores = {name: Store(log, name) for name in ("hub", "east", "west")}
        for _ in range(3):
            await asyncio.gather(*(store.put(at(name), thing(name)) for name, store in stores.items()))
        assert {store.revision for store in stores.values()} == {3}
        await log.close()
        log = Log(path)
        assert log.clusters() == ["hub", "east", "west"]
        assert log.query("SELECT count(*) FROM log") == [(9,)]
        assert specs(Store(log, "west")) == {"west": {}}
        assert Store(log, "east").revision == 3
        await log.close()

    asyncio.run(scene())


def test_a_cluster_is_open_once(path: Path) -> None:
    async def scene() -> None:
        async with opened(path) as store:
            with pytest.raises(LogInUse, match='"hub" is already open'):
                Store(store._ledger._log if store._ledger else None, "hub")

    asyncio.run(scene())


def test_the_file_stops_growing_under_steady_updates(path: Path) -> None:
    async def scene() -> None:
        async with opened(path, history=200) as store:
            sizes = []
            for _ in range(6):
                for _ in range(5):
                    await asyncio.gather(*(store.put(at(f"n{n}"), thing("n", text="x" * 1000)) for n in range(100)))
                ((pages,),) = store._ledger._log.query("PRAGMA page_count") if store._ledger else ((0,),)
                sizes.append(pages)
            # Old rows go in batches, whenever the writer comes to it; without that, the file would have tripled.
            assert sizes[-1] <= sizes[1] * 2, sizes
        async with opened(path, history=200) as store:
            assert len(specs(store)) == 100
            assert store.revision == 3000
            assert store.revision - store.compacted <= 250
            assert len(await store.watch(None, since=store.compacted).next()) == store.revision - store.compacted

    asyncio.run(scene())
    with contextlib.closing(sqlite3.connect(path)) as db:
        ((rows,),) = db.execute("SELECT count(*) FROM log").fetchall()
    assert rows <= 100 + 250


def test_a_compaction_that_was_interrupted_is_finished_at_the_next_start(path: Path) -> None:
    async def scene() -> None:
        async with opened(path) as store:
            for size in range(5):
                await store.put(at("a"), thing("a", size=size))
            await store.put(at("b"), thing("b"))
            await store.remove(at("b"), thing("b"))
        with contextlib.closing(sqlite3.connect(path)) as db:  # the mark was written, the rows are still there
            db.execute("UPDATE cluster SET compacted = 7")
            db.commit()
        async with opened(path) as store:
            assert specs(store) == {"a": {"size": 4}}
            assert store.compacted == store.revision == 7

    asyncio.run(scene())
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM log").fetchall() == [(1,)]


def interrupted(path: Path, removed: list[int], mark: int) -> Iterator[Path]:
    """Make a copy for each number of rows that were gone when a compaction ended; its mark goes with the first."""
    for count in range(len(removed) + 1):
        copy = path.with_name(f"copy-{count}")
        shutil.copy(path, copy)
        with contextlib.closing(sqlite3.connect(copy)) as db:
            db.execute("UPDATE cluster SET compacted = ?", (mark,))
            db.executemany("DELETE FROM log WHERE position = ?", [(position,) for position in removed[:count]])
            db.commit()
        yield copy


def test_a_compaction_can_be_interrupted_after_any_row(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[int] = []

    async def write() -> dict[str, Any]:
        async with opened(path) as store:
            monkeypatch.setattr(Log, "discard", lambda _log, _cluster, _mark, positions: removed.extend(positions))
            for name in "abc":
                await store.put(at(name), thing(name))
                await store.put(at(name), thing(name, size=2))
                await store.remove(at(name), thing(name))
            await store.put(at("a"), thing("a", again=True))
            store.compact()
            return specs(store)

    async def state(file: Path) -> dict[str, Any]:
        async with opened(file) as store:
            assert store.revision == 10
            return specs(store)

    expected = asyncio.run(write())
    assert len(removed) == 9
    for copy in interrupted(path, removed, mark=10):
        assert asyncio.run(state(copy)) == expected


def test_a_start_that_compacts_can_be_interrupted_after_any_row(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an interrupted compaction left behind goes first: else its rows would come back without their deletion."""
    removed: list[int] = []

    async def write() -> dict[str, Any]:
        async with opened(path) as store:
            await store.put(at("a"), thing("a"))
            await store.put(at("a"), thing("a", size=2))
            await store.remove(at("a"), thing("a"))
            for size in range(20):
                await store.put(at("b"), thing("b", size=size))
            return specs(store)

    async def start(file: Path, **options: Any) -> dict[str, Any]:
        async with opened(file, **options) as store:
            return specs(store)

    expected = asyncio.run(write())
    with contextlib.closing(sqlite3.connect(path)) as db:  # the mark was written, the first row is still there
        db.execute("UPDATE cluster SET compacted = 2")
        db.commit()
    monkeypatch.setattr(Log, "discard", lambda _log, _cluster, _mark, positions: removed.extend(positions))
    assert asyncio.run(start(path, history=10)) == expected
    for copy in interrupted(path, removed, mark=13):
        assert asyncio.run(start(copy)) == expected


def test_garbage_of_an_interrupted_compaction_does_not_take_back_a_newer_mark(path: Path) -> None:
    async def scene() -> None:
        async with opened(path) as store:
            for size in range(50):
                await store.put(at("a"), thing("a", size=size))
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("UPDATE cluster SET compacted = 5")
            db.commit()
        async with opened(path, history=10) as store:
            compacted = store.compacted
            assert compacted > 30
        async with opened(path) as store:
            assert store.compacted == compacted
            changes = await store.watch(None, since=compacted).next()
            assert [change.revision for change in changes] == list(range(compacted + 1, 51))

    asyncio.run(scene())


def test_history_that_does_not_fit_is_compacted_at_the_start(path: Path) -> None:
    async def scene() -> None:
        async with opened(path) as store:
            for size in range(50):
                await store.put(at("a"), thing("a", size=size))
        async with opened(path, history=10) as store:
            assert store.revision - store.compacted <= 13

    asyncio.run(scene())


def test_a_second_log_on_the_same_file_is_refused(path: Path) -> None:
    async def scene() -> None:
        async with opened(path):
            with pytest.raises(LogInUse, match=r"hub\.db is in use"):
                Log(path)
            code = "import sys; from pathlib import Path; from echelon.hub.storage.log import *\n"
            code += "try: Log(Path(sys.argv[1]))\nexcept LogInUse as e: print(e)"
            child = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
                [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
            )
            assert "hub.db is in use" in child.stdout
        await Log(path).close()

    asyncio.run(scene())


def test_a_file_of_something_else_is_refused_and_left_as_it_was(path: Path) -> None:
    path.write_text("these are my notes, and they are not a database" * 100)
    before = path.read_bytes()
    with pytest.raises(LogForeign, match=r"hub\.db is not a database"):
        Log(path)
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_left_as_it_was(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
        db.commit()
    before = path.read_bytes()
    with pytest.raises(LogForeign, match=r"hub\.db is a database of another program"):
        Log(path)
    assert path.read_bytes() == before


def test_a_database_of_a_newer_version_is_refused(path: Path) -> None:
    asyncio.run(Log(path).close())
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(LogForeign, match="newer version"):
        Log(path)


def fill(path: Path) -> None:
    async def scene() -> None:
        async with opened(path) as store:
            await asyncio.gather(*(store.put(at(f"n{n}"), thing("n", text="x" * 1000)) for n in range(200)))

    asyncio.run(scene())


def test_damaged_pages_are_an_error_that_names_the_file(path: Path) -> None:
    fill(path)
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 40] = b"\xff" * (4096 * 37)
    path.write_bytes(content)
    with pytest.raises(LogDamaged, match=r"hub\.db is damaged"):
        Store(Log(path), "hub")


def test_a_damaged_value_is_an_error_that_names_the_file_and_the_revision(path: Path) -> None:
    fill(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE log SET value = substr(value, 1, 100) WHERE position % 1000 = (1 << 40) % 1000 + 7")
        db.commit()
    with pytest.raises(LogDamaged, match=r"hub\.db is damaged: cluster \"hub\": revision 7 \(things.*n6\) is not what"):
        Store(Log(path), "hub")


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(LogUnreachable, match="nowhere"):
        Log(tmp_path / "nowhere" / "hub.db")
    with pytest.raises(LogUnreachable, match="cannot be used"):
        Log(tmp_path)


def test_the_files_are_for_their_owner_only(path: Path) -> None:
    async def scene() -> None:
        async with opened(path) as store:
            await store.put(at("a"), thing("a"))
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
            assert modes == {"hub.db": 0o600, "hub.db-wal": 0o600}

    asyncio.run(scene())


def test_a_closed_log_has_everything_that_was_written_and_takes_nothing_more(path: Path) -> None:
    async def scene() -> None:
        log = Log(path)
        store = Store(log, "hub")
        writes = [store.put(at(f"n{n}"), thing("n")) for n in range(1000)]
        await log.close()
        assert {entry.revision for entry in await asyncio.gather(*writes)} == set(range(1, 1001))
        with pytest.raises(Unavailable):
            store.put(at("late"), thing("late"))
        assert store.latest(at("late")) is None

    asyncio.run(scene())


def test_full_sync_is_what_it_says(path: Path) -> None:
    async def scene() -> None:
        for full, mode in ((True, 2), (False, 1)):
            log = Log(path, full_sync=full)
            assert log.query("PRAGMA synchronous") == [(mode,)]
            assert log.query("PRAGMA journal_mode") == [("wal",)]
            await log.close()

    asyncio.run(scene())


def test_many_who_ask_whether_it_can_be_written_share_one_try(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes need no place, and a disk that hangs would cost a thread for each of them."""
    tried: list[None] = []
    real = Log._try

    def counted(log: Log) -> None:
        tried.append(None)
        real(log)

    async def scene() -> None:
        log = Log(path)
        with log._database:  # as if the disk did not answer
            asking = [asyncio.create_task(log.problem()) for _ in range(20)]
            asking[3].cancel()  # it is not this one's alone
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert [answer for answer in answers if isinstance(answer, str)] == [""] * 19
        assert len(tried) == 1
        await log.close()

    monkeypatch.setattr(Log, "_try", counted)
    asyncio.run(scene())
