"""The agent as a process, with an agent's rights, on a real kube-apiserver that is both its hub and its cluster."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from echelon.agent.settings import hub_hash
from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP as CLUSTER_GROUP
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.coordination import LEASE
from echelon.api.core import CONFIG_MAP, SECRET, SERVICE
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import ROLE, ROLE_BINDING
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK, ManifestWork
from echelon.api.work import GROUP as WORK_GROUP
from echelon.controllers.cluster.belongings import agent_group
from echelon.kube.client import ApplyPatch, MergePatch
from echelon.kube.config import load
from echelon.kube.errors import AlreadyExists, Conflict, NotFound
from echelon.kube.http import HttpClient
from tests.agent.test_lifecycle import GUEST, guest, guests
from tests.agent.world import condition, config_map, deployment, target
from tests.controllers.test_registration import border
from tests.environment import Access

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 90.0


@dataclass(frozen=True)
class Place:
    """The plane, and the names that are ours there."""

    access: Access
    cluster: str
    apps: str
    hub_hash: str  # of its own: on one plane, agents of several processes would take each other's records for theirs

    def tell(self, story: Callable[["Real"], Awaitable[None]]) -> None:
        async def main() -> None:
            async with HttpClient(load(self.access.kubeconfig)) as client:
                await story(Real(client, self))

        asyncio.run(main())


@dataclass(frozen=True)
class Real:
    """What a story is told with."""

    client: HttpClient
    place: Place

    async def create(self, kind: Kind[Any], name: str, namespace: str = "", **body: Any) -> None:
        metadata = {"name": name, **body.pop("metadata", {})}
        wire = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}
        await self.client.create(kind.untyped(), wire, namespace)

    async def work(self, name: str, *manifests: JSONObject, **spec: Any) -> ManifestWork:
        """Create a work or give it another spec, and wait until the agent has spoken about it."""
        placed = [_in(self.place.apps, each) for each in manifests]
        body = {"workload": {"manifests": placed}, **spec}
        try:
            await self.create(MANIFEST_WORK, name, self.place.cluster, spec=body)
        except AlreadyExists:
            await self.client.patch(MANIFEST_WORK, name, MergePatch({"spec": body}), self.place.cluster)

        async def spoken() -> bool:
            return _spoken(await self.seen(name))

        await self.until(spoken)
        return await self.seen(name)

    async def seen(self, name: str) -> ManifestWork:
        return await self.client.get(MANIFEST_WORK, name, self.place.cluster)

    async def get(self, kind: Kind[Any], name: str) -> JSONObject:
        return await self.client.get(kind.untyped(), name, self.place.apps if kind.namespaced else "")

    async def has(self, kind: Kind[Any], name: str, namespace: str | None = None) -> bool:
        inside = (self.place.apps if namespace is None else namespace) if kind.namespaced else ""
        try:
            await self.client.get(kind.untyped(), name, inside)
        except NotFound:
            return False
        return True

    async def until(self, asked: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with suppress(NotFound):
                if await asked():
                    return
            assert time.monotonic() < deadline, "it did not happen"
            await asyncio.sleep(0.05)

    async def applied(self, name: str, *wanted: str) -> None:
        """Wait until the manifests have been applied, or not, as wanted."""

        async def so() -> bool:
            work = await self.seen(name)
            found = [condition(each.conditions, "Applied").status for each in work.status.resource_status.manifests]
            return _spoken(work) and found == list(wanted)

        await self.until(so)

    async def end(self, name: str) -> None:
        await self.client.delete(MANIFEST_WORK, name, self.place.cluster)

        async def gone() -> bool:
            return not await self.has(MANIFEST_WORK, name, self.place.cluster)

        await self.until(gone)


def _spoken(work: ManifestWork) -> bool:
    said = {each.type: each.observed_generation for each in work.status.conditions}
    return said.get("Applied") == said.get("Available") == work.metadata.generation


def _in(namespace: str, manifest: JSONObject) -> JSONObject:
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "namespace": namespace} if "namespace" in metadata else metadata}


async def prepare(place: Place) -> None:
    async with HttpClient(load(place.access.kubeconfig)) as client:
        for definition in registry.crds():
            if definition["spec"]["group"] in (CLUSTER_GROUP, WORK_GROUP):
                with suppress(AlreadyExists):
                    await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        real = Real(client, place)
        await real.create(NAMESPACE, place.apps)

        async def served() -> bool:
            kinds: tuple[Kind[Any], ...] = (MANAGED_CLUSTER, MANIFEST_WORK, APPLIED_MANIFEST_WORK)
            for kind in kinds:
                await client.list(kind, limit=1)
            return True

        await real.until(served)
        await real.create(MANAGED_CLUSTER, place.cluster, spec={"hubAcceptsClient": True})


async def joined(real: Real) -> None:
    async def so() -> bool:
        cluster = await real.client.get(MANAGED_CLUSTER, real.place.cluster)
        said = {each.type for each in cluster.status.conditions if each.status == "True"}
        return {"HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable"} <= said

    await real.until(so)


@pytest.fixture(scope="module")
def place(control_plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An agent and the controller that lets it in, until the last test of this module is over."""
    unique = f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}"
    made = Place(control_plane, f"member-{unique}", f"apps-{unique}", hub_hash(unique))
    asyncio.run(prepare(made))
    logs = tmp_path_factory.mktemp("agent")
    agent = control_plane.kubeconfig_for(f"agent:{unique}", [agent_group(made.cluster)])
    commands = {
        "controllers": ["run", "--kubeconfig", control_plane.kubeconfig, "--no-leader-elect", "--controllers"],
        "agent": ["agent", "--cluster", made.cluster, "--hub-kubeconfig", agent],
    }
    commands["controllers"] += ["cluster-registration"]
    commands["agent"] += ["--kubeconfig", control_plane.kubeconfig, "--hub-hash", made.hub_hash]
    with ExitStack() as stack:
        for name, arguments in commands.items():
            log = stack.enter_context((logs / f"{name}.log").open("wb"))
            command = [sys.executable, "-m", "echelon", *map(str, arguments)]
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        made.tell(joined)
        yield made


