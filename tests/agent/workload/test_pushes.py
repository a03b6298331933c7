"""A push is one write, comes to the cluster once, and never comes back."""

import asyncio
from copy import deepcopy
from typing import Any

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.apps import DEPLOYMENT, STATEFUL_SET
from echelon.api.core import CONFIG_MAP
from echelon.api.karmada import WORK
from echelon.api.kruise import CLONE_SET
from echelon.api.namespaces import NAMESPACE
from echelon.engine.workload.names import BINDING_UID, CONFLICT_RESOLUTION, MANAGED, PUSH_ID, RETAIN_REPLICAS
from echelon.kube.errors import Forbidden, Invalid, Unavailable
from tests.agent.workload.world import SPACE, World, image_of, manifest, push_of, told


def writes(here: World) -> list[tuple[str, str, str]]:
    return [each for each in here.way.requests if each[0] in ("create", "patch", "delete")]


def test_a_work_is_applied_and_its_object_reported() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        live = await here.live()
        assert push_of(live) == 1
        said = await here.applied()
        assert (said.status, said.reason, said.observed_generation) == ("True", "AppliedSuccessful", 1)
        view = await here.snapshot()
        assert (view.uid, view.push_id, view.replicas) == (live["metadata"]["uid"], 1, 3)
        assert (view.pods, view.available, view.updated, view.told, view.settled) == (3, 3, 3, 3, True)
        assert view.observed
        status = (await here.told()).status.manifest_statuses[0]
        assert (status.health, status.identifier.resource, status.identifier.kind) == (
            "Healthy",
            "deployments",
            "Deployment",
        )
        assert writes(here) == [("patch", "deployments", "web")]

    told(story)


def test_each_push_is_one_write_for_the_version_that_was_read() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        del here.way.requests[:]
        await here.send(manifest(2, "web:2", unavailable=2))
        live = await here.live()
        assert (push_of(live), image_of(live)) == (2, "web:2")
        assert live["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 2, "maxSurge": 1}
        assert writes(here) == [("patch", "deployments", "web")]
        assert (await here.snapshot()).push_id == 2

    told(story)


def test_a_field_that_a_later_push_no_longer_has_is_gone() -> None:
    async def story(here: World) -> None:
        first, second = manifest(1), manifest(2)
        first["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
        await here.send(first)
        assert (await here.live())["spec"]["template"]["spec"]["containers"][0]["env"]
        await here.send(second)
        assert "env" not in (await here.live())["spec"]["template"]["spec"]["containers"][0]

    told(story)


def test_a_push_that_is_older_than_the_one_that_the_object_carries_is_fenced_off() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(5, "web:5"))
        await here.stop()
        await here.write(manifest(4, "web:4"))
        here.begin()  # an agent that remembers nothing
        await here.settle(20)
        assert image_of(await here.live()) == "web:5"
        said = await here.applied()
        assert (said.status, said.reason) == ("False", "Fenced")
        assert said.message == "the object carries push 5, and push 4 is older"
        assert (await here.snapshot()).push_id == 5
        assert "refusedPushId" not in await here.reflected()
        await here.send(manifest(6, "web:6"))
        assert image_of(await here.live()) == "web:6"
        assert (await here.applied()).status == "True"

    told(story)


def test_one_id_stands_for_one_content() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(5, unavailable=1))
        await here.stop()
        await here.write(manifest(5, unavailable=2))
        here.begin()
        await here.settle(20)
        assert (await here.live())["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 1
        said = await here.applied()
        assert (said.reason, said.message) == ("Fenced", "the object carries push 5 with another content")
        # What no budget is about may change under one id.
        await here.send(manifest(5, unavailable=1, labels={"team": "blue"}))
        assert (await here.live())["metadata"]["labels"]["team"] == "blue"
        assert (await here.applied()).status == "True"

    told(story)


def test_the_pushes_of_another_binding_begin_anew() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(5, "web:5"))
        await here.send(manifest(1, "web:1", binding="binding-2"))
        live = await here.live()
        assert (push_of(live), image_of(live)) == (1, "web:1")
        assert live["metadata"]["annotations"][BINDING_UID] == "binding-2"

    told(story)


