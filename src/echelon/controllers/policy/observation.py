"""Reads all that is known of a policy into one value that does not change any more.

Policies and their replicas come from one cache. So a replica whose policy is not there has lost it: it cannot be that
the policy has only not come yet.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from echelon.api.cluster import ManagedCluster
from echelon.api.controller_revisions import ControllerRevision
from echelon.api.keys import Key
from echelon.api.placement import Placement, PlacementDecision
from echelon.api.placement_rule import PlacementRule
from echelon.api.policy import POLICY
from echelon.api.policy_binding import PlacementBinding, PolicySet
from echelon.api.rollout import RolloutStrategy
from echelon.api.times import parse_time
from echelon.controllers.policy.hub_definition import HubDefinition
from echelon.controllers.policy.replica_index import ReplicaIndex
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.controllers.rollout.reconciler import Indexes, Observation
from echelon.controllers.rollout.references import References
from echelon.controllers.rollout.revisions import revisions_of
from echelon.controllers.rollout.write_failures import WriteFailures
from echelon.controllers.settings import ControllerSettings
from echelon.engine.policy.bindings import PLACEMENT_KIND, PlacementName, Way, ways_of
from echelon.engine.policy.content import PolicyContent, read_content
from echelon.engine.policy.names import replica_name, root_of
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.policy.replica import Replica, read_replica
from echelon.engine.policy.view import PolicyView, placing, read_revision, rule_view
from echelon.engine.rollout.annotations import WRITTEN_ANNOTATION
from echelon.engine.rollout.decisions import KnownDecisions, questions
from echelon.engine.rollout.references import PlacementReference
from echelon.engine.rollout.secret_data import restored
from echelon.engine.rollout.stored_revision import StoredRevision, believed_revisions, is_revision_of
from echelon.engine.rollout.subject import UnreadableHolding
from echelon.kube.freshness import Freshness
from echelon.kube.informer import Informer

_ANY = RolloutStrategy()  # the engine gives all placements of a policy the strategy of that


@dataclass(frozen=True)
class Caches:
    """The informers that policies are planned from."""

    policies: Informer[RawPolicy]  # and replicas
    bindings: Informer[PlacementBinding]
    sets: Informer[PolicySet]
    placements: Informer[Placement]
    decisions: Informer[PlacementDecision]
    clusters: Informer[ManagedCluster]
    revisions: Informer[ControllerRevision]
    rules: Informer[PlacementRule] | None  # where the hub has them

    @property
    def selecting(self) -> tuple[Informer[PlacementBinding] | Informer[PolicySet] | Informer[PlacementRule], ...]:
        """Those that say, besides placements, which clusters are meant."""
        return (self.bindings, self.sets) if self.rules is None else (self.bindings, self.sets, self.rules)


class PolicyObserver:
    """Observes policies."""

    def __init__(
        self,
        caches: Caches,
        indexes: Indexes[ReplicaIndex],
        failures: WriteFailures,
        reader: ConsistentReader,
        *,
        definition: HubDefinition,
        settings: ControllerSettings,
    ) -> None:
        self.freshness = Freshness((caches.policies, caches.placements, caches.decisions, *caches.selecting))
        self._caches = caches
        self._indexes = indexes
        self._failures = failures
        self._references = References(indexes.decisions, reader, self.freshness)
        self._definition = definition
        self._settings = settings
        self._contents: dict[Key, tuple[object, PolicyContent]] = {}  # with what they were read from

    def observe(self, key: Key, found: RawPolicy, now: datetime, *, confirmed: bool) -> Observation[PolicyView]:
        """Return what is known of a policy; `confirmed`: this process has written it, and so has seen its present."""
        caches, bound = self._caches, self._indexes.bound
        sets = {each.metadata.name: each for each in caches.sets.values(key.namespace)}
        ways = ways_of(key, caches.bindings.values(key.namespace), sets)
        names = dict.fromkeys(way.placement for way in ways)
        known = self._references.known(key.namespace, (each.name for each in names if each.kind == PLACEMENT_KIND))
        placements = self._placements(key, ways, known, now)
        members = {name: tuple(each.spec.policies) for name, each in sets.items()}
        listed = _listed(placing(ways, placements))
        replicas = self._replicas(key, listed)
        having = frozenset(replicas)
        departed = having - listed
        # Where a placement is missing, clusters may be taken from another one that lists them, too.
        candidates = departed if all(each.placement is not None for each in placements.values()) else having
        held = [(replicas[each].uid, replicas[each].version) for each in candidates]
        stale = self._references.stale(key, found.metadata.generation, known, held, self._others(key.namespace))
        view = PolicyView(
            found,
            self._content(key, found, members),
            ways,
            placements,
            replicas,
            self._revisions(key, found),
            members,
            self._failures.outcomes(key, found.metadata, now),
            stale,
            self._unread(key),
            bound.unbound(key.namespace, listed, having),
            bound.leaving(listed),
            bound.spared(departed, self._settings.removal_grace, now),
            self._settings.max_removals,
            in_cluster_namespace=self._is_cluster(key.namespace),
            is_replica=self._is_cluster(key.namespace) and self._is_replica(key, now),
            keeps_strategy=self._definition.keeps_strategy,
            keeps_status=self._definition.keeps_status,
            allow_all=self._settings.allow_all,
            confirmed=confirmed,
        )
        losing = [replicas[each].uid for each in departed if replicas[each].terminating is None]
        forgotten = view.outcomes.content.keys() - listed  # whose failures would be
        asked, after = questions(known, placements.values(), stale, [*losing, *forgotten], now)
        return Observation(view, asked, after)

    def forget(self, key: Key) -> None:
        """Let go of a policy that is gone."""
        self._contents.pop(key, None)

    def left_behind(self, key: Key) -> list[Replica]:
        """Return the replicas of a policy that is gone, if that is certain; those in clusters' namespaces."""
        if key in self._caches.policies.unreadable:
            return []
        return [each for each in self._indexes.holdings.of(key).values() if self._is_cluster(each.cluster)]

    def _placements(
        self, key: Key, ways: Iterable[Way], known: Mapping[str, KnownDecisions], now: datetime
    ) -> dict[PlacementName, PlacementReference]:
        found: dict[PlacementName, PlacementReference] = {}
        for name in dict.fromkeys(way.placement for way in ways):
            if name.kind == PLACEMENT_KIND:
                found[name] = self._references.reference(key, name.name, _ANY, known[name.name], now)
                continue
            rule = self._caches.rules.get(Key(key.namespace, name.name)) if self._caches.rules is not None else None
            clusters = frozenset(each.cluster_name for each in rule.status.decisions) if rule is not None else None
            placement = rule_view(clusters - {""}) if clusters is not None else None
            found[name] = PlacementReference(name.title, _ANY, placement)
        return found

    def _replicas(self, key: Key, listed: frozenset[str]) -> dict[str, Replica]:
        """Return the replicas of a policy.

        What stands in a namespace that is no cluster's is somebody else's, though it looks like one. What stands where
        one belongs is one, though somebody took its label away.
        """
        found = {
            cluster: each
            for cluster, each in self._indexes.holdings.of(key).items()
            if cluster in listed or self._is_cluster(cluster)
        }
        name = replica_name(key)
        for cluster in listed - found.keys():
            if (unlabelled := self._caches.policies.get(Key(cluster, name))) is not None:
                found[cluster] = read_replica(unlabelled)
        return found

    def _is_replica(self, key: Key, now: datetime) -> bool:
        """Whether a policy stands where the replica of another one belongs."""
        caches, root = self._caches, root_of(key.name)
        if root is None or caches.policies.get(root) is None:
            return False
        sets = {each.metadata.name: each for each in caches.sets.values(root.namespace)}
        ways = ways_of(root, caches.bindings.values(root.namespace), sets)
        names = (each.placement.name for each in ways if each.placement.kind == PLACEMENT_KIND)
        known = self._references.known(root.namespace, names)
        return key.namespace in _listed(placing(ways, self._placements(root, ways, known, now)))

    def _is_cluster(self, namespace: str) -> bool:
        return self._caches.clusters.get(Key("", namespace)) is not None

    def _content(self, key: Key, policy: RawPolicy, members: Mapping[str, tuple[str, ...]]) -> PolicyContent:
        meta = policy.metadata
        read_from = (meta.uid, meta.generation, tuple(sorted(members.items())))
        known = self._contents.get(key)
        if known is None or known[0] != read_from:
            known = self._contents[key] = (read_from, read_content(key, policy.spec, members))
        return known[1]

    def _others(self, namespace: str) -> dict[str, dict[str, str]]:
        """Return the versions of what says, besides placements, which clusters are meant."""
        return {
            informer.kind.resource: {
                each.metadata.name: each.metadata.resource_version for each in informer.values(namespace)
            }
            for informer in self._caches.selecting
        }

    def _revisions(self, key: Key, policy: RawPolicy) -> tuple[StoredRevision, ...]:
        stored = revisions_of(self._caches.revisions, POLICY, key)
        found = [read_revision(each) for each in stored if is_revision_of(each, POLICY, policy.metadata)]
        meta, known = policy.metadata, self._caches.policies.reached
        believed = believed_revisions(found, owner=meta.uid, generation=meta.generation, known=known, objects=known)
        return restored(believed, meta.annotations)

    def _unread(self, key: Key) -> dict[str, UnreadableHolding]:
        """Return the replicas of a policy that cannot be read, by cluster."""
        name = replica_name(key)
        return {
            meta.namespace: UnreadableHolding(
                parse_time(meta.annotations.get(WRITTEN_ANNOTATION)) or parse_time(meta.creation_timestamp),
                f"the replica {meta.name} is there and cannot be read: {each.why}",
            )
            for each in self._caches.policies.unreadable.values()
            if (meta := each.metadata).name == name and self._is_cluster(meta.namespace)
        }


def _listed(references: Iterable[PlacementReference]) -> frozenset[str]:
    """Return the clusters that placements select."""
    return frozenset[str]().union(
        *(each.placement.groups.clusters for each in references if each.placement is not None)
    )
