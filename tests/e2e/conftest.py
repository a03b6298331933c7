"""One fleet of real control planes for all tests that need one: starting it takes longer than most of them."""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.fleet import PROGRAMS, Fleet
from tests.environment import Programs
from tests.environment.fixtures import REQUIRED

CLUSTERS = {
    "west": {"common-profile": "true", "prod-canary-west": ""},
    "east": {"common-profile": "true", "prod-canary-east": ""},
    "south": {"common-profile": "true"},
}


@pytest.fixture(scope="session")
def fleet(kubernetes: Programs, kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if not kubernetes.has(PROGRAMS):
        told = f"no real fleet: {kubernetes.directory} does not have all of {', '.join(PROGRAMS)}"
        pytest.fail(told, pytrace=False) if os.environ.get(REQUIRED) else pytest.skip(told)
    with Fleet(kubernetes, kubectl, tmp_path_factory.mktemp("fleet"), CLUSTERS) as running:
        yield running
