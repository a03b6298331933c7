"""Why a federated workload is not well reaches the hub, and nobody is asked more than that is worth."""

import asyncio

import pytest

from echelon.api.base import JSONObject
from echelon.engine.work.cause import MAX_CAUSE
from echelon.fleet.member.trouble import CrashLoop, ImageError
from echelon.kube.errors import Forbidden
from tests.agent.workload.world import World, manifest, told

BAD = "web:bad"
HEALED = 700.0


def asked(here: World, *resources: str) -> int:
    return sum(verb == "list" and what in resources for verb, what, _ in here.way.requests)


async def cause(here: World) -> str:
    return str((await here.reflected()).get("cause", ""))


def works_written(here: World, mark: int) -> list[str]:
    return [each for each in here.hub.writes_since(mark) if "works" in each]


@pytest.mark.parametrize(
    ("kind", "version"),
    [("Deployment", "apps/v1"), ("StatefulSet", "apps/v1"), ("CloneSet", "apps.kruise.io/v1alpha1")],
)
def test_the_cause_is_in_the_status_of_the_work_stays_as_it_is_and_goes_with_the_trouble(
    kind: str, version: str
) -> None:
    def body(push: int, image: str) -> JSONObject:
        return manifest(push, image, kind=kind, api_version=version, surge=0)

    async def story(here: World) -> None:
        await here.send(body(1, "web:1"))
        assert await cause(here) == ""
        await here.write(body(2, BAD))
        await here.settle(60)
        said = await cause(here)
        assert said.startswith(f'ImagePullBackOff: image "{BAD}"')
        assert "(pod web-" in said
        assert len(said) <= MAX_CAUSE
        mark = len(here.hub.commits)
        await here.stop()
        here.begin()  # who takes over says the same, at once
        await asyncio.sleep(300)
        assert works_written(here, mark) == []
        await asyncio.sleep(HEALED)
        assert await cause(here) == ""
        assert (await here.snapshot()).available == 3

    told(story, troubles=[ImageError(end=HEALED)])


def test_a_container_that_crashes_tells_its_exit_code() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1, BAD))
        await here.settle(120)
        assert (await cause(here)).startswith("CrashLoopBackOff: exit code 1")

    told(story, troubles=[CrashLoop(image=BAD)], quiet=False)


def test_nobody_is_asked_while_all_is_well_and_ever_less_often_while_it_is_not() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        await asyncio.sleep(600)
        assert asked(here, "pods", "events") == 0
        await here.write(manifest(2, BAD, surge=0))
        await asyncio.sleep(300)
        before = asked(here, "pods")
        assert before >= 3
        await asyncio.sleep(3000)
        # And a few times more when the Deployment itself says that it is late.
        assert 40 <= asked(here, "pods") - before <= 55, "once a minute"

    told(story, troubles=[ImageError()], quiet=False)


def test_without_the_right_to_look_the_rest_is_told() -> None:
    async def story(here: World) -> None:
        here.way.refuse("list", "pods", Forbidden("pods is forbidden"))
        await here.send(manifest(1, BAD))
        await asyncio.sleep(120)
        assert await cause(here) == ""
        assert (await here.snapshot()).pods == 3

    told(story, troubles=[ImageError()], quiet=False)
