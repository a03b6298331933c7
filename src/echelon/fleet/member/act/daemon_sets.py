"""The DaemonSet controller of a member."""

from echelon.api.base import JSONObject
from echelon.fleet.member.act.making import delete_pods, keep_revision, make_pod, report
from echelon.fleet.member.cluster_index import PODS
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide import daemon_set
from echelon.fleet.member.decide.budgets import daemon_set_limits
from echelon.fleet.member.decide.daemon_set import DaemonSetView
from echelon.fleet.member.decide.pods import REVISION_LABEL, PodView, next_availability
from echelon.fleet.member.decide.revisions import with_label
from echelon.fleet.member.decide.scheduling import DISK_PRESSURE, pinned_node, selected, untolerated
from echelon.hub.storage.store import Key

# What the pods of a DaemonSet put up with: they belong to the node, whatever its state.
_TOLERATIONS = [
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    {"key": DISK_PRESSURE, "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
]


async def sync(context: MemberContext, key: Key) -> None:
    """Make and delete pods, or report."""
    entry = context.writer.latest(key)
    if entry is None or "deletionTimestamp" in entry.object["metadata"]:
        return
    obj = entry.object
    pods = context.index.pods_of(obj["metadata"]["uid"])
    limit = obj["spec"].get("revisionHistoryLimit", 10)
    revision = await keep_revision(context, obj, limit=limit, used={pod.revision for pod in pods})
    view = _view(context, obj, revision)
    step = daemon_set.decide(view)
    template = with_label(obj["spec"]["template"], REVISION_LABEL, revision)
    tolerations = [*(template["spec"].get("tolerations") or ()), *_TOLERATIONS]
    for node in step.create:
        await make_pod(context, obj, template, f"{key.name}-", affinity=_only(node), tolerations=tolerations)
    await delete_pods(context, key.namespace, step.delete)
    if step:
        return
    if view.min_ready_seconds and (moment := next_availability(pods, view.min_ready_seconds, view.now)):
        context.wake_at(key, moment)
    status = daemon_set.status(view, obj["metadata"].get("generation", 1), obj.get("status") or {})
    await report(context, entry, status)


def _view(context: MemberContext, obj: JSONObject, revision: str) -> DaemonSetView:
    spec, namespace = obj["spec"], obj["metadata"]["namespace"]
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    nodes = _nodes(context, spec["template"]["spec"])
    surge, unavailable = daemon_set_limits(rolling.get("maxSurge", 0), rolling.get("maxUnavailable", 1), len(nodes))
    pods: dict[str, tuple[PodView, ...]] = {}
    for pod in context.index.pods_of(obj["metadata"]["uid"]):
        entry = context.writer.latest(Key(PODS, namespace, pod.name))
        node = pod.node or (pinned_node(entry.object["spec"]) if entry else "")
        pods[node] = (*pods.get(node, ()), pod)
    return DaemonSetView(
        nodes=nodes,
        pods=pods,
        update_revision=revision,
        now=context.now(),
        surge=surge,
        unavailable=unavailable,
        on_delete=strategy.get("type") == "OnDelete",
        min_ready_seconds=spec.get("minReadySeconds", 0),
    )


def _nodes(context: MemberContext, pod_spec: JSONObject) -> tuple[str, ...]:
    tolerations = [*(pod_spec.get("tolerations") or ()), *_TOLERATIONS]
    fit = (
        node.name
        for node in context.index.nodes.values()
        if selected(pod_spec, node) and untolerated(tolerations, node.taints) is None
    )
    return tuple(sorted(fit))


def _only(node: str) -> JSONObject:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
