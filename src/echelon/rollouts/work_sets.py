"""Work sets as `echelon rollout` sees them: the set and its works, with the objects that agents report of each."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.work import MANIFEST_WORK, ManifestCondition, ManifestWork
from echelon.engine.rollout.reasons import names
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.work.described import described
from echelon.engine.work.health_told import warnings_of
from echelon.engine.work_set.content import TEMPLATE, read_content
from echelon.engine.work_set.names import SET_LABEL, BadSetName, label_of
from echelon.engine.work_set.subject import choose_works, subject_of
from echelon.engine.work_set.view import WorkSet, WorkSetView, WorkView, read_revision, read_work
from echelon.kube.client import Reader
from echelon.kube.errors import Forbidden
from echelon.rollouts.images import images_of
from echelon.rollouts.memory import Memory
from echelon.rollouts.picture import DONE, FAILED, MOVING, ObjectLine
from echelon.rollouts.reading import Found, outcomes_of, references, stored_revisions, unbound_clusters
from echelon.rollouts.told import UNSEEN, told_holdings

_STATES = (
    ("Applied", "False", FAILED),
    ("Degraded", "True", FAILED),
    ("Available", "False", FAILED),
    ("Progressing", "True", MOVING),
)


@dataclass(frozen=True)
class ReadWork:
    """A work, and what it says of its objects."""

    view: WorkView
    objects: tuple[ObjectLine, ...]
    warnings: tuple[str, ...]


async def read_work_set(client: Reader, document: JSONObject, now: datetime, memory: Memory | None = None) -> Found:
    """Return a work set with everything around it."""
    work_set = msgspec.convert(document, WorkSet)
    meta = work_set.metadata
    try:
        label = f"{SET_LABEL}={label_of(meta.namespace, meta.name)}"
    except BadSetName as error:  # so it has neither works nor revisions
        found = found_work_set(WorkSetView(work_set, read_content(work_set.spec.manifest_work_template)), ())
        return replace(found, subject=replace(found.subject, problem=str(error)))
    asked = ((ref.name, ref.rollout_strategy) for ref in work_set.spec.placement_refs)
    listed, revisions, refs = await asyncio.gather(
        _works(client, label),
        stored_revisions(client, meta, label, read_revision),
        references(client, meta.namespace, asked),
    )
    memory = memory or Memory()
    works = [memory.made(read_with_objects, each) for each in listed or ()]
    by_cluster: dict[str, tuple[WorkView, ...]] = {}
    for work in works:
        by_cluster[work.view.cluster] = (*by_cluster.get(work.view.cluster, ()), work.view)
    view = WorkSetView(
        work_set,
        read_content(work_set.spec.manifest_work_template),
        refs,
        by_cluster,
        revisions,
        outcomes=outcomes_of(meta, work_set.status.conditions),
        unbound=unbound_clusters(work_set.status.rollout),
    )
    if listed is None:
        found = found_work_set(view, ())
        holdings = told_holdings(view, now)
        return replace(found, subject=replace(found.subject, holdings=holdings), note=UNSEEN)
    return found_work_set(view, works)


async def _works(client: Reader, label: str) -> Sequence[ManifestWork] | None:
    """Return the works of a set, on all clusters; None for those who may not see them."""
    try:
        return (await client.list(MANIFEST_WORK, labels=label)).items
    except Forbidden:
        return None


def read_with_objects(work: ManifestWork) -> ReadWork:
    """Read a work with everything that people are told of it."""
    manifests = work.status.resource_status.manifests
    warnings = ((each.resource_meta, warnings_of(each.conditions)) for each in manifests)
    said = tuple(f"{described(meta)}: {warned}" for meta, warned in warnings if warned)
    return ReadWork(read_work(work), tuple(map(_object, manifests)), said)


def found_work_set(view: WorkSetView, works: Sequence[ReadWork]) -> Found:
    """Return a work set as the subject of a rollout, with what its works say of their objects."""
    objects = {work.view.cluster: work.objects for work in works}
    return Found(subject_of(view, choose_works(view).by_cluster), objects, note=_warned(works))


def describe_template(revision: StoredRevision) -> JSONObject:
    """Return what a list of revisions says of one."""
    template: Any = (revision.content or {}).get(TEMPLATE, {})
    manifests = template.get("workload", {}).get("manifests", [])
    images = dict.fromkeys(image for each in manifests if isinstance(each, dict) for image in images_of(each))
    return {"manifests": len(manifests), "images": ", ".join(images) or None}


def _warned(works: Sequence[ReadWork]) -> str:
    """Say what servers warned of, the first of it, and how often: a field that was dropped is missed by nobody else."""
    said = [(text, work.view.cluster) for work in works for text in work.warnings]
    if not said:
        return ""
    first, clusters = min(said)[0], {cluster for _, cluster in said}
    more = len({text for text, _ in said}) - 1
    others = f"; and {more} more" if more else ""
    return f"servers warn, on {names(sorted(clusters))}: {first}{others}"


def _object(manifest: ManifestCondition) -> ObjectLine:
    meta = manifest.resource_meta
    name = "/".join(filter(None, (meta.namespace, meta.name)))
    told, title = {each.type: each for each in manifest.conditions}, f"{meta.kind} {name}"
    for kind, bad, state in _STATES:
        if kind in told and told[kind].status == bad:
            return ObjectLine(title, state, told[kind].message)
    applied = told.get("Applied")
    if applied is None or applied.status != "True":  # nobody knows yet
        return ObjectLine(title, MOVING, applied.message if applied is not None else "not applied yet")
    warned = warnings_of(manifest.conditions)
    return ObjectLine(title, DONE, f"the server warns: {warned}" if warned else "")
