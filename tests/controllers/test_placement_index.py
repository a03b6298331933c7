"""What controllers know besides their caches: a handler that fails once leaves it wrong for a moment only."""

from collections.abc import Iterable
from unittest.mock import patch

from echelon.api.cluster import ManagedCluster
from echelon.api.keys import Key
from echelon.controllers.placement.index import PlacementIndex
from echelon.kube.informer import Delta
from tests.controllers.hub import Hub, told


def test_a_change_whose_handler_failed_is_made_good() -> None:
    def failing(index: PlacementIndex, delta: Delta[ManagedCluster]) -> Iterable[Key]:
        if delta.object.metadata.name in failures:
            failures.remove(delta.object.metadata.name)
            raise RuntimeError("a handler that fails once")
        return followed(index, delta)

    followed, failures = PlacementIndex.cluster_changed, {"missed"}

    async def story(hub: Hub) -> None:
        await hub.bound_set()
        hub.start()
        await hub.place()
        await hub.clusters(["a"])
        await hub.settle()
        await hub.clusters(["missed"])
        await hub.settle(10)
        assert failures == set()
        assert await hub.selected() == ["a", "missed"]

    with patch.object(PlacementIndex, "cluster_changed", failing):
        told(story)