def test_an_agent_that_remembers_a_later_push_does_not_make_the_object_anew_from_an_older_one() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(5, "web:5"))
        await here.send(manifest(4, "web:4"))
        await here.member.delete(DEPLOYMENT, "web")
        await here.settle(20)
        assert await here.gone()
        said = await here.applied()
        assert (said.reason, said.message) == ("Fenced", "push 4 is older than push 5, which the cluster has had")

    told(story)


def test_pushes_that_come_faster_than_they_are_applied_are_skipped() -> None:
    async def story(here: World) -> None:
        here.way.reach.delay = lambda: 1.0
        for push in range(1, 9):
            await here.write(manifest(push, f"web:{push}"))
            await asyncio.sleep(0.3)
        await here.settle(60)
        assert (push_of(await here.live()), (await here.snapshot()).push_id) == (8, 8)
        ids = [each.push_id for each in here.snapshots]
        assert ids == sorted(ids)
        assert len(set(ids)) < 8

    told(story)


def test_snapshots_go_forward_only() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        for push in (2, 3, 4):
            await here.send(manifest(push, f"web:{push}", paused=push == 3))
        versions = [each.version for each in here.snapshots]
        assert versions == sorted(versions)
        assert len(here.snapshots) > 8
        # Counts of a template that was not observed yet are those of the one before.
        for each in here.snapshots:
            assert each.settled is not None
            assert each.observed or not each.settled

    told(story)


def test_an_object_that_nobody_manages_is_left_alone_unless_it_may_be_overwritten() -> None:
    async def story(here: World) -> None:
        theirs = manifest(None, "theirs:1")
        theirs["metadata"] = {"name": "web", "namespace": "default"}
        await here.member.create(theirs)
        await here.send(manifest(1))
        assert image_of(await here.live()) == "theirs:1"
        said = await here.applied()
        assert (said.status, said.reason) == ("False", "AppliedFailed")
        assert "not managed by a binding; conflictResolution is Abort" in said.message
        assert await here.reflected() == {"refusedPushId": 1}
        await here.member.delete(DEPLOYMENT, "web")
        await here.settle(20)
        assert await here.gone()  # the push was refused, and the hub may have given its budget away
        await here.member.create(theirs)
        await here.send(manifest(2, annotations={CONFLICT_RESOLUTION: "overwrite"}))
        assert image_of(await here.live()) == "web:1"
        assert (await here.applied()).status == "True"
        assert "refusedPushId" not in await here.reflected()

    told(story)


