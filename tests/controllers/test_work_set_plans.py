"""A plan for a work set follows from what is observed and the time that is given, and from nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random

from echelon.api.keys import Key
from echelon.controllers.context import ControllerContext
from echelon.controllers.work_set.sources import work_sets_controller
from echelon.kube.metrics import Metrics
from echelon.kube.reconciler import Reconciler
from tests.controllers.hub import NS
from tests.controllers.strict import STRICT
from tests.controllers.work_world import WorkWorld, told

WEB = Key(NS, "web")


@asynccontextmanager
async def observing(world: WorkWorld) -> AsyncIterator[Reconciler]:
    """Have a reconciler that sees everything, for now, and never plans by itself."""
    chance = Random(0)  # noqa: S311 - repeatable on purpose
    context = ControllerContext(world.hub.client, world.hub.clock, chance, Metrics(), "test", STRICT)
    controller = work_sets_controller(context)
    tasks = [asyncio.create_task(each.run()) for each in context.informers]
    for each in context.informers:
        await each.wait_synced()
    yield controller._reconciler
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_planning_at_other_times_and_again_gives_equal_plans() -> None:
    """There is no event loop any more when they are made: no other clock could be read, and nobody be asked."""
    seen: list[tuple[Reconciler, datetime]] = []

    async def story(world: WorkWorld) -> None:
        await world.place([("", ["c1", "c2"]), ("", ["c3"])])
        await world.hub.bound_set()
        for name in ("c1", "c2", "c3"):
            await world.hub.cluster(name)
        await world.roll_out()
        world.start()
        await world.settle()
        await world.finish()
        await world.hub.stop()
        world.hub.controllers.clear()
        async with observing(world) as reconciler:
            # The placement owns no decision: this one counts in a moment, and then nobody selects c3 any more.
            await world.slice("p-decision-2", 1, "", ["c2"])
            await world.agree([("", ["c1", "c2"]), ("", ["c2"])])
            await world.settle(0.5)
            seen.append((reconciler, world.hub.clock.now()))

    told(story, settings=STRICT)
    reconciler, now = seen[0]
    moments = [now + timedelta(seconds=each) for each in (0, 1, 3, 60, 3600)]
    plans = {each: reconciler.plan(WEB, each) for each in moments}
    for each in reversed(moments):
        assert reconciler.plan(WEB, each) == plans[each]
    assert plans[now].look_again_after == timedelta(seconds=1.5)  # when the decision counts
    assert plans[now].read is None
    read = plans[moments[2]].read
    assert read is not None
    assert read.names == ("p",)
