"""Ends the records of works that the hub no longer has.

A hub that lost its works, or was replaced, looks like one that deleted them all. So a record whose work is missing is
first marked, and deleted only after a grace period in which the work may come back.
"""

from datetime import datetime, timedelta

from echelon.agent.settings import NEVER_SECONDS
from echelon.api.keys import Key
from echelon.api.times import format_time, parse_time
from echelon.api.work import APPLIED_MANIFEST_WORK, AppliedManifestWork, ManifestWork
from echelon.engine.plan import NOTHING, Delete, Patch, Plan
from echelon.engine.work.identity import Identity
from echelon.kube.informer import Informer


class EvictionReconciler:
    """Plans the end of records whose works are missing on the hub."""

    def __init__(
        self,
        works: Informer[ManifestWork],
        records: Informer[AppliedManifestWork],
        identity: Identity,
        grace_seconds: float,
    ) -> None:
        self._works = works
        self._records = records
        self._identity = identity
        self._grace_seconds = grace_seconds

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one record."""
        record = self._records.get(key)
        if record is None or record.metadata.deletion_timestamp or not self._identity.is_ours(record):
            return NOTHING
        work = Key(self._works.namespace, record.spec.manifest_work_name)
        # What cannot be read is not missing.
        wanted = self._identity.is_wanted(self._works.get(work), record) or work in self._works.unreadable
        since = record.status.eviction_start_time
        if wanted or self._grace_seconds >= NEVER_SECONDS:
            return Plan((_mark_patch(record, None),)) if since else NOTHING
        if not since:
            return Plan(
                (_mark_patch(record, format_time(now)),), look_again_after=timedelta(seconds=self._grace_seconds)
            )
        left = (parse_time(since) or now) + timedelta(seconds=self._grace_seconds) - now
        if left > timedelta(0):
            return Plan(look_again_after=left)
        meta = record.metadata
        return Plan((Delete(APPLIED_MANIFEST_WORK, meta.name, uid=meta.uid, resource_version=meta.resource_version),))


def _mark_patch(record: AppliedManifestWork, since: str | None) -> Patch:
    return Patch.of(APPLIED_MANIFEST_WORK, record.metadata, {"status": {"evictionStartTime": since}}, "status")
