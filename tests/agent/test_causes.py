"""Why an object is not well reaches the hub, and nobody is asked more than that is worth."""

import asyncio

import pytest

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP, EVENT, PERSISTENT_VOLUME_CLAIM, POD
from echelon.api.kruise import CLONE_SET
from echelon.api.kruise import GROUP as KRUISE_GROUP
from echelon.kube.errors import Forbidden
from tests.agent.test_executor import ALL, EXECUTOR, grant, may
from tests.agent.world import World, condition, config_map, deployment, serve, told

IMAGE = "web:bad"
REVISION = "deployment.kubernetes.io/revision"
SECRET: JSONObject = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "db", "namespace": "default"},
    "stringData": {"password": "tell-nobody"},
}


def owner(of: JSONObject) -> list[JSONObject]:
    named = {"apiVersion": of["apiVersion"], "kind": of["kind"], "name": of["metadata"]["name"]}
    return [{**named, "uid": of["metadata"]["uid"], "controller": True}]


async def replica_set(here: World, name: str, revision: str, owner_name: str = "web") -> JSONObject:
    """Make what a Deployment's controller would make."""
    above = await here.member.get(DEPLOYMENT, owner_name)
    labels = {"app": owner_name, "pod-template-hash": name}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": IMAGE}]}}
    meta = {"name": name, "namespace": "default", "labels": labels, "annotations": {REVISION: revision}}
    return await here.member.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {**meta, "ownerReferences": owner(above)},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pods},
        }
    )


async def pod(here: World, name: str, above: JSONObject, **waiting: str) -> None:
    """Make a pod whose container waits for something, as its controller and its kubelet would."""
    labels = above["spec"]["selector"]["matchLabels"]
    await here.member.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": labels,
                "ownerReferences": owner(above),
            },
            "spec": {"containers": [{"name": "main", "image": IMAGE}]},
        }
    )
    status = {"name": "main", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0}
    await here.member.patch(
        POD,
        name,
        {"status": {"phase": "Pending", "containerStatuses": [{**status, "state": {"waiting": waiting}}]}},
        subresource="status",
    )


async def revise(here: World, revision: str) -> None:
    """Note what a Deployment's controller would note."""
    noted = await here.member.patch(DEPLOYMENT, "web", {"metadata": {"annotations": {REVISION: revision}}})
    status = {"observedGeneration": noted["metadata"]["generation"]}
    await here.member.patch(DEPLOYMENT, "web", {"status": status}, subresource="status")


async def broken(here: World) -> None:
    """Let a Deployment have two pods that cannot pull their image, and one of an older template that cannot either."""
    await revise(here, "2")
    await pod(here, "web-old", await replica_set(here, "old", "1"), reason="ImagePullBackOff")
    present = await replica_set(here, "new", "2")
    for name in ("web-b", "web-a"):
        await pod(here, name, present, reason="ImagePullBackOff", message=f'Back-off pulling image "{IMAGE}"')


def asked(here: World, *resources: str) -> int:
    return sum(verb == "list" and what in resources for verb, what, _ in here.way.requests)


CAUSE = f'ImagePullBackOff: image "{IMAGE}" (pod web-a and 1 more)'


def test_the_cause_is_in_the_reports_of_manifest_and_work_and_goes_with_the_trouble() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), deployment())
        await broken(here)
        await asyncio.sleep(40)
        assert (await here.condition("Progressing")).message == f"Deployment default/web: 0 of 2 updated: {CAUSE}"
        first, second = await here.manifests()
        assert [each.type for each in first.conditions] == ["Applied", "Available", "StatusFeedbackSynced"]
        said = condition(second.conditions, "Progressing")
        assert (said.status, said.reason, said.message) == ("True", "Updating", f"0 of 2 updated: {CAUSE}")
        await here.stop()
        marks = len(here.hub.commits)
        here.start()  # who takes over says the same, at once
        await asyncio.sleep(60)
        assert not [each for each in here.hub.writes_since(marks) if "manifestworks" in each]
        counted = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
        await here.member.patch(DEPLOYMENT, "web", {"status": counted}, subresource="status")
        await here.settle()
        assert (await here.condition("Progressing")).message == "All objects are healthy"
        assert [len(each.conditions) for each in await here.manifests()] == [3, 3]

    told(story)


