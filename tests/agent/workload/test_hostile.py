"""Works that make no sense, or cost as much as a megabyte can: they are told about, and the others go on."""

from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.api.karmada import WORK
from echelon.api.kruise import CLONE_SET
from echelon.engine.workload.names import MANAGED, PUSH_ID
from echelon.engine.workload.work_report import MOST_BYTES
from tests.agent.workload.world import SPACE, World, manifest, push_of, told

LARGE = 900_000


def deep(levels: int) -> JSONObject:
    found: JSONObject = {}
    for _ in range(levels):
        found = {"a": found}
    return found


def with_annotations(**said: Any) -> JSONObject:
    body = manifest(1)
    body["metadata"]["annotations"] |= said
    return body


def changed(**fields: Any) -> JSONObject:
    return {**manifest(1), **fields}


BAD: dict[str, tuple[JSONObject, str]] = {
    "nothing": ({}, "no apiVersion, kind or metadata.name"),
    "no name": (changed(metadata={}), "no apiVersion, kind or metadata.name"),
    "a namespace that is none": (changed(metadata={"name": "a", "namespace": 5}), "metadata.namespace"),
    "labels that are none": (changed(metadata={"name": "a", "labels": ["a"]}), "metadata.labels"),
    "a push that is none": (with_annotations(**{PUSH_ID: "soon"}), "must be a number"),
    "a push without end": (with_annotations(**{PUSH_ID: "9" * 5000}), "must be a number"),
    "a kind that is not aligned": (changed(kind="ConfigMap", apiVersion="v1"), "is not aligned"),
    "a spec that is none": (changed(spec="all"), ""),
    "a template that is none": (changed(spec={"template": [1], "replicas": "many"}), ""),
    "depth": (changed(spec={"template": deep(300)}), ""),
}


@pytest.mark.parametrize("what", sorted(BAD))
def test_what_makes_no_sense_is_told_and_the_others_go_on(what: str) -> None:
    body, why = BAD[what]

    async def story(here: World) -> None:
        await here.write(body, "bad")
        good = manifest(1)
        good["metadata"]["name"] = "good"
        await here.send(good, "good")
        assert (await here.applied("good")).status == "True"
        said = await here.applied("bad")
        assert (said.status, said.reason) == ("False", "AppliedFailed")
        assert why in said.message
        assert said.message

    told(story)


def test_several_manifests_are_no_work() -> None:
    async def story(here: World) -> None:
        await here.write(manifest(1))
        await here.hub.patch(WORK, "w", {"spec": {"workload": {"manifests": [manifest(1)] * 3}}}, SPACE)
        await here.settle(20)
        assert "it has 3 manifests, and must have one" in (await here.applied()).message

    told(story)


def test_a_template_of_a_megabyte_is_looked_at_no_more_often_than_another() -> None:
    async def story(here: World) -> None:
        body = manifest(1, replicas=20)
        large = [{"name": f"A{number}", "value": "x" * 1000} for number in range(LARGE // 1000)]
        body["spec"]["template"]["spec"]["containers"][0]["env"] = large
        await here.send(body)
        assert push_of(await here.live()) == 1
        view = await here.snapshot()
        assert (view.available, view.settled) == (20, True)
        assert len([each for each in here.way.requests if each[:2] == ("list", "replicasets")]) < 40

    told(story)


def test_a_status_of_a_megabyte_is_not_reported_and_that_is_said() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1, kind="CloneSet", api_version="apps.kruise.io/v1alpha1", surge=0))
        said = {"status": {"labelSelector": "x" * 2 * MOST_BYTES}}
        await here.stop()
        assert here.simulated is not None
        here.simulated.stop()
        await here.member.patch(CLONE_SET, "web", said, subresource="status")
        here.begin()
        await here.settle(20)
        reflected = await here.reflected()
        assert set(reflected) == {"snapshot"}
        applied = await here.applied()
        assert applied.status == "True"
        assert f"more than {MOST_BYTES} are not reported" in applied.message

    told(story, quiet=False)


def test_the_words_of_a_server_about_a_secret_do_not_repeat_it() -> None:
    async def story(here: World) -> None:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "namespace": "default", "labels": {MANAGED: "true"}},
            "data": {"key": "not base64 and secret"},
        }
        await here.send(secret)
        said = await here.applied()
        assert said.status == "False"
        assert "secret" not in said.message.replace("Secret", "")

    told(story, quiet=False)


def test_a_flood_of_works_leaves_nothing_behind() -> None:
    async def story(here: World) -> None:
        for number in range(60):
            data = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"c{number}", "namespace": "default", "labels": {MANAGED: "true"}},
            }
            await here.write(data, f"c{number}")
        await here.settle(60)
        assert len((await here.member.client.list(CONFIG_MAP, "default")).items) >= 60
        for number in range(60):
            await here.hub.delete(WORK, f"c{number}", SPACE)
        await here.settle(60)
        assert list((await here.hub.client.list(WORK, SPACE)).items) == []
        left = (await here.member.client.list(CONFIG_MAP, "default")).items
        assert [each.metadata.name for each in left if each.metadata.name.startswith("c")] == []

    told(story)
