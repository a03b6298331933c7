"""Everything that the controller of bindings watches besides what all rollouts watch, and what it means to it."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.cluster import ManagedCluster
from echelon.api.karmada import RESOURCE_BINDING, WORK, ResourceBinding, Work
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.rollout_ledger import ROLLOUT_LEDGER, RolloutLedger
from echelon.controllers.context import ControllerContext
from echelon.controllers.rollout import assembling
from echelon.controllers.rollout.assembling import COLLECT_SECONDS, RolloutParts, look_again
from echelon.controllers.rollout.metrics import RolloutMetrics, RolloutStatus
from echelon.controllers.rollout.reconciler import RolloutReconciler, is_asked_for
from echelon.controllers.workload import override_policies, template_caches
from echelon.controllers.workload.observation import Caches, WorkloadObserver, unreachable, works_of
from echelon.controllers.workload.override_policies import OverridePolicies
from echelon.controllers.workload.template_caches import TemplateCaches, resource_of, resources_of
from echelon.controllers.workload.work_index import WorkIndex
from echelon.engine.workload.names import BINDING_NAME, BINDING_NAMESPACE, PLACEMENT, cluster_of
from echelon.engine.workload.plan import plan
from echelon.engine.workload.view import WorkloadView
from echelon.kube.cache import key_of
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta, Informer
from echelon.kube.misfits import Misfit

KINDS: tuple[Kind[Any], ...] = (
    RESOURCE_BINDING,
    WORK,
    ROLLOUT_LEDGER,
    *template_caches.KINDS,
    *override_policies.KINDS,
    *assembling.KINDS,
)
OPTIONAL_KINDS = template_caches.OPTIONAL_KINDS


def bindings_informer(context: ControllerContext) -> Informer[ResourceBinding]:
    """Return the cache of bindings, by template, by cluster and by the name of their works."""
    return context.informer(RESOURCE_BINDING, indexers={"template": _template, "cluster": _clusters, "work": _works})


def workloads_controller(context: ControllerContext) -> Controller:
    """Return a controller of bindings."""
    bindings, works = bindings_informer(context), context.informer(WORK)
    ledgers, templates = context.informer(ROLLOUT_LEDGER), TemplateCaches.of(context)
    index = WorkIndex(works)
    parts = RolloutParts(
        context,
        RESOURCE_BINDING,
        WORK,
        objects=bindings,
        index=index,
        caches=(bindings, works, ledgers),
        cluster_of=lambda namespace: cluster_of(namespace) or namespace,
    )
    caches = Caches(
        bindings,
        works,
        ledgers,
        templates,
        parts.placements,
        parts.decisions,
        parts.clusters,
        parts.revisions,
        OverridePolicies(context, parts.clusters),
    )
    observer = WorkloadObserver(
        caches, parts.indexes, parts.failures, parts.reader, context.settings, clock=context.clock
    )
    reconciler = parts.reconciler(
        observer,
        plan,
        partial(_users_of, caches),
        observer.plan_gone,
        knowing=(ROLLOUT_LEDGER,),
    )
    controller = parts.controller(
        "workloads",
        reconciler,
        objects_in=bindings.values,
        holding=partial(_concerned_by, caches, index),
        status=partial(_status, caches),
    )
    _follow_bindings(controller, reconciler, caches)
    _follow_works(controller, reconciler, caches)
    _follow_ledgers(controller, context, ledgers)
    _follow_beside(controller, caches, index)
    _note_changes(observer, caches)
    return controller


def _note_changes(observer: WorkloadObserver, caches: Caches) -> None:
    """Have it noted when a template, or whom it was chosen for, is otherwise than it was."""

    def template_changed(delta: Delta[JSONObject]) -> None:
        for key in _of_template(caches, delta.object):
            observer.note(key)

    caches.bindings.on_change(lambda delta: observer.note(key_of(delta.object)))
    for informer in caches.templates.informers.values():
        informer.on_change(template_changed)


def _follow_ledgers(controller: Controller, context: ControllerContext, ledgers: Informer[RolloutLedger]) -> None:
    """Count what becomes of clusters, which is told in ledgers and not in bindings."""
    metrics = RolloutMetrics.of(context.metrics)

    def told(ledger: RolloutLedger) -> RolloutStatus:
        return RolloutStatus(ledger.metadata, (), ledger.status.rollout)

    def changed(delta: Delta[RolloutLedger]) -> Iterable[Key]:
        if delta.old is not None and delta.new is not None:
            metrics.changed(RESOURCE_BINDING.kind, told(delta.old), told(delta.new))
        return ()

    controller.follow(ledgers, changed)


def _status(caches: Caches, binding: ResourceBinding) -> RolloutStatus:
    ledger = caches.ledgers.get(key_of(binding))
    return RolloutStatus(binding.metadata, binding.status.conditions, ledger.status.rollout if ledger else None)


def _follow_bindings(
    controller: Controller, reconciler: RolloutReconciler[ResourceBinding, Work, WorkloadView], caches: Caches
) -> None:
    def changed(delta: Delta[ResourceBinding]) -> Iterable[Key]:
        reconciler.object_changed(delta)
        look_again(controller, reconciler, delta)
        return ()

    def others(binding: ResourceBinding) -> list[Key]:
        """Return the bindings of the same template, of which the first is carried out."""
        same = caches.bindings.by_index("template", resource_of(binding.spec.resource))
        return [key_of(each) for each in same if key_of(each) != key_of(binding)]

    controller.follow(caches.bindings, changed)
    controller.watch(caches.bindings, when=is_asked_for)
    controller.watch(caches.bindings, keys=others, when=is_asked_for)


def _follow_works(
    controller: Controller, reconciler: RolloutReconciler[ResourceBinding, Work, WorkloadView], caches: Caches
) -> None:
    def unreadable(misfit: Misfit) -> None:
        notes = misfit.metadata.annotations
        if (namespace := notes.get(BINDING_NAMESPACE)) and (name := notes.get(BINDING_NAME)):
            controller.queue.add(Key(namespace, name), after=COLLECT_SECONDS)

    controller.follow(caches.works, reconciler.content_changed)
    caches.works.on_unreadable(unreadable)


def _follow_beside(controller: Controller, caches: Caches, index: WorkIndex) -> None:
    """Have bindings looked at when their template, their ledger or one of their clusters changes."""

    def template_changed(delta: Delta[JSONObject]) -> bool:
        old, new = delta.old, delta.new
        return old is None or new is None or _intent(old) != _intent(new)

    def cluster_changed(delta: Delta[ManagedCluster]) -> Iterable[Key]:
        may_matter = unreachable(delta.old) != unreachable(delta.new) or caches.overrides.may_concern(delta)
        if delta.initial or not may_matter:
            return ()
        return _concerned_by(caches, index, delta.object.metadata.name)

    def ledger_changed(delta: Delta[RolloutLedger]) -> bool:
        old, new = delta.old, delta.new
        return old is None or new is None or old.spec != new.spec

    for informer in caches.templates.informers.values():
        controller.watch(informer, keys=partial(_of_template, caches), when=template_changed)
    controller.watch(caches.ledgers, when=ledger_changed)
    controller.follow(caches.clusters, cluster_changed)

    def override_changed(delta: Delta[Any]) -> Iterable[Key]:
        if delta.initial:  # then the bindings themselves are new, too
            return ()
        return [key_of(each) for each in caches.bindings.values(delta.object.metadata.namespace)]

    controller.follow(caches.overrides.own, override_changed)
    controller.follow(caches.overrides.everywhere, override_changed)


def _intent(template: JSONObject) -> tuple[object, ...]:
    """Return all of a template that a plan depends on. Its status is our own word, but for who else writes it."""
    meta = template["metadata"]
    kept = ("uid", "generation", "labels", "annotations", "deletionTimestamp")
    return (*(meta.get(name) for name in kept), template.get("spec"), template.get("status"))


def _of_template(caches: Caches, template: JSONObject) -> list[Key]:
    """Return the bindings of a template."""
    return [key_of(each) for one in resources_of(template) for each in caches.bindings.by_index("template", one)]


def _concerned_by(caches: Caches, index: WorkIndex, cluster: str) -> list[Key]:
    """Return the bindings that name a cluster, and those of which it has a work."""
    named = [key_of(each) for each in caches.bindings.by_index("cluster", cluster)]
    return list(dict.fromkeys((*named, *index.holding(cluster))))


def _users_of(caches: Caches, placement: Key) -> list[Key]:
    """Return the bindings whose groups are those of a placement."""
    return [
        key_of(each)
        for each in caches.bindings.values(placement.namespace)
        if each.metadata.annotations.get(PLACEMENT) == placement.name
    ]


def _template(binding: ResourceBinding) -> Iterable[tuple[str, str, str, str]]:
    return (resource_of(binding.spec.resource),)


def _works(binding: ResourceBinding) -> Iterable[str]:
    return (works_of(binding),)


def _clusters(binding: ResourceBinding) -> Iterable[str]:
    return tuple(each.name for each in binding.spec.clusters)
