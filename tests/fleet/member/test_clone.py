"""A cluster that is a copy of a finished one is like one that was made step by step."""

import asyncio
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kruise import CLONE_SET
from echelon.fleet.loop import run, running
from echelon.fleet.member.clone import clone_cluster
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers import run_controllers
from echelon.hub.server import bootstrap, memory_cluster
from echelon.kube.errors import NotFound


def contents(cluster: LogicalCluster, *, identities: bool = False) -> dict[Any, JSONObject]:
    """Return everything in a cluster but definitions, without what differs from one to the other."""
    own = ("uid", "resourceVersion", "creationTimestamp", "managedFields")
    found = {}
    for resource in cluster.store.resources():
        for entry in () if resource.startswith("customresource") else cluster.store.list(resource).entries:
            meta = {k: v for k, v in entry.object["metadata"].items() if k not in own or (identities and k == "uid")}
            found[entry.key] = {**entry.object, "metadata": meta}
    return found


def test_it_has_what_every_cluster_has_after_its_first_moments() -> None:
    async def main() -> None:
        slow = memory_cluster("slow", clock=running().clock.now, seed=1)
        await bootstrap(slow)
        keeping = asyncio.create_task(run_controllers(slow))
        await asyncio.sleep(1)  # roles are added up
        keeping.cancel()
        assert contents(await clone_cluster("quick", clock=running().clock.now, seed=1)) == contents(slow)

    run(main())


def test_its_keepers_find_nothing_to_do() -> None:
    async def main() -> None:
        cluster = await clone_cluster("quick", clock=running().clock.now, seed=1)
        before = cluster.store.revision
        keeping = asyncio.create_task(run_controllers(cluster))
        await asyncio.sleep(60)
        keeping.cancel()
        assert cluster.store.revision == before

    run(main())


def test_clusters_have_identities_of_their_own_which_a_seed_repeats() -> None:
    async def uids(seed: int) -> set[str]:
        found = contents(await clone_cluster("c", seed=seed), identities=True).values()
        return {obj["metadata"]["uid"] for obj in found}

    async def main() -> None:
        first, second, again = await uids(1), await uids(2), await uids(1)
        assert not first & second
        assert first == again

    run(main())


def test_it_serves_the_kinds_that_were_asked_for() -> None:
    def serves(cluster: LogicalCluster) -> bool:
        try:
            cluster.catalogue.find(CLONE_SET.group, CLONE_SET.version, CLONE_SET.plural)
        except NotFound:
            return False
        return True

    async def main() -> None:
        assert serves(await clone_cluster("c"))
        assert not serves(await clone_cluster("d", groups=()))

    run(main())
