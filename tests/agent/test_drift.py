"""What somebody changes on a cluster is put back at once, and told; and nobody is fought with every second."""

import asyncio

import pytest

from echelon.agent.settings import Settings
from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.batch import JOB
from echelon.api.core import CONFIG_MAP, SECRET
from echelon.api.meta import Condition
from echelon.api.namespaces import NAMESPACE
from echelon.kube import errors
from tests.agent.test_reports import job, ready
from tests.agent.test_strategies import configs, ignoring, replicas, secret
from tests.agent.world import World, config_map, deployment, target, told

WEB = target("deployments", "web", "apps")
STRATEGIES = [[], configs(WEB, "ServerSideApply", force=True)]


async def drift(here: World, ordinal: int = 0) -> Condition | None:
    found = (await here.manifests())[ordinal].conditions
    return next((each for each in found if each.type == "Drifted"), None)


async def times(here: World, ordinal: int = 0) -> str:
    said = await drift(here, ordinal)
    return "" if said is None else said.message.partition("put back ")[2]


@pytest.mark.parametrize("chosen", STRATEGIES, ids=["Update", "ServerSideApply"])
def test_a_scale_down_is_put_back_within_seconds_and_counted(chosen: list[JSONObject]) -> None:
    async def story(here: World) -> None:
        await here.work(deployment(), manifestConfigs=chosen)
        await ready(here, 2)
        assert await drift(here) is None
        await here.member.patch(DEPLOYMENT, "web", {"spec": {"replicas": 1}})
        await here.settle(1)
        assert await replicas(here) == 2
        said = await drift(here)
        assert said is not None
        assert (said.status, said.reason, said.observed_generation) == ("False", "PutBack", 1)
        assert await times(here) == "1 time"
        assert [await here.status(kind) for kind in ("Applied", "Progressing", "Degraded")] == ["True", "True", "False"]
        await ready(here, 2)
        assert await here.status("Progressing") == "False"
        work = await here.condition("Drifted")
        assert (work.status, "Deployment default/web" in work.message) == ("False", True)

    told(story)


@pytest.mark.parametrize("chosen", STRATEGIES, ids=["Update", "ServerSideApply"])
def test_what_is_deleted_is_made_anew_at_once_and_goes_with_its_work(chosen: list[JSONObject]) -> None:
    async def story(here: World) -> None:
        await here.work(deployment(), config_map("one"), manifestConfigs=chosen)
        await here.member.delete(DEPLOYMENT, "web")
        await here.settle(1)
        live = await here.member.get(DEPLOYMENT, "web")
        assert await times(here) == "1 time"
        listed = {each.name: each.uid for each in (await here.record()).status.applied_resources}
        assert listed["web"] == live["metadata"]["uid"]
        assert await drift(here, 1) is None
        await here.work(config_map("one"), manifestConfigs=chosen)
        assert not await here.member.has(DEPLOYMENT, "web")

    told(story)


@pytest.mark.parametrize("chosen", STRATEGIES, ids=["Update", "ServerSideApply"])
def test_a_status_and_what_others_add_are_no_drift(chosen: list[JSONObject]) -> None:
    async def story(here: World) -> None:
        await here.work(deployment(), manifestConfigs=chosen)
        mark = len(here.way.requests)
        await ready(here, 1)
        await ready(here, 2)
        note: JSONObject = {"metadata": {"annotations": {"by": "spoke"}, "finalizers": ["example.io/hold"]}}
        await here.member.patch(DEPLOYMENT, "web", note)
        await here.settle(20)
        asked = [each for each in here.way.requests[mark:] if each[1] == "deployments"]
        assert [each for each in asked if each[0] != "watch"] == []
        assert await drift(here) is None
        await here.member.patch(DEPLOYMENT, "web", {"metadata": {"finalizers": None}})

    told(story)


def test_fields_that_are_left_to_the_cluster_stay_as_they_are() -> None:
    async def story(here: World) -> None:
        await here.work(deployment(), manifestConfigs=ignoring("OnSpokeChange", jsonPaths=[".spec.replicas"]))
        await here.member.patch(DEPLOYMENT, "web", {"spec": {"replicas": 7}})
        await here.settle()
        assert await replicas(here) == 7
        assert await drift(here) is None
        await here.member.delete(DEPLOYMENT, "web")
        await here.settle(1)
        assert await replicas(here) == 2

    told(story)