def test_what_the_server_refuses_is_told_with_its_words_and_never_tried_again() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        changed = manifest(2)
        changed["spec"]["selector"] = {"matchLabels": {"app": "other"}}
        changed["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
        await here.send(changed)
        said = await here.applied()
        assert (said.status, said.reason, said.observed_generation) == ("False", "AppliedFailed", 2)
        assert "field is immutable" in said.message
        assert (await here.reflected())["refusedPushId"] == 2
        assert (await here.snapshot()).push_id == 1
        tried = len(writes(here))
        await here.settle(600)
        await here.stop()
        here.begin()
        await here.settle(600)
        assert len(writes(here)) == tried
        assert (await here.reflected())["refusedPushId"] == 2
        await here.send(manifest(3, "web:3"))
        assert push_of(await here.live()) == 3
        assert "refusedPushId" not in await here.reflected()

    told(story)


def test_a_refused_push_is_not_tried_again_when_the_reason_is_gone() -> None:
    async def story(here: World) -> None:
        here.way.refuse("patch", "deployments", Forbidden("deployments is forbidden"))
        await here.send(manifest(1))
        assert (await here.applied()).message == "deployments is forbidden"
        assert (await here.reflected())["refusedPushId"] == 1
        here.way.relent()
        await here.settle(600)
        assert await here.gone()
        await here.send(manifest(2))
        assert push_of(await here.live()) == 2

    told(story)


def test_a_hub_that_sends_what_is_refused_again_and_again_is_slowed_down() -> None:
    async def story(here: World) -> None:
        here.way.refuse("patch", "deployments", Invalid("no"))
        for push in range(1, 200):
            await here.write(manifest(push))
            await asyncio.sleep(0.5)
        assert len(writes(here)) < 12
        here.way.relent()
        await here.settle(90)
        assert push_of(await here.live()) == 199

    told(story)


def test_a_server_in_trouble_refuses_nothing() -> None:
    async def story(here: World) -> None:
        here.way.refuse("patch", "deployments", Unavailable("the server is starting"))
        await here.send(manifest(1))
        said = await here.applied()
        assert (said.status, said.reason, said.message) == ("False", "AppliedFailed", "the server is starting")
        assert await here.reflected() == {}
        here.way.relent()
        await here.settle(90)
        assert push_of(await here.live()) == 1
        assert (await here.applied()).status == "True"

    told(story)


def test_a_push_that_may_yet_arrive_is_not_told_to_be_refused() -> None:
    async def story(here: World) -> None:
        here.way.refuse("patch", "deployments", Unavailable("the answer was lost"))
        await here.write(manifest(1))
        await here.settle(3)
        here.way.refuse("patch", "deployments", Invalid("no"))
        await here.settle(20)
        assert (await here.applied()).message == "no"
        assert "refusedPushId" not in await here.reflected()
        await here.settle(120)
        assert (await here.reflected())["refusedPushId"] == 1

    told(story)


def test_a_push_that_a_former_life_may_have_sent_is_not_told_to_be_refused_at_once() -> None:
    async def story(here: World) -> None:
        await here.stop()
        here.way.refuse("patch", "deployments", Invalid("no"))
        await here.write(manifest(1))
        here.begin()
        await here.settle(20)
        assert (await here.applied()).message == "no"
        assert "refusedPushId" not in await here.reflected()
        await here.settle(120)
        assert (await here.reflected())["refusedPushId"] == 1

    told(story)


def test_somebody_who_writes_at_the_same_time_is_not_overrun() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))

        class Interrupted:
            """A client before whose first patch somebody else pushes."""

            def __init__(self) -> None:
                self.done = False

            def __getattr__(self, name: str) -> Any:
                return getattr(here.way, name)

            async def patch(self, kind: Any, name: str, patch: Any, namespace: str = "", **options: Any) -> Any:
                if not self.done and kind.plural == "deployments":
                    self.done = True
                    annotations = {PUSH_ID: "9"}
                    await here.member.patch(DEPLOYMENT, "web", {"metadata": {"annotations": annotations}})
                return await here.way.patch(kind, name, patch, namespace, **options)

        await here.stop()
        here.begin(member=Interrupted())
        await here.send(manifest(2, "web:2"))
        assert image_of(await here.live()) == "web:1"
        assert (await here.applied()).reason == "Fenced"

    told(story)


def test_a_missing_namespace_is_made() -> None:
    async def story(here: World) -> None:
        body = manifest(1)
        body["metadata"]["namespace"] = "shop"
        await here.send(body)
        assert (await here.member.get(DEPLOYMENT, "web", "shop"))["spec"]["replicas"] == 3
        assert (await here.member.get(NAMESPACE, "shop"))["metadata"]["labels"][MANAGED] == "true"
        assert (await here.snapshot()).settled

    told(story)


def test_a_kind_that_the_cluster_does_not_serve_is_refused() -> None:
    async def story(here: World) -> None:
        await here.member.delete(CUSTOM_RESOURCE_DEFINITION, "clonesets.apps.kruise.io")
        await here.settle()
        await here.send(manifest(1, kind="CloneSet", api_version="apps.kruise.io/v1alpha1"))
        said = await here.applied()
        assert said.message == 'the server doesn\'t have a resource type "CloneSet"'
        assert (await here.reflected())["refusedPushId"] == 1

    told(story)


def test_the_member_keeps_its_number_of_replicas_where_it_owns_it() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1, labels={RETAIN_REPLICAS: "true"}))
        await here.member.patch(DEPLOYMENT, "web", {"spec": {"replicas": 7}})
        await here.settle(20)
        assert (await here.live())["spec"]["replicas"] == 7
        view = await here.snapshot()
        assert (view.replicas, view.pods, view.drift) == (7, 7, None)
        await here.send(manifest(2, "web:2", labels={RETAIN_REPLICAS: "true"}))
        assert (await here.live())["spec"]["replicas"] == 7

    told(story)


