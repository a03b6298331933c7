"""What the controllers of a member know of it: pods by owner, ReplicaSets by Deployment, nodes and their load.

It is kept from the changes that the store commits, so no controller ever lists, and a change names exactly those who
must look at something again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.gang import read_gang
from echelon.fleet.member.decide.pods import GANG_LABEL, PodView, read_pod
from echelon.fleet.member.decide.scheduling import Demand, NodeView, Requests, demand_of, read_node
from echelon.fleet.member.gang_index import POD_GANGS, GangIndex
from echelon.fleet.member.room import Room
from echelon.fleet.member.scheduling_queue import SchedulingQueue
from echelon.hub.storage.store import Change, Entry, Key
from echelon.kube.client import EventType

PODS, NODES = "pods", "nodes"
REPLICA_SETS, DEPLOYMENTS = "replicasets.apps", "deployments.apps"
STATEFUL_SETS, DAEMON_SETS = "statefulsets.apps", "daemonsets.apps"
JOBS, CLONE_SETS = "jobs.batch", "clonesets.apps.kruise.io"
REVISIONS = "controllerrevisions.apps"

_OWNERS = {
    "ReplicaSet": REPLICA_SETS,
    "Deployment": DEPLOYMENTS,
    "StatefulSet": STATEFUL_SETS,
    "DaemonSet": DAEMON_SETS,
    "Job": JOBS,
    "CloneSet": CLONE_SETS,
}
WORKLOADS = frozenset(_OWNERS.values())
FOLLOWED = WORKLOADS | {PODS, NODES, POD_GANGS}
SCHEDULER = Key("scheduler", "", "")  # not an object, but woken like one
_MOST_DEMANDS = 4096


@dataclass
class ClusterIndex:
    """An index over one cluster."""

    room: Room = field(default_factory=Room)
    gangs: GangIndex = field(default_factory=GangIndex)
    queue: SchedulingQueue = field(default_factory=SchedulingQueue)
    _pods: dict[Key, PodView] = field(default_factory=dict)
    _on: dict[str, dict[Key, None]] = field(default_factory=dict)  # by node
    _demands: dict[bytes, Demand] = field(default_factory=dict)
    _owned: dict[str, dict[Key, PodView]] = field(default_factory=dict)
    _sets: dict[str, dict[Key, None]] = field(default_factory=dict)
    _deployments: dict[str, Key] = field(default_factory=dict)  # by uid of the ReplicaSet
    _daemons: dict[Key, None] = field(default_factory=dict)

    @property
    def nodes(self) -> dict[str, NodeView]:
        """The nodes by name."""
        return self.room.nodes

    def pod(self, key: Key) -> PodView | None:
        """Return a pod."""
        return self._pods.get(key)

    def pods_of(self, uid: str) -> Sequence[PodView]:
        """Return the pods that an object controls, oldest first."""
        return tuple(self._owned.get(uid, {}).values())

    def count_of(self, uid: str) -> int:
        """Return how many pods an object controls."""
        return len(self._owned.get(uid, ()))

    def pods_on(self, node: str) -> list[Key]:
        """Return the pods of a node."""
        return list(self._on.get(node, ()))

    def all_pods(self) -> list[Key]:
        """Return all pods."""
        return list(self._pods)

    def sets_of(self, uid: str) -> Sequence[Key]:
        """Return the ReplicaSets that a Deployment controls, oldest first."""
        return tuple(self._sets.get(uid, ()))

    def node_for(self, spec: JSONObject, meta: JSONObject) -> str:
        """Return where the scheduler would put a pod; nothing if it may have to wait for a node, or for others."""
        if (
            self.queue
            or spec.get("schedulingGates")
            or spec.get("nodeName")
            or (meta.get("labels") or {}).get(GANG_LABEL)
        ):
            return ""
        return self.room.find(self._demand(spec))

    def follow(self, change: Change) -> Iterator[Key]:
        """Learn of a change, and name what is to be looked at because of it."""
        key = change.entry.key
        gone = change.type is EventType.DELETED
        if key.resource == PODS:
            yield from self._follow_pod(change.entry, gone=gone)
        elif key.resource == NODES:
            yield from self._follow_node(change.entry, gone=gone)
        elif key.resource == POD_GANGS:
            yield from self._follow_gang(change.entry, gone=gone)
        elif key.resource in WORKLOADS:
            yield from self._follow_workload(change.entry, gone=gone)

    def _follow_pod(self, entry: Entry, *, gone: bool) -> Iterator[Key]:
        key, obj, old = entry.key, entry.object, self._pods.pop(entry.key, None)
        placed = old is not None and old.node and old.uid == obj["metadata"]["uid"]
        demand = old.demand if old is not None and placed else self._demand(obj["spec"])
        pod = read_pod(obj, demand, entry.created)
        if old is not None and old.owner != pod.owner:
            self._owned.get(old.owner, {}).pop(key, None)
        if gone:
            owned = self._owned.get(pod.owner, {})
            owned.pop(key, None)
            if not owned:
                self._owned.pop(pod.owner, None)
                if deployment := self._deployments.get(pod.owner):
                    yield deployment  # it may wait for the last of its old pods to be gone
        else:
            self._pods[key] = pod
            if pod.owner:
                self._owned.setdefault(pod.owner, {})[key] = pod
            yield key
        now = None if gone else pod
        yield from self._settle(key, old, now)
        yield from self.gangs.follow(key, old, now)
        yield from owner_of(obj)

    def _settle(self, key: Key, old: PodView | None, new: PodView | None) -> Iterator[Key]:
        """Keep account of who is on which node, and of who waits for one."""
        before, after = _load(old), _load(new)
        if before != after:
            if before is not None:
                self.room.take(*before, -1)
                self.queue.room_came = True
                yield SCHEDULER
            if after is not None:
                self.room.take(*after)
        if (old.node if old else "") != (new.node if new else ""):
            if old is not None and old.node:
                on = self._on[old.node]
                del on[key]
                if not on:
                    del self._on[old.node]
            if new is not None and new.node:
                self._on.setdefault(new.node, {})[key] = None
                node = self.nodes.get(new.node)
                if node is not None and any(effect == "NoExecute" for _, _, effect in node.taints):
                    yield Key(NODES, "", new.node)  # which may not keep it for long
        if new is not None and new.placeable:
            if self.queue.add(key, new.demand):
                yield SCHEDULER
        else:
            self.queue.drop(key)

    def _demand(self, spec: JSONObject) -> Demand:
        """Return the demand of a pod: one and the same for pods that are alike."""
        containers = [each.get("resources") for each in spec.get("containers") or ()]
        first = [(each.get("resources"), each.get("restartPolicy")) for each in spec.get("initContainers") or ()]
        affinity = (spec.get("affinity") or {}).get("nodeAffinity")
        place = (spec.get("nodeSelector"), affinity, spec.get("tolerations"))
        name = msgspec.json.encode((containers, first, spec.get("overhead"), place))
        found = self._demands.get(name)
        if found is None:
            if len(self._demands) >= _MOST_DEMANDS:
                self._demands.clear()
            found = self._demands[name] = demand_of(spec)
        return found

    def _follow_node(self, entry: Entry, *, gone: bool) -> Iterator[Key]:
        name = entry.key.name
        before, after = self.nodes.get(name), None if gone else read_node(entry.object)
        yield entry.key
        if after != before:
            self.room.set_node(name, after)
            self.queue.nodes_changed = True
            yield SCHEDULER
            yield from self._daemons
        if after is not None and after.ready and before is not None and not before.ready:
            yield from self.pods_on(name)

    def _follow_gang(self, entry: Entry, *, gone: bool) -> Iterator[Key]:
        key = entry.key
        before, after = self.gangs.gangs.get(key), None if gone else read_gang(entry.object, entry.created)
        if not gone:
            yield key
        if after != before:
            self.gangs.set_gang(key, after)
            for members in self.gangs.members(key).values():
                for pod in members.pending:
                    self.queue.renew(pod)
            yield SCHEDULER

    def _follow_workload(self, entry: Entry, *, gone: bool) -> Iterator[Key]:
        key, meta = entry.key, entry.object["metadata"]
        if key.resource == DAEMON_SETS:
            self._daemons.pop(key, None)
            if not gone:
                self._daemons[key] = None
        if key.resource == REPLICA_SETS:
            for ref in meta.get("ownerReferences") or ():
                if ref.get("controller"):
                    sets = self._sets.setdefault(ref["uid"], {})
                    sets.pop(key, None) if gone else sets.setdefault(key)
                    if not sets:
                        del self._sets[ref["uid"]]
            if gone:
                self._deployments.pop(meta["uid"], None)
            else:
                self._deployments.update((meta["uid"], owner) for owner in owner_of(entry.object))
        if not gone:
            yield key
        yield from owner_of(entry.object)


def _load(pod: PodView | None) -> tuple[str, Requests] | None:
    """Return what a pod uses of which node."""
    return (pod.node, pod.demand.requests) if pod is not None and pod.node and not pod.ended else None


def owner_of(obj: JSONObject) -> Iterator[Key]:
    """Name the workload that controls an object."""
    meta = obj["metadata"]
    for ref in meta.get("ownerReferences") or ():
        if ref.get("controller") and (resource := _OWNERS.get(ref["kind"])):
            yield Key(resource, meta.get("namespace", ""), ref["name"])


def reference_to(obj: JSONObject) -> JSONObject:
    """Return the reference by which an object controls another."""
    meta = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
