"""Everything that the controller of work sets watches besides what all rollouts watch, and what it means to it."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.context import ControllerContext
from echelon.controllers.rollout import assembling
from echelon.controllers.rollout.assembling import COLLECT_SECONDS, RolloutParts, look_again
from echelon.controllers.rollout.metrics import RolloutStatus
from echelon.controllers.rollout.reconciler import is_asked_for
from echelon.controllers.work_set.observation import Caches, WorkSetObserver
from echelon.controllers.work_set.work_index import WorkIndex, owner_of
from echelon.engine.work_set.names import SET_LABEL, set_of
from echelon.engine.work_set.plan import plan
from echelon.engine.work_set.view import WorkSet
from echelon.kube.cache import key_of
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta
from echelon.kube.misfits import Misfit

KINDS: tuple[Kind[Any], ...] = (MANIFEST_WORK_REPLICA_SET, MANIFEST_WORK, *assembling.KINDS)
# The set, with its template as the user wrote it.
WORK_SET: Kind[WorkSet] = replace(MANIFEST_WORK_REPLICA_SET, type=WorkSet)  # type: ignore[arg-type,assignment]


def work_sets_controller(context: ControllerContext) -> Controller:
    """Return a controller of work sets."""
    sets, works = context.informer(WORK_SET), context.informer(MANIFEST_WORK)
    index = WorkIndex(works)
    parts = RolloutParts(
        context, MANIFEST_WORK_REPLICA_SET, MANIFEST_WORK, objects=sets, index=index, caches=(sets, works)
    )
    caches = Caches(sets, parts.placements, parts.decisions, works, parts.revisions)
    observer = WorkSetObserver(caches, parts.indexes, parts.failures, parts.reader, context.settings)
    reconciler = parts.reconciler(observer, plan, partial(_users_of, caches))

    def holding(cluster: str) -> Iterable[Key]:
        return [owner for work in works.values(cluster) if (owner := owner_of(work)) is not None]

    def set_changed(delta: Delta[WorkSet]) -> Iterable[Key]:
        reconciler.object_changed(delta)
        look_again(controller, reconciler, delta)
        return ()

    def work_unreadable(misfit: Misfit) -> None:
        if (found := set_of(misfit.metadata.labels.get(SET_LABEL, ""))) is not None:
            controller.queue.add(Key(*found), after=COLLECT_SECONDS)

    controller = parts.controller("work-sets", reconciler, objects_in=sets.values, holding=holding, status=_status)
    controller.follow(sets, set_changed)
    controller.watch(sets, when=is_asked_for)
    controller.follow(works, reconciler.content_changed)
    works.on_unreadable(work_unreadable)
    return controller


def _users_of(caches: Caches, placement: Key) -> list[Key]:
    """Return the sets that refer to a placement."""
    return [
        key_of(each)
        for each in caches.sets.values(placement.namespace)
        if any(ref.name == placement.name for ref in each.spec.placement_refs)
    ]


def _status(found: WorkSet) -> RolloutStatus:
    return RolloutStatus(found.metadata, found.status.conditions, found.status.rollout)
