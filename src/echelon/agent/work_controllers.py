"""The controllers of works on the side of the cluster: what each is told when a work, a record or an object changes.

Works are applied, the records of works that are missing are marked and deleted, and what deleted records list is
removed.
"""

from echelon.agent.adoption import BY_WORK, Adoption
from echelon.agent.causes import Causes
from echelon.agent.context import AgentContext, Family
from echelon.agent.eviction import EvictionReconciler
from echelon.agent.executor import ExecutorCheck
from echelon.agent.manifest_applier import ManifestApplier
from echelon.agent.object_applier import ObjectApplier
from echelon.agent.record_cleanup import RecordCleanup, is_being_removed
from echelon.agent.records import Records
from echelon.agent.settings import MANAGER
from echelon.agent.work_reconciler import WorkReconciler
from echelon.agent.work_state import request_of
from echelon.api.keys import Key
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK, AppliedManifestWork, ManifestWork
from echelon.engine.work.removal import ResourceKey
from echelon.kube.informer import Delta


def work_controllers(context: AgentContext) -> Family:
    """Return what applies works to the cluster, and removes what it applied."""
    made = _WorkControllers(context)
    return Family((made.work_workers, made.cleanup_workers, made.eviction), member_kinds=(APPLIED_MANIFEST_WORK,))


class _WorkControllers:
    """Makes the controllers and routes changes to them."""

    def __init__(self, context: AgentContext) -> None:
        self._identity = identity = context.identity
        self._work_informer = works = context.hub_informer(MANIFEST_WORK)
        self._record_informer = recorded = context.member_informer(
            APPLIED_MANIFEST_WORK, {BY_WORK: lambda record: (record.spec.manifest_work_name,)}
        )
        executor, kept = ExecutorCheck(context.member, context.act_as), context.settings.kept_namespaces
        applier = ManifestApplier(ObjectApplier(context.member, MANAGER), context.kinds, executor, kept)
        adoption = Adoption(
            context.member, recorded, identity, lambda record: applier.intended_leftovers(record, ()), MANAGER
        )
        self._records = records = Records(context.member, recorded, identity, adoption, MANAGER, kept_namespaces=kept)
        self._reconciler = WorkReconciler(context, works, records, applier, Causes(context, executor))
        # What was applied has to be known before anything is applied or removed.
        self.work_workers = context.workers(
            "works", self._reconciler.reconcile, concurrency=context.settings.works_at_once, after=(recorded,)
        )
        self.cleanup_workers = context.workers(
            "record-cleanup", RecordCleanup(records, applier).reconcile, concurrency=1, after=(recorded,)
        )
        eviction = EvictionReconciler(works, recorded, identity, context.settings.eviction_grace_seconds)
        self.eviction = context.member_controller("eviction", eviction)
        self.eviction.watch(recorded)
        self.eviction.watch(works, keys=self._record_keys, when=lambda delta: delta.old is None or delta.new is None)
        works.on_change(self._work_changed)
        recorded.on_change(self._record_changed)
        context.object_watches.on_change(self._object_changed)

    def _object_changed(self, key: ResourceKey) -> None:
        for work in self._reconciler.users(key):
            self.work_workers.queue.add(work)
            record = self._records.get(self._records.name_of(work))
            if record is not None and is_being_removed(record):
                self.cleanup_workers.queue.add(record.metadata.name)

    def _work_changed(self, delta: Delta[ManifestWork]) -> None:
        if _is_more_than_a_report(delta):
            self.work_workers.queue.add(delta.object.metadata.name)

    def _record_changed(self, delta: Delta[AppliedManifestWork]) -> None:
        record = delta.object
        if delta.new is None or is_being_removed(record):
            self.cleanup_workers.queue.add(record.metadata.name)
        if self._must_apply_again(delta):
            self._reconciler.apply_again(record.spec.manifest_work_name)
            self.work_workers.queue.add(record.spec.manifest_work_name)

    def _must_apply_again(self, delta: Delta[AppliedManifestWork]) -> bool:
        """Whether a work has lost its record, or there is one that it can take over."""
        if delta.new is None:
            return self._identity.is_of_this_hub(delta.object)
        work = self._work_informer.get(Key(self._work_informer.namespace, delta.new.spec.manifest_work_name))
        return delta.old is None and work is not None and self._identity.continues(work, delta.new)

    def _record_keys(self, work: ManifestWork) -> tuple[Key, ...]:
        name = work.metadata.name
        earlier = (each.metadata.name for each in self._record_informer.by_index(BY_WORK, name))
        return tuple(Key("", each) for each in dict.fromkeys((self._records.name_of(name), *earlier)))


def _is_more_than_a_report(delta: Delta[ManifestWork]) -> bool:
    """Whether a change of a work is more than an agent's own report."""
    old, new = delta.old, delta.new
    if old is None or new is None:
        return True
    return request_of(old) != request_of(new) or (
        (old.metadata.deletion_timestamp, old.metadata.finalizers)
        != (new.metadata.deletion_timestamp, new.metadata.finalizers)
    )
