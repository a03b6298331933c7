"""When a gang that has been broken for too long is replaced as a whole, and what of it goes.

A replica of a group is a gang as long as the group has enough others; otherwise, and for standalone cliques, the whole
replica of the set is. The clock is the time of the condition that tells of the breach, so each new breach starts anew,
and nothing counts that never worked. Which gang was terminated, and when, is noted in the set's status before anything
is deleted; pods that are older than the note go, and those that come instead are younger. The note stays until the gang
is back, and while it is there the gang is not terminated again unless it got its nodes and still does not work.

Under OnDelete a user's edit must not turn into a restart of everything: while a gang lacks pods that found no node and
run a newer template than the one that worked last, its termination is held.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from echelon.api.grovestatus import PodCliqueScalingGroupStatus, PodCliqueStatus, PodGangStatusItem
from echelon.api.meta import Condition
from echelon.api.times import format_time, parse_time
from echelon.engine.conditions import ConditionStamp, find_condition
from echelon.engine.pod_clique.clique_status import BREACHED, FEW_SCHEDULED, say, was_scheduled
from echelon.engine.pod_clique.floor import ReplicaTurns
from echelon.engine.pod_clique.group_status import TERMINATED, breached_units, is_breached, was_healthy
from echelon.engine.pod_clique.names import base_gang_name
from echelon.engine.pod_clique.pod_facts import EPOCH, PodFacts
from echelon.engine.pod_clique.set_spec import SetSpec
from echelon.engine.pod_clique.standing import CliqueStanding, GroupStanding, ReplicaStanding, Unit

HELD = "GangTerminationHeld"
ANNOTATION = "echelon.dev/gang-termination"
ALWAYS = "always"


@dataclass(frozen=True)
class Gang:
    """What is terminated as a whole."""

    name: str  # of a base gang, or of a group with the number of its replica
    replica: int
    cliques: tuple[CliqueStanding, ...]
    deadline: timedelta  # how long others wait for it to come back

    @property
    def available(self) -> bool:
        """Whether all of it works."""
        return all(each.available for each in self.cliques)


@dataclass(frozen=True)
class Broken:
    """A gang with too few pods."""

    gang: Gang
    lacking: tuple[CliqueStanding, ...]  # cliques with too few pods
    since: datetime

    def due(self, delay: timedelta) -> datetime:
        """Return when it is terminated."""
        return self.since + delay


@dataclass(frozen=True)
class Termination:
    """What becomes of broken gangs in one plan."""

    notes: tuple[PodGangStatusItem, ...] = ()
    pods: Mapping[str, Sequence[PodFacts]] = field(default_factory=dict)  # to delete, by clique
    begun: tuple[Gang, ...] = ()
    held: tuple[tuple[Gang, str], ...] = ()  # newly held, with the reason
    due: datetime | None = None  # when the next gang is terminated


def unit_name(group: GroupStanding, unit: Unit) -> str:
    """Return what a replica of a group is called in the set's status."""
    return f"{group.expected.name}/{unit.index}"


def gangs_of(set_name: str, replica: ReplicaStanding) -> Iterator[Gang]:
    """Return what may be terminated in a replica: all of it, and each replica of a group."""
    yield Gang(base_gang_name(set_name, replica.index), replica.index, replica.everything, replica.deadline)
    for group in replica.groups:
        for unit in group.units:
            yield Gang(unit_name(group, unit), replica.index, unit.cliques, group.spec.progress_deadline)


def noted(notes: Sequence[PodGangStatusItem]) -> dict[str, datetime]:
    """Return when gangs were terminated that are not back, by name."""
    found: dict[str, datetime] = {}
    for note in notes:
        word = find_condition(note.conditions, TERMINATED)
        if word is not None and word.status == "True":
            found[note.name] = parse_time(word.last_transition_time) or EPOCH
    return found


def is_out(gang: Gang, since: datetime, now: datetime) -> bool:
    """Whether others wait for a gang that was terminated."""
    return not gang.available and now - since < gang.deadline


