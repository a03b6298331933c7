"""Carries out a plan: in order, with its preconditions, and tells what became of every write.

A failed write is a fact, not an accident: it is told like one that was made, as soon as it is known. Writes that the
plan calls independent are made side by side and go on when one of them fails; what comes after a failure may rely on
what failed, so it is left out. That goes for the status too, which tells of a plan that was carried out: the next plan
knows of the failure and tells of that. A later write of the same object expects the version that the earlier one led
to, so that a plan may write an object twice and still notice everybody else. Nothing is tried again here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol, TypeAlias

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.engine.plan import Create, Delete, Emit, Patch, Plan, Together, Write
from echelon.kube.cache import identity_of
from echelon.kube.client import ApplyPatch, DeleteOptions, MergePatch, Preconditions, WriteOptions, Writer
from echelon.kube.errors import ApiError
from echelon.kube.metrics import Metrics

# As many as keep a server busy; more only wait there, and time out there.
AT_ONCE = 32


class Recorder(Protocol):
    """Writes events. It never fails: an event is not worth a plan."""

    async def emit(self, event: Emit) -> None:
        """Write an event, or count it with those before it."""
        ...


@dataclass(frozen=True)
class Written:
    """A write that the server confirmed. `resource_version` is what it led to, None for a deletion."""

    kind: Kind[Any]
    name: str
    namespace: str
    uid: str
    resource_version: str | None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """A write that the server did not confirm. It may have been made all the same, if the answer was lost."""

    write: Write
    error: Exception


Outcome: TypeAlias = Written | Failed


class Superseded(Exception):
    """What a plan was made for was changed while it was carried out; the rest of it is not wanted any more."""


def _always() -> bool:
    return True


async def act(
    plan: Plan,
    client: Writer,
    recorder: Recorder,
    *,
    manager: str,
    metrics: Metrics | None = None,
    is_wanted: Callable[[], bool] = _always,
) -> AsyncIterator[Outcome]:
    """Do what a plan says and yield what became of each write, the status last.

    `manager` is the name under which the server keeps our fields. `is_wanted` is asked again and again while many
    writes are made; when it says no, those under way are waited for and `Superseded` is raised.
    """
    writing = _Writing(client, WriteOptions(field_manager=manager), metrics, is_wanted)
    for planned in plan.actions if plan.status is None else (*plan.actions, plan.status):
        if isinstance(planned, Emit):
            await recorder.emit(planned)
            continue
        if isinstance(planned, Together):
            failed = False
            async for outcome in writing.together(planned.writes):
                failed = failed or isinstance(outcome, Failed)
                yield outcome
        else:
            outcome = await writing.write(planned)
            failed = isinstance(outcome, Failed)
            yield outcome
        if failed:
            return


@dataclass
class _Writing:
    """The writes of one plan."""

    client: Writer
    options: WriteOptions
    metrics: Metrics | None
    is_wanted: Callable[[], bool]
    own: dict[tuple[str, str, str], Written] = field(default_factory=dict)

    async def together(self, writes: Sequence[Write]) -> AsyncIterator[Outcome]:
        """Make independent writes, so many at a time, and yield each as it ends."""
        waiting, running = iter(writes), list[asyncio.Task[Outcome]]()
        wanted = True
        try:
            while True:
                wanted = wanted and self.is_wanted()
                begun = [
                    asyncio.create_task(self.write(one))
                    for one in islice(waiting, AT_ONCE - len(running) if wanted else 0)
                ]
                for task in begun:
                    task.add_done_callback(_notice)
                running += begun
                if not running:
                    break
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                ended, running = [task for task in running if task.done()], [t for t in running if not t.done()]
                for task in ended:
                    yield task.result()  # raises only when the process is dying, and nothing else matters
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)
        if not wanted and next(waiting, None) is not None:
            raise Superseded

    async def write(self, planned: Write) -> Outcome:
        action = _after_own(planned, self.own)
        code = "200"
        try:
            written = await _write(action, self.client, self.options)
        except Exception as error:  # noqa: BLE001 - whatever it was, somebody has to hear of it
            code = str(error.status_code) if isinstance(error, ApiError) else "none"
            return Failed(action, error)
        finally:
            if self.metrics is not None:
                self.metrics.writes.labels(type(action).__name__.lower(), action.kind.resource, code).inc()
        self.own[_object(written)] = written
        return written


def _notice(task: asyncio.Task[Outcome]) -> None:
    """Take note of how a write ended: when the process is dying, nobody else asks."""
    if not task.cancelled():
        task.exception()


def _after_own(action: Write, own: Mapping[tuple[str, str, str], Written]) -> Write:
    """Let a write build on what the same plan wrote before: the plan could not know which version that would be."""
    if not isinstance(action, Patch | Delete):
        return action
    before = own.get((action.kind.resource, action.namespace, action.name))
    if before is None or before.resource_version is None:
        return action
    return replace(action, uid=before.uid, resource_version=before.resource_version)


def _object(written: Written) -> tuple[str, str, str]:
    """Return which object was written."""
    return written.kind.resource, written.namespace, written.name


async def _write(action: Write, client: Writer, options: WriteOptions) -> Written:
    kind, namespace = action.kind, action.namespace
    if isinstance(action, Delete):
        expected = Preconditions(action.uid, action.resource_version)
        how = DeleteOptions(preconditions=expected, propagation=action.propagation)
        await client.delete(kind, action.name, namespace, options=how)
        return Written(kind, action.name, namespace, action.uid, None)
    if isinstance(action, Create):
        answer = await client.create(kind, action.body, namespace, options=options)
    elif isinstance(action, Patch):
        body = MergePatch(_with_preconditions(action))
        answer = await client.patch(kind, action.name, body, namespace, subresource=action.subresource, options=options)
    else:
        wanted = ApplyPatch(action.body, options.field_manager, action.force)
        answer = await client.patch(
            kind, action.name, wanted, namespace, subresource=action.subresource, options=options
        )
    key, uid, version = identity_of(answer)
    return Written(kind, key.name, key.namespace, uid, version, _labels_of(answer))


def _with_preconditions(action: Patch) -> JSONObject:
    """Say in the patch which object, in which state, it is meant for."""
    expected = {"uid": action.uid, "resourceVersion": action.resource_version}
    said = {name: value for name, value in expected.items() if value}
    if not said:
        return action.body
    return {**action.body, "metadata": {**action.body.get("metadata", {}), **said}}


def _labels_of(obj: Any) -> Mapping[str, str]:
    if isinstance(obj, dict):
        labels: Mapping[str, str] = obj["metadata"].get("labels", {})
        return labels
    found: Mapping[str, str] = obj.metadata.labels
    return found
