"""Replicas that were rolled when the strategy changed, and of which something is still out.

Under OnDelete an update is over at once and names nothing that it takes. But what a roll has taken before is out all
the same, and nothing else that is ready may go until it is back or was waited for long enough: no gang, and no other
replica once the strategy changes back. Several replicas may lack something then, so which of them was rolled cannot be
seen from their pods. It is noted beside the gangs that were terminated, in the same words and for the same reason.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from echelon.api.grovestatus import PodCliqueSetStatus, PodCliqueSetUpdateProgress, PodGangStatusItem
from echelon.api.times import format_time, parse_time
from echelon.engine.conditions import ConditionStamp, find_condition
from echelon.engine.pod_clique.clique_status import say, unsay
from echelon.engine.pod_clique.names import base_gang_name
from echelon.engine.pod_clique.pod_facts import EPOCH
from echelon.engine.pod_clique.standing import ReplicaStanding

INTERRUPTED = "UpdateInterrupted"


def rolled(status: PodCliqueSetStatus) -> frozenset[int]:
    """Return the replicas that an update names which is not over, whatever the strategy is by now."""
    progress = status.update_progress
    if progress is None or progress.update_ended_at:
        return frozenset()
    return frozenset(each.replica_index for each in progress.currently_updating)


def interrupted(
    set_name: str, replicas: Sequence[ReplicaStanding], notes: Sequence[PodGangStatusItem], now: datetime
) -> dict[int, datetime]:
    """Return the replicas whose roll was interrupted and which are waited for, and since when."""
    words = {note.name: find_condition(note.conditions, INTERRUPTED) for note in notes}
    found: dict[int, datetime] = {}
    for replica in replicas if any(words.values()) else ():
        word = words.get(base_gang_name(set_name, replica.index))
        if word is None:
            continue
        since = parse_time(word.last_transition_time) or EPOCH
        if now - since < replica.deadline:
            found[replica.index] = since
    return found


def noted(
    notes: Sequence[PodGangStatusItem],
    set_name: str,
    out: Collection[int],
    progress: PodCliqueSetUpdateProgress | None,
    *,
    known: Mapping[int, datetime],
    stamp: ConditionStamp,
) -> tuple[PodGangStatusItem, ...]:
    """Return the notes of a set, with one for each replica in `out` that no open update names.

    `out` are replicas of which something was taken and is not back; `known` are those of them with a note. What is
    noted of gangs stays as it is.
    """
    is_open = progress is not None and not progress.update_ended_at
    named = {each.replica_index for each in progress.currently_updating} if is_open and progress is not None else set()
    found = {note.name: unsay(note.conditions, INTERRUPTED) for note in notes}
    for index in sorted(set(out) - named):
        name = base_gang_name(set_name, index)
        text = "the strategy changed while it was updated; what was taken of it is not back yet"
        word = stamp.condition(INTERRUPTED, True, "StrategyChanged", text)
        since = known.get(index)
        found[name] = say(found.get(name, ()), word, format_time(since) if since is not None else "")
    return tuple(
        PodGangStatusItem(name=name, phase="Pending", conditions=found[name]) for name in sorted(found) if found[name]
    )
