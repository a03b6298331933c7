"""The nodes of a member: they are there, they are ready, and their disks may be full."""

from echelon.api.base import JSONObject
from echelon.fleet.member.act import pods
from echelon.fleet.member.decide.scheduling import DISK_PRESSURE, untolerated
from echelon.fleet.member.place import Place
from echelon.fleet.member.profile import NodeShape, Profile
from echelon.fleet.member.sight import NODES
from echelon.hub.storage.store import Key

_FULL = (DISK_PRESSURE, "", "NoSchedule")
_CALM = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


def node_names(profile: Profile) -> list[str]:
    """Return the names of a member's nodes."""
    return [f"{profile.name}-node-{number + 1}" for number in range(len(profile.nodes))]


async def make_nodes(place: Place) -> None:
    """Make the nodes that the profile has and the cluster has not."""
    for name, shape in zip(node_names(place.profile), place.profile.nodes, strict=True):
        key = Key(NODES, "", name)
        if place.writer.latest(key) is not None:
            continue
        content: JSONObject = {"spec": {}}
        if shape.taints:
            content["spec"]["taints"] = [{"key": k, "value": v, "effect": e} for k, v, e in shape.taints]
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        labels |= {"topology.kubernetes.io/region": place.profile.region, **shape.labels}
        await place.writer.create(key, content, {"labels": labels}, status=_status(place, name, shape))


def _status(place: Place, name: str, shape: NodeShape) -> JSONObject:
    now = place.cluster.timestamp()
    room = {"cpu": shape.cpu, "memory": shape.memory, "pods": shape.pods}
    ready = _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now)
    return {
        "capacity": room,
        "allocatable": room,
        "conditions": [*(_condition(kind, "False", *words, now) for kind, words in _CALM.items()), ready],
        "addresses": [{"type": "Hostname", "address": name}],
        "nodeInfo": {
            "kubeletVersion": place.profile.version,
            "operatingSystem": "linux",
            "architecture": "amd64",
            "osImage": "Simulated Linux",
            "containerRuntimeVersion": "simulated://1.0",
        },
    }


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> JSONObject:
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


async def sync(place: Place, key: Key) -> None:
    """See to the disk of a node, and to the pods of one that is gone."""
    entry, view = place.writer.latest(key), place.sight.nodes.get(key.name)
    if entry is None or view is None:
        for pod in place.sight.pods_on(key.name):
            if found := place.writer.latest(pod):
                await place.writer.delete(found, grace=0)
        return
    full = place.script.disk_full(key.name, place.elapsed())
    if full != (_FULL in view.taints):
        await _set_disk(place, key, full=full)
    if full:
        for each in place.sight.pods_on(key.name):
            found = place.writer.latest(each)
            if found and untolerated(found.object["spec"].get("tolerations") or (), [_FULL]):
                await pods.evict(place, each)


async def _set_disk(place: Place, key: Key, *, full: bool) -> None:
    entry = place.writer.latest(key)
    if entry is None:
        return
    obj, now = entry.object, place.cluster.timestamp()
    taints = [t for t in (obj.get("spec") or {}).get("taints") or () if t["key"] != DISK_PRESSURE]
    condition = _condition("DiskPressure", "False", *_CALM["DiskPressure"], now)
    if full:
        taints.append({"key": DISK_PRESSURE, "effect": "NoSchedule", "timeAdded": now})
        words = ("KubeletHasDiskPressure", "kubelet has disk pressure")
        condition = _condition("DiskPressure", "True", *words, now)
    spec = {name: value for name, value in (obj.get("spec") or {}).items() if name != "taints"}
    if taints:
        spec["taints"] = taints
    status = obj["status"]
    conditions = [condition if each["type"] == "DiskPressure" else each for each in status["conditions"]]
    new = {**obj, "spec": spec, "status": {**status, "conditions": conditions}}
    await place.cluster.store.put(key, new, expected=entry.revision)


async def beat(place: Place) -> None:
    """Let the nodes say that they are alive."""
    now = place.cluster.timestamp()
    for name in node_names(place.profile):
        entry = place.writer.latest(Key(NODES, "", name))
        if entry is not None:
            status = entry.object["status"]
            conditions = [{**each, "lastHeartbeatTime": now} for each in status["conditions"]]
            await place.writer.replace(entry, status={**status, "conditions": conditions})
