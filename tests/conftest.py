"""What tests of every part need."""

import os
import shutil

import pytest
from hypothesis import settings

pytest_plugins = ["tests.environment.fixtures"]


# How fast the machine is decides no test. CI tries the same examples each time; everybody else explores.
settings.register_profile("echelon", deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True)
settings.load_profile("echelon")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of a group, which share something costly, first: from there one worker gets them in one piece."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


@pytest.fixture(scope="session")
def kubectl() -> str:
    """Path of a real kubectl: `$KUBECTL`, else the one on the PATH. A test that needs one fails without it."""
    wanted = os.environ.get("KUBECTL") or "kubectl"
    found = shutil.which(wanted)
    if found is None:
        pytest.fail(f"{wanted} was not found: install kubectl, or let KUBECTL name one", pytrace=False)
    return found
