"""The process that gets killed: many writers on a durable store, and a report of each answer that they got.

A report is one system call, made only after the store has answered, so whatever the parent finds had been acknowledged
before the kill. A watch reports what it saw in the same way.
"""

import asyncio
import hashlib
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

from echelon.hub.storage.log import Log
from echelon.hub.storage.store import Change, Entry, Key, Store

WRITERS = 40
KEYS = 60


def thing(key: Key, generation: int, rng: random.Random) -> dict[str, Any]:
    """Make an object that can tell whether it is whole."""
    text = rng.randbytes(rng.choice((10, 500, 3000))).hex()
    spec = {"key": "/".join(key), "generation": generation, "text": text}
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()
    return {"kind": "Thing", "metadata": {"name": key.name}, "spec": spec, "digest": digest}


def report(what: str, entry: Entry, *, gone: bool) -> None:
    line = [what, entry.revision, list(entry.key), gone, entry.object["digest"]]
    os.write(1, json.dumps(line).encode() + b"\n")


async def write(store: Store, generation: int, rng: random.Random) -> None:
    while True:
        key = Key("things", rng.choice("abc"), f"n{rng.randrange(KEYS)}")
        latest = store.latest(key)
        obj = thing(key, generation, rng)
        if latest is not None and rng.random() < 0.2:
            report("ack", await store.remove(key, obj, expected=latest.revision), gone=True)
        else:
            report("ack", await store.put(key, obj, expected=latest.revision if latest else 0), gone=False)


def told(change: Change) -> None:
    report("saw", change.entry, gone=change.type == "DELETED")


async def follow(store: Store) -> None:
    async for batch in store.watch("things", since=store.revision):
        for change in batch:
            told(change)


async def main(path: Path, generation: int, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a test that can be run again
    # The window is larger than what can be on its way: the watch has reported a deletion before its row is removed.
    store = Store(Log(path), "hub", history=rng.choice((120, 500, 5000)))
    os.write(1, json.dumps(["open", store.revision]).encode() + b"\n")
    await asyncio.gather(follow(store), *(write(store, generation, rng) for _ in range(WRITERS)))


def nursery() -> None:
    """Fork a writer for each order, so that only the first one pays for starting Python."""
    for order in sys.stdin:
        path, generation, seed, reports = json.loads(order)
        pid = os.fork()
        if not pid:
            signal.alarm(30)  # should the one who has to kill it be gone
            os.dup2(os.open(reports, os.O_WRONLY | os.O_CREAT), 1)
            asyncio.run(main(Path(path), generation, seed))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    nursery()
