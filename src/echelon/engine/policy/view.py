"""What was observed of a policy, frozen: the policy, its ways to clusters, its replicas, its revisions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from echelon.api.controller_revisions import ControllerRevision
from echelon.api.keys import Key
from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.policy.bindings import PlacementName, Way
from echelon.engine.policy.content import TEMPLATES, PolicyContent
from echelon.engine.policy.names import HASH_LABEL
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.policy.replica import Replica
from echelon.engine.rollout import stored_revision
from echelon.engine.rollout.references import PlacementReference, PlacementView
from echelon.engine.rollout.removal import EVERYONE
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.rollout.subject import ALL_WRITTEN, UnreadableHolding, WriteOutcomes
from echelon.engine.rollout.thresholds import Threshold


@dataclass(frozen=True)
class PolicyView:
    """All that a plan for one policy looks at."""

    policy: RawPolicy
    content: PolicyContent
    ways: tuple[Way, ...] = ()
    placements: Mapping[PlacementName, PlacementReference] = field(default_factory=dict)  # of all ways
    replicas: Mapping[str, Replica] = field(default_factory=dict)  # by cluster
    revisions: tuple[StoredRevision, ...] = ()
    set_members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the policies of each policy set
    outcomes: WriteOutcomes = ALL_WRITTEN
    stale: frozenset[str] = frozenset()  # uids of replicas that may go, and whose writers may have known more than this
    unread: Mapping[str, UnreadableHolding] = field(default_factory=dict)  # by cluster: replicas that cannot be read
    unbound: frozenset[str] = frozenset()  # clusters that are in no cluster set which is bound to the namespace
    leaving: frozenset[str] = frozenset()  # clusters that are on their way out of the fleet
    spared: Mapping[str, datetime] = field(default_factory=dict)  # clusters that may come back, and until when
    max_removals: Threshold = EVERYONE  # clusters that may lose their replica at once, if nothing else is said
    in_cluster_namespace: bool = False  # nobody's policy is to be there
    is_replica: bool = False  # it stands where the replica of another one belongs, without the label of one
    keeps_strategy: bool = True  # whether the hub keeps spec.rolloutStrategy
    keeps_status: bool = True  # whether the hub keeps what Echelon adds to the status
    allow_all: bool = False  # policies without a strategy go everywhere at once, also where the hub may have lost it
    confirmed: bool = True  # whether whoever plans has written the policy before, and so has seen its present

    @property
    def key(self) -> Key:
        """Where the policy is."""
        return Key(self.policy.metadata.namespace, self.policy.metadata.name)

    @property
    def selected(self) -> dict[PlacementName, frozenset[str]]:
        """The clusters that each placement selects."""
        return {
            name: ref.placement.groups.clusters if ref.placement is not None else frozenset()
            for name, ref in self.placements.items()
        }


def placing(ways: Iterable[Way], placements: Mapping[PlacementName, PlacementReference]) -> list[PlacementReference]:
    """Return the placements that place a policy, each with the clusters to which a way leads."""
    excluded: dict[PlacementName, frozenset[str]] = {}
    for way in ways:
        if not way.restricted:
            known = excluded.get(way.placement, way.excluded)
            excluded[way.placement] = known & way.excluded  # whom another way reaches is not left out
    return [_without(placements[name], clusters) for name, clusters in sorted(excluded.items())]


def read_revision(stored: ControllerRevision) -> StoredRevision:
    """Read a stored revision, which has templates."""
    found = stored_revision.read_revision(stored, HASH_LABEL)
    return found if isinstance((found.content or {}).get(TEMPLATES), list) else replace(found, content=None)


def rule_view(clusters: frozenset[str]) -> PlacementView:
    """Return the decisions of a placement rule: they are in one object, and make one group."""
    groups = DecisionGroups({GroupKey(): clusters} if clusters else {})
    return PlacementView(groups, len(clusters), settled=True, group_size=len(clusters))


def _without(reference: PlacementReference, clusters: frozenset[str]) -> PlacementReference:
    """Return a reference that leaves clusters out."""
    placement = reference.placement
    if placement is None or clusters.isdisjoint(placement.groups.clusters):
        return reference
    groups = {key: each - clusters for key, each in placement.groups.groups.items()}
    return replace(reference, placement=replace(placement, groups=DecisionGroups(groups)))
