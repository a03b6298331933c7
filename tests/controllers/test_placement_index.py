"""What controllers know besides their caches: a handler that fails once leaves it wrong for a moment only."""

from collections.abc import Iterable
from unittest.mock import patch

from echelon.api.cluster import ManagedCluster
from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.controllers.placement.index import OPT_OUT_ANNOTATION, PlacementCaches, PlacementIndex
from echelon.controllers.settings import ControllerSettings
from echelon.kube.clock import Clock
from echelon.kube.informer import Delta
from tests.controllers.hub import NS, Hub, told
from tests.controllers.test_stale_caches import write


def test_a_change_whose_handler_failed_is_made_good() -> None:
    def failing(index: PlacementIndex, delta: Delta[ManagedCluster]) -> Iterable[Key]:
        if delta.object.metadata.name in failures:
            failures.remove(delta.object.metadata.name)
            raise RuntimeError("a handler that fails once")
        return followed(index, delta)

    followed, failures = PlacementIndex.cluster_changed, {"missed"}

    async def story(hub: Hub) -> None:
        await hub.bound_set()
        hub.start(settings=ControllerSettings())  # not strict: a difference is to be put right, not to end it
        await hub.place()
        await hub.clusters(["a"])
        await hub.settle()
        await hub.clusters(["missed"])
        await hub.settle(10)
        assert failures == set()
        assert await hub.selected() == ["a", "missed"]

    with patch.object(PlacementIndex, "cluster_changed", failing):
        told(story)


def test_decisions_of_others_are_known_while_placements_come_and_go() -> None:
    made: list[PlacementIndex] = []
    create = PlacementIndex.__init__

    def recording(index: PlacementIndex, caches: PlacementCaches, clock: Clock) -> None:
        create(index, caches, clock)
        made.append(index)

    async def story(hub: Hub) -> None:
        def counted() -> int:
            (index,) = made
            assert [each for each in index.differences() if each is not None] == []
            return sum(level * len(clusters) for level, clusters in index.scheduler.decisions.levels())

        await hub.bound_set()
        await hub.clusters(["a", "b"])
        hub.start()
        await hub.place()
        await hub.create(PLACEMENT_DECISION, "foreign", NS)
        await write(hub, "foreign", "a", "gone")
        await hub.settle()
        assert counted() == 4
        await hub.patch(PLACEMENT, "p", {"metadata": {"annotations": {OPT_OUT_ANNOTATION: "true"}}}, NS)
        await hub.settle()
        assert counted() == 4
        await hub.delete(PLACEMENT, "p", NS)
        await hub.delete(PLACEMENT_DECISION, "foreign", NS)
        await hub.place()
        await hub.settle()
        assert await hub.selected() != []
        counted()

    with patch.object(PlacementIndex, "__init__", recording):
        told(story)
