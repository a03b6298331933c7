"""Options of `echelon run` that say something impossible are refused before anything starts."""

from typing import Any

import pytest
from click.testing import CliRunner

from echelon.cli import main
from echelon.cli.controller_options import REMOVAL_GRACE_SECONDS
from echelon.cli.run import LEASE_NAMESPACE, SILENT_SHARE, USUAL
from echelon.controllers import running
from echelon.controllers.running import NAMES, POD_CLIQUES, POLICY_NAMES, WORKLOADS
from echelon.controllers.settings import DEFAULTS, ControllerSettings
from echelon.engine.rollout.removal import GRACE


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--max-removals", "0", 'it is "0": it must be a number of clusters from 1, or a percentage from 1% to 100%'),
        ("--max-removals", "half", 'it is "half": it must be a number of clusters from 1'),
        ("--removal-grace", "-1", "-1.0 is not in the range x>=0"),
    ],
)
def test_a_value_that_means_nothing_is_named_with_its_rule(option: str, value: str, said: str) -> None:
    done = CliRunner().invoke(main, ["run", option, value])
    assert done.exit_code == 2
    assert option in done.output
    assert said in " ".join(done.output.split())


@pytest.mark.parametrize("allowed", [True, False])
def test_policies_without_a_strategy_go_everywhere_only_if_that_is_said(
    allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[ControllerSettings] = []

    def serve(options: Any) -> None:
        found.append(options.controllers)

    monkeypatch.setattr("echelon.cli.run_process.serve", serve)
    monkeypatch.setattr("echelon.cli.process.run", lambda _: None)
    done = CliRunner().invoke(main, ["run", *(["--allow-all"] if allowed else [])])
    assert done.exit_code == 0, done.output
    assert [each.allow_all for each in found] == [allowed]


@pytest.mark.parametrize("adopts", [True, False])
def test_bindings_of_karmada_are_taken_over_only_if_that_is_said(adopts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[ControllerSettings] = []

    def serve(options: Any) -> None:
        found.append(options.controllers)

    monkeypatch.setattr("echelon.cli.run_process.serve", serve)
    monkeypatch.setattr("echelon.cli.process.run", lambda _: None)
    done = CliRunner().invoke(main, ["run", *(["--adopt-bindings"] if adopts else [])])
    assert done.exit_code == 0, done.output
    assert [each.adopt_bindings for each in found] == [adopts]


def test_the_help_names_all_controllers_that_are_needed_with_policies_and_workloads() -> None:
    done = CliRunner().invoke(main, ["run", "--help"])
    assert ",".join((*NAMES, *POLICY_NAMES, WORKLOADS)) in "".join(done.output.replace("\\", "").split())


def test_defaults_that_the_help_knows_by_heart_are_those_of_the_controllers() -> None:
    assert ",".join(NAMES) == USUAL
    assert running.LEASE_NAMESPACE == LEASE_NAMESPACE
    assert GRACE.total_seconds() == REMOVAL_GRACE_SECONDS
    assert DEFAULTS.silent_share == SILENT_SHARE
    helped = " ".join(CliRunner().invoke(main, ["run", "--help"]).output.split())
    assert f"policies ({', '.join(POLICY_NAMES)})" in helped
    assert f"({WORKLOADS}, for all of them)" in helped
    assert f"({POD_CLIQUES}, on a cluster" in helped
