"""The nodes of a member: they are there, they are ready, and their disks may be full."""

from collections.abc import Iterable

from echelon.api.base import JSONObject
from echelon.fleet.member.act import node_failure, pods
from echelon.fleet.member.cluster_index import NODES
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide.scheduling import DISK_PRESSURE, untolerated
from echelon.fleet.member.profile import NodeShape, Profile
from echelon.hub.storage.store import Key

_FULL = (DISK_PRESSURE, "", "NoSchedule")
_CALM = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
_READY = ("KubeletReady", "kubelet is posting ready status")
_PRESSED = ("KubeletHasDiskPressure", "kubelet has disk pressure")


def node_names(profile: Profile) -> list[str]:
    """Return the names of a member's nodes."""
    return [f"{profile.name}-node-{number + 1}" for number in range(len(profile.nodes))]


async def make_nodes(context: MemberContext) -> None:
    """Make the nodes that the profile has and the cluster has not."""
    for name, shape in zip(node_names(context.profile), context.profile.nodes, strict=True):
        key = Key(NODES, "", name)
        if context.writer.latest(key) is not None:
            continue
        content: JSONObject = {"spec": {}}
        if shape.taints:
            content["spec"]["taints"] = [{"key": k, "value": v, "effect": e} for k, v, e in shape.taints]
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        labels |= {"topology.kubernetes.io/region": context.profile.region, **shape.labels}
        await context.writer.create(key, content, {"labels": labels}, status=_status(context, name, shape))
        await context.breathe()


def _status(context: MemberContext, name: str, shape: NodeShape) -> JSONObject:
    now = context.cluster.timestamp()
    room = {"cpu": shape.cpu, "memory": shape.memory, "pods": shape.pods, **shape.resources}
    return {
        "capacity": room,
        "allocatable": room,
        "conditions": _heard(now, full=False),
        "addresses": [{"type": "Hostname", "address": name}],
        "nodeInfo": {
            "kubeletVersion": context.profile.version,
            "operatingSystem": "linux",
            "architecture": "amd64",
            "osImage": "Simulated Linux",
            "containerRuntimeVersion": "simulated://1.0",
        },
    }


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> JSONObject:
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


async def sync(context: MemberContext, key: Key) -> None:
    """See to the disk of a node, to its failures, and to the pods of one that is gone."""
    entry, view = context.writer.latest(key), context.index.nodes.get(key.name)
    if entry is None or view is None:
        for pod in context.index.pods_on(key.name):
            if found := context.writer.latest(pod):
                await context.writer.delete(found, grace=0)
        return
    if (down := context.node_orders.pop(key.name, None)) is not None:
        await set_down(context, key.name, down=down)
    full = context.script.disk_full(key.name, context.elapsed())
    if full != (_FULL in view.taints):
        await _set_disk(context, key, full=full)
    if full:
        for each in context.index.pods_on(key.name):
            found = context.writer.latest(each)
            if found and untolerated(found.object["spec"].get("tolerations") or (), [_FULL]):
                await pods.evict(context, each)
    await node_failure.sync(context, key)


async def set_down(context: MemberContext, name: str, *, down: bool) -> None:
    """Let a node fall silent, as it looks to the control plane, or let it be heard of again."""
    entry = context.writer.latest(Key(NODES, "", name))
    if entry is None:
        return
    now, status = context.cluster.timestamp(), entry.object.get("status") or {}
    full = any(taint["key"] == DISK_PRESSURE for taint in (entry.object.get("spec") or {}).get("taints") or ())
    conditions = _silent(now) if down else _heard(now, full=full)
    before = {each["type"]: each for each in status.get("conditions") or ()}
    merged = {**before, **{each["type"]: _since(each, before.get(each["type"])) for each in conditions}}
    await context.writer.replace(entry, status={**status, "conditions": list(merged.values())})


def _silent(now: str) -> Iterable[JSONObject]:
    words = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
    return [_condition(kind, "Unknown", *words, now) for kind in (*_CALM, "Ready")]


def _heard(now: str, *, full: bool) -> Iterable[JSONObject]:
    calm = [_condition(kind, "False", *words, now) for kind, words in _CALM.items()]
    if full:
        calm = [_condition("DiskPressure", "True", *_PRESSED, now) if c["type"] == "DiskPressure" else c for c in calm]
    return [*calm, _condition("Ready", "True", *_READY, now)]


def _since(new: JSONObject, old: JSONObject | None) -> JSONObject:
    if old is None or old["status"] != new["status"]:
        return new
    return {**new, "lastTransitionTime": old.get("lastTransitionTime")}


async def _set_disk(context: MemberContext, key: Key, *, full: bool) -> None:
    entry = context.writer.latest(key)
    if entry is None:
        return
    obj, now = entry.object, context.cluster.timestamp()
    taints = [t for t in (obj.get("spec") or {}).get("taints") or () if t["key"] != DISK_PRESSURE]
    condition = _condition("DiskPressure", "False", *_CALM["DiskPressure"], now)
    if full:
        taints.append({"key": DISK_PRESSURE, "effect": "NoSchedule", "timeAdded": now})
        condition = _condition("DiskPressure", "True", *_PRESSED, now)
    spec = {name: value for name, value in (obj.get("spec") or {}).items() if name != "taints"}
    if taints:
        spec["taints"] = taints
    status = obj["status"]
    conditions = [condition if each["type"] == "DiskPressure" else each for each in status["conditions"]]
    new = {**obj, "spec": spec, "status": {**status, "conditions": conditions}}
    await context.cluster.store.put(key, new, expected=entry.revision)


async def beat(context: MemberContext) -> None:
    """Let the nodes say that they are alive; those that are not keep quiet."""
    now = context.cluster.timestamp()
    for name in node_names(context.profile):
        await context.breathe()
        entry, view = context.writer.latest(Key(NODES, "", name)), context.index.nodes.get(name)
        if entry is not None and view is not None and view.ready:
            status = entry.object["status"]
            conditions = [{**each, "lastHeartbeatTime": now} for each in status["conditions"]]
            await context.writer.replace(entry, status={**status, "conditions": conditions})
