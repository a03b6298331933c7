"""Decisions that the hub does not take: the placement says so, with the hub's words, and everything else goes on."""

import asyncio
from random import Random
from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.events import EVENT
from echelon.api.placement import PLACEMENT_DECISION
from echelon.controllers.placement.write_failures import CONFLICTS_IN_A_ROW
from echelon.controllers.running import Controllers
from echelon.engine.conditions import find_condition
from echelon.engine.placement.status import PUBLISHED
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT
from echelon.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, Unavailable
from echelon.kube.metrics import Metrics
from tests.controllers.hub import NS, Hub, told
from tests.controllers.strict import STRICT, end
from tests.controllers.test_rolling_update import strategy

ANSWERS = (
    Forbidden("exceeded quota: no more decisions"),
    Invalid("a policy does not like it"),
    Unavailable("the webhook is down"),
    ConnectionError("the hub cannot be reached"),
)


class Refusing(InProcessClient):
    """A hub that does not take the writes of some decisions; its words are different each time."""

    answer: Exception | None = None
    prefix = "p-"
    asked = 0

    async def create(self, kind: Any, body: Any, *args: Any, **options: Any) -> Any:
        self._refuse(kind, body["metadata"]["name"])
        return await super().create(kind, body, *args, **options)

    async def patch(self, kind: Any, name: str, *args: Any, **options: Any) -> Any:
        self._refuse(kind, name)
        return await super().patch(kind, name, *args, **options)

    def _refuse(self, kind: Any, name: str) -> None:
        if self.answer is not None and kind.resource == PLACEMENT_DECISION.resource and name.startswith(self.prefix):
            self.asked += 1
            words = f"{self.answer} ({self.asked})"
            if isinstance(self.answer, ApiError):
                raise type(self.answer)(words, details=self.answer.details)
            raise type(self.answer)(words)


def refusing(hub: Hub, answer: Exception | None) -> Refusing:
    client = Refusing(hub.client._cluster, ROOT)
    client.answer = answer
    return client


def start(hub: Hub, client: Refusing) -> asyncio.Task[None]:
    chance = Random(1)  # noqa: S311 - repeatable on purpose
    made = Controllers(
        client, hub.clock, ["placement"], random=chance, metrics=Metrics(), instance="test", settings=STRICT
    )
    hub.controllers.append(asyncio.create_task(made.run()))
    return hub.controllers[-1]


async def warnings(hub: Hub) -> list[tuple[str, str]]:
    """Return reason and note of all warnings."""
    found = (await hub.client.list(EVENT.untyped(), NS)).items
    return [(event["reason"], event["note"]) for event in found if event["type"] == "Warning"]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_a_placement_tells_why_its_decisions_are_not_written_and_that_it_is_over(answer: Exception) -> None:
    async def story(hub: Hub) -> None:
        client = refusing(hub, answer)
        await hub.bound_set()
        await hub.clusters(["a", "b"])
        start(hub, client)
        await hub.place()
        await hub.place("q")
        await hub.settle(120)
        words = f"PlacementDecision p-decision-1 could not be written: {answer} (1)"
        assert await hub.condition(PUBLISHED) == ("False", "WriteFailed", words)
        assert await warnings(hub) == [("WriteFailed", words)]
        assert 5 <= client.asked <= 10  # later each time
        assert await hub.selected("q") == ["a", "b"]
        assert find_condition((await hub.placement("q")).status.conditions, PUBLISHED) is None
        client.answer = None
        await hub.settle(70)
        assert await hub.selected() == ["a", "b"]
        assert await hub.groups() == [("", 2)]
        assert (await hub.condition(PUBLISHED))[:2] == ("True", "DecisionsWritten")
        assert await hub.satisfied() == ("True", "AllDecisionsScheduled")

    told(story)


def test_what_was_published_before_stays_told_and_what_does_not_depend_on_the_failure_is_written() -> None:
    async def story(hub: Hub) -> None:
        client = refusing(hub, None)
        await hub.bound_set()
        await hub.clusters(["a1", "a2"], group="one")
        await hub.clusters(["b1", "b2"], group="two")
        start(hub, client)
        await hub.place(decisionStrategy=strategy("100%", "one", "two"))
        await hub.settle()
        client.answer, client.prefix = Forbidden("not this one"), "p-decision-2"
        await hub.delete(MANAGED_CLUSTER, "b2")
        await hub.settle(60)
        assert await hub.selected() == ["a1", "a2", "b1", "b2"]
        assert await hub.groups() == [("one", 2), ("two", 2)]
        assert (await hub.condition(PUBLISHED))[:2] == ("False", "WriteFailed")
        # Something else is wanted: that is not kept waiting by the writes that fail.
        await hub.delete(MANAGED_CLUSTER, "a2")
        await hub.settle(5)
        assert await hub.selected() == ["a1", "b1", "b2"]
        assert (await hub.condition(PUBLISHED))[:2] == ("False", "WriteFailed")
        client.answer = None
        await hub.settle(70)
        assert await hub.groups() == [("one", 1), ("two", 1)]
        assert (await hub.condition(PUBLISHED))[:2] == ("True", "DecisionsWritten")

    told(story)


def test_after_a_restart_the_same_is_told_and_no_second_time() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["a"])
        await hub.place()
        life = start(hub, refusing(hub, ANSWERS[0]))
        await hub.settle(30)
        before = await hub.placement()
        await end(life)
        client = refusing(hub, ANSWERS[0])
        start(hub, client)
        await hub.settle(30)
        assert client.asked > 1
        assert await hub.placement() == before
        assert len(await warnings(hub)) == 1
        await end(*hub.controllers)
        hub.start()  # where nothing fails any more
        await hub.settle()
        assert (await hub.condition(PUBLISHED))[:2] == ("True", "DecisionsWritten")

    told(story)


def test_a_wish_that_is_withdrawn_ends_the_trouble() -> None:
    async def story(hub: Hub) -> None:
        client = refusing(hub, None)
        await hub.bound_set()
        await hub.clusters(["a"])
        start(hub, client)
        await hub.place()
        await hub.settle()
        client.answer = Forbidden("no")
        await hub.clusters(["b"])
        await hub.settle()
        assert (await hub.condition(PUBLISHED))[0] == "False"
        await hub.delete(MANAGED_CLUSTER, "b")
        await hub.settle()
        assert (await hub.condition(PUBLISHED))[0] == "True"
        asked = client.asked
        await hub.settle(120)
        assert client.asked == asked

    told(story)


def test_somebody_who_is_faster_is_no_failure_unless_it_never_ends() -> None:
    async def story(hub: Hub) -> None:
        client = refusing(hub, AlreadyExists("it is there"))
        await hub.bound_set()
        await hub.clusters(["a"])
        start(hub, client)
        await hub.place()
        while client.asked < CONFLICTS_IN_A_ROW - 1:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        assert find_condition((await hub.placement()).status.conditions, PUBLISHED) is None
        await hub.settle(60)
        assert (await hub.condition(PUBLISHED))[:2] == ("False", "WriteFailed")
        client.answer = None
        await hub.settle(70)
        assert await hub.selected() == ["a"]

    told(story)


def test_the_hub_is_not_asked_before_it_wants_to_be() -> None:
    async def story(hub: Hub) -> None:
        client = refusing(hub, Unavailable("later", details={"retryAfterSeconds": 40}))
        await hub.bound_set()
        await hub.clusters(["a"])
        start(hub, client)
        await hub.place()
        await hub.settle(30)
        assert client.asked == 1
        client.answer = None
        await hub.settle(20)
        assert await hub.selected() == ["a"]

    told(story)
