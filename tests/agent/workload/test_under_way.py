"""What is under way on the member is told, however late its ReplicaSets hear of it."""

from echelon.api.core import POD
from echelon.engine.align.under_way import SPECIFIED_DELETE
from echelon.fleet.member.profile import Pace
from tests.agent.workload.world import World, manifest, told

LATE = Pace(start=2.0, spread=0.0, stop=0.5, lag=100.0)


def test_a_pause_that_is_observed_is_not_settled_until_its_replica_sets_are_at_size() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1, replicas=4, unavailable=2, surge=0))
        await here.settle(200)
        await here.write(manifest(2, "web:2", replicas=4, unavailable=2, surge=0))
        await here.settle(1)
        await here.write(manifest(3, "web:2", replicas=4, unavailable=2, surge=0, paused=True))
        await here.settle(1)
        views = [each for each in here.snapshots if each.push_id == 3]
        assert views
        assert all(each.observed and not each.settled for each in views[1:])
        # Two old pods are to go and are there, and two new ones are to come.
        assert (views[-1].pods, views[-1].told, views[-1].available) == (6, 4, 4)
        await here.settle(300)
        view = await here.snapshot()
        assert (view.push_id, view.settled, view.pods, view.told, view.available) == (3, True, 4, 4, 4)

    told(story, pace=LATE)


def test_marked_pods_of_a_clone_set_are_under_way() -> None:
    async def story(here: World) -> None:
        body = manifest(1, replicas=4, surge=0, kind="CloneSet", api_version="apps.kruise.io/v1alpha1")
        await here.send(body)
        pods = (await here.member.client.list(POD, "default")).items
        assert (await here.snapshot()).settled
        assert here.simulated is not None
        here.simulated.stop()  # nobody carries the mark out
        await here.member.patch(POD, pods[0].metadata.name, {"metadata": {"labels": {SPECIFIED_DELETE: "true"}}})
        await here.settle()
        view = await here.snapshot()
        assert (view.pods, view.available, view.settled) == (4, 4, False)

    told(story)
