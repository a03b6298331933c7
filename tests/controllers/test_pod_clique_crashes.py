"""Whoever leads dies at whichever write: no two live pods have one index, and it all comes to one end.

A set with a standalone clique and a scaling group is made, rolled, scaled, and edited under OnDelete. Every write of
the controller is once its last one, before it was committed and after; as many of them as the budget allows.
"""

import asyncio
import logging
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest

from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.grove import POD_CLIQUE
from echelon.api.podgangs import POD_GANG
from echelon.hub.server import ROOT
from tests.budgets import Lives
from tests.controllers.clique_world import NS, CliqueWorld, clique, group, set_of, told
from tests.controllers.strict import end
from tests.controllers.test_policy_crashes import Fate, Mortal

MODES = ("before", "after")
LEAST, MOST = 80, 600  # writes of the controller in its life
SPEC = set_of(clique("front", 2, minAvailable=1), clique("work", 2), podCliqueScalingGroups=[group("pool", "work")])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong in hundreds of lives."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def start(world: CliqueWorld, fate: Fate) -> asyncio.Task[None]:
    client = Mortal(world.client._cluster, ROOT)
    client.fate = fate
    return world.start(client)


async def play(world: CliqueWorld, fate: Fate) -> dict[str, Any]:
    """Tell the story; return its end."""
    leaders = [start(world, fate)]

    async def replace_the_dead() -> None:
        await fate.died.wait()
        await asyncio.sleep(1)
        await end(leaders[0])
        world.controllers.remove(leaders[0])
        leaders.append(start(world, Fate()))

    watching = asyncio.create_task(replace_the_dead())
    await world.apply(SPEC)
    await world.settle(120)
    await world.roll("v2")
    await world.settle(300)
    await world.scale_group("w-0-pool", 3)
    await world.scale("w-0-front", 3)
    await world.settle(120)
    await world.respec({"updateStrategy": {"type": "OnDelete"}})
    kept = set(world.names())
    await world.roll("v3")
    await world.settle(120)
    assert kept == set(world.names()), "nothing is deleted because of an edit"
    await world.delete(*world.names("w-0-front")[:2], *world.names("w-0-pool-1-work"))
    await world.settle(120)
    await world.scale_group("w-0-pool", 2)
    await world.scale("w-0-front", 2)
    await world.settle(300)
    await end(watching)
    status = (await world.set()).status
    cliques = (await world.client.list(POD_CLIQUE, NS)).items
    return {
        "images": {each.metadata.name: world.images(each.metadata.name) for each in cliques},
        "ready": {each.metadata.name: each.status.ready_replicas for each in cliques},
        "updated": {each.metadata.name: each.status.updated_replicas for each in cliques},
        "set": (status.available_replicas, status.updated_replicas, status.outdated_pods_count, status.last_errors),
        "conditions": {each.type: (each.status, each.reason) for each in status.conditions},
        "gangs": [each.metadata.name for each in (await world.client.list(POD_GANG, NS)).items],
        "revisions": len((await world.client.list(CONTROLLER_REVISION, NS)).items),
    }


def lived(fate: Fate) -> dict[str, Any]:
    """Run the story on a cluster of its own; return its end."""
    ends: list[dict[str, Any]] = []

    async def story(world: CliqueWorld) -> None:
        ends.append(await play(world, fate))

    told(story)
    return ends[0]


@cache
def undisturbed() -> tuple[dict[str, Any], int]:
    """Return how the story ends when nobody dies, and how much the controller wrote."""
    fate = Fate()
    return lived(fate), fate.writes


@cache
def moments() -> list[tuple[str, int]]:
    """Return every write, mixed so that the first ones are a fair sample, the same one each time."""
    found = [(how, at) for how in MODES for at in range(1, undisturbed()[1] + 1)]
    Random(0).shuffle(found)  # noqa: S311 - repeatable on purpose
    return found


def test_the_controller_has_something_to_write() -> None:
    end_of_it, writes = undisturbed()
    assert LEAST < writes < MOST
    assert end_of_it["images"] == {
        "w-0-front": ["v3", "v3"],
        "w-0-pool-0-work": ["v2", "v2"],
        "w-0-pool-1-work": ["v3", "v3"],
    }


@pytest.mark.lives("crashes of pod clique sets")
def test_a_crash_at_any_write_changes_nothing_in_the_end(lives: Lives) -> None:
    for number in lives.below(len(moments())):
        how, at = moments()[number]
        fate = Fate(at, how)
        assert lived(fate) == undisturbed()[0], (how, at)
        assert fate.died.is_set(), (how, at)
