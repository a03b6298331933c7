"""Rights that an agent would like to keep, or to have."""

import pytest

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import ROLE_BINDING
from echelon.controllers.cluster.belongings import agent_group
from echelon.hub.access.identity import User
from echelon.hub.client import InProcessClient
from echelon.kube.client import MergePatch
from echelon.kube.errors import Forbidden
from tests.controllers.hub import Hub
from tests.controllers.test_registration import CONTROLLER, rights, told


def test_the_rights_end_with_the_acceptance_whatever_the_agent_says_of_itself() -> None:
    """An agent may write the status of its cluster; what it takes out of there does not keep its rights."""

    async def story(hub: Hub) -> None:
        hub.start(CONTROLLER)
        await hub.cluster("a")
        await hub.settle()
        await hub.stop()
        agent = InProcessClient(hub.client._cluster, User("agent", (agent_group("a"),)))
        await agent.patch(MANAGED_CLUSTER, "a", MergePatch({"status": {"conditions": None}}), subresource="status")
        await hub.patch(MANAGED_CLUSTER, "a", {"spec": {"hubAcceptsClient": False}})
        hub.start(CONTROLLER)
        await hub.settle()
        assert await rights(hub) == 0
        with pytest.raises(Forbidden):
            await agent.patch(MANAGED_CLUSTER, "a", MergePatch({"status": {}}), subresource="status")

    told(story)


def test_a_binding_that_names_another_role_is_made_anew() -> None:
    async def story(hub: Hub) -> None:
        name, kind = "open-cluster-management:a:agent", ROLE_BINDING
        label = {"cluster.open-cluster-management.io/managedCluster": "a"}
        await hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": "a", "labels": label}})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        await hub.create(kind, name, "a", metadata={"labels": label}, roleRef=role, subjects=[])
        hub.start(CONTROLLER)
        await hub.cluster("a")
        await hub.settle()
        assert (await hub.client.get(kind, name, "a")).role_ref.name == "echelon:agent"

    told(story)
