"""kill -9 at any moment: what was acknowledged stays, what is there is whole, and no revision is used twice.

The state is kept from one kill to the next, so each start also replays what the crashes before it left behind.
"""

import asyncio
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.budgets import Lives

from echelon.hub.storage.log import Log
from echelon.hub.storage.store import Entry, Key, Store

WRITER = Path(__file__).with_name("writer.py")


@dataclass
class Known:
    """What the world outside knows, from acknowledgements and from watches."""

    acknowledged: dict[Key, tuple[int, bool, str]] = field(default_factory=dict)  # revision, gone, digest
    seen: dict[int, tuple[Key, bool, str]] = field(default_factory=dict)
    deleted: dict[Key, int] = field(default_factory=dict)  # last revision at which somebody saw it go
    revision: int = 0
    acks: int = 0

    def note(self, what: str, revision: int, key: Key, gone: bool, digest: str) -> None:
        self.revision = max(self.revision, revision)
        assert self.seen.setdefault(revision, (key, gone, digest)) == (key, gone, digest), "a revision was used twice"
        if gone:
            self.deleted[key] = max(self.deleted.get(key, 0), revision)
        if what == "ack":
            self.acks += 1
            if revision > self.acknowledged.get(key, (0,))[0]:
                self.acknowledged[key] = (revision, gone, digest)

    def read(self, report: Path) -> None:
        for line in report.read_bytes().split(b"\n")[:-1]:  # a line that the kill cut off was not said
            what, revision, *rest = json.loads(line)
            if what == "open":
                assert revision >= self.revision, "a restart went back in time"
            else:
                self.note(what, revision, Key(*rest[0]), *rest[1:])


@dataclass
class Nursery:
    """A process that makes writers; see there."""

    process: subprocess.Popen[str]

    def run_and_kill(self, order: list[Any], moment: float) -> None:
        orders, answers = self.process.stdin, self.process.stdout
        assert orders is not None
        assert answers is not None
        print(json.dumps(order), file=orders, flush=True)
        pid = int(answers.readline())
        time.sleep(moment)
        os.kill(pid, signal.SIGKILL)
        assert int(answers.readline()) == -signal.SIGKILL, "the writer ended by itself"


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    command = [sys.executable, str(WRITER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Nursery(process)


def check(store: Store, known: Known) -> None:
    entries = {entry.key: entry for entry in store.list("things").entries}
    assert store.revision >= known.revision
    for key, (revision, gone, digest) in known.acknowledged.items():
        entry = entries.get(key)
        if entry is None:
            # Gone: by this very write, or by a later one, which need not have been acknowledged.
            assert gone or known.deleted.get(key, 0) > revision, f"{key}: revision {revision} was lost"
        elif entry.revision == revision:
            assert (gone, digest) == (False, entry.object["digest"])
        else:
            assert entry.revision > revision, f"{key}: {revision} was acknowledged, {entry.revision} is there"
    for entry in entries.values():
        whole(entry)
        known.note("saw", entry.revision, entry.key, gone=False, digest=entry.object["digest"])


def whole(entry: Entry) -> None:
    obj = entry.object
    assert obj["metadata"]["resourceVersion"] == str(entry.revision)
    assert obj["spec"]["key"] == "/".join(entry.key)
    assert hashlib.sha256(json.dumps(obj["spec"], sort_keys=True).encode()).hexdigest() == obj["digest"]


async def inspect(path: Path, known: Known) -> None:
    log = Log(path)
    store = Store(log, "hub", history=1_000_000)
    kept = {revision for revision in known.seen if revision > store.compacted}
    for change in await store.watch("things", since=store.compacted).next(0):
        whole(change.entry)
        digest = change.entry.object["digest"]
        known.note("saw", change.revision, change.entry.key, gone=change.type == "DELETED", digest=digest)
        kept.discard(change.revision)
    assert not kept, "the history has holes"
    check(store, known)
    known.revision = store.revision
    await log.close()


@pytest.mark.lives("kill -9 of the store")
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path, nursery: Nursery, lives: Lives) -> None:
    seed = int(os.environ.get("ECHELON_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"ECHELON_SEED={seed}")  # shown when the test fails
    rng = random.Random(seed)  # noqa: S311 - a test that can be run again
    data, copy, report, known = tmp_path / "data", tmp_path / "copy", tmp_path / "report", Known()
    data.mkdir()
    for generation in lives:
        report.write_bytes(b"")
        order = [str(data / "hub.db"), generation, rng.getrandbits(32), str(report)]
        nursery.run_and_kill(order, rng.random() * 0.15)
        known.read(report)
        # Mostly a copy is looked at, so that the next child is the one that opens what the crash has left.
        if rng.random() < 0.7:
            shutil.copytree(data, copy)
            asyncio.run(inspect(copy / "hub.db", known))
            shutil.rmtree(copy)
        else:
            asyncio.run(inspect(data / "hub.db", known))
    print(f"{known.acks} writes acknowledged, revision {known.revision}")
    assert known.acks > len(lives.seen), "the children were killed before they wrote anything"
