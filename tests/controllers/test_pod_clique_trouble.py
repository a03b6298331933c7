"""What a cluster refuses, hides or does twice while a PodCliqueSet is looked after."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from random import Random
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.coordination import LEASE
from echelon.api.core import POD, SERVICE
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.times import format_micro_time
from echelon.controllers.running import NAMES, Controllers, Lease, lease_name
from echelon.fleet.loop import running
from echelon.fleet.member.profile import NodeShape
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT
from echelon.kube.errors import ApiError, Conflict, Forbidden
from echelon.kube.metrics import Metrics
from tests.controllers.clique_world import NS, CliqueWorld, clique, group, now, set_of, told
from tests.controllers.refusing import Refusing

QUOTA = "pods is forbidden: exceeded quota"


class LateSets(InProcessClient):
    """A client whose watch of sets brings everything late, while that of pods does not."""

    seconds = 5.0

    async def watch(self, kind: Kind[Any], namespace: str = "", **options: Any) -> AsyncIterator[Any]:
        async for event in super().watch(kind, namespace, **options):
            if kind.resource == POD_CLIQUE_SET.resource:
                await asyncio.sleep(self.seconds)
            yield event


def refusing(world: CliqueWorld, refuses: Any) -> Refusing:
    client = Refusing(world.client._cluster, ROOT)
    client.refuses = refuses
    world.start(client)
    return client


def test_pods_are_made_from_a_set_that_was_read_after_the_others_went() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start(LateSets(world.client._cluster, ROOT))
        await world.apply(set_of(clique("front", 3, minAvailable=1), strategy="OnDelete"))
        await world.settle()
        await world.roll("v2")
        await world.delete(*world.names()[:2])
        await world.settle()
        assert world.images() == ["v1", "v2", "v2"], "the cache of sets was behind that of pods, and everybody knew it"

    told(story)


def test_a_full_quota_is_told_in_the_status_and_tried_again_more_and_more_seldom() -> None:
    async def story(world: CliqueWorld) -> None:
        def refuse(verb: str, kind: Kind[Any], *_: Any) -> ApiError | None:
            full = verb == "create" and kind.resource == POD.resource and len(world.names()) >= 3
            return Forbidden(QUOTA) if full else None

        client = refusing(world, refuse)
        await world.apply(set_of(clique("front", 2), clique("back", 20, minAvailable=1)))
        await world.settle(1800)
        errors = (await world.set()).status.last_errors
        assert QUOTA in errors[0].description
        assert client.asked < 2 * 60, "two cliques, one pod of each tried a minute, not eighteen"
        assert client.asked > 2 * 20
        client.refuses = None
        await world.settle(180)
        assert world.ready() == 22
        assert (await world.set()).status.last_errors == []

    told(story)


def test_what_is_refused_of_one_clique_is_not_the_trouble_of_another() -> None:
    async def story(world: CliqueWorld) -> None:
        def refuse(verb: str, kind: Kind[Any], _: str, body: JSONObject) -> ApiError | None:
            bad = verb == "create" and kind.resource == POD.resource and "bad" in str(body["spec"]["containers"])
            return Forbidden("this image may not run here") if bad else None

        refusing(world, refuse)
        await world.apply(set_of(clique("front", 2), clique("back", 2, minAvailable=1), strategy="OnDelete"))
        await world.settle()
        await world.roll("bad", "back")
        await world.settle()
        await world.delete(*world.names("w-0-back")[:1], *world.names("w-0-front")[:1])
        await world.settle()
        assert (world.ready("w-0-front"), world.ready("w-0-back")) == (2, 1)
        assert "this image may not run here" in (await world.set()).status.last_errors[0].description
        await world.roll("v3", "back")
        await world.settle()
        assert world.images("w-0-back") == ["v1", "v3"]
        assert (await world.set()).status.last_errors == []

    told(story)


def test_many_pods_that_are_refused_leave_room_for_those_of_other_cliques() -> None:
    async def story(world: CliqueWorld) -> None:
        def refuse(verb: str, kind: Kind[Any], _: str, body: JSONObject) -> ApiError | None:
            bad = verb == "create" and kind.resource == POD.resource and "bad" in str(body["spec"]["containers"])
            return Forbidden("this image may not run here") if bad else None

        client = refusing(world, refuse)
        await world.apply(set_of(clique("many", 450, "bad", minAvailable=1), clique("few", 2)))
        await world.settle(120)
        assert len(world.names("w-0-few")) == 2, "more are refused than one plan makes"
        client.refuses = None
        await world.settle(300)
        assert world.ready() == 452

    told(story, nodes=[NodeShape(cpu="64", pods="800")])


class Keeping(InProcessClient):
    """A client of a server that does not let go of the first pod that is to be deleted."""

    kept = ""

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", **options: Any) -> None:
        if kind.resource == POD.resource:
            self.kept = self.kept or name
            if name == self.kept:
                raise Forbidden("a webhook keeps it")
        await super().delete(kind, name, namespace, **options)


def test_a_pod_that_cannot_be_deleted_does_not_keep_others_that_are_too_many() -> None:
    async def story(world: CliqueWorld) -> None:
        client = Keeping(world.client._cluster, ROOT)
        world.start(client)
        await world.apply(set_of(clique("front", 5, minAvailable=1), strategy="OnDelete"))
        await world.settle()
        await world.scale("w-0-front", 2)
        await world.settle()
        assert len(world.names()) == 3
        assert client.kept in world.names()
        await world.settle(1800)
        await world.scale("w-0-front", 1)
        await world.settle(3)
        assert len(world.names()) == 2, "it is tried more and more seldom, and the other one goes at once"

    told(story)


def test_whoever_asks_for_a_retry_has_what_failed_tried_at_once() -> None:
    async def story(world: CliqueWorld) -> None:
        client = refusing(world, lambda _, kind, *__: Forbidden(QUOTA) if kind is SERVICE else None)
        await world.apply(set_of(clique("front", 1)))
        await world.settle(1800)
        client.refuses = None
        notes = {"metadata": {"annotations": {"echelon.dev/retried-at": format_micro_time(now())}}}
        await world.patch(POD_CLIQUE_SET, "w", notes)
        await world.settle(3)
        assert [each.metadata.name for each in (await world.client.list(SERVICE, NS)).items] == ["w-0"]

    told(story)


def test_conflicts_are_nothing_to_tell_of() -> None:
    async def story(world: CliqueWorld) -> None:
        left = 40

        def refuse(verb: str, *_: Any) -> ApiError | None:
            nonlocal left
            if verb != "create" and left > 0:
                left -= 1
                return Conflict("the object has been modified") if left % 2 else None
            return None

        refusing(world, refuse)
        await world.apply(set_of(clique("front", 3), clique("work", 2), podCliqueScalingGroups=[group("pool", "work")]))
        await world.settle()
        assert (world.ready(), left) == (7, 0)
        assert (await world.set()).status.last_errors == []

    told(story)


async def hold(world: CliqueWorld, holder: str) -> None:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format_micro_time(now())}
    await world.patch(LEASE, "grove-operator-leader-election", {"spec": spec})


def test_nothing_is_done_while_groves_own_operator_holds_its_lease() -> None:
    async def story(world: CliqueWorld) -> None:
        await world.create(LEASE, "grove-operator-leader-election", spec={})
        world.start()
        await world.apply(set_of(clique("front", 1)))
        await world.settle()
        assert world.ready() == 1, "a lease that nobody holds is no obstacle"
        await hold(world, "grove-7f9")
        await asyncio.sleep(1)
        await world.apply(set_of(clique("front", 1)), "other")
        written = len(world.log.writes)
        for _ in range(60):
            await hold(world, "grove-7f9")
            await asyncio.sleep(2)
        told_of = [each for each in world.log.writes[written:] if "events" not in each]
        assert told_of == []
        notes = [note for reason, note in await world.events() if reason == "GroveAtWork"]
        assert notes[0].endswith(f"grove-7f9 holds the lease {NS}/grove-operator-leader-election")
        await world.settle(30)
        assert world.ready() == 2, "it is gone, and the lease has run out"

    told(story)


def test_of_two_leaders_one_works_and_the_other_takes_over() -> None:
    async def story(world: CliqueWorld) -> None:
        lease = Lease(NS, "echelon-pod-cliques")
        first = world.start(lease=lease, name="first")
        await asyncio.sleep(1)
        world.start(lease=lease, name="second")
        await world.apply(set_of(clique("front", 3)))
        await world.settle()
        assert world.ready() == 3
        first.cancel()
        await world.roll("v2")
        await world.settle(300)
        assert world.images() == ["v2"] * 3

    told(story)


def test_two_that_work_at_once_make_no_index_twice_and_come_to_rest() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        world.start()
        await world.apply(set_of(clique("front", 4), clique("work", 2), podCliqueScalingGroups=[group("pool", "work")]))
        await world.settle()
        await world.roll("v2")
        await world.settle(300)
        await world.scale("w-0-front", 2)
        await world.settle(60)
        assert world.images() == ["v2"] * 6
        assert world.ready() == 6

    for seed in range(3):
        told(story, seed)


def test_a_clique_that_somebody_made_under_our_name_is_told_of_and_left_alone() -> None:
    async def story(world: CliqueWorld) -> None:
        spec = {"roleName": "front", "replicas": 1, "podSpec": {"containers": [{"name": "main", "image": "v0"}]}}
        await world.create(POD_CLIQUE, "w-0-front", spec=spec)
        world.start()
        await world.apply(set_of(clique("front", 1), clique("back", 1)))
        await world.settle(300)
        assert (world.names("w-0-front"), world.ready("w-0-back")) == ([], 0)
        assert "w-0-front" in (await world.set()).status.last_errors[0].description
        await world.delete("w-0-front", kind=POD_CLIQUE)
        await world.settle(timedelta(minutes=3).total_seconds())
        assert world.ready() == 2

    told(story)


def test_the_controller_alone_has_a_lease_of_its_own_and_meets_others_by_their_names() -> None:
    assert lease_name(("pod-cliques",)) == "echelon-pod-cliques"
    assert lease_name(("placement", "pod-cliques")) == lease_name(NAMES) == "echelon-controllers"

    async def story(world: CliqueWorld) -> None:
        world.start(lease=Lease(NS, "echelon-pod-cliques"), name="alone")
        await asyncio.sleep(5)
        for names, lease, found in (
            (("pod-cliques",), Lease(NS, "echelon-pod-cliques"), []),
            (("pod-cliques",), Lease("elsewhere", "echelon-pod-cliques"), [f"alone (lease {NS}/echelon-pod-cliques)"]),
            (("pod-cliques",), None, [f"alone (lease {NS}/echelon-pod-cliques)"]),
            (("cluster-sets", "pod-cliques"), Lease(NS), [f"alone (lease {NS}/echelon-pod-cliques)"]),
            (("cluster-sets",), Lease(NS), []),
        ):
            chance = Random(0)  # noqa: S311 - repeatable on purpose
            other = Controllers(
                world.client, running().clock, names, random=chance, metrics=Metrics(), instance="other"
            )
            assert await other.rivals(lease) == found, (names, lease)

    told(story)


def test_a_roll_waits_for_pods_that_are_refused_no_longer_than_for_others() -> None:
    async def story(world: CliqueWorld) -> None:
        full = False

        def refuse(verb: str, kind: Kind[Any], _: str, body: JSONObject) -> ApiError | None:
            is_pod = verb == "create" and kind.resource == POD.resource
            mine = is_pod and body["metadata"]["labels"]["grove.io/podclique"] == "w-0-front"
            return Forbidden(QUOTA) if full and mine else None

        client = refusing(world, refuse)
        await world.apply(set_of(clique("front", 3, minAvailable=1), replicas=2, strategy="RollingRecreate"))
        await world.settle()
        full = True
        await world.roll("v2")
        await world.settle(570)
        assert world.images("w-0-front") == ["v1", "v1"]
        assert world.images("w-1-front") == ["v1"] * 3, "replica 0 is waited for"
        found = await world.client.get(POD_CLIQUE, "w-0-front", NS)
        assert [each.description.split(",")[0] for each in found.status.last_errors] == ["1 of 3 pods do not exist"]
        await world.settle(60)
        assert world.images("w-0-front") == ["v1"], "one more has gone, and it has ten minutes of its own"
        await world.settle(480)
        assert world.images("w-0-front") == ["v1"]
        assert world.images("w-1-front") == ["v1"] * 3
        await world.settle(240)
        assert await world.condition("UpdateInProgress") == ("True", "ProgressDeadlineExceeded")
        assert world.images("w-0-front") == ["v1"], "the floor"
        assert world.images("w-1-front") == ["v2"] * 3, "nobody waits for replica 0 any longer"
        client.refuses = None
        await world.settle(900)
        assert world.images() == ["v2"] * 6
        found = await world.client.get(POD_CLIQUE, "w-0-front", NS)
        assert found.status.last_errors == []

    told(story)
