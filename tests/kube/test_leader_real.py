"""Leader election between processes, on a real Lease: one leader at a time, and always a next one.

Leaders are asked to step down, and every fifth one is killed. The journal that they write is the judge.
"""

import itertools
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.budgets import Lives
from tests.environment import Access, Administrator
from tests.kube.contender import LEASE_SECONDS, RETRY_SECONDS

ROOT = Path(__file__).parents[2]
KILL_EVERY = 5
# Others believe what the record says: whole seconds, rounded up.
WITHIN_SECONDS = math.ceil(LEASE_SECONDS) + RETRY_SECONDS
# What requests and a busy machine may add to it.
SLACK_SECONDS = 5.0


@dataclass(frozen=True)
class Line:
    at: float
    who: str
    word: str


@dataclass
class Contest:
    """Two contenders, and what they wrote."""

    kubeconfig: Path
    namespace: str
    journal: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def add(self) -> None:
        who = f"contender-{next(self.numbers)}"
        arguments = [str(self.kubeconfig), self.namespace, who, str(self.journal)]
        with self.journal.with_suffix(".log").open("ab") as log:
            self.running[who] = subprocess.Popen(
                [sys.executable, "-m", "tests.kube.contender", *arguments], cwd=ROOT, stdout=log, stderr=log
            )
        self.wait(lambda lines: any(line.who == who for line in lines), 60)

    def lines(self) -> list[Line]:
        text = self.journal.read_text() if self.journal.exists() else ""
        words = [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return sorted((Line(float(at), who, word) for at, who, word in words), key=lambda line: line.at)

    def wait(self, enough: Callable[[list[Line]], bool], seconds: float) -> list[Line]:
        deadline = time.monotonic() + seconds
        while not enough(lines := self.lines()):
            assert time.monotonic() < deadline, self.journal.with_suffix(".log").read_text()
            time.sleep(0.02)
        return lines

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.fixture
def contest(control_plane: Access, tmp_path: Path) -> Iterator[Contest]:
    namespace = f"leader-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    Administrator.of(control_plane).request("POST", "/api/v1/namespaces", body)
    made = Contest(control_plane.kubeconfig, namespace, tmp_path / "journal")
    yield made
    made.stop()


def stints(lines: list[Line]) -> list[list[Line]]:
    """Group what was written into periods of one leader each, in the order in which they began."""
    found: list[list[Line]] = []
    current: dict[str, list[Line]] = {}
    for line in lines:
        if line.word == "begins":
            current[line.who] = []
            found.append(current[line.who])
        if line.word != "contends":
            current[line.who].append(line)
    return found


def overlaps(lines: list[Line]) -> list[tuple[Line, Line]]:
    """Return where a leader began although the one before it was still at work."""
    pairs = itertools.pairwise(stints(lines))
    return [(before[-1], after[0]) for before, after in pairs if before[-1].at >= after[0].at]


def test_the_judge_sees_two_leaders_at_once() -> None:
    one_after_the_other = [Line(1.0, "a", "begins"), Line(2.0, "a", "works"), Line(3.0, "b", "begins")]
    assert not overlaps(one_after_the_other)
    still_at_work = Line(3.5, "a", "works")
    assert overlaps([*one_after_the_other, still_at_work]) == [(still_at_work, one_after_the_other[-1])]


@pytest.mark.lives("leaders in processes")
def test_there_is_one_leader_at_a_time_and_the_next_one_follows_soon(contest: Contest, lives: Lives) -> None:
    contest.add()
    contest.add()
    killed = 0
    slowest = 0.0
    for _ in lives:
        lines = contest.wait(lambda lines: bool(stints(lines)), 60)
        count = len(stints(lines))
        leader = stints(lines)[-1][-1].who
        asked = time.monotonic()
        if count % KILL_EVERY == 0:
            process = contest.running.pop(leader)
            process.kill()
            process.wait()
            killed += 1
        else:
            contest.running[leader].send_signal(signal.SIGUSR1)
        lines = contest.wait(lambda lines, seen=count: len(stints(lines)) > seen, 60)  # type: ignore[misc]
        slowest = max(slowest, stints(lines)[count][0].at - asked)
        if len(contest.running) < 2:
            contest.add()
    assert killed >= len(lives.seen) // KILL_EVERY
    assert slowest <= WITHIN_SECONDS + SLACK_SECONDS
    assert not overlaps(contest.lines())
    contest.stop()
    sys.stderr.write(f"{len(lives.seen)} hand-overs, {killed} after a kill, the slowest took {slowest:.2f} s\n")
