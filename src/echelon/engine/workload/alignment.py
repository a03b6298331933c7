"""From what was observed to rounds of `align`: the ledger to begin with, the snapshots, and what clusters are to get.

The ledger is the truth about what was granted. What works and reports say beside it can only make it more careful: ids
that nobody may use again, clusters of which nothing is known, pushes that a member's server has refused for certain.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from echelon.api.base import JSONObject
from echelon.engine.align import (
    BadStrategy,
    Budgets,
    ClusterLedger,
    Grant,
    Interpreter,
    Ledger,
    MemberView,
    RollingStrategy,
    Round,
    Target,
    Workload,
    align,
    resolve_budgets,
)
from echelon.engine.align.reflection import REFUSED_PUSH_ID
from echelon.engine.work.health_state import number, part, text
from echelon.engine.workload.names import RETAIN_REPLICAS, TEMPLATE_GENERATION
from echelon.engine.workload.pushing import permitted
from echelon.engine.workload.templates import Templates
from echelon.engine.workload.view import WorkloadView
from echelon.engine.workload.works import WorkView

REFUSED_AGAIN = timedelta(minutes=5)  # after which what a member's server refused is sent once more


@dataclass(frozen=True)
class Begun:
    """The ledger that a plan begins with, and why it is not the stored one, where nothing of that is known."""

    ledger: Ledger
    lost: str = ""


@dataclass(frozen=True)
class Wanted:
    """What the clusters of a workload are to come to."""

    revision: str
    open: Collection[str]  # clusters that may have it; others keep the stable template
    groups: Mapping[str, int] = field(default_factory=dict)  # which decision group a cluster is in
    staying: Collection[str] = ()  # clusters that nobody names any more, and that keep what they have for now
    held: Mapping[str, str] = field(default_factory=dict)  # clusters to which nothing is sent, and why
    paused: bool = False


@dataclass(frozen=True)
class Aligned:
    """What a round decided, and from what."""

    round: Round
    workload: Workload
    began: Ledger

    @property
    def budgets(self) -> Budgets:
        """The budgets that it kept."""
        return self.workload.budgets


@dataclass(frozen=True)
class Alignment:
    """A workload that is aligned: all that its rounds have in common."""

    view: WorkloadView
    templates: Templates
    interpreter: Interpreter
    strategy: RollingStrategy
    begun: Begun
    views: Mapping[str, MemberView]

    @classmethod
    def of(
        cls, view: WorkloadView, templates: Templates, interpreter: Interpreter, strategy: RollingStrategy
    ) -> "Alignment":
        """Begin with a workload. Raises BadStrategy."""
        _refuse_negative(strategy)
        budgets = resolve_budgets(strategy, interpreter.contract, sum(view.targets.values()))
        views = {name: found for name, work in view.works.items() if (found := _snapshot(view, name, work)) is not None}
        return cls(view, templates, interpreter, strategy, _begin(view, views, budgets, interpreter), views)

    def replicas(self, cluster: str) -> int:
        """Return how many replicas a cluster is to have; where members own that, as many as it has."""
        seen = self.views.get(cluster)
        if seen is not None and _retains(self.view.template or {}):
            return seen.replicas
        return self.view.targets.get(cluster, 0)

    def newest(self, cluster: str) -> Grant | None:
        """Return what a cluster was granted last."""
        entry = self.begun.ledger.clusters.get(cluster)
        return entry.newest if entry is not None else None

    def has(self, revision: str, cluster: str) -> bool:
        """Whether a cluster was granted a revision last."""
        newest, wanted = self.newest(cluster), self.templates.hash(revision, cluster)
        return newest is not None and bool(wanted) and newest.revision == wanted

    def as_it_is(self, now: datetime) -> "Aligned":
        """Return where every cluster stands with what it has; nothing of this round is carried out."""
        here = self.templates.revision
        wanted = Wanted(here, [each for each in self.view.targets if self.has(here, each)])
        return self.round(wanted, now, keep=True)

    def round(self, wanted: Wanted, now: datetime, *, keep: bool = False, standing: Aligned | None = None) -> "Aligned":
        """Decide what every cluster is sent now. With `keep`, one that may not have the revision keeps its own.

        Most of the time that is what was found out about how things are `standing` now, and it is not done twice.
        """
        targets = {
            name: found
            for name in sorted({*self.view.targets, *wanted.staying})
            if (found := self._target(name, wanted, keep=keep)) is not None
        }
        budgets = self._budgets(targets)
        workload = Workload(
            template=wanted.revision,
            contract=self.interpreter.contract,
            budgets=budgets,
            targets=targets,
            paused=wanted.paused or self.strategy.paused,
        )
        began = self.begun.ledger
        if standing is not None and standing.began is began and standing.workload == workload:
            return standing
        return Aligned(align(workload, began, self.views, now.timestamp()), workload, began)

    def without(self, clusters: Collection[str]) -> "Alignment":
        """Return the same with clusters written off: what they might still do counts no more."""
        if not clusters:
            return self
        return replace(self, begun=replace(self.begun, ledger=self.begun.ledger.without(clusters)))

    def refused(
        self, cluster: str, revision: str, retried: datetime | None, now: datetime
    ) -> tuple[str, datetime | None]:
        """Return why nothing is sent to a cluster whose server has refused what it would be sent, and until when.

        `revision` is what clusters are to have now.
        """
        work = self.view.works.get(cluster)
        if work is None or not work.is_refused:
            return "", None
        since = work.report.since
        if since is None or not self._is_unchanged(work, revision) or (retried is not None and retried > since):
            return "", None
        again = since + REFUSED_AGAIN
        return (
            (f"its server has refused push {work.push_id}: {work.report.message}", again) if now < again else ("", None)
        )

    @cached_property
    def stable(self) -> str:
        """The revision that was last complete everywhere; a lost ledger has forgotten it, and history has not."""
        known = self.begun.ledger.stable
        if not known or known in self.templates:
            return known
        done = [(each.completed, each.number, each.revision) for each in self.view.revisions if each.completed]
        return max(done)[2] if done and max(done)[2] in self.templates else ""

    @property
    def first(self) -> str:
        """The revision that the workload began with, as long as none was complete everywhere."""
        known = self.begun.ledger
        return "" if known.stable else known.first or ""

    def _budgets(self, targets: Mapping[str, Target]) -> Budgets:
        """Return the budgets; of the pods that a partition keeps old, those come first that are not there yet."""
        total, asked = self._total(targets), sum(map(self.replicas, self.view.targets))
        found = resolve_budgets(self.strategy, self.interpreter.contract, total)
        if total == asked or not found.partition:
            return found
        kept = resolve_budgets(self.strategy, self.interpreter.contract, asked).partition
        return replace(found, partition=max(0, kept - (asked - total)))

    def _total(self, targets: Mapping[str, Target]) -> int:
        """Return how many pods there are to be.

        Pods that nobody asks for any more, and that stay for now, are too many: others grow when they are gone. While
        a first template makes its way, groups that it has not come to have no pods that could be missing; but what
        there is counts, wherever it is to go.
        """
        asked = sum(map(self.replicas, self.view.targets))
        if self.begun.ledger.stable:
            return asked
        born = sum(each.replicas for name, each in targets.items() if name in self.view.targets)
        entries = self.begun.ledger.clusters.values()
        granted = sum(each.newest.replicas for each in entries if each.newest is not None)
        return min(asked, max(born, granted))

    def _is_unchanged(self, work: WorkView, revision: str) -> bool:
        """Whether a cluster would be sent what it was sent already, but for the numbers of its grant."""
        carried = self.interpreter.template_hash(work.manifest)
        generation = text(part(work.manifest, "metadata", "annotations"), TEMPLATE_GENERATION)
        return any(
            self.templates.hash(each, work.cluster) == carried and generation == str(self.templates.generation(each))
            for each in (revision, self.stable, self.first)
            if each in self.templates
        )

    def _target(self, name: str, wanted: Wanted, *, keep: bool) -> Target | None:
        """Return what a cluster is to come to; None for one that has nothing and may not have anything yet."""
        newest = self.newest(name)
        own = newest.revision if newest is not None else ""
        stable = self.templates.hash(self.stable, name)
        is_open = name in wanted.open and name in self.view.targets
        if not is_open:
            work = self.view.works.get(name)
            has_stable = work is not None and work.revision == self.stable  # perhaps with other overrides than now
            stable = own if own and (keep or has_stable) else stable or own
            if not stable:
                return None
        return Target(
            replicas=newest.replicas if name not in self.view.targets and newest else self.replicas(name),
            revision=self.templates.hash(wanted.revision, name),
            stable=stable,
            first=self.templates.hash(self.first, name),
            group=wanted.groups.get(name, 0),
            open=is_open,
            reachable=name not in wanted.held,
            reason=wanted.held.get(name, ""),
        )


def _begin(view: WorkloadView, views: Mapping[str, MemberView], budgets: Budgets, interpreter: Interpreter) -> Begun:
    """Return the ledger to begin with."""
    most = max((budgets.most_pods, *(each.pods for each in views.values())))
    last = max((work.push_id or 0 for work in view.works.values()), default=0)
    stored = view.ledger
    if stored is None or stored.ledger is None:
        having = view.works.keys()
        if not having and stored is None:
            return Begun(Ledger())  # nobody was ever granted anything
        lost = f"the ledger cannot be read: {stored.problem}" if stored is not None else "the ledger is gone"
        pushed = {
            name: permitted(work.manifest, interpreter, work.push_id, interpreter.template_hash(work.manifest))
            for name, work in view.works.items()
            if work.push_id is not None and work.terminating is None
        }
        ledger = Ledger.lost(views, most, pushed)
        silent = {name: ClusterLedger.unknown(None, most) for name in having - ledger.clusters.keys()}
        return Begun(msgspec.structs.replace(ledger, clusters={**ledger.clusters, **silent}), lost)
    ledger = stored.ledger
    # A work is gone when its agent has taken the object away: then nothing is left of what nobody knew.
    gone = [name for name, each in ledger.clusters.items() if name not in view.works and _is_all_unknown(each)]
    if gone:
        ledger = ledger.without(gone)
    unknown = {
        name: ClusterLedger.unknown(views.get(name), most)
        for name, work in view.works.items()
        if name not in ledger.clusters and work.terminating is None and not _was_never_taken(work)
    }
    if unknown:
        ledger = msgspec.structs.replace(ledger, clusters={**ledger.clusters, **unknown})
    if last >= ledger.next_push:
        ledger = msgspec.structs.replace(ledger, next_push=last + 1)
    for name, work in view.works.items():
        refused = work.report.refused
        if refused is not None and _is_charged(ledger, name, refused) and not _has_seen(work, refused):
            ledger = ledger.refused(name, refused)
    return Begun(ledger)


def _is_all_unknown(entry: ClusterLedger) -> bool:
    return entry.is_unknown and (entry.newest is None or not entry.newest.revision)


def _was_never_taken(work: WorkView) -> bool:
    """Whether a member's server has refused the first push of a work, so that there is nothing on the member."""
    return work.is_refused and not (work.status or {}).keys() - {REFUSED_PUSH_ID}


