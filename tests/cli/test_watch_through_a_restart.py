"""`echelon rollout watch` while the hub is away: it says so once, waits, and goes on."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.test_rollout_verbs import Shown, furnish
from tests.engine.work_set.world import NAME, World, progressive
from tests.hub.conftest import HubProcess

pytestmark = pytest.mark.full

PATIENCE_SECONDS = 120.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_watch_goes_on_when_the_hub_comes_back(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path, ["--data", str(tmp_path / "data")])
    hub.start()
    asyncio.run(furnish(hub))
    world = World.of([("", ["a1", "b1"])], progressive(maxConcurrency=1))
    world.settle()
    rollout = Shown(hub, world)
    kubeconfig = tmp_path / "mine"  # the hub's own is written anew when it starts
    kubeconfig.write_text(hub.kubeconfig.read_text())
    out, err = tmp_path / "out", tmp_path / "err"
    command = [sys.executable, "-m", "echelon", "rollout", "watch", NAME, "-n", rollout.namespace]
    command += ["--kubeconfig", str(kubeconfig), "--interval", "0.2", "--request-timeout", "10s"]
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        until(lambda: "rolling out" in out.read_text())
        hub.kill()
        until(lambda: "the hub does not answer, and is asked again" in err.read_text())
        hub.start()
        until(lambda: "the hub answers again" in err.read_text())
        assert process.poll() is None
        rollout.decide_on_nobody()
        assert process.wait(timeout=PATIENCE_SECONDS) == 8
    finally:
        process.kill()
        process.wait()
        assert hub.stop() == 0
    assert err.read_text().count("does not answer") == 1, "and not once a second"
    assert out.read_text().splitlines()[-1].startswith("no clusters")


_IMPATIENT = """
import sys
from echelon.cli import main, rollout_watching
rollout_watching._SILENCE_SECONDS = 1.0
main(sys.argv[1:])
"""


def test_a_watch_ends_when_the_hub_stays_away_for_long(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path, ["--data", str(tmp_path / "data")])
    hub.start()
    asyncio.run(furnish(hub))
    world = World.of([("", ["c1", "d1"])], progressive(maxConcurrency=1))
    world.settle()
    rollout = Shown(hub, world)
    out, err = tmp_path / "out", tmp_path / "err"
    command = [sys.executable, "-c", _IMPATIENT, "rollout", "watch", NAME, "-n", rollout.namespace]
    command += ["--kubeconfig", str(hub.kubeconfig), "--interval", "0.2", "--request-timeout", "10s"]
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        until(lambda: "rolling out" in out.read_text())
        hub.kill()
        assert process.wait(timeout=PATIENCE_SECONDS) == 7
    finally:
        process.kill()
        process.wait()
    assert err.read_text().splitlines()[-1].startswith("Error: GET https://")
