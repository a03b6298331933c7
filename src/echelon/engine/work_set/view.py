"""What was observed of a work set, frozen: the set, its placements, its works, its revisions.

A set may have ten thousand works of which one changes at a time. So a work is read once for each version of it, into a
value that has everything that a plan asks for; the digest of its content, which is what costs, only when the content
changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

import msgspec

from echelon.api.base import APIStruct, JSONObject
from echelon.api.base import field as described
from echelon.api.daemonsets import ControllerRevision
from echelon.api.meta import ObjectMeta
from echelon.api.placement import Placement, PlacementDecision
from echelon.api.rollout import RolloutStrategy
from echelon.api.times import parse_time
from echelon.api.work import ManifestWork, ManifestWorkSpec
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET, ManifestWorkReplicaSetStatus, PlacementRef
from echelon.engine.placement.decisions import DecisionGroups, GroupKey, UnreadableIndex
from echelon.engine.placement.groups import NotAPercentage, group_size
from echelon.engine.placement.status import SATISFIED
from echelon.engine.rollout.failed_writes import FailedWrite
from echelon.engine.rollout.model import ClusterStatus, Phase
from echelon.engine.rollout.removal import EVERYONE
from echelon.engine.rollout.thresholds import Threshold
from echelon.engine.work_set.content import Content, digest_of
from echelon.engine.work_set.names import (
    COMPLETED_ANNOTATION,
    COMPLETED_NUMBER_ANNOTATION,
    GENERATION_ANNOTATION,
    HASH_LABEL,
    LABELS_ANNOTATION,
    PASSED_ANNOTATION,
    PLACEMENT_LABEL,
    RETRIED_ANNOTATION,
    STOPPED_ANNOTATION,
    TURNED_ANNOTATION,
    WRITTEN_ANNOTATION,
)
from echelon.engine.work_set.progress import Progress, deadline_from, later, progress_of


class WorkSetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """The spec of a set, with the template as it was given: typed objects lose the fields that they do not know."""

    manifest_work_template: JSONObject | None = None
    placement_refs: list[PlacementRef] = msgspec.field(default_factory=list)
    cascade_deletion_policy: str = "Background"
    revision_history_limit: int | None = None


class WorkSet(APIStruct, frozen=True, gc=False, kw_only=True):
    """A ManifestWorkReplicaSet, as it is read here."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkSetSpec
    status: Annotated[ManifestWorkReplicaSetStatus, described("How far the works are.")] = (
        ManifestWorkReplicaSetStatus()
    )


@dataclass(frozen=True, slots=True)
class WorkView:
    """A work of the set."""

    cluster: str
    name: str
    uid: str
    version: str
    generation: int
    placement: str
    labels: Mapping[str, str]
    set_labels: str  # which of them it has from the set
    written: datetime | None
    retried: datetime | None
    spec: ManifestWorkSpec
    digest: str
    progress: Progress
    status: ClusterStatus
    terminating: bool
    turned: datetime | None = None  # when it stopped working, after it had worked with this content
    turned_noted: bool = True  # whether that is written on it
    left: ClusterStatus | None = None  # of one that is being deleted: where its cluster stood when that began


@dataclass(frozen=True)
class PlacementView:
    """A placement and its decisions."""

    groups: DecisionGroups
    selected: int = 0  # as its status says
    settled: bool = False  # whether status and decisions agree
    group_size: int = 0
    short: frozenset[GroupKey] = frozenset()  # groups of which the status says that there are more clusters
    trouble: str = ""  # why the decisions cannot be read
    named: frozenset[str] = frozenset()  # the groups that its spec has, with clusters or without
    nobody: bool = False  # it is to select no cluster: the user asks for none
    unsatisfied: str = ""  # what its status says of why not all, or none, are selected


@dataclass(frozen=True)
class RefView:
    """A reference to a placement, which may not exist."""

    name: str
    strategy: RolloutStrategy
    placement: PlacementView | None
    doubtful: bool = False  # status and decisions may be of different times, also where they agree
    ignored: str = ""  # which decisions do not count although they have its label
    note: str = ""  # what else somebody should know of its decisions


@dataclass(frozen=True)
class RevisionView:
    """A stored template."""

    name: str
    uid: str
    version: str
    number: int
    revision: str  # the hash of its content
    completed: str
    template: JSONObject | None
    generation: int = 0  # of the set, when this became its template
    owner: str = ""  # the uid of the set that owns it
    completed_number: str = ""  # the number that it had when it was completed
    passed: str = ""  # as its annotations say, with the number that it had then
    stopped: str = ""


