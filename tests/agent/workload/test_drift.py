"""What somebody changes on the member is put back, and told until it is."""

import asyncio

from echelon.api.apps import DEPLOYMENT
from echelon.api.core import CONFIG_MAP
from echelon.engine.align import Grant, template_hash
from echelon.engine.workload.names import MANAGED, PUSH_ID
from echelon.kube.errors import Forbidden
from tests.agent.workload.world import World, image_of, manifest, push_of, told


async def widen(here: World, unavailable: int = 3) -> None:
    rolling = {"strategy": {"rollingUpdate": {"maxUnavailable": unavailable}}}
    await here.member.patch(DEPLOYMENT, "web", {"spec": rolling})


async def unavailable(here: World) -> int:
    return int((await here.live())["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"])


def test_a_wider_budget_on_the_member_is_put_back() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        await widen(here)
        await here.settle(5)
        assert await unavailable(here) == 1
        assert (await here.snapshot()).drift is None

    told(story)


def test_what_cannot_be_put_back_is_told_as_a_grant_and_no_refusal_of_the_push() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        here.way.refuse("patch", "deployments", Forbidden("a policy of the cluster says no"))
        await widen(here)
        await here.settle(20)
        view = await here.snapshot()
        assert isinstance(view.drift, Grant)
        assert (view.drift.id, view.drift.replicas, view.drift.unavailable, view.drift.surge) == (1, 3, 3, 1)
        pushed = manifest(1)
        assert view.drift.revision == template_hash(pushed)
        said = await here.applied()
        assert (said.status, said.message) == ("False", "a policy of the cluster says no")
        assert "refusedPushId" not in await here.reflected()
        here.way.relent()
        await here.settle(120)
        assert await unavailable(here) == 1
        assert (await here.snapshot()).drift is None
        assert (await here.applied()).status == "True"

    told(story)


def test_another_template_on_the_member_has_a_revision_of_its_own_until_it_is_put_back() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        here.way.refuse("patch", "deployments", Forbidden("no"))
        other = {"containers": [{"name": "main", "image": "evil:1"}]}
        await here.member.patch(DEPLOYMENT, "web", {"spec": {"template": {"spec": other}}})
        await here.settle(20)
        drift = (await here.snapshot()).drift
        assert drift is not None
        assert drift.revision != template_hash(manifest(1))
        here.way.relent()
        await here.settle(120)
        assert image_of(await here.live()) == "web:1"
        assert (await here.snapshot()).drift is None

    told(story)


def test_who_does_not_give_in_is_not_fought_with_every_second() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        mark = len(here.way.requests)
        for number in range(300):
            await widen(here, 2 + number % 2)
            await asyncio.sleep(1)
        assert len([each for each in here.way.requests[mark:] if each[0] == "patch"]) < 20
        await here.settle(400)
        assert await unavailable(here) == 1

    told(story)


def test_an_object_that_somebody_deletes_is_made_again() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        before = await here.snapshot()
        await here.member.delete(DEPLOYMENT, "web")
        await here.settle(30)
        view = await here.snapshot()
        assert view.uid != before.uid
        assert (view.push_id, view.available, view.settled) == (1, 3, True)

    told(story)


def test_a_push_id_that_somebody_takes_away_comes_back() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(4))
        await here.member.patch(DEPLOYMENT, "web", {"metadata": {"annotations": {PUSH_ID: None}}})
        await here.settle()
        assert push_of(await here.live()) == 4

    told(story)


def test_what_others_add_stays() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        added = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}
        await here.member.patch(DEPLOYMENT, "web", {"spec": {"template": added}})
        await here.settle(30)
        live = await here.live()
        assert "kubectl.kubernetes.io/restartedAt" in live["spec"]["template"]["metadata"]["annotations"]
        view = await here.snapshot()
        assert (view.drift, view.updated, view.settled) == (None, 3, True)

    told(story)


def test_other_kinds_are_put_back_too() -> None:
    async def story(here: World) -> None:
        meta = {"name": "settings", "namespace": "default", "labels": {MANAGED: "true"}}
        await here.send({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "1"}}, "settings")
        await here.member.delete(CONFIG_MAP, "settings")
        await here.settle()
        assert (await here.member.get(CONFIG_MAP, "settings"))["data"] == {"a": "1"}

    told(story)