def test_nobody_is_asked_while_all_is_well_and_ever_less_often_while_it_is_not() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        await asyncio.sleep(600)
        assert asked(here, "pods", "events", "replicasets") == 0
        await here.work(deployment())
        await broken(here)
        await asyncio.sleep(300)
        before = asked(here, "pods")
        assert before >= 5
        await asyncio.sleep(6000)
        assert 80 <= asked(here, "pods") - before <= 101, "once a minute"
        assert asked(here, "events") == 0, "pods say it all"

    told(story)


def test_who_hears_that_something_has_failed_hears_why_at_once() -> None:
    async def story(here: World) -> None:
        await here.work(deployment())
        await here.settle(60)  # nothing is below it, and nobody looks again soon
        before = asked(here, "replicasets")
        await broken(here)
        failed = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too late"}
        await here.member.patch(DEPLOYMENT, "web", {"status": {"conditions": [failed]}}, subresource="status")
        await here.settle(3)
        assert (await here.condition("Degraded")).status == "True"
        assert (await here.condition("Degraded")).message.endswith(CAUSE)
        assert asked(here, "replicasets") == before + 1

    told(story)


def test_of_many_objects_a_few_are_looked_at() -> None:
    async def story(here: World) -> None:
        await here.work(*(deployment(f"web-{number}") for number in range(8)))
        for number in range(8):
            status = {"observedGeneration": 1, "replicas": 2}
            await here.member.patch(DEPLOYMENT, f"web-{number}", {"status": status}, subresource="status")
        await here.settle(40)
        looked_for = {where for verb, what, where in here.way.requests if (verb, what) == ("list", "replicasets")}
        assert asked(here, "replicasets") > 0
        assert asked(here, "replicasets") <= 5 * 4, looked_for

    told(story)


@pytest.mark.parametrize("refused", ["pods", "replicasets"])
def test_without_the_right_to_look_the_rest_is_told(refused: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story(here: World) -> None:
        here.way.refuse("list", refused, Forbidden(f"{refused} is forbidden"))
        await here.work(deployment())
        await broken(here)
        await asyncio.sleep(600)
        assert (await here.condition("Progressing")).message == "Deployment default/web: 0 of 2 updated"
        await warn(here, await here.member.get(DEPLOYMENT, "web"), "FailedCreate", "exceeded quota")
        await asyncio.sleep(120)
        assert (await here.condition("Progressing")).message.endswith("FailedCreate: exceeded quota")

    told(story, quiet=False)
    assert [each.levelname for each in caplog.records if "not well" in each.message] == ["WARNING"]


def test_an_account_that_may_not_see_pods_is_not_told_of_them() -> None:
    async def story(here: World) -> None:
        await grant(here, may(ALL, "deployments", "apps"))
        await here.work(deployment(), executor=EXECUTOR)
        await broken(here)
        await asyncio.sleep(40)
        assert (await here.condition("Progressing")).message == "Deployment default/web: 0 of 2 updated"
        await grant(here, may(ALL, "deployments", "apps"), may(["list"], "pods"))
        await asyncio.sleep(120)
        assert (await here.condition("Progressing")).message.endswith(CAUSE)

    told(story)


def test_what_a_program_says_at_its_end_is_told_without_secrets_of_its_work() -> None:
    async def story(here: World) -> None:
        await here.work(SECRET, deployment())
        await revise(here, "1")
        await pod(here, "web-a", await replica_set(here, "new", "1"), reason="CrashLoopBackOff")
        ended: JSONObject = {"exitCode": 1, "reason": "Error", "message": "hello\nno access with tell-nobody\n"}
        status: JSONObject = {"name": "main", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 3}
        status |= {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}}
        await here.member.patch(POD, "web-a", {"status": {"containerStatuses": [status]}}, subresource="status")
        await asyncio.sleep(40)
        message = (await here.condition("Progressing")).message
        assert message.endswith("CrashLoopBackOff: exit code 1: no access with <hidden> (pod web-a)")

    told(story)


