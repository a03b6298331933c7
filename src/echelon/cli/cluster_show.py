"""`echelon cluster list` and `show`: which clusters there are, how they do, and what they wait for."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from echelon.api.certificates import CERTIFICATE_SIGNING_REQUEST, CertificateSigningRequest
from echelon.api.cluster import MANAGED_CLUSTER, SET_LABEL, ManagedCluster
from echelon.api.coordination import LEASE, Lease
from echelon.api.printing import human_duration
from echelon.api.times import parse_time
from echelon.api.work import MANIFEST_WORK
from echelon.cli.cluster_cordon import CORDONED
from echelon.cli.cluster_names import cluster_of
from echelon.cli.columns import print_columns
from echelon.cli.connection import Connection
from echelon.cli.output import is_document, listed, print_document
from echelon.cli.terminal import echo
from echelon.controllers.cluster.certificate_requests import JOINED
from echelon.engine.cluster_health import AVAILABLE, LEASE_NAME
from echelon.engine.conditions import find_condition
from echelon.engine.joining import CLUSTER_NAME_LABEL
from echelon.kube.client import Client
from echelon.kube.errors import Forbidden, NotFound

_LABELS_SHOWN = 12


@dataclass(frozen=True)
class _Fleet:
    """What is known of clusters beside their objects; None where one may not look."""

    leases: dict[str, Lease]
    requests: Sequence[CertificateSigningRequest] | None

    def heard(self, name: str, now: datetime) -> str | None:
        lease = self.leases.get(name)
        at = parse_time(lease.spec.renew_time) if lease is not None else None
        return human_duration(max(0, int((now - at).total_seconds()))) if at is not None else None

    def pending(self, name: str) -> list[CertificateSigningRequest]:
        about = (each for each in self.requests or () if each.metadata.labels.get(CLUSTER_NAME_LABEL) == name)
        return [each for each in about if each.is_pending]


def show_all(connection: Connection, selector: str, output: str) -> None:
    """List clusters."""
    asyncio.run(_list(connection, selector, output))


def show(connection: Connection, name: str, output: str) -> None:
    """Show a cluster."""
    asyncio.run(_show(connection, name, output))


async def _list(connection: Connection, selector: str, output: str) -> None:
    async with connection.open() as client:
        if is_document(output):
            found: Any = (await client.list(MANAGED_CLUSTER.untyped(), labels=selector)).items
            print_document(listed([{**MANAGED_CLUSTER.type_meta, **each} for each in found]), output)
            return
        clusters = (await client.list(MANAGED_CLUSTER, labels=selector)).items
        if not clusters:
            echo("the hub has no clusters" + (" with these labels" if selector else ""), err=True)
            return
        fleet = await _fleet(client)
    headers, now = ["name", "status", "set", "version", "heard", "age"], datetime.now(UTC)
    headers += ["cpu", "memory", "taints", "agent"] if output == "wide" else []
    print_columns(headers, [[*_row(each, fleet, now, wide=output == "wide")] for each in clusters])


async def _show(connection: Connection, name: str, output: str) -> None:
    async with connection.open() as client:
        if is_document(output):
            await cluster_of(client, name)
            print_document(await client.get(MANAGED_CLUSTER.untyped(), name), output)
            return
        cluster, fleet = await cluster_of(client, name), await _fleet(client, name)
        try:
            works: int | None = len((await client.list(MANIFEST_WORK, name)).items)
        except (Forbidden, NotFound):
            works = None
    for line in _lines(cluster, fleet, works, datetime.now(UTC)):
        echo(line)


async def _fleet(client: Client, name: str = "") -> _Fleet:
    """Look at leases and requests, as far as one may."""
    leases: dict[str, Lease] = {}
    requests: Sequence[CertificateSigningRequest] | None = None
    try:
        found = await client.list(LEASE, name, fields=f"metadata.name={LEASE_NAME}")
        leases = {each.metadata.namespace: each for each in found.items}
    except (Forbidden, NotFound):
        pass
    try:
        selector = f"{CLUSTER_NAME_LABEL}={name}" if name else CLUSTER_NAME_LABEL
        requests = (await client.list(CERTIFICATE_SIGNING_REQUEST, labels=selector)).items
    except (Forbidden, NotFound):
        pass
    return _Fleet(leases, requests)


def _row(cluster: ManagedCluster, fleet: _Fleet, now: datetime, *, wide: bool) -> Iterator[object]:
    meta, status = cluster.metadata, cluster.status
    yield meta.name
    yield _status(cluster, fleet)
    yield meta.labels.get(SET_LABEL)
    yield status.version.kubernetes or None
    yield fleet.heard(meta.name, now)
    yield _age(meta.creation_timestamp, now)
    if wide:
        yield status.capacity.get("cpu")
        yield status.capacity.get("memory")
        yield ",".join(f"{each.key}:{each.effect}" for each in cluster.spec.taints) or None
        lease = fleet.leases.get(meta.name)
        yield (lease.spec.holder_identity if lease is not None else None) or None


def _status(cluster: ManagedCluster, fleet: _Fleet) -> str:
    """Say in one word how a cluster does, and in another if it is cordoned."""
    conditions = cluster.status.conditions
    available, joined = find_condition(conditions, AVAILABLE), find_condition(conditions, JOINED)
    if cluster.metadata.deletion_timestamp:
        word = "Leaving"
    elif not cluster.spec.hub_accepts_client:
        word = "Asking" if fleet.pending(cluster.metadata.name) else "NotAccepted"
    elif joined is None or joined.status != "True":
        word = "NotJoined"
    else:
        said = available.status if available is not None else "Unknown"
        word = {"True": "Available", "False": "Unavailable"}.get(said, "Unknown")
    return word + (",Cordoned" if any(each.key == CORDONED for each in cluster.spec.taints) else "")


def _lines(cluster: ManagedCluster, fleet: _Fleet, works: int | None, now: datetime) -> Iterator[str]:
    meta, status, name = cluster.metadata, cluster.status, cluster.metadata.name
    yield f"Name       {name}"
    yield f"Status     {_status(cluster, fleet)}"
    yield f"Age        {_age(meta.creation_timestamp, now)}"
    if status.version.kubernetes:
        yield f"Version    {status.version.kubernetes}"
    lease, heard = fleet.leases.get(name), fleet.heard(name, now)
    if heard is not None and lease is not None:
        yield f"Agent      {lease.spec.holder_identity or 'unknown'}, heard {heard} ago"
    if status.capacity:
        yield f"Capacity   {', '.join(f'{key} {value}' for key, value in sorted(status.capacity.items()))}"
    if works is not None:
        yield f"Works      {works}"
    yield from _block("Labels", [f"{key}={value}" for key, value in sorted(meta.labels.items())])
    yield from _block("Taints", [_taint(each, now) for each in cluster.spec.taints])
    yield from _block("Claims", [f"{each.name}={each.value}" for each in status.cluster_claims])
    yield from _block(
        "Conditions", [f"{each.type}={each.status}: {each.message or each.reason}" for each in status.conditions]
    )
    yield from _block("Requests", [f"{each.metadata.name} by {each.spec.username}" for each in fleet.pending(name)])
    if fleet.pending(name):
        yield f"it asks to join: echelon cluster accept {name}"
    elif not cluster.spec.hub_accepts_client:
        yield f"it is not accepted, and has not asked yet: echelon cluster join {name} prints what its agent needs"


def _block(title: str, lines: Sequence[str]) -> Iterator[str]:
    for index, line in enumerate(lines[:_LABELS_SHOWN]):
        yield f"{title if not index else '':<10} {line}"
    if len(lines) > _LABELS_SHOWN:
        yield f"{'':<10} and {len(lines) - _LABELS_SHOWN} more"


def _taint(taint: Any, now: datetime) -> str:
    value = f"={taint.value}" if taint.value else ""
    since = f" for {_age(taint.time_added, now)}" if taint.time_added else ""
    return f"{taint.key}{value}:{taint.effect}{since}"


def _age(text: str | None, now: datetime) -> str | None:
    at = parse_time(text)
    return human_duration(max(0, int((now - at).total_seconds()))) if at is not None else None