@dataclass(frozen=True)
class WriteOutcomes:
    """What became of earlier writes for the set, of those that failed."""

    content: Mapping[str, FailedWrite] = field(default_factory=dict)  # by cluster: it did not get a revision
    other: Mapping[str, str] = field(default_factory=dict)  # by cluster: why its work was not relabelled or deleted
    own: str = ""  # why the set itself, or a revision of it, could not be written
    tried: datetime | None = None  # when something failed last
    next_try: datetime | None = None  # until then nothing of it is tried again


@dataclass(frozen=True)
class UnreadWork:
    """A work of the set that is there and does not fit its type."""

    cluster: str
    name: str
    uid: str
    why: str
    since: datetime | None  # when it was written
    terminating: bool

    @property
    def message(self) -> str:
        """What to tell people."""
        return f"the work {self.name} is there and cannot be read: {self.why}"


@dataclass(frozen=True)
class WorkSetView:
    """All that a plan for one set looks at."""

    work_set: WorkSet
    content: Content
    refs: tuple[RefView, ...] = ()
    works: Mapping[str, tuple[WorkView, ...]] = field(default_factory=dict)  # by cluster
    revisions: tuple[RevisionView, ...] = ()
    taken: frozenset[str] = frozenset()  # clusters where somebody else's work has the name of the set
    outcomes: WriteOutcomes = WriteOutcomes()
    stale: frozenset[str] = frozenset()  # uids of works that may go, and whose writers may have known more than this
    unread: tuple[UnreadWork, ...] = ()
    unbound: frozenset[str] = frozenset()  # clusters that are in no cluster set which is bound to the namespace
    leaving: frozenset[str] = frozenset()  # clusters that are on their way out of the fleet
    spared: Mapping[str, datetime] = field(default_factory=dict)  # clusters that may come back, and until when
    max_removals: Threshold = EVERYONE  # clusters that may lose their work at once, if the set says nothing else


def read_work(work: ManifestWork, before: WorkView | None = None) -> WorkView:
    """Read a work; `before` is what was read of it earlier."""
    meta = work.metadata
    known = before is not None and (before.uid, before.generation) == (meta.uid, meta.generation)
    written = parse_time(meta.annotations.get(WRITTEN_ANNOTATION))
    progress = progress_of(work, written)
    digest = before.digest if before is not None and known else digest_of(work.spec)
    retried = parse_time(meta.annotations.get(RETRIED_ANNOTATION))
    noted = parse_time(meta.annotations.get(TURNED_ANNOTATION))
    same = before is not None and (before.uid, before.digest, before.written) == (meta.uid, digest, written)
    turned = _turned(progress, noted, written, before if same else None)
    return WorkView(
        cluster=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        placement=meta.labels.get(PLACEMENT_LABEL, ""),
        labels=meta.labels,
        set_labels=meta.annotations.get(LABELS_ANNOTATION, ""),
        written=written,
        retried=retried,
        spec=work.spec,
        digest=digest,
        progress=progress,
        status=ClusterStatus(
            meta.namespace, progress.phase, progress.since, deadline_from(progress, written, turned, retried)
        ),
        terminating=bool(meta.deletion_timestamp),
        turned=turned,
        turned_noted=turned is None or turned == noted,
        left=_left(work, written, retried) if meta.deletion_timestamp else None,
    )


def _turned(
    progress: Progress, noted: datetime | None, written: datetime | None, before: WorkView | None
) -> datetime | None:
    """Return when a work stopped working that had worked with the content that it has.

    Conditions do not tell: one that is bad since a moment ago may have been good before, or bad in another way. So it
    counts what was seen, by us now or by somebody who noted it; and as long as it is bad that stays as it is.
    """
    if progress.phase is Phase.SUCCEEDED:
        return None
    if before is not None and before.progress.phase is Phase.SUCCEEDED:
        return later(progress.since, before.progress.since)
    if before is not None and before.turned is not None:
        return before.turned
    return noted if noted is not None and (written is None or noted >= written) else None


def _left(work: ManifestWork, written: datetime | None, retried: datetime | None) -> ClusterStatus:
    """Return where the cluster of a work that is being deleted would stand if it were not."""
    staying = msgspec.structs.replace(work, metadata=msgspec.structs.replace(work.metadata, deletion_timestamp=""))
    progress = progress_of(staying, written)
    clock = deadline_from(progress, written, None, retried)
    return ClusterStatus(work.metadata.namespace, progress.phase, progress.since, clock)


def believable(
    placement: Placement, decisions: Iterable[PlacementDecision]
) -> tuple[tuple[PlacementDecision, ...], bool]:
    """Return the decisions with a placement's label that count: those that it owns, or all if it owns none."""
    decisions = tuple(decisions)
    uid = placement.metadata.uid
    own = tuple(each for each in decisions if any(owner.uid == uid for owner in each.metadata.owner_references))
    return (own, True) if own else (decisions, False)


