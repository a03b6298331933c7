"""Pruning: with a policy, and with the place of an object in it."""

import asyncio
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import CONFIG_MAP
from echelon.api.kinds import Kind
from echelon.engine.configuration_policy.names import FINALIZER, LEDGER_ANNOTATION
from echelon.kube import errors
from tests.agent.configuration_policy.world import FAMILIES, message, policy, seen, state, template, told
from tests.agent.world import CLUSTER, Server, Way, World, config_map

PRUNES: dict[str, Any] = {"pruneObjectBehavior": "DeleteIfCreated"}
HELD = {"echelon.dev/held": "true", "echelon.dev/enforced-before": "true"}


async def end(here: World, seconds: float = 10) -> bool:
    """Delete the policy, and tell whether it is gone."""
    await here.member.delete(CONFIGURATION_POLICY, "p", CLUSTER)
    await here.settle(seconds)
    return not await here.member.has(CONFIGURATION_POLICY, "p", CLUSTER)


def test_what_the_policy_created_goes_with_it() -> None:
    async def story(here: World) -> None:
        await here.member.create(config_map("theirs", a="2"))
        found = await policy(here, template(config_map("ours")), template(config_map("theirs", a="1")), **PRUNES)
        assert FINALIZER in found.metadata.finalizers
        assert await end(here)
        assert not await here.member.has(CONFIG_MAP, "ours")
        assert await here.member.has(CONFIG_MAP, "theirs")

    told(story)


def test_a_held_policy_keeps_what_left_it_until_its_release() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x")), template(config_map("y")), **PRUNES)
        await here.settle(10)
        found = await policy(
            here, template(config_map("y")), remediationAction="inform", metadata={"annotations": HELD}, **PRUNES
        )
        assert await here.member.has(CONFIG_MAP, "x")
        assert [(each.change, each.name) for each in found.status.pending_changes] == [("Delete", "x")]
        released = {"annotations": dict.fromkeys(HELD)}
        await policy(here, template(config_map("y")), metadata=released, **PRUNES)
        assert not await here.member.has(CONFIG_MAP, "x")
        assert await here.member.has(CONFIG_MAP, "y")

    told(story)


def test_the_end_of_a_held_policy_prunes_if_it_was_enforced_before() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x")), **PRUNES)
        await policy(
            here, template(config_map("y")), remediationAction="inform", metadata={"annotations": HELD}, **PRUNES
        )
        assert await end(here)
        assert not await here.member.has(CONFIG_MAP, "x")

    told(story)


def test_a_policy_waits_for_what_does_not_go() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x")), **PRUNES)
        await here.member.patch(CONFIG_MAP, "x", {"metadata": {"finalizers": ["example.io/hold"]}})
        await here.settle(10)
        assert not await end(here)
        assert await state(here) == "Terminating"
        found = (await seen(here)).status.compliancy_details[0].conditions[0]
        assert found.reason == "Error cleaning up child objects"
        assert await message(here) == "configmaps [x] in namespace default waits for its finalizers"
        mark = len(here.member.commits)
        await here.settle(300)
        assert here.member.commits[mark:] == [], "it waits quietly"
        await here.member.patch(CONFIG_MAP, "x", {"metadata": {"finalizers": None}})
        await here.settle(10)
        assert not await here.member.has(CONFIGURATION_POLICY, "p", CLUSTER)

    told(story)


def test_what_may_not_be_deleted_is_told_and_tried_again() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x")), **PRUNES)
        here.way.refuse("delete", "configmaps", errors.forbidden("configmaps", "", "x", "no right to delete"))
        assert not await end(here)
        assert "no right to delete" in await message(here)
        here.way.relent()
        await here.settle(100)
        assert not await here.member.has(CONFIG_MAP, "x")
        assert not await here.member.has(CONFIGURATION_POLICY, "p", CLUSTER)

    told(story)


def test_an_object_that_somebody_made_anew_stays_when_the_policy_goes() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x")), evaluationInterval={"compliant": "never"}, **PRUNES)
        await here.settle(10)
        await here.member.delete(CONFIG_MAP, "x")
        await here.member.create(config_map("x"))
        assert await end(here)
        assert await here.member.has(CONFIG_MAP, "x")

    told(story)


