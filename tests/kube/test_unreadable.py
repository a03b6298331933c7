"""An informer and objects that do not fit their type: they hide nobody else, and they are not gone."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Annotated, Any

import msgspec
import pytest

from echelon.api.core import CONFIG_MAP
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.fleet.loop import run
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import MergePatch
from echelon.kube.informer import Delta, Informer
from echelon.kube.metrics import Metrics
from echelon.kube.misfits import Misfit

LONG = "longer than three"
A, B = Key("default", "a"), Key("default", "b")


class Short(msgspec.Struct, frozen=True):
    """A ConfigMap for somebody who believes that values have at most three characters."""

    metadata: ObjectMeta
    data: dict[str, Annotated[str, msgspec.Meta(max_length=3)]] = {}


SHORT: Kind[Short] = replace(CONFIG_MAP, type=Short)  # type: ignore[arg-type,assignment]  # the same objects
RAW = CONFIG_MAP.untyped()


@dataclass
class World:
    """A store, an informer of what is in it, and everything that the informer said."""

    cluster: LogicalCluster
    metrics: Metrics = field(default_factory=Metrics)
    told: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = InProcessClient(self.cluster, ROOT)
        self.informer = self.new_informer()

    def new_informer(self) -> Informer[Short]:
        informer = Informer(
            self.client,
            SHORT,
            "default",
            random=Random(1),  # noqa: S311 - repeatable on purpose
            metrics=self.metrics,
        )
        informer.on_change(self._heard)
        informer.on_unreadable(lambda misfit: self._reported(misfit, informer))
        return informer

    def _reported(self, misfit: Misfit, informer: Informer[Short]) -> None:
        still = Key(misfit.metadata.namespace, misfit.metadata.name) in informer.unreadable
        self.reported.append(f"{'unreadable' if still else 'over'}: {misfit.where}")

    def _heard(self, delta: Delta[Short]) -> None:
        sign = "+" if delta.old is None else "-" if delta.new is None else "~"
        self.told.append(sign + delta.object.metadata.name)

    async def create(self, name: str, value: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}
        await self.client.create(RAW, body, "default")

    async def change(self, name: str, value: str) -> None:
        await self.client.patch(RAW, name, MergePatch({"data": {"value": value}}), "default")

    async def delete(self, name: str) -> None:
        await self.client.delete(RAW, name, "default")

    async def lose_the_stream(self) -> None:
        """Have the informer list again: its stream ends, and nobody remembers where it was."""
        await self.create("later", "abc")
        self.cluster.store.compact(self.cluster.store.revision)
        await asyncio.sleep(700)

    def value(self, name: str) -> str | None:
        found = self.informer.get(Key("default", name))
        return found.data["value"] if found is not None else None

    def measured(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"kind": "configmaps"})


@asynccontextmanager
async def working(informer: Informer[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        await informer.wait_synced()
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def told(story: Callable[[World], Awaitable[None]], **before: str) -> World:
    """Tell a story of a store that has some objects already."""

    async def main() -> World:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        world = World(cluster)
        for name, value in before.items():
            await world.create(name, value)
        async with working(world.informer):
            await story(world)
            await asyncio.sleep(1)
        return world

    return run(main())


async def nothing(_: World) -> None:
    """Nothing happens."""


def test_the_others_of_a_list_are_known() -> None:
    world = told(nothing, a="one", b=LONG, c="two")
    assert (world.value("a"), world.value("b"), world.value("c")) == ("one", None, "two")


def test_what_was_never_readable_is_not_taken_for_absent() -> None:
    world = told(nothing, b=LONG)
    assert list(world.informer.unreadable) == [B]
    assert world.told == []


def test_the_last_readable_state_is_kept_and_nobody_is_told_of_an_end() -> None:
    world = told(lambda world: world.change("a", LONG), a="one")
    assert world.value("a") == "one"
    assert A in world.informer.unreadable
    assert world.told == ["+a"]


def test_a_new_list_does_not_end_what_cannot_be_read() -> None:
    async def story(world: World) -> None:
        await world.change("a", LONG)
        await world.delete("c")
        await world.lose_the_stream()

    world = told(story, a="one", b=LONG, c="two")
    assert world.measured("echelon_informer_lists_total") == 2
    assert world.value("a") == "one"
    assert set(world.informer.unreadable) == {A, B}
    assert sorted(world.told) == ["+a", "+c", "+later", "-c"]


def test_what_becomes_readable_again_is_a_change_like_any_other() -> None:
    async def story(world: World) -> None:
        await world.change("a", LONG)
        await world.change("a", "two")
        await world.change("b", "new")

    world = told(story, a="one", b=LONG)
    assert (world.value("a"), world.value("b")) == ("two", "new")
    assert not world.informer.unreadable
    assert world.told == ["+a", "~a", "+b"]


def test_what_is_deleted_while_it_cannot_be_read_is_gone() -> None:
    async def story(world: World) -> None:
        await world.change("a", LONG)
        await world.delete("a")
        await world.delete("b")

    world = told(story, a="one", b=LONG)
    assert (world.value("a"), dict(world.informer.unreadable)) == (None, {})
    assert world.told == ["+a", "-a"]


def test_what_went_while_nobody_looked_is_gone() -> None:
    async def story(world: World) -> None:
        other = world.new_informer()
        async with working(other):
            await world.change("a", LONG)
            await asyncio.sleep(1)
            assert set(other.unreadable) == {A, B}
        await world.delete("a")
        await world.delete("b")
        world.cluster.store.compact(world.cluster.store.revision)
        async with working(other):
            await asyncio.sleep(60)
            assert (other.get(A), dict(other.unreadable)) == (None, {})

    told(story, a="one", b=LONG)


def test_another_object_of_the_same_name_is_not_taken_for_the_one_that_could_be_read() -> None:
    async def story(world: World) -> None:
        await world.delete("a")
        await world.create("a", LONG)

    world = told(story, a="one")
    assert (world.value("a"), list(world.informer.unreadable)) == (None, [A])
    assert world.told == ["+a", "-a"]


def test_the_informer_goes_on_from_after_what_it_could_not_read() -> None:
    async def story(world: World) -> None:
        await world.change("a", LONG)

    world = told(story, a="one")
    assert world.informer.reached == str(world.cluster.store.revision)
    assert world.informer.seen(A) == world.informer.reached
    assert world.measured("echelon_informer_lists_total") == 1


def test_it_is_reported_once_however_often_it_changes_and_is_listed(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        for number in range(5):
            await world.change("b", f"{LONG} {number}")
        await world.lose_the_stream()

    with caplog.at_level(logging.WARNING):
        world = told(story, b=LONG)
    assert world.reported == ["unreadable: configmaps default/b"]
    assert len([record for record in caplog.records if "cannot be read" in record.message]) == 1
    assert "$.data[...]" in caplog.text
    assert LONG not in caplog.text


def test_it_is_reported_when_it_is_over_and_when_it_begins_again() -> None:
    async def story(world: World) -> None:
        await world.change("b", "ok")
        await asyncio.sleep(1)
        await world.change("b", LONG)

    assert told(story, b=LONG).reported == [
        "unreadable: configmaps default/b",
        "over: configmaps default/b",
        "unreadable: configmaps default/b",
    ]


def test_how_many_cannot_be_read_is_measured() -> None:
    async def story(world: World) -> None:
        assert world.measured("echelon_informer_objects") == 2
        assert world.measured("echelon_informer_unreadable") == 1

    told(story, a="one", b=LONG, c="two")


def test_each_informer_is_counted_once_and_only_while_it_runs() -> None:
    async def story(world: World) -> None:
        for _ in range(3):  # as at each election
            async with working(world.new_informer()):
                assert world.measured("echelon_informer_objects") == 4
        assert world.measured("echelon_informer_objects") == 2

    world = told(story, a="one", b="two")
    assert world.measured("echelon_informer_objects") is None
