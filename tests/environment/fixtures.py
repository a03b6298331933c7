"""Fixtures for tests that need real Kubernetes, and what happens where there is none.

On a machine without Go and without the programs such tests are skipped, and one line at the end says so. Where
`ECHELON_REQUIRE_KUBERNETES` is set, as before a merge, they fail instead: a suite that silently shrank proves nothing.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.kubernetes.build import BuildError

from tests.environment.access import Access
from tests.environment.programs import ABSENCE, MissingProgramError, Programs, programs
from tests.environment.shared import shared_plane

REQUIRED = "ECHELON_REQUIRE_KUBERNETES"


@pytest.fixture(scope="session")
def kubernetes(request: pytest.FixtureRequest) -> Programs:
    """The Kubernetes programs, built if need be."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        # A build takes minutes, so its progress must be seen.
        with capture.global_and_fixture_disabled():
            found = programs()
    except (BuildError, MissingProgramError) as error:
        pytest.fail(f"real Kubernetes cannot be run: {error}", pytrace=False)
    if found is None and os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, and there is {ABSENCE}", pytrace=False)
    if found is None:
        pytest.skip(ABSENCE)
    return found


@pytest.fixture(scope="session")
def control_plane(kubernetes: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A plane without controllers, the same one for all tests and workers: use names of your own."""
    with shared_plane(kubernetes, _directory_of_the_run(tmp_path_factory) / "control-plane") as access:
        yield access


def _directory_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line how much was not tested."""
    skipped = [report for report in terminalreporter.getreports("skipped") if ABSENCE in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} tests were skipped: {ABSENCE}", yellow=True)