def test_an_agent_that_dies_after_any_write_still_knows_what_it_created() -> None:
    """Stop the agent after each of its writes in turn; another one must finish, and the end must prune."""

    async def tried(here: World, writes: int) -> bool:
        """Tell whether the agent was stopped before it had made all of its writes."""
        before = len(here.member.commits)
        await policy(here, template(config_map("x")), template(config_map("y")), settle=0, **PRUNES)
        before += 1
        for _ in range(2000):
            if len(here.member.commits) - before >= writes:
                break
            await asyncio.sleep(0.01)
        stopped = len(here.member.commits) - before >= writes
        await here.stop()
        here.start(families=FAMILIES)
        await here.settle(30)
        found = await seen(here)
        assert found.status.compliant == "Compliant"
        properties = [each.properties for each in found.status.related_objects]
        assert [each is not None and each.created_by_policy for each in properties] == [True, True]
        assert '"objects"' not in found.metadata.annotations[LEDGER_ANNOTATION]
        assert await end(here)
        assert not await here.member.has(CONFIG_MAP, "x")
        assert not await here.member.has(CONFIG_MAP, "y")
        return stopped

    async def story(here: World) -> None:
        writes = 1
        while await tried(here, writes):
            writes += 1
        assert writes > 7

    told(story)


class Behind(Way):
    """A way on which the first read of an object shows one of the past."""

    def __init__(self, member: Server, past: JSONObject) -> None:
        super().__init__(member)
        self._past: JSONObject | None = past

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        past = self._past
        if past is not None and (kind.plural, name) == (CONFIG_MAP.plural, past["metadata"]["name"]):
            self._past = None
            return past
        return await super().get(kind, name, namespace)


def test_a_read_of_the_past_does_not_settle_which_object_was_created() -> None:
    """People delete what was created before the agent could tell its uid, and its successor first sees the old one."""

    async def made(here: World) -> JSONObject:
        while not await here.member.has(CONFIG_MAP, "x"):
            await here.settle(1)
        return await here.member.get(CONFIG_MAP, "x")

    async def story(here: World) -> None:
        here.way.refuse("create", "events", errors.Forbidden("no events"))
        await policy(here, template(config_map("x")), settle=0, **PRUNES)
        first = await made(here)
        await here.member.delete(CONFIG_MAP, "x")
        second = await made(here)
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert (await seen(here)).status.related_objects == [], "nothing was told of either"
        await here.stop()
        here.start(families=FAMILIES, member=Behind(here.member, first))
        await here.settle(60)
        assert await state(here) == "Compliant"
        await policy(here, template(config_map("y")), settle=30, **PRUNES)
        assert not await here.member.has(CONFIG_MAP, "x")
        assert await here.member.has(CONFIG_MAP, "y")

    told(story)


def test_what_goes_while_it_is_mended_is_made_anew_and_goes_with_the_policy() -> None:
    """Also if the agent ends before it could tell that it made the object."""

    async def story(here: World) -> None:
        await here.member.create(config_map("x", a="2"))
        here.way.reach.delay = lambda: 1.0
        await policy(here, template(config_map("y")), template(config_map("x", a="1")), settle=0, **PRUNES)
        while not await here.member.has(CONFIG_MAP, "y"):
            await here.settle(0.1)
        await here.member.delete(CONFIG_MAP, "x")
        while not await here.member.has(CONFIG_MAP, "x"):
            await here.settle(0.1)
        assert (await seen(here)).status.related_objects == [], "nothing was told yet"
        await here.stop()
        here.way.reach.delay = lambda: 0.0
        here.start(families=FAMILIES)
        await here.settle(30)
        created = {each.object.metadata.name: each.properties for each in (await seen(here)).status.related_objects}
        assert [name for name, each in created.items() if each is not None and each.created_by_policy] == ["x", "y"]
        assert await end(here)
        assert not await here.member.has(CONFIG_MAP, "x")

    told(story)