def test_what_is_created_once_is_made_anew_and_not_corrected() -> None:
    async def story(here: World) -> None:
        chosen = configs(target("configmaps", "one"), "CreateOnly")
        await here.work(config_map("one", a="1"), manifestConfigs=chosen)
        await here.member.patch(CONFIG_MAP, "one", {"data": {"a": "2"}})
        await here.settle()
        assert (await here.member.get(CONFIG_MAP, "one"))["data"] == {"a": "2"}
        assert await drift(here) is None
        await here.member.delete(CONFIG_MAP, "one")
        await here.settle(1)
        assert (await here.member.get(CONFIG_MAP, "one"))["data"] == {"a": "1"}

    told(story)


def test_a_field_that_another_manager_took_is_told_and_not_taken_back_by_force() -> None:
    async def story(here: World) -> None:
        await here.work(deployment(), manifestConfigs=configs(WEB, "ServerSideApply"))
        await ready(here, 2)
        await here.member.patch(DEPLOYMENT, "web", {"spec": {"replicas": 5}})
        await here.settle(1)
        assert await replicas(here) == 5
        said = await drift(here)
        assert said is not None
        assert (said.status, said.reason) == ("True", "FieldConflict")
        assert ".spec.replicas" in said.message
        assert [await here.status(kind) for kind in ("Applied", "Degraded")] == ["True", "False"]
        await here.stop()
        here.start()
        await here.settle()
        assert await drift(here) == said
        await here.work(deployment(replicas=3), manifestConfigs=configs(WEB, "ServerSideApply"))
        assert await here.each("Applied") == ["False"]  # new content that cannot be applied is a failure

    told(story)


def test_a_namespace_that_is_being_deleted_is_waited_for() -> None:
    async def story(here: World) -> None:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await here.work(space, config_map("one", "shop"))
        await here.member.patch(CONFIG_MAP, "one", {"metadata": {"finalizers": ["example.io/hold"]}}, "shop")
        await here.member.create(config_map("held", "shop") | {"metadata": {"name": "held", "namespace": "shop"}})
        await here.member.patch(CONFIG_MAP, "held", {"metadata": {"finalizers": ["example.io/hold"]}}, "shop")
        await here.member.delete(NAMESPACE, "shop")
        await here.settle()
        await here.member.patch(CONFIG_MAP, "one", {"metadata": {"finalizers": None}}, "shop")
        await here.settle()
        assert not await here.member.has(CONFIG_MAP, "one", "shop")
        assert [await here.status(kind) for kind in ("Applied", "Progressing")] == ["True", "True"]
        await here.member.patch(CONFIG_MAP, "held", {"metadata": {"finalizers": None}}, "shop")
        await asyncio.sleep(61)
        assert await here.member.has(CONFIG_MAP, "one", "shop")
        assert await here.status("Progressing") == "False"

    told(story)


def test_replicas_that_the_manifest_does_not_set_are_somebody_elses() -> None:
    async def story(here: World) -> None:
        manifest = deployment()
        del manifest["spec"]["replicas"]
        await here.work(manifest)
        await here.member.patch(DEPLOYMENT, "web", {"spec": {"replicas": 5}})
        await asyncio.sleep(600)
        assert await replicas(here) == 5
        assert await drift(here) is None

    told(story)


def test_a_job_that_may_remove_itself_is_not_run_again_for_that() -> None:
    async def story(here: World) -> None:
        made = job()
        made["spec"]["ttlSecondsAfterFinished"] = 0
        await here.work(made)
        await here.member.delete(JOB, "task")
        await here.settle(20)
        assert not await here.member.has(JOB, "task")

    told(story, quiet=False)  # the routine makes it anew