def broken_gangs(
    set_name: str,
    replica: ReplicaStanding,
    cliques: Mapping[str, PodCliqueStatus],
    groups: Mapping[str, PodCliqueScalingGroupStatus],
    notes: Mapping[str, datetime],
) -> Iterator[Broken]:
    """Return the gangs of a replica that have too few pods, by the statuses of cliques and groups by name."""
    gangs = {gang.name: gang for gang in gangs_of(set_name, replica)}
    whole = base_gang_name(set_name, replica.index)
    lacking: list[CliqueStanding] = []
    times: list[datetime] = []
    for group in replica.groups:
        status = groups.get(group.expected.name)
        if group.view is None or status is None:
            continue
        broken = breached_units(group, cliques)
        if is_breached(status.conditions) and was_healthy(group.view, status.conditions):
            lacking += [each for unit in broken for each in unit.cliques if _is_lacking(each, cliques)]
            times.append(_since(status.conditions))
        if status.update_progress is not None and not status.update_progress.update_ended_at:
            continue
        counted = [unit for unit in broken if any(_counts(each, cliques) for each in unit.cliques)]
        if len(group.units) - len(counted) < group.need:
            continue  # too many for the group to go on without them: all of the replica goes
        for unit in counted:
            found = tuple(each for each in unit.cliques if _counts(each, cliques))
            since = min(_since(cliques[each.expected.name].conditions) for each in found)
            yield from _again(Broken(gangs[unit_name(group, unit)], found, since), (whole,), cliques, notes)
    if any(each.view is None for each in replica.cliques):
        return
    alone = [each for each in replica.cliques if _counts(each, cliques)]
    times += [_since(cliques[each.expected.name].conditions) for each in alone]
    if times:
        yield from _again(Broken(gangs[whole], (*alone, *lacking), min(times)), (), cliques, notes)


def _again(
    broken: Broken, also: Sequence[str], cliques: Mapping[str, PodCliqueStatus], notes: Mapping[str, datetime]
) -> Iterator[Broken]:
    """Let a gang that was terminated and is not back count only if it got its nodes, and only from then on."""
    times = [notes[name] for name in (broken.gang.name, *also) if name in notes]
    if not times:
        yield broken
    elif not any(_reason(cliques[each.expected.name].conditions) == FEW_SCHEDULED for each in broken.lacking):
        yield Broken(broken.gang, broken.lacking, max(broken.since, *times))


def old_pods(gang: Gang, since: datetime) -> dict[str, list[PodFacts]]:
    """Return the live pods of a gang that are older than its termination, by clique."""
    found: dict[str, list[PodFacts]] = {}
    for clique in gang.cliques:
        if clique.view is not None and clique.tally.live:
            old = [pod for pod in clique.view.pods if pod.live and pod.created < since]
            if old:
                found[clique.expected.name] = old
    return found


def why_held(broken: Broken, spec: SetSpec, annotation: str | None, *, has_older: bool) -> str:
    """Return why a gang is not terminated although it is time; nothing if it is."""
    if not spec.on_delete or annotation == ALWAYS:
        return ""
    for clique in broken.lacking:
        if clique.view is None:
            continue
        worked = clique.view.status.current_pod_template_hash
        if clique.is_current(worked) or (not worked and not has_older):
            continue
        homeless = [
            pod.name for pod in clique.view.pods if pod.live and not pod.scheduled and clique.is_current(pod.hash)
        ]
        if homeless:
            text = (
                f"pod {homeless[0]} runs a newer template than the one that worked last and has no node; terminating "
                f"the gang would bring all of its pods to that template. Annotation {ANNOTATION}: {ALWAYS} allows it"
            )
            return text if annotation is None else f'{text}, which is "{annotation}"'
    return ""


