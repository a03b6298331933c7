"""Which placement a cluster belongs to, which work is the cluster's one, and which works have to go.

Placements may overlap, works may have been made twice, and decisions may be in the middle of being rewritten. A cluster
has one work nevertheless: the first placement of the spec that selects the cluster owns it. A cluster that nobody
selects, and that keeps its work for the time being, is in the rollout where it was seen last, if that means anything to
the others: it may be in flight, or have failed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.rollout.model import ClusterStatus, Phase
from echelon.engine.rollout.removal import NO_REMOVAL, Removal, RemovalControl
from echelon.engine.rollout.strategy import BadStrategy, Strategy, read_strategy
from echelon.engine.work_set.leaving import Leaving, failure_of, leave
from echelon.engine.work_set.view import RefView, WorkSetView, WorkView

NOT_FOUND, NOT_AS_EXPECTED = "PlacementDecisionNotFound", "NotAsExpected"


@dataclass(frozen=True)
class Trouble:
    """Why nothing can be done for a reference."""

    reason: str
    message: str


@dataclass(frozen=True)
class Share:
    """A reference with the clusters that are its own."""

    ref: RefView
    groups: DecisionGroups = field(default_factory=lambda: DecisionGroups({}))
    strategy: Strategy | None = None
    trouble: Trouble | None = None
    lingering: frozenset[str] = frozenset()  # clusters in the groups that no decision has at the moment
    failed: Mapping[str, ClusterStatus] = field(default_factory=dict)  # those of them whose works go, having failed

    @property
    def settled(self) -> bool:
        """Whether its decisions are complete."""
        return self.ref.placement is not None and self.ref.placement.settled


@dataclass(frozen=True)
class Sharing:
    """All references with their clusters, the work of each cluster, and the works that are to be deleted."""

    shares: tuple[Share, ...]
    works: Mapping[str, WorkView]
    doubles: tuple[WorkView, ...]  # to be deleted, because their clusters have another one
    gone: tuple[WorkView, ...]  # to be deleted, because nobody selects their clusters
    doubtful: bool = False  # there may be more to delete, and what is known is not new enough to tell
    removal: Removal = NO_REMOVAL


def share_out(view: WorkSetView, digest: str, control: RemovalControl, now: datetime) -> Sharing:
    """Share the clusters out among the references; `digest` is of what they are to have."""
    readable = [ref for ref in view.refs if ref.placement is not None and not ref.placement.trouble]
    owners: dict[str, RefView] = {}
    for ref in reversed(readable):
        if ref.placement is not None:
            owners.update(dict.fromkeys(ref.placement.groups.clusters, ref))
    works, doubles = _one_each(view, owners)
    _leave_to_the_unreadable(view, works, owners)
    leaving = leave(view, works, owners, control, now)
    lingering = _Lingering(view, leaving, digest, now)
    shares = tuple(_share(view, ref, owners, lingering) for ref in view.refs)
    # A second work is no removal: its cluster keeps what it has. But paused is paused.
    beside = [] if control.paused else doubles
    return Sharing(shares, works, tuple(beside), leaving.works, leaving.doubtful, leaving.removal)


def _one_each(view: WorkSetView, owners: Mapping[str, RefView]) -> tuple[dict[str, WorkView], list[WorkView]]:
    """Choose one work for each cluster, and those beside it that are to be deleted."""
    works, doubles = dict[str, WorkView](), list[WorkView]()
    name = view.work_set.metadata.name
    for cluster, found in view.works.items():
        if len(found) == 1:
            works[cluster] = found[0]
            continue
        owner = owners.get(cluster)
        best, *others = sorted(
            found,
            key=lambda work: (
                work.terminating,
                owner is not None and work.placement != owner.name,
                work.name != name,
                work.name,
            ),
        )
        works[cluster] = best
        doubles += [work for work in others if not work.terminating]
    return works, doubles


def _leave_to_the_unreadable(view: WorkSetView, works: Mapping[str, WorkView], owners: dict[str, RefView]) -> None:
    """Take clusters away from later references, if an earlier one of which nothing is known has a work there."""
    order = {ref.name: number for number, ref in reversed(list(enumerate(view.refs)))}
    unknown = {ref.name for ref in view.refs if ref.placement is None or ref.placement.trouble}
    if not unknown:
        return
    for cluster, work in works.items():
        owner = owners.get(cluster)
        if owner is not None and work.placement in unknown and order[work.placement] < order[owner.name]:
            del owners[cluster]


def _share(view: WorkSetView, ref: RefView, owners: Mapping[str, RefView], lingering: "_Lingering") -> Share:
    if ref.placement is None:
        message = f"there is no placement {ref.name} in namespace {view.work_set.metadata.namespace}"
        return lingering.joined(Share(ref, trouble=Trouble(NOT_FOUND, message)))
    if ref.placement.trouble:
        trouble = Trouble(NOT_AS_EXPECTED, f"placement {ref.name}: {ref.placement.trouble}")
        return lingering.joined(Share(ref, trouble=trouble))
    groups = ref.placement.groups
    if not all(owners.get(cluster) is ref for cluster in groups.clusters):
        owned = {key: frozenset(c for c in each if owners.get(c) is ref) for key, each in groups.groups.items()}
        groups = DecisionGroups(owned)
    try:
        return lingering.joined(Share(ref, groups, read_strategy(ref.strategy, ref.placement.group_size)))
    except BadStrategy as error:
        trouble = Trouble(NOT_AS_EXPECTED, f"spec.placementRefs[{view.refs.index(ref)}].{error}")
        return lingering.joined(Share(ref, groups, trouble=trouble))


@dataclass(frozen=True)
class _Lingering:
    """Clusters that stay in the rollout although nobody lists them.

    They may be in flight, and a place that is taken must not be given away because its cluster is moved from one
    decision to another; or they have failed, and what stopped a rollout does not end with the selection.
    """

    view: WorkSetView
    leaving: Leaving
    digest: str
    now: datetime

    def joined(self, share: Share) -> Share:
        """Return a share with those that linger."""
        departed = self.leaving.of.get(share.ref.name, ())
        if not departed:
            return share
        deadline = share.strategy.deadline if share.strategy is not None else None
        going = set(self.leaving.removal.going)
        failed: dict[str, ClusterStatus] = {}
        lingering: set[str] = set()
        for work in departed:
            if work.terminating or work.cluster in going:
                failure = failure_of(work, deadline, self.now) if work.digest == self.digest else None
                if failure is not None:
                    failed[work.cluster] = failure
            elif self._stays(share, work):
                lingering.add(work.cluster)
        lingering |= failed.keys()
        if not lingering:
            return share
        short = share.ref.placement.short if share.ref.placement is not None else ()
        groups = _joined(share.groups, lingering, _last_seen(self.view, share.ref), short)
        return replace(share, groups=groups, lingering=frozenset(lingering), failed=failed)

    def _stays(self, share: Share, work: WorkView) -> bool:
        """Whether a cluster means anything to the rollout. Those that are fine do, too, where there are no others."""
        fine = work.status.phase is Phase.SUCCEEDED
        if not share.groups.clusters:
            return True
        if share.ref.doubtful or not share.settled:
            unwritten = self.view.outcomes.content.get(work.cluster)  # it has a place, too
            is_due = unwritten is not None and unwritten.revision == self.digest
            return work.digest == self.digest or not fine or is_due
        return work.digest == self.digest and not fine


def _last_seen(view: WorkSetView, ref: RefView) -> dict[str, int]:
    """Return in which groups clusters were when the status was written; it has all that need a look."""
    told = view.work_set.status.rollout
    return {each.cluster: each.group_index for each in told.clusters if each.placement == ref.name} if told else {}


def _joined(
    groups: DecisionGroups, lingering: Iterable[str], seen: Mapping[str, int], short: Collection[GroupKey]
) -> DecisionGroups:
    """Return groups with clusters where they were last; else where some are missing, or where they hold nobody back."""
    found = {key: set(clusters) for key, clusters in sorted(groups.groups.items())} or {GroupKey(): set()}
    last = max(found)
    home = min(short, default=last)
    for cluster in lingering:
        at = seen.get(cluster)
        found[home if at is None else next((key for key in found if key.index >= at), last)].add(cluster)
    return DecisionGroups({key: frozenset(clusters) for key, clusters in found.items()})
