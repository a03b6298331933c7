"""How the simulated control plane writes: into the store of its cluster, where watches see it, by a short way.

What controllers write is made of parts that the server has admitted before: a pod is its workload's template. So a
template is taken through admission once, for the whole process, and everything made from it shares the result; a new
status needs no admission at all. That is what lets a thousand clusters roll out at once. Tests hold every object that
comes out of this against the server's own admission.
"""

from collections.abc import Awaitable

import msgspec

from echelon.api.base import JSONObject
from echelon.hub.access.identity import MASTERS, User
from echelon.hub.catalogue.resources import Resource
from echelon.hub.cluster import LogicalCluster
from echelon.hub.kinds.builtin import strategy_of
from echelon.hub.storage.store import Entry, Key
from echelon.hub.verbs import admission
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.deletion import delete
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, Preconditions

_MANAGER = Request(
    User("system:kube-controller-manager", (MASTERS,)),
    field_manager="kube-controller-manager",
    field_validation="Ignore",
)
_MOST_ADMITTED = 4096
# By stored resource and content: whatever is in here is shared by all who use it, and never changed.
_admitted: dict[tuple[str, bytes], JSONObject] = {}


class Writer:
    """Writes into one cluster. Every write builds on the latest state, or raises `StaleWrite`."""

    __slots__ = ("cluster",)

    def __init__(self, cluster: LogicalCluster) -> None:
        self.cluster = cluster

    def latest(self, key: Key) -> Entry | None:
        """Return what the next write of a key builds on."""
        return self.cluster.store.latest(key)

    def create(self, key: Key, content: JSONObject, meta: JSONObject, **parts: JSONObject) -> Awaitable[Entry]:
        """Store a new object: metadata as given, content as admission makes it, and parts that need none."""
        resource = self._resource(key.resource)
        target = Target(resource, key.namespace)
        admission.check_namespace_lifecycle(self.cluster, target, key.name)
        body = self._admit(target, content, meta)
        if conditions := (body.get("status") or {}).get("conditions"):
            # Gates are there since this pod is, and not since the first of its template.
            now = self.cluster.timestamp()
            status = {**body["status"], "conditions": [{**each, "lastTransitionTime": now} for each in conditions]}
            body = {**body, "status": status}
        stamped: JSONObject = {"name": key.name}
        if key.namespace:
            stamped["namespace"] = key.namespace
        stamped |= {"uid": self.cluster.new_uid(), "creationTimestamp": self.cluster.timestamp()}
        if strategy_of(resource).counts_generations:
            stamped["generation"] = 1
        if "status" in parts:  # comes on top of the one with which its kind begins
            parts["status"] = (body.get("status") or {}) | parts["status"]
        return self.cluster.store.put(key, {**body, **parts, "metadata": stamped | meta}, expected=0)

    def replace(self, entry: Entry, **parts: JSONObject) -> Awaitable[Entry]:
        """Exchange parts of an object. A new spec is a new generation."""
        old = entry.object
        new = {**old, **parts}
        if "spec" in parts:
            meta = new["metadata"]
            new["metadata"] = {**meta, "generation": meta.get("generation", 0) + 1}
        return self.cluster.store.put(entry.key, new, expected=entry.revision, admitted_by=entry.admitted_by)

    async def delete(self, entry: Entry, *, grace: int | None = None) -> None:
        """Delete an object, as any client would."""
        target = Target(self._resource(entry.key.resource), entry.key.namespace, entry.key.name)
        precondition = Preconditions(uid=entry.object["metadata"]["uid"])
        options = DeleteOptions(precondition, "Background", grace_period_seconds=grace)
        try:
            await delete(self.cluster, target, options, _MANAGER)
        except (errors.NotFound, errors.Conflict):
            return  # gone, or another object by now

    def _resource(self, stored_as: str) -> Resource:
        plural, _, group = stored_as.partition(".")
        return self.cluster.catalogue.find(group, "v1", plural)

    def _admit(self, target: Target, content: JSONObject, meta: JSONObject) -> JSONObject:
        """Return content as the server would store it; raises what the server would answer."""
        name = (target.resource.stored_as, msgspec.json.encode(content))
        found = _admitted.get(name)
        if found is None:
            if len(_admitted) >= _MOST_ADMITTED:
                _admitted.clear()
            example = {"name": "example", "namespace": target.namespace, "labels": meta.get("labels", {})}
            obj = admission.admit_body(target.resource, {**content, "metadata": example}, _MANAGER)
            strategy = strategy_of(target.resource)
            if strategy.first_status is not None:
                obj["status"] = dict(strategy.first_status)
            strategy.prepare_create(self.cluster, obj, _MANAGER.user)
            admission.validate(target, obj, None)
            found = _admitted[name] = {part: value for part, value in obj.items() if part != "metadata"}
        return found
