"""`echelon lint` as people use it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from echelon.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
OLD = """
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: web, namespace: apps}
spec:
  placementRefs: [{name: p, rolloutStrategy: {rolloutType: All}}]
"""
ZERO = OLD.replace("{rolloutType: All}", "{type: Progressive, progressive: {maxConcurrency: 0}}")


def lint(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["lint", *arguments], input=text)


def test_a_problem_is_one_line_and_the_exit_code_is_one() -> None:
    done = lint("-f", "-", text=OLD)
    assert done.exit_code == 1
    (line,) = done.output.splitlines()
    assert line.startswith("-: ManifestWorkReplicaSet/web: spec.placementRefs[0].rolloutStrategy.rolloutType: ")
    assert line.endswith("type now")


def test_a_warning_is_no_error() -> None:
    done = lint("-f", "-", text=ZERO)
    assert done.exit_code == 0
    assert "maxConcurrency: warning: zero" in done.output


def test_directories_are_looked_through_and_programs_get_json(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "old.yml").write_text(OLD)
    (tmp_path / "zero.yaml").write_text(ZERO)
    (tmp_path / "notes.txt").write_text("rolloutType: [")
    done = lint("-f", str(tmp_path), "-o", "json")
    assert done.exit_code == 1
    assert [(Path(each["file"]).name, each["severity"]) for each in json.loads(done.output)] == [
        ("old.yml", "error"),
        ("zero.yaml", "warning"),
    ]


@pytest.mark.parametrize(("arguments", "text"), [(["-f", "/nowhere.yaml"], None), (["-f", "-"], "a: [b")])
def test_what_cannot_be_read_is_named(arguments: list[str], text: str | None) -> None:
    done = lint(*arguments, text=text)
    assert done.exit_code in (1, 2)
    assert "nowhere" in done.output or "-: " in done.output


def test_the_examples_have_no_errors() -> None:
    assert lint("-f", str(EXAMPLES)).exit_code == 0
