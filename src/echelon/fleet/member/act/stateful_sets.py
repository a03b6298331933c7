"""The StatefulSet controller of a member."""

from collections.abc import Iterable

from echelon.api.base import JSONObject
from echelon.fleet.member.act.making import delete_pods, keep_revision, make_pod, report, template_of
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide import stateful_set
from echelon.fleet.member.decide.budgets import heeds_unavailable, stateful_set_unavailable
from echelon.fleet.member.decide.pods import REVISION_LABEL, PodView, next_availability
from echelon.fleet.member.decide.revisions import with_label
from echelon.fleet.member.decide.stateful_set import StatefulSetView
from echelon.hub.storage.store import Key


async def sync(context: MemberContext, key: Key) -> None:
    """Make and delete pods, and report on those that were there before: what came of it wakes this again."""
    entry = context.writer.latest(key)
    if entry is None or "deletionTimestamp" in entry.object["metadata"]:
        return
    obj, status = entry.object, entry.object.get("status") or {}
    pods = _by_ordinal(obj, context.index.pods_of(obj["metadata"]["uid"]))
    named = [status.get(name, "").removeprefix(f"{key.name}-") for name in ("currentRevision", "updateRevision")]
    used = {pod.revision.removeprefix(f"{key.name}-") for pod in pods.values()} | set(named)
    limit = obj["spec"].get("revisionHistoryLimit", 10)
    revision = f"{key.name}-{await keep_revision(context, obj, limit=limit, used=used)}"
    view = _view(context, obj, pods, revision)
    step = stateful_set.decide(view)
    for ordinal in step.create:
        await _make(context, obj, view, ordinal)
    await delete_pods(context, key.namespace, step.delete)
    if view.min_ready_seconds and (moment := next_availability(pods.values(), view.min_ready_seconds, view.now)):
        context.wake_at(key, moment)
    await report(context, entry, stateful_set.status(view, obj["metadata"].get("generation", 1), status))


def _by_ordinal(obj: JSONObject, pods: Iterable[PodView]) -> dict[int, PodView]:
    prefix = f"{obj['metadata']['name']}-"
    found: dict[int, PodView] = {}
    for pod in pods:
        number = pod.name.removeprefix(prefix)
        if number.isdecimal():
            found[int(number)] = pod
    return found


def _view(context: MemberContext, obj: JSONObject, pods: dict[int, PodView], revision: str) -> StatefulSetView:
    spec = obj["spec"]
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    replicas = spec.get("replicas", 1)
    heeds = heeds_unavailable(context.profile.version)
    return StatefulSetView(
        replicas=replicas,
        update_revision=revision,
        current_revision=(obj.get("status") or {}).get("currentRevision") or revision,
        pods=pods,
        now=context.now(),
        start=(spec.get("ordinals") or {}).get("start", 0),
        partition=rolling.get("partition", 0),
        unavailable=stateful_set_unavailable(rolling.get("maxUnavailable"), replicas) if heeds else None,
        ordered=spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady",
        on_delete=strategy.get("type") == "OnDelete",
        min_ready_seconds=spec.get("minReadySeconds", 0),
    )


async def _make(context: MemberContext, obj: JSONObject, view: StatefulSetView, ordinal: int) -> None:
    revision = view.revision_for(ordinal)
    set_name = obj["metadata"]["name"]
    name = f"{set_name}-{ordinal}"
    template = obj["spec"]["template"]
    if revision != view.update_revision:
        template = template_of(context, obj, revision.removeprefix(f"{set_name}-"))
    template = with_label(template, REVISION_LABEL, revision)
    template = with_label(template, "statefulset.kubernetes.io/pod-name", name)
    template = with_label(template, "apps.kubernetes.io/pod-index", str(ordinal))
    more = {"hostname": name}
    if obj["spec"].get("serviceName"):
        more["subdomain"] = obj["spec"]["serviceName"]
    await make_pod(context, obj, template, name, **more)
