"""What is known of a member: one snapshot of its workload.

Spec, metadata and status of a snapshot are of one version of the object. The counts in a status belong to the
generation that the member's controller had observed, not to the spec beside them.

A Deployment decides, and its ReplicaSets act later; a CloneSet marks pods and deletes them later; a StatefulSet counts
pods that are ending. What is still under way cannot be told from their own status. An agent that can tell reads
further, after it has read the object: the ReplicaSets, or the pods. Its counts are what it found there, always, and
`settled` says whether nothing is under way, and the spec is observed: all ReplicaSets observed and at size; no pod of
a CloneSet marked; no pod of a StatefulSet outdated from the partition on, or beyond its replicas. An agent that cannot
tell leaves `settled` out, and time has to pass instead.
"""

import msgspec

from echelon.engine.align.grant import Grant


class MemberView(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A snapshot. `version` orders snapshots: the highest resourceVersion of all that was read for it."""

    uid: str
    version: int
    push_id: int  # of the spec in the snapshot
    generation: int
    observed_generation: int
    replicas: int  # of the spec
    pods: int
    available: int
    updated: int  # pods of the revision that was observed
    missing: int = 0  # of the pods: those that have yet to be made, where nobody tells with which template
    told: int | None = None  # pods that its ReplicaSets are told to have, at most; while some go there may be more
    resized: tuple[int, int] | None = None  # the lowest and the highest ceiling that its ReplicaSets remember
    settled: bool | None = None
    drift: Grant | None = None  # what the spec permits, where somebody else changed it; with the id that it carries

    @property
    def observed(self) -> bool:
        """Whether the counts are of the spec in the snapshot."""
        return self.observed_generation >= self.generation

    def is_older_than(self, other: "MemberView") -> bool:
        """Tell whether a snapshot has nothing to say that another does not know better."""
        return (self.version, self.generation, self.observed_generation) < (
            other.version,
            other.generation,
            other.observed_generation,
        )
