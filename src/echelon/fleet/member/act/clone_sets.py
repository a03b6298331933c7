"""The CloneSet controller of a member. Every update makes new pods, whatever its type says."""

from echelon.api import labels
from echelon.api.base import JSONObject
from echelon.engine.int_or_percent import Rounding, kept_by_partition, resolve
from echelon.fleet.member.act.making import delete_pods, keep_revision, make_pod, report, template_of
from echelon.fleet.member.cluster_index import PODS
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide import clone_set
from echelon.fleet.member.decide.budgets import clone_set_limits
from echelon.fleet.member.decide.clone_set import CloneSetView
from echelon.fleet.member.decide.pods import REVISION_LABEL, SPECIFIED_DELETE, next_availability
from echelon.fleet.member.decide.revisions import with_label
from echelon.hub.storage.store import Key


async def sync(context: MemberContext, key: Key) -> None:
    """Take one step of an update, and report on the pods that were there before: what came of it wakes this again."""
    entry = context.writer.latest(key)
    if entry is None or "deletionTimestamp" in entry.object["metadata"]:
        return
    obj, status = entry.object, entry.object.get("status") or {}
    pods = context.index.pods_of(obj["metadata"]["uid"])
    named = [status.get(name, "").removeprefix(f"{key.name}-") for name in ("currentRevision", "updateRevision")]
    used = {pod.revision.removeprefix(f"{key.name}-") for pod in pods} | set(named)
    limit = obj["spec"].get("revisionHistoryLimit", 10)
    revision = f"{key.name}-{await keep_revision(context, obj, limit=limit, used=used)}"
    view = _view(context, obj, revision)
    step = clone_set.decide(view)
    await _make(context, obj, view.current_revision, step.create_old)
    await _make(context, obj, revision, step.create_new)
    await delete_pods(context, key.namespace, step.delete)
    for name in step.mark:
        await _mark(context, Key(PODS, key.namespace, name))
    if view.min_ready_seconds and (moment := next_availability(pods, view.min_ready_seconds, view.now)):
        context.wake_at(key, moment)
    selector = str(labels.from_label_selector(obj["spec"]["selector"]))
    generation = obj["metadata"].get("generation", 1)
    await report(context, entry, clone_set.status(view, generation, selector, status))


def _view(context: MemberContext, obj: JSONObject, revision: str) -> CloneSetView:
    spec = obj["spec"]
    update, scale = spec.get("updateStrategy") or {}, spec.get("scaleStrategy") or {}
    replicas, paused = spec.get("replicas", 1), bool(update.get("paused"))
    surge, unavailable = clone_set_limits(
        update.get("maxSurge", 0), update.get("maxUnavailable", "20%"), replicas, paused=paused
    )
    limit = scale.get("maxUnavailable")
    return CloneSetView(
        replicas=replicas,
        partition=kept_by_partition(update.get("partition", 0), replicas),
        unavailable=unavailable,
        surge=surge,
        pods=tuple(context.index.pods_of(obj["metadata"]["uid"])),
        update_revision=revision,
        current_revision=(obj.get("status") or {}).get("currentRevision") or revision,
        now=context.now(),
        paused=paused,
        min_ready_seconds=spec.get("minReadySeconds", 0),
        creation_limit=None if limit is None else resolve(limit, replicas, Rounding.UP),
        named=frozenset(scale.get("podsToDelete") or ()),
    )


async def _make(context: MemberContext, obj: JSONObject, revision: str, count: int) -> None:
    if not count:
        return
    name = obj["metadata"]["name"]
    template = template_of(context, obj, revision.removeprefix(f"{name}-"))
    for _ in range(count):
        await make_pod(context, obj, with_label(template, REVISION_LABEL, revision), f"{name}-")


async def _mark(context: MemberContext, key: Key) -> None:
    entry = context.writer.latest(key)
    if entry is not None:
        await context.writer.replace(entry, metadata=with_label(entry.object, SPECIFIED_DELETE, "true")["metadata"])
