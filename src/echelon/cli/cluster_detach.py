"""`echelon cluster detach`: the end of a cluster's life in the fleet.

Deleting a cluster's object is all that is needed while its agent lives: controllers and agent do the rest, in order. So
the command shows what that means before and waits for it after. Only where the agent is gone for good it does more.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from echelon.agent.settings import FINALIZER as AGENT_FINALIZER
from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.api.coordination import LEASE, Lease
from echelon.api.karmada import WORK, Work
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE, Namespace
from echelon.api.printing import human_duration
from echelon.api.times import parse_time
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.cli.cluster_names import unknown
from echelon.cli.connection import Connection
from echelon.cli.exit_codes import Ended, ExitCode
from echelon.cli.terminal import echo
from echelon.controllers.cluster.leaving import add_finalizer, has_finalizer, is_leaving, is_namespace_of
from echelon.engine.cluster_health import AVAILABLE, LEASE_NAME
from echelon.engine.conditions import find_condition
from echelon.engine.workload.names import FINALIZER as WORKLOAD_FINALIZER
from echelon.engine.workload.names import execution_namespace
from echelon.kube.client import Client, DeleteOptions, MergePatch, Preconditions
from echelon.kube.errors import Conflict, NotFound

_LOOK_SECONDS = 0.5
_MISSED_RENEWALS = 5
_DEFAULT_LEASE_SECONDS = 60
_TRIES = 8
_NAMED = 5
_AGENT_FINALIZERS = frozenset({AGENT_FINALIZER, WORKLOAD_FINALIZER})


def detach(connection: Connection, name: str, *, dry_run: bool, force: bool, patience: float | None) -> None:
    """Take a cluster out of the fleet."""
    asyncio.run(_detach(connection, name, dry_run=dry_run, force=force, patience=patience))


@dataclass(frozen=True)
class _Seen:
    """A cluster and what belongs to it."""

    cluster: ManagedCluster
    works: Sequence[ManifestWork | Work]
    namespace: Namespace | None
    lease: Lease | None

    @property
    def name(self) -> str:
        return self.cluster.metadata.name

    def silence(self, now: datetime) -> int | None:
        """For how many seconds its agent has been silent; None if it never said anything."""
        heard = parse_time(self.lease.spec.renew_time) if self.lease is not None else None
        return int((now - heard).total_seconds()) if heard is not None else None

    def is_silent(self, now: datetime) -> bool:
        """Whether its agent has been silent for longer than one that lives, by the hub's clock or by ours."""
        available, silence = find_condition(self.cluster.status.conditions, AVAILABLE), self.silence(now)
        if silence is None or (available is not None and available.status == "Unknown"):
            return True
        every = self.cluster.spec.lease_duration_seconds
        return silence > _MISSED_RENEWALS * (every if every > 0 else _DEFAULT_LEASE_SECONDS)


async def _detach(connection: Connection, name: str, *, dry_run: bool, force: bool, patience: float | None) -> None:
    async with connection.open() as client:
        seen, now = await _look(client, name), datetime.now(UTC)
        if seen is None:
            raise Ended(await unknown(client, name), ExitCode.NOT_FOUND)
        if force and not dry_run and not seen.is_silent(now) and not is_leaving(seen.cluster):
            raise click.ClickException(
                f"the agent of {name} was heard {_ago(seen, now)}, and --force would leave its workloads behind; "
                "detach it without --force first, and use that only if this does not come to an end"
            )
        for line in _plan(seen, now, dry_run=dry_run, force=force):
            echo(line)
        if dry_run:
            return
        await _begin(client, seen)
        if force:
            await _end_works(client, seen)
        if patience is None:
            echo(f"cluster {name} is leaving")
            return
        await _wait(client, seen, force=force, patience=patience)
        echo(f"cluster {name} has left the fleet; stop its agent, or it asks to join again when it restarts")


async def _look(client: Client, name: str) -> _Seen | None:
    try:
        found = await client.get(MANAGED_CLUSTER, name)
    except NotFound:
        return None
    namespace: Namespace | None = None
    lease: Lease | None = None
    with suppress(NotFound):
        namespace = await client.get(NAMESPACE, name)
        lease = await client.get(LEASE, LEASE_NAME, name)
    works: list[ManifestWork | Work] = list((await client.list(MANIFEST_WORK, name)).items)
    with suppress(NotFound):  # a hub may be without federated workloads
        works += (await client.list(WORK, execution_namespace(name))).items
    return _Seen(found, sorted(works, key=lambda each: each.metadata.name), namespace, lease)


