"""Whoever dies at whichever write: the world comes to the same end, and to rest.

A rollout over six clusters in three groups, the first of them mandatory, with soak, deadline and a failure that is
tolerated; then an upgrade while two clusters change places. Every write of every process is once the last one of a
life, before it was committed and after, and once the one whose answer is lost.
"""

import logging
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.fleet.simulation import Invariant, Scenario, World, simulate
from echelon.kube.faults import Faults
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


def lived(strategy: JSONObject, process: str = "", fate: Fate | None = None) -> tuple[dict[str, Any], dict[str, Fate]]:
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
    )
    simulate(scenario, 0, Faults())
    return ends[0], fleets[0].fates


@cache
def undisturbed(name: str) -> tuple[dict[str, Any], dict[str, Fate]]:
    """Return how the story goes when nothing goes wrong."""
    return lived(STRATEGIES[name])


@pytest.mark.parametrize("how", MODES)
@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_crash_at_any_write_of_anybody_changes_nothing_in_the_end(name: str, process: str, how: str) -> None:
    strategy = STRATEGIES[name]
    calm, fates = undisturbed(name)
    writes = fates[process].writes
    assert LEAST < writes < MOST
    for at in range(1, writes + 1):
        end, after = lived(strategy, process, Fate(at, how))
        assert end == calm, (process, at, how)
        assert after[process].writes >= at
