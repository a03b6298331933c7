"""What the simulated control plane writes is what the server would have stored, had it come as a request."""

import asyncio
import copy
from typing import Any

from echelon.api.apps import DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from echelon.api.base import JSONObject
from echelon.api.batch import JOB
from echelon.api.kinds import Kind
from echelon.api.kruise import CLONE_SET
from echelon.api.namespaces import NAMESPACE
from echelon.fleet.member.trouble import CrashLoop, DiskFull, ImageError, Trouble
from echelon.hub.server import ROOT
from echelon.hub.verbs import admission
from echelon.hub.verbs.admission import Request, Target
from echelon.kube.client import MergePatch
from tests.fleet.member.world import NS, World, told


def differences(world: World) -> list[str]:
    """Return what the server's admission would change or refuse in everything that was ever committed."""
    resources = world.member.cluster.catalogue.stored()
    found = []
    for change in world.commits:
        key, stored = change.entry.key, change.entry.object
        resource = resources[key.resource]
        admitted = admission.admit_body(resource, copy.deepcopy(stored), Request(ROOT, field_validation="Strict"))
        if admitted != stored:
            found.append(f"{key}: {_difference(stored, admitted)}")
        admission.validate(Target(resource, key.namespace, key.name), admitted, None)
    return found


def _difference(a: Any, b: Any, path: str = "") -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        return " ".join(
            _difference(a.get(k), b.get(k), f"{path}.{k}") for k in a.keys() | b.keys() if a.get(k) != b.get(k)
        )
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return " ".join(_difference(x, y, f"{path}[]") for x, y in zip(a, b, strict=True) if x != y)
    return f"{path}: {a!r} is {b!r}"


def lived(kind: Kind[Any], *troubles: Trouble, **spec: Any) -> World:
    async def story(world: World) -> None:
        await world.create(kind, **spec)
        await asyncio.sleep(60)
        if kind.kind != "Job":
            await world.image(kind, "web:2")
        await asyncio.sleep(120)

    return told(story, *troubles)


def test_everything_that_is_written_is_as_admission_would_have_it() -> None:
    worlds = [
        lived(DEPLOYMENT),
        lived(DEPLOYMENT, ImageError(image="*:2")),
        lived(DEPLOYMENT, CrashLoop(image="*:2")),
        lived(DEPLOYMENT, DiskFull(begin=90, end=100), cpu="2"),
        lived(STATEFUL_SET, serviceName="web"),
        lived(DAEMON_SET, replicas=None),
        lived(CLONE_SET),
        lived(JOB, replicas=None, pod={"restartPolicy": "OnFailure"}),
    ]
    for world in worlds:
        assert len(world.commits) > 5
        assert differences(world) == []


def test_pods_of_one_template_share_what_they_have_in_common() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        await asyncio.sleep(10)
        first, second, third = (pod["spec"]["containers"] for pod in world.pods())
        assert first is second is third

    told(story)


def test_nothing_is_made_in_a_namespace_that_is_on_its_way_out() -> None:
    async def story(world: World) -> None:
        await world.client.create(NAMESPACE.untyped(), {"metadata": {"name": "doomed"}})
        body: JSONObject = copy.deepcopy(DOOMED)
        await world.client.create(DEPLOYMENT.untyped(), body, "doomed")
        await asyncio.sleep(10)
        await world.client.delete(NAMESPACE, "doomed")
        await asyncio.sleep(10)
        assert world.objects("pods") == []
        assert "doomed" not in {each["metadata"]["name"] for each in world.objects("namespaces")}

    told(story)


DOOMED: JSONObject = {
    "metadata": {"name": "web", "namespace": "doomed"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        },
    },
}


def test_an_object_keeps_what_others_put_into_it() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        await asyncio.sleep(10)
        note = {"metadata": {"annotations": {"mine": "yes"}, "labels": {"team": "a"}}}
        await world.client.patch(DEPLOYMENT.untyped(), "web", MergePatch(note), NS)
        await world.image(DEPLOYMENT, "web:2")
        await asyncio.sleep(60)
        found = await world.get(DEPLOYMENT)
        assert found["metadata"]["annotations"]["mine"] == "yes"
        assert found["metadata"]["labels"] == {"team": "a"}
        assert found["status"]["updatedReplicas"] == 3

    told(story)