def terminate(
    set_name: str,
    spec: SetSpec,
    replicas: Sequence[ReplicaStanding],
    cliques: Mapping[str, PodCliqueStatus],
    groups: Mapping[str, PodCliqueScalingGroupStatus],
    *,
    before: Sequence[PodGangStatusItem],
    turns: ReplicaTurns,
    annotation: str | None,
    now: datetime,
    has_older: bool,
) -> Termination:
    """Decide about broken gangs; `turns` knows of everything else that is out, and learns of what is terminated."""
    notes = noted(before)
    kept: dict[str, PodGangStatusItem] = {}
    pods: dict[str, Sequence[PodFacts]] = {}
    known = {note.name: note for note in before}
    found: list[Broken] = []
    for replica in replicas:
        if not notes and not _is_suspect(replica, cliques, groups):
            continue
        for gang in gangs_of(set_name, replica) if notes else ():
            if gang.name in notes and not gang.available:
                kept[gang.name] = known[gang.name]
                pods |= old_pods(gang, notes[gang.name])
        found += broken_gangs(set_name, replica, cliques, groups, notes)
    due = [moment for each in found if (moment := each.due(spec.termination_delay)) > now]
    begun: list[Gang] = []
    held: list[tuple[Gang, str]] = []
    stamp = ConditionStamp(0, format_time(now))
    for each in sorted(found, key=lambda one: (one.since, one.gang.name)):
        gang = each.gang
        if each.due(spec.termination_delay) > now:
            continue
        if why := why_held(each, spec, annotation, has_older=has_older):
            earlier = known.get(gang.name)
            if earlier is None or find_condition(earlier.conditions, HELD) is None:
                held.append((gang, why))
            word = stamp.condition(HELD, True, "UnschedulableOnNewerRevision", why)
            kept[gang.name] = _note(gang, word, earlier)
        elif turns.may_terminate() or (gang.name in notes and turns.may_roll(gang.replica)):
            turns.took(gang.replica)
            begun.append(gang)
            text = f"it has had too few pods since {format_time(each.since)}"
            word = stamp.condition(TERMINATED, True, "GangTerminationActive", text)
            kept[gang.name] = _note(gang, word, None)
    return Termination(
        tuple(kept[name] for name in sorted(kept)), pods, tuple(begun), tuple(held), min(due, default=None)
    )


def _note(gang: Gang, word: Condition, earlier: PodGangStatusItem | None) -> PodGangStatusItem:
    return PodGangStatusItem(
        name=gang.name, phase="Pending", conditions=say(earlier.conditions if earlier is not None else (), word)
    )


def _is_suspect(
    replica: ReplicaStanding,
    cliques: Mapping[str, PodCliqueStatus],
    groups: Mapping[str, PodCliqueScalingGroupStatus],
) -> bool:
    """Whether something in a replica may be broken: most never are, and need no closer look."""
    if replica.available and all(unit.available for group in replica.groups for unit in group.units):
        return False
    return any(_is_lacking(each, cliques) for each in replica.everything) or any(
        is_breached(groups[group.expected.name].conditions) for group in replica.groups if group.expected.name in groups
    )


def _is_lacking(clique: CliqueStanding, cliques: Mapping[str, PodCliqueStatus]) -> bool:
    if clique.available:
        return False
    status = cliques.get(clique.expected.name)
    return status is not None and is_breached(status.conditions)


def _counts(clique: CliqueStanding, cliques: Mapping[str, PodCliqueStatus]) -> bool:
    """Whether a clique has too few pods and once had enough."""
    if clique.view is None or not _is_lacking(clique, cliques):
        return False
    return was_scheduled(clique.view, cliques[clique.expected.name].conditions)


def _since(conditions: Sequence[Condition]) -> datetime:
    known = find_condition(conditions, BREACHED)
    return (parse_time(known.last_transition_time) if known is not None else None) or EPOCH


def _reason(conditions: Sequence[Condition]) -> str:
    known = find_condition(conditions, BREACHED)
    return known.reason if known is not None else ""