def _is_charged(ledger: Ledger, cluster: str, push_id: int) -> bool:
    entry = ledger.clusters.get(cluster)
    return entry is not None and any(each.grant.id == push_id and not each.drift for each in entry.grants)


def _has_seen(work: WorkView, push_id: int) -> bool:
    return work.snapshot is not None and work.snapshot.push_id == push_id


def _snapshot(view: WorkloadView, cluster: str, work: WorkView) -> MemberView | None:
    """Return what is known of a member.

    An object that was never pushed has no snapshot: of one, that is all the more reason to send a push, and for that
    its size has to be known. It is charged with everything until it reports that push.
    """
    if work.snapshot is not None:
        return work.snapshot
    known = view.ledger.ledger.clusters.get(cluster) if view.ledger is not None and view.ledger.ledger else None
    if work.push_id is not None or work.status is None or (known is not None and not known.is_unknown):
        return None
    pods, status = number(work.status, "replicas"), work.status
    replicas = number(status, "specReplicas", number(part(work.manifest, "spec"), "replicas", 1))
    available = min(pods, number(status, "availableReplicas"))
    return MemberView("", 0, 0, 0, 0, replicas, pods, available, 0)


def _retains(template: JSONObject) -> bool:
    return text(part(template, "metadata", "labels"), RETAIN_REPLICAS) == "true"


def _refuse_negative(strategy: RollingStrategy) -> None:
    """Refuse a partition below zero, which would be read as none at all."""
    value = strategy.partition
    negative = value < 0 if isinstance(value, int) else isinstance(value, str) and value.strip().startswith("-")
    if value is not None and negative:
        raise BadStrategy("partition", value, "it must not be negative")
