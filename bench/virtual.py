"""How fast virtual time runs: a hundred clusters, each renewing its lease once a minute, and controllers that follow.

A minute is the lease of a managed cluster by default.
"""

import asyncio
import time
from datetime import datetime

from echelon.api.coordination import LEASE
from echelon.api.keys import Key
from echelon.engine.plan import NOTHING, Emit, Plan
from echelon.fleet.loop import running
from echelon.fleet.simulation import Component, Scenario, World, simulate
from echelon.kube.client import Client, MergePatch
from echelon.kube.controller import Controller
from echelon.kube.faults import NO_FAULTS
from echelon.kube.informer import Informer
from echelon.kube.metrics import Metrics

CLUSTERS = 100
LEASE_SECONDS = 60.0
_HOURS = 1
_BEGUN = "begun"


class _Looks:
    """A reconciler that finds nothing to do."""

    def plan(self, key: Key, now: datetime) -> Plan:
        del key, now
        return NOTHING


class _Silent:
    async def emit(self, event: Emit) -> None:
        del event


async def _renew(client: Client) -> None:
    loop = running()

    def spec() -> dict[str, object]:
        renewed = loop.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"holderIdentity": "agent", "leaseDurationSeconds": int(LEASE_SECONDS), "renewTime": renewed}

    body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": {"name": "cluster"}, "spec": spec()}
    await client.create(LEASE, body, "default")
    while True:
        await asyncio.sleep(LEASE_SECONDS * loop.random.uniform(0.9, 1.1))
        await client.patch(LEASE, "cluster", MergePatch({"spec": spec()}), "default")


async def _follow(*clients: Client) -> None:
    loop, metrics = running(), Metrics()  # a process has one set of metrics
    async with asyncio.TaskGroup() as group:
        for number, client in enumerate(clients):
            informer = Informer(client, LEASE, "default", random=loop.random, metrics=metrics)
            controller = Controller(
                f"leases {number}",
                _Looks(),
                client,
                loop.clock,
                recorder=_Silent(),
                random=loop.random,
                metrics=metrics,
            )
            controller.watch(informer)
            group.create_task(informer.run())
            group.create_task(controller.run())


async def _build(world: World) -> None:
    names = [f"cluster-{number:03d}" for number in range(CLUSTERS)]
    for name in names:
        await world.add_cluster(name)
    for name in names:
        world.start(Component(f"agent of {name}", _renew, (name,)))
    world.start(Component("controllers", _follow, tuple(names)))
    world.memory[_BEGUN] = time.process_time()


def factor() -> float:
    """Return how many virtual seconds pass in a second of CPU time, once the clusters are there."""
    worlds: list[World] = []

    def nothing_is_missing(world: World) -> None:
        worlds.append(world)

    half = _HOURS * 3600 / 2
    scenario = Scenario(
        "a hundred clusters",
        _build,
        nothing_is_missing,
        chaos_seconds=half,
        silence_seconds=half,
        kill_seconds=None,
    )
    outcome = simulate(scenario, 1, NO_FAULTS)
    begun: float = worlds[-1].memory[_BEGUN]
    return outcome.seconds / (time.process_time() - begun)
