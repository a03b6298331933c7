"""What a surge shows is no memory: after a crash in the middle of it, nobody is chosen for having been shown.

A cluster that is chosen already is preferred, and tolerated where a new one would not be. An update that deselects a
cluster and has others change places is cut short right after its surge. Whoever goes on from there must take what was
meant for what was decided, and not what happens to be listed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.placement import PLACEMENT_DECISION
from echelon.controllers.running import Controllers
from echelon.fleet.loop import running
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT
from echelon.kube.errors import Forbidden
from echelon.kube.metrics import Metrics
from tests.controllers.hub import Hub, told
from tests.controllers.strict import STRICT, end
from tests.controllers.test_rolling_update import members, strategy
from tests.controllers.test_stale_caches import start
from tests.controllers.test_taints import taint

EXACT = {
    "mode": "Exact",
    "configurations": [
        {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 1},
        {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": "demo"}}, "weight": 1},
    ],
}


class Mortal(InProcessClient):
    """Carries out one write of a decision's clusters, and is never heard of again."""

    died: asyncio.Event

    async def patch(self, kind: Any, name: str, *args: Any, **options: Any) -> Any:
        if self.died.is_set():
            await asyncio.Future()
        answer = await super().patch(kind, name, *args, **options)
        if kind.resource == PLACEMENT_DECISION.resource and options.get("subresource") == "status":
            self.died.set()
            await asyncio.Future()
        return answer


async def torn(hub: Hub) -> None:
    """Have `out` deselected for `in`, and two others change places, as far as the surge."""
    await hub.bound_set()
    await hub.clusters(["a", "out"], group="one")
    await hub.clusters(["b", "c"], group="two")
    for name in ("a", "b", "c", "out"):
        await hub.score(name, 100)
    hub.start()
    await hub.place(numberOfClusters=4, prioritizerPolicy=EXACT, decisionStrategy=strategy("100%", "one", "two"))
    await hub.settle()
    assert await members(hub) == [["a", "out"], ["b", "c"]]
    await hub.stop()
    await hub.patch(MANAGED_CLUSTER, "a", {"metadata": {"labels": {"group": "two"}}})
    await hub.patch(MANAGED_CLUSTER, "b", {"metadata": {"labels": {"group": "one"}}})
    await hub.score("out", -100)
    await hub.clusters(["in"], group="one")
    await hub.score("in", 50)
    hub.sight.protect("p", "out")
    await one_write(hub)
    # The union of what stays and what comes; who was deselected is in it no more.
    assert hub.sight.lists == {
        "p-decision-1": ("p", frozenset({"a", "b", "in"})),
        "p-decision-2": ("p", frozenset({"b", "c"})),
    }


async def one_write(hub: Hub) -> None:
    client = Mortal(hub.client._cluster, ROOT)
    client.died = asyncio.Event()
    chance = Random(1)  # noqa: S311 - repeatable on purpose
    names = ["placement"]
    made = Controllers(
        client, running().clock, names, random=chance, metrics=Metrics(), instance="mortal", settings=STRICT
    )
    life = asyncio.create_task(made.run())
    await client.died.wait()
    await end(life)


class Refused(InProcessClient):
    """May not create decisions at first."""

    allowed = False

    async def create(self, kind: Any, body: Any, *args: Any, **options: Any) -> Any:
        if kind.resource == PLACEMENT_DECISION.resource and not self.allowed:
            raise Forbidden("decisions are not to be created yet")
        return await super().create(kind, body, *args, **options)


def test_a_choice_that_was_never_written_is_not_remembered() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["a", "b"])
        await hub.score("a", 50)
        client = Refused(hub.client._cluster, ROOT)
        start(hub, client)
        await hub.place(numberOfClusters=1, prioritizerPolicy=EXACT)
        await hub.settle(5)
        # It would not be enough to win from a cluster that was chosen already.
        await hub.score("b", 100)
        client.allowed = True
        await hub.settle(200)
        assert await hub.selected() == ["b"]

    told(story)


async def nothing(_: Hub) -> None:
    """Go on as if nothing had happened."""


async def better(hub: Hub) -> None:
    """Let the deselected cluster be better than the one that came for it, if both were chosen already."""
    await hub.score("out", 60)


async def gone(hub: Hub) -> None:
    """Let there be room for the deselected cluster, if it were not new."""
    await hub.delete(MANAGED_CLUSTER, "in")
    await hub.patch(MANAGED_CLUSTER, "out", {"spec": {"taints": [taint("late", effect="NoSelectIfNew")]}})


@pytest.mark.parametrize(
    ("meanwhile", "groups"),
    [
        (nothing, [["b", "in"], ["a", "c"]]),
        (better, [["b", "in"], ["a", "c"]]),
        (gone, [["b"], ["a", "c"]]),
    ],
    ids=["nothing", "steady", "new"],
)
def test_who_was_deselected_is_not_chosen_for_having_been_listed(
    meanwhile: Callable[[Hub], Awaitable[None]], groups: list[list[str]]
) -> None:
    async def story(hub: Hub) -> None:
        await torn(hub)
        await meanwhile(hub)
        hub.sight.protect("p", "in")
        hub.start()
        await hub.settle(30)
        assert await members(hub) == groups
        assert hub.sight.vanished == set()

    told(story)


def test_who_moves_counts_as_chosen_and_its_time_runs_out_once() -> None:
    """The moving clusters are in two decisions, or in the one that they leave: both keep what they had."""

    async def story(hub: Hub) -> None:
        await torn(hub)
        kept = [taint("late", effect="NoSelectIfNew")]
        await hub.patch(MANAGED_CLUSTER, "a", {"spec": {"taints": kept}})
        await hub.patch(MANAGED_CLUSTER, "b", {"spec": {"taints": [*kept, taint("timed")]}})
        await hub.respec(tolerations=[{"key": "timed", "operator": "Exists", "tolerationSeconds": 60}])
        hub.sight.protect("p", "b")
        hub.start()
        await hub.settle(55)
        assert await members(hub) == [["b", "in"], ["a", "c"]]
        await hub.settle(6)
        assert await members(hub) == [["in", "out"], ["a", "c"]]
        assert hub.sight.vanished == set()

    told(story)
