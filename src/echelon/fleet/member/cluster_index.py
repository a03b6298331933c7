"""What the controllers of a member know of it: pods by owner, ReplicaSets by Deployment, nodes and their load.

It is kept from the changes that the store commits, so no controller ever lists, and a change names exactly those who
must look at something again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.pods import PodView, read_pod
from echelon.fleet.member.decide.scheduling import NodeView, Usage, read_node, requests_of
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
_WORKLOADS = frozenset(_OWNERS.values())
FOLLOWED = _WORKLOADS | {PODS, NODES}


@dataclass
class ClusterIndex:
    """An index over one cluster."""

    nodes: dict[str, NodeView] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    unscheduled: dict[Key, None] = field(default_factory=dict)  # pods for which no node was found
    _pods: dict[Key, PodView] = field(default_factory=dict)
    _owned: dict[str, dict[Key, PodView]] = field(default_factory=dict)
    _sets: dict[str, dict[Key, None]] = field(default_factory=dict)
    _deployments: dict[str, Key] = field(default_factory=dict)  # by uid of the ReplicaSet
    _daemons: dict[Key, None] = field(default_factory=dict)

    def pod(self, key: Key) -> PodView | None:
        """Return a pod."""
        return self._pods.get(key)

    def pods_of(self, uid: str) -> Sequence[PodView]:
        """Return the pods that an object controls, oldest first."""
        return tuple(self._owned.get(uid, {}).values())

    def pods_on(self, node: str) -> list[Key]:
        """Return the pods of a node."""
        return [key for key, pod in self._pods.items() if pod.node == node]

    def all_pods(self) -> list[Key]:
        """Return all pods."""
        return list(self._pods)

    def sets_of(self, uid: str) -> Sequence[Key]:
        """Return the ReplicaSets that a Deployment controls, oldest first."""
        return tuple(self._sets.get(uid, ()))

    def follow(self, change: Change) -> Iterator[Key]:
        """Learn of a change, and name what is to be looked at because of it."""
        key = change.entry.key
        gone = change.type is EventType.DELETED
        if key.resource == PODS:
            yield from self._follow_pod(change.entry, gone=gone)
        elif key.resource == NODES:
            yield from self._follow_node(change.entry, gone=gone)
        elif key.resource in _WORKLOADS:
            yield from self._follow_workload(change.entry, gone=gone)

    def _follow_pod(self, entry: Entry, *, gone: bool) -> Iterator[Key]:
        key, obj, old = entry.key, entry.object, self._pods.pop(entry.key, None)
        uid = obj["metadata"]["uid"]
        if old is not None:
            self._load(old, -1)
        requests = old.requests if old is not None and old.uid == uid else requests_of(obj["spec"])
        pod = read_pod(obj, requests)
        if old is not None and old.owner != pod.owner:
            self._owned.get(old.owner, {}).pop(key, None)
        if gone:
            self.unscheduled.pop(key, None)
            owned = self._owned.get(pod.owner, {})
            owned.pop(key, None)
            if not owned:
                self._owned.pop(pod.owner, None)
                if deployment := self._deployments.get(pod.owner):
                    yield deployment  # it may wait for the last of its old pods to be gone
        else:
            self._pods[key] = pod
            self._load(pod, 1)
            if pod.owner:
                self._owned.setdefault(pod.owner, {})[key] = pod
            yield key
        if old is not None and old.node and (gone or not pod.active) and old.active:
            yield from self.unscheduled  # there may be room now
        yield from owner_of(obj)

    def _load(self, pod: PodView, sign: int) -> None:
        if pod.node and not pod.ended:
            self.usage.setdefault(pod.node, Usage()).add(pod.requests, sign)

    def _follow_node(self, entry: Entry, *, gone: bool) -> Iterator[Key]:
        name = entry.key.name
        before = self.nodes.pop(name, None)
        if not gone:
            self.nodes[name] = read_node(entry.object)
        yield entry.key
        if self.nodes.get(name) != before:
            yield from self.unscheduled
            yield from self._daemons

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
