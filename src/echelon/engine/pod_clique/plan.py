"""What is to be done about a set: children, pods, gates, statuses, events, and when to look again.

One plan for the whole set, because one budget is kept for all that is deleted. Everything is derived from what is
there; what has to be remembered (whose turn it is, which gang was terminated) is in a status before anything is done
for it, so a crash after any of the writes leads to the same world. Writes of different objects wait for nobody; a
child's status comes before its spec, because it tells what was seen.

What goes because of a size goes after a write that the server takes only of the object that has the size, as it was
seen: a cache of sizes may lag behind that of pods, for a long time after a restart, and then what somebody has just
scaled out looks like too many.

A plan makes no more pods than it can write down within its time; the rest follows when these are made.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.grovestatus import PodCliqueScalingGroupStatus, PodCliqueSetStatus, PodCliqueStatus
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.api.podgangs import POD_GANG
from echelon.api.times import format_time
from echelon.engine.conditions import ConditionStamp
from echelon.engine.plan import NOTHING, Create, Delete, Emit, InOrder, Patch, Plan, ReadRequest, Together, Write
from echelon.engine.pod_clique import events, interruption, revisions
from echelon.engine.pod_clique.clique_status import selected
from echelon.engine.pod_clique.deciding import Facts, Moves, end_gangs, read_facts, roll_on, scale_in
from echelon.engine.pod_clique.gang_status import gang_status
from echelon.engine.pod_clique.gates import release, released
from echelon.engine.pod_clique.group_status import selected_units
from echelon.engine.pod_clique.pod_facts import ENDED_BEFORE, PodFacts
from echelon.engine.pod_clique.pods import PodMaker, pod_maker
from echelon.engine.pod_clique.replacing import NewPod, refill
from echelon.engine.pod_clique.reporting import clique_statuses, group_statuses, status_patch
from echelon.engine.pod_clique.set_status import not_accepted_status, set_status
from echelon.engine.pod_clique.standing import CliqueStanding
from echelon.engine.pod_clique.strategy_change import next_progress
from echelon.engine.pod_clique.syncing import Sync, clique_deletions, removals, sync_children
from echelon.engine.pod_clique.termination import Termination
from echelon.engine.pod_clique.view import SetView

# What one plan writes: more would take longer to write down than a step may take.
MOST_PODS = 100
LEAST_PODS = 20  # however much else there is to be written
MOST_RELEASES = 500
SOON = timedelta(seconds=1)  # when more is to be made than one plan makes


def plan(view: SetView, now: datetime) -> Plan:
    """Plan a set."""
    reading = view.set
    if reading.metadata.deletion_timestamp:
        return NOTHING  # everything belongs to it, and goes with it
    if reading.spec is None:
        status = not_accepted_status(reading, view.failed, format_time(now))
        told = events.set_events(reading.metadata, reading.status, status, Termination())
        return Plan(tuple(told), status_patch(POD_CLIQUE_SET, reading.metadata, reading.status, status))
    facts = read_facts(view, reading.spec, now)
    moves = scale_in(facts)
    cliques = clique_statuses(facts, moves)
    groups = group_statuses(facts, moves, cliques)
    termination = end_gangs(facts, moves, cliques, groups)
    roll_on(facts, moves)
    return _Writing(facts, moves, termination, cliques, groups).plan()


class _Writing:
    """One plan being written down."""

    def __init__(
        self,
        facts: Facts,
        moves: Moves,
        termination: Termination,
        cliques: dict[str, PodCliqueStatus],
        groups: dict[str, PodCliqueScalingGroupStatus],
    ) -> None:
        self.facts = facts
        self.moves = moves
        self.termination = termination
        self.cliques = cliques
        self.groups = groups
        self.told: list[Emit] = []
        self.read: ReadRequest | None = None
        self.more = moves.more

    def plan(self) -> Plan:
        """Write it down."""
        facts, view = self.facts, self.facts.view
        reading, spec = view.set, facts.spec
        stored = self._revisions()
        sync = Sync(more=True) if stored else sync_children(view, spec, facts.shape, facts.cliques, self._retemplated())
        writes: list[Write | InOrder] = [*stored, *self._children(sync), *self._gangs(sync)]
        writes += self._deletions()
        writes += sync.others
        writes += self._releases()
        pods = self._pods(max(LEAST_PODS, MOST_PODS - len(writes)))
        status = self._set_status(settled=sync.empty)
        self.told += events.set_events(reading.metadata, reading.status, status, self.termination)
        self.told += events.failure_events(reading.metadata, reading.status, view.failed)
        together = (Together((*writes, *pods), slow_start=bool(pods)),) if writes or pods else ()
        return Plan(
            (*self.told, *together),
            status_patch(POD_CLIQUE_SET, reading.metadata, reading.status, status),
            self._look_again(more=self.more or (sync.more and not stored)),
            read=self.read,
        )

    def _retemplated(self) -> set[str]:
        return self.moves.roll.retemplated

    def _revisions(self) -> tuple[Write, ...]:
        """Store what is wanted before any child gets it: what somebody else called it is known nowhere else."""
        facts, reading = self.facts, self.facts.view.set
        foreign = [
            (clique.expected.key, clique.view.body)
            for clique in facts.cliques.values()
            if clique.view is not None and not clique.synced
        ]
        aliases = revisions.find_aliases(facts.spec, foreign) if foreign else None
        stored = revisions.store(reading.body, facts.spec, reading.revisions, aliases)
        if stored or len(reading.revisions) <= revisions.LIMIT:
            return stored
        used = {
            (clique.expected.spec.name, found) for clique in facts.cliques.values() for found in clique.tally.hashes
        }
        return revisions.prune(reading.body, facts.spec, reading.revisions, used)

    def _set_status(self, *, settled: bool) -> PodCliqueSetStatus:
        facts, moves = self.facts, self.moves
        stuck = sorted(moves.roll.stuck)
        before = facts.view.set.status
        taken = moves.out & (interruption.rolled(before) | moves.interrupted.keys())
        progress = next_progress(
            facts.spec,
            before,
            facts.replicas,
            stuck=stuck,
            out=moves.out,
            taken=taken,
            now=facts.stamp,
            paused=bool(facts.paused),
        )
        notes = interruption.noted(
            self.termination.notes,
            facts.set_name,
            taken,
            progress,
            known=moves.interrupted,
            stamp=ConditionStamp(0, facts.stamp),
        )
        return set_status(
            facts.view.set,
            facts.spec,
            facts.replicas,
            progress,
            gangs=notes,
            failed=facts.view.failed,
            now=facts.stamp,
            stuck=stuck,
            paused=facts.paused,
            settled=settled,
        )

    def _children(self, sync: Sync) -> list[Write | InOrder]:
        """Return the writes of cliques and groups: for each its status, then its spec."""
        found: list[Write | InOrder] = []
        roll = self.moves.roll
        for name, status in self.cliques.items():
            view = self.facts.cliques[name].view
            if view is None:
                continue
            if name in roll.ready_pods and status.update_progress is not None:
                progress = selected(status.update_progress, roll.ready_pods[name])
                status = msgspec.structs.replace(status, update_progress=progress)  # noqa: PLW2901 - the same, told more
            write = None
            if status is not view.status:
                self.told += events.clique_events(view, status)
                write = status_patch(POD_CLIQUE, view.metadata, view.status, status)
            excess = self.moves.excess.get(name, {})
            if write is not None or name in sync.patches or excess:
                gone = [_pod_deletion(pod, view.metadata.namespace) for pod in excess.values()]
                found += _sized(POD_CLIQUE, view.metadata, _chain(write, sync.patches.get(name)), gone)
        for name, group_said in self.groups.items():
            seen = self.facts.view.groups[name]
            if name in roll.ready_units and group_said.update_progress is not None:
                chosen = selected_units(group_said.update_progress, roll.ready_units[name])
                group_said = msgspec.structs.replace(group_said, update_progress=chosen)  # noqa: PLW2901 - as above
            self.told += events.group_events(seen, group_said)
            write = status_patch(POD_CLIQUE_SCALING_GROUP, seen.metadata, seen.status, group_said)
            units = [each.view for unit in self.moves.units.get(name, ()) for each in unit.cliques]
            row = _chain(write, sync.group_patches.get(name))
            found += _sized(POD_CLIQUE_SCALING_GROUP, seen.metadata, row, clique_deletions(units))
        return found

    def _gangs(self, sync: Sync) -> list[Write | InOrder]:
        found: list[Write | InOrder] = []
        for gang in self.facts.shape.gangs:
            seen = self.facts.view.gangs.get(gang.name)
            if seen is None or seen.terminating:
                continue
            status = gang_status(gang, seen, self.facts.cliques, self.facts.stamp)
            write = None if status is seen.status else status_patch(POD_GANG, seen.metadata, seen.status, status)
            found += _chain(write, sync.gang_patches.get(gang.name))
        return found

    def _deletions(self) -> list[Write | InOrder]:
        """Return the deletions of pods that are not too many, and of what the set has no place for any more."""
        facts, moves = self.facts, self.moves
        meta = facts.view.set.metadata
        found: list[Write | InOrder] = [
            _pod_deletion(pod, meta.namespace)
            for clique, pods in moves.pods.items()
            for pod in pods.values()
            if pod.name not in moves.excess.get(clique, {})
        ]
        held = [unit for units in moves.held.values() for unit in units]
        gone = removals(facts.view, facts.shape, facts.beyond.removed, held)
        return [*found, *_sized(POD_CLIQUE_SET, meta, (), gone)]

    def _releases(self) -> list[Write]:
        facts = self.facts
        found: list[Write] = []
        for gang in facts.shape.gangs:
            seen, base = facts.view.gangs.get(gang.name), facts.view.gangs.get(gang.base_gang)
            for pod in released(gang, seen, base, facts.cliques):
                if len(found) < MOST_RELEASES:
                    found.append(release(pod, facts.view.set.metadata.namespace))
                else:
                    self.more = True
        return found

    def _pods(self, most: int) -> list[Write | InOrder]:
        """Return the writes of pods that are lacking, and of pods that have ended."""
        facts, found, made = self.facts, list[Write | InOrder](), 0
        namespace = facts.view.set.metadata.namespace
        for clique in facts.cliques.values():
            if made == most:
                self.more = True
                break
            lacking = refill(clique, facts.now)
            if lacking.empty or clique.view is None:
                continue
            found += [_pod_deletion(pod, namespace) for pod in lacking.cleared]
            if lacking.due is not None:
                self.moves.due.append(lacking.due)
            if not lacking.pods or not self._may_make(clique) or clique.expected.name in facts.view.held:
                continue
            if not facts.view.reread:
                self.read = ReadRequest(names=())
                continue
            wanted = lacking.pods[: most - made]
            made += len(wanted)
            self.more = self.more or len(wanted) < len(lacking.pods)
            reading = facts.view.set
            maker = pod_maker(clique.view.body, reading.body, facts.spec, clique.expected.key, reading.settings)
            for pod in wanted:
                found += _chain(_new_pod(maker, pod, namespace), _gone(pod.instead_of, namespace))
        return found

    def _may_make(self, clique: CliqueStanding) -> bool:
        """Whether pods of a clique may be made: not while it has to get another template first."""
        if clique.synced:
            return True
        name, spec = clique.expected.name, self.facts.spec
        return bool(clique.expected.group) and not spec.on_delete and name not in self._retemplated()

    def _look_again(self, *, more: bool) -> timedelta | None:
        later = [moment - self.facts.now for moment in self.moves.due]
        return (
            max(min([*later, *([SOON] if more else [])], default=timedelta(-1)), timedelta()) if later or more else None
        )


def _chain(*writes: Write | None) -> Sequence[Write | InOrder]:
    """Return writes of one object, each of which waits for the one before it."""
    wanted = tuple(write for write in writes if write is not None)
    return wanted if len(wanted) < 2 else (InOrder(wanted),)


def _sized(
    kind: Kind[Any], seen: ObjectMeta, row: Sequence[Write | InOrder], gone: Sequence[Write]
) -> Sequence[Write | InOrder]:
    """Return writes of an object, and after them what goes because of its size: not if it is no longer as it was seen.

    Without a write there is one that changes nothing, and is refused all the same.
    """
    if not gone:
        return row
    first = [write for each in row for write in (each.actions if isinstance(each, InOrder) else (each,))]
    unchanged = Patch.of(kind, seen, {}, subresource="status")
    return (InOrder((*(first or [unchanged]), Together(tuple(gone)))),)


def _new_pod(maker: PodMaker, pod: NewPod, namespace: str) -> Create:
    noted = {ENDED_BEFORE: str(pod.ended_before)} if pod.ended_before else None
    return Create(POD, maker.pod(pod.index, pod.predecessor, noted), namespace)


def _gone(pod: PodFacts | None, namespace: str) -> Delete | None:
    return None if pod is None else _pod_deletion(pod, namespace)


def _pod_deletion(pod: PodFacts, namespace: str) -> Delete:
    """Return the deletion of a pod that is as it was seen: one that has become ready since then stays."""
    return Delete(POD, pod.name, namespace, pod.uid, pod.version)
