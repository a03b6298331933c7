"""Which placement a cluster belongs to, which work is the cluster's one, and which works have to go.

Placements may overlap, works may have been made twice, and decisions may be in the middle of being rewritten. A cluster
has one work nevertheless: the first placement of the spec that selects the cluster owns it. And nothing is deleted
because of what somebody is still writing: a work goes only when decisions that agree with their placement's status, and
are of the same time, do not have its cluster. Until then the cluster is in the rollout, where it was seen last.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.rollout.model import Phase
from echelon.engine.rollout.strategy import BadStrategy, Strategy, read_strategy
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

    @property
    def settled(self) -> bool:
        """Whether its decisions are complete."""
        return self.ref.placement is not None and self.ref.placement.settled


@dataclass(frozen=True)
class Sharing:
    """All references with their clusters, the work of each cluster, and the works that are to be deleted."""

    shares: tuple[Share, ...]
    works: Mapping[str, WorkView]
    leaving: tuple[WorkView, ...]
    doubtful: bool = False  # there may be more to delete, and what is known is not new enough to tell


def share_out(view: WorkSetView, digest: str) -> Sharing:
    """Share the clusters out among the references; `digest` is of what they are to have."""
    readable = [ref for ref in view.refs if ref.placement is not None and not ref.placement.trouble]
    owners: dict[str, RefView] = {}
    for ref in reversed(readable):
        if ref.placement is not None:
            owners.update(dict.fromkeys(ref.placement.groups.clusters, ref))
    works, doubles = _one_each(view, owners)
    _leave_to_the_unreadable(view, works, owners)
    shares = tuple(_share(view, ref, owners, works, digest) for ref in view.refs)
    gone = _deselected(view, works, owners)
    # Who wrote a work knew why. Decisions that are older than that say nothing against it.
    unsure = any(ref.doubtful for ref in view.refs)
    certain = [work for work in gone if not unsure and not view.behind(work)]
    waiting = unsure and any(share.lingering for share in shares)
    return Sharing(shares, works, (*doubles, *certain), doubtful=waiting or len(certain) < len(gone))


def _one_each(view: WorkSetView, owners: Mapping[str, RefView]) -> tuple[dict[str, WorkView], list[WorkView]]:
    """Choose one work for each cluster, and those beside it that are to be deleted."""
    works, doubles = dict[str, WorkView](), list[WorkView]()
    name = view.work_set.metadata.name
    for cluster, found in view.works.items():
        if len(found) == 1:
            works[cluster] = found[0]
            continue
        owner = owners[cluster].name if cluster in owners else ""
        best, *others = sorted(
            found, key=lambda work: (work.terminating, work.placement != owner, work.name != name, work.name)
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


def _share(
    view: WorkSetView, ref: RefView, owners: Mapping[str, RefView], works: Mapping[str, WorkView], digest: str
) -> Share:
    if ref.placement is None:
        message = f"there is no placement {ref.name} in namespace {view.work_set.metadata.namespace}"
        return Share(ref, trouble=Trouble(NOT_FOUND, message))
    if ref.placement.trouble:
        return Share(ref, trouble=Trouble(NOT_AS_EXPECTED, f"placement {ref.name}: {ref.placement.trouble}"))
    groups = ref.placement.groups
    if not all(owners.get(cluster) is ref for cluster in groups.clusters):
        owned = {key: frozenset(c for c in each if owners.get(c) is ref) for key, each in groups.groups.items()}
        groups = DecisionGroups(owned)
    lingering: frozenset[str] = frozenset()
    unsure = ref.doubtful or not ref.placement.settled
    if unsure and (lingering := _lingering(ref, owners, works.values(), digest)):
        groups = _joined(groups, lingering, _last_seen(view, ref), ref.placement.short)
    try:
        return Share(ref, groups, read_strategy(ref.strategy, ref.placement.group_size), lingering=lingering)
    except BadStrategy as error:
        trouble = Trouble(NOT_AS_EXPECTED, f"spec.placementRefs[{view.refs.index(ref)}].{error}")
        return Share(ref, groups, trouble=trouble, lingering=lingering)


def _lingering(ref: RefView, owners: Mapping[str, RefView], works: Iterable[WorkView], digest: str) -> frozenset[str]:
    """Return clusters that stay in the rollout although nobody lists them while decisions are being rewritten.

    They may be in flight, and a place that is taken must not be given away because its cluster is moved from one
    decision to another.
    """
    return frozenset(
        work.cluster
        for work in works
        if work.cluster not in owners
        and work.placement == ref.name
        and (work.digest == digest or work.status.phase is not Phase.SUCCEEDED)
    )


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


def _deselected(view: WorkSetView, works: Mapping[str, WorkView], owners: Mapping[str, RefView]) -> list[WorkView]:
    """Return the works of clusters that nobody selects any more, if that is certain."""
    placements = {ref.name: ref.placement for ref in view.refs}
    for placement in placements.values():
        if placement is not None and not placement.settled:
            return []
    return [
        work
        for cluster, work in works.items()
        if cluster not in owners
        and not work.terminating
        and (work.placement not in placements or placements[work.placement] is not None)
    ]
