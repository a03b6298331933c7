"""Reads all that is known of a binding into one value that does not change any more."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from echelon.api.base import JSONObject
from echelon.api.cluster import ManagedCluster
from echelon.api.controller_revisions import ControllerRevision
from echelon.api.karmada import RESOURCE_BINDING, ObjectReference, ResourceBinding, Work
from echelon.api.keys import Key
from echelon.api.meta import ObjectMeta
from echelon.api.placement import Placement, PlacementDecision
from echelon.api.rollout import RolloutStrategy
from echelon.api.rollout_ledger import RolloutLedger, RolloutLedgerStatus
from echelon.api.times import parse_time
from echelon.api.versions import newer
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.controllers.rollout.reconciler import Indexes, Observation
from echelon.controllers.rollout.references import References
from echelon.controllers.rollout.revisions import revisions_of
from echelon.controllers.rollout.write_failures import WriteFailures
from echelon.controllers.settings import ControllerSettings
from echelon.controllers.workload.override_policies import OverridePolicies
from echelon.controllers.workload.template_caches import TemplateCaches, resource_of
from echelon.controllers.workload.work_index import WorkIndex
from echelon.engine.cluster_health import AVAILABLE, UNREACHABLE
from echelon.engine.conditions import find_condition
from echelon.engine.plan import NOTHING, Plan
from echelon.engine.rollout.annotations import WRITTEN_ANNOTATION
from echelon.engine.rollout.decisions import KnownDecisions, questions
from echelon.engine.rollout.references import PlacementReference
from echelon.engine.rollout.stored_revision import StoredRevision, believed_revisions, is_revision_of
from echelon.engine.rollout.subject import UnreadableHolding
from echelon.engine.work.health_state import number, part
from echelon.engine.workload.names import (
    BINDING_NAME,
    BINDING_NAMESPACE,
    PLACEMENT,
    STRATEGY,
    cluster_of,
    execution_namespace,
    work_name,
)
from echelon.engine.workload.propagation_view import has_seen, is_made_here
from echelon.engine.workload.removal import plan_gone
from echelon.engine.workload.subject import ALL_AT_ONCE
from echelon.engine.workload.view import StoredLedger, WorkloadView, read_ledger, read_revision
from echelon.engine.workload.works import WorkView, owner_of, read_work
from echelon.kube.cache import key_of
from echelon.kube.clock import Clock
from echelon.kube.freshness import Freshness
from echelon.kube.informer import Informer

# Who makes bindings collects changes for a second, and waits for placements a little longer.
LONGEST_SETTLING = timedelta(seconds=5)


@dataclass(frozen=True)
class Caches:
    """The informers that bindings are planned from."""

    bindings: Informer[ResourceBinding]
    works: Informer[Work]
    ledgers: Informer[RolloutLedger]
    templates: TemplateCaches
    placements: Informer[Placement]
    decisions: Informer[PlacementDecision]
    clusters: Informer[ManagedCluster]
    revisions: Informer[ControllerRevision]
    overrides: OverridePolicies


class WorkloadObserver:
    """Observes bindings."""

    def __init__(
        self,
        caches: Caches,
        indexes: Indexes[WorkIndex],
        failures: WriteFailures,
        reader: ConsistentReader,
        settings: ControllerSettings,
        *,
        clock: Clock,
    ) -> None:
        self.freshness = Freshness((caches.bindings, caches.placements, caches.decisions))
        self._caches = caches
        self._indexes = indexes
        self._references = References(indexes.decisions, reader, self.freshness)
        self._failures = failures
        self._settings = settings
        self._clock = clock
        self._ledgers: dict[Key, tuple[str, StoredLedger]] = {}  # with the version that they were read from
        self._unseen: dict[Key, datetime] = {}  # since when the maker of a binding has not seen the template

    def observe(self, key: Key, found: ResourceBinding, now: datetime, *, confirmed: bool) -> Observation[WorkloadView]:
        """Return what is known of a binding; `confirmed`: this process has written it, and so has seen its present."""
        caches, bound, resource = self._caches, self._indexes.bound, found.spec.resource
        template, problem = self._template(key, resource)
        named = works_of(found)
        taken = self._taken_by_others(key)
        ledger = self._ledger(key)
        placement, strategy_problem, known = self._placement(key, found, now)
        listed = frozenset(each.name for each in found.spec.clusters)
        granted = ledger.ledger.clusters.keys() if ledger is not None and ledger.ledger is not None else set[str]()
        own, foreign = self._claimed(key, named, listed, granted)
        works = {**self._indexes.holdings.of(key, named, taken), **own}
        having = frozenset(works) | granted
        departed = having - listed
        held = {works[each].uid: works[each] for each in departed & works.keys()}
        stale = self._stale(key, found, known, held, ledger) if departed else frozenset[str]()
        if ledger is not None and ledger.metadata.uid in stale:
            stale = departed
        view = WorkloadView(
            found,
            template,
            caches.templates.kind_of(resource),
            problem,
            ledger,
            works,
            foreign,
            self._indexes.holdings.strange(key, named, taken),
            self._rival(found),
            override=caches.overrides.within(resource.namespace),
            placement=placement,
            strategy_problem=strategy_problem,
            revisions=self._revisions(key, found, template),
            unreachable=self._unreachable(listed | having),
            detached=frozenset(each for each in having if is_detached(caches.clusters.get(Key("", each)))),
            outcomes=self._failures.outcomes(key, found.metadata, now),
            stale=stale,
            unread=self._unread(key),
            leaving=bound.leaving(listed),
            spared=bound.spared(departed, self._settings.removal_grace, now),
            max_removals=self._settings.max_removals,
            works_behind=newer(found.metadata.resource_version, caches.works.reached),
            adopts=self._settings.adopt_bindings,
            settling=self._settling(key, now),
            confirmed=confirmed,
        )
        losing = [works[each].uid for each in departed & works.keys() if works[each].terminating is None]
        references = [placement] if placement is not None else []
        forgotten = view.outcomes.content.keys() - listed  # whose failures would be
        asked, after = questions(known, references, [*stale], [*losing, *departed, *forgotten], now)
        return Observation(view, asked, after)

    def forget(self, key: Key) -> None:
        """Let go of a binding that is gone."""
        self._ledgers.pop(key, None)
        self._unseen.pop(key, None)

    def plan_gone(self, key: Key) -> Plan:
        """Return what is to be done about the works of a binding that is gone, if that is certain."""
        if key in self._caches.bindings.unreadable:
            return NOTHING
        works = self._indexes.holdings.of(key, "", self._taken_by_others(key)).values()
        # Whoever wrote a work after all that is known of bindings may have seen one of that name.
        reached = self._caches.bindings.reached
        certain = [each for each in works if not newer(each.version, reached)]
        return plan_gone(certain, doubtful=len(certain) < len(works))

    def _template(self, key: Key, resource: ObjectReference) -> tuple[JSONObject | None, str]:
        """Return the template that a binding names, and why nobody can tell whether there is one.

        Whoever may write bindings in one namespace has no say about what is in another.
        """
        if resource.namespace != key.namespace:
            return None, (
                f"spec.resource.namespace: a binding is of a template in its own namespace, {key.namespace}, and this "
                f"one names {resource.kind} {resource.name} in namespace {resource.namespace}"
            )
        return self._caches.templates.get(resource)

    def note(self, key: Key) -> None:
        """Note since when the clusters of a binding are chosen for another template than the present one."""
        binding = self._caches.bindings.get(key)
        template = self._template(key, binding.spec.resource)[0] if binding is not None else None
        if binding is None or template is None or not is_made_here(binding) or has_seen(binding, template):
            self._unseen.pop(key, None)
        else:
            self._unseen.setdefault(key, self._clock.now())

    def _settling(self, key: Key, now: datetime) -> timedelta | None:
        """Return how long to wait for clusters that are chosen for the present template.

        What begins at once would begin on clusters that the same change may take out, and spend the budget there. Who
        makes the binding needs a moment; that it is not at work stops nobody for long.
        """
        since = self._unseen.get(key)
        left = since + LONGEST_SETTLING - now if since is not None else timedelta()
        return left if left > timedelta() else None

    def _ledger(self, key: Key) -> StoredLedger | None:
        """Return the ledger of a binding; a large one is read once for each state of it."""
        found = self._caches.ledgers.get(key)
        if (misfit := self._caches.ledgers.unreadable.get(key)) is not None:
            meta = misfit.metadata
            metadata = ObjectMeta(
                name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
            return StoredLedger(
                metadata, found.status if found is not None else RolloutLedgerStatus(), None, misfit.why
            )
        if found is None:
            self._ledgers.pop(key, None)
            return None
        known = self._ledgers.get(key)
        if known is None or known[0] != found.metadata.resource_version:
            known = self._ledgers[key] = found.metadata.resource_version, read_ledger(found)
        return known[1]

    def _placement(
        self, key: Key, binding: ResourceBinding, now: datetime
    ) -> tuple[PlacementReference | None, str, Mapping[str, KnownDecisions]]:
        """Return the placement that has the groups of a binding, and what is wrong with their order."""
        notes = binding.metadata.annotations
        name, said = notes.get(PLACEMENT, ""), notes.get(STRATEGY, "")
        strategy, problem = ALL_AT_ONCE, ""
        if said:
            try:
                strategy = msgspec.json.decode(said, type=RolloutStrategy)
            except (msgspec.ValidationError, msgspec.DecodeError) as error:
                problem = f"annotation {STRATEGY} cannot be understood, so no cluster starts: {error}"
        if not name:
            return None, problem, {}
        known = self._references.known(key.namespace, (name,))
        return self._references.reference(key, name, strategy, known[name], now), problem, known

    def _stale(
        self,
        key: Key,
        binding: ResourceBinding,
        known: Mapping[str, KnownDecisions],
        held: Mapping[str, WorkView],
        ledger: StoredLedger | None,
    ) -> frozenset[str]:
        """Return the clusters whose works, by uid, were written by somebody who may have known more of the binding.

        If it is so of the ledger, its uid is among them: then that goes for all that it has granted.
        """
        versions = [(uid, each.version) for uid, each in held.items()]
        if ledger is not None:
            versions.append((ledger.metadata.uid, ledger.metadata.resource_version))
        found = self._references.stale(key, binding.metadata.generation, known, versions, {})
        return frozenset(held[uid].cluster if uid in held else uid for uid in found)

    def _revisions(self, key: Key, binding: ResourceBinding, template: object) -> tuple[StoredRevision, ...]:
        stored = revisions_of(self._caches.revisions, RESOURCE_BINDING, key)
        document = template if isinstance(template, dict) else None
        found = [
            read_revision(each, document) for each in stored if is_revision_of(each, RESOURCE_BINDING, binding.metadata)
        ]
        return believed_revisions(
            found,
            owner=binding.metadata.uid,
            generation=number(part(document, "metadata"), "generation"),
            known=self._caches.templates.reached(binding.spec.resource),
            objects=self._caches.bindings.reached,
        )

    def _unreachable(self, clusters: Iterable[str]) -> dict[str, str]:
        found = {}
        for name in clusters:
            if why := unreachable(self._caches.clusters.get(Key("", name))):
                found[name] = why
        return found

    def _taken_by_others(self, key: Key) -> Callable[[str], bool]:
        """Tell of names of works whether another binding has works of that name.

        What a work says of itself its agent may write. Which template a binding has, and so how its works are called,
        it may not.
        """
        bindings = self._caches.bindings

        def taken(name: str) -> bool:
            return any(key_of(each) != key for each in bindings.by_index("work", name) if _is_within(each))

        return taken

    def _claimed(
        self, key: Key, name: str, clusters: Iterable[str], granted: Collection[str]
    ) -> tuple[dict[str, WorkView], dict[str, str]]:
        """Return the works of our name that say that they are of somebody else: ours, and where they are not, whose.

        They are ours where the ledger has something granted, and nobody else has works of that name.
        """
        own, foreign = dict[str, WorkView](), dict[str, str]()
        for cluster in clusters:
            work = self._caches.works.get(Key(execution_namespace(cluster), name))
            if work is None or (owner := owner_of(work)) == key:
                continue
            if cluster in granted and not self._taken_by_others(key)(name):
                own[cluster] = read_work(work)
            else:
                foreign[cluster] = f"binding {owner}" if owner is not None else "nobody that it names"
        return own, foreign

    def _rival(self, binding: ResourceBinding) -> str:
        """Return the name of the binding that was the first of its template, if this one was not."""
        others = self._caches.bindings.by_index("template", resource_of(binding.spec.resource))
        first = min(
            (each for each in others if not each.metadata.deletion_timestamp and _is_within(each)),
            key=lambda each: (each.metadata.creation_timestamp or "", key_of(each)),
            default=binding,
        )
        return "" if key_of(first) == key_of(binding) else str(key_of(first))

    def _unread(self, key: Key) -> dict[str, UnreadableHolding]:
        """Return the works of a binding that cannot be read, by cluster."""
        found = {}
        for misfit in self._caches.works.unreadable.values():
            meta = misfit.metadata
            owner = meta.annotations.get(BINDING_NAMESPACE), meta.annotations.get(BINDING_NAME)
            if owner == tuple(key) and (cluster := cluster_of(meta.namespace)) is not None:
                since = parse_time(meta.annotations.get(WRITTEN_ANNOTATION)) or parse_time(meta.creation_timestamp)
                message = f"the work {meta.name} is there and cannot be read: {misfit.why}"
                found[cluster] = UnreadableHolding(since, message)
        return found


def works_of(binding: ResourceBinding) -> str:
    """Return the name of the works of a binding."""
    resource = binding.spec.resource
    return work_name(resource.namespace, resource.name, resource.kind)


def _is_within(binding: ResourceBinding) -> bool:
    """Whether a binding is where its template is."""
    return binding.metadata.namespace == binding.spec.resource.namespace


def is_detached(cluster: ManagedCluster | None) -> bool:
    """Whether a cluster has left, or it was noted on it that nobody hears of it; how long it is spared says another."""
    if cluster is None or not cluster.spec.hub_accepts_client:
        return True
    return any(each.key == UNREACHABLE for each in cluster.spec.taints)


def unreachable(cluster: ManagedCluster | None) -> str:
    """Return why nothing that is written for a cluster would reach it; empty if it would."""
    if cluster is None:
        return "there is no such cluster"
    if not cluster.spec.hub_accepts_client:
        return "it is not accepted"
    available = find_condition(cluster.status.conditions, AVAILABLE)
    tainted = any(each.key == UNREACHABLE for each in cluster.spec.taints)
    return "nobody hears of it" if tainted or (available is not None and available.status == "Unknown") else ""
