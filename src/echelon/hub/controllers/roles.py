"""Role aggregation: cluster roles whose rules are the union of others, chosen by label."""

from echelon.api.base import JSONObject
from echelon.hub.access.aggregation import aggregate
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers.todo import Todo
from echelon.hub.storage.store import Change, Key
from echelon.hub.verbs.admission import Target
from echelon.hub.verbs.writing import store_update

_CLUSTER_ROLES = "clusterroles.rbac.authorization.k8s.io"


class RoleAggregator:
    """Recomputes aggregated roles after any cluster role changed."""

    def __init__(self, cluster: LogicalCluster) -> None:
        self.cluster = cluster
        self.todo: Todo[str] = Todo(f"{cluster.title}: aggregation of cluster role", self._write)
        self._dirty = False
        self._wanted: dict[str, list[JSONObject]] = {}

    def follow(self, change: Change) -> None:
        """Learn of a change."""
        self._dirty |= change.entry.key.resource == _CLUSTER_ROLES

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
