"""New clusters as copies of one that is finished.

Every new cluster has the same namespaces, roles and definitions, and to take each through admission would cost a fleet
of a thousand most of its start. So one cluster is made the long way, and the others get what it has, under identities
of their own. What does not differ is shared, and so a member that does nothing takes little memory.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from random import Random

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers.roles import RoleAggregator
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.hub.storage.store import Change, Entry, Store
from echelon.kube.client import EventType

KRUISE = "apps.kruise.io"
_HISTORY = 1_000  # changes that a member remembers: its watches are few and keep up

_templates: dict[tuple[str, ...], list[Entry]] = {}


def definitions(*groups: str) -> list[JSONObject]:
    """Return the CRDs of some groups that Echelon comes with."""
    return [each for each in registry.crds() if each["spec"]["group"] in groups]


async def clone_cluster(
    name: str, *, clock: Callable[[], datetime] | None = None, seed: int = 0, groups: Sequence[str] = (KRUISE,)
) -> LogicalCluster:
    """Return a new cluster in memory that serves the kinds of some groups besides Kubernetes' own."""
    template = _templates.get(tuple(groups))
    if template is None:
        template = _templates[tuple(groups)] = await make_template(_definer(groups))
    store = Store(None, name, keep_objects=True, history=_HISTORY)
    random = Random(seed)  # noqa: S311 - a simulation wants repeats
    cluster = LogicalCluster(name, store, random=random)
    if clock is not None:
        cluster.clock = clock
    await fill(cluster, template)
    return cluster


async def fill(cluster: LogicalCluster, template: Sequence[Entry]) -> None:
    """Give an empty cluster what a template has."""
    store, now = cluster.store, cluster.timestamp()
    for entry in template:
        obj = entry.object
        meta = {**obj["metadata"], "uid": cluster.new_uid(), "creationTimestamp": now}
        await store.put(entry.key, {**obj, "metadata": meta}, expected=0, like=entry)
    store.compact()  # nobody has seen how it was before


def _definer(groups: Sequence[str]) -> Callable[[InProcessClient], Awaitable[None]]:
    async def define(client: InProcessClient) -> None:
        for each in definitions(*groups):
            await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), each)

    return define


async def make_template(define: Callable[[InProcessClient], Awaitable[None]]) -> list[Entry]:
    """Make what new clusters begin with: what every cluster has, and what is defined there besides."""
    cluster = memory_cluster("template", seed=0)
    await bootstrap(cluster)
    await define(InProcessClient(cluster, ROOT))
    store, roles, reached = cluster.store, RoleAggregator(cluster), 0
    while store.revision > reached:  # roles are made of roles that are made of roles
        reached = store.revision
        for entry in _everything(store):
            roles.follow(Change(EventType.ADDED, entry.revision, entry))
        await roles.work()
    return _everything(store)


def _everything(store: Store) -> list[Entry]:
    entries = [entry for resource in store.resources() for entry in store.list(resource).entries]
    return sorted(entries, key=lambda entry: entry.created)
