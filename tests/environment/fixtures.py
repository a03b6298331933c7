"""Fixtures for tests that need real Kubernetes, and what happens where there is none.

On a machine without the programs such tests are skipped, and a line at the end of the run says so. Where
`ECHELON_REQUIRE_KUBERNETES` is set, as before a merge, they fail instead: a suite that silently shrank proves nothing.
"""

import os
import shutil
from collections.abc import Iterator
from typing import NoReturn

import pytest
from tools.kubernetes.build import BuildError

from tests.environment.access import Access
from tests.environment.programs import ABSENCE, MissingProgramError, Programs, programs
from tests.environment.shared import directory_of_the_run, shared_plane

REQUIRED = "ECHELON_REQUIRE_KUBERNETES"
NO_KUBECTL = (
    "no kubectl: install one, let KUBECTL name one, or run `make kubernetes`, which builds one where there is Go"
)


@pytest.fixture(scope="session")
def kubernetes() -> Programs:
    """The Kubernetes programs."""
    try:
        found = programs()
    except (BuildError, MissingProgramError) as error:
        pytest.fail(f"real Kubernetes cannot be run: {error}", pytrace=False)
    if found is None:
        lacking(ABSENCE)
    return found


@pytest.fixture(scope="session")
def kubectl() -> str:
    """Path of a real kubectl: `$KUBECTL`, else the one on the PATH, else the one beside the Kubernetes programs."""
    wanted = os.environ.get("KUBECTL") or "kubectl"
    if found := shutil.which(wanted):
        return found
    if wanted != "kubectl":
        pytest.fail(f"KUBECTL is {wanted}, which is no program", pytrace=False)
    built = programs()
    return str(built.path("kubectl")) if built is not None and built.has(["kubectl"]) else lacking(NO_KUBECTL)


def lacking(what: str) -> NoReturn:
    """Skip what needs something that this machine has not; before a merge, fail."""
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, and there is {what}", pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="session")
def control_plane(kubernetes: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A plane without controllers, the same one for all tests and workers: use names of your own."""
    with shared_plane(kubernetes, directory_of_the_run(tmp_path_factory) / "control-plane") as access:
        yield access
