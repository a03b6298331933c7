"""Reads a rollout from a hub: all that a controller would look at, once, so that both come to the same conclusions."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from echelon.api.apps import CONTROLLER_REVISION
from echelon.api.base import JSONObject
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.placement.current import PLACEMENT_LABEL
from echelon.engine.rollout.failed_writes import FAILED_WRITES, decode
from echelon.engine.work_set.conditions import BLOCKED, NOT_BOUND, WRITE_FAILED
from echelon.engine.work_set.content import read_content
from echelon.engine.work_set.names import SET_LABEL, BadSetName, label_of
from echelon.engine.work_set.view import (
    RefView,
    RevisionView,
    WorkSet,
    WorkSetView,
    WriteOutcomes,
    believable,
    read_placement,
    read_revision,
    read_work,
)
from echelon.kube.client import Reader
from echelon.kube.errors import NotFound


@dataclass(frozen=True)
class Found:
    """A work set as it is on the hub, with everything around it."""

    document: JSONObject
    view: WorkSetView
    works: tuple[ManifestWork, ...]


async def sets_in(client: Reader, namespace: str) -> list[JSONObject]:
    """Return the work sets of a namespace; of all if none is named."""
    return list((await client.list(MANIFEST_WORK_REPLICA_SET.untyped(), namespace)).items)


async def read(client: Reader, name: str, namespace: str) -> Found:
    """Return a work set with everything around it."""
    return await around(client, await client.get(MANIFEST_WORK_REPLICA_SET.untyped(), name, namespace))


async def around(client: Reader, document: JSONObject) -> Found:
    """Return what is around a work set."""
    work_set = msgspec.convert(document, WorkSet)
    meta = work_set.metadata
    works, revisions, refs = await asyncio.gather(
        _works(client, meta.namespace, meta.name),
        revisions_of(client, meta.namespace, meta.name),
        asyncio.gather(*(_ref(client, each, meta.namespace) for each in work_set.spec.placement_refs)),
    )
    by_cluster: dict[str, list[Any]] = {}
    for work in works:
        by_cluster.setdefault(work.metadata.namespace, []).append(read_work(work))
    view = WorkSetView(
        work_set,
        read_content(work_set.spec.manifest_work_template),
        tuple(refs),
        {cluster: tuple(each) for cluster, each in by_cluster.items()},
        revisions,
        outcomes=_outcomes(work_set),
        unbound=_unbound(work_set),
    )
    return Found(document, view, works)


async def revisions_of(client: Reader, namespace: str, name: str) -> tuple[RevisionView, ...]:
    """Return the stored templates of a set, oldest first."""
    selector = f"{SET_LABEL}={label_of(namespace, name)}"
    stored = (await client.list(CONTROLLER_REVISION, namespace, labels=selector)).items
    return tuple(sorted(map(read_revision, stored), key=lambda each: each.number))


def _outcomes(work_set: WorkSet) -> WriteOutcomes:
    """Return what the controller has told of its writes that failed."""
    content = decode(work_set.metadata.annotations.get(FAILED_WRITES, ""))
    for each in work_set.status.conditions:
        if (each.type, each.status, each.reason) == (BLOCKED, "True", WRITE_FAILED):
            return WriteOutcomes(content, own=each.message, next_try=datetime.max.replace(tzinfo=UTC))
    return WriteOutcomes(content)


def _unbound(work_set: WorkSet) -> frozenset[str]:
    """Return the clusters that the controller may not write; asking for their sets takes rights that few have."""
    told = work_set.status.rollout
    return frozenset(each.cluster for each in told.clusters if each.reason == NOT_BOUND) if told else frozenset()


async def _works(client: Reader, namespace: str, name: str) -> tuple[ManifestWork, ...]:
    try:
        selector = f"{SET_LABEL}={label_of(namespace, name)}"
    except BadSetName:
        return ()  # its condition says why it has none
    return tuple((await client.list(MANIFEST_WORK, labels=selector)).items)


async def _ref(client: Reader, ref: Any, namespace: str) -> RefView:
    try:
        placement = await client.get(PLACEMENT, ref.name, namespace)
    except NotFound:
        return RefView(ref.name, ref.rollout_strategy, None)
    decisions = (await client.list(PLACEMENT_DECISION, namespace, labels=f"{PLACEMENT_LABEL}={ref.name}")).items
    counting, owned = believable(placement, decisions)
    return RefView(ref.name, ref.rollout_strategy, read_placement(placement, counting, owned=owned))