def _plan(seen: _Seen, now: datetime, *, dry_run: bool, force: bool) -> Iterator[str]:
    """Say what is going to happen."""
    yield f"cluster {seen.name} {'would leave' if dry_run else 'leaves'} the fleet:"
    names = [each.metadata.name for each in seen.works]
    objects = [(work.metadata.name, each) for work in seen.works for each in _applied(work)]
    yield f"  works      {len(names)}{': ' + _some(names) if names else ''}"
    yield f"  objects    {len(objects)} on the cluster, {'which stay there' if force else 'removed by its agent'}"
    if force:
        for work, each in objects:
            yield f"             {each} of {work}"
    if seen.namespace is None:
        yield f"  namespace  {seen.name} is not there"
    elif is_namespace_of(seen.cluster, seen.namespace):
        yield f"  namespace  {seen.name}, with everything in it"
    else:
        yield f"  namespace  {seen.name} stays: it was there before the cluster, or is not labelled as its own"
    yield "  rights     of its agent on the hub"
    if force:
        yield f"an agent of {seen.name} that comes back removes the objects after its grace period for missing works"
    elif seen.is_silent(now) and seen.works:
        yield (
            f"its agent was last heard {_ago(seen, now)}, and nobody else can remove the objects; if it is gone for "
            f"good: echelon cluster detach {seen.name} --force"
        )


def _ago(seen: _Seen, now: datetime) -> str:
    silence = seen.silence(now)
    return "never" if silence is None else f"{human_duration(max(silence, 0))} ago"


def _applied(work: ManifestWork | Work) -> Iterator[str]:
    if isinstance(work, Work):
        for one in work.status.manifest_statuses:
            about = one.identifier
            yield f"{about.kind} {about.namespace}/{about.name}" if about.namespace else f"{about.kind} {about.name}"
        return
    for each in work.status.resource_status.manifests:
        meta = each.resource_meta
        if any(said.type == "Applied" and said.status == "True" for said in each.conditions):
            yield f"{meta.kind} {meta.namespace}/{meta.name}" if meta.namespace else f"{meta.kind} {meta.name}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


async def _begin(client: Client, seen: _Seen) -> None:
    """Delete the cluster's object, which first gets what makes it wait for everything else."""
    found = seen.cluster
    for attempt in range(_TRIES):
        if is_leaving(found):
            return
        if has_finalizer(found):
            break
        patch, meta = add_finalizer(found), found.metadata
        try:
            said = {"uid": meta.uid, "resourceVersion": meta.resource_version, **patch.body["metadata"]}
            await client.patch(MANAGED_CLUSTER, meta.name, MergePatch({"metadata": said}))
            break
        except Conflict:
            if attempt == _TRIES - 1:
                raise
            found = await client.get(MANAGED_CLUSTER, meta.name)
    how = DeleteOptions(Preconditions(uid=seen.cluster.metadata.uid))
    await client.delete(MANAGED_CLUSTER, seen.name, options=how)


async def _end_works(client: Client, seen: _Seen) -> None:
    """Delete works without their agent."""
    for work in seen.works:
        meta = work.metadata
        kind: Kind[Any] = WORK if isinstance(work, Work) else MANIFEST_WORK
        with suppress(NotFound, Conflict):  # gone, or written by somebody else: the next look shows it
            await client.delete(kind, meta.name, meta.namespace, options=DeleteOptions(Preconditions(uid=meta.uid)))
            kept = [each for each in meta.finalizers if each not in _AGENT_FINALIZERS]
            body = {"metadata": {"finalizers": kept or None, "uid": meta.uid}}
            await client.patch(kind, meta.name, MergePatch(body), meta.namespace)


async def _wait(client: Client, seen: _Seen, *, force: bool, patience: float) -> None:
    """Wait until a cluster is gone, and say what it waits for whenever that changes."""
    uid, end, told = seen.cluster.metadata.uid, time.monotonic() + patience, ""
    while True:
        now = await _look(client, seen.name)
        if now is None or now.cluster.metadata.uid != uid:  # it has left; what asks to join again is another one
            return
        if force:
            await _end_works(client, now)
        if (waiting := _waits_for(now)) != told:
            echo(waiting, err=True)
            told = waiting
        if time.monotonic() > end:
            raise Ended(f"cluster {seen.name} is still there after {patience:g} s: {waiting}", ExitCode.TIMED_OUT)
        await asyncio.sleep(_LOOK_SECONDS)


def _waits_for(seen: _Seen) -> str:
    if seen.works:
        names = _some([each.metadata.name for each in seen.works])
        others = sorted({each for work in seen.works for each in work.metadata.finalizers} - _AGENT_FINALIZERS)
        held = f", held by {', '.join(others)}" if others else ""
        return f"waits for works to end, {len(seen.works)} of them: {names}{held}"
    if seen.namespace is not None and is_namespace_of(seen.cluster, seen.namespace):
        why = [each.message for each in seen.namespace.status.conditions if each.status == "True" and each.message]
        return " ".join([f"waits for namespace {seen.name} to end.", *why])
    return f"waits for the controllers to remove {', '.join(seen.cluster.metadata.finalizers)}; is echelon run at work?"
