"""Role aggregation: cluster roles whose rules are the union of others, chosen by label.

Each cluster of a fleet has roles of its own, which nobody collects. So a change of a role leads to a look at all roles
only if it collects others, or is, or was, one that is collected.
"""

from echelon.api.base import JSONObject
from echelon.hub.access.aggregation import aggregate, collects
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers.todo import Todo
from echelon.hub.storage.store import Change, Key
from echelon.hub.verbs.admission import Target
from echelon.hub.verbs.writing import store_update
from echelon.kube.client import EventType

_CLUSTER_ROLES = "clusterroles.rbac.authorization.k8s.io"


class RoleAggregator:
    """Recomputes aggregated roles after a cluster role changed that means something to them."""

    def __init__(self, cluster: LogicalCluster) -> None:
        self.cluster = cluster
        self.todo: Todo[str] = Todo(f"{cluster.title}: aggregation of cluster role", self._write)
        self._dirty = False
        self._wanted: dict[str, list[JSONObject]] = {}
        self._collecting: dict[str, JSONObject] = {}  # by name

    def follow(self, change: Change) -> None:
        """Learn of a change."""
        if change.entry.key.resource == _CLUSTER_ROLES and self._means_something(change):
            self._dirty = True

    def _means_something(self, change: Change) -> bool:
        """Whether a role is, or was, one that collects others or that is collected."""
        name, role, before = change.entry.key.name, change.entry.object, change.previous
        collected_others = self._collecting.pop(name, None) is not None
        if role.get("aggregationRule") is not None and change.type is not EventType.DELETED:
            self._collecting[name] = role
            return True
        states = [role] if before is None else [role, before.object]
        return collected_others or any(collects(each, state) for each in self._collecting.values() for state in states)

    async def work(self) -> None:
        """Bring aggregated roles up to date."""
        if self._dirty:
            self._dirty = False
            wanted = aggregate(entry.object for entry in self.cluster.store.list(_CLUSTER_ROLES).entries)
            for name in self._wanted.keys() - wanted.keys():
                self.todo.discard(name)
            for name, rules in wanted.items():
                if self._wanted.get(name) != rules:
                    self.todo.add(name)
                else:
                    self.todo.remind(name)
            self._wanted = wanted
        await self.todo.work()

    async def _write(self, name: str) -> None:
        rules, entry = self._wanted[name], self.cluster.store.latest(Key(_CLUSTER_ROLES, "", name))
        if entry is not None and entry.object.get("rules") != rules:
            resource = self.cluster.catalogue.find("rbac.authorization.k8s.io", "v1", "clusterroles")
            await store_update(self.cluster, Target(resource, "", name), entry, {**entry.object, "rules": rules})
