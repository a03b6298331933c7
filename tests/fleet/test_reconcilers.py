"""Planning twice gives equal plans, whoever plans: a small fleet in which every reconciler that there is has work."""

import asyncio
import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from datetime import datetime
from random import Random
from types import ModuleType
from typing import Any

import pytest

import echelon.agent
import echelon.controllers
from echelon.agent.settings import hub_hash
from echelon.api import (
    configuration_policy,
    grove,
    karmada,
    multicluster,
    placement_rule,
    policy,
    policy_binding,
    propagation,
    registry,
    rollout_ledger,
)
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.apps import DEPLOYMENT
from echelon.api.certificates import CERTIFICATE_SIGNING_REQUEST
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.keys import Key
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK
from echelon.controllers.running import MULTICLUSTER, NAMES, POD_CLIQUES, POLICY_NAMES, WORKLOAD_NAMES, Controllers
from echelon.engine.plan import NOTHING, Plan
from echelon.fleet.local import agent_user, register
from echelon.fleet.loop import run, running
from echelon.fleet.member.fleet import Fleet
from echelon.hub.access.identity import MASTERS, User
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import MergePatch
from echelon.kube.metrics import Metrics
from echelon.kube.reconciler import Reconciler
from tests.agent.world import config_map, target
from tests.controllers.policy_world import template
from tests.controllers.strict import STRICT, end
from tests.fleet.test_leaving import NS, agent, create, furnish
from tests.fleet.workload_fleet import workload_spec
from tests.hub.controllers.test_certificates import request

HUB_HASH = hub_hash("https://hub.example")
ORPHAN = {"hubHash": HUB_HASH, "agentID": HUB_HASH, "manifestWorkName": "missing"}
COMPLETE = {"condition": "Complete", "type": "CEL", "celExpressions": ["true"]}
EXPIRING = {
    "workload": {"manifests": [config_map("one")]},
    "manifestConfigs": [{"resourceIdentifier": target("configmaps", "*"), "conditionRules": [COMPLETE]}],
    "deleteOption": {"ttlSecondsAfterFinished": 60},
}
POLICY_KINDS = (*policy.KINDS, *policy_binding.KINDS, *configuration_policy.KINDS, *placement_rule.KINDS)
WORKLOAD_KINDS = (*karmada.KINDS, *propagation.KINDS, *rollout_ledger.KINDS)
ASKED = list(inspect.signature(Reconciler.plan).parameters)


def reconcilers(*packages: ModuleType) -> Iterator[type[Any]]:
    """Return every class that is asked as a reconciler is."""
    for package in packages:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            for each in vars(module).values():
                if isinstance(each, type) and each.__module__ == found.name and _is_reconciler(each):
                    yield each


def _is_reconciler(kind: type[Any]) -> bool:
    plan = vars(kind).get("plan")
    return plan is not None and list(inspect.signature(plan).parameters) == ASKED


def remembered(reconciler: object) -> dict[str, Any]:
    """Return what a reconciler itself has noted; what only saves work changes no plan."""
    saves_work = {"_settled", "_read"}
    return {
        name: copy(value)
        for name, value in vars(reconciler).items()
        if isinstance(value, dict | set | list) and name not in saves_work
    }


@contextmanager
def counted(kinds: list[type[Any]]) -> Iterator[Counter[tuple[str, Key, datetime]]]:
    """Count the plans of reconcilers that say anything, by what was asked; see that none remembers having planned."""
    plans: Counter[tuple[str, Key, datetime]] = Counter()
    traces: set[str] = set()

    def counting(name: str, plan: Callable[[Any, Key, datetime], Plan]) -> Callable[[Any, Key, datetime], Plan]:
        def planned(self: Any, key: Key, now: datetime) -> Plan:
            before = remembered(self)
            made = plan(self, key, now)
            if remembered(self) != before:
                traces.add(f"{name} remembers that it has planned {key}")
            plans[name, key, now] += made != NOTHING
            return made

        return planned

    with pytest.MonkeyPatch.context() as patch:
        for kind in kinds:
            patch.setattr(kind, "plan", counting(kind.__name__, kind.plan))
        yield plans
    assert not traces


