"""Objects that do not fit the type as which somebody asks for them, through every transport."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Annotated, Any

import msgspec
import pytest

from echelon.api.core import CONFIG_MAP as TYPED
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.errors import Unreadable
from echelon.kube.informer import Informer
from tests.conformance.asking import CONFIG_MAP, config_map

LONG = "longer than three"


class Short(msgspec.Struct, frozen=True):
    """A ConfigMap for somebody who believes that values have at most three characters."""

    metadata: ObjectMeta
    data: dict[str, Annotated[str, msgspec.Meta(max_length=3)]] = {}


SHORT: Kind[Short] = replace(TYPED, type=Short)  # type: ignore[arg-type,assignment]  # the same objects, seen by others


async def make(client: Client, namespace: str, **values: str) -> None:
    for name, value in values.items():
        await client.create(CONFIG_MAP, config_map(name, {"value": value}), namespace)


async def change(client: Client, namespace: str, name: str, value: str) -> str:
    changed: Any = await client.patch(CONFIG_MAP, name, MergePatch({"data": {"value": value}}), namespace)
    version: str = changed["metadata"]["resourceVersion"]
    return version


async def test_a_list_has_what_fits_and_tells_what_does_not(client: Client, namespace: str) -> None:
    await make(client, namespace, a="one", b=LONG, c="two")
    page = await client.list(SHORT, namespace, fields="metadata.name!=kube-root-ca.crt")
    assert [each.metadata.name for each in page.readable] == ["a", "c"]
    (misfit,) = page.unreadable
    assert (misfit.metadata.name, misfit.metadata.namespace) == ("b", namespace)
    assert misfit.metadata.uid
    assert misfit.metadata.resource_version
    assert "$.data[...]" in misfit.why
    assert LONG not in misfit.why


async def test_whoever_wants_all_objects_of_a_list_is_not_given_some(client: Client, namespace: str) -> None:
    await make(client, namespace, a="one", b=LONG)
    page = await client.list(SHORT, namespace, fields="metadata.name!=kube-root-ca.crt")
    with pytest.raises(Unreadable, match=f"configmaps {namespace}/b cannot be read"):
        _ = page.items


async def test_one_object_that_does_not_fit_is_an_error(client: Client, namespace: str) -> None:
    await make(client, namespace, b=LONG)
    with pytest.raises(Unreadable):
        await client.get(SHORT, "b", namespace)


async def test_a_stream_goes_on_after_what_does_not_fit(client: Client, namespace: str) -> None:
    start = (await client.list(SHORT, namespace, limit=1)).resource_version
    await make(client, namespace, a="one", b=LONG, c="two")
    await client.delete(CONFIG_MAP, "b", namespace)
    seen: list[tuple[EventType, str, str]] = []
    async for event in client.watch(SHORT, namespace, resource_version=start, timeout_seconds=30):
        found: Any = event.object or event.unreadable
        if found is not None and found.metadata.name in "abc":
            assert found.metadata.resource_version == event.resource_version
            seen.append((event.type, found.metadata.name, "fits" if event.object else "does not fit"))
        if len(seen) == 4:
            break
    assert seen == [
        (EventType.ADDED, "a", "fits"),
        (EventType.ADDED, "b", "does not fit"),
        (EventType.ADDED, "c", "fits"),
        (EventType.DELETED, "b", "does not fit"),
    ]


async def test_an_informer_keeps_up_with_all_but_what_does_not_fit(client: Client, namespace: str) -> None:
    await make(client, namespace, a="one", b=LONG, c="two")
    informer = Informer(client, SHORT, namespace, random=Random(1))  # noqa: S311 - repeatable on purpose
    running = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(60):
            await informer.wait_synced()
            assert informer.get(Key(namespace, "a")) is not None
            assert informer.get(Key(namespace, "b")) is None
            assert Key(namespace, "b") in informer.unreadable
            last = [await change(client, namespace, *each) for each in (("a", LONG), ("b", "new"), ("c", "xyz"))]
            while not informer.shows(Key(namespace, "c"), last[-1]):  # noqa: ASYNC110 - another process decides when
                await asyncio.sleep(0.01)
        values = {name: found.data["value"] for name in "abc" if (found := informer.get(Key(namespace, name)))}
        assert values == {"a": "one", "b": "new", "c": "xyz"}
        assert list(informer.unreadable) == [Key(namespace, "a")]
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
