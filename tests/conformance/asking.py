"""How the suite asks and what it compares: documents, refusals, and steps of a watch."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar, cast

from echelon.api import apps, cluster, coordination, core, kruise, namespaces, placement
from echelon.kube.client import Event
from echelon.kube.errors import ApiError

T = TypeVar("T")
Document = dict[str, Any]

CONFIG_MAP = core.CONFIG_MAP.untyped()
NAMESPACE = namespaces.NAMESPACE.untyped()
DEPLOYMENT = apps.DEPLOYMENT.untyped()
LEASE = coordination.LEASE.untyped()
PLACEMENT = placement.PLACEMENT.untyped()
MANAGED_CLUSTER = cluster.MANAGED_CLUSTER.untyped()
CLONE_SET = kruise.CLONE_SET.untyped()

STEP_SECONDS = 30.0


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Document:
    body: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return body if data is None else {**body, "data": data}


def placement_of(name: str, spec: Document | None = None, **metadata: Any) -> Document:
    return {
        "apiVersion": PLACEMENT.api_version,
        "kind": "Placement",
        "metadata": {"name": name, **metadata},
        "spec": spec or {},
    }


def managed_cluster(name: str, **metadata: Any) -> Document:
    return {
        "apiVersion": MANAGED_CLUSTER.api_version,
        "kind": "ManagedCluster",
        "metadata": {"name": name, **metadata},
        "spec": {"hubAcceptsClient": True},
    }


def workload(kind: str, api_version: str, name: str, *containers: str) -> Document:
    labels = {"app": name}
    listed = [{"name": container, "image": f"example/{container}:1"} for container in containers or ("main",)]
    template = {"metadata": {"labels": labels}, "spec": {"containers": listed}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def deployment(name: str, *containers: str) -> Document:
    return workload("Deployment", "apps/v1", name, *containers)


def clone_set(name: str) -> Document:
    return workload("CloneSet", CLONE_SET.api_version, name)


async def refusal(asked: Awaitable[Any]) -> ApiError:
    """Return the error with which a request is refused."""
    try:
        answer = await asked
    except ApiError as error:
        return error
    raise AssertionError(f"not refused: {answer}")


def summary(error: ApiError) -> tuple[int, str, str]:
    """What programs and people see first."""
    return error.status_code, error.status_reason, error.message


def refused_fields(error: ApiError) -> list[tuple[str, str]]:
    """The fields that a refusal names, and why each."""
    return sorted((cause.get("field", ""), cause.get("reason", "")) for cause in error.details.get("causes", ()))


def names(objects: Any) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


def version(obj: Document) -> str:
    return str(obj["metadata"]["resourceVersion"])


async def until(watch: AsyncIterator[Event[T]], enough: Callable[[list[Event[T]]], bool]) -> list[Event[T]]:
    """Follow a watch until its events are enough, bookmarks that end nothing left out."""
    seen: list[Event[T]] = []
    async with asyncio.timeout(STEP_SECONDS), aclosing(cast("Any", watch)) as following:
        while not enough(seen):
            event = await anext(following)
            if event.object is not None or event.synced:
                seen.append(event)
    return seen


async def take(watch: AsyncIterator[Event[T]], count: int) -> list[Event[T]]:
    """Follow a watch for a number of events."""
    return await until(watch, lambda seen: len(seen) == count)


def steps(events: list[Event[Document]]) -> list[tuple[str, str]]:
    """What happened to whom."""
    return [(event.type.value, event.object["metadata"]["name"] if event.object else "") for event in events]
