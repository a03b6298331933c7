"""What a replica answers that lags behind our caches is no answer."""

import asyncio
from dataclasses import dataclass

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.keys import Key
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.engine.plan import ReadRequest
from echelon.fleet.loop import run, running
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from tests.controllers.hub import CRDS as CLUSTER_CRDS
from tests.controllers.hub import NS
from tests.controllers.placement_world import create
from tests.controllers.work_world import CRDS, template


@dataclass
class FarAhead:
    """A cache that has come further than the server."""

    reached: str = "1000000"
    went_back: int = 0


async def reading(cache: FarAhead) -> tuple[ConsistentReader, asyncio.Task[None]]:
    """Return a reader that runs, on a hub with a work set and a placement."""
    cluster = memory_cluster("", clock=running().clock.now, seed=1)
    await bootstrap(cluster)
    client = InProcessClient(cluster, ROOT)
    for definition in (*CLUSTER_CRDS, *CRDS):
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    await create(client, NAMESPACE, NS)
    await create(client, PLACEMENT, "p", NS, spec={})
    spec = {"manifestWorkTemplate": template("1"), "placementRefs": [{"name": "p"}]}
    await create(client, MANIFEST_WORK_REPLICA_SET, "web", NS, spec=spec)
    reader = ConsistentReader(
        MANIFEST_WORK_REPLICA_SET,
        client,
        [cache],
        clock=running().clock,
        random=running().random,
        on_answer=lambda _: None,
    )
    return reader, asyncio.create_task(reader.run())


def test_an_answer_that_is_older_than_a_cache_is_asked_for_again() -> None:
    async def story() -> None:
        key, cache = Key(NS, "web"), FarAhead()
        reader, reads = await reading(cache)
        reader.request(key, ReadRequest(("p",)))
        await asyncio.sleep(5)
        assert reader.answer(key) is None
        assert "older than what is known" in reader.error(key)
        cache.reached = "1"
        await asyncio.sleep(60)
        answer = reader.answer(key)
        assert answer is not None
        assert (answer.generation, list(answer.placements)) == (1, ["p"])
        assert reader.error(key) == ""
        reads.cancel()
        await asyncio.wait([reads])

    run(story())


def test_an_answer_without_placements_has_a_version_too() -> None:
    async def story() -> None:
        key = Key(NS, "web")
        reader, reads = await reading(FarAhead("1"))
        reader.request(key, ReadRequest(()))
        await asyncio.sleep(5)
        answer = reader.answer(key)
        assert answer is not None, reader.error(key)
        assert int(answer.resource_version) > 1
        assert (answer.generation, answer.placements) == (1, {})
        reads.cancel()
        await asyncio.wait([reads])

    run(story())
