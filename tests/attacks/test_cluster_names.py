"""A cluster with the name of somebody's namespace: its agent must not get rights there."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.controllers.cluster.belongings import fixed_roles
from tests.controllers.hub import Hub
from tests.controllers.test_registration import CONTROLLER, told, with_workloads

LABEL = "cluster.open-cluster-management.io/managedCluster"
GIVEN: tuple[Kind[Any], ...] = (SERVICE_ACCOUNT, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING)
RIGHTS = Path(__file__).parents[2] / "docs" / "rights.yaml"


async def given(hub: Hub, cluster: str) -> list[str]:
    """Return what was made for a cluster, but for namespaces."""
    found = [each for kind in GIVEN for each in (await hub.client.list(kind, labels=f"{LABEL}={cluster}")).items]
    return [each.kind for each in found]


async def said(hub: Hub, cluster: str, kind: str = "NamespaceReady") -> tuple[str, str]:
    conditions = (await hub.client.get(MANAGED_CLUSTER, cluster)).status.conditions
    found = next((each for each in conditions if each.type == kind), None)
    return (found.status, found.message) if found is not None else ("", "")


@pytest.mark.parametrize("name", ["kube-system", "default", "tenant"])
def test_an_agent_has_no_rights_where_others_live_until_somebody_says_so(name: str) -> None:
    async def story(hub: Hub) -> None:
        hub.start(CONTROLLER)
        if name == "tenant":
            await hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": name, "labels": {"team": "blue"}}})
        await hub.cluster(name)
        await hub.settle()
        assert await given(hub, name) == []
        assert LABEL not in (await hub.client.get(NAMESPACE, name)).metadata.labels
        status, message = await said(hub, name)
        assert (status, f"kubectl label namespace {name} {LABEL}={name}" in message) == ("False", True)
        await hub.patch(NAMESPACE, name, {"metadata": {"labels": {LABEL: name}}})
        await hub.settle()
        assert len(await given(hub, name)) == 4
        assert (await said(hub, name))[0] == "True"
        await hub.patch(NAMESPACE, name, {"metadata": {"labels": {LABEL: "another"}}})
        await hub.settle()
        assert [each for each in await given(hub, name) if each != "ServiceAccount"] == []
        assert (await said(hub, name))[0] == "False"
        await hub.delete(MANAGED_CLUSTER, name)
        await hub.settle(90)  # until it is certain that it has no works
        assert not (await hub.client.get(NAMESPACE, name)).metadata.deletion_timestamp

    told(story)


def test_a_namespace_that_appears_first_is_not_taken_by_a_controller_that_does_not_know_of_it_yet() -> None:
    async def story(hub: Hub) -> None:
        await hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": "tenant"}})
        await hub.cluster("tenant")
        hub.start(CONTROLLER)
        await hub.settle()
        assert await given(hub, "tenant") == []

    told(story)


def test_a_namespace_for_workloads_that_is_not_ours_costs_the_rights_there_only() -> None:
    async def story(hub: Hub) -> None:
        await hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": "karmada-es-a"}})
        hub.start(CONTROLLER)
        await hub.cluster("a")
        await hub.settle()
        bindings = (await hub.client.list(ROLE_BINDING, labels=f"{LABEL}=a")).items
        assert [each.metadata.namespace for each in bindings] == ["a"]
        assert (await said(hub, "a", "WorkloadNamespaceReady"))[0] == "False"
        assert await said(hub, "a") == ("", "")

    with_workloads(story)


def test_a_name_that_no_namespace_can_have_is_said_and_nothing_is_made() -> None:
    async def story(hub: Hub) -> None:
        hub.start(CONTROLLER)
        await hub.cluster("cluster.with.dots")
        await hub.settle()
        assert await given(hub, "cluster.with.dots") == []
        assert "no DNS label" in (await said(hub, "cluster.with.dots"))[1]

    told(story)


def test_the_roles_of_agents_are_there_and_no_other_role_may_be_bound() -> None:
    documents = list(yaml.safe_load_all(RIGHTS.read_text()))
    there = {each["metadata"]["name"]: each for each in documents if each["kind"] == "ClusterRole"}
    for role in fixed_roles():
        assert there[role.name]["rules"] == role.body["rules"]
        assert there[role.name]["metadata"]["labels"] == role.body["metadata"]["labels"]
    rules = [rule for each in there.values() for rule in each["rules"]]
    assert not any("*" in value for rule in rules for values in rule.values() for value in values)
    assert not any({"escalate", "impersonate"} & {*rule["verbs"]} for rule in rules)
    bound = [rule["resourceNames"] for rule in rules if "bind" in rule["verbs"]]
    assert bound == [[each.name for each in fixed_roles()]]
