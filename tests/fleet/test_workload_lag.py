"""Budgets hold over members whose ReplicaSets hear late of what their Deployment has told them."""

import pytest

from echelon.fleet.loop import run
from echelon.fleet.member.profile import Pace
from echelon.hub.storage.store import Change
from echelon.kube.client import EventType
from tests.fleet.pod_counter import Limits
from tests.fleet.workload_fleet import WorkloadFleet, workload_fleet, workload_spec

pytestmark = pytest.mark.full

REPLICAS, UNAVAILABLE, SURGE = 15, 2, 1


class Told:
    """How many pods the ReplicaSets of all members are told to have: a real Deployment counts these and no others."""

    def __init__(self, here: WorkloadFleet) -> None:
        self.highest = 0
        self._sizes: dict[tuple[str, str], int] = {}
        for name in here.names:
            self._follow(here, name)

    def _follow(self, here: WorkloadFleet, cluster: str) -> None:
        def committed(change: Change) -> None:
            key = change.entry.key
            if key.resource != "replicasets.apps" or not key.name.startswith("demo-"):
                return
            gone = change.type is EventType.DELETED
            self._sizes[cluster, key.name] = 0 if gone else change.entry.object["spec"]["replicas"]
            self.highest = max(self.highest, sum(self._sizes.values()))

        here.fleet.members[cluster].cluster.store.on_commit(committed)


def test_budgets_hold_although_replica_sets_lag() -> None:
    async def main() -> None:
        pace = Pace(start=3.0, lag=4.0)
        async with workload_fleet(3, Limits(0, 1 << 30), seconds=2.0, pace=pace) as here:
            first, second, third = here.names
            told = Told(here)
            await here.bind("Deployment", {first: 4, second: 6, third: 5})
            await here.make("Deployment", workload_spec("Deployment", "web:1", REPLICAS, UNAVAILABLE, SURGE))
            await here.until(lambda: here.is_complete("web:1", REPLICAS))
            here.counter.measure()
            await here.roll_out("Deployment", "web:2")
            await here.until(lambda: here.is_complete("web:2", REPLICAS))
            await here.roll_out("Deployment", "web:3")
            await here.until(lambda: here.is_complete("web:3", REPLICAS))
            assert here.counter.lowest == REPLICAS - UNAVAILABLE
            assert told.highest == REPLICAS + SURGE

    run(main())
