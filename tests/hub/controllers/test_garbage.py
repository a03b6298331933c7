"""Owner references: what goes with its owner, what waits, what stays. In virtual time, so "eventually" is exact."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.core import CONFIG_MAP, EVENT
from echelon.api.namespaces import NAMESPACE
from echelon.fleet.loop import run
from echelon.hub import controllers
from echelon.hub.client import InProcessClient
from echelon.hub.controllers import FOLLOWED_AT_ONCE, run_controllers
from echelon.hub.controllers.garbage import GarbageCollector
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.hub.storage.store import Change, Key
from echelon.kube.client import DeleteOptions, MergePatch
from echelon.kube.errors import NotFound

MAP = CONFIG_MAP.untyped()
SETTLED_SECONDS = 60.0


def in_kept_cluster(story: Callable[[InProcessClient], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        keeping = asyncio.create_task(run_controllers(cluster))
        await story(InProcessClient(cluster, ROOT))
        keeping.cancel()

    run(main())


async def create(
    client: InProcessClient, name: str, owners: Mapping[str, str] | None = None, *, block: bool = True, **meta: Any
) -> str:
    """Create a ConfigMap with owners, given by name and uid; return its uid."""
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": block}
        for owner, uid in (owners or {}).items()
    ]
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": references, **meta},
    }
    uid: str = (await client.create(MAP, body, "default"))["metadata"]["uid"]
    return uid


async def names(client: InProcessClient) -> set[str]:
    await asyncio.sleep(SETTLED_SECONDS)
    return {obj["metadata"]["name"] for obj in (await client.list(MAP, "default")).items}


def test_a_dependent_of_two_owners_stays_with_the_one_that_is_left() -> None:
    async def story(client: InProcessClient) -> None:
        one, two = await create(client, "one"), await create(client, "two")
        await create(client, "child", {"one": one, "two": two})
        await client.delete(MAP, "one", "default")
        assert await names(client) == {"two", "child"}
        child = await client.get(MAP, "child", "default")
        assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["two"]
        await client.delete(MAP, "two", "default")
        assert await names(client) == set()

    in_kept_cluster(story)


def test_an_owner_of_the_same_name_is_not_the_same_owner() -> None:
    async def story(client: InProcessClient) -> None:
        first = await create(client, "owner")
        await client.delete(MAP, "owner", "default")
        await create(client, "owner")
        await create(client, "late", {"owner": first})
        assert await names(client) == {"owner"}

    in_kept_cluster(story)


def test_an_owner_of_a_kind_that_is_not_served_is_no_reason_to_delete() -> None:
    async def story(client: InProcessClient) -> None:
        reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "elsewhere"}
        await create(client, "kept", ownerReferences=[reference])
        assert await names(client) == {"kept"}

    in_kept_cluster(story)


def test_an_owner_in_another_namespace_owns_nothing() -> None:
    async def story(client: InProcessClient) -> None:
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}})
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
        uid = (await client.create(MAP, body, "far"))["metadata"]["uid"]
        await create(client, "child", {"owner": uid})
        assert await names(client) == set()

    in_kept_cluster(story)


def test_an_object_without_a_namespace_is_kept_whatever_owner_in_a_namespace_it_names() -> None:
    async def story(client: InProcessClient) -> None:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "blockOwnerDeletion": True}
        uid = await create(client, "owner")
        for name, its in (("of-one", uid), ("of-nobody", "never-was")):
            metadata = {"name": name, "ownerReferences": [{**owner, "uid": its}]}
            await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        await client.delete(MAP, "owner", "default", options=DeleteOptions(propagation="Foreground"))
        assert await names(client) == set()
        for name, its in (("of-one", uid), ("of-nobody", "never-was")):
            kept = (await client.get(NAMESPACE.untyped(), name))["metadata"]
            assert "deletionTimestamp" not in kept
            assert [reference["uid"] for reference in kept["ownerReferences"]] == [its]
        events = (await client.list(EVENT.untyped(), "default")).items
        assert [(event["reason"], event["type"], event["involvedObject"]["name"]) for event in events] == [
            ("OwnerRefInvalidNamespace", "Warning", "of-nobody"),
            ("OwnerRefInvalidNamespace", "Warning", "of-one"),
        ]
        assert events[0]["message"].startswith("ownerRef [v1/ConfigMap, namespace: ")
        assert events[0]["message"].endswith(' does not exist in namespace ""')

    in_kept_cluster(story)


def test_foreground_deletion_waits_only_for_those_who_block_it() -> None:
    async def story(client: InProcessClient) -> None:
        uid = await create(client, "owner")
        await create(client, "blocking", {"owner": uid}, finalizers=["example.com/hold"])
        await create(client, "free", {"owner": uid}, block=False, finalizers=["example.com/hold"])
        await client.delete(MAP, "owner", "default", options=DeleteOptions(propagation="Foreground"))
        assert await names(client) == {"owner", "blocking", "free"}
        released = MergePatch({"metadata": {"finalizers": None}})
        await client.patch(MAP, "blocking", released, "default")
        assert await names(client) == {"free"}

    in_kept_cluster(story)


def test_what_was_left_half_done_is_finished_by_the_next_controller() -> None:
    async def main() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        client = InProcessClient(cluster, ROOT)
        uid = await create(client, "owner")
        await create(client, "child", {"owner": uid})
        await client.delete(MAP, "owner", "default")  # nobody is keeping yet
        keeping = asyncio.create_task(run_controllers(cluster))
        assert await names(client) == set()
        keeping.cancel()

    run(main())


def test_however_much_there_is_to_look_at_others_have_their_turn_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Key] = []

    class Listening(GarbageCollector):
        def follow(self, change: Change) -> None:
            heard.append(change.entry.key)
            super().follow(change)

    class Steps(list[tuple[float, str]]):
        """Of each step of the event loop: how much was heard before it."""

        def __init__(self) -> None:
            super().__init__()
            self.heard: list[int] = []

        def append(self, _: tuple[float, str]) -> None:
            self.heard.append(len(heard))

    monkeypatch.setattr(controllers, "GarbageCollector", Listening)

    async def main() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        client = InProcessClient(cluster, ROOT)
        for number in range(2 * FOLLOWED_AT_ONCE):
            await create(client, f"m{number}")
        keeping = asyncio.create_task(run_controllers(cluster))
        await asyncio.sleep(SETTLED_SECONDS)
        keeping.cancel()

    steps = Steps()
    run(main(), trace=steps)
    assert len(heard) > 2 * FOLLOWED_AT_ONCE
    assert max(after - before for before, after in pairwise(steps.heard)) == FOLLOWED_AT_ONCE


def test_a_namespace_ends_when_its_last_object_lets_go() -> None:
    async def story(client: InProcessClient) -> None:
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ending"}})
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "stuck", "finalizers": ["example.com/hold"]},
        }
        await client.create(MAP, body, "ending")
        await client.delete(NAMESPACE, "ending")
        await asyncio.sleep(SETTLED_SECONDS)
        left = await client.get(NAMESPACE.untyped(), "ending")
        told = {condition["type"]: condition["message"] for condition in left["status"]["conditions"]}
        assert "configmaps has 1 resource instances" in told["NamespaceContentRemaining"]
        assert "example.com/hold in 1 resource instances" in told["NamespaceFinalizersRemaining"]
        await client.patch(MAP, "stuck", MergePatch({"metadata": {"finalizers": None}}), "ending")
        await asyncio.sleep(SETTLED_SECONDS)
        try:
            await client.get(NAMESPACE, "ending")
        except NotFound:
            return
        raise AssertionError("the namespace is still there")

    in_kept_cluster(story)


@given(
    parents=st.lists(st.sets(st.integers(0, 7), max_size=3), min_size=2, max_size=8),
    deleted=st.sets(st.integers(0, 7), min_size=1, max_size=3),
    propagation=st.sampled_from(["Background", "Foreground"]),
)
def test_what_remains_is_what_still_has_an_owner_or_never_had_one(
    parents: list[set[int]], deleted: set[int], propagation: str
) -> None:
    """Compare with the definition: an object with owners lives as long as one of them does."""
    graph = {child: {owner for owner in owners if owner < child} for child, owners in enumerate(parents)}
    alive: set[int] = set()
    for child, owners in graph.items():  # owners have lower numbers, so they have been decided
        if child not in deleted and (not owners or owners & alive):
            alive.add(child)

    async def story(client: InProcessClient) -> None:
        uids: dict[int, str] = {}
        for child, owners in graph.items():
            uids[child] = await create(client, f"n{child}", {f"n{owner}": uids[owner] for owner in sorted(owners)})
        for number in sorted(deleted & graph.keys()):
            try:
                await client.delete(MAP, f"n{number}", "default", options=DeleteOptions(propagation=propagation))
            except NotFound:
                continue  # its owner was faster
        assert await names(client) == {f"n{number}" for number in alive}

    in_kept_cluster(story)
