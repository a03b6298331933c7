"""Propagation when writes are refused, when the process dies at any of them, and when two leaders work at once."""

import asyncio
from random import Random
from typing import Any

import pytest

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.kinds import Kind
from echelon.controllers.running import Controllers
from echelon.hub.server import ROOT
from echelon.kube.errors import ApiError, Forbidden, Unavailable
from echelon.kube.metrics import Metrics
from tests.controllers.hub import NS, Hub, told
from tests.controllers.propagation_world import (
    DIVIDED,
    binding,
    bindings,
    fleet,
    policy,
    respec,
    said,
    shares,
    template,
    told_of,
    warnings,
)
from tests.controllers.refusing import start_refusing
from tests.controllers.strict import end
from tests.controllers.test_policy_crashes import Fate, Mortal

NAME = "workload-propagation"


def test_a_binding_that_the_server_refuses_is_told_on_the_template_and_tried_again() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await template(hub, replicas=2)
        await policy(hub)

        def refuses(verb: str, kind: Kind[Any], _: str, __: JSONObject) -> ApiError | None:
            is_binding = kind.resource == RESOURCE_BINDING.resource
            return Forbidden("resourcebindings is forbidden: quota") if is_binding and verb == "create" else None

        client = start_refusing(hub, NAME, refuses)
        await hub.settle(20)
        assert await bindings(hub) == {}
        [note] = told_of(await warnings(hub), "Deployment", "BindingNotWritten")
        assert "quota" in note
        assert 2 < client.asked < 20, "more and more seldom"
        client.refuses = None
        await hub.settle(300)
        assert await shares(hub) == {"c1": 2}

    told(story)


def test_a_status_that_cannot_be_written_holds_up_nothing_else() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1")
        await template(hub, replicas=2)
        await policy(hub)

        def refuses(_: str, kind: Kind[Any], __: str, body: JSONObject) -> ApiError | None:
            return Unavailable("busy") if kind.resource == RESOURCE_BINDING.resource and "status" in body else None

        client = start_refusing(hub, NAME, refuses)
        await hub.settle(10)
        await hub.patch(DEPLOYMENT, "web", {"spec": {"replicas": 5}}, NS)
        await hub.settle(30)
        assert await shares(hub) == {"c1": 5}
        client.refuses = None
        await hub.settle(300)
        assert (await said(hub))[:2] == ("True", "Success")

    told(story)


async def life(hub: Hub, fate: Fate) -> JSONObject:
    """Make a template, scale it, lose a cluster and gain one, while the controller has a fate; return the end.

    An event may be lost with the process that was to write it: the conditions say the same, and are not.
    """
    await fleet(hub, "c1", "c2")
    await template(hub, replicas=4)
    await policy(hub, placement={"replicaScheduling": DIVIDED}, propagateDeps=True)

    def start(fate: Fate) -> asyncio.Task[None]:
        client = Mortal(hub.client._cluster, ROOT)
        client.fate = fate
        chance = Random(0)  # noqa: S311 - repeatable on purpose
        made = Controllers(
            client, hub.clock, (NAME,), random=chance, metrics=Metrics(), instance="test", settings=hub.settings
        )
        hub.controllers.append(asyncio.create_task(made.run()))
        return hub.controllers[-1]

    leader = start(fate)

    async def replace_the_dead() -> None:
        await fate.died.wait()
        await asyncio.sleep(1)
        await end(leader)
        hub.controllers.remove(leader)
        start(Fate())

    watching = asyncio.create_task(replace_the_dead())
    await hub.settle(10)
    await hub.patch(DEPLOYMENT, "web", {"spec": {"replicas": 6}}, NS)
    await hub.settle(10)
    await respec(hub, placement={"clusterAffinity": {"exclude": ["c2"]}})
    await hub.cluster("c3")
    await hub.settle(30)
    await end(watching)
    found = await binding(hub)
    return {
        "shares": await shares(hub),
        "said": [(each.type, each.status, each.reason, each.message) for each in found.status.conditions],
        "annotations": found.metadata.annotations,
        "label": bool(found.metadata.labels),
        "replicas": found.spec.replicas,
    }


def lived(fate: Fate) -> JSONObject:
    ends: list[JSONObject] = []

    async def story(hub: Hub) -> None:
        ends.append(await life(hub, fate))

    told(story)
    return ends[0]


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_crash_at_any_write_changes_nothing_in_the_end(how: str) -> None:
    undisturbed = Fate()
    expected = lived(undisturbed)
    assert expected["shares"] == {"c1": 3, "c3": 3}
    assert 8 <= undisturbed.writes <= 30
    for at in range(1, undisturbed.writes + 1):
        fate = Fate(at, how)
        assert lived(fate) == expected, (how, at)
        assert fate.died.is_set(), (how, at)


def test_two_leaders_at_once_come_to_the_same_end() -> None:
    async def story(hub: Hub) -> None:
        await fleet(hub, "c1", "c2")
        await template(hub, replicas=4)
        await policy(hub, placement={"replicaScheduling": DIVIDED})
        hub.start(NAME)
        hub.start(NAME)
        await hub.settle(10)
        for replicas in (5, 9, 2, 8):
            await hub.patch(DEPLOYMENT, "web", {"spec": {"replicas": replicas}}, NS)
            await asyncio.sleep(0.05)
        await hub.settle(20)
        assert await shares(hub) == {"c1": 4, "c2": 4}
        assert (await said(hub))[:2] == ("True", "Success")

    told(story)