def test_the_agent_registers_with_the_rights_that_it_is_given(place: Place) -> None:
    async def story(real: Real) -> None:
        cluster = await real.client.get(MANAGED_CLUSTER, place.cluster)
        assert cluster.status.version.kubernetes.startswith("v1.")
        assert {each.name for each in cluster.status.cluster_claims} >= {"id.k8s.io"}
        assert await real.has(LEASE, "managed-cluster-lease", place.cluster)

    place.tell(story)


def test_a_config_map_is_applied_and_goes_with_its_work(place: Place) -> None:
    async def story(real: Real) -> None:
        work = await real.work("one", config_map("one"))
        assert [condition(work.status.conditions, each).status for each in ("Applied", "Available")] == ["True", "True"]
        live = await real.get(CONFIG_MAP, "one")
        assert {each["manager"] for each in live["metadata"]["managedFields"]} == {"work-agent"}
        record = f"{place.hub_hash}-one"
        assert live["metadata"]["ownerReferences"][0]["name"] == record
        await real.end("one")
        assert not await real.has(CONFIG_MAP, "one")
        assert not await real.has(APPLIED_MANIFEST_WORK, record)

    place.tell(story)


def test_a_definition_and_its_object_come_in_one_work(place: Place) -> None:
    async def story(real: Real) -> None:
        await real.work("guests", guest(), guests())
        await real.applied("guests", "True", "True")
        note = {"annotations": {"by": "spoke"}, "finalizers": ["example.io/hold"]}
        await real.client.patch(GUEST, "ann", MergePatch({"metadata": note}), place.apps)
        await real.work("guests", guest(room=2), guests())
        live = await real.get(GUEST, "ann")
        assert live["spec"] == {"room": 2}
        assert live["metadata"]["annotations"] == {"by": "spoke", "from": "hub"}
        assert live["metadata"]["finalizers"] == ["example.io/hold"]
        await real.client.patch(GUEST, "ann", MergePatch({"metadata": {"finalizers": None}}), place.apps)
        await real.end("guests")
        assert not await real.has(CUSTOM_RESOURCE_DEFINITION, "guests.example.io")

    place.tell(story)


