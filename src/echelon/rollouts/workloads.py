"""Federated workloads as `echelon rollout` sees them: a template, and below it what each cluster was granted of it.

What was granted and reported is in the ledger, in the namespace of the template. The works of each cluster say more,
in namespaces that few may read; who may not still sees the rest.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.karmada import RESOURCE_BINDING, WORK, ResourceBinding
from echelon.api.kinds import Kind
from echelon.api.rollout import RolloutStrategy
from echelon.api.rollout_ledger import ROLLOUT_LEDGER, ClusterGrant, RolloutLedgerStatus
from echelon.engine.align import BudgetWait
from echelon.engine.conditions import find_condition
from echelon.engine.rollout.references import PlacementReference
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.rollout.subject import Subject
from echelon.engine.workload.deciding import REMOVAL_HELD
from echelon.engine.workload.names import BINDING_LABEL, PERMANENT_ID, PLACEMENT, STRATEGY
from echelon.engine.workload.propagating import SCHEDULED
from echelon.engine.workload.standing import standing_of
from echelon.engine.workload.subject import ALL_AT_ONCE
from echelon.engine.workload.view import StoredLedger, WorkloadView, read_ledger, read_revision
from echelon.engine.workload.work_report import cause_in
from echelon.engine.workload.works import WorkView, owner_of, read_work
from echelon.kube.client import Reader
from echelon.kube.errors import Forbidden, NotFound
from echelon.rollouts.images import images_of
from echelon.rollouts.memory import Memory
from echelon.rollouts.overrides import read_override
from echelon.rollouts.picture import DONE, MOVING, WAITING, ObjectLine
from echelon.rollouts.reading import Found, Template, outcomes_of, references, stored_revisions
from echelon.rollouts.templates import TEMPLATES

_UNSEEN = "the works of the clusters cannot be read, so what their agents say of a failure is missing"
_UNKNOWN = "override policies cannot be read, so a cluster with overrides looks as if it had another template"


async def read_workload(client: Reader, document: JSONObject, now: datetime, memory: Memory | None = None) -> Found:
    """Return a binding with everything around it."""
    view, unseen = await read_workload_view(client, document, memory)
    try:
        found, unknown = (
            found_workload(replace(view, override=await read_override(client, view.key.namespace)), now),
            "",
        )
    except Forbidden:
        found = found_workload(view, now)
        unknown = _UNKNOWN if _has_unknown(found.subject) else ""
    return replace(found, note="; ".join(filter(None, (unseen, unknown))))


async def read_workload_view(
    client: Reader, document: JSONObject, memory: Memory | None = None
) -> tuple[WorkloadView, str]:
    """Return what is known of a binding, and what of it may not be seen."""
    binding = msgspec.convert(document, ResourceBinding)
    meta, resource = binding.metadata, binding.spec.resource
    kind = next((each for each in TEMPLATES if each.kind == resource.kind), None)
    template, ledger, (works, unseen), (placement, problem) = await asyncio.gather(
        _template(client, kind, binding),
        _ledger(client, binding),
        _works(client, binding, memory or Memory()),
        _placement(client, binding),
    )
    label = f"{BINDING_LABEL}={meta.namespace}.{meta.name}"
    view = WorkloadView(
        binding,
        template,
        kind,
        ledger=ledger,
        works=works,
        placement=placement,
        strategy_problem=problem,
        revisions=await stored_revisions(client, meta, label, lambda each: read_revision(each, template)),
        unreachable=_unreachable(ledger),
        outcomes=outcomes_of(meta, binding.status.conditions),
    )
    return view, unseen


def found_workload(view: WorkloadView, now: datetime) -> Found:
    """Return a binding as the subject of a rollout, with the pods that each cluster has reported."""
    resource = view.binding.spec.resource
    kind = view.template_kind or RESOURCE_BINDING
    named = Template(kind, resource.name) if view.template_kind is not None else None
    found = Found(standing_of(view, now).subject, template=named, losing=_losing(view.binding))
    if view.ledger is None:
        return found
    status = view.ledger.status
    # Who sees the works is told of the cause with the cluster.
    told = () if view.works else view.binding.status.aggregated_status
    causes = {each.cluster_name: cause_in(each.status) for each in told}
    title = f"{resource.kind} {resource.name}"
    objects = {each.name: [_pods(each, title, causes.get(each.name, ""))] for each in status.clusters}
    return replace(found, objects=objects, budget="; ".join(_budget(status)))


def _has_unknown(subject: Subject) -> bool:
    """Whether a cluster has something that is no template that is known."""
    known = {subject.revision, *(each.revision for each in subject.revisions)}
    return any(each.revision not in known for each in subject.holdings.values())


def _losing(binding: ResourceBinding) -> tuple[str, ...]:
    """Return the clusters that keep a workload only because that its policy means nobody may be a mistake."""
    scheduled = find_condition(binding.status.conditions, SCHEDULED)
    if scheduled is None or scheduled.reason != REMOVAL_HELD:
        return ()
    return tuple(each.name for each in binding.spec.clusters)


def describe_images(revision: StoredRevision) -> JSONObject:
    """Return what a list of revisions says of one: its images."""
    images = dict.fromkeys(images_of((revision.content or {}).get("template")))
    return {"images": ", ".join(images) or None}


def _pods(cluster: ClusterGrant, title: str, cause: str) -> ObjectLine:
    """Tell of the pods of a cluster, of what it may do with them, and why they are not well."""
    outdated = cluster.pods - cluster.updated
    counts = f"{cluster.updated} new, {outdated} old, {cluster.available} of {cluster.replicas} available"
    may = "" if cluster.paused else f"; may miss {cluster.unavailable}, may exceed by {cluster.surge}"
    state = DONE if not cluster.wait else MOVING if cluster.wait == BudgetWait.UPDATING else WAITING
    why = f"; {cause}" if cause else ""
    return ObjectLine(title, state, f"{counts}{may}{why}", preview=True)


def _budget(status: RolloutLedgerStatus) -> Iterator[str]:
    """Tell what of the budgets is spent, at worst."""
    budget, left = status.budget, status.left
    if budget is None or left is None:
        return
    yield f"{budget.unavailable - left.unavailable} of {budget.unavailable} unavailable"
    yield f"{budget.surge - left.surge} of {budget.surge} too many"
    if budget.partition:
        yield f"{budget.partition} stay old"


async def _template(client: Reader, kind: Kind[Any] | None, binding: ResourceBinding) -> JSONObject | None:
    if kind is None:
        return None
    try:
        return await client.get(kind.untyped(), binding.spec.resource.name, binding.metadata.namespace)
    except NotFound:
        return None


async def _ledger(client: Reader, binding: ResourceBinding) -> StoredLedger | None:
    try:
        return read_ledger(await client.get(ROLLOUT_LEDGER, binding.metadata.name, binding.metadata.namespace))
    except NotFound:
        return None


async def _works(client: Reader, binding: ResourceBinding, memory: Memory) -> tuple[dict[str, WorkView], str]:
    """Return the works of a binding by cluster, or why they cannot be seen."""
    meta = binding.metadata
    known = meta.labels.get(PERMANENT_ID)  # a binding that somebody wrote by hand may have none
    try:
        found = (await client.list(WORK, labels=f"{PERMANENT_ID}={known}" if known else "")).items
    except Forbidden:
        return {}, _UNSEEN
    ours = [each for each in found if owner_of(each) == (meta.namespace, meta.name)]
    return {work.cluster: work for work in (memory.made(read_work, each) for each in ours)}, ""


async def _placement(client: Reader, binding: ResourceBinding) -> tuple[PlacementReference | None, str]:
    """Return the placement whose groups a binding follows, and what is wrong with their order."""
    notes = binding.metadata.annotations
    name, said = notes.get(PLACEMENT, ""), notes.get(STRATEGY, "")
    if not name:
        return None, ""
    strategy, problem = ALL_AT_ONCE, ""
    if said:
        try:
            strategy = msgspec.json.decode(said, type=RolloutStrategy)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            problem = f"annotation {STRATEGY} cannot be understood, so no cluster starts: {error}"
    found = await references(client, binding.metadata.namespace, [(name, strategy)])
    return found[0], problem


def _unreachable(ledger: StoredLedger | None) -> dict[str, str]:
    """Return the clusters that the controller does not reach; to ask for them takes rights that few have."""
    told = ledger.status.clusters if ledger is not None else ()
    return {each.name: each.message for each in told if each.wait == BudgetWait.UNREACHABLE}
