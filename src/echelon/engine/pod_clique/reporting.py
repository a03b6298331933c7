"""What cliques and groups report in one plan, and how a status is written.

A clique whose status is right is not looked at again until something that its status hangs on changes; and when many
change at once, one plan tells of some and the next one of the others.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from echelon.api.base import APIStruct
from echelon.api.grovestatus import PodCliqueScalingGroupStatus, PodCliqueStatus
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.engine.merge_patch import merge_difference
from echelon.engine.plan import Patch
from echelon.engine.pod_clique.clique_status import clique_status, note_settled, settled_status
from echelon.engine.pod_clique.deciding import Facts, Moves, is_terminated
from echelon.engine.pod_clique.group_status import group_status
from echelon.engine.pod_clique.strategy_change import clique_progress, group_progress

MOST_STATUSES = 100  # of cliques that one plan writes: more would take longer than a step may take


def clique_statuses(facts: Facts, moves: Moves) -> dict[str, PodCliqueStatus]:
    """Return the statuses of cliques. When more change than one plan writes, the rest stays as it is for now."""
    update, stamp, set_name = facts.update, facts.stamp, facts.set_name
    found, changed = {}, 0
    for name, clique in facts.cliques.items():
        view = clique.view
        if view is None:
            continue
        is_out = name in moves.budgets and moves.budgets[name].out > 0
        refused = name in facts.view.refused
        key = (update, clique.current, is_out, refused)
        status = settled_status(view, key) if changed < MOST_STATUSES else view.status
        if status is None:
            progress = clique_progress(clique, view.status.update_progress, update, stamp, is_out=is_out)
            status = clique_status(
                clique,
                view,
                progress,
                generation_hash=update.generation_hash,
                set_name=set_name,
                now=stamp,
                refused=refused,
            )
            if status == view.status:
                status = view.status
                note_settled(view, key)
            else:
                changed += 1
        found[name] = status
    moves.more = changed == MOST_STATUSES
    return found


def group_statuses(
    facts: Facts, moves: Moves, cliques: Mapping[str, PodCliqueStatus]
) -> dict[str, PodCliqueScalingGroupStatus]:
    """Return the statuses of groups, by those of their cliques."""
    found = {}
    for replica in facts.replicas:
        terminated = is_terminated(facts, replica.index)
        for group in replica.groups:
            if group.view is not None:
                progress = group_progress(group, group.view.status.update_progress, facts.update, facts.stamp)
                found[group.expected.name] = group_status(
                    group,
                    group.view,
                    progress,
                    cliques,
                    generation_hash=facts.update.generation_hash,
                    set_name=facts.set_name,
                    now=facts.stamp,
                    terminated=terminated,
                    held=moves.held.get(group.expected.name, ()),
                )
    return found


def status_patch(kind: Kind[Any], metadata: ObjectMeta, before: APIStruct, after: APIStruct) -> Patch | None:
    """Return the write of a status, as far as it is ours, if it says something new."""
    if before == after:
        return None
    change = merge_difference(msgspec.to_builtins(before), msgspec.to_builtins(after))
    return Patch.of(kind, metadata, {"status": change}, subresource="status") if change else None
