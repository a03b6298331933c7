"""A cluster that does not answer is asked less and less often, and that it does not is said once."""

import asyncio
import logging
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from echelon.agent.member_kinds import LAST_PAUSE_SECONDS, ensure_served
from echelon.api.work import APPLIED_MANIFEST_WORK
from echelon.fleet.loop import run, running
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.errors import Unavailable


def test_a_cluster_that_is_away_is_asked_seldom_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[float] = []

    async def story() -> None:
        cluster = memory_cluster(clock=running().clock.now, seed=1)
        await bootstrap(cluster)
        client = InProcessClient(cluster, ROOT)
        plain = client.list

        async def away(kind: Any, namespace: str = "", **options: Any) -> Any:
            asked.append(asyncio.get_running_loop().time())
            if asked[-1] - asked[0] < 600:
                raise Unavailable("the cluster is away")
            return await plain(kind, namespace, **options)

        client.list = away  # type: ignore[method-assign]  # a cluster that does not answer
        await ensure_served(client, APPLIED_MANIFEST_WORK, Random(1))  # noqa: S311 - jitter is no secret

    with caplog.at_level(logging.WARNING):
        run(story(), 1)
    assert 20 < len(asked) < 50
    gaps = [after - before for before, after in pairwise(asked)]
    assert max(gaps) <= LAST_PAUSE_SECONDS
    assert len({round(gap, 3) for gap in gaps[-10:]}) > 5
    assert [each.getMessage() for each in caplog.records] == [
        "the cluster cannot be asked for appliedmanifestworks: the cluster is away"
    ]