def test_nothing_is_applied_while_dispatching_is_suspended_and_the_status_goes_on() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        await here.send(manifest(2, "web:2"), suspendDispatching=True)
        assert image_of(await here.live()) == "web:1"
        assert (await here.applied()).observed_generation == 1
        await here.member.patch(DEPLOYMENT, "web", {"spec": {"replicas": 5}})
        await here.settle(20)
        view = await here.snapshot()
        assert (view.push_id, view.replicas, view.pods) == (1, 5, 5)
        await here.send(manifest(2, "web:2"))
        assert image_of(await here.live()) == "web:2"

    told(story)


def test_other_kinds_are_passed_through_and_their_status_reflected() -> None:
    async def story(here: World) -> None:
        data = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "default", "labels": {MANAGED: "true"}},
            "data": {"a": "1"},
        }
        await here.send(data, "settings")
        assert (await here.member.get(CONFIG_MAP, "settings"))["data"] == {"a": "1"}
        assert (await here.applied("settings")).status == "True"
        status = (await here.told("settings")).status.manifest_statuses[0]
        assert (status.health, status.status) == ("Unknown", None)
        passed = manifest(None)
        await here.send(passed)
        reflected = await here.reflected()
        assert "snapshot" not in reflected
        assert (reflected["availableReplicas"], reflected["observedGeneration"]) == (3, 1)
        await here.member.patch(CONFIG_MAP, "settings", {"data": {"a": "2"}})
        await here.settle()
        assert (await here.member.get(CONFIG_MAP, "settings"))["data"] == {"a": "1"}

    told(story)


def test_clone_sets_and_stateful_sets_are_told_from_their_pods() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1, kind="CloneSet", api_version="apps.kruise.io/v1alpha1", unavailable=1, surge=0))
        view = await here.snapshot()
        assert (view.pods, view.available, view.updated, view.settled, view.told) == (3, 3, 3, True, None)
        body = manifest(1, kind="StatefulSet", partition=3)
        body["metadata"]["name"] = "db"
        await here.send(body, "db")
        view = await here.snapshot("db")
        assert (view.pods, view.available, view.updated, view.settled, view.told) == (3, 3, 3, True, None)
        await here.send(manifest(2, "web:2", kind="CloneSet", api_version="apps.kruise.io/v1alpha1", partition=1))
        view = await here.snapshot()
        assert (view.pods, view.updated, view.settled) == (3, 2, True)
        assert (await here.told()).status.manifest_statuses[0].health == "Healthy"
        assert not await here.gone(CLONE_SET)
        assert not await here.gone(STATEFUL_SET, "db")

    told(story)


def test_a_cluster_that_waits_is_healthy() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        await here.send(manifest(2, "web:2", paused=True))
        status = (await here.told()).status.manifest_statuses[0]
        assert (status.health, (await here.snapshot()).updated) == ("Healthy", 0)

    told(story)


def test_nothing_is_written_to_the_hub_that_says_nothing_new() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        mark = len(here.hub.commits)
        asked = len(here.way.requests)
        for number in range(5):
            await here.member.patch(DEPLOYMENT, "web", {"metadata": {"labels": {"somebody": f"else-{number}"}}})
            await here.settle()
        assert ("list", "replicasets", "") in here.way.requests[asked:]  # it looked
        assert [each for each in here.hub.writes_since(mark) if WORK.plural in each] == []

    told(story)


def test_what_a_former_life_says_late_is_put_right() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        late = deepcopy((await here.hub.get(WORK, "w", SPACE))["status"]["manifestStatuses"][0])
        late["status"]["snapshot"] |= {"available": 1, "version": 1}
        await here.hub.patch(WORK, "w", {"status": {"manifestStatuses": [late]}}, SPACE, "status")
        await here.settle(5)
        assert (await here.snapshot()).available == 3

    told(story)


def test_a_work_without_a_finalizer_gets_it_before_anything_is_applied() -> None:
    async def story(here: World) -> None:
        body = {"workload": {"manifests": [manifest(1)]}}
        metadata = {"name": "w", "namespace": SPACE}
        await here.hub.create({"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": body})
        await here.settle(20)
        assert (await here.told()).metadata.finalizers == ["karmada.io/execution-controller"]
        assert push_of(await here.live()) == 1

    told(story)
