"""A controller of PodCliqueSets that is killed, starved and lied to, while people change their minds."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE
from echelon.fleet.simulation import Invariant, Scenario, SimulationFailed, World, simulate
from echelon.kube.faults import NO_FAULTS
from tests.budgets import Lives
from tests.controllers.clique_lives import (
    begin,
    build,
    change,
    goal,
    living,
    nothing_is_deleted_for_an_edit,
    one_pod_an_index,
    the_floor_is_kept,
    updated_within_replicas,
)
from tests.controllers.clique_world import NS

SCENARIO = Scenario(
    "pod clique sets",
    build,
    goal,
    invariants=(
        Invariant("one live pod an index", one_pod_an_index),
        Invariant("OnDelete deletes nothing for an edit", nothing_is_deleted_for_an_edit),
        Invariant("the floor is kept", the_floor_is_kept),
        Invariant("updated ≤ replicas", updated_within_replicas),
    ),
    chaos_seconds=600.0,
    settle_seconds=3600.0,
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong in hundreds of lives."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.lives("pod clique sets")
def test_whatever_happens_everything_runs_the_last_template_in_the_end(lives: Lives) -> None:
    for seed in lives:
        lives.note(simulate(SCENARIO, seed))


@pytest.mark.parametrize(("seconds", "is_excused"), [(0.9, True), (1.1, False)])
def test_a_deletion_for_an_earlier_size_is_excused_only_while_it_can_be_on_the_way(
    seconds: float, *, is_excused: bool
) -> None:
    async def scaled_out(world: World) -> None:
        await begin(world, on_delete=True)
        client = world.client()
        await asyncio.sleep(60)
        await change(client, POD_CLIQUE, "w-0-front", {"spec": {"replicas": 4}})
        await asyncio.sleep(seconds)
        pods = [name for name in living(world) if name.startswith("w-0-front-")]
        assert len(pods) == 4
        await client.delete(POD, pods[0], NS)

    rule = SCENARIO.invariants[1]
    scenario = Scenario("a late deletion", scaled_out, lambda _: None, (rule,), 60.0, 60.0, 10.0, kill_seconds=None)
    if is_excused:
        simulate(scenario, 1, NO_FAULTS)
    else:
        with pytest.raises(SimulationFailed, match="was deleted under OnDelete, and 3 of 4 are left"):
            simulate(scenario, 1, NO_FAULTS)
