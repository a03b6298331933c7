"""The end of records: when a record has no work any more, and what happens to what it lists.

A hub that lost its works, or was replaced, looks like one that deleted them all. So a record whose work is missing is
first marked, and removed only after a grace period in which the work may come back.
"""

from datetime import UTC, datetime, timedelta

from echelon.agent.passes import Passes
from echelon.agent.records import Records
from echelon.agent.settings import NEVER_SECONDS, RECORD_FINALIZER
from echelon.api.keys import Key
from echelon.api.times import format_time
from echelon.api.work import APPLIED_MANIFEST_WORK, AppliedManifestWork, ManifestWork
from echelon.engine.plan import NOTHING, Delete, Emit, Patch, Plan
from echelon.engine.work.cleaning import recorded
from echelon.engine.work.identity import Identity
from echelon.kube.informer import Informer


class Eviction:
    """Plans the end of records whose works are missing on the hub."""

    def __init__(
        self,
        works: Informer[ManifestWork],
        informer: Informer[AppliedManifestWork],
        identity: Identity,
        grace_seconds: float,
    ) -> None:
        self._works = works
        self._informer = informer
        self._identity = identity
        self._grace_seconds = grace_seconds

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one record."""
        record = self._informer.get(key)
        if record is None or record.metadata.deletion_timestamp or not self._identity.is_ours(record):
            return NOTHING
        named = Key(self._works.namespace, record.spec.manifest_work_name)
        # What cannot be read is not missing.
        wanted = self._identity.is_wanted(self._works.get(named), record) or named in self._works.unreadable
        since = record.status.eviction_start_time
        if wanted or self._grace_seconds >= NEVER_SECONDS:
            return Plan((_marked(record, None),)) if since else NOTHING
        if not since:
            return Plan((_marked(record, format_time(now)),), look_again_after=timedelta(seconds=self._grace_seconds))
        left = _moment(since, now) + timedelta(seconds=self._grace_seconds) - now
        if left > timedelta(0):
            return Plan(look_again_after=left)
        meta = record.metadata
        return Plan((Delete(APPLIED_MANIFEST_WORK, meta.name, uid=meta.uid, resource_version=meta.resource_version),))


class Endings:
    """Removes what records list that are to go. `turn` deals with one of them."""

    def __init__(self, records: Records, passes: Passes) -> None:
        self._records = records
        self._passes = passes
        self._tries: dict[str, int] = {}

    async def turn(self, name: str) -> float | None:
        """Go on with the end of a record; return after how many seconds to look whether it is over."""
        record = self._records.get(name)
        if record is None or not is_ending(record) or not self._records.ours(record):
            self._tries.pop(name, None)
            return None
        listed = recorded(await self._passes.strays(record, ()) + record.status.applied_resources)
        left = await self._records.remove(record, listed)
        await self._records.release(record, left)
        if not left:
            self._tries.pop(name, None)
            return None
        tries = self._tries[name] = self._tries.get(name, 0) + 1
        return float(min(0.1 * 2.0 ** min(tries - 1, 16), 60.0))


class Unheard:
    """Takes events and keeps them to itself: an eviction shows on the record, and the cluster has no one to tell."""

    async def emit(self, event: Emit) -> None:
        """Do nothing."""


def is_ending(record: AppliedManifestWork) -> bool:
    """Whether a record waits for the end of what it lists."""
    return bool(record.metadata.deletion_timestamp) and RECORD_FINALIZER in record.metadata.finalizers


def _marked(record: AppliedManifestWork, since: str | None) -> Patch:
    meta = record.metadata
    body = {"status": {"evictionStartTime": since}}
    return Patch(
        APPLIED_MANIFEST_WORK,
        meta.name,
        body,
        uid=meta.uid,
        resource_version=meta.resource_version,
        subresource="status",
    )


def _moment(text: str, otherwise: datetime) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return otherwise
