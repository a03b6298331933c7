"""What was observed of a federated workload, frozen: its binding, its template, its ledger, its works, its clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import ControllerRevision
from echelon.api.karmada import ResourceBinding
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.api.rollout_ledger import RolloutLedger, RolloutLedgerStatus
from echelon.engine.align import BadLedger, Ledger
from echelon.engine.rollout import stored_revision
from echelon.engine.rollout.references import PlacementReference
from echelon.engine.rollout.removal import EVERYONE
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.rollout.subject import ALL_WRITTEN, UnreadableHolding, WriteOutcomes
from echelon.engine.rollout.thresholds import Threshold
from echelon.engine.work.health_state import number, part, text
from echelon.engine.workload.names import (
    CLUSTER_POLICY_NAME,
    HASH_LABEL,
    MADE_BY,
    POLICY_NAME,
    POLICY_NAMESPACE,
    PROPAGATION,
    TEMPLATE_UID_LABEL,
    work_name,
)
from echelon.engine.workload.templates import Override, no_override
from echelon.engine.workload.works import WorkView

_OF_POLICIES = ("propagationpolicy.karmada.io/", "clusterpropagationpolicy.karmada.io/")


@dataclass(frozen=True)
class StoredLedger:
    """A ledger as it is stored; one that cannot be read says why."""

    metadata: ObjectMeta
    status: RolloutLedgerStatus
    ledger: Ledger | None
    problem: str = ""


def read_ledger(stored: RolloutLedger) -> StoredLedger:
    """Read a stored ledger."""
    try:
        return StoredLedger(stored.metadata, stored.status, Ledger.read(stored.spec.content.encode()))
    except (BadLedger, msgspec.MsgspecError, UnicodeError) as error:
        return StoredLedger(stored.metadata, stored.status, None, str(error))


@dataclass(frozen=True)
class WorkloadView:
    """All that a plan for one binding looks at."""

    binding: ResourceBinding
    template: JSONObject | None
    template_kind: Kind[Any] | None = None  # None: one that is not known here
    template_problem: str = ""  # why nobody can tell whether there is a template
    ledger: StoredLedger | None = None
    works: Mapping[str, WorkView] = field(default_factory=dict)  # by cluster
    foreign: Mapping[str, str] = field(default_factory=dict)  # by cluster: whose the work with the name of ours is
    strange: tuple[str, ...] = ()  # works that say they are of the binding, and cannot be, with their clusters
    rival: str = ""  # an older binding of the same template, whose budgets are the ones that hold
    override: Override = no_override
    placement: PlacementReference | None = None  # that has the groups, where one is named
    strategy_problem: str = ""  # why the order of the groups cannot be read
    revisions: tuple[StoredRevision, ...] = ()
    unreachable: Mapping[str, str] = field(default_factory=dict)  # by cluster: why nothing is sent there
    detached: frozenset[str] = frozenset()  # those of them that are gone, or tainted for that nobody hears of them
    outcomes: WriteOutcomes = ALL_WRITTEN
    stale: frozenset[str] = frozenset()  # clusters with a work whose writer may have known more than this
    unread: Mapping[str, UnreadableHolding] = field(default_factory=dict)  # by cluster: works that cannot be read
    leaving: frozenset[str] = frozenset()  # clusters that are on their way out of the fleet
    spared: Mapping[str, datetime] = field(default_factory=dict)  # clusters that may come back, and until when
    max_removals: Threshold = EVERYONE
    works_behind: bool = False  # works may be missing here that somebody has told of in the status of the binding
    adopts: bool = False  # bindings that Karmada's own control plane made are aligned, too
    settling: timedelta | None = None  # so long its clusters may still be chosen for the template as it was before
    confirmed: bool = True  # whether whoever plans has written the binding before, and so has seen its present

    @property
    def key(self) -> Key:
        """Where the binding is."""
        return Key(self.binding.metadata.namespace, self.binding.metadata.name)

    @cached_property
    def work_name(self) -> str:
        """The name of the works, the same in every cluster's namespace."""
        resource = self.binding.spec.resource
        return work_name(resource.namespace, resource.name, resource.kind)

    @cached_property
    def targets(self) -> dict[str, int]:
        """The clusters that the binding names, with their replicas."""
        return {each.name: each.replicas for each in self.binding.spec.clusters}

    @property
    def may_miss_works(self) -> bool:
        """Whether clusters may have works that are not known here, and that no ledger tells of."""
        if not self.works_behind or (self.ledger is not None and self.ledger.ledger is not None):
            return False
        return any(each.cluster_name not in self.works for each in self.binding.status.aggregated_status)

    @property
    def template_generation(self) -> int:
        """The generation of the template."""
        return number(part(self.template, "metadata"), "generation")

    @property
    def is_ours(self) -> bool:
        """Whether the binding is Echelon's to carry out: a policy here made it, or a person wrote it."""
        meta = self.binding.metadata
        if self.adopts or meta.annotations.get(MADE_BY) == PROPAGATION:
            return True
        marks = (*meta.labels, *meta.annotations)
        named = any(mark in (POLICY_NAME, POLICY_NAMESPACE, CLUSTER_POLICY_NAME) for mark in marks)
        return not named and not any(mark.startswith(_OF_POLICIES) for mark in marks)


def read_revision(stored: ControllerRevision, template: JSONObject | None) -> StoredRevision:
    """Read a stored revision; generations count from the beginning for a template that was made anew."""
    found = stored_revision.read_revision(stored, HASH_LABEL)
    same = stored.metadata.labels.get(TEMPLATE_UID_LABEL) == text(part(template, "metadata"), "uid")
    return found if same else replace(found, generation=0)
