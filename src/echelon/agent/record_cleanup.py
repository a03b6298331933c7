"""Removes what deleted records list, and then lets the records go."""

from echelon.agent.manifest_applier import ManifestApplier
from echelon.agent.records import Records
from echelon.agent.settings import RECORD_FINALIZER
from echelon.api.work import AppliedManifestWork
from echelon.engine.work.removal import merged_resources


class RecordCleanup:
    """Removes the objects of deleted records."""

    def __init__(self, records: Records, applier: ManifestApplier) -> None:
        self._records = records
        self._applier = applier
        self._tries: dict[str, int] = {}

    async def reconcile(self, name: str) -> float | None:
        """Go on with the removal of a record; return after how many seconds to look whether it is over."""
        record = self._records.get(name)
        if record is None or not is_being_removed(record) or not self._records.is_ours(record):
            self._tries.pop(name, None)
            return None
        listed = merged_resources(await self._applier.intended_leftovers(record, ()) + record.status.applied_resources)
        left = await self._records.remove(record, listed)
        await self._records.release(record, left)
        if not left:
            self._tries.pop(name, None)
            return None
        tries = self._tries[name] = self._tries.get(name, 0) + 1
        return float(min(0.1 * 2.0 ** min(tries - 1, 16), 60.0))


def is_being_removed(record: AppliedManifestWork) -> bool:
    """Whether a record waits for the end of what it lists."""
    return bool(record.metadata.deletion_timestamp) and RECORD_FINALIZER in record.metadata.finalizers
