"""What `make build` makes works where the repository is not: everything that is read at run time is in the wheel."""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 180.0

pytestmark = [pytest.mark.xdist_group("wheel"), pytest.mark.full]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = directory.iterdir()
    return made


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel. What it depends on is borrowed: a path file leads there, and not further."""
    directory = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(directory, with_pip=False, symlinks=True)
    installing = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps"]
    subprocess.run([*installing, "--python", str(directory / "bin" / "python"), str(wheel)], check=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return directory


def _echelon(environment: Path, *arguments: str, cwd: Path) -> str:
    command = [str(environment / "bin" / "echelon"), *arguments]
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, env=_without_python()).stdout


def _without_python() -> dict[str, str]:
    """Return the variables of this process, without those that would lead another one back to the repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def test_it_is_the_wheel_that_runs(environment: Path, tmp_path: Path) -> None:
    asked = [str(environment / "bin" / "python"), "-c", "import echelon; print(echelon.__file__)"]
    said = subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True, text=True, env=_without_python())
    assert Path(said.stdout.strip()).is_relative_to(environment)


def test_definitions_and_admission_policies_are_in_it(environment: Path, tmp_path: Path) -> None:
    assert "kind: CustomResourceDefinition" in _echelon(environment, "crds", cwd=tmp_path)


def test_manifests_with_all_rights_are_made_from_it(environment: Path, tmp_path: Path) -> None:
    """The rights are files, and in the repository they are links to what people read."""
    for which, more in (("hub", "echelon-controllers"), ("agent", "echelon-agent")):
        given = (
            "--set=image.repository=registry.example/echelon",
            *(["--set=cluster=one"] if which == "agent" else []),
        )
        printed = _echelon(environment, "install", "manifests", which, *given, cwd=tmp_path)
        assert f"kind: ClusterRoleBinding\nmetadata:\n  name: {more}\n" in printed


def test_a_fleet_comes_up_from_it_and_its_hints_lead_to_files_that_are_there(environment: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [str(environment / "bin" / "echelon"), "up", "--clusters", "1"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=output, stderr=output, env=_without_python())
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while process.poll() is None and "get deployments,pods" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        assert process.poll() is None, log.read_text()
        (shown,) = re.findall(r"kubectl apply -f (\S+)", log.read_text())
        assert (tmp_path / shown).read_text() == (ROOT / "examples" / Path(shown).name).read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_SECONDS) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.full
def test_it_asks_for_everything_that_it_needs(wheel: Path, tmp_path: Path) -> None:
    """From the package index, as it is set up: what was borrowed above is not there."""
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    pip = [str(tmp_path / "venv" / "bin" / "pip"), "install", "--quiet"]
    locked = ROOT / "container" / "requirements.txt"
    subprocess.run([*pip, "--require-hashes", "-r", str(locked)], check=True, env=_without_python())
    subprocess.run([*pip, "--no-index", str(wheel)], check=True, env=_without_python())
    assert "Roll a change out" in _echelon(tmp_path / "venv", "--help", cwd=tmp_path)
    assert "kind: CustomResourceDefinition" in _echelon(tmp_path / "venv", "crds", cwd=tmp_path)
