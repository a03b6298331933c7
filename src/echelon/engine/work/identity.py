"""Whom an agent works for, and which records on its cluster are its own.

A record is named after the hub's address, so a hub that is reached by another address looks like another hub, and what
was applied for it would belong to nobody. Addresses change and hubs do not: the uid of a work is the same wherever its
hub is, and no two hubs have it. So a record says which work it is of, and whoever serves that work may go on with it.
A work that is gone tells nothing any more. So a record also says which cluster of its hub it is of: whoever works for
that cluster may end it, whatever address it was made under.
"""

from dataclasses import dataclass

from echelon.api.work import AppliedManifestWork, ManifestWork

WORK_UID = "echelon.dev/work-uid"
CLUSTER_UID = "echelon.dev/cluster-uid"  # of the ManagedCluster


@dataclass
class Identity:
    """An agent: the hash of its hub's address, and its own id, which is that hash unless somebody chose one.

    Which cluster of the hub it works for it learns when it has joined.
    """

    hub_hash: str
    agent_id: str
    cluster_uid: str = ""

    def name_of(self, work: str) -> str:
        """Return the name of a work's record."""
        return f"{self.hub_hash}-{work}"

    def is_ours(self, record: AppliedManifestWork) -> bool:
        """Whether this agent takes care of a record: it made it, or an agent did that had no id of its own."""
        if _owner(record) == self.agent_id:
            return True
        same = bool(self.cluster_uid) and record.metadata.annotations.get(CLUSTER_UID) == self.cluster_uid
        return same and _owner(record) == record.spec.hub_hash

    def is_of_this_hub(self, record: AppliedManifestWork) -> bool:
        """Whether a record was made under the present address of the hub."""
        return record.spec.hub_hash == self.hub_hash

    def continues(self, work: ManifestWork, record: AppliedManifestWork) -> bool:
        """Whether a record was made for a work while its hub had another address, and is ours to go on with.

        What an agent recorded whose id somebody chose is that agent's. A record that does not say which work it is of
        may be of a work of the same name on another hub, unless the agent has the same id.
        """
        if self.is_of_this_hub(record) or record.spec.manifest_work_name != work.metadata.name:
            return False
        uid = record.metadata.annotations.get(WORK_UID, "")
        if not uid:
            return self.is_ours(record)
        return uid == work.metadata.uid and (self.is_ours(record) or _owner(record) == record.spec.hub_hash)

    def is_wanted(self, work: ManifestWork | None, record: AppliedManifestWork) -> bool:
        """Whether a record stays: the hub has its work. `work` is what the hub has under the record's name for it."""
        return work is not None and (self.is_of_this_hub(record) or self.continues(work, record))


def _owner(record: AppliedManifestWork) -> str:
    return record.spec.agent_id or record.spec.hub_hash
