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


def test_an_answer_that_is_older_than_a_cache_is_asked_for_again() -> None:
    async def story() -> None:
        cluster = memory_cluster("", clock=running().clock.now, seed=1)
        await bootstrap(cluster)
        client = InProcessClient(cluster, ROOT)
        for definition in (*CLUSTER_CRDS, *CRDS):
            await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        await create(client, NAMESPACE, NS)
        await create(client, PLACEMENT, "p", NS, spec={})
        spec = {"manifestWorkTemplate": template("1"), "placementRefs": [{"name": "p"}]}
        await create(client, MANIFEST_WORK_REPLICA_SET, "web", NS, spec=spec)
        key, cache = Key(NS, "web"), FarAhead()
        reader = ConsistentReader(
            MANIFEST_WORK_REPLICA_SET,
            client,
            [cache],
            clock=running().clock,
            random=running().random,
            on_answer=lambda _: None,
        )
        running_reader = asyncio.create_task(reader.run())
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
        running_reader.cancel()
        await asyncio.wait([running_reader])

    run(story())
