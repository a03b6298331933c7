"""The benchmark runs from end to end on a small fleet; what it measures is not judged here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import WHAT
from bench.figures import MEANINGS, ratio
from bench.startup import KUBECTL

_ROOT = Path(__file__).parents[2]
# All that `python -m bench` measures, but for what has tests of its own below.
PARTS = sorted(set(WHAT) - {"hub", "startup"})


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=300, check=False)


def measured(*what: str) -> Any:
    done = bench(*what, "--clusters", "50", "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.full
def test_a_small_fleet_is_measured_from_outside() -> None:
    said = measured("hub")
    assert said["clusters"] == 50
    assert said["figures"].keys() == MEANINGS.keys()
    assert all(figure["value"] > 0 for name, figure in said["figures"].items() if not name.endswith("_cpu"))
    assert {"create", "list", "get", "update status", "watch fan-out"} <= said["phases"].keys()


@pytest.mark.full
@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_measured_alone(part: str) -> None:
    """All of them in one go take longer on a busy machine than a test that hangs is given."""
    said = measured(part)
    assert sum(said[part].values()) > 0
    assert not any(said[other] for other in PARTS if other != part)


@pytest.mark.full
def test_rollouts_are_decided_with_both_strategies_at_both_sizes() -> None:
    said = measured("rollout")
    assert len(said["rollout"]) == 4
    assert all(milliseconds > 0 for milliseconds in said["rollout"].values())


@pytest.mark.full
def test_starting_the_command_line_is_compared_with_kubectl(kubectl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL", kubectl)
    asked = "echelon rollout list, to its first request"
    assert measured("startup")["startup"].keys() == {KUBECTL, "echelon --help", "echelon rollout list", asked}


@pytest.mark.full
def test_a_server_that_cannot_be_talked_to_is_reported_in_one_line(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "current-context: a\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: ''}}]\n"
        "users: [{name: a, user: {}}]\n"
    )
    done = bench("--kubeconfig", str(kubeconfig))
    assert done.returncode == 1
    assert "has no token" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("name", "value", "better"), [("creates", 2000.0, 2.0), ("list_last_byte", 84.0, 5.0)])
def test_a_ratio_says_how_many_times_better_whichever_way_is_better(name: str, value: float, better: float) -> None:
    assert ratio(name, value, 10_000) == pytest.approx(better)


def test_what_grows_with_the_fleet_is_not_compared_at_another_size() -> None:
    assert ratio("memory", 100.0, 500) is None
