"""The client without a connection: typed, held to the same rules, and with the same results as one over HTTP."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.apps import DEPLOYMENT
from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.api.core import CONFIG_MAP, ConfigMap
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import CLUSTER_ROLE_BINDING
from echelon.hub.access.identity import AUTHENTICATED, User
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, Hub, Settings, bootstrap, memory_cluster
from echelon.kube import errors
from echelon.kube.client import (
    ApplyPatch,
    DeleteOptions,
    Event,
    EventType,
    JSONPatch,
    MergePatch,
    Patch,
    Preconditions,
    StrategicPatch,
    WriteOptions,
)
from tests.examples import examples
from tests.hub.api import config_map, deployment, managed_cluster

Scenario = Callable[[InProcessClient], Coroutine[Any, Any, None]]


def run(scenario: Scenario) -> None:
    """Run something as the administrator of a fresh cluster in memory, with our CRDs."""

    async def inner() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        client = InProcessClient(cluster, ROOT)
        await prepare(client)
        await scenario(client)

    asyncio.run(inner())


async def prepare(client: InProcessClient) -> None:
    crd = next(c for c in registry.crds() if c["metadata"]["name"].startswith("managedclusters."))
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd)


def test_objects_are_typed() -> None:
    async def scenario(client: InProcessClient) -> None:
        made = await client.create(MANAGED_CLUSTER, managed_cluster("c", labels={"a": "b"}))
        assert isinstance(made, ManagedCluster)
        assert made.spec.lease_duration_seconds == 60
        assert (made.metadata.labels, made.metadata.generation) == ({"a": "b"}, 1)
        assert await client.get(MANAGED_CLUSTER, "c") == made
        page = await client.list(MANAGED_CLUSTER, labels="a=b")
        assert (page.items, page.continue_) == ([made], "")
        assert page.resource_version == made.metadata.resource_version
        await client.delete(MANAGED_CLUSTER, "c")
        with pytest.raises(errors.NotFound):
            await client.get(MANAGED_CLUSTER, "c")

    run(scenario)


def test_lists_have_pages_and_selectors() -> None:
    async def scenario(client: InProcessClient) -> None:
        for i in range(5):
            await client.create(CONFIG_MAP, config_map(f"m{i}", labels={"odd": str(i % 2)}), "default")
        first = await client.list(CONFIG_MAP, "default", limit=2)
        assert ([m.metadata.name for m in first.items], first.remaining) == (["m0", "m1"], 3)
        await client.delete(CONFIG_MAP, "m3", "default")
        second = await client.list(CONFIG_MAP, "default", continue_=first.continue_)
        assert [m.metadata.name for m in second.items] == ["m2", "m3", "m4"]
        assert len((await client.list(CONFIG_MAP, labels="odd=1")).items) == 1
        assert len((await client.list(CONFIG_MAP, fields="metadata.name!=m1")).items) == 3
        past = await client.list(CONFIG_MAP, resource_version=first.resource_version, resource_version_match="Exact")
        assert len(past.items) == 5
        with pytest.raises(errors.Invalid):
            await client.list(CONFIG_MAP, resource_version_match="Exact")

    run(scenario)


def test_every_patch() -> None:
    async def scenario(client: InProcessClient) -> None:
        await client.create(DEPLOYMENT, deployment("d"), "default")
        patches: list[tuple[Patch, int]] = [
            (MergePatch({"spec": {"replicas": 3}}), 3),
            (JSONPatch([{"op": "replace", "path": "/spec/replicas", "value": 4}]), 4),
            (StrategicPatch({"spec": {"replicas": 5}}), 5),
            (ApplyPatch(deployment("d", replicas=6), "applier", force=True), 6),
        ]  # fmt: skip
        for patch, replicas in patches:
            assert (await client.patch(DEPLOYMENT, "d", patch, "default")).spec.replicas == replicas
        with pytest.raises(errors.Conflict):
            await client.patch(DEPLOYMENT, "d", ApplyPatch(deployment("d", replicas=7), "another"), "default")
        with pytest.raises(errors.Invalid):
            await client.patch(DEPLOYMENT, "d", JSONPatch([{"op": "test", "path": "/kind", "value": "X"}]), "default")
        status = MergePatch({"status": {"replicas": 2}, "spec": {"replicas": 9}})
        written = await client.patch(DEPLOYMENT, "d", status, "default", subresource="status")
        assert (written.status.replicas, written.spec.replicas) == (2, 6)

    run(scenario)


def test_a_version_or_uid_in_a_patch_is_a_precondition() -> None:
    async def scenario(client: InProcessClient) -> None:
        old = await client.create(CONFIG_MAP, config_map("a", x="1"), "default")
        new = await client.patch(CONFIG_MAP, "a", MergePatch({"data": {"x": "2"}}), "default")
        meta = {"resourceVersion": old.metadata.resource_version}
        with pytest.raises(errors.Conflict):
            await client.patch(CONFIG_MAP, "a", MergePatch({"metadata": meta, "data": {"x": "3"}}), "default")
        with pytest.raises(errors.Invalid):
            await client.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"uid": "other"}}), "default")
        meta = {"resourceVersion": new.metadata.resource_version, "uid": new.metadata.uid}
        await client.patch(CONFIG_MAP, "a", MergePatch({"metadata": meta, "data": {"x": "4"}}), "default")
        with pytest.raises(errors.Conflict):
            await client.delete(CONFIG_MAP, "a", "default", options=DeleteOptions(Preconditions(uid="other")))
        await client.delete(CONFIG_MAP, "a", "default", options=DeleteOptions(Preconditions(uid=old.metadata.uid)))

    run(scenario)


def test_options_of_writes() -> None:
    async def scenario(client: InProcessClient) -> None:
        dry = WriteOptions(dry_run=True)
        await client.create(CONFIG_MAP, config_map("a"), "default", options=dry)
        with pytest.raises(errors.NotFound):
            await client.get(CONFIG_MAP, "a", "default")
        strict = WriteOptions(field_validation="Strict")
        with pytest.raises(errors.BadRequest, match="unknown field"):
            await client.create(CONFIG_MAP, {**config_map("a"), "nope": 1}, "default", options=strict)
        made = await client.create(
            CONFIG_MAP, config_map("a", x="1"), "default", options=WriteOptions(field_manager="me")
        )
        wire = await client.get(CONFIG_MAP.untyped(), "a", "default")
        assert [entry["manager"] for entry in wire["metadata"]["managedFields"]] == ["me"]
        await client.delete(CONFIG_MAP, "a", "default", options=DeleteOptions(dry_run=True))
        assert await client.get(CONFIG_MAP, "a", "default") == made
        with pytest.raises(errors.BadRequest):
            await client.get(CONFIG_MAP, "a")

    run(scenario)


def test_what_a_caller_sends_stays_the_callers() -> None:
    async def scenario(client: InProcessClient) -> None:
        body = config_map("a", x="1")
        await client.create(CONFIG_MAP, body, "default")
        assert body == config_map("a", x="1")
        body["data"]["x"] = "changed later"
        assert (await client.get(CONFIG_MAP, "a", "default")).data == {"x": "1"}
        labels = {"l": "v"}
        await client.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"labels": labels}}), "default")
        labels["l"] = "changed later"
        assert (await client.get(CONFIG_MAP, "a", "default")).metadata.labels == {"l": "v"}

    run(scenario)


def test_a_watch_begins_with_what_is_there_and_follows() -> None:
    async def scenario(client: InProcessClient) -> None:
        await client.create(CONFIG_MAP, config_map("a", x="1"), "default")
        seen: list[Event[ConfigMap]] = []

        async def follow() -> None:
            async for event in client.watch(CONFIG_MAP, "default", initial_events=True):
                seen.append(event)
                if event.type is EventType.DELETED:
                    return

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.05)  # the watch has begun, or it will see the same by itself
        await client.patch(CONFIG_MAP, "a", MergePatch({"data": {"x": "2"}}), "default")
        await client.delete(CONFIG_MAP, "a", "default")
        await asyncio.wait_for(following, 10)
        assert [e.type for e in seen] == ["ADDED", "BOOKMARK", "MODIFIED", "DELETED"]
        assert [e.synced for e in seen] == [False, True, False, False]
        assert [e.object.data["x"] for e in seen if e.object] == ["1", "2", "2"]
        versions = [int(e.resource_version) for e in seen]
        assert versions == sorted(versions)
        resumed = []
        async for event in client.watch(CONFIG_MAP, "default", resource_version=seen[1].resource_version):
            resumed.append(event)
            if event.type is EventType.DELETED:
                break
        assert resumed == seen[2:]

    run(scenario)


def test_a_watch_from_before_the_history_is_gone() -> None:
    async def scenario(client: InProcessClient) -> None:
        first = await client.create(CONFIG_MAP, config_map("a"), "default")
        await client.create(CONFIG_MAP, config_map("b"), "default")
        client._cluster.store.compact()
        with pytest.raises(errors.Gone):
            async for _ in client.watch(CONFIG_MAP, resource_version=first.metadata.resource_version):
                pass

    run(scenario)


def test_a_limited_user_is_limited_here_too() -> None:
    async def scenario(client: InProcessClient) -> None:
        await client.create(CONFIG_MAP, config_map("a"), "default")
        limited = InProcessClient(client._cluster, User("jane", (AUTHENTICATED,)))
        for refused in (
            limited.get(CONFIG_MAP, "a", "default"),
            limited.list(CONFIG_MAP),
            limited.create(CONFIG_MAP, config_map("b"), "default"),
            limited.patch(CONFIG_MAP, "a", MergePatch({}), "default"),
            limited.delete(CONFIG_MAP, "a", "default"),
        ):
            with pytest.raises(errors.Forbidden, match='User "jane" cannot'):
                await refused
        with pytest.raises(errors.Forbidden):
            async for _ in limited.watch(CONFIG_MAP):
                pass
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "jane"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        await client.create(CLUSTER_ROLE_BINDING, binding)
        with pytest.raises(errors.Forbidden):
            await limited.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})

    run(scenario)


def test_the_same_seed_gives_the_same_cluster() -> None:
    async def made() -> list[str]:
        cluster = memory_cluster(seed=7)
        await bootstrap(cluster)
        client = InProcessClient(cluster, ROOT)
        objects = [
            await client.create(CONFIG_MAP, {**config_map(""), "metadata": {"generateName": "x-"}}, "default")
            for _ in range(3)
        ]
        return [f"{o.metadata.name} {o.metadata.uid}" for o in objects]

    assert asyncio.run(made()) == asyncio.run(made())


# --- the same over HTTP ----------------------------------------------------------------------------------------------

MEDIA = {
    MergePatch: "application/merge-patch+json",
    JSONPatch: "application/json-patch+json",
    StrategicPatch: "application/strategic-merge-patch+json",
    ApplyPatch: "application/apply-patch+yaml",
}
PATCHES: list[Patch] = [
    MergePatch({"data": {"x": "2", "y": None}}),
    MergePatch({"metadata": {"labels": {"a": "b"}}}),
    MergePatch({"metadata": {"finalizers": ["example.com/f"]}}),
    MergePatch({"metadata": {"finalizers": None}}),
    MergePatch({"data": 3}),
    StrategicPatch({"data": {"y": "3"}}),
    JSONPatch([{"op": "add", "path": "/data/z", "value": "1"}]),
    JSONPatch([{"op": "remove", "path": "/data/y"}]),
]
NAMES = st.sampled_from(["a", "b"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.sampled_from([{"x": "1"}, {"x": "1", "y": "2"}, {"bad key": "1"}])),
        st.tuples(st.just("delete"), NAMES, st.just({})),
        st.tuples(st.just("patch"), NAMES, st.sampled_from(PATCHES)),
        st.tuples(st.just("apply"), NAMES, st.sampled_from([{"x": "9"}, {"x": "1", "w": "0"}, {}])),
    ),
    min_size=1,
    max_size=8,
)


class Both:
    """A hub with two logical clusters: one is spoken to over HTTP, the other without."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.run = runner.run
        self.hub = self.run(Hub.start(Settings(clusters=["web", "near"])))
        self.session = self.run(self._connect())
        self.near = self.hub.client("near", field_manager="tester")

    async def _connect(self) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {self.hub.admin_token}", "User-Agent": "tester/1"}
        return aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False))

    async def far(
        self, method: str, path: str, body: object = None, media: str = "application/json", query: str = ""
    ) -> Any:
        url = f"{self.hub.url('web')}/api/v1/namespaces/default/configmaps{path}{query}"
        data = None if body is None else msgspec.json.encode(body)
        async with self.session.request(method, url, data=data, headers={"Content-Type": media}) as response:
            answer = await response.json()
        if response.status >= 400:
            raise errors.from_status(answer)
        return answer

    async def step(self, what: str, name: str, detail: Any) -> tuple[object, object]:
        """Do the same to both, and return what came of it."""
        near, far = self.near, self.far
        if what == "create":
            body = config_map(name, **detail)
            return await outcome(near.create(CONFIG_MAP, body, "default")), await outcome(far("POST", "", body))
        if what == "delete":
            gone = await outcome(near.delete(CONFIG_MAP, name, "default"))
            return bool(gone), bool(await outcome(far("DELETE", f"/{name}"), deleted=True))
        patch = detail if what == "patch" else ApplyPatch(config_map(name, **detail), "applier")
        sent = list(patch.operations) if isinstance(patch, JSONPatch) else patch.body
        query = "?fieldManager=applier" if what == "apply" else ""
        return (
            await outcome(near.patch(CONFIG_MAP, name, patch, "default")),
            await outcome(far("PATCH", f"/{name}", sent, MEDIA[type(patch)], query)),
        )

    async def clean(self) -> None:
        for cluster in ("web", "near"):
            client = self.hub.client(cluster)
            for obj in (await client.list(CONFIG_MAP, "default")).items:
                await client.patch(
                    CONFIG_MAP, obj.metadata.name, MergePatch({"metadata": {"finalizers": None}}), "default"
                )
                await outcome(client.delete(CONFIG_MAP, obj.metadata.name, "default"))

    def close(self) -> None:
        self.run(self.session.close())
        self.run(self.hub.stop())


