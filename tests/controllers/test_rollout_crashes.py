"""Whoever dies at whichever write: the world comes to the same end, and to rest.

A rollout over six clusters in three groups, the first of them mandatory, with soak, deadline and a failure that is
tolerated; then an upgrade while two clusters change places. Every write of every process is once the last one of a
life, before it was committed and after, and once the one whose answer is lost; as many of them as the budget allows.
"""

import logging
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.fleet.simulation import Invariant, Scenario, World, simulate
from echelon.kube.faults import Faults
from tests.budgets import Lives
from tests.controllers.rollout_fleet import MODES, Fate, Fleet, end_of, wait_until
from tests.controllers.rollout_people import CLUSTERS
from tests.controllers.rollout_rules import condition
from tests.controllers.rollout_world import everything_is_as_it_should_be, observer_of, the_rules_are_kept
from tests.controllers.work_world import per_group, progressive

LIMITS: JSONObject = {
    "minSuccessTime": "5s",
    "progressDeadline": "30s",
    "maxFailures": 1,
    "mandatoryDecisionGroups": [{"groupName": "canary"}],
}
STRATEGIES = {"window": progressive(maxConcurrency=2, **LIMITS), "groups": per_group(**LIMITS)}
PROCESSES = ("work-sets", "placement", *(f"agent {name}" for name in CLUSTERS))
LEAST, MOST = 10, 80  # writes of a process in its life


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong in hundreds of lives."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def is_complete(world: World) -> bool:
    work_set = observer_of(world).scene().work_set
    return condition(work_set, "PlacementRolledOut")[0] == "True"


def lived(
    strategy: JSONObject, process: str = "", fate: Fate | None = None, replay: str = ""
) -> tuple[dict[str, Any], dict[str, Fate]]:
    """Run the story; return its end, and how much each process wrote."""
    ends: list[dict[str, Any]] = []
    fleets: list[Fleet] = []

    async def build(world: World) -> None:
        fleet = Fleet(world, strategy, fates={process: fate} if fate is not None else {})
        fleets.append(fleet)
        await fleet.build()
        world.spawn(people(fleet), "people")

    async def people(fleet: Fleet) -> None:
        await wait_until(lambda: is_complete(fleet.world))
        await fleet.upgrade("2")
        await fleet.move("c1", "two")
        await fleet.move("c5", "canary")

    def goal(world: World) -> str | None:
        missing = everything_is_as_it_should_be(world)
        scene = observer_of(world).scene()
        if missing or scene.wanted != "2" or not is_complete(world):
            return missing or "it is not complete"
        ends[:] = [end_of(world)]
        return None

    scenario = Scenario(
        "one crash",
        build,
        goal,
        (Invariant("rules", the_rules_are_kept),),
        chaos_seconds=0.1,
        settle_seconds=900.0,
        silence_seconds=60.0,
        kill_seconds=None,
        replay=replay,
    )
    simulate(scenario, 0, Faults())
    return ends[0], fleets[0].fates


@cache
def undisturbed(name: str) -> tuple[dict[str, Any], dict[str, Fate]]:
    """Return how the story goes when nothing goes wrong."""
    return lived(STRATEGIES[name])


@cache
def moments() -> list[tuple[str, str, str, int]]:
    """Return every write of everybody, mixed so that the first ones are a fair sample, the same one each time."""
    found = [
        (name, process, how, at)
        for name in STRATEGIES
        for process in PROCESSES
        for how in MODES
        for at in range(1, undisturbed(name)[1][process].writes + 1)
    ]
    Random(0).shuffle(found)  # noqa: S311 - repeatable on purpose
    return found


@pytest.mark.parametrize("name", STRATEGIES)
def test_everybody_has_something_to_write(name: str) -> None:
    _, fates = undisturbed(name)
    for process in PROCESSES:
        assert LEAST < fates[process].writes < MOST, process


@pytest.mark.lives("crashes of rollouts")
def test_a_crash_at_any_write_of_anybody_changes_nothing_in_the_end(lives: Lives) -> None:
    for number in lives.below(len(moments())):
        name, process, how, at = moments()[number]
        replay = f"ECHELON_SEED={number} python -m pytest tests/controllers/test_rollout_crashes.py"
        end, after = lived(STRATEGIES[name], process, Fate(at, how), replay)
        assert end == undisturbed(name)[0], (name, process, how, at)
        assert after[process].writes >= at, (name, process, how, at)