async def have_a_policy(client: InProcessClient) -> None:
    """Bind a policy, in a set of policies, to the placement of all clusters."""
    spec = {"disabled": False, "remediationAction": "enforce", "policy-templates": [template()]}
    await create(client, policy.POLICY, "audit", spec, NS)
    await create(client, policy_binding.POLICY_SET, "audits", {"policies": ["audit"]}, NS)
    subjects = [{"apiGroup": policy.GROUP, "kind": "PolicySet", "name": "audits"}]
    ref = {"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": "p"}
    kind = policy_binding.PLACEMENT_BINDING
    body = {**kind.type_meta, "metadata": {"name": "audits"}, "placementRef": ref, "subjects": subjects}
    await client.create(kind.untyped(), body, NS)


async def have_a_workload(client: InProcessClient) -> None:
    """Propagate a Deployment to all clusters."""
    affinity: dict[str, Any] = {"placement": {"clusterAffinity": {"labelSelector": {}}}}
    selected = {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo"}]}
    await create(client, propagation.PROPAGATION_POLICY, "demo", {**affinity, **selected}, NS)
    await create(client, DEPLOYMENT, "demo", workload_spec("Deployment", "nginx:v1", 2, 1, 0), NS)


async def have_a_set_of_cliques(client: InProcessClient) -> None:
    """Have two pods, which nobody starts here."""
    pods = {"containers": [{"name": "main", "image": "nginx:v1"}]}
    clique = {"name": "web", "spec": {"roleName": "web", "replicas": 2, "podSpec": pods}}
    await create(client, grove.POD_CLIQUE_SET, "demo", {"replicas": 1, "template": {"cliques": [clique]}}, NS)


async def ask_for_a_certificate(hub: LogicalCluster) -> None:
    """Have a cluster ask for a certificate of another, which it does not get."""
    name = "system:open-cluster-management:eu-1"
    cluster = InProcessClient(
        hub, User(f"{name}:agent", (name, f"{name.rpartition(':')[0]}:managed-clusters", MASTERS))
    )
    await cluster.create(CERTIFICATE_SIGNING_REQUEST.untyped(), request("of-another"))


def test_every_plan_of_every_reconciler_is_made_twice_and_is_the_same() -> None:
    async def main() -> None:
        logical = memory_cluster(clock=running().clock.now, seed=1)
        await bootstrap(logical)
        client = InProcessClient(logical, ROOT)
        await furnish(client)
        for definition in registry.collect((*multicluster.KINDS, *POLICY_KINDS, *WORKLOAD_KINDS, *grove.KINDS)).crds():
            await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        await have_a_policy(client)
        await have_a_workload(client)
        await have_a_set_of_cliques(client)
        await ask_for_a_certificate(logical)
        fleet = await Fleet.build("2 clusters; nodes 1", clock=running().clock.now)
        await fleet.start()
        controllers = Controllers(
            client,
            running().clock,
            (*NAMES, *POLICY_NAMES, *WORKLOAD_NAMES, MULTICLUSTER, POD_CLIQUES),
            random=Random(1),  # noqa: S311 - repeatable on purpose
            metrics=Metrics(),
            instance="test",
            settings=STRICT,
        )
        tasks = [asyncio.create_task(run_controllers(logical)), asyncio.create_task(controllers.run())]
        for member in fleet.members.values():
            await register(client, member)
            hub = InProcessClient(logical, agent_user(member.name))
            tasks.append(asyncio.create_task(agent(hub, member).run()))
        await asyncio.sleep(120)
        first, second = fleet.members
        await create(client, MANIFEST_WORK, "expiring", EXPIRING, first)
        await create(fleet.members[first].client(), APPLIED_MANIFEST_WORK, "orphan", ORPHAN)
        labels = MergePatch({"metadata": {"labels": {"changed": "true"}}})
        await client.patch(MANAGED_CLUSTER.untyped(), second, labels)
        await asyncio.sleep(600)
        await client.delete(MANAGED_CLUSTER, second)
        await asyncio.sleep(120)
        assert controllers.idle
        await end(*tasks)
        await fleet.stop()

    kinds = list(reconcilers(echelon.controllers, echelon.agent))
    with counted(kinds) as plans:
        run(main())
    assert {name for (name, _, _), times in plans.items() if times} == {kind.__name__ for kind in kinds}
    assert not [asked for asked, times in plans.items() if times % 2]
