"""The status of a PodCliqueScalingGroup: its replicas, counted by their cliques, and how far its update is."""

from collections.abc import Mapping, Sequence

import msgspec

from echelon.api.grovestatus import (
    GroupReplicasSelectedToUpdate,
    PodCliqueScalingGroupStatus,
    PodCliqueScalingGroupUpdateProgress,
    PodCliqueStatus,
)
from echelon.api.meta import Condition
from echelon.api.times import format_time
from echelon.engine.conditions import ConditionStamp, find_condition
from echelon.engine.pod_clique.clique_status import BREACHED, MOST_NAMES, UPDATING, say, unsay
from echelon.engine.pod_clique.names import GROUP, MANAGED_BY, OPERATOR, PART_OF
from echelon.engine.pod_clique.pod_facts import EPOCH
from echelon.engine.pod_clique.standing import GroupStanding, Unit
from echelon.engine.pod_clique.view import GroupView

TERMINATED = "GangTerminationInProgress"
SCALE_IN_HELD = "ScaleInHeld"

FEW_REPLICAS = "InsufficientAvailablePodCliqueScalingGroupReplicas"
ENOUGH_REPLICAS = "SufficientAvailablePodCliqueScalingGroupReplicas"


def is_breached(conditions: Sequence[Condition]) -> bool:
    """Whether conditions say that there are too few."""
    known = find_condition(conditions, BREACHED)
    return known is not None and known.status == "True"


def was_healthy(view: GroupView, conditions: Sequence[Condition]) -> bool:
    """Whether a group has, or ever had, as many healthy replicas as it needs."""
    known = find_condition(conditions, BREACHED)
    if known is None:
        return False
    return known.status != "True" or known.last_transition_time > format_time(view.created)


def breached_units(group: GroupStanding, cliques: Mapping[str, PodCliqueStatus]) -> list[Unit]:
    """Return the replicas of a group in which some clique has too few pods, by the cliques' statuses by name."""
    return [
        unit
        for unit in group.units
        if not unit.available  # as most are, and with enough ready pods nothing has too few
        and any(
            each.expected.name in cliques and is_breached(cliques[each.expected.name].conditions)
            for each in unit.cliques
        )
    ]


def group_status(
    group: GroupStanding,
    view: GroupView,
    progress: PodCliqueScalingGroupUpdateProgress | None,
    cliques: Mapping[str, PodCliqueStatus],
    *,
    generation_hash: str,
    set_name: str,
    now: str,
    terminated: bool,
    held: Sequence[Unit],
) -> PodCliqueScalingGroupStatus:
    """Return the status of a group; `cliques` has the statuses of its cliques by name.

    `terminated` says that the gang which it is in was terminated and is not back; `held` are replicas that are too many
    and have to stay for now.
    """
    before, units = view.status, group.units
    stamp = ConditionStamp(view.metadata.generation, now)
    available = [unit for unit in units if unit.available]
    conditions = _conditions(group, view, progress, cliques, stamp)
    conditions = _held(conditions, group, held, stamp)
    conditions = _terminated(conditions, stamp, terminated=terminated)
    if progress is not None:
        progress = msgspec.structs.replace(
            progress,
            updated_pod_cliques_count=sum(each.converged for unit in units for each in unit.cliques),
            total_pod_cliques_count=group.expected.replicas * len(group.spec.clique_names),
        )
    converged = group.converged and (progress is None or bool(progress.update_ended_at))
    return PodCliqueScalingGroupStatus(
        replicas=group.expected.replicas,
        scheduled_replicas=sum(unit.scheduled for unit in units),
        available_replicas=len(available),
        updated_replicas=sum(unit.converged for unit in available),
        selector=f"{MANAGED_BY}={OPERATOR},{PART_OF}={set_name},{GROUP}={view.name}",
        observed_generation=stamp.generation,
        conditions=conditions,
        current_pod_clique_set_generation_hash=(
            generation_hash if converged else before.current_pod_clique_set_generation_hash
        ),
        update_progress=progress,
    )


def selected_units(
    progress: PodCliqueScalingGroupUpdateProgress, taken: Sequence[int]
) -> PodCliqueScalingGroupUpdateProgress:
    """Return progress with replicas that were just taken: the last is the present one, the others are behind it."""
    if not taken or progress.update_ended_at:
        return progress
    before = progress.ready_replica_indices_selected_to_update
    done = [] if before is None else [*before.completed, before.current]
    row = [each for each in done if each not in taken] + list(taken)
    chosen = GroupReplicasSelectedToUpdate(current=row[-1], completed=row[:-1][-MOST_NAMES:])
    return msgspec.structs.replace(progress, ready_replica_indices_selected_to_update=chosen)


def _conditions(
    group: GroupStanding,
    view: GroupView,
    progress: PodCliqueScalingGroupUpdateProgress | None,
    cliques: Mapping[str, PodCliqueStatus],
    stamp: ConditionStamp,
) -> list[Condition]:
    broken = {unit.index for unit in breached_units(group, cliques)}
    healthy = sum(unit.complete and unit.index not in broken for unit in group.units)
    text = f"{healthy} replicas are healthy, {group.need} are needed"
    if progress is not None and not progress.update_ended_at:
        word = stamp.condition(BREACHED, "Unknown", UPDATING, "its replicas are being replaced")
    elif healthy < group.need:
        word = stamp.condition(BREACHED, "True", FEW_REPLICAS, text)
    else:
        word = stamp.condition(BREACHED, "False", ENOUGH_REPLICAS, text)
    born = format_time(view.created) if view.created != EPOCH else stamp.now
    return say(view.status.conditions, word, born if word.status == "True" else "")


def _held(
    before: Sequence[Condition], group: GroupStanding, held: Sequence[Unit], stamp: ConditionStamp
) -> list[Condition]:
    if not held:
        return unsay(before, SCALE_IN_HELD) if find_condition(before, SCALE_IN_HELD) else list(before)
    indices = ", ".join(str(unit.index) for unit in sorted(held, key=lambda unit: unit.index))
    text = (
        f"replica {indices} is too many and stays, because without it fewer than {group.need} replicas would be ready"
    )
    return say(before, stamp.condition(SCALE_IN_HELD, "True", "MinAvailable", text))


def _terminated(before: Sequence[Condition], stamp: ConditionStamp, *, terminated: bool) -> list[Condition]:
    if not terminated:
        return unsay(before, TERMINATED) if find_condition(before, TERMINATED) else list(before)
    text = "its gang was terminated and is not back yet"
    return say(before, stamp.condition(TERMINATED, "True", "GangTerminationActive", text))
