"""Work sets on hubs that do not take some of their writes: budgets hold, deadlines run, and the status tells."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.kinds import Kind
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.rollout.failed_writes import FAILED_WRITES, FailedWrite, decode
from echelon.hub.controllers import run_controllers
from echelon.kube.client import DeleteOptions
from echelon.kube.errors import ApiError, Forbidden, Invalid, TooManyRequests, Unavailable
from echelon.rollouts.kinds import find
from echelon.rollouts.picture import Picture, draw
from tests.controllers.hub import NS
from tests.controllers.refusing import Refusal, Refusing, start_refusing
from tests.controllers.work_world import WorkWorld, progressive, told

SIX = ["a", "b", "c", "d", "e", "f"]


def works_of(*clusters: str, error: Callable[[], ApiError]) -> Refusal:
    """Take no content for these clusters."""

    def refuses(_: str, kind: Kind[Any], namespace: str, body: JSONObject) -> ApiError | None:
        refused = kind.resource == MANIFEST_WORK.resource and namespace in clusters and "spec" in body
        return error() if refused else None

    return refuses


def start(world: WorkWorld, refuses: Refusal | None = None, seconds: float = 0.0) -> Refusing:
    """Start the controller of work sets on such a server."""
    return start_refusing(world.hub, "work-sets", refuses, seconds)


async def stored(world: WorkWorld) -> set[str]:
    return set(decode((await world.set()).metadata.annotations.get(FAILED_WRITES, "")))


async def drawn(world: WorkWorld) -> Picture:
    """Return what the command line shows."""
    _, found = await find(world.hub.client, "web", NS)
    return draw(found.subject, found.objects, world.hub.clock.now())


def forbidden() -> ApiError:
    return Forbidden('manifestworks "web" is forbidden: quota exceeded')


def test_one_refused_cluster_stops_a_rollout_that_tolerates_no_failure_and_a_restart_does_not_loosen_it() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", SIX)])
        refusing = works_of("b", error=forbidden)
        start(world, refusing)
        await world.roll_out(progressive(maxConcurrency=2, maxFailures=0))
        await world.settle()
        assert await world.at("1") == ["a"]
        assert await world.standing("b") == ("Failed", "WriteRefused")
        assert await world.said("RolloutBlocked") == ("True", "MaxFailuresExceeded")
        assert await stored(world) == {"b"}
        picture = await drawn(world)
        assert picture.state == "stopped"
        (line,) = [each for group in picture.groups for each in group.clusters if each.name == "b"]
        assert (line.state, line.message.partition(";")[0]) == ("failed", str(forbidden()))
        for _ in range(5):  # retries come and go, agents report, processes end: nobody else starts
            await world.finish()
            await world.settle(100)
            await world.hub.stop()
            start(world, refusing)
            await world.settle()
            assert await world.at("1") == ["a"]
            assert await world.said("RolloutBlocked") == ("True", "MaxFailuresExceeded")
        await world.hub.stop()

    told(story, quiet=False)


def test_a_refused_cluster_is_told_with_the_words_of_the_server_and_gets_its_work_when_it_is_taken() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        client = start(world, works_of("a", error=forbidden))
        await world.roll_out()
        await world.settle()
        condition = await world.condition("PlacementVerified")
        assert "quota exceeded" in condition.message
        rollout = (await world.set()).status.rollout
        assert rollout is not None
        assert next(each.message for each in rollout.clusters if "a" in each.names) == str(forbidden())
        assert await world.at("1") == ["b"]
        client.refuses = None
        await world.settle(70)
        assert await world.at("1") == ["a", "b"]
        assert await stored(world) == set()
        assert FAILED_WRITES not in (await world.set()).metadata.annotations
        await world.finish()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")

    told(story)


@pytest.mark.parametrize(
    "error",
    [
        lambda: Unavailable("the webhook does not answer"),
        lambda: TooManyRequests("too many requests"),
        lambda: ApiError("failed calling webhook: context deadline exceeded"),
    ],
)
def test_a_cluster_whose_write_gets_no_answer_runs_against_its_deadline_and_the_rest_goes_on(
    error: Callable[[], ApiError],
) -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b", "c"])])
        start(world, works_of("a", error=error))
        await world.roll_out(progressive(maxConcurrency=1, maxFailures=1, progressDeadline="1m"))
        await world.settle()
        assert await world.at("1") == []
        assert await world.standing("a") == ("Progressing", "WriteFailed")
        await world.settle(60)
        assert await world.standing("a") == ("TimeOut", "ProgressDeadlineExceeded")
        assert await world.at("1") == ["b"]
        await world.finish()
        assert await world.at("1") == ["b", "c"]
        await world.hub.stop()

    told(story, quiet=False)


def test_a_deadline_runs_from_the_first_attempt_through_retries_and_restarts() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        refusing = works_of("a", error=lambda: Unavailable("away"))
        start(world, refusing)
        await world.roll_out(progressive(maxConcurrency=1, maxFailures=0, progressDeadline="10m"))
        for _ in range(11):
            await world.settle(60)
            await world.hub.stop()
            start(world, refusing)
        await world.settle()
        assert await world.standing("a") == ("TimeOut", "ProgressDeadlineExceeded")
        assert await world.said("RolloutBlocked") == ("True", "MaxFailuresExceeded")
        assert await world.at("1") == []
        await world.hub.stop()

    told(story, quiet=False)


def test_a_cluster_that_timed_out_unwritten_is_written_only_into_a_free_slot() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b", "c"])])
        client = start(world, works_of("a", error=forbidden))
        await world.roll_out(progressive(maxConcurrency=1, maxFailures=1, progressDeadline="1m"))
        await world.settle(62)
        assert await world.at("1") == ["b"]
        client.refuses = None
        await world.settle(50)  # it would be taken now, but b has the only slot
        assert await world.at("1") == ["b"]
        for _ in range(3):
            await world.finish()
            await world.settle(70)
        assert await world.at("1") == ["a", "b", "c"]

    told(story)


def test_everywhere_at_once_the_status_tells_of_a_failing_webhook_too() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", SIX)])
        client = start(world, works_of(*SIX, error=lambda: Unavailable("the webhook does not answer")))
        await world.roll_out()
        await world.settle()
        assert await world.said("PlacementRolledOut") == ("False", "Progressing")
        assert {await world.standing(each) for each in SIX} == {("Progressing", "WriteFailed")}
        assert await stored(world) == set(SIX)
        asked = client.asked
        await world.settle(600)
        assert (client.asked - asked) / len(SIX) < 15  # and the server is not asked again and again
        await world.hub.stop()

    told(story, quiet=False)


def test_a_retry_of_a_person_is_tried_at_once() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])
        client = start(world, works_of("a", error=forbidden))
        await world.roll_out()
        await world.settle(300)  # by now there is a minute between tries
        asked = client.asked
        await world.settle(10)
        moment = world.hub.clock.now().isoformat()
        was = client.asked
        await world.annotate({"echelon.dev/retried-at": moment})
        await world.settle(1)
        assert client.asked == was + 1 > asked
        await world.hub.stop()

    told(story, quiet=False)


def test_nothing_that_failed_is_written_while_paused() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])
        client = start(world, works_of("a", error=forbidden))
        await world.roll_out()
        await world.settle()
        await world.annotate({"echelon.dev/paused": "true"})
        await world.settle()
        client.refuses = None
        await world.settle(300)
        assert await world.at("1") == []
        await world.annotate({"echelon.dev/paused": None})
        await world.settle(70)
        assert await world.at("1") == ["a"]

    told(story)


def test_another_revision_starts_without_the_failures_of_the_one_before() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        too_new = "2"

        def refuses(_: str, kind: Kind[Any], namespace: str, body: JSONObject) -> ApiError | None:
            if kind.resource != MANIFEST_WORK.resource or "spec" not in body or namespace != "a":
                return None
            version = body["spec"]["workload"]["manifests"][0]["data"]["version"]
            return Invalid("too new") if version == too_new else None

        start(world, refuses)
        await world.roll_out(progressive(maxConcurrency=1, maxFailures=0))
        await world.settle()
        await world.finish()
        await world.finish()
        await world.upgrade("2")
        await world.settle()
        assert await world.standing("a") == ("Failed", "WriteRefused")
        assert await world.at("2") == []
        await world.upgrade("3")
        await world.settle()
        assert await stored(world) == set()
        assert await world.at("3") == ["a"]

    told(story)


@pytest.mark.parametrize("resource", [CONTROLLER_REVISION.resource, MANIFEST_WORK_REPLICA_SET.resource])
def test_a_revision_or_a_set_that_cannot_be_written_is_told_in_the_status_and_nothing_starts(resource: str) -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])

        def refuses(_: str, kind: Kind[Any], __: str, body: JSONObject) -> ApiError | None:
            refused = kind.resource == resource and "status" not in body
            return Forbidden("the policy of the house says no") if refused else None

        client = start(world, refuses)
        await world.roll_out()
        await world.settle()
        blocked = await world.condition("RolloutBlocked")
        assert (blocked.status, blocked.reason) == ("True", "WriteFailed")
        assert "the policy of the house says no" in blocked.message
        picture = await drawn(world)
        assert (picture.state, picture.over) == ("held", True)
        assert "the policy of the house says no" in picture.message
        assert await world.at("1") == []
        client.refuses = None
        await world.settle(70)
        assert await world.at("1") == ["a"]
        assert await world.said("RolloutBlocked") == ("False", "NotBlocked")

    told(story)


def test_nothing_is_remembered_of_clusters_that_left() -> None:
    def remembered() -> int:
        gc.collect()
        return sum(isinstance(each, FailedWrite) for each in gc.get_objects())

    async def story(world: WorkWorld) -> None:
        await world.place([("", SIX)])
        before = remembered()
        start(world, works_of("a", "b", error=forbidden))
        await world.roll_out()
        await world.settle()
        assert await stored(world) == {"a", "b"}
        assert remembered() > before
        for left in (SIX[1:], SIX[2:]):
            await world.decide([("", left)])
            await world.settle(120)
        assert await stored(world) == set()
        assert remembered() == before
        assert await world.said("RolloutBlocked") == ("False", "NotBlocked")

    told(story)


def test_a_status_that_is_not_taken_is_tried_again_later_each_time() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])
        client = start(world, lambda _, __, ___, body: Unavailable("away") if "status" in body else None)
        await world.roll_out()
        await world.settle(600)
        assert await world.at("1") == ["a"]
        assert 0 < client.asked < 30
        client.refuses = None
        await world.settle(150)
        assert await world.said("PlacementRolledOut") == ("False", "Progressing")

    told(story)


def test_a_set_that_cannot_remove_its_works_says_so_while_it_is_being_deleted() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])

        def refuses(verb: str, kind: Kind[Any], *_: object) -> ApiError | None:
            refused = verb == "delete" and kind.resource == MANIFEST_WORK.resource
            return Forbidden("works are kept here") if refused else None

        client = start(world, refuses)
        await world.roll_out()
        await world.settle()
        await world.hub.delete(MANIFEST_WORK_REPLICA_SET, "web", NS)
        await world.settle()
        conditions = {each.type: each.message for each in (await world.set()).status.conditions}
        assert "works are kept here" in conditions["ManifestworkApplied"]
        client.refuses = None
        await world.settle(70)
        assert not (await world.hub.client.list(MANIFEST_WORK_REPLICA_SET, NS)).items

    told(story)


def test_a_pause_in_the_middle_of_a_large_wave_stops_it_within_a_few_dozen_writes() -> None:
    async def story(world: WorkWorld) -> None:
        many = [f"c{number:03}" for number in range(400)]
        await world.place([("", many)])
        start(world, seconds=1)
        await world.roll_out()
        await asyncio.sleep(3)
        await world.annotate({"echelon.dev/paused": "true"})
        before = len(await world.works())
        await world.settle(60)
        after = len(await world.works())
        assert 0 < before <= after <= before + 64 < len(many)
        assert await world.said("RolloutBlocked") == ("True", "Paused")
        counts = (await world.set()).status.rollout
        assert counts is not None
        assert (counts.progressing, counts.to_apply) == (after, len(many) - after)

    told(story)


def test_a_refusal_in_the_middle_of_a_large_wave_stops_it_soon() -> None:
    async def story(world: WorkWorld) -> None:
        many = [f"c{number:03}" for number in range(400)]
        await world.place([("", many)])
        start(world, works_of(many[50], error=forbidden), seconds=0.1)
        await world.roll_out(progressive(maxConcurrency="100%", maxFailures=0))
        await world.settle(60)
        written = len(await world.works())
        assert 0 < written < 100
        assert await world.said("RolloutBlocked") == ("True", "MaxFailuresExceeded")
        counts = (await world.set()).status.rollout
        assert counts is not None
        assert (counts.progressing, counts.failed, counts.to_apply) == (written, 1, len(many) - written - 1)

    told(story)


def test_a_set_that_left_its_revisions_behind_and_was_made_again_takes_them_over() -> None:
    async def story(world: WorkWorld) -> None:
        keeping = asyncio.create_task(run_controllers(world.hub.client._cluster))
        await world.place([("", ["a"])])
        world.start()
        await world.roll_out()
        await world.settle()
        await world.upgrade("2")
        await world.settle()
        orphan = DeleteOptions(propagation="Orphan")
        await world.hub.client.delete(MANIFEST_WORK_REPLICA_SET, "web", NS, options=orphan)
        await world.settle()
        assert [each.metadata.owner_references for each in await world.revisions()] == [[], []]
        await world.roll_out()
        await world.settle()
        assert await world.at("1") == ["a"]
        uid = (await world.set()).metadata.uid
        assert [[owner.uid for owner in each.metadata.owner_references] for each in await world.revisions()] == [
            [uid],
            [uid],
        ]
        await world.finish()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")
        keeping.cancel()

    told(story)
