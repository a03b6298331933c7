"""Writes that are overtaken while rules are run: who named no state gets what he wants, on top of the other write.

Rules and policies are expensive enough to pause between them, and the other write happens in the pause.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from echelon.api.admissionregistration import VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.api.kinds import Kind, Scale
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.hub.storage.store import Key
from echelon.hub.verbs import writing
from echelon.hub.verbs.admission import Request, Target
from echelon.kube.client import ApplyPatch, JSONPatch, MergePatch, Patch
from echelon.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound

SCALE = Scale(".spec.replicas", ".status.replicas")
GADGET: Kind[Any] = Kind("example.com", "v1", "Gadget", "gadgets", dict, status=True, scale=SCALE)
KEY = Key(GADGET.resource, "default", "a")
MANY = f"[{','.join('1' for _ in range(100))}]"
EXPENSIVE = f"{MANY}.all(a, {MANY}.all(b, a + b > 0))"
RULE = f"{MANY}.all(a, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1].all(b, a + b > 0))"
STALE = "the object has been modified; please apply your changes to the latest version and try again"


def definition() -> JSONObject:
    number = {"type": "integer"}
    part = {"type": "object", "properties": {"replicas": number, "size": number}}
    ruled = {**part, "x-kubernetes-validations": [{"rule": RULE}, {"rule": f"{RULE} || false"}]}
    schema = {"type": "object", "properties": {"spec": ruled, "status": part}}
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}, "scale": paths}}
    return {
        **CUSTOM_RESOURCE_DEFINITION.type_meta,
        "metadata": {"name": GADGET.resource},
        "spec": {
            "group": GADGET.group,
            "scope": "Namespaced",
            "names": {"kind": GADGET.kind, "plural": GADGET.plural},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def body(**metadata: Any) -> JSONObject:
    return {**GADGET.type_meta, "metadata": {"name": "a", **metadata}, "spec": {"replicas": 1, "size": 3}}


class World:
    """A hub with a gadget and policies that pause, and somebody who writes past them."""

    def __init__(self) -> None:
        self.cluster = memory_cluster(seed=1)
        self.client = InProcessClient(self.cluster, ROOT)
        self.writes = 0

    async def furnish(self) -> None:
        await bootstrap(self.cluster)
        await self.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition())
        await self.client.create(GADGET, body(), "default")
        rule = {
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "operations": ["*"],
            "resources": ["gadgets", "gadgets/status", "configmaps"],
        }
        spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": EXPENSIVE}]}
        for name in ("p", "q"):
            bound = {"policyName": name, "validationActions": ["Deny"]}
            for kind, said in ((VALIDATING_ADMISSION_POLICY, spec), (VALIDATING_ADMISSION_POLICY_BINDING, bound)):
                made = {**kind.type_meta, "metadata": {"name": name}, "spec": said}
                await self.client.create(kind.untyped(), made)

    async def stored(self) -> JSONObject:
        found: JSONObject = await self.client.get(GADGET, "a", "default")
        return found

    async def label(self) -> None:
        """Write without asking anybody."""
        self.writes += 1
        entry = self.cluster.store.latest(KEY)
        assert entry is not None
        meta = {**entry.object["metadata"], "labels": {"writes": str(self.writes)}}
        await self.cluster.store.put(KEY, {**entry.object, "metadata": meta})

    async def overtaken(
        self, write: Coroutine[Any, Any, Any], other: Callable[[], Awaitable[object]] | None = None
    ) -> Any:
        """Begin a write, and let the other one happen in its first pause."""
        task = asyncio.create_task(write)
        await asyncio.sleep(0)
        assert not task.done(), "it does not pause"
        await (other or self.label)()
        return await task


def told(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def inner() -> None:
        world = World()
        await world.furnish()
        await story(world)

    asyncio.run(inner())


PATCHES: dict[str, Patch] = {
    "merge": MergePatch({"spec": {"size": 4}}),
    "json": JSONPatch([{"op": "replace", "path": "/spec/size", "value": 4}]),
    "apply": ApplyPatch(body() | {"spec": {"size": 4}}, "m", force=True),
}


@pytest.mark.parametrize("how", PATCHES)
def test_a_patch_is_made_anew_on_top_of_the_other_write(how: str) -> None:
    async def story(world: World) -> None:
        await world.overtaken(world.client.patch(GADGET, "a", PATCHES[how], "default"))
        found = await world.stored()
        assert (found["spec"]["size"], found["metadata"]["labels"]) == (4, {"writes": "1"})

    told(story)


@pytest.mark.parametrize("subresource", ["status", "scale"])
def test_so_are_patches_of_the_status_and_of_the_scale(subresource: str) -> None:
    async def story(world: World) -> None:
        patch = MergePatch({"status" if subresource == "status" else "spec": {"replicas": 7}})
        await world.overtaken(world.client.patch(GADGET, "a", patch, "default", subresource=subresource))
        found = await world.stored()
        assert found["status" if subresource == "status" else "spec"]["replicas"] == 7
        assert found["metadata"]["labels"] == {"writes": "1"}

    told(story)


def test_a_patch_that_names_a_state_is_refused_when_it_is_no_longer_that() -> None:
    async def story(world: World) -> None:
        version = (await world.stored())["metadata"]["resourceVersion"]
        patch = MergePatch({"metadata": {"resourceVersion": version}, "spec": {"size": 4}})
        with pytest.raises(Conflict, match=STALE):
            await world.overtaken(world.client.patch(GADGET, "a", patch, "default"))
        assert (await world.stored())["spec"]["size"] == 3

    told(story)


def test_tries_have_an_end() -> None:
    async def story(world: World) -> None:
        task = asyncio.create_task(world.client.patch(GADGET, "a", PATCHES["merge"], "default"))
        await asyncio.sleep(0)
        while not task.done():
            await world.label()
            await asyncio.sleep(0)
        with pytest.raises(Conflict, match=STALE):
            await task
        assert (await world.stored())["spec"]["size"] == 3

    told(story)


def test_what_was_deleted_meanwhile_is_not_found() -> None:
    async def story(world: World) -> None:
        async def remove() -> None:
            await world.cluster.store.remove(KEY, await world.stored())

        with pytest.raises(NotFound):
            await world.overtaken(world.client.patch(GADGET, "a", PATCHES["merge"], "default"), remove)

    told(story)


def test_an_object_that_was_made_meanwhile_is_applied_to_and_not_created_twice() -> None:
    async def story(world: World) -> None:
        before = await world.stored()
        await world.cluster.store.remove(KEY, before)

        async def make() -> None:
            await world.cluster.store.put(KEY, {**before, "metadata": {**before["metadata"], "labels": {"x": "y"}}})

        await world.overtaken(world.client.patch(GADGET, "a", PATCHES["apply"], "default"), make)
        found = await world.stored()
        assert (found["spec"]["size"], found["metadata"]["labels"]) == (4, {"x": "y"})
        await world.cluster.store.remove(KEY, found)
        with pytest.raises(AlreadyExists):
            await world.overtaken(world.client.create(GADGET, body(), "default"), make)

    told(story)


def test_a_deletion_takes_the_newest_state() -> None:
    async def story(world: World) -> None:
        await world.overtaken(world.client.delete(GADGET, "a", "default"))
        assert world.writes == 1
        with pytest.raises(NotFound):
            await world.stored()

    told(story)


def test_the_last_finalizer_may_be_taken_out_meanwhile() -> None:
    async def story(world: World) -> None:
        await world.client.patch(GADGET, "a", MergePatch({"metadata": {"finalizers": ["x/y"]}}), "default")
        await world.client.delete(GADGET, "a", "default")
        patch = MergePatch({"metadata": {"finalizers": None}})
        await world.overtaken(world.client.patch(GADGET, "a", patch, "default"))
        with pytest.raises(NotFound):
            await world.stored()

    told(story)


def test_nothing_is_created_in_a_namespace_that_was_deleted_meanwhile() -> None:
    async def story(world: World) -> None:
        async def end() -> None:
            key = Key("namespaces", "", "default")
            entry = world.cluster.store.latest(key)
            assert entry is not None
            meta = {**entry.object["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            await world.cluster.store.put(key, {**entry.object, "metadata": meta})

        made = body() | {"metadata": {"name": "b"}}
        with pytest.raises(Forbidden, match="because it is being terminated"):
            await world.overtaken(world.client.create(GADGET, made, "default"), end)

    told(story)


def test_a_replacement_that_names_no_state_replaces_the_newest() -> None:
    async def story(world: World) -> None:
        made = {**CONFIG_MAP.type_meta, "metadata": {"name": "m"}, "data": {"a": "1"}}
        key = Key("configmaps", "default", "m")
        target = Target(world.cluster.catalogue.find("", "v1", "configmaps"), "default", "m")
        before = (await writing.create(world.cluster, target, made, Request(ROOT))).object

        async def change() -> None:
            await world.cluster.store.put(key, {**before, "data": {"a": "2"}})

        new = {**made, "data": {"a": "3"}}
        await world.overtaken(writing.update(world.cluster, target, new, Request(ROOT)), change)
        entry = world.cluster.store.latest(key)
        assert entry is not None
        assert entry.object["data"] == {"a": "3"}

    told(story)
