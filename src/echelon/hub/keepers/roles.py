"""Role aggregation: cluster roles whose rules are the union of others, chosen by label."""

from dataclasses import dataclass

from echelon.hub.access.aggregation import aggregate
from echelon.hub.admission import Target
from echelon.hub.cluster import LogicalCluster
from echelon.hub.storage.store import Change, Key
from echelon.hub.writing import store_update

_CLUSTER_ROLES = "clusterroles.rbac.authorization.k8s.io"


@dataclass
class RoleKeeper:
    """Recomputes aggregated roles after any cluster role changed."""

    cluster: LogicalCluster
    _dirty: bool = False

    def follow(self, change: Change) -> None:
        """Learn of a change."""
        self._dirty |= change.entry.key.resource == _CLUSTER_ROLES

    @property
    def busy(self) -> bool:
        """Whether there is work to do."""
        return self._dirty

    async def work(self) -> None:
        """Bring aggregated roles up to date."""
        self._dirty = False
        resource = self.cluster.catalogue.find("rbac.authorization.k8s.io", "v1", "clusterroles")
        roles = [entry.object for entry in self.cluster.store.list(_CLUSTER_ROLES).entries]
        for name, rules in aggregate(roles).items():
            entry = self.cluster.store.latest(Key(_CLUSTER_ROLES, "", name))
            if entry is not None and entry.object.get("rules") != rules:
                await store_update(self.cluster, Target(resource, "", name), entry, {**entry.object, "rules": rules})
