"""The HTTP client against the embedded hub as users run it: another process, over TLS."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from tests.hub.conftest import HubProcess

from echelon.api.apps import DEPLOYMENT
from echelon.api.core import CONFIG_MAP
from echelon.api.namespaces import NAMESPACE
from echelon.kube import errors
from echelon.kube.client import (
    ApplyPatch,
    Client,
    DeleteOptions,
    EventType,
    JSONPatch,
    MergePatch,
    Preconditions,
    StrategicPatch,
    WriteOptions,
)
from echelon.kube.config import Impersonation, load
from echelon.kube.http import HttpClient

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


def in_namespace(hub: HubProcess, name: str, story: Any) -> None:
    async def whole() -> None:
        async with HttpClient(load(hub.kubeconfig)) as client:
            await client.create(NAMESPACE, {"metadata": {"name": name}})
            await story(client, name)

    run(whole())


def test_an_object_is_created_read_changed_and_deleted(hub: HubProcess) -> None:
    async def story(client: Client, namespace: str) -> None:
        made = await client.create(CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"k": "1"}}, namespace)
        assert (made.metadata.namespace, made.data) == (namespace, {"k": "1"})
        assert await client.get(CONFIG_MAP, "a", namespace) == made
        changed = await client.patch(CONFIG_MAP, "a", MergePatch({"data": {"l": "2"}}), namespace)
        assert changed.data == {"k": "1", "l": "2"}
        removal = JSONPatch([{"op": "test", "path": "/data/k", "value": "1"}, {"op": "remove", "path": "/data/k"}])
        assert (await client.patch(CONFIG_MAP, "a", removal, namespace)).data == {"l": "2"}
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"m": "3"}}
        applied = await client.patch(CONFIG_MAP.untyped(), "a", ApplyPatch(wanted, "applier"), namespace)
        assert {entry["manager"] for entry in applied["metadata"]["managedFields"]} == {"echelon", "applier"}
        wrong = DeleteOptions(preconditions=Preconditions(uid="other"))
        with pytest.raises(errors.Conflict):
            await client.delete(CONFIG_MAP, "a", namespace, options=wrong)
        await client.delete(CONFIG_MAP, "a", namespace)
        with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
            await client.get(CONFIG_MAP, "a", namespace)

    in_namespace(hub, "http-verbs", story)


def test_a_dry_run_leaves_nothing_and_conflicts_are_typed(hub: HubProcess) -> None:
    async def story(client: Client, namespace: str) -> None:
        body = {"metadata": {"name": "a"}, "data": {"k": "1"}}
        await client.create(CONFIG_MAP, body, namespace, options=WriteOptions(dry_run=True))
        made = await client.create(CONFIG_MAP, body, namespace)
        with pytest.raises(errors.AlreadyExists):
            await client.create(CONFIG_MAP, body, namespace)
        await client.patch(CONFIG_MAP, "a", MergePatch({"data": {"k": "2"}}), namespace)
        old = {"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"k": "3"}}
        with pytest.raises(errors.Conflict, match="the object has been modified"):
            await client.patch(CONFIG_MAP, "a", MergePatch(old), namespace)
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "4"}}
        with pytest.raises(errors.Conflict) as caught:
            await client.patch(CONFIG_MAP, "a", ApplyPatch(wanted, "applier"), namespace)
        assert caught.value.details["causes"][0]["field"] == ".data.k"
        forced = await client.patch(CONFIG_MAP, "a", ApplyPatch(wanted, "applier", force=True), namespace)
        assert forced.data == {"k": "4"}

    in_namespace(hub, "http-conflicts", story)


def test_subresources_and_strategic_patches_reach_their_object(hub: HubProcess) -> None:
    async def story(client: Client, namespace: str) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        await client.create(DEPLOYMENT, {"metadata": {"name": "web"}, "spec": spec}, namespace)
        status = MergePatch({"status": {"replicas": 3}, "spec": {"replicas": 9}})
        seen = await client.patch(DEPLOYMENT, "web", status, namespace, subresource="status")
        assert seen.status.replicas == 3
        assert seen.spec.replicas != 9
        more = StrategicPatch({"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "j:1"}]}}}})
        seen = await client.patch(DEPLOYMENT, "web", more, namespace)
        assert {container.name for container in seen.spec.template.spec.containers} == {"c", "d"}

    in_namespace(hub, "http-subresources", story)


def test_lists_come_in_pages_and_by_selector(hub: HubProcess) -> None:
    async def story(client: Client, namespace: str) -> None:
        for number in range(5):
            meta = {"name": f"a{number}", "labels": {"odd": str(number % 2)}}
            await client.create(CONFIG_MAP, {"metadata": meta}, namespace)
        names, token = [], ""
        while True:
            page = await client.list(CONFIG_MAP, namespace, limit=2, continue_=token)
            names += [item.metadata.name for item in page.items]
            token = page.continue_
            if not token:
                break
        assert names == [f"a{number}" for number in range(5)]
        odd = await client.list(CONFIG_MAP.untyped(), namespace, labels="odd=1")
        assert [(item["kind"], item["metadata"]["name"]) for item in odd.items] == [
            ("ConfigMap", "a1"),
            ("ConfigMap", "a3"),
        ]
        one = await client.list(CONFIG_MAP, namespace, fields="metadata.name=a2")
        assert [item.metadata.name for item in one.items] == ["a2"]

    in_namespace(hub, "http-lists", story)


def test_a_watch_follows_from_a_version_and_from_nothing(hub: HubProcess) -> None:
    async def story(client: Client, namespace: str) -> None:
        first = await client.create(CONFIG_MAP, {"metadata": {"name": "a"}}, namespace)
        await client.patch(CONFIG_MAP, "a", MergePatch({"data": {"k": "1"}}), namespace)
        await client.delete(CONFIG_MAP, "a", namespace)
        version, seen = first.metadata.resource_version, []
        async for event in client.watch(CONFIG_MAP, namespace, resource_version=version):
            seen.append(event.type)
            if event.type is EventType.DELETED:
                break
        assert seen == [EventType.MODIFIED, EventType.DELETED]
        await client.create(CONFIG_MAP, {"metadata": {"name": "b"}}, namespace)
        started = []
        async for event in client.watch(CONFIG_MAP, namespace, initial_events=True):
            if event.synced:
                break
            started.append(event.object.metadata.name if event.object else "")
        assert started == ["b"]

    in_namespace(hub, "http-watches", story)


def test_a_logical_cluster_is_a_path_of_the_server(hub: HubProcess) -> None:
    async def story() -> None:
        main = load(hub.kubeconfig)
        member = load(hub.kubeconfig, "echelon-member")
        assert member.server.endswith("/clusters/member")
        async with HttpClient(main) as one, HttpClient(member) as two:
            await two.create(NAMESPACE, {"metadata": {"name": "only-in-member"}})
            assert (await two.get(NAMESPACE, "only-in-member")).metadata.name == "only-in-member"
            with pytest.raises(errors.NotFound):
                await one.get(NAMESPACE, "only-in-member")

    run(story())


def test_impersonation_makes_somebody_else_of_the_caller(hub: HubProcess) -> None:
    async def story() -> None:
        config = replace(load(hub.kubeconfig), impersonation=Impersonation("nobody", groups=("g", "h")))
        async with HttpClient(config) as client:
            with pytest.raises(errors.Forbidden, match='User "nobody" cannot list resource "configmaps"'):
                await client.list(CONFIG_MAP)

    run(story())
