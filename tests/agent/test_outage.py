"""A cluster that cannot be asked: nothing was learned about its objects, so nothing is said to have failed."""

import asyncio
from datetime import timedelta

import pytest

from echelon.api.core import CONFIG_MAP
from echelon.api.namespaces import NAMESPACE
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK
from echelon.engine.rollout.model import Phase
from echelon.engine.work_set.progress import progress_of
from echelon.fleet.loop import running
from echelon.kube import errors
from tests.agent.world import CLUSTER, World, condition, config_map, told

BUSY = [
    errors.TooManyRequests("busy"),
    errors.ApiError("etcdserver: leader changed"),
    errors.Unavailable("connection refused"),
    errors.ServerTimeout("no answer within 30 s"),
]


async def phase(here: World) -> Phase:
    return progress_of(await here.seen(), running().clock.now() - timedelta(minutes=5)).phase


def test_an_outage_changes_nothing_that_was_said_of_this_generation() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        before = (await here.seen()).status
        here.way.reach.set(offline=True)
        await here.touch()
        await asyncio.sleep(600)  # long enough for the routine, too
        assert (await here.seen()).status == before
        here.way.reach.set(offline=False)
        await asyncio.sleep(61)
        assert (await here.seen()).status == before

    told(story)


def test_new_content_for_a_cluster_that_cannot_be_asked_is_in_flight_until_it_can() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one", a="1"))
        here.way.reach.set(offline=True)
        await here.work(config_map("one", a="2"))
        for _ in range(20):
            await asyncio.sleep(15)
            assert await phase(here) is Phase.PROGRESSING
        written = running().clock.now() - timedelta(hours=1)
        assert progress_of(await here.seen(), written).since == written  # its deadline goes on
        said = await here.condition("Applied")
        assert (said.status, said.reason, said.observed_generation) == ("Unknown", "ClusterUnreachable", 2)
        assert "connection refused" in said.message
        assert await here.each("Applied") == ["Unknown"]
        here.way.reach.set(offline=False)
        await asyncio.sleep(61)
        assert await phase(here) is Phase.SUCCEEDED
        assert (await here.condition("Applied")).status == "True"
        assert (await here.member.get(CONFIG_MAP, "one"))["data"] == {"a": "2"}

    told(story)


@pytest.mark.parametrize("error", BUSY, ids=lambda error: type(error).__name__)
def test_a_server_that_is_in_trouble_says_nothing_about_a_manifest(error: errors.ApiError) -> None:
    async def story(here: World) -> None:
        here.way.refuse("create", "configmaps", error)
        await here.work(config_map("one"))
        await asyncio.sleep(60)
        said = condition((await here.manifests())[0].conditions, "Applied")
        assert (said.status, said.reason) == ("Unknown", "ClusterUnreachable")
        assert error.message in said.message
        assert await phase(here) is Phase.PROGRESSING
        here.way.relent()
        await asyncio.sleep(61)
        assert await here.each("Applied") == ["True"]

    told(story)


def test_a_server_that_is_busy_for_a_moment_is_not_worth_a_word() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        status = (await here.seen()).status
        mark = len(here.hub.commits)
        here.way.refuse("get", "configmaps", errors.TooManyRequests("busy"), times=4)
        await here.touch()
        assert here.way.requests.count(("get", "configmaps", "one")) >= 5
        assert (await here.seen()).status == status
        assert len(here.hub.writes_since(mark)) == 1  # the touch itself
        mark = len(here.hub.commits)
        here.way.refuse("create", APPLIED_MANIFEST_WORK.plural, errors.Unavailable("restarts"), times=3)
        await here.work(config_map("two"), name="w2")
        assert len(here.hub.writes_since(mark)) == 3  # the work itself, its finalizer, its status

    told(story)


def test_discovery_that_does_not_answer_is_no_failure_of_the_work() -> None:
    async def story(here: World) -> None:
        gone = errors.Unavailable("the server is currently unable to handle the request")
        here.way.refuse("document", "", gone)
        await here.work(config_map("one"))
        await asyncio.sleep(60)
        assert await here.each("Applied") == ["Unknown"]
        assert await phase(here) is Phase.PROGRESSING
        here.way.relent()
        await asyncio.sleep(61)
        assert await here.each("Applied") == ["True"]

    told(story)


def test_a_refusal_stays_a_failure_also_when_the_cluster_is_away_after_it() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one", "nowhere"))
        assert await phase(here) is Phase.FAILED
        before = (await here.seen()).status
        here.way.reach.set(offline=True)
        await asyncio.sleep(300)
        assert (await here.seen()).status == before
        here.way.reach.set(offline=False)
        await asyncio.sleep(61)
        assert (await here.seen()).status == before

    told(story)


def test_new_content_for_a_namespace_that_is_being_deleted_is_a_failure() -> None:
    async def story(here: World) -> None:
        await here.member.client.create(NAMESPACE.untyped(), {"metadata": {"name": "shop"}})
        await here.member.create(config_map("held", "shop"))
        await here.member.patch(CONFIG_MAP, "held", {"metadata": {"finalizers": ["example.io/hold"]}}, "shop")
        await here.member.delete(NAMESPACE, "shop")
        await here.settle()
        await here.work(config_map("one", "shop"))
        assert await phase(here) is Phase.FAILED

    told(story)


def test_a_record_that_may_not_be_written_is_told() -> None:
    async def story(here: World) -> None:
        no = errors.forbidden(APPLIED_MANIFEST_WORK.plural, APPLIED_MANIFEST_WORK.group, "", "no right to write it")
        here.way.refuse("create", APPLIED_MANIFEST_WORK.plural, no)
        await here.work(config_map("one"))
        said = condition((await here.manifests())[0].conditions, "Applied")
        assert said.status == "False"
        assert "no right to write it" in said.message
        here.way.relent()
        await asyncio.sleep(61)
        assert await here.each("Applied") == ["True"]

    told(story)


def test_what_may_not_be_removed_does_not_keep_the_rest_from_being_told() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"))
        no = errors.forbidden("configmaps", "", "one", "no right to delete it")
        here.way.refuse("delete", "one", no)
        await here.work(config_map("two", a="2"))
        said = await here.condition("Applied")
        assert (said.status, said.observed_generation) == ("True", 2)
        assert await here.resources() == ["configmaps one", "configmaps two"]
        here.way.relent()
        await asyncio.sleep(61)
        assert await here.resources() == ["configmaps two"]
        await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
        await here.settle()

    told(story)
