"""The works of a workload: which to write, which to push once more, which to delete.

A push has one content for all time: whoever sees two works with one id must see the same. So a work that should say
something else than it does gets a new id, unless nobody can have seen the one that the ledger has for it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.json_equality import is_same
from echelon.api.karmada import WORK
from echelon.api.times import format_micro_time
from echelon.engine.align import Grant, Interpreter, Ledger, Round
from echelon.engine.align.round import pushed
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.rollout.annotations import REVISION_ANNOTATION, WRITTEN_ANNOTATION
from echelon.engine.workload.alignment import Alignment
from echelon.engine.workload.manifests import binding_notes, granted, noted, permanent_id
from echelon.engine.workload.names import FINALIZER, PERMANENT_ID, PUSH_ID, execution_namespace
from echelon.engine.workload.templates import Templates
from echelon.engine.workload.view import WorkloadView
from echelon.engine.workload.works import PUSHED_ANNOTATION, WorkView


@dataclass(frozen=True)
class Carried:
    """What a work is to carry."""

    manifest: JSONObject
    revision: str
    is_push: bool  # a grant that the work did not have


@dataclass(frozen=True)
class PushedWorks:
    """The ledger after a round, what each work is to carry, and the clusters for which that cannot be made."""

    ledger: Ledger
    carried: Mapping[str, Carried] = field(default_factory=dict)  # of those that have to be written
    unknown: Mapping[str, str] = field(default_factory=dict)  # by cluster: the revision that nobody has stored


def push_works(alignment: Alignment, found: Round, *, open_: Collection[str], silent: Collection[str]) -> PushedWorks:
    """Return what works are to carry after a round; nothing is sent to clusters that are `silent`."""
    ledger, carried, unknown = found.ledger, dict[str, Carried](), dict[str, str]()
    render, interpreter = _Rendering(alignment.view, alignment.templates), alignment.interpreter
    for name, decision in sorted(found.decisions.items()):
        grant, work = decision.grant, alignment.view.works.get(name)
        if grant is None or not grant.revision or name in silent:
            continue
        revision = alignment.templates.revision_of(grant.revision, name)
        if not revision:
            if work is not None and work.push_id == grant.id:
                continue
            if work is None or alignment.templates.hash_of(work.manifest) != grant.revision:
                unknown[name] = grant.revision
                continue
            # Overrides have changed, or the revision is not stored any more: the work itself has the template.
            carried[name] = Carried(_regranted(work.manifest, grant, interpreter), work.revision, is_push=True)
            continue
        manifest = render.granted(name, revision, grant, interpreter)
        if not decision.pushed and work is not None:
            in_doubt = _is_in_doubt(ledger, name, grant)
            if is_same(work.manifest, manifest) and not in_doubt:
                continue
            if work.push_id is not None and work.push_id >= grant.id:
                if name not in open_ and work.push_id == grant.id and not in_doubt:
                    continue
                grant = msgspec.structs.replace(grant, id=ledger.next_push)
                ledger = _with_push(ledger, name, grant)
                manifest = render.granted(name, revision, grant, interpreter)
        carried[name] = Carried(manifest, revision, is_push=True)
    return PushedWorks(ledger, carried, unknown)


def pass_works(
    view: WorkloadView, templates: Templates, revision: str, *, open_: Collection[str], silent: Collection[str]
) -> dict[str, Carried]:
    """Return what works are to carry of a workload that is not aligned: its manifest, in every cluster that is open."""
    render = _Rendering(view, templates)
    carried = {}
    for name, replicas in sorted(view.targets.items()):
        work = view.works.get(name)
        if name in silent or name not in open_:
            continue
        manifest = render.passed(name, revision, replicas)
        if work is None or not is_same(work.manifest, manifest):
            same = work is not None and work.revision == revision
            carried[name] = Carried(manifest, revision, is_push=not same)
    return carried


class WorkWrites:
    """Writes works, each once."""

    def __init__(self, view: WorkloadView, suspended: Collection[str], now: datetime) -> None:
        self._view = view
        self._suspended = suspended
        self._now = format_micro_time(now)

    def of(self, carried: Mapping[str, Carried], *, leave: Collection[str]) -> tuple[Write, ...]:
        """Return the writes of works that have to carry something else, or are suspended or preserved no longer."""
        writes = [self._write(name, each) for name, each in carried.items()]
        for name, work in sorted(self._view.works.items()):
            if name in carried or name in leave or work.terminating is not None:
                continue
            if change := self._claim(work) | self._touch(work):
                writes.append(_patch(work, change))
        return tuple(writes)

    def _write(self, cluster: str, carried: Carried) -> Write:
        view, work = self._view, self._view.works.get(cluster)
        labels = {PERMANENT_ID: permanent_id(view.binding)}
        annotations = {**binding_notes(view.binding), REVISION_ANNOTATION: carried.revision}
        if work is None or work.revision != carried.revision or work.written is None:
            annotations[WRITTEN_ANNOTATION] = self._now
        if carried.is_push:
            annotations[PUSHED_ANNOTATION] = self._now
        spec: JSONObject = {"workload": {"manifests": [carried.manifest]}}
        if work is None:
            metadata = {
                "name": view.work_name,
                "namespace": execution_namespace(cluster),
                "labels": labels,
                "annotations": annotations,
                "finalizers": [FINALIZER],
            }
            spec |= {name: value for name, value in self._flags(cluster).items() if value}
            return Create(WORK, {**WORK.type_meta, "metadata": metadata, "spec": spec}, execution_namespace(cluster))
        metadata = {"labels": labels, "annotations": annotations}
        if FINALIZER not in work.finalizers:
            metadata["finalizers"] = [*work.finalizers, FINALIZER]
        return _patch(work, {"metadata": metadata, "spec": {**spec, **self._touch(work).get("spec", {})}})

    def _claim(self, work: WorkView) -> JSONObject:
        """Return what makes a work say again whose it is: its agent may have written something else."""
        notes = binding_notes(self._view.binding)
        says = {name: work.annotations.get(name) for name in notes}
        return {} if says == notes else {"metadata": {"annotations": notes}}

    def _touch(self, work: WorkView) -> JSONObject:
        flags = self._flags(work.cluster)
        has = {"suspendDispatching": work.suspended, "preserveResourcesOnDeletion": work.preserved}
        changed = {name: value or None for name, value in flags.items() if value != has[name]}
        return {"spec": changed} if changed else {}

    def _flags(self, cluster: str) -> dict[str, bool]:
        preserved = bool(self._view.binding.spec.preserve_resources_on_deletion)
        return {"suspendDispatching": cluster in self._suspended, "preserveResourcesOnDeletion": preserved}


def delete_works(works: Iterable[WorkView]) -> tuple[Delete, ...]:
    """Return the deletions of works that are there."""
    return tuple(
        Delete(WORK, each.name, execution_namespace(each.cluster), uid=each.uid)
        for each in works
        if each.terminating is None
    )


class _Rendering:
    """Makes the manifests of a workload."""

    def __init__(self, view: WorkloadView, templates: Templates) -> None:
        self._view = view
        self._templates = templates

    def granted(self, cluster: str, revision: str, grant: Grant, interpreter: Interpreter) -> JSONObject:
        found = self._templates.for_cluster(revision, cluster).manifest
        return self._noted(granted(found, grant, interpreter), cluster, revision, grant.id)

    def passed(self, cluster: str, revision: str, replicas: int) -> JSONObject:
        found = self._templates.for_cluster(revision, cluster).manifest
        if "replicas" in found.get("spec", {}) or replicas:
            found = _with_replicas(found, replicas)
        return self._noted(found, cluster, revision, None)

    def _noted(self, manifest: JSONObject, cluster: str, revision: str, push_id: int | None) -> JSONObject:
        return noted(
            manifest,
            self._view.binding,
            cluster,
            self._view.work_name,
            template=self._view.template or {},
            generation=self._templates.generation(revision),
            push_id=push_id,
        )


def _regranted(manifest: JSONObject, grant: Grant, interpreter: Interpreter) -> JSONObject:
    """Return the manifest of an earlier push with the numbers of another one."""
    meta = manifest["metadata"]
    notes = {**meta["annotations"], PUSH_ID: str(grant.id)}
    return {**granted(manifest, grant, interpreter), "metadata": {**meta, "annotations": notes}}


_WITH_REPLICAS = frozenset(("Deployment", "StatefulSet", "ReplicaSet", "CloneSet"))


def _with_replicas(manifest: JSONObject, replicas: int) -> JSONObject:
    """Return a manifest with the replicas of a cluster, if it is of a kind that has any."""
    if manifest.get("kind") not in _WITH_REPLICAS:
        return manifest
    return {**manifest, "spec": {**manifest["spec"], "replicas": replicas}}


def _is_in_doubt(ledger: Ledger, cluster: str, grant: Grant) -> bool:
    """Whether a cluster may act on a push that nobody knows, and has not been sent a later one.

    Only a report of a later push ends that, and where the cluster is to have what it has, nobody else sends one.
    """
    unknown = [each.grant.id for each in ledger.clusters[cluster].grants if not each.grant.revision]
    return bool(unknown) and grant.id <= max(unknown)


def _with_push(ledger: Ledger, cluster: str, grant: Grant) -> Ledger:
    """Return a ledger in which a cluster is sent once more what it has."""
    clusters = {**ledger.clusters, cluster: pushed(ledger.clusters[cluster], grant)}
    return msgspec.structs.replace(ledger, clusters=clusters, next_push=grant.id + 1)


def _patch(work: WorkView, body: JSONObject) -> Patch:
    return Patch(WORK, work.name, body, execution_namespace(work.cluster), uid=work.uid, resource_version=work.version)
