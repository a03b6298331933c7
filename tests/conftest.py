"""What tests of every part need."""

import gc
import importlib
import logging
import os
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
from hypothesis import settings

from tests.budgets import BUDGETS, FULL, Lives, plan_of, told
from tests.environment.shared import directory_of_the_run

pytest_plugins = ["tests.environment.fixtures"]

LIVES = "lives"
TRIED = pytest.StashKey[Lives]()

# How fast the machine is decides no test. CI tries the same examples each time; everybody else explores.
settings.register_profile("full", deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True)
settings.register_profile("quick", settings.get_profile("full"), max_examples=20)
settings.load_profile("full" if os.environ.get(FULL) else "quick")


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are processors: some tests wait for real time to pass, and need none meanwhile."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Spare the garbage collector what lives as long as the run: it would walk through half a gigabyte each time."""
    gc.disable()
    try:
        import_a_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def import_a_share(config: pytest.Config) -> None:
    """Have each worker begin with modules of its own: in a new checkout, compiling them takes longer than all else.

    Otherwise all of them compile the same module at the same time. Now each finds most of them compiled by others.
    """
    worker: Mapping[str, Any] = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    number, workers = int(worker["workerid"].removeprefix("gw")), int(worker["workercount"])
    paths = sorted(path for each in config.args for path in (config.rootpath / each).rglob("test_*.py"))
    for path in paths[number::workers] if workers > 1 else ():
        with suppress(Exception):  # what cannot be imported is told when it is collected
            importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Deal a simulation out in shares."""
    marker = metafunc.definition.get_closest_marker(LIVES)
    if marker is not None:
        shares = plan_of(BUDGETS[marker.args[0]]).shares
        names = [f"{number} of {shares}" for number in range(1, shares + 1)]
        metafunc.parametrize("lives", names, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for `make test-all`, and have what is long begun early, so that nobody waits for it at the end.

    A group is not torn apart: its tests share something that takes long to start.
    """
    for item in items if not os.environ.get(FULL) else ():
        if item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip("left to make test-all"))
    long: dict[str, list[pytest.Item]] = {}
    others: list[pytest.Item] = []
    for item in items:
        if group := item.get_closest_marker("xdist_group"):
            long.setdefault(group.args[0], []).append(item)
        elif item.get_closest_marker(LIVES) or item.get_closest_marker("long"):
            long[item.nodeid] = [item]
        else:
            others.append(item)
    items[:] = dealt(list(long.values()), others, getattr(config, "workerinput", {}).get("workercount", 1))


def dealt(long: list[list[pytest.Item]], others: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return tests in such an order that each worker, who is given an equal part of it at first, begins with long ones.

    Those with most tests are dealt first. A worker that is done with its part takes from the ends of other parts.
    """
    hands: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for number, tests in enumerate(sorted(long, key=len, reverse=True)):
        hands[number % workers] += tests
    size = (sum(map(len, hands)) + len(others)) // workers
    rest = iter(others)
    order = [test for hand in hands for test in (*hand, *islice(rest, max(0, size - len(hand))))]
    return [*order, *rest]


@pytest.fixture(autouse=True)
def log_level_of_its_own() -> Iterator[None]:
    """Put the level of the log back, which commands set: tests after one that ran a command here read warnings, too."""
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


@pytest.fixture
def lives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lives:
    """The seeds that a share of a simulation tries."""
    name = request.node.get_closest_marker(LIVES).args[0]
    # Other modules have tests of the same name.
    test = request.node.nodeid.partition("[")[0].replace("/", ".")
    counter = directory_of_the_run(tmp_path_factory) / f"seeds of {test}"
    here = request.node.stash[TRIED] = Lives(name, plan_of(BUDGETS[name]), counter)
    return here


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Give a simulation a name under which one seed of it can be run again: in a share there are others then."""
    if TRIED in pyfuncitem.stash:
        os.environ["PYTEST_CURRENT_TEST"] = f"{pyfuncitem.nodeid.partition('[')[0]} (call)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call" and TRIED in item.stash:
        report.user_properties.append((LIVES, item.stash[TRIED].record))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which lives were lived, and in a line for each reason how much was left out."""
    reports = [report for state in ("passed", "failed") for report in terminalreporter.getreports(state)]
    records = [value for report in reports for name, value in report.user_properties if name == LIVES]
    for line in told(records):
        terminalreporter.write_line(line)
    skipped = Counter(str(report.longrepr[2]) for report in terminalreporter.getreports("skipped"))
    for reason, number in skipped.items():
        terminalreporter.write_line(f"{number} skipped: {reason.removeprefix('Skipped: ')}", yellow=True)
