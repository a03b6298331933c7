"""Everything that the controller of PodCliqueSets watches, and what it means to it."""

from collections.abc import Callable, Iterable
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.coordination import LEASE
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.controllers.context import ControllerContext
from echelon.controllers.pod_clique import caches
from echelon.controllers.pod_clique.caches import Caches, SecretOutline
from echelon.controllers.pod_clique.clique_index import CliqueIndex
from echelon.controllers.pod_clique.metrics import PodCliqueMetrics
from echelon.controllers.pod_clique.observation import SetObserver, sets_of_clique
from echelon.controllers.pod_clique.ownership import sets_of
from echelon.controllers.pod_clique.reconciler import PodCliqueSetReconciler, is_asked_for
from echelon.controllers.pod_clique.refusals import Refusals
from echelon.controllers.pod_clique.rival import Rival
from echelon.controllers.pod_clique.set_reader import Answer, SetReader
from echelon.controllers.pod_clique.strays import Strays
from echelon.engine.plan import Plan
from echelon.engine.pod_clique.set_spec import Settings
from echelon.kube.cache import key_of
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta, Informer
from echelon.kube.queue import Debounce

NAME = "pod-cliques"
KINDS: tuple[Kind[Any], ...] = (*caches.KINDS, LEASE)

WORKERS = 4
ROUTINE_SECONDS = 600.0
# A gang of a thousand pods becomes ready in as many changes; whoever deletes one pod does not want to wait for them.
COLLECT = Debounce(quiet=0.05, longest=0.5, after_write=0.25)


def pod_cliques_controller(context: ControllerContext, metrics: PodCliqueMetrics) -> Controller:
    """Return a controller of sets."""
    found, recorder = Caches.of(context), context.recorder(NAME)
    index = CliqueIndex(found.cliques, found.pods)
    rival, refusals = Rival(context), Refusals(context.clock)

    def wake(key: Key) -> None:
        controller.queue.add(key)

    def answered(key: Key, answer: Answer) -> None:
        reconciler.answered(answer)
        wake(key)

    reader = SetReader(context.client, found.sets, random=context.random, on_answer=answered)
    context.background.append(reader.run)
    observer = SetObserver(found, index, reader, refusals, Settings(init_image=context.settings.init_image))
    reconciler = PodCliqueSetReconciler(
        found.sets,
        observer=observer,
        index=index,
        reader=reader,
        refusals=refusals,
        rival=rival,
        metrics=metrics,
        clock=context.clock,
        tell=recorder.put,
    )

    def planned(key: Key, plan: Plan) -> None:
        if reconciler.planned(key, plan):
            wake(key)

    controller = context.controller(
        NAME,
        reconciler,
        recorder=recorder,
        workers=WORKERS,
        routine_seconds=ROUTINE_SECONDS,
        debounce=COLLECT,
        on_plan=planned,
        on_written=reconciler.written,
        on_failed=reconciler.failed,
        basis=reconciler.basis,
        verify=reconciler.verify,
    )
    controller.follow(rival.leases, rival.changed)
    _follow_sets(controller, reconciler, found)
    strays = Strays(found.sets, recorder.put)
    _follow_cliques(controller, index, found, strays)
    _follow_children(controller, observer, found, strays)

    def pod_changed(delta: Delta[JSONObject]) -> Iterable[Key]:
        strays.follow(found.pods.kind, delta)
        return reconciler.pod_changed(delta)

    controller.follow(found.pods, pod_changed)  # after cliques: a pod is about the set of its clique
    return controller


def _follow_sets(controller: Controller, reconciler: PodCliqueSetReconciler, found: Caches) -> None:
    def changed(delta: Delta[JSONObject]) -> Iterable[Key]:
        reconciler.set_changed(delta)
        # Also when our own status comes back: what is to be done next may be noted there first.
        return (key_of(delta.object),)

    controller.follow(found.sets, changed)
    controller.watch(found.sets, when=is_asked_for)


def _follow_cliques(controller: Controller, index: CliqueIndex, found: Caches, strays: Strays) -> None:
    def changed(delta: Delta[JSONObject]) -> Iterable[Key]:
        index.clique_changed(delta)
        strays.follow(found.cliques.kind, delta)
        states = [each for each in (delta.old, delta.new) if each is not None]
        return dict.fromkeys(key for each in states for key in (*sets_of(each), *sets_of_clique(found, each)))

    controller.follow(found.cliques, changed)


def _follow_children(controller: Controller, observer: SetObserver, found: Caches, strays: Strays) -> None:
    """Have a set looked at when something changes that is neither a clique nor a pod."""

    def follow(informer: Informer[JSONObject], heard: Callable[[Delta[JSONObject]], None] | None = None) -> None:
        def changed(delta: Delta[JSONObject]) -> Iterable[Key]:
            if heard is not None:
                heard(delta)
            strays.follow(informer.kind, delta)
            return dict.fromkeys(key for each in (delta.old, delta.new) if each is not None for key in sets_of(each))

        controller.follow(informer, changed)

    def secret_changed(delta: Delta[SecretOutline]) -> Iterable[Key]:
        meta = delta.object.metadata
        return [Key(meta.namespace, each.name) for each in meta.owner_references if each.controller]

    follow(found.groups, observer.groups.follow)
    follow(found.gangs, observer.gangs.follow)
    for informer in (found.revisions, *found.beside.values()):
        follow(informer)
    controller.follow(found.secrets, secret_changed)
