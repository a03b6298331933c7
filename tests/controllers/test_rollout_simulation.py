"""A rollout that is disturbed in every way there is: the rules hold at every moment, and in the end all is said.

One life proves little, so there are as many as the budget allows: pretended fleets, of two tenths of a second each, and
real ones.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from echelon.fleet.loop import running
from echelon.fleet.member.trouble import CrashLoop, Flapping, ImageError, Offline, Script, SlowStart
from echelon.fleet.simulation import Invariant, Scenario, World, seeds, simulate
from tests.budgets import Lives
from tests.controllers.rollout_fleet import GROUPS, Fleet
from tests.controllers.rollout_people import CLUSTERS, SEEN, drawn_strategy
from tests.controllers.rollout_world import ANSWERS, everything_is_as_it_should_be, live, the_rules_are_kept


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong in thousands of lives; of a single one it is worth reading."""
    if len(seeds(2)) > 1:
        logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.lives("rollouts")
def test_the_rules_of_a_rollout_are_kept_whatever_goes_wrong(lives: Lives) -> None:
    for seed in lives:
        lives.note(live(seed))


@pytest.mark.full
def test_these_rollouts_are_not_boring() -> None:
    before, injected = Counter(SEEN), Counter[str]()
    for seed in range(56):
        injected += Counter(live(seed).injected)
    happened = SEEN - before
    assert happened["start"] > 4 * 40
    assert happened["deletion"] > 4
    acts = ("upgrade", "undo", "change_strategy", "pause", "abort", "approve", "retry")
    for act in (*acts, "move", "come_and_go", "shift", "make_anew"):
        assert happened[act] > 3, act
    for answer in ANSWERS:
        assert happened[answer.__name__] > 0, answer
    for fault in ("stale", "crash", "kill", "pause", "conflict", "gone", "stall", "late_write", "server_error"):
        assert injected[fault] > 3, fault


def drawn_script(chance: Random) -> Script:
    """Draw what goes wrong on a cluster; on most of them nothing does."""
    if chance.random() < 0.6:
        return Script()
    begin = chance.uniform(0, 60)
    end = begin + chance.uniform(5, 60)
    troubles = (
        Offline(begin, end),
        Offline(begin),
        SlowStart(begin, end, factor=20.0),
        CrashLoop(image=f"web:{chance.randint(1, 3)}"),
        ImageError(image=f"web:{chance.randint(1, 3)}"),
        Flapping(begin, end, ready_seconds=7.0, unready_seconds=4.0),
    )
    return Script((chance.choice(troubles),))


async def build(world: World) -> None:
    chance = Random(world.random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    scripts = {name: drawn_script(chance) for name in CLUSTERS}
    fleet = Fleet(world, drawn_strategy(chance), deployed=True, scripts=scripts)
    await fleet.build()
    world.spawn(people(fleet, chance), "people")


async def people(fleet: Fleet, chance: Random) -> None:
    version = 1
    for _ in range(8):
        await asyncio.sleep(chance.choice((0, 1, 5, 12)))
        what = chance.random()
        if what < 0.35:
            version += 1
            await fleet.upgrade(str(version))
        elif what < 0.6:
            await fleet.move(chance.choice(CLUSTERS), chance.choice(GROUPS))
        elif what < 0.8:
            await fleet.say(paused=chance.choice(("true", None)))
        else:
            now = running().clock.now().isoformat()
            await fleet.say(**{chance.choice(("promoted-at", "retried-at")): now})
    await fleet.say(paused=None)


REAL = Scenario(
    name="rollout on real clusters",
    build=build,
    goal=everything_is_as_it_should_be,
    invariants=(Invariant("rules", the_rules_are_kept),),
    chaos_seconds=90.0,
    settle_seconds=1200.0,
    silence_seconds=90.0,
    kill_seconds=(10.0, 90.0),
    restart_seconds=(0.0, 8.0),
)


@pytest.mark.lives("rollouts on real clusters")
def test_real_agents_and_clusters_keep_the_rules_too(lives: Lives) -> None:
    for seed in lives:
        lives.note(simulate(REAL, seed))
