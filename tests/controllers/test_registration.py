"""Accepted clusters get a namespace and rights that end at its border."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.coordination import LEASE
from echelon.api.core import CONFIG_MAP, SECRET
from echelon.api.crd import crd
from echelon.api.events import EVENT
from echelon.api.karmada import WORK as WORKLOAD_WORK
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.policy import POLICY
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from echelon.api.work import GROUP as WORK_GROUP
from echelon.api.work import MANIFEST_WORK
from echelon.controllers.cluster.belongings import agent_group, fixed_roles
from echelon.hub.access.identity import User
from echelon.hub.client import InProcessClient
from echelon.kube.client import Client, MergePatch
from echelon.kube.errors import ApiError, Forbidden, NotFound
from tests.controllers import hub as world
from tests.controllers.hub import Hub
from tests.controllers.refusing import start_refusing

CONTROLLER = "cluster-registration"
WORK = {"spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}]}}}


async def serve_works(hub: Hub) -> None:
    for definition in registry.crds():
        if definition["spec"]["group"] == WORK_GROUP:
            await hub.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)


def told(story: Callable[[Hub], Awaitable[None]]) -> None:
    async def with_works(hub: Hub) -> None:
        await serve_works(hub)
        await story(hub)

    world.told(with_works)


async def work(hub: Hub, namespace: str) -> None:
    await hub.create(MANIFEST_WORK, "w", namespace, **WORK)


async def refused(client: Client, kind: Kind[Any], name: str, namespace: str = "", verbs: str = "") -> None:
    """See that nothing can be done there."""
    for verb in verbs.split() or ["get", "list", "watch", "patch", "delete", "create"]:
        with pytest.raises(Forbidden):
            await _try(client, verb, kind, name, namespace)


async def _try(client: Client, verb: str, kind: Kind[Any], name: str, namespace: str) -> None:
    plain = kind.untyped()
    if verb == "get":
        await client.get(plain, name, namespace)
    elif verb == "list":
        await client.list(plain, namespace)
    elif verb == "watch":
        async for _ in client.watch(plain, namespace, resource_version="1", timeout_seconds=1):
            pass
    elif verb == "patch":
        await client.patch(plain, name, MergePatch({"metadata": {"labels": {"a": "b"}}}), namespace)
    elif verb == "status":
        await client.patch(plain, name, MergePatch({"status": {}}), namespace, subresource="status")
    elif verb == "delete":
        await client.delete(plain, name, namespace)
    else:
        metadata = {"name": "new"}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {}}
        await client.create(plain, body, namespace)


async def border(mine: Client, a: str = "a", b: str = "b") -> None:
    """See what the agent of cluster a can do, and that it is all."""
    assert (await mine.get(MANAGED_CLUSTER, a)).metadata.name == a
    assert len((await mine.list(MANIFEST_WORK, a)).items) == 1
    note = MergePatch({"metadata": {"annotations": {"a": "b"}}})
    await mine.patch(MANIFEST_WORK, "w", note, a)
    await mine.patch(MANIFEST_WORK, "w", MergePatch({"status": {"conditions": []}}), a, subresource="status")
    await mine.patch(
        MANAGED_CLUSTER, a, MergePatch({"status": {"version": {"kubernetes": "v1"}}}), subresource="status"
    )
    lease = {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {"name": "managed-cluster-lease"},
        "spec": {"holderIdentity": "a"},
    }
    await mine.create(LEASE, lease, a)
    await mine.patch(LEASE, "managed-cluster-lease", MergePatch({"spec": {"holderIdentity": "other"}}), a)
    await refused(mine, MANIFEST_WORK, "w", b)
    await refused(mine, MANIFEST_WORK, "w", b, "status")
    await refused(mine, MANIFEST_WORK, "", "", "list watch")
    await refused(mine, MANIFEST_WORK, "w", a, "create delete")
    await refused(mine, MANAGED_CLUSTER, b)
    await refused(mine, MANAGED_CLUSTER, b, "", "status")
    await refused(mine, MANAGED_CLUSTER, a, "", "patch delete")
    for namespace in (a, b):
        await refused(mine, SECRET, "s", namespace)
        await refused(mine, CONFIG_MAP, "c", namespace)
        await refused(mine, ROLE, "r", namespace)
        await refused(mine, LEASE, "other", namespace, "get patch delete")
    await refused(mine, LEASE, "managed-cluster-lease", b)
    await refused(mine, EVENT, "e", b, "create patch")
    await refused(mine, NAMESPACE, a)
    await refused(mine, CLUSTER_ROLE, "r")


def test_an_accepted_cluster_gets_a_namespace_and_its_agent_rights_in_it_only() -> None:
    async def story(hub: Hub) -> None:
        hub.start(CONTROLLER)
        await hub.clusters(["a", "b"])
        await hub.settle()
        for name in ("a", "b"):
            namespace = await hub.client.get(NAMESPACE, name)
            assert namespace.metadata.labels["cluster.open-cluster-management.io/managedCluster"] == name
            await work(hub, name)
        cluster = await hub.client.get(MANAGED_CLUSTER, "a")
        said = [(each.type, each.status, each.reason, each.message) for each in cluster.status.conditions]
        assert said == [
            ("HubAcceptedManagedCluster", "True", "HubClusterAdminAccepted", "Accepted by hub cluster admin")
        ]
        logical = hub.client._cluster
        await border(InProcessClient(logical, User("agent", (agent_group("a"), "system:authenticated"))))
        name = "system:serviceaccount:a:echelon-agent"
        assert len((await InProcessClient(logical, User(name)).list(MANIFEST_WORK, "a")).items) == 1
        await refused(InProcessClient(logical, User("system:serviceaccount:b:echelon-agent")), MANIFEST_WORK, "w", "a")

    told(story)


def test_an_agent_reads_the_policies_of_its_namespace_and_writes_only_what_it_says_of_them() -> None:
    async def story(hub: Hub) -> None:
        await hub.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), crd(POLICY))
        hub.start(CONTROLLER)
        await hub.clusters(["a", "b"])
        await hub.settle()
        spec = {"disabled": False, "remediationAction": "inform", "policy-templates": []}
        for name in ("a", "b"):
            await hub.create(POLICY, "ns.p", name, spec=spec)
        mine = InProcessClient(hub.client._cluster, User("agent", (agent_group("a"), "system:authenticated")))
        assert [each.metadata.name for each in (await mine.list(POLICY, "a")).items] == ["ns.p"]
        await _try(mine, "watch", POLICY, "", "a")
        await _try(mine, "get", POLICY, "ns.p", "a")
        await _try(mine, "status", POLICY, "ns.p", "a")
        await refused(mine, POLICY, "ns.p", "a", "patch delete create")
        await refused(mine, POLICY, "ns.p", "b")
        await refused(mine, POLICY, "ns.p", "b", "status")
        await refused(mine, POLICY, "", "", "list watch")

    told(story)


def test_a_cluster_that_nobody_accepted_gets_nothing() -> None:
    async def story(hub: Hub) -> None:
        hub.start(CONTROLLER)
        await hub.create(MANAGED_CLUSTER, "a", spec={"hubAcceptsClient": False})
        await hub.settle()
        with pytest.raises(NotFound):
            await hub.client.get(NAMESPACE, "a")
        assert (await hub.client.get(MANAGED_CLUSTER, "a")).status.conditions == []

    told(story)


def with_workloads(story: Callable[[Hub], Awaitable[None]]) -> None:
    async def serving(hub: Hub) -> None:
        await hub.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), crd(WORKLOAD_WORK))
        await story(hub)

    told(serving)


def test_where_there_are_federated_workloads_an_agent_may_change_their_works_in_its_namespace_only() -> None:
    async def story(hub: Hub) -> None:
        hub.start(CONTROLLER)
        await hub.clusters(["a", "b"])
        await hub.settle()
        for name in ("a", "b"):
            await hub.create(WORKLOAD_WORK, "w", f"karmada-es-{name}", **WORK)
        mine = InProcessClient(hub.client._cluster, User("agent", (agent_group("a"), "system:authenticated")))
        own, other = "karmada-es-a", "karmada-es-b"
        for verb in ("get", "list", "watch", "patch", "status"):
            await _try(mine, verb, WORKLOAD_WORK, "w", own)
        await refused(mine, WORKLOAD_WORK, "w", own, "delete create")
        await refused(mine, WORKLOAD_WORK, "w", other)
        await refused(mine, WORKLOAD_WORK, "w", other, "status")
        await refused(mine, WORKLOAD_WORK, "", "", "list watch")
        for kind, name in ((SECRET, "s"), (CONFIG_MAP, "c"), (ROLE, "r"), (EVENT, "e")):
            await refused(mine, kind, name, own)
        await refused(mine, MANIFEST_WORK, "w", own, "list watch create")

    with_workloads(story)


def test_the_rights_to_works_of_federated_workloads_end_with_the_acceptance() -> None:
    async def story(hub: Hub) -> None:
        hub.start(CONTROLLER)
        await hub.cluster("a")
        await hub.settle()
        assert await rights(hub) == 4
        await hub.patch(MANAGED_CLUSTER, "a", {"spec": {"hubAcceptsClient": False}})
        await hub.settle()
        assert await rights(hub) == 0
        assert (await hub.client.get(NAMESPACE, "karmada-es-a")).metadata.name == "karmada-es-a"

    with_workloads(story)


def test_a_cluster_whose_name_is_too_long_says_that_federated_workloads_cannot_reach_it() -> None:
    async def story(hub: Hub) -> None:
        hub.start(CONTROLLER)
        fits, long = "c" * 52, "c" * 53
        await hub.clusters([fits, long])
        await hub.settle()
        assert (await hub.client.get(NAMESPACE, f"karmada-es-{fits}")).metadata.name
        assert len((await hub.client.get(MANAGED_CLUSTER, fits)).status.conditions) == 1
        said = (await hub.client.get(MANAGED_CLUSTER, long)).status.conditions
        assert [(each.type, each.status, each.reason) for each in said] == [
            ("HubAcceptedManagedCluster", "True", "HubClusterAdminAccepted"),
            ("WorkloadNamespaceReady", "False", "ClusterNameTooLong"),
        ]
        assert "53 characters, and at most 52 fit" in said[1].message

    with_workloads(story)


async def rights(hub: Hub) -> int:
    kinds: tuple[Kind[Any], ...] = (ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING)
    label = "cluster.open-cluster-management.io/managedCluster=a"
    return sum([len((await hub.client.list(kind, labels=label)).items) for kind in kinds])


def test_the_rights_end_with_the_acceptance_and_come_back_with_it() -> None:
    async def story(hub: Hub) -> None:
        hub.start(CONTROLLER)
        await hub.cluster("a")
        await hub.settle()
        assert await rights(hub) == 3
        await hub.patch(MANAGED_CLUSTER, "a", {"spec": {"hubAcceptsClient": False}})
        await hub.settle()
        assert await rights(hub) == 0
        said = (await hub.client.get(MANAGED_CLUSTER, "a")).status.conditions[0]
        assert (said.status, said.reason, said.message) == (
            "False",
            "HubClusterAdminDenied",
            "Denied by hub cluster admin",
        )
        assert (await hub.client.get(NAMESPACE, "a")).metadata.name == "a"
        await hub.patch(MANAGED_CLUSTER, "a", {"spec": {"hubAcceptsClient": True}})
        await hub.settle()
        assert await rights(hub) == 3

    told(story)


def test_rights_that_somebody_removes_or_widens_are_put_right() -> None:
    async def story(hub: Hub) -> None:
        hub.start(CONTROLLER)
        await hub.cluster("a")
        await hub.settle()
        name = "open-cluster-management:a:agent"
        await hub.delete(ROLE_BINDING, name, "a")
        rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}
        role = "open-cluster-management:managedcluster:a"
        before = (await hub.client.get(CLUSTER_ROLE, role)).rules
        await hub.patch(CLUSTER_ROLE, role, {"rules": [rule]})
        await hub.settle()
        assert await rights(hub) == 3
        assert (await hub.client.get(CLUSTER_ROLE, role)).rules == before

    told(story)


def test_the_acceptance_is_said_of_the_present_spec() -> None:
    async def story(hub: Hub) -> None:
        hub.start(CONTROLLER)
        await hub.cluster("a")
        await hub.settle()
        began = (await hub.client.get(MANAGED_CLUSTER, "a")).status.conditions[0].last_transition_time
        await hub.patch(MANAGED_CLUSTER, "a", {"spec": {"taints": [{"key": "k", "effect": "NoSelect"}]}})
        await hub.settle()
        cluster = await hub.client.get(MANAGED_CLUSTER, "a")
        said = cluster.status.conditions[0]
        assert (said.observed_generation, said.last_transition_time) == (cluster.metadata.generation, began)

    told(story)


async def said_of_acceptance(hub: Hub, name: str) -> tuple[str, str, str]:
    cluster = await hub.client.get(MANAGED_CLUSTER, name)
    (said,) = [each for each in cluster.status.conditions if each.type == "HubAcceptedManagedCluster"]
    return said.status, said.reason, said.message


@pytest.mark.parametrize("kind", [NAMESPACE, ROLE_BINDING, CLUSTER_ROLE], ids=lambda kind: str(kind.kind))
def test_rights_that_the_hub_does_not_take_are_told_and_tried_again(kind: Kind[Any]) -> None:
    def refuses(_: str, wanted: Kind[Any], __: str, ___: JSONObject) -> ApiError | None:
        return Forbidden("quota exceeded") if wanted.resource == kind.resource else None

    async def story(hub: Hub) -> None:
        refusing = start_refusing(hub, CONTROLLER, refuses)
        await hub.clusters(["a"])
        await hub.settle()
        status, reason, message = await said_of_acceptance(hub, "a")
        assert (status, reason) == ("False", "RightsNotWritten")
        assert kind.kind in message
        assert message.endswith(": quota exceeded")
        assert 1 < refusing.asked < 20
        refusing.refuses = None
        await hub.settle(120)
        assert (await said_of_acceptance(hub, "a"))[:2] == ("True", "HubClusterAdminAccepted")

    told(story)


def test_it_is_told_when_the_hub_takes_a_role_of_all_agents_after_all() -> None:
    names = {each.name for each in fixed_roles()}

    def refuses(_: str, __: Kind[Any], ___: str, body: JSONObject) -> ApiError | None:
        return Forbidden("no") if body.get("metadata", {}).get("name") in names else None

    async def story(hub: Hub) -> None:
        refusing = start_refusing(hub, CONTROLLER)
        await hub.clusters(["a"])
        await hub.settle()
        refusing.refuses = refuses
        await hub.client.delete(CLUSTER_ROLE, min(names))
        await hub.settle(60)
        assert (await said_of_acceptance(hub, "a"))[:2] == ("True", "RightsNotWritten")
        refusing.refuses = None
        await hub.settle(120)
        assert (await said_of_acceptance(hub, "a"))[1] == "HubClusterAdminAccepted"

    told(story)


def test_rights_that_the_hub_does_not_let_go_are_told() -> None:
    def refuses(verb: str, _: Kind[Any], __: str, ___: JSONObject) -> ApiError | None:
        return Forbidden("no") if verb == "delete" else None

    async def story(hub: Hub) -> None:
        refusing = start_refusing(hub, CONTROLLER, refuses)
        await hub.clusters(["a"])
        await hub.settle()
        assert (await said_of_acceptance(hub, "a"))[0] == "True"
        deny = MergePatch({"spec": {"hubAcceptsClient": False}})
        await hub.client.patch(MANAGED_CLUSTER, "a", deny)
        await hub.settle()
        status, reason, message = await said_of_acceptance(hub, "a")
        assert (status, reason) == ("True", "RightsNotRevoked"), "the agent still has them"
        assert message.endswith(": no")
        refusing.refuses = None
        await hub.settle(120)
        assert (await said_of_acceptance(hub, "a"))[:2] == ("False", "HubClusterAdminDenied")

    told(story)