def test_an_update_removes_what_was_dropped_and_leaves_the_rest_as_it_is(place: Place) -> None:
    async def story(real: Real) -> None:
        def account(name: str) -> JSONObject:
            return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "x"}}

        rbac = "rbac.authorization.k8s.io"
        meta = {"name": "reads", "namespace": "x"}
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
        role = {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": [rule]}
        subjects = [{"kind": "ServiceAccount", "name": "sa", "namespace": place.apps}]
        ref = {"apiGroup": rbac, "kind": "Role", "name": "reads"}
        binding = {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "subjects": subjects,
            "roleRef": ref,
        }
        await real.work("several", account("sa"), role, binding, deployment())
        await real.applied("several", "True", "True", "True", "True")
        before = await real.get(DEPLOYMENT, "web")
        await real.work("several", account("admin"), role, binding, deployment())
        await real.applied("several", "True", "True", "True", "True")
        assert not await real.has(SERVICE_ACCOUNT, "sa")
        record = await real.client.get(APPLIED_MANIFEST_WORK, f"{place.hub_hash}-several")
        assert [each.resource for each in record.status.applied_resources] == [
            "serviceaccounts",
            "deployments",
            "rolebindings",
            "roles",
        ]
        after = await real.get(DEPLOYMENT, "web")
        assert after["metadata"]["generation"] == before["metadata"]["generation"] == 1
        told = [
            {one.type for one in each.conditions}
            for each in (await real.seen("several")).status.resource_status.manifests
        ]
        *others, last = [each - {"Applied", "Available", "StatusFeedbackSynced"} for each in told]
        assert others == [set()] * 3
        assert last == {"Progressing"}, "nobody runs the pods of the Deployment"
        assert await real.has(ROLE, "reads")
        assert await real.has(ROLE_BINDING, "reads")
        await real.end("several")

    place.tell(story)


def test_server_side_apply_meets_another_manager(place: Place) -> None:
    async def story(real: Real) -> None:
        config = {
            "resourceIdentifier": target("deployments", "shared", "apps", place.apps),
            "updateStrategy": {"type": "ServerSideApply"},
        }
        await real.work("shared", deployment("shared", replicas=1), manifestConfigs=[config])
        await real.work("shared", deployment("shared", replicas=2), manifestConfigs=[config])
        assert (await real.get(DEPLOYMENT, "shared"))["spec"]["replicas"] == 2
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}}
        with suppress(Conflict):
            await real.client.patch(DEPLOYMENT.untyped(), "shared", ApplyPatch(body, "other", force=True), place.apps)
        await real.work("shared", deployment("shared", replicas=3), manifestConfigs=[config])
        await real.applied("shared", "False")
        without = deployment("shared")
        del without["spec"]["replicas"]
        await real.work("shared", without, manifestConfigs=[config])
        await real.applied("shared", "True")
        assert (await real.get(DEPLOYMENT, "shared"))["spec"]["replicas"] == 5
        await real.end("shared")

    place.tell(story)


def test_a_work_does_what_its_executor_may_do(place: Place) -> None:
    async def story(real: Real) -> None:
        account = {"namespace": place.apps, "name": "runner"}
        executor = {"subject": {"type": "ServiceAccount", "serviceAccount": account}}
        verbs = ["create", "update", "patch", "get", "delete"]
        rules = [
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": verbs},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": verbs},
        ]
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "runner"}
        await real.create(ROLE, "runner", place.apps, rules=rules)
        await real.create(
            ROLE_BINDING, "runner", place.apps, subjects=[{"kind": "ServiceAccount", **account}], roleRef=ref
        )
        escalating = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "more", "namespace": "x"},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
        }
        await real.work("executed", config_map("mine"), config_map("others"), escalating, executor=executor)
        await real.applied("executed", "True", "False", "False")
        assert await real.has(CONFIG_MAP, "mine")
        assert not await real.has(CONFIG_MAP, "others")
        assert not await real.has(ROLE, "more")
        said = [each.conditions[0].message for each in (await real.seen("executed")).status.resource_status.manifests]
        assert said[1].endswith("will try again in 1m0s")
        assert "escalation" in said[2]
        await real.end("executed")

    place.tell(story)


