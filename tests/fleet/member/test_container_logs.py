"""What a simulated container says of itself, when it is asked for its log."""

import asyncio

from echelon.api.apps import DEPLOYMENT
from echelon.api.batch import JOB
from echelon.fleet.member.machines import log_of
from echelon.fleet.member.trouble import CrashLoop, ImageError
from tests.fleet.member.world import World, told


def said(world: World, *, previous: bool = False) -> list[str] | None:
    lines = log_of(world.pods()[0], "web", previous=previous)
    if lines is None:
        return None
    assert [each.at for each in lines] == sorted(each.at for each in lines)
    assert all(each.at for each in lines)
    return [each.text for each in lines]


def test_a_container_that_runs_says_what_it_would_do() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=1)
        await asyncio.sleep(1)
        assert said(world) is None
        await asyncio.sleep(9)
        name = world.pods()[0]["metadata"]["name"]
        assert said(world) == [
            f"simulated container web of pod {name}",
            "image web:1",
            "would run what the image says",
            "started",
            "ready",
        ]
        assert said(world, previous=True) is None

    told(story)


def test_a_container_that_crashes_says_so_where_its_last_run_is_asked_for() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=1)
        await asyncio.sleep(5)
        assert said(world) is None, "it waits to be started again"
        before = said(world, previous=True) or []
        assert before[3] == "started"
        assert before[-1].startswith("ended with exit code 1")
        seen = set()
        for _ in range(60):
            await asyncio.sleep(0.25)
            seen.update((said(world) or [""])[-1:])
        assert seen == {"", "started, for the 2. time"}

    told(story, CrashLoop())


def test_a_container_that_has_ended_says_how_and_one_without_an_image_says_nothing() -> None:
    async def story(world: World) -> None:
        await world.create(JOB, replicas=None, pod={"restartPolicy": "Never"})
        await asyncio.sleep(60)
        assert (said(world) or [])[-1] == "ended with exit code 0 (Completed)"

    told(story)

    async def without(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=1)
        await asyncio.sleep(60)
        assert said(world) is None

    told(without, ImageError(image="*"))
