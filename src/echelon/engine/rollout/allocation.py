"""Which reference a cluster belongs to, and which clusters are in a rollout although no decision has them.

Placements may overlap, and decisions may be in the middle of being rewritten. A cluster gets its content once
nevertheless: the first reference of the spec that selects the cluster owns it. A cluster that nobody selects, and that
keeps what it holds for the time being, is in the rollout where it was seen last, if that means anything to the others:
it may be in flight, or have failed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from echelon.api.rollout import ClusterRollout
from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.rollout.departures import Departures, departures, failure_of
from echelon.engine.rollout.model import ClusterStatus, Control, Phase
from echelon.engine.rollout.references import PlacementReference
from echelon.engine.rollout.removal import NO_REMOVAL, Removal, RemovalControl
from echelon.engine.rollout.strategy import BadStrategy, Strategy, read_strategy
from echelon.engine.rollout.subject import Holding, Subject

NOT_FOUND, NOT_AS_EXPECTED = "PlacementDecisionNotFound", "NotAsExpected"


@dataclass(frozen=True)
class AllocationError:
    """Why nothing can be done for a reference."""

    reason: str
    message: str


@dataclass(frozen=True)
class Allocation:
    """A reference with the clusters that are its own."""

    reference: PlacementReference
    groups: DecisionGroups = field(default_factory=lambda: DecisionGroups({}))
    strategy: Strategy | None = None
    error: AllocationError | None = None
    undecided: frozenset[str] = frozenset()  # clusters in the groups that no decision has at the moment
    failed: Mapping[str, ClusterStatus] = field(default_factory=dict)  # those of them that lose it, having failed

    @property
    def settled(self) -> bool:
        """Whether its decisions are complete."""
        return self.reference.placement is not None and self.reference.placement.settled

    @property
    def is_doubtful(self) -> bool:
        """Whether clusters that it does not list may be its own."""
        return self.reference.uncertain or not self.settled

    @property
    def placements(self) -> frozenset[str]:
        """The names of the placements whose clusters it has."""
        return frozenset(key.placement or self.reference.name for key in self.groups.groups) | {self.reference.name}

    def control_of(self, control: Control) -> Control:
        """Return what is said about the groups of this reference; those of several placements say which they are of."""
        if any(key.placement for key in self.groups.groups):
            return control
        return control.within(self.reference.name)

    @property
    def incomplete_groups(self) -> frozenset[GroupKey]:
        """The groups that have clusters which no decision lists."""
        placement = self.reference.placement
        return placement.incomplete_groups if placement is not None else frozenset()


@dataclass(frozen=True)
class Allocations:
    """All references with their clusters, and who loses what it holds."""

    references: tuple[Allocation, ...]
    removal: Removal = NO_REMOVAL
    uncertain: bool = False  # there may be more to delete or to forget, and what is known is not new enough to tell

    @property
    def to_delete(self) -> tuple[str, ...]:
        """The clusters that lose what they hold now, because nobody selects them."""
        return self.removal.going


def owners_of(references: Iterable[PlacementReference]) -> dict[str, PlacementReference]:
    """Return which reference owns each cluster: the first that selects it."""
    owners: dict[str, PlacementReference] = {}
    for ref in reversed(list(references)):
        if ref.placement is not None and not ref.placement.error:
            owners.update(dict.fromkeys(ref.placement.groups.clusters, ref))
    return owners


def allocate(subject: Subject, revision: str, control: RemovalControl, now: datetime) -> Allocations:
    """Allocate clusters to references; `revision` is what they are to have."""
    owners = owners_of(subject.references)
    _leave_to_the_unreadable(subject, owners)
    departed = departures(subject, owners, control, now)
    found = [_allocation(subject, ref, owners) for ref in subject.references]
    unwritten = _unwritten(subject, revision, owners, found)
    undecided = _Undecided(subject, departed, unwritten, revision, now)
    uncertain = departed.uncertain or any(each.settled for each in found if each.reference.name in unwritten)
    return Allocations(tuple(map(undecided.joined, found)), departed.removal, uncertain)


def _leave_to_the_unreadable(subject: Subject, owners: dict[str, PlacementReference]) -> None:
    """Take clusters away from later references, if they have their content by an earlier one that cannot be read."""
    order = {ref.name: number for number, ref in reversed(list(enumerate(subject.references)))}
    unknown = {ref.name for ref in subject.references if ref.placement is None or ref.placement.error}
    if not unknown:
        return
    for cluster, holding in subject.holdings.items():
        owner = owners.get(cluster)
        if owner is not None and holding.placement in unknown and order[holding.placement] < order[owner.name]:
            del owners[cluster]


def _allocation(subject: Subject, ref: PlacementReference, owners: Mapping[str, PlacementReference]) -> Allocation:
    if ref.placement is None:
        message = f"there is no placement {ref.name} in namespace {subject.namespace}"
        return Allocation(ref, error=AllocationError(NOT_FOUND, message))
    if ref.placement.error:
        message = f"placement {ref.name}: {ref.placement.error}"
        return Allocation(ref, error=AllocationError(NOT_AS_EXPECTED, message))
    groups = ref.placement.groups
    if not all(owners.get(cluster) is ref for cluster in groups.clusters):
        owned = {key: frozenset(c for c in each if owners.get(c) is ref) for key, each in groups.groups.items()}
        groups = DecisionGroups(owned)
    try:
        default = subject.default_concurrency or ref.placement.group_size
        return Allocation(ref, groups, read_strategy(ref.strategy, default))
    except BadStrategy as error:
        return Allocation(ref, groups, error=AllocationError(NOT_AS_EXPECTED, f"{ref.path}.{error}"))


def _unwritten(
    subject: Subject, revision: str, owners: Mapping[str, PlacementReference], allocations: Sequence[Allocation]
) -> dict[str, set[str]]:
    """Return the clusters that could not be given anything and that nobody lists, by the reference they are of.

    Where decisions are not settled they may be listed again in a moment. If it were forgotten until then that they
    have failed, the rollout would go on.
    """
    failed = [cluster for cluster, one in subject.outcomes.content.items() if one.revision == revision]
    missing = [each for each in failed if each not in owners and each not in subject.holdings]
    unsettled = [each for each in allocations if each.is_doubtful]
    found: dict[str, set[str]] = {}
    if not missing or not unsettled:
        return found
    seen = _last_seen(subject)
    home = {placement: each for each in reversed(allocations) for placement in each.placements}
    for cluster in missing:
        was = seen.get(cluster)
        of = home.get(was.placement, unsettled[0]) if was is not None else unsettled[0]
        if of.is_doubtful:
            found.setdefault(of.reference.name, set()).add(cluster)
    return found


@dataclass(frozen=True)
class _Undecided:
    """Clusters that stay in the rollout although nobody lists them.

    They may be in flight, and a place that is taken must not be given away because its cluster is moved from one
    decision to another; or they have failed, and what stopped a rollout does not end with the selection.
    """

    subject: Subject
    departed: Departures
    unwritten: Mapping[str, Collection[str]]  # clusters that hold nothing, by reference
    revision: str
    now: datetime

    def joined(self, allocation: Allocation) -> Allocation:
        """Return an allocation with those that stay."""
        departed = self.departed.holdings.get(allocation.reference.name, ())
        undecided = set(self.unwritten.get(allocation.reference.name, ()))
        if not departed and not undecided:
            return allocation
        deadline = allocation.strategy.deadline if allocation.strategy is not None else None
        going = set(self.departed.removal.going)
        failed: dict[str, ClusterStatus] = {}
        for holding in departed:
            if holding.terminating or holding.cluster in going:
                failure = failure_of(holding, deadline, self.now) if holding.revision == self.revision else None
                if failure is not None:
                    failed[holding.cluster] = failure
            elif self._stays(allocation, holding):
                undecided.add(holding.cluster)
        undecided |= failed.keys()
        if not undecided:
            return allocation
        groups = _joined(allocation, undecided, _last_seen(self.subject))
        return replace(allocation, groups=groups, undecided=frozenset(undecided), failed=failed)

    def _stays(self, allocation: Allocation, holding: Holding) -> bool:
        """Whether a cluster means anything to the rollout. Those that are fine do, too, where there are no others."""
        fine = holding.status.phase is Phase.SUCCEEDED
        if not allocation.groups.clusters:
            return True
        if allocation.is_doubtful:
            unwritten = self.subject.outcomes.content.get(holding.cluster)  # it has a place, too
            is_due = unwritten is not None and unwritten.revision == self.revision
            return holding.revision == self.revision or not fine or is_due
        return holding.revision == self.revision and not fine


def _last_seen(subject: Subject) -> dict[str, ClusterRollout]:
    """Return in which groups clusters were when the status was written; it has all that need a look."""
    return {each.cluster: each for each in subject.reported.clusters} if subject.reported is not None else {}


def _joined(allocation: Allocation, undecided: Collection[str], seen: Mapping[str, ClusterRollout]) -> DecisionGroups:
    """Return groups with clusters where they were last; else where some are missing, or where they hold nobody back."""
    groups = allocation.groups.groups
    found = {key: set(clusters) for key, clusters in sorted(groups.items())} or {GroupKey(): set()}
    last = max(found)
    home = min(allocation.incomplete_groups, default=last)
    for cluster in undecided:
        was = seen.get(cluster)
        places = [key for key in found if was and (key.placement or allocation.reference.name) == was.placement]
        if was is None or not places:
            found[home].add(cluster)
        else:
            found[next((key for key in places if key.index >= was.group_index), last)].add(cluster)
    return DecisionGroups({key: frozenset(clusters) for key, clusters in found.items()})
