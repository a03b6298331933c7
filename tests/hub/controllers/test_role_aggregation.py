"""Whatever becomes of roles, in whatever order: aggregated ones have the rules of those that they collect."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.hub.access.aggregation import aggregate
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers import roles
from echelon.hub.controllers.roles import RoleAggregator
from echelon.hub.server import memory_cluster
from echelon.hub.storage.store import Key
from tests.examples import examples

ROLES = "clusterroles.rbac.authorization.k8s.io"
NAMES, LABELS = ["a", "b", "c"], ["into-a", "into-b"]

# A role is given labels, rules, and perhaps a label that it collects by; or it goes.
steps = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.none()
        | st.tuples(
            st.sampled_from([(), *((each,) for each in LABELS), LABELS]),
            st.sampled_from(["pods", "nodes"]),
            st.sampled_from([None, *LABELS]),
        ),
    ),
    min_size=3,
    max_size=20,
)


def role(name: str, labels: Iterable[str], resource: str, collected: str | None) -> JSONObject:
    rule = {"apiGroups": [""], "resources": [resource], "verbs": ["get"]}
    body: JSONObject = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "uid": name, "labels": dict.fromkeys(sorted(labels), "true")},
        "rules": [rule],
    }
    if collected is not None:
        body["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {collected: "true"}}]}
    return body


async def make(cluster: LogicalCluster, name: str, made: tuple[Any, ...] | None) -> None:
    key = Key(ROLES, "", name)
    before = cluster.store.latest(key)
    if made is not None:
        await cluster.store.put(key, role(name, *made))
    elif before is not None:
        await cluster.store.remove(key, before.object)


def left_to_do(cluster: LogicalCluster) -> dict[str, list[JSONObject]]:
    return aggregate(entry.object for entry in cluster.store.list(ROLES).entries)


@examples(200)
@given(steps)
def test_aggregated_roles_are_up_to_date_after_every_change(changes: list[tuple[str, Any]]) -> None:
    async def live() -> None:
        cluster = memory_cluster(seed=0)
        aggregator = RoleAggregator(cluster)
        cluster.store.on_commit(aggregator.follow)
        for name, made in changes:
            await make(cluster, name, made)
            for _ in range(len(NAMES) + 1):  # what was written may be collected in turn
                await aggregator.work()
            assert not left_to_do(cluster)

    asyncio.run(live())


def test_a_role_that_nobody_collects_leads_to_no_look_at_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(found: Iterable[JSONObject]) -> dict[str, list[JSONObject]]:
        nonlocal looks
        looks += 1
        return aggregate(found)

    monkeypatch.setattr(roles, "aggregate", counted)

    async def live() -> None:
        cluster = memory_cluster(seed=0)
        aggregator = RoleAggregator(cluster)
        cluster.store.on_commit(aggregator.follow)
        await make(cluster, "a", ((), "pods", "into-a"))
        for _ in range(2):  # what it writes is a change, too
            await aggregator.work()
        before = looks
        for number in range(20):
            await make(cluster, f"of-cluster-{number}", (("cluster",), "pods", None))
            await aggregator.work()
        assert looks == before
        await make(cluster, "b", (("into-a",), "nodes", None))
        await aggregator.work()
        assert looks > before

    asyncio.run(live())
