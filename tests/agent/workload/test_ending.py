"""What a work brought goes with it, and nothing else does."""

from echelon.api.apps import DEPLOYMENT
from echelon.api.karmada import WORK
from echelon.engine.workload.names import MANAGED, PUSH_ID
from echelon.kube.errors import Unavailable
from tests.agent.workload.world import SPACE, World, image_of, manifest, push_of, told


def test_a_deleted_work_takes_its_object_along_and_waits_for_its_end() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        await here.member.patch(DEPLOYMENT, "web", {"metadata": {"finalizers": ["example.com/hold"]}})
        await here.hub.delete(WORK, "w", SPACE)
        await here.settle(30)
        assert (await here.live())["metadata"]["deletionTimestamp"]
        assert (await here.told()).metadata.finalizers
        await here.member.patch(DEPLOYMENT, "web", {"metadata": {"finalizers": None}})
        await here.settle(30)
        assert await here.gone()
        assert await here.work_is_gone()

    told(story)


def test_an_object_that_is_to_be_preserved_stays_and_is_nobodys() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1), preserveResourcesOnDeletion=True)
        await here.hub.delete(WORK, "w", SPACE)
        await here.settle(30)
        assert await here.work_is_gone()
        meta = (await here.live())["metadata"]
        assert MANAGED not in meta.get("labels", {})
        assert PUSH_ID not in meta.get("annotations", {})
        await here.send(manifest(1))
        assert (await here.applied()).reason == "AppliedFailed"

    told(story)


def test_somebody_elses_object_does_not_go_with_a_work_that_never_had_it() -> None:
    async def story(here: World) -> None:
        theirs = manifest(None, "theirs:1")
        theirs["metadata"] = {"name": "web", "namespace": "default"}
        await here.member.create(theirs)
        await here.send(manifest(1))
        await here.hub.delete(WORK, "w", SPACE)
        await here.settle(30)
        assert await here.work_is_gone()
        assert image_of(await here.live()) == "theirs:1"

    told(story)


def test_an_object_that_another_binding_took_over_stays() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        await here.stop()
        other = {"metadata": {"annotations": {"echelon.dev/binding-uid": "another"}}}
        await here.member.patch(DEPLOYMENT, "web", other)
        await here.hub.delete(WORK, "w", SPACE)
        here.begin()
        await here.settle(30)
        assert await here.work_is_gone()
        assert not await here.gone()

    told(story)


def test_while_the_cluster_is_away_a_deleted_work_waits() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        here.way.refuse("delete", "deployments", Unavailable("away"))
        await here.hub.delete(WORK, "w", SPACE)
        await here.settle(60)
        assert not await here.work_is_gone()
        here.way.relent()
        await here.settle(120)
        assert await here.work_is_gone()
        assert await here.gone()

    told(story)


def test_a_work_that_is_back_brings_its_object_back() -> None:
    async def story(here: World) -> None:
        for push in (1, 2, 3):
            await here.send(manifest(push))
            assert push_of(await here.live()) == push
            await here.hub.delete(WORK, "w", SPACE)
            await here.settle(5)
            assert await here.work_is_gone()
        assert await here.gone()

    told(story)


def test_a_work_that_cannot_be_applied_goes_at_once() -> None:
    async def story(here: World) -> None:
        await here.send({"kind": "Deployment"})
        assert "no apiVersion, kind or metadata.name" in (await here.applied()).message
        await here.hub.delete(WORK, "w", SPACE)
        await here.settle()
        assert await here.work_is_gone()

    told(story)


def test_a_deleted_work_removes_also_what_is_suspended() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        await here.send(manifest(2), suspendDispatching=True)
        await here.hub.delete(WORK, "w", SPACE)
        await here.settle(30)
        assert await here.work_is_gone()
        assert await here.gone()

    told(story)