def test_the_rights_of_an_agent_end_at_the_border_of_its_namespace(place: Place) -> None:
    async def story(real: Real) -> None:
        mine, theirs = f"{place.cluster}-a", f"{place.cluster}-b"
        for name in (mine, theirs):
            await real.create(MANAGED_CLUSTER, name, spec={"hubAcceptsClient": True})
        inside = "open-cluster-management:{}:agent"

        async def let_in() -> bool:
            return all([await real.has(ROLE_BINDING, inside.format(name), name) for name in (mine, theirs)])

        await real.until(let_in)
        for name in (mine, theirs):
            await real.create(MANIFEST_WORK, "w", name, spec={"workload": {"manifests": [config_map("x")]}})
        kubeconfig = place.access.kubeconfig_for(f"agent:{mine}", [agent_group(mine)])
        async with HttpClient(load(kubeconfig)) as agent:

            async def known() -> bool:
                cluster = await real.client.get(MANAGED_CLUSTER, mine)
                return any(each.type == "HubAcceptedManagedCluster" for each in cluster.status.conditions)

            await real.until(known)
            await border(agent, mine, theirs)

    place.tell(story)


def many_kinds() -> list[JSONObject]:
    """Manifests in which a server fills in a lot."""
    meta = {"name": "many", "namespace": "x"}
    pods = deployment("many")["spec"]["template"]
    selector = {"matchLabels": {"app": "many"}}
    once = {"template": {"spec": {**pods["spec"], "restartPolicy": "Never"}}}
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    said: dict[tuple[str, str], JSONObject] = {
        ("v1", "Service"): {"spec": {"type": "NodePort", "selector": {"app": "many"}, "ports": ports}},
        ("v1", "Secret"): {"stringData": {"password": "hunter2"}},
        ("v1", "ServiceAccount"): {},
        ("apps/v1", "StatefulSet"): {"spec": {"serviceName": "many", "selector": selector, "template": pods}},
        ("apps/v1", "DaemonSet"): {"spec": {"selector": selector, "template": pods}},
        ("batch/v1", "Job"): {"spec": once},
        ("batch/v1", "CronJob"): {"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": once}}},
        ("autoscaling/v2", "HorizontalPodAutoscaler"): {
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "many"},
                "maxReplicas": 3,
            }
        },
        ("policy/v1", "PodDisruptionBudget"): {"spec": {"selector": selector, "maxUnavailable": "50%"}},
        ("networking.k8s.io/v1", "NetworkPolicy"): {"spec": {"podSelector": selector, "ingress": [{}]}},
        ("networking.k8s.io/v1", "Ingress"): {
            "spec": {"defaultBackend": {"service": {"name": "many", "port": {"name": "http"}}}}
        },
    }
    return [{"apiVersion": version, "kind": kind, "metadata": meta, **body} for (version, kind), body in said.items()]


@pytest.mark.parametrize("strategy", ["Update", "ServerSideApply"])
def test_what_a_server_makes_of_manifests_is_no_drift_and_what_people_make_is(place: Place, strategy: str) -> None:
    async def story(real: Real) -> None:
        manifests = [*many_kinds(), deployment("scaled", replicas=3)]
        update = {"type": strategy, **({} if strategy == "Update" else {"serverSideApply": {"force": True}})}
        first = await real.work("drift", *manifests)
        metas = [each.resource_meta for each in first.status.resource_status.manifests]
        chosen = [
            {"resourceIdentifier": target(each.resource, "*", each.group, "*"), "updateStrategy": update}
            for each in metas
        ]
        work = await real.work("drift", *manifests, manifestConfigs=chosen)
        await real.applied("drift", *["True"] * len(manifests))
        note = {"metadata": {"annotations": {"echelon.dev/retried-at": "now"}}}
        await real.client.patch(MANIFEST_WORK, "drift", MergePatch(note), place.cluster)
        for kind, name, change in (
            (DEPLOYMENT, "scaled", {"spec": {"replicas": 1}}),
            (SECRET, "many", {"data": {"password": "c3BhbQ=="}}),
        ):
            await real.client.patch(kind.untyped(), name, MergePatch(change), place.apps)
        await real.client.delete(SERVICE, "many", place.apps)

        async def told() -> bool:
            seen = (await real.seen("drift")).status.resource_status.manifests
            drifted = {each.resource_meta.kind for each in seen for said in each.conditions if said.type == "Drifted"}
            assert drifted <= {"Deployment", "Secret", "Service"}
            return len(drifted) == 3

        await real.until(told)
        assert (await real.get(DEPLOYMENT, "scaled"))["spec"]["replicas"] == 3
        assert (await real.get(SECRET, "many"))["data"] == {"password": "aHVudGVyMg=="}
        assert await real.has(SERVICE, "many")
        assert (await real.seen("drift")).metadata.generation == work.metadata.generation
        await real.end("drift")

    place.tell(story)
