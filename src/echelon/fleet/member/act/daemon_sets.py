"""The DaemonSet controller of a member."""

from echelon.api.base import JSONObject
from echelon.fleet.member.act.making import delete_pods, keep_revision, make_pod, report
from echelon.fleet.member.cluster_index import PODS
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide import daemon_set
from echelon.fleet.member.decide.affinity import pinned_node, place_of
from echelon.fleet.member.decide.budgets import daemon_set_limits
from echelon.fleet.member.decide.daemon_set import DaemonSetView
from echelon.fleet.member.decide.pods import REVISION_LABEL, PodView, next_availability
from echelon.fleet.member.decide.revisions import with_label
from echelon.fleet.member.decide.scheduling import DISK_PRESSURE, NOT_READY, UNREACHABLE, untolerated
from echelon.hub.storage.store import Key

# What the pods of a DaemonSet put up with: they belong to the node, whatever its state.
_TOLERATIONS = [
    {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"},
    {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"},
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
    running = {pod.node for pod in context.index.pods_of(obj["metadata"]["uid"])}
    nodes = _nodes(context, spec["template"]["spec"], running)
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


def _nodes(context: MemberContext, pod_spec: JSONObject, running: set[str]) -> tuple[str, ...]:
    """Return the nodes that should run a pod. One that does goes on, as long as the node only takes no new pods."""
    tolerations, place = [*(pod_spec.get("tolerations") or ()), *_TOLERATIONS], place_of(pod_spec)
    fit = []
    for node in context.index.nodes.values():
        taints = [each for each in node.taints if node.name not in running or each[2] == "NoExecute"]
        if place.allows(node.name, node.labels) and untolerated(tolerations, taints) is None:
            fit.append(node.name)
    return tuple(sorted(fit))


def _only(node: str) -> JSONObject:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
