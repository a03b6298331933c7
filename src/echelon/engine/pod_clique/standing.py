"""Where each clique, group and replica of a set stands, judged by its live pods.

Labels of cliques do not tell: under OnDelete they are those of the new template while every pod runs the old one. So a
clique is updated when all of its pods are, and a group's replica when all of its cliques are. This is read off the
tallies and kept with what was observed, so that a plan pays for what changed; everything that decides or reports goes
by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from echelon.api.grovestatus import LastError
from echelon.api.times import parse_time
from echelon.engine.pod_clique.floor import UnitBudget, given_up
from echelon.engine.pod_clique.pod_facts import EPOCH
from echelon.engine.pod_clique.revisions import SetRevision, numbers
from echelon.engine.pod_clique.set_spec import GroupSpec, SetSpec
from echelon.engine.pod_clique.shape import ExpectedClique, ExpectedGroup, Shape
from echelon.engine.pod_clique.tally import NO_PODS, Tally
from echelon.engine.pod_clique.view import CliqueView, GroupView, SetView

POD_REFUSED = "ERR_POD_REFUSED"  # the code of an error: the server does not take pods of a clique


class Templates(msgspec.Struct, frozen=True):
    """Which hashes stand for the present template of each clique, and how old the others are."""

    current: Mapping[str, frozenset[str]]  # by clique of the set
    numbers: Mapping[tuple[str, str], int]  # of revisions, by clique and hash

    def age(self, clique: str, found: str) -> int:
        """Return a number that is the smaller the older a template is; what nobody stored is the oldest."""
        return self.numbers.get((clique, found), -1)


def templates_of(spec: SetSpec, revisions: Sequence[SetRevision]) -> Templates:
    """Return the templates of a set. What somebody else calls a template is as good as our own name for it."""
    current = {clique.name: {clique.hash} for clique in spec.cliques}
    for revision in revisions:
        for clique, found in revision.hashes.items():
            if clique in current and found in current[clique]:
                current[clique].update(revision.aliases.get(clique, ()))
    return Templates({clique: frozenset(names) for clique, names in current.items()}, numbers(revisions))


class CliqueStanding(msgspec.Struct, frozen=True):
    """A clique that should exist, and what there is of it. It is kept with the view that it points at."""

    expected: ExpectedClique
    view: CliqueView | None  # None if it does not exist or is being deleted
    tally: Tally
    replicas: int
    need: int  # pods without which its gang does not work
    updated: int  # live pods that run the present template
    synced: bool  # it has the present template, so that new pods will
    current: frozenset[str]  # hashes of the present template
    scheduled: bool  # enough pods have a node
    available: bool  # enough pods are ready
    converged: bool  # every pod that is wanted is there and runs the present template, and enough are ready

    @property
    def outdated(self) -> int:
        """Live pods that run another template."""
        return self.tally.live - self.updated

    @property
    def lags(self) -> bool:
        """Whether some pod runs another template, or would if it were made now."""
        return self.view is not None and (not self.synced or self.tally.live != self.updated)

    def is_current(self, found: str) -> bool:
        """Whether a hash is that of the present template."""
        return found in self.current

    @property
    def lacking(self) -> int:
        """Pods that are wanted and do not exist."""
        return max(0, self.replicas - self.tally.live)

    @property
    def down(self) -> Sequence[datetime]:
        """Since when pods are not ready, the longest first; those that the server does not take have no age but this.

        Each pod more that is lacking lets the clock of all of them start anew: which of them is how old is not known.
        """
        known = refusal(self.view.status.last_errors) if self.view is not None else None
        if known is None or known.description != refusal_text(self.lacking, self.replicas):
            return self.tally.down
        since = parse_time(known.observed_at) or EPOCH
        return sorted((*self.tally.down, *(since for _ in range(self.lacking))))

    def below_since(self) -> datetime | None:
        """Return since when too few pods are ready; None if since just now. Only for what is not available."""
        down, tolerated = self.down, self.replicas - self.need
        return down[tolerated] if tolerated < len(down) else None


def refusal(errors: Sequence[LastError]) -> LastError | None:
    """Return what a status tells of pods that the server does not take."""
    return next((each for each in errors if each.code == POD_REFUSED), None)


def refusal_text(lacking: int, replicas: int) -> str:
    """Return what a status says of pods that the server does not take."""
    return f"{lacking} of {replicas} pods do not exist, because the server does not take them"


def clique_standing(expected: ExpectedClique, view: CliqueView | None, current: frozenset[str]) -> CliqueStanding:
    """Judge one clique."""
    if view is None or view.terminating:
        need = min(expected.spec.min_available, expected.replicas)
        return CliqueStanding(expected, None, NO_PODS, expected.replicas, need, 0, False, current, False, False, False)
    known = view.derived.get("standing")
    if known is not None and known.expected is expected and known.current == current:
        found: CliqueStanding = known
        return found
    tally = view.tally
    need = min(view.min_available, view.replicas)
    updated = sum(count for each, count in tally.hashes.items() if each in current)
    synced = view.hash in current
    available = tally.ready >= need
    view.derived["standing"] = found = CliqueStanding(
        expected,
        view,
        tally,
        view.replicas,
        need,
        updated,
        synced,
        current,
        tally.scheduled >= need,
        available,
        synced and available and updated == tally.live == view.replicas,
    )
    return found


class Unit(msgspec.Struct, frozen=True):
    """A replica of a scaling group."""

    index: int
    cliques: tuple[CliqueStanding, ...]
    complete: bool  # all of its cliques exist
    scheduled: bool  # all of its cliques have enough pods with a node
    available: bool  # all of its cliques have enough ready pods
    converged: bool  # all of its cliques are updated and work
    lags: bool  # some pod runs another template, or would if it were made now

    def down_since(self) -> datetime | None:
        """Return since when it is not available; None if since just now."""
        times = [each.below_since() for each in self.cliques if not each.available]
        known = [time for time in times if time is not None]
        return min(known) if known else None


def unit_of(index: int, cliques: Sequence[CliqueStanding]) -> Unit:
    """Judge a replica of a group by its cliques."""
    complete = scheduled = available = converged = True
    lags = False
    for each in cliques:
        complete = complete and each.view is not None
        scheduled = scheduled and each.scheduled
        available = available and each.available
        converged = converged and each.converged
        lags = lags or each.lags
    return Unit(index, tuple(cliques), complete, scheduled, available, converged, lags)


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """A scaling group that should exist, what there is of it, and its replicas."""

    expected: ExpectedGroup
    view: GroupView | None
    units: tuple[Unit, ...]  # of the replicas that are wanted, by index
    surplus: tuple[Unit, ...]  # replicas that are there beyond these, by index
    available: bool  # enough replicas are available
    converged: bool  # all replicas are updated and work
    lags: bool  # some pod runs another template, or would if it were made now

    @property
    def spec(self) -> GroupSpec:
        """What the set says of it."""
        return self.expected.spec

    @property
    def need(self) -> int:
        """Replicas without which its gang does not work."""
        return min(self.spec.min_available, self.expected.replicas)


def _group_of(
    expected: ExpectedGroup, view: GroupView | None, units: tuple[Unit, ...], surplus: tuple[Unit, ...]
) -> GroupStanding:
    there = view is not None and not view.terminating
    need = min(expected.spec.min_available, expected.replicas)
    return GroupStanding(
        expected,
        view if there else None,
        units,
        surplus,
        there and sum([unit.available for unit in units]) >= need,
        there and False not in [unit.converged for unit in units],
        True in [unit.lags for unit in units],
    )


@dataclass(frozen=True, slots=True)
class ReplicaStanding:
    """A replica of the set."""

    index: int
    cliques: tuple[CliqueStanding, ...]  # the standalone ones
    groups: tuple[GroupStanding, ...]
    everything: tuple[CliqueStanding, ...]  # all cliques of it that should exist
    available: bool  # all of it has what it needs
    converged: bool  # all of it is updated and works
    lags: bool  # some pod runs another template, or would if it were made now

    @property
    def deadline(self) -> timedelta:
        """How long others wait for all of it to come back."""
        times = [each.expected.spec.progress_deadline for each in self.cliques]
        return max((*times, *(each.spec.progress_deadline for each in self.groups)), default=timedelta())


def _replica_of(index: int, cliques: list[CliqueStanding], groups: list[GroupStanding]) -> ReplicaStanding:
    return ReplicaStanding(
        index,
        tuple(cliques),
        tuple(groups),
        (*cliques, *[each for group in groups for unit in group.units for each in unit.cliques]),
        False not in [each.available for each in cliques] and False not in [each.available for each in groups],
        False not in [each.converged for each in cliques] and False not in [each.converged for each in groups],
        True in [each.lags for each in cliques] or True in [each.lags for each in groups],
    )


def standings(
    shape: Shape, view: SetView, templates: Templates, surplus: Mapping[str, Sequence[Unit]]
) -> tuple[ReplicaStanding, ...]:
    """Judge a whole set. `surplus` has the replicas of groups that are too many, by the name of the group."""
    cliques: dict[int, list[CliqueStanding]] = {}
    units: dict[tuple[int, str], dict[int, list[CliqueStanding]]] = {}
    seen, current = view.cliques, templates.current
    for expected in shape.cliques:
        found = clique_standing(expected, seen.get(expected.name), current[expected.spec.name])
        key = expected.key
        if not key.group:
            cliques.setdefault(key.replica, []).append(found)
        else:
            units.setdefault((key.replica, key.group), {}).setdefault(key.group_replica, []).append(found)
    groups: dict[int, list[GroupStanding]] = {}
    for each in shape.groups:
        members = units.get(each.key, {})
        found_units = tuple(unit_of(index, members[index]) for index in sorted(members))
        extra = tuple(surplus.get(each.name, ()))
        groups.setdefault(each.key.replica, []).append(_group_of(each, view.groups.get(each.name), found_units, extra))
    replicas = sorted(cliques.keys() | groups.keys())
    return tuple(_replica_of(index, cliques.get(index, []), groups.get(index, [])) for index in replicas)


def clique_ledger(clique: CliqueStanding, now: datetime) -> UnitBudget:
    """Return what may go of a standalone clique."""
    spec, tally = clique.expected.spec, clique.tally
    return UnitBudget(
        replicas=clique.replicas,
        min_available=spec.min_available if clique.view is None else clique.view.min_available,
        max_unavailable=spec.max_unavailable,
        ready=tally.ready,
        given_up=given_up(clique.down, spec.progress_deadline, now),
    )


def group_ledger(group: GroupStanding, now: datetime) -> UnitBudget:
    """Return what may go of a scaling group. Replicas that are too many serve as long as they are there."""
    spec = group.spec
    lacking = [unit.down_since() for unit in group.units if not unit.available]
    return UnitBudget(
        replicas=group.expected.replicas,
        min_available=spec.min_available,
        max_unavailable=spec.max_unavailable,
        ready=sum(unit.available for unit in (*group.units, *group.surplus)),
        given_up=sum(_is_over(since, spec.progress_deadline, now) for since in lacking),
    )


def _is_over(since: datetime | None, deadline: timedelta, now: datetime) -> bool:
    return since is not None and now - since >= deadline
