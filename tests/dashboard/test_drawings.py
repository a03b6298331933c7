"""Rollouts on the dashboard, in virtual time: what a page puts together from what it is sent is what there is."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar, Unpack, cast

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.dashboard.details import encoded, rollout_details
from echelon.dashboard.feed import ROLLOUTS, Feed
from echelon.dashboard.rows import rollout_row
from echelon.dashboard.waves import wave_rows
from echelon.engine.rollout.control import PAUSED
from echelon.kube.client import Client, ListOptions, Page
from echelon.rollouts.glance import NOTE, glance
from echelon.rollouts.kinds import find
from tests.controllers.hub import NS
from tests.controllers.work_world import WorkWorld, per_group, progressive, told

T = TypeVar("T")
KIND, NAME = MANIFEST_WORK_REPLICA_SET.singular, "web"
ROW = f"{MANIFEST_WORK_REPLICA_SET.resource}/{NS}/{NAME}"
GROUPS = [("canary", ["a", "b"]), ("rest", ["c", "d", "e"])]
OTHER_GROUPS = [("canary", ["b"]), ("rest", ["a", "c", "e"])]


class Hesitant:
    """A hub that takes its time to list works, and counts who asks."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.lists = asyncio.Event()
        self.asked = 0

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        if kind.resource == MANIFEST_WORK.resource:
            self.asked += 1
            await self.lists.wait()
        return await self._client.list(kind, namespace, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class OpenPage:
    """A page with the rollout open: it keeps what the feed says, and asks for the clusters when a row is new."""

    def __init__(self, feed: Feed, queue: "asyncio.Queue[bytes]") -> None:
        self._feed, self._queue = feed, queue
        self.row: Any = None
        self.version = ""
        self.waves: list[list[Any]] = []
        self.sent: list[int] = []  # rows of clusters in each answer

    def hear(self) -> bool:
        """Take what was sent. Return whether the rollout is another one."""
        before = self.row
        while not self._queue.empty():
            message = json.loads(self._queue.get_nowait().removeprefix(b"data: "))
            change = message.get(ROLLOUTS, {"set": {}, "gone": []})
            self.row = change["set"].get(ROW, None if message.get("full") or ROW in change["gone"] else self.row)
        return bool(self.row != before)

    async def look(self) -> None:
        if not self.hear():
            return
        drawing = await self._feed.drawings.details(KIND, NS, NAME)
        waves = self._feed.drawings.watch(drawing)
        answer = json.loads(encoded(rollout_details(drawing, waves, self.version, ())))["clusters"]
        self.version, self.waves = answer["version"], answer.get("rows", self.waves)
        for wave, place, row in answer.get("changed", ()):
            self.waves[wave][place] = row
        self.sent.append(sum(map(len, answer["rows"])) if "rows" in answer else len(answer["changed"]))


@asynccontextmanager
async def watching(world: WorkWorld, client: Any = None) -> AsyncIterator[tuple[Feed, OpenPage]]:
    seen = cast("Client", client or world.hub.client)
    feed = Feed(seen, random=Random(0), now=world.hub.clock.now)  # noqa: S311 - repeatable on purpose
    task = asyncio.create_task(feed.run())
    try:
        async with feed.page() as queue:
            yield feed, OpenPage(feed, queue)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def compare(world: WorkWorld, page: OpenPage) -> None:
    """See that a page shows what somebody sees who draws everything from nothing."""
    _, found = await find(world.hub.client, f"{KIND}/{NAME}", NS)
    picture = found.picture(world.hub.clock.now())
    expected: JSONObject = json.loads(encoded(rollout_row(picture, found.subject.metadata.creation_timestamp or "")))
    assert {key: value for key, value in page.row.items() if key != "version"} == expected
    assert page.waves == json.loads(encoded(wave_rows(picture)))


async def look_for(world: WorkWorld, page: OpenPage, seconds: int) -> None:
    """Let time pass, and a page ask whenever it hears of something."""
    for _ in range(seconds):
        await world.settle(1)
        await page.look()


def test_clusters_and_what_a_rollout_says_of_itself_are_there_before_its_works_are_listed() -> None:
    async def story(world: WorkWorld) -> None:
        await world.hub.cluster("a")
        await world.place(GROUPS)
        world.start()
        await world.roll_out(progressive(maxConcurrency=2))
        await world.settle()
        await world.report("a")
        await world.settle()
        hub = Hesitant(world.hub.client)
        async with watching(world, hub) as (feed, page):
            await world.settle(3)
            assert hub.asked == 1, "works are not asked for, or again and again"
            assert json.loads(feed.snapshot().removeprefix(b"data: "))["clusters"]["set"].keys() == {"a"}
            page.hear()
            assert page.row["note"] == NOTE
            assert (page.row["state"], page.row["total"]) == ("rolling out", 5)
            assert page.row["counts"] == {"done": 1, "in flight": 2, "waiting": 2}
            assert page.row["groups"] == []
            hub.lists.set()
            await look_for(world, page, 3)
            assert page.row["note"] == ""
            await compare(world, page)

    told(story)


def test_a_change_of_one_work_sends_the_row_of_that_cluster_and_no_other() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", [f"c{number}" for number in range(30)])])
        world.start()
        await world.roll_out()
        await world.settle()
        async with watching(world) as (_, page):
            await look_for(world, page, 3)
            assert page.sent[0] == 30
            await look_for(world, page, 60)  # ages are others by now
            del page.sent[:]
            await world.report("c7", applied="False")
            await look_for(world, page, 8)
            assert sum(page.sent) == 1
            await compare(world, page)

    told(story)


def test_a_rollout_that_somebody_has_open_does_not_wait_for_the_others() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place(GROUPS)
        world.start()
        for name in ("first", NAME, "last"):
            await world.roll_out(name=name)
        await world.settle()
        async with watching(world) as (feed, page):
            await look_for(world, page, 3)
            feed.drawings.clock()
            assert set(await feed.drawings.redraw(0.0)) == {ROW}
            assert len(await feed.drawings.redraw(60.0)) == 2
            assert not feed.drawings.stale

    told(story)


def test_a_page_of_another_feed_is_told_everything() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place(GROUPS)
        world.start()
        await world.roll_out()
        await world.settle()
        async with watching(world) as (_, page):
            await look_for(world, page, 3)
            version = page.version
        async with watching(world) as (_, page):
            page.version = version  # of the same number of changes, and of rows that nobody has any more
            await look_for(world, page, 3)
            await compare(world, page)

    told(story)


Step = Callable[[WorkWorld], Awaitable[Any]]


def report(cluster: str, **said: str) -> Step:
    async def step(world: WorkWorld) -> None:
        if cluster in await world.works():
            await world.report(cluster, **said)

    return step


CLUSTERS = st.sampled_from("abcde")
STEPS = st.one_of(
    CLUSTERS.map(report),
    CLUSTERS.map(lambda cluster: report(cluster, applied="False")),
    CLUSTERS.map(lambda cluster: report(cluster, degraded="True")),
    CLUSTERS.map(lambda cluster: report(cluster, progressing="True")),
    st.sampled_from("23").map(lambda version: lambda world: world.upgrade(version)),
    st.sampled_from([GROUPS, OTHER_GROUPS]).map(lambda groups: lambda world: world.decide(groups)),
    st.sampled_from(["true", None]).map(lambda paused: lambda world: world.annotate({PAUSED: paused})),
    st.just(lambda world: world.finish()),
)
STRATEGIES = st.sampled_from([progressive(maxConcurrency=2), progressive(maxConcurrency=1, maxFailures=3), per_group()])


@given(strategy=STRATEGIES, steps=st.lists(STEPS, max_size=8))
def test_what_a_page_was_sent_is_what_is_drawn_from_nothing(strategy: JSONObject, steps: list[Step]) -> None:
    async def story(world: WorkWorld) -> None:
        await world.place(GROUPS)
        world.start()
        await world.roll_out(strategy)
        async with watching(world) as (_, page):
            await look_for(world, page, 10)
            await compare(world, page)
            for step in steps:
                await step(world)
                await look_for(world, page, 7)  # until everything was drawn anew, whatever the clock says
                await compare(world, page)
                document = await world.hub.client.get(MANIFEST_WORK_REPLICA_SET.untyped(), NAME, NS)
                assert glance(document).counts == page.row["counts"], "the status of a controller at rest is behind"

    told(story, quiet=False)
