"""`echelon simulate`: how long a change takes, how far it gets when it is bad, and what is told of it."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.cli.plan_world import CLUSTERS, NS, documents, made, small_fleet, work_set

from echelon.api.base import JSONObject
from echelon.cli import main
from echelon.cli.simulate_report import report_of
from echelon.cli.simulate_views import Simulation
from echelon.fleet.capture import to_document
from echelon.fleet.rehearsal.chronicle import Counts, RolloutName
from echelon.fleet.rehearsal.hazards import BadHazard, Hazard, read_hazard
from echelon.fleet.rehearsal.lives import Fate, Life, Trial

SLOWLY: JSONObject = {
    "type": "ProgressivePerGroup",
    "progressivePerGroup": {"minSuccessTime": "5m", "progressDeadline": "10m", "maxFailures": 0},
}


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "fleet.json"
    path.write_text(json.dumps(to_document(small_fleet(work_set("web:1", SLOWLY)))))
    return path


@pytest.fixture
def simulate(captured: Path, tmp_path: Path) -> Callable[..., Result]:
    def run(*options: str, code: int = 0, change: JSONObject | None = None) -> Result:
        file = tmp_path / "change.yaml"
        file.write_text(yaml.safe_dump(documents(change or work_set("web:2", SLOWLY))[0].body))
        result = CliRunner().invoke(main, ["simulate", "-f", str(file), "--fleet", str(captured), *options])
        assert result.exit_code == code, (result.exit_code, result.output, result.exception)
        return result

    return run


def told(result: Result) -> Any:
    return json.loads(result.stdout)["rollouts"][0]


@pytest.mark.full
def test_a_good_change_is_everywhere_after_its_soaks_and_the_same_seeds_say_the_same(
    simulate: Callable[..., Result], tmp_path: Path
) -> None:
    page = tmp_path / "out.html"
    said = simulate("--seeds", "2", "--report", str(page)).output
    assert "2 lives of 6 clusters: nothing goes wrong" in said
    assert "2 done" in said
    assert "what makes it slow: one group after the other" in said or "what makes it slow: minSuccessTime" in said
    assert "no budget was broken" in said
    first, again = (told(simulate("--seeds", "2", "-o", "json")) for _ in range(2))
    assert first == again
    assert first["endings"] == {"done": 2}
    assert first["clustersReached"]["most"] == 5
    assert first["podsReached"]["least"] == 5
    assert 900 <= first["seconds"]["least"] <= 1200  # three soaks of five minutes, and the starts of pods
    assert page.read_text().count("<svg") == 3


def test_a_bad_change_stops_in_the_first_group_and_how_far_it_got_is_told(simulate: Callable[..., Result]) -> None:
    found = told(simulate("--seeds", "2", "--failures", "image on 100%", "-o", "json"))
    assert found["endings"] == {"stopped": 2}
    assert found["clustersReached"]["most"] == 2
    assert 0 < found["podsReached"]["most"] <= 2


def test_a_change_that_fails_after_a_while_gets_further(simulate: Callable[..., Result]) -> None:
    late = told(simulate("--seeds", "1", "--failures", "crash on 100% after 8m", "-o", "json"))
    assert late["clustersReached"]["most"] > 2


def test_controllers_of_a_simulation_are_told_what_those_of_the_fleet_were_told(
    simulate: Callable[..., Result],
) -> None:
    """Removed one by one, each when the one before is gone, five clusters take longer than all at once."""
    nobody = made(f"{CLUSTERS}/v1beta1", "Placement", "p", NS, spec={"clusterSets": ["all"], "numberOfClusters": 1})
    options = ("--seeds", "1", "-o", "json")
    at_once = told(simulate(*options, change=nobody))["seconds"]["most"]
    slowly = told(simulate(*options, "--max-removals", "1", change=nobody))["seconds"]["most"]
    assert slowly > at_once


def test_clusters_that_are_cut_off_are_timed_out(simulate: Callable[..., Result]) -> None:
    found = told(simulate("--seeds", "2", "--failures", "offline on 6", "-o", "json"))
    assert found["endings"] == {"stopped": 2}


def test_a_bar_tells_on_a_terminal_how_far_it_is_and_leaves_nothing_behind(captured: Path, tmp_path: Path) -> None:
    change = tmp_path / "change.yaml"
    change.write_text(yaml.safe_dump(documents(work_set("web:2", SLOWLY))[0].body))
    leader, follower = os.openpty()
    options = (
        "-f",
        str(change),
        "--fleet",
        str(captured),
        "--seeds",
        "2",
        "--processes",
        "1",
        "--failures",
        "crash on 100%",
    )
    command = [sys.executable, "-m", "echelon", "simulate", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, text=True, check=True)
    shown = os.read(leader, 1 << 16).decode()
    os.close(leader)
    os.close(follower)
    bars = [line.strip() for line in shown.split("\r\x1b[K") if line]
    assert bars[0] == f"[{' ' * 30}] bringing 6 clusters to life"
    assert f"[{'#' * 15}{' ' * 15}] 1 of 2 lives" in bars
    assert shown.endswith("\r\x1b[K")
    assert "lives of 6 clusters" in done.stdout
    assert "##" not in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--failures", "fire on 3"), "crash, image, slow, offline"),
        (("--failures", "crash on 130%"), "more than all clusters"),
        (("--from-hub",), "say which fleet"),
    ],
)
def test_mistakes_name_what_is_wrong(simulate: Callable[..., Result], options: tuple[str, ...], said: str) -> None:
    assert said in " ".join(simulate(*options, code=2).output.split())


def test_what_cannot_fail_or_changes_nothing_is_said(simulate: Callable[..., Result]) -> None:
    same = work_set("web:1", {"type": "All"})
    assert "nothing is rolled out" in simulate(code=2, change=same).output
    refused = work_set("web:2", {"type": "Progressive", "progressive": {"maxConcurrency": "many"}})
    assert "is refused" in simulate(code=1, change=refused).output


def test_failures_are_read() -> None:
    assert read_hazard("crash on 30% after 10m") == Hazard("crash", 0.3, after=600.0)
    assert read_hazard(" offline  on 2 ") == Hazard("offline", count=2)
    for wrong in ("", "crash", "crash on", "crash on -1", "crash on 3 after ten"):
        with pytest.raises(BadHazard):
            read_hazard(wrong)


def test_names_of_others_are_text_in_the_page() -> None:
    name = RolloutName("manifestworkreplicasets", NS, "<script>alert(1)</script>\x1b[31m")
    fate = Fate(
        rollout=name,
        ending="<b>done",
        seconds=60.0,
        clusters=2,
        pods=2,
        failed=0,
        starts=[(0.0, "<img src=x>"), (30.0, "b")],
        told=[(0.0, Counts(to_apply=2)), (30.0, Counts(progressing=1, to_apply=1)), (60.0, Counts(succeeded=2))],
    )
    life = Life(seed=3, fates=[fate], violations=["<i>broken</i>"])
    page = report_of(Simulation((life,), Trial((), (name,)), ("crash on <u>",), {}, 2))
    assert re.search(r"<(script|img|b|i|u)\b", page) is None
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "default-src 'none'" in page
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(drawing)  # noqa: S314 - our own


def test_a_rollout_that_breaks_a_budget_is_seen(
    monkeypatch: pytest.MonkeyPatch, simulate: Callable[..., Result]
) -> None:
    monkeypatch.setattr("echelon.cli.simulate_trial.most_in_flight", lambda *_: 1)  # and two start together
    said = simulate("--seeds", "1", "--first-seed", "5", code=11).output
    assert "seed 5: web: 2 in flight, and 1 may be" in said
    assert "--first-seed 5 --seeds 1" in said


def test_the_command_of_the_page_prints_what_it_shows(
    captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = re.findall(r"```console\n\$ echelon (simulate .*?)```", Path("docs/planning.md").read_text(), re.DOTALL)[0]
    command, *shown = block.splitlines()
    (tmp_path / "change.yaml").write_text(yaml.safe_dump(documents(work_set("web:2", SLOWLY))[0].body))
    (tmp_path / "fleet.json").write_bytes(captured.read_bytes())
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(main, shlex.split(command)).output.splitlines()
    for line in shown:
        assert line in said, (line, said)
    assert (tmp_path / "out.html").exists()