async def outcome(call: Coroutine[Any, Any, Any], *, deleted: bool = False) -> object:
    """Return what a call came to, without what differs from cluster to cluster."""
    try:
        result = await call
    except errors.ApiError as error:
        return type(error).__name__, error.message
    if deleted or result is None:
        return None
    return comparable(result if isinstance(result, ConfigMap) else msgspec.convert(result, ConfigMap))


def comparable(obj: ConfigMap) -> Any:
    plain = msgspec.to_builtins(obj)
    for name in ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"):
        if name in plain["metadata"]:
            plain["metadata"][name] = "*"
    for entry in plain["metadata"].get("managedFields", ()):
        entry.pop("time", None)
    return plain


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with asyncio.Runner() as runner:
        made = Both(runner)
        yield made
        made.close()


@settings(examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_the_same_calls_have_the_same_results_over_http(both: Both, steps: list[tuple[str, str, Any]]) -> None:
    async def scenario() -> None:
        await both.clean()
        for what, name, detail in steps:
            near, far = await both.step(what, name, detail)
            assert near == far, (what, name, detail)
        near_left = (await both.near.list(CONFIG_MAP, "default")).items
        listed = await both.far("GET", "")
        far_left = [comparable(msgspec.convert(item, ConfigMap)) for item in listed["items"]]
        assert [comparable(item) for item in near_left] == far_left

    both.run(scenario())


def test_a_patch_of_the_scale_returns_what_was_scaled() -> None:
    async def scenario(client: InProcessClient) -> None:
        await client.create(DEPLOYMENT, deployment("d"), "default")
        patched = await client.patch(
            DEPLOYMENT, "d", MergePatch({"spec": {"replicas": 7}}), "default", subresource="scale"
        )
        assert patched.spec.replicas == 7
        assert (await client.get(DEPLOYMENT, "d", "default")).spec.replicas == 7

    run(scenario)


def test_an_object_over_the_limit_is_refused_where_objects_are_kept_decoded() -> None:
    def body(size: int) -> dict[str, Any]:
        configs = [{"url": "https://member.example.com", "caBundle": "a" * size}]
        return managed_cluster("c", managedClusterClientConfigs=configs)

    async def scenario(client: InProcessClient) -> None:
        with pytest.raises(errors.ApiError, match=r"^etcdserver: request is too large$") as refused:
            await client.create(MANAGED_CLUSTER, body(1_600_000))
        assert refused.value.status_code == 413
        with pytest.raises(errors.NotFound):
            await client.get(MANAGED_CLUSTER, "c")
        await client.create(MANAGED_CLUSTER, body(1_500_000))
        with pytest.raises(errors.ApiError, match="request is too large"):
            await client.patch(MANAGED_CLUSTER, "c", MergePatch({"metadata": {"annotations": {"a": "b" * 100_000}}}))
        assert (await client.get(MANAGED_CLUSTER, "c")).metadata.annotations == {}
        await client.delete(MANAGED_CLUSTER, "c")

    run(scenario)