def test_of_any_kind_the_pods_below_what_it_owns_tell_why() -> None:
    async def story(here: World) -> None:
        await serve(here.member, (KRUISE_GROUP,))
        wanted = deployment(image=IMAGE)
        await here.work({**wanted, "apiVersion": CLONE_SET.api_version, "kind": CLONE_SET.kind})
        made = await here.member.get(CLONE_SET, "web")
        stranger = {**made, "metadata": {**made["metadata"], "uid": "of-somebody-else"}}
        counted = {"observedGeneration": 1, "replicas": 2}
        await here.member.patch(CLONE_SET, "web", {"status": counted}, subresource="status")
        for name, above in (("own", made), ("other", stranger)):
            meta = {"name": name, "namespace": "default", "ownerReferences": owner(above)}
            body: JSONObject = {"metadata": meta}
            body |= {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {**wanted["spec"], "replicas": 1}}
            between = await here.member.create(body)
            await pod(here, f"web-{name}", between, reason="ImagePullBackOff")
        await asyncio.sleep(40)
        message = (await here.condition("Progressing")).message
        assert message.endswith(f'ImagePullBackOff: image "{IMAGE}" (pod web-own)')

    told(story, quiet=False)


async def warn(here: World, about: JSONObject, reason: str, message: str) -> None:
    meta = about["metadata"]
    named = {"kind": about["kind"], "name": meta["name"], "namespace": "default", "uid": meta["uid"]}
    now = {"lastTimestamp": meta["creationTimestamp"], "firstTimestamp": meta["creationTimestamp"]}
    body: JSONObject = {"metadata": {"name": f"{meta['name']}.1", "namespace": "default"}, "involvedObject": named}
    body |= {"reason": reason, "message": message, "type": "Warning", **now}
    await here.member.client.create(EVENT.untyped(), body, "default")


def test_what_has_no_pods_is_explained_by_warnings_about_it() -> None:
    async def story(here: World) -> None:
        claim: JSONObject = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await here.work(claim)
        made = await here.member.get(PERSISTENT_VOLUME_CLAIM, "data")
        await warn(here, made, "ProvisioningFailed", 'storageclass "fast" not found')
        await asyncio.sleep(40)
        message = 'no volume is bound yet: ProvisioningFailed: storageclass "fast" not found'
        assert (await here.condition("Progressing")).message == f"PersistentVolumeClaim default/data: {message}"

    told(story, quiet=False)  # a warning is told for as long as it is new


def test_fields_that_the_server_drops_are_told_also_after_a_repair_and_a_restart() -> None:
    async def story(here: World) -> None:
        typo: JSONObject = {**config_map("one"), "dta": {"a": "b"}}
        await here.work(typo)

        async def expect() -> None:
            applied = condition((await here.manifests())[0].conditions, "Applied")
            assert applied.status == "True"
            assert applied.message == 'Apply manifest complete; the server warns: unknown field "dta"'
            message = 'All objects are healthy; ConfigMap default/one: the server warns: unknown field "dta"'
            assert (await here.condition("Progressing")).message == message

        await expect()
        await here.member.patch(CONFIG_MAP, "one", {"data": {"a": "else"}})
        await here.settle()
        assert (await here.member.get(CONFIG_MAP, "one"))["data"] == {"a": "b"}
        await expect()
        await here.stop()
        here.start()
        await here.settle()
        await expect()
        await here.work(config_map("one"))
        assert condition((await here.manifests())[0].conditions, "Applied").message == "Apply manifest complete"

    told(story)
