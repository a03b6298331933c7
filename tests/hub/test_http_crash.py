"""kill -9 of a hub under load, seen from outside: over HTTPS, with acknowledgements and a watch as the only witnesses.

`tests/hub/storage/crash` does the same to the store alone, much more often.
"""

import contextlib
import hashlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.budgets import Lives
from tests.hub.api import MERGE_PATCH, Api, config_map

WRITERS = 3
KEYS = 12
MAPS = "/api/v1/namespaces/default/configmaps"
# What a client meets whose server dies.
CUT_OFF = (OSError, http.client.HTTPException, json.JSONDecodeError, AssertionError)


def payload(rng: random.Random) -> dict[str, str]:
    """Make data that can tell whether it is whole."""
    text = rng.randbytes(rng.choice((10, 400, 4000))).hex()
    return {"text": text, "digest": hashlib.sha256(text.encode()).hexdigest()}


def state(obj: dict[str, Any], *, gone: bool = False) -> tuple[int, str, bool, str]:
    """Return version, name, whether it is gone, and content; what is half there fails."""
    data = obj["data"]
    assert hashlib.sha256(data["text"].encode()).hexdigest() == data["digest"]
    return int(obj["metadata"]["resourceVersion"]), obj["metadata"]["name"], gone, data["digest"]


@dataclass
class Witness:
    """What is known for sure."""

    seen: dict[int, tuple[str, bool, str]] = field(default_factory=dict)  # by version
    last: dict[str, tuple[int, bool]] = field(default_factory=dict)  # of each name, the last acknowledged write
    deleting: set[str] = field(default_factory=set)  # names whose deletion was sent and never answered
    watched: int = 0  # how far the watch was
    acknowledged: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def saw(self, version: int, name: str, gone: bool, digest: str) -> None:
        with self.lock:
            known = self.seen.setdefault(version, (name, gone, digest))
        assert known == (name, gone, digest), f"version {version} was {known} and is {(name, gone, digest)}"

    def written(self, version: int, name: str, *, gone: bool) -> None:
        with self.lock:
            self.acknowledged += 1
            if version > self.last.get(name, (0, False))[0]:
                self.last[name] = (version, gone)


def write(api: Api, witness: Witness, rng: random.Random, number: int) -> None:
    """Create, change and delete, until the server is gone. Each writer has names of its own."""
    api = replace(api, kept=api.connect())
    try:
        while True:
            name = f"w{number}-{rng.randrange(KEYS)}"
            there = witness.last.get(name, (0, True))[1] is False
            if not there or name in witness.deleting:
                answer = api("POST", MAPS, {**config_map(name), "data": payload(rng)})
                if answer.status == 409:  # an earlier create was stored, and the answer lost
                    answer = api("PATCH", f"{MAPS}/{name}", {"data": payload(rng)}, MERGE_PATCH)
            elif rng.random() < 0.25:
                witness.deleting.add(name)
                answer = api("DELETE", f"{MAPS}/{name}")
                assert answer.status == 200
                witness.deleting.discard(name)
                witness.written(witness.last[name][0] + 1, name, gone=True)
                continue
            else:
                answer = api("PATCH", f"{MAPS}/{name}", {"data": payload(rng)}, MERGE_PATCH)
            assert answer.status in (200, 201), answer.data
            seen = state(answer.json)
            witness.saw(*seen)
            witness.deleting.discard(name)
            witness.written(seen[0], name, gone=False)
    except CUT_OFF:
        return


def follow(api: Api, witness: Witness, failures: list[BaseException]) -> None:
    """Watch on from where the last watch was cut off."""
    try:
        with api.watch(MAPS, resourceVersion=witness.watched, allowWatchBookmarks="true") as events:
            for event in events:
                note(witness, event)
    except CUT_OFF as cut:
        if isinstance(cut, AssertionError):
            failures.append(cut)


def note(witness: Witness, event: dict[str, Any]) -> None:
    assert event["type"] in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"), event
    version = int(event["object"]["metadata"]["resourceVersion"])
    assert version >= witness.watched
    if event["type"] != "BOOKMARK":
        assert version > witness.watched, "a watch went back"
        witness.saw(*state(event["object"], gone=event["type"] == "DELETED"))
    witness.watched = version


