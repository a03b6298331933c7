"""Which update of a set is under way, and which replica's turn it is.

The strategy is no part of any hash, so a change of it shows only in what is there. Hence it is not the change that is
acted on but the state: an open update under OnDelete is closed at once, whoever opened it; and pods that run an older
template under RollingRecreate are an update that has to be opened, whether an edit, a change of strategy or a hole in
the bookkeeping left them. What is terminating goes on; what was only selected stays.

A replica is named in the status before anything of it is taken, so that whoever comes next knows whose turn it is.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from echelon.api.grovestatus import (
    PodCliqueScalingGroupUpdateProgress,
    PodCliqueSetStatus,
    PodCliqueSetUpdateProgress,
    PodCliqueUpdateProgress,
    ReplicaUpdateProgress,
)
from echelon.engine.pod_clique.on_delete import recorded_clique, recorded_group, recorded_set
from echelon.engine.pod_clique.set_spec import SetSpec
from echelon.engine.pod_clique.standing import CliqueStanding, GroupStanding, ReplicaStanding


@dataclass(frozen=True)
class Update:
    """The update that is under way, as it was observed."""

    generation_hash: str
    on_delete: bool
    rolling: bool  # a roll is open, and it is of the present template
    starting: bool = False  # the status does not tell of the present template yet
    selected: frozenset[int] = frozenset()  # replicas that are rolled

    def takes(self, replica: int) -> bool:
        """Whether a replica is rolled."""
        return replica in self.selected


def observed_update(spec: SetSpec, status: PodCliqueSetStatus) -> Update:
    """Return the update that a status tells of, as far as it is one of the present template and strategy."""
    progress = status.update_progress
    rolling = (
        not spec.on_delete
        and status.current_generation_hash == spec.generation_hash
        and progress is not None
        and not progress.update_ended_at
    )
    chosen = progress.currently_updating if rolling and progress is not None else []
    return Update(
        spec.generation_hash,
        spec.on_delete,
        rolling,
        starting=status.current_generation_hash not in ("", spec.generation_hash),
        selected=frozenset(each.replica_index for each in chosen),
    )


def next_progress(
    spec: SetSpec,
    status: PodCliqueSetStatus,
    replicas: Sequence[ReplicaStanding],
    *,
    stuck: Collection[int],
    out: Collection[int],
    taken: Collection[int],
    now: str,
    paused: bool,
) -> PodCliqueSetUpdateProgress | None:
    """Return the progress of a set, without its counters.

    `stuck` are replicas that nobody waits for any more; `out` those of which something is missing that is expected
    back, and `taken` those of them of which a roll has taken it. These keep their turn when a newer template comes, and
    have it again when a strategy changes back.
    """
    before = status.update_progress
    if not status.current_generation_hash:
        return before
    if status.current_generation_hash != spec.generation_hash:
        return recorded_set(now) if spec.on_delete else _opened(taken, now)
    is_open = before is not None and not before.update_ended_at
    if spec.on_delete:
        return recorded_set(now) if is_open else before
    if before is None or not is_open:
        drifted = any(replica.lags for replica in replicas)
        return _opened(taken, now) if drifted else before
    chosen = _turns(before.currently_updating, replicas, stuck, out, now) if not paused else before.currently_updating
    if not chosen and all(replica.converged for replica in replicas):
        return msgspec.structs.replace(before, update_ended_at=now, currently_updating=[])
    return msgspec.structs.replace(before, currently_updating=chosen)


def _opened(taken: Collection[int], now: str) -> PodCliqueSetUpdateProgress:
    again = [ReplicaUpdateProgress(replica_index=index, update_started_at=now) for index in sorted(taken)]
    return PodCliqueSetUpdateProgress(update_started_at=now, currently_updating=again)


def _turns(
    before: Sequence[ReplicaUpdateProgress],
    replicas: Sequence[ReplicaStanding],
    stuck: Collection[int],
    out: Collection[int],
    now: str,
) -> list[ReplicaUpdateProgress]:
    """Return the replicas that are rolled: one, and those that were given up waiting for."""
    unfinished = {replica.index for replica in replicas if not replica.converged or replica.index in out}
    chosen = [each for each in before if each.replica_index in unfinished]
    if any(each.replica_index not in stuck for each in chosen):
        return chosen
    named = {each.replica_index for each in chosen}
    waiting = [replica for replica in replicas if replica.lags and replica.index not in named]
    if not waiting:
        return chosen
    first = min(waiting, key=lambda replica: _rank(replica, out))
    chosen.append(ReplicaUpdateProgress(replica_index=first.index, update_started_at=now))
    return chosen


def _rank(replica: ReplicaStanding, out: Collection[int]) -> tuple[bool, bool, bool, int]:
    """Replicas without any pod that has a node go first, then those that do not work, or lack something."""
    homeless = not any(each.tally.scheduled for each in replica.everything)
    return (not homeless, replica.available, replica.index not in out, replica.index)


def clique_progress(
    clique: CliqueStanding, before: PodCliqueUpdateProgress | None, update: Update, now: str, *, is_out: bool
) -> PodCliqueUpdateProgress | None:
    """Return the progress of a clique. It is not over while a pod is out that is expected back (`is_out`)."""
    key, own = clique.expected.key, clique.expected.spec.hash
    if update.on_delete:
        return recorded_clique(before, update.generation_hash, clique.current, own, now)
    if not key.standalone:
        return None  # its group has it, and what OnDelete left here would never end
    mine = (
        before is not None
        and before.pod_clique_set_generation_hash == update.generation_hash
        and before.pod_template_hash in clique.current
    )
    selected = update.takes(key.replica)
    if before is not None and mine:
        if before.update_ended_at:
            reopened = selected and clique.lags
            return msgspec.structs.replace(before, update_started_at=now, update_ended_at="") if reopened else before
        over = (clique.converged and not is_out) or not selected
        return _closed_clique(before, now) if over else before
    if update.starting:
        return before
    if update.rolling and not selected:
        return _closed_clique(before, now)
    started = PodCliqueUpdateProgress(
        update_started_at=now, pod_clique_set_generation_hash=update.generation_hash, pod_template_hash=own
    )
    over = (clique.converged and not is_out) or not update.rolling
    return msgspec.structs.replace(started, update_ended_at=now) if over else started


def _closed_clique(before: PodCliqueUpdateProgress | None, now: str) -> PodCliqueUpdateProgress | None:
    if before is None or before.update_ended_at:
        return before
    return msgspec.structs.replace(before, update_ended_at=now, ready_pods_selected_to_update=None)


def group_progress(
    group: GroupStanding, before: PodCliqueScalingGroupUpdateProgress | None, update: Update, now: str
) -> PodCliqueScalingGroupUpdateProgress | None:
    """Return the progress of a group, without its counters."""
    if update.on_delete:
        return recorded_group(before, update.generation_hash, now)
    selected = update.takes(group.expected.key.replica)
    if not selected:
        if before is None or before.update_ended_at:
            return before
        return msgspec.structs.replace(before, update_ended_at=now, ready_replica_indices_selected_to_update=None)
    if before is None or before.pod_clique_set_generation_hash != update.generation_hash:
        before = PodCliqueScalingGroupUpdateProgress(
            update_started_at=now, pod_clique_set_generation_hash=update.generation_hash
        )
    elif before.update_ended_at and group.lags:
        before = msgspec.structs.replace(before, update_started_at=now, update_ended_at="")
    if before.update_ended_at or not group.converged:
        return before
    return msgspec.structs.replace(before, update_ended_at=now, ready_replica_indices_selected_to_update=None)


def is_rolled(
    progress: PodCliqueUpdateProgress | PodCliqueScalingGroupUpdateProgress | None, update: Update, replica: int
) -> bool:
    """Whether something may be taken: it is its turn, and its status says so."""
    return (
        update.takes(replica)
        and progress is not None
        and not progress.update_ended_at
        and progress.pod_clique_set_generation_hash == update.generation_hash
    )
