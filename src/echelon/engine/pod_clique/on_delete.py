"""Updates that nobody carries out: under OnDelete an edit is recorded everywhere at once, and nothing goes for it.

The update of a set, a clique or a group is over as soon as the spec is synced, so it starts and ends at one moment,
with one timestamp, and never names what it takes, because it takes nothing.
"""

from echelon.api.grovestatus import (
    PodCliqueScalingGroupUpdateProgress,
    PodCliqueSetUpdateProgress,
    PodCliqueUpdateProgress,
)


def recorded_set(now: str) -> PodCliqueSetUpdateProgress:
    """Return the progress of a set whose template changed."""
    return PodCliqueSetUpdateProgress(update_started_at=now, update_ended_at=now)


def recorded_clique(
    before: PodCliqueUpdateProgress | None, generation_hash: str, current: frozenset[str], own_hash: str, now: str
) -> PodCliqueUpdateProgress:
    """Return the progress of a clique: as it was, if it is of this template and has ended."""
    if (
        before is not None
        and before.update_ended_at
        and before.pod_clique_set_generation_hash == generation_hash
        and before.pod_template_hash in current
        and before.ready_pods_selected_to_update is None
    ):
        return before
    return PodCliqueUpdateProgress(
        update_started_at=now,
        update_ended_at=now,
        pod_clique_set_generation_hash=generation_hash,
        pod_template_hash=own_hash,
    )


def recorded_group(
    before: PodCliqueScalingGroupUpdateProgress | None, generation_hash: str, now: str
) -> PodCliqueScalingGroupUpdateProgress:
    """Return the progress of a group: as it was, if it is of this template and has ended."""
    if (
        before is not None
        and before.update_ended_at
        and before.pod_clique_set_generation_hash == generation_hash
        and before.ready_replica_indices_selected_to_update is None
    ):
        return before
    return PodCliqueScalingGroupUpdateProgress(
        update_started_at=now, update_ended_at=now, pod_clique_set_generation_hash=generation_hash
    )