def inspect(api: Api, witness: Witness) -> None:
    """Hold what a restarted hub has against what the world knows."""
    listed = api.ok("GET", MAPS)
    revision = int(listed["metadata"]["resourceVersion"])
    assert revision >= max([witness.watched, *witness.seen]), "the restart went back in time"
    catch_up(api, witness, revision)
    there = {obj["metadata"]["name"]: state(obj) for obj in listed["items"]}
    for seen in there.values():
        witness.saw(*seen)
    for name, (version, gone) in witness.last.items():
        if name in there:
            assert there[name][0] >= version, f"{name}: {version} was acknowledged, {there[name][0]} is there"
        else:
            assert gone or name in witness.deleting, f"{name}: version {version} was acknowledged, and it is gone"
    for name in list(witness.deleting):  # now it is known how that ended
        witness.deleting.discard(name)
        witness.last[name] = (witness.last[name][0], name not in there)
    for name, seen in there.items():
        witness.last[name] = (seen[0], False)


def catch_up(api: Api, witness: Witness, revision: int) -> None:
    """Resume the watch up to the present. Nobody writes anything else, so the versions follow without a gap."""
    missed = range(witness.watched + 1, revision + 1)
    if not missed:
        return
    with api.watch(MAPS, resourceVersion=witness.watched) as events:
        for expected in missed:
            event = next(events)
            note(witness, event)
            assert witness.watched == expected, event


@dataclass
class Hub:
    """A hub in a directory, which dies and is started again."""

    directory: Path
    nursery: subprocess.Popen[str]
    pid: int = 0

    def start(self) -> Api:
        kubeconfig, orders, answers = self.directory / "kubeconfig", self.nursery.stdin, self.nursery.stdout
        assert orders is not None
        assert answers is not None
        kubeconfig.unlink(missing_ok=True)
        arguments = ["hub", "--data", str(self.directory / "data"), "--kubeconfig", str(kubeconfig)]
        print(json.dumps(arguments), file=orders, flush=True)
        self.pid = int(answers.readline())
        deadline = time.monotonic() + 60
        while not kubeconfig.exists():
            assert time.monotonic() < deadline, "the hub did not start"
            time.sleep(0.01)
        return Api.of(kubeconfig)

    def end(self, how: signal.Signals) -> int:
        assert self.nursery.stdout is not None
        os.kill(self.pid, how)
        return int(self.nursery.stdout.readline())


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[Hub]:
    command = [sys.executable, "-m", "tests.hub.storage.crash.nursery"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        running = Hub(tmp_path, process)
        yield running
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGKILL)


@pytest.mark.lives("kill -9 of the hub")
def test_nothing_that_a_client_was_told_is_lost_by_kill_9(durable: Hub, lives: Lives) -> None:
    seed = int(os.environ.get("ECHELON_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"ECHELON_SEED={seed}")  # shown when the test fails
    rng = random.Random(seed)  # noqa: S311 - a test that can be run again
    witness = Witness()
    failures: list[BaseException] = []
    for _ in lives:
        api = durable.start()
        if witness.watched == 0:
            witness.watched = int(api.ok("GET", MAPS)["metadata"]["resourceVersion"])
        inspect(api, witness)
        threads = [threading.Thread(target=follow, args=(api, witness, failures))]
        for number in range(WRITERS):
            own = random.Random(rng.getrandbits(32))  # noqa: S311 - as above
            threads.append(threading.Thread(target=write, args=(api, witness, own, number)))
        for thread in threads:
            thread.start()
        time.sleep(rng.random() * 0.5)
        assert durable.end(signal.SIGKILL) == -signal.SIGKILL
        for thread in threads:
            thread.join(timeout=30)
        assert failures == []
    inspect(durable.start(), witness)
    assert durable.end(signal.SIGTERM) == 0
    print(f"{witness.acknowledged} writes were acknowledged")
    assert witness.acknowledged > len(lives.seen), "the hub was always killed before anybody had written"
