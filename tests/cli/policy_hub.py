"""A hub in another process with policies on it: plans are acted on step by step, agents say what a test wants."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any, TypeVar

from click.testing import CliRunner
from tests.controllers.hub import INDEX_LABEL, NAME_LABEL, PLACEMENT_LABEL
from tests.controllers.policy_world import before_verdict, template
from tests.hub.conftest import HubProcess

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.policy import GROUP, POLICY
from echelon.api.policy_binding import PLACEMENT_BINDING
from echelon.api.times import format_time
from echelon.cli import main
from echelon.engine.plan import Emit
from echelon.engine.policy.plan import plan
from echelon.kube.act import Failed, act
from echelon.kube.client import Client, MergePatch
from echelon.kube.config import load
from echelon.kube.http import HttpClient
from echelon.rollouts.policy_reading import read_policy

T = TypeVar("T")
NAME = "audit"
KINDS = ("Placement", "PlacementDecision", "ManifestWorkReplicaSet", "ManifestWork", "ManagedCluster")
_numbers = count(1)


class Events:
    async def emit(self, event: Emit) -> None:
        del event


def connected(hub: HubProcess, do: Callable[[Client], Awaitable[T]]) -> T:
    async def run() -> T:
        async with HttpClient(load(hub.kubeconfig)) as client:
            return await do(client)

    return asyncio.run(run())


def echelon(hub: HubProcess, *arguments: str, code: int = 0) -> str:
    """Run a command against a hub, check its exit code, and return what it printed."""
    result = CliRunner().invoke(main, [*arguments, "--kubeconfig", str(hub.kubeconfig)])
    assert result.exit_code == code, result.output
    return result.output


async def furnish(client: Client) -> None:
    """Have the kinds that policies need."""
    for definition in registry.crds():
        spec = definition["spec"]
        if spec["group"] == GROUP or spec["names"]["kind"] in KINDS:
            await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)


class PolicyHub:
    """A policy in a namespace of its own, with clusters of its own, and the command line that looks at it."""

    def __init__(self, hub: HubProcess, *groups: Sequence[str], strategy: JSONObject | None, **spec: Any) -> None:
        self.hub = hub
        number = next(_numbers)
        self.namespace = f"policies-{number}"
        self.groups = [[f"{cluster}-{number}" for cluster in group] for group in groups]
        body = {"disabled": False, "remediationAction": "enforce", "policy-templates": [template()], **spec}
        self._spec = {**body, **({"rolloutStrategy": strategy} if strategy is not None else {})}
        self.run(self._upload)

    def run(self, do: Callable[[Client], Awaitable[T]]) -> T:
        return connected(self.hub, do)

    @property
    def clusters(self) -> list[str]:
        return [cluster for group in self.groups for cluster in group]

    def echelon(self, *arguments: str, code: int = 0, namespace: str = "") -> str:
        return echelon(self.hub, *arguments, "-n", namespace or self.namespace, code=code)

    def policy(self) -> JSONObject:
        return self.run(lambda client: client.get(POLICY.untyped(), NAME, self.namespace))

    def replica(self, cluster: str) -> JSONObject:
        return self.run(lambda client: client.get(POLICY.untyped(), f"{self.namespace}.{NAME}", cluster))

    def patch(self, body: JSONObject) -> None:
        self.run(lambda client: client.patch(POLICY.untyped(), NAME, MergePatch(body), self.namespace))

    def reconcile(self, times: int = 3) -> None:
        """Plan and act as a controller would, from what the command line reads."""

        async def once(client: Client) -> None:
            now = datetime.now(UTC)
            reading = await read_policy(client, await client.get(POLICY.untyped(), NAME, self.namespace), now)
            async for outcome in act(plan(reading.view, now), client, Events(), manager="test"):
                assert not isinstance(outcome, Failed), outcome

        for _ in range(times):
            self.run(once)

    def report(
        self, *clusters: str, compliant: str = "Compliant", message: str = "", changes: Sequence[JSONObject] = ()
    ) -> None:
        """Have agents report on what their replicas are now."""

        async def reported(client: Client) -> None:
            for cluster in clusters:
                name = f"{self.namespace}.{NAME}"
                replica = await client.get(POLICY, name, cluster)
                now = format_time(datetime.now(UTC))
                said = message or f"{compliant}; it is so"
                history = [{"lastTimestamp": now, "message": said, "eventName": f"{name}.{next(_numbers):x}"}]
                details = [
                    {
                        "templateMeta": {"name": each.object_definition["metadata"]["name"]},
                        "compliant": compliant,
                        "history": history,
                        "pendingChanges": list(changes),
                    }
                    for each in replica.spec.policy_templates
                ]
                generation = replica.metadata.generation
                status: JSONObject = {"compliant": compliant, "observedGeneration": generation, "details": details}
                if verdict := before_verdict(replica, compliant):
                    status |= {"rolloutStatus": verdict, "rolloutLastTransitionTime": now}
                body = MergePatch({"status": status})
                await client.patch(POLICY.untyped(), name, body, cluster, subresource="status")

        self.run(reported)

    def finish(self) -> None:
        """Have everybody succeed, one after the other."""
        for _ in range(len(self.clusters) + 1):
            self.reconcile()
            self.report(*self.clusters)
        self.reconcile()

    async def _upload(self, client: Client) -> None:
        async def create(kind: Kind[Any], name: str, namespace: str = "", **body: Any) -> None:
            status = body.pop("status", None)
            wire = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
            wire["metadata"] = {"name": name, **body.get("metadata", {})}
            await client.create(kind.untyped(), wire, namespace)
            if status:
                patch = MergePatch({"status": status})
                await client.patch(kind.untyped(), name, patch, namespace, subresource="status")

        for each in (self.namespace, *self.clusters):
            await create(NAMESPACE, each)
        for each in self.clusters:
            await create(MANAGED_CLUSTER, each, spec={"hubAcceptsClient": True})
        titles = ["canary" if len(self.groups) > 1 and not index else "" for index in range(len(self.groups))]
        listed = [
            {"decisionGroupIndex": i, "decisionGroupName": titles[i], "decisions": [f"p-{i}"], "clusterCount": len(g)}
            for i, g in enumerate(self.groups)
        ]
        status = {"numberOfSelectedClusters": len(self.clusters), "decisionGroups": listed}
        await create(PLACEMENT, "p", self.namespace, spec={}, status=status)
        for index, clusters in enumerate(self.groups):
            labels = {PLACEMENT_LABEL: "p", INDEX_LABEL: str(index), NAME_LABEL: titles[index]}
            decided = {"decisions": [{"clusterName": each, "reason": ""} for each in clusters]}
            await create(PLACEMENT_DECISION, f"p-{index}", self.namespace, metadata={"labels": labels}, status=decided)
        await create(POLICY, NAME, self.namespace, spec=self._spec)
        ref = {"apiGroup": PLACEMENT.group, "kind": PLACEMENT.kind, "name": "p"}
        subjects = [{"apiGroup": GROUP, "kind": "Policy", "name": NAME}]
        await create(PLACEMENT_BINDING, "b", self.namespace, placementRef=ref, subjects=subjects)
