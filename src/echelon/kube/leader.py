"""Leader election on a Lease: of several processes, one works at a time, and another takes over when it fails.

The clocks of two machines are never compared. A contender measures, on its own monotonic clock, for how long it has
seen the record unchanged; a leader measures from the moment at which it sent its last successful renewal, which is
before anybody can have seen it. So a leader that has stopped within the lease duration after that moment has stopped
before anybody else starts:

    renewal sent --- renew_seconds ---> work is cancelled --- time to stop ---> lease_seconds: others may take over

A record is written only on the condition that it is the one that was read, so whoever acts on a stale read, or twice
because an answer was lost, gets a conflict and looks again.

This does not protect against a process that stands still and goes on later, between two checks of the time. What is
written therefore carries preconditions of its own; the lease keeps two leaders from fighting, not from existing.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from echelon.api.coordination import LEASE, Lease, LeaseSpec
from echelon.api.times import format_micro_time
from echelon.kube import errors
from echelon.kube.client import Client, MergePatch
from echelon.kube.clock import Clock
from echelon.kube.health import Check

_log = logging.getLogger(__name__)

_JITTER = 0.2
_COMPLAINT_SECONDS = 60.0
# After a standstill of the whole process the time to stop has passed already; work that stops now is not stubborn.
_LAST_CHANCE_SECONDS = 1.0
_RELEASED_SECONDS = 1  # a released lease says so with an empty holder; the duration is for those that look at it alone


class ElectionImpossible(Exception):
    """There is nowhere to keep the lease."""


class WorkDidNotStop(Exception):
    """The work goes on although the lease is lost. The process must end now: another leader may be at work."""


@dataclass(frozen=True)
class _Observed:
    """The record as it was read last, and since when it has looked like that."""

    lease: Lease | None
    since: float

    @property
    def spec(self) -> LeaseSpec:
        return self.lease.spec if self.lease is not None else LeaseSpec()


class LeaderElection:
    """One contender. `identity` must be unique among all processes that contend, also those that are long dead."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        name: str,
        namespace: str,
        identity: str,
        *,
        random: Random,
        lease_seconds: float = 15.0,
        renew_seconds: float = 10.0,
        retry_seconds: float = 2.0,
    ) -> None:
        if not identity:
            raise ValueError("a contender needs an identity: an empty holder means that nobody holds the lease")
        if not 0 < retry_seconds < renew_seconds < lease_seconds or lease_seconds < 1:
            raise ValueError("leader election needs retry_seconds < renew_seconds < lease_seconds")
        self.identity = identity
        self._client = client
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._random = random
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._retry_seconds = retry_seconds
        # One request that hangs must leave time for another one.
        self._request_seconds = renew_seconds / 2
        self._observed: _Observed | None = None
        self._renewed = 0.0  # when the last successful write of the record was sent
        self._sure = False  # whether the record is, as far as we know, what we wrote last
        self._leading = False
        self._verb = "get"  # of the last request
        self._complained = -math.inf
        self._told: set[type[Exception]] = set()  # what has kept us from an answer since there was one

    @property
    def leading(self) -> bool:
        """Whether the work runs here."""
        return self._leading

    def check(self) -> Check:
        """Tell whether this contender leads, or for whom it stands by; it is in trouble only if it cannot find out."""
        where = f"{self._namespace}/{self._name}"
        if self._leading:
            return Check("leader-election", note=f"leading, with the lease {where}")
        if self._observed is None:
            return Check("leader-election", f"it is not known who holds the lease {where}")
        return Check("leader-election", note=f"standing by, {self._holder() or 'nobody'} holds the lease {where}")

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work whenever the lease is held, until it returns by itself.

        When the lease is lost the work is cancelled, and once the lease is won again it is begun anew. On the way out,
        by whatever way, the work has ended and the lease is released. Raises what the work raises, and
        `ElectionImpossible` or `WorkDidNotStop`.
        """
        while True:
            await self._acquire()
            working = asyncio.create_task(_run(work), name=f"work of {self.identity}")
            try:
                ended = await self._lead(working)
            finally:
                if working.done():
                    await self._release()
            if ended:
                return
            await asyncio.sleep(self._retry_pause())

    async def _acquire(self) -> None:
        waits_for = ""
        while not await self._try():
            if self._held_by_other() and self._holder() != waits_for:
                waits_for = self._holder()
                _log.info("%s waits: %s holds the lease %s/%s", self.identity, waits_for, self._namespace, self._name)
            # Back when the lease runs out, if that is sooner: the next one begins as early as it may.
            await asyncio.sleep(min(self._retry_pause(), self._runs_out_in()))
        _log.info("%s leads: it holds the lease %s/%s", self.identity, self._namespace, self._name)

    async def _lead(self, working: asyncio.Task[None]) -> bool:
        """Renew while the work goes on. Return whether it came to its end, and did not just lose the lease."""
        renewing = asyncio.create_task(self._renew(), name=f"renewal of {self.identity}")
        self._leading, ended = True, False
        try:
            await asyncio.wait([working, renewing], return_when=asyncio.FIRST_COMPLETED)
            ended = working.done()
        finally:
            # Also when we are cancelled: the lease is renewed for as long as the work takes to stop.
            try:
                try:
                    await self._stop(working, renewing)
                finally:
                    self._leading = False
                    renewing.cancel()
                    await asyncio.wait([renewing])
            except BaseException:
                # Whoever is in such a hurry does not hear how it ends; the log does.
                working.add_done_callback(_say_how_it_ended)
                renewing.add_done_callback(_say_how_it_ended)
                raise
            failure = None if renewing.cancelled() else renewing.exception()
            if not working.cancelled():
                working.result()
        if failure is not None:
            raise failure
        return ended

    async def _stop(self, working: asyncio.Task[None], renewing: asyncio.Task[None]) -> None:
        """Cancel the work and wait for its end; without the lease, only for as long as nobody else may begin."""
        if working.done():
            return
        working.cancel()
        await asyncio.wait([working, renewing], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            left = self._renewed + self._lease_seconds - asyncio.get_running_loop().time()
            await asyncio.wait([working], timeout=max(_LAST_CHANCE_SECONDS, left))
        if not working.done():
            text = f"the lease {self._namespace}/{self._name} is lost and the work of {self.identity} goes on"
            _log.critical(text)
            raise WorkDidNotStop(text)

    async def _renew(self) -> None:
        """Renew the lease; return when it is lost."""
        while True:
            try:
                async with asyncio.timeout_at(self._renewed + self._renew_seconds):
                    await asyncio.sleep(self._retry_pause())
                    while not await self._try():
                        if self._held_by_other():
                            _log.warning("%s lost the lease to %s", self.identity, self._holder())
                            return
                        await asyncio.sleep(self._retry_pause())
            except TimeoutError:
                _log.warning("%s could not renew its lease for %s s", self.identity, self._renew_seconds)
                return

    async def _try(self) -> bool:
        """Take or renew the lease if that is possible now. Return whether we hold it."""
        try:
            async with asyncio.timeout(self._request_seconds):
                held = await self._take_or_renew()
        except TimeoutError as error:
            self._say(error, f"no answer in {self._request_seconds} s")
        except errors.Forbidden as error:
            self._complain(error)
        except (errors.Conflict, errors.AlreadyExists) as error:
            _log.info("the lease %s/%s: %s", self._namespace, self._name, error)
        except errors.ApiError as error:
            self._say(error, str(error))
        else:
            if self._told:
                _log.info("the lease %s/%s: the server answers again", self._namespace, self._name)
            self._told.clear()
            return held
        return False

    def _say(self, error: Exception, words: str) -> None:
        """Say what is wrong once an outage: the next try comes soon, and an outage may be long."""
        if type(error) not in self._told:
            self._told.add(type(error))
            _log.warning("the lease %s/%s: %s", self._namespace, self._name, words)

    def _complain(self, error: errors.Forbidden) -> None:
        """Say what is forbidden, now and then: only somebody else can change that, and the next try comes soon."""
        now = asyncio.get_running_loop().time()
        if now < self._complained + _COMPLAINT_SECONDS:
            return
        self._complained = now
        where = f"the lease {self._name} in namespace {self._namespace}"
        _log.error("%s may not %s %s, and waits until it may: %s", self.identity, self._verb, where, error)

    async def _take_or_renew(self) -> bool:
        if not self._sure:
            self._look(await self._read())
        try:
            return await self._write_record()
        except errors.Conflict:
            self._look(await self._read())
            return await self._write_record()

    async def _write_record(self) -> bool:
        began, observed = asyncio.get_running_loop().time(), self._observed
        if observed is None or (self._held_by_other() and began < observed.since + self._duration_of(observed.spec)):
            return False
        self._sure = False  # until the answer is here, anything may have been written
        written = await self._write(observed.lease, self._record(observed.spec))
        self._sure, self._renewed = True, began
        self._observed = _Observed(written, began)
        return True

    async def _read(self) -> Lease | None:
        self._verb = "get"
        try:
            return await self._client.get(LEASE, self._name, self._namespace)
        except errors.NotFound:
            return None

    def _look(self, lease: Lease | None) -> None:
        """Note what the record says, and whether that is new."""
        known, now = self._observed, asyncio.get_running_loop().time()
        if lease is None:
            # A lease that somebody deleted: its last holder does not know yet. Its time runs on.
            spec = known.spec if known is not None else LeaseSpec()
            gone = known is not None and self._held_by_other() and now < known.since + self._duration_of(spec)
            self._observed = known if gone else _Observed(None, now)
        elif known is None or known.lease is None or known.lease.spec != lease.spec:
            self._observed = _Observed(lease, now)
        else:
            self._observed = _Observed(lease, known.since)

    def _holder(self) -> str:
        return (self._observed.spec.holder_identity or "") if self._observed is not None else ""

    def _held_by_other(self) -> bool:
        return self._holder() not in ("", self.identity)

    def _runs_out_in(self) -> float:
        """Return how long somebody else's lease is still good for; without end if it is not, or nobody's."""
        observed, now = self._observed, asyncio.get_running_loop().time()
        left = (
            observed.since + self._duration_of(observed.spec) - now
            if observed is not None and self._held_by_other()
            else 0.0
        )
        return left if left > 0 else math.inf

    def _duration_of(self, spec: LeaseSpec) -> float:
        return float(spec.lease_duration_seconds or self._lease_seconds)

    def _record(self, before: LeaseSpec) -> dict[str, Any]:
        """Return what the lease says when we hold it."""
        now = _later_than(before.renew_time, self._clock.now())
        # Rounded up: others must never believe that the lease is shorter than it is.
        record: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._lease_seconds),
            "renewTime": now,
        }
        if before.holder_identity != self.identity:
            record["acquireTime"] = now
            record["leaseTransitions"] = (before.lease_transitions or 0) + (before != LeaseSpec())
        return record

    async def _write(self, before: Lease | None, record: dict[str, Any]) -> Lease:
        self._verb = "create" if before is None else "patch"
        if before is not None:
            expected = {"uid": before.metadata.uid, "resourceVersion": before.metadata.resource_version}
            patch = MergePatch({"metadata": expected, "spec": record})
            return await self._client.patch(LEASE, self._name, patch, self._namespace)
        body = {**LEASE.type_meta, "metadata": {"name": self._name, "namespace": self._namespace}, "spec": record}
        try:
            return await self._client.create(LEASE, body, self._namespace)
        except errors.NotFound as error:
            how = f"kubectl create namespace {self._namespace}"
            text = f"the lease {self._name} needs the namespace {self._namespace} ({how}): {error}"
            raise ElectionImpossible(text) from None

    async def _release(self) -> None:
        """Let the next one begin at once. If that does not work, the lease runs out by itself."""
        observed = self._observed
        if observed is None or observed.lease is None or self._holder() != self.identity:
            return
        now = _later_than(observed.spec.renew_time, self._clock.now())
        record = {
            "holderIdentity": "",
            "leaseDurationSeconds": _RELEASED_SECONDS,
            "renewTime": now,
            "acquireTime": now,
        }
        self._observed, self._sure = None, False
        try:
            async with asyncio.timeout(self._request_seconds):
                await self._write(observed.lease, record)
        except (errors.ApiError, TimeoutError) as error:
            _log.info("the lease %s/%s was not released and runs out: %s", self._namespace, self._name, error)

    def _retry_pause(self) -> float:
        return self._retry_seconds * self._random.uniform(1 - _JITTER, 1)


def _say_how_it_ended(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("%s ended with %r", task.get_name(), error)


async def _run(work: Callable[[], Awaitable[None]]) -> None:
    await work()


def _later_than(before: str, now: datetime) -> str:
    """Return a time stamp that differs from the one before it, whatever the clock does: others look for a change."""
    stamp = format_micro_time(now)
    if stamp == before:
        stamp = format_micro_time(now + timedelta(microseconds=1))
    return stamp