def read_placement(
    placement: Placement, decisions: Iterable[PlacementDecision], *, owned: bool = False
) -> PlacementView:
    """Read a placement with the decisions that are believed to be its own, because it owns them or by their label."""
    decisions = tuple(decisions)
    selected = placement.status.number_of_selected_clusters
    nobody, unsatisfied = placement.spec.number_of_clusters == 0, _unsatisfied(placement)
    try:
        groups = DecisionGroups.from_decisions(decisions)
    except UnreadableIndex as error:
        return PlacementView(DecisionGroups({}), selected, trouble=str(error))
    strategy = placement.spec.decision_strategy.group_strategy
    wanted, named = (
        strategy.clusters_per_decision_group,
        frozenset(each.group_name for each in strategy.decision_groups),
    )
    total = max(selected, len(groups.clusters))
    try:
        size = group_size(wanted, total)
    except NotAPercentage:  # the placement's own conditions tell that
        size = total
    if _is_settled(placement, decisions, groups, owned=owned):
        return PlacementView(groups, selected, True, size, named=named, nobody=nobody, unsatisfied=unsatisfied)
    short = _short(placement, groups)
    known = DecisionGroups({**dict.fromkeys(short, frozenset()), **groups.groups})
    return PlacementView(known, selected, False, size, short, named=named, nobody=nobody, unsatisfied=unsatisfied)


def _unsatisfied(placement: Placement) -> str:
    """Return why a placement has not selected all that it should, in its own words."""
    for each in placement.status.conditions:
        if each.type == SATISFIED and each.status == "False":
            return each.message or each.reason
    return ""


def _is_settled(
    placement: Placement, decisions: tuple[PlacementDecision, ...], groups: DecisionGroups, *, owned: bool
) -> bool:
    """Whether the decisions are what the placement says that they are: none missing, none left over, all complete."""
    status = placement.status
    listed = {each.metadata.name: len(each.status.decisions) if each.status else 0 for each in decisions}
    named = [name for group in status.decision_groups for name in group.decisions]
    if not named and not owned:  # whoever writes such decisions may say nothing of them elsewhere
        return bool(decisions) and status.number_of_selected_clusters in (0, len(groups.clusters))
    # Without any group nobody has decided yet: an empty decision is a group, too.
    if not named or sorted(named) != sorted(listed) or len(groups.clusters) != status.number_of_selected_clusters:
        return False
    return all(sum(listed[name] for name in each.decisions) == each.cluster_count for each in status.decision_groups)


def _short(placement: Placement, groups: DecisionGroups) -> frozenset[GroupKey]:
    """Return the groups of which clusters are in no decision, or in one of another group, at the moment."""
    there: dict[int, GroupKey] = {}
    sizes: dict[int, int] = {}
    for key, clusters in groups.groups.items():
        there[key.index] = key
        sizes[key.index] = sizes.get(key.index, 0) + len(clusters)
    return frozenset(
        there.get(each.decision_group_index, GroupKey(each.decision_group_index, each.decision_group_name))
        for each in placement.status.decision_groups
        if sizes.get(each.decision_group_index, 0) < each.cluster_count
    )


def is_revision_of(stored: ControllerRevision, work_set: WorkSet) -> bool:
    """Whether a revision with the label of a set is its own, or was that of an earlier set of the name."""
    owner = next((each for each in stored.metadata.owner_references if each.controller), None)
    if owner is None:
        return True
    meta = work_set.metadata
    return owner.uid == meta.uid or (owner.kind, owner.name) == (MANIFEST_WORK_REPLICA_SET.kind, meta.name)


def read_revision(stored: ControllerRevision) -> RevisionView:
    """Read a stored revision."""
    meta = stored.metadata
    data = stored.data or {}
    spec = data.get("spec")
    template = spec.get("manifestWorkTemplate") if isinstance(spec, dict) else None
    generation = meta.annotations.get(GENERATION_ANNOTATION, "")
    return RevisionView(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        number=stored.revision,
        revision=meta.labels.get(HASH_LABEL, ""),
        completed=meta.annotations.get(COMPLETED_ANNOTATION, ""),
        template=template if isinstance(template, dict) else None,
        generation=int(generation) if generation.isdigit() else 0,
        owner=next((each.uid for each in meta.owner_references if each.controller), ""),
        completed_number=meta.annotations.get(COMPLETED_NUMBER_ANNOTATION, ""),
        passed=meta.annotations.get(PASSED_ANNOTATION, ""),
        stopped=meta.annotations.get(STOPPED_ANNOTATION, ""),
    )
