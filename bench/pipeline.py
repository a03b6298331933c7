"""Where the time of a create goes inside the hub, without HTTP, TLS and disk.

The stages are the functions that a create runs through, timed one by one on the same objects. A stage that grows shows
as a share that grows, whatever the machine.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bench import fleet
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.crd import crd
from echelon.hub import apply
from echelon.hub.catalogue.resources import custom_resources
from echelon.hub.cluster import LogicalCluster
from echelon.hub.server import ROOT
from echelon.hub.storage.store import Key, Store
from echelon.hub.verbs import admission, writing
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.web import codec

T = TypeVar("T")

_OBJECTS = 2000
_ROUNDS = 5


@dataclass(frozen=True)
class Stage:
    """One step, and what it takes for one object."""

    name: str
    microseconds: float


def create_stages() -> list[Stage]:
    """Time the stages of a create. What they leave of the whole is bookkeeping between them."""
    target = Target(custom_resources(crd(MANAGED_CLUSTER))[0])
    resource, request = target.resource, Request(ROOT, field_manager="bench")
    bodies = [codec.encode(fleet.cluster(number)) for number in range(_OBJECTS)]
    decoded = [fleet.cluster(number) for number in range(_OBJECTS)]
    admitted = [admission.admit_body(resource, body, request) for body in decoded]
    stored = asyncio.run(_stored(target, decoded, request))

    def track(obj: JSONObject) -> list[JSONObject]:
        return apply.track_update(
            None,
            obj,
            resource.schema,
            manager="bench",
            api_version=resource.kind.api_version,
            subresource="",
            now="2026-01-01T00:00:00Z",
        )

    stages = [
        Stage("decode", _best(codec.decode_body, bodies)),
        Stage("check kind, prune, default", _best(lambda body: admission.admit_body(resource, body, request), decoded)),
        Stage("validate", _best(lambda obj: admission.validate(target, obj, None), stored)),
        Stage("managed fields", _best(track, admitted)),
        Stage("encode", _best(codec.encode, stored)),
        Stage("store, without encoding", _store_microseconds(resource.stored_as, stored)),
    ]
    whole = _create_microseconds(target, request, bodies)
    between = max(0.0, whole - sum(stage.microseconds for stage in stages))
    return [*stages, Stage("everything between", between)]


def _cluster() -> LogicalCluster:
    cluster = LogicalCluster("", Store(None, ""))
    cluster.catalogue.serve(crd(MANAGED_CLUSTER))
    return cluster


async def _stored(target: Target, bodies: Sequence[JSONObject], request: Request) -> list[JSONObject]:
    cluster = _cluster()
    return [(await writing.create(cluster, target, body, request)).object for body in bodies]


def _store_microseconds(resource: str, objects: Sequence[JSONObject]) -> float:
    """Time the store in the form in which it keeps objects as they are, so that nothing is encoded."""

    def once() -> float:
        store = Store(None, "", keep_objects=True)
        return _microseconds(lambda obj: store.put(Key(resource, "", obj["metadata"]["name"]), obj), objects)

    return min(once() for _ in range(_ROUNDS))


def _create_microseconds(target: Target, request: Request, bodies: Sequence[bytes]) -> float:
    async def all_of_them(cluster: LogicalCluster) -> None:
        for body in bodies:
            decoded = codec.decode_body(body)
            if isinstance(decoded, dict):
                await writing.create(cluster, target, decoded, request)

    def once() -> float:
        cluster = _cluster()
        return _microseconds(lambda given: asyncio.run(all_of_them(given)), [cluster]) / len(bodies)

    return min(once() for _ in range(_ROUNDS))


def _best(step: Callable[[T], object], values: Sequence[T]) -> float:
    return min(_microseconds(step, values) for _ in range(_ROUNDS))


def _microseconds(step: Callable[[T], object], values: Sequence[T]) -> float:
    """Return the CPU time of a step for one value; others on the machine and the collector stay out of it."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        for value in values:
            step(value)
        return (time.process_time() - start) / len(values) * 1e6
    finally:
        gc.enable()