def test_somebody_who_does_not_give_in_is_fought_less_and_less() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one", a="hub"), config_map("two"))
        fought: list[float] = []

        async def fight(seconds: float) -> int:
            """Change it as soon as it was put back; return how often it was."""
            count, end = 0, asyncio.get_running_loop().time() + seconds
            while asyncio.get_running_loop().time() < end:
                if (await here.member.get(CONFIG_MAP, "one"))["data"] == {"a": "hub"}:
                    count += 1
                    await here.member.patch(CONFIG_MAP, "one", {"data": {"a": "spoke"}})
                await asyncio.sleep(seconds / 60)
            fought.append(count)
            return count

        assert 4 <= await fight(12) <= 5
        said = await drift(here)
        assert said is not None
        assert (said.status, said.reason) == ("True", "ChangedOnCluster")
        assert [await here.status(kind) for kind in ("Applied", "Progressing", "Degraded")] == ["True", "True", "False"]
        assert "ConfigMap default/one" in (await here.condition("Progressing")).message
        # Others of the same work are not made to wait.
        await here.member.delete(CONFIG_MAP, "two")
        await here.settle(1)
        assert await here.member.has(CONFIG_MAP, "two")
        mark = len(here.hub.commits)
        assert await fight(900) <= 12
        assert len(here.hub.writes_since(mark)) <= 40
        await asyncio.sleep(400)
        assert (await here.member.get(CONFIG_MAP, "one"))["data"] == {"a": "hub"}
        assert await here.status("Progressing") == "False"
        assert int((await times(here)).split()[0]) == sum(fought)
        # After peace it is put back at once again.
        await asyncio.sleep(1200)
        await here.member.patch(CONFIG_MAP, "one", {"data": {"a": "spoke"}})
        await here.settle(1)
        assert (await here.member.get(CONFIG_MAP, "one"))["data"] == {"a": "hub"}

    told(story)


@pytest.mark.parametrize("what", ["configmaps", "appliedmanifestworks"])
def test_what_cannot_be_put_back_now_is_tried_again_with_patience(what: str) -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        verb = "create" if what == "configmaps" else "patch"
        here.way.refuse(verb, what, errors.Unavailable("connection refused"))
        mark = len(here.way.requests)
        await here.member.delete(CONFIG_MAP, "one")
        await asyncio.sleep(100)
        tried = [each for each in here.way.requests[mark:] if each[:2] == (verb, what)]
        assert 5 <= len(tried) <= 20
        assert await here.status("Applied") == "True"
        here.way.relent()
        await asyncio.sleep(61)
        live = await here.member.get(CONFIG_MAP, "one")
        assert (await here.record()).status.applied_resources[0].uid == live["metadata"]["uid"]
        assert await here.status("Progressing") == "False"

    told(story)


def test_the_count_outlives_the_agent_and_not_the_generation() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        for value in ("x", "y"):
            await here.member.patch(CONFIG_MAP, "one", {"data": {"a": value}})
            await here.settle(5)
        assert await times(here) == "2 times"
        await here.stop()
        await here.member.patch(CONFIG_MAP, "one", {"data": {"a": "z"}})  # while nobody looked
        here.start()
        await here.settle()
        assert await times(here) == "3 times"
        await here.work(config_map("one", a="new"))
        assert await drift(here) is None

    told(story)


def test_nothing_of_a_secret_is_told() -> None:
    async def story(here: World) -> None:
        await here.work(secret("Opaque", password="hunter2"))
        await here.member.patch(SECRET, "s", {"data": {"password": "c3BhbQ=="}})
        await here.settle(1)
        assert (await here.member.get(SECRET, "s"))["data"] == {"password": "aHVudGVyMg=="}
        assert await times(here) == "1 time"
        bad = secret("Opaque", password="hunter2")
        bad["data"] = {"broken": "hunter2!"}
        await here.work(bad)
        assert await here.each("Applied") == ["False"]
        said = repr((await here.seen()).status)
        assert not any(word in said for word in ("hunter2", "aHVudGVyMg", "c3BhbQ"))

    told(story)


def test_what_is_not_watched_is_put_back_when_it_is_looked_at() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        await here.member.patch(CONFIG_MAP, "one", {"data": {"a": "x"}})
        await here.settle(20)
        assert (await here.member.get(CONFIG_MAP, "one"))["data"] == {"a": "b"}
        assert await times(here) == "1 time"

    told(story, settings=Settings(max_watches=0))
