"""A hub with policies on it: decisions that a test writes as it likes, and agents that report what it tells them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.controller_revisions import CONTROLLER_REVISION, ControllerRevision
from echelon.api.events import EVENT
from echelon.api.meta import Condition
from echelon.api.placement_rule import PLACEMENT_RULE
from echelon.api.policy import GROUP, POLICY, Policy
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET
from echelon.controllers.settings import ControllerSettings
from echelon.engine.policy.names import HELD_ANNOTATION, POLICY_LABEL
from echelon.fleet.loop import run
from echelon.kube.errors import AlreadyExists
from tests.controllers import hub as hubs
from tests.controllers.hub import NS, Hub, now
from tests.controllers.work_world import TRUSTING, Groups, WorkWorld

CRDS = [each for each in registry.crds() if each["spec"]["group"] in (GROUP, PLACEMENT_RULE.group)]


def template(version: str = "1", name: str = "demo", **spec: Any) -> JSONObject:
    """Return a template that wants a config map with a version."""
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"version": version},
    }
    definition = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ConfigurationPolicy",
        "metadata": {"name": name},
        "spec": {"object-templates": [{"complianceType": "musthave", "objectDefinition": wanted}], **spec},
    }
    return {"objectDefinition": definition}


@dataclass
class PolicyWorld:
    """What a story about policies is told with."""

    hub: Hub

    @property
    def placing(self) -> WorkWorld:
        """What writes decisions."""
        return WorkWorld(self.hub)

    def start(self) -> asyncio.Task[None]:
        return self.hub.start("policies")

    async def restart(self) -> None:
        await self.hub.stop()
        self.hub.controllers.clear()
        self.start()

    async def settle(self, seconds: float = 5.0) -> None:
        await self.hub.settle(seconds)

    async def place(self, groups: Groups, name: str = "p") -> None:
        await self.join(cluster for _, clusters in groups for cluster in clusters)
        await self.placing.place(groups, name)

    async def decide(self, groups: Groups, name: str = "p") -> None:
        await self.join(cluster for _, clusters in groups for cluster in clusters)
        await self.placing.decide(groups, name)

    async def rule(self, *clusters: str, name: str = "p") -> None:
        """Have a placement rule that has decided on clusters."""
        await self.join(clusters)
        status = {"decisions": [{"clusterName": each, "clusterNamespace": each} for each in clusters]}
        try:
            await self.hub.create(PLACEMENT_RULE, name, NS, spec={}, status=status)
        except AlreadyExists:
            await self.hub.patch(PLACEMENT_RULE, name, {"status": status}, NS, "status")

    async def join(self, clusters: Iterable[str]) -> None:
        """Have clusters, with their namespaces."""
        for cluster in dict.fromkeys(clusters):
            try:
                await self.hub.create(MANAGED_CLUSTER, cluster, spec={"hubAcceptsClient": True})
                await self.placing.cluster(cluster)
            except AlreadyExists:
                continue

    async def write(self, name: str = "audit", strategy: JSONObject | None = None, **fields: Any) -> None:
        """Make a policy that enforces, unless something else is said; what is None is left out."""
        spec = {
            "disabled": False,
            "remediationAction": "enforce",
            "policy-templates": [template()],
            **({"rolloutStrategy": strategy} if strategy else {}),
            **fields.pop("spec", {}),
        }
        spec = {key: value for key, value in spec.items() if value is not None}
        await self.hub.create(POLICY, name, NS, spec=spec, **fields)

    async def bind(self, *policies: str, placement: str = "p", name: str = "b", **fields: Any) -> None:
        kind = fields.pop("kind", "Placement")
        group = "cluster.open-cluster-management.io" if kind == "Placement" else PLACEMENT_RULE.group
        subjects = [{"apiGroup": GROUP, "kind": "Policy", "name": each} for each in policies or ("audit",)]
        subjects += [{"apiGroup": GROUP, "kind": "PolicySet", "name": each} for each in fields.pop("sets", ())]
        ref = {"apiGroup": group, "kind": kind, "name": placement}
        await self.hub.create(
            PLACEMENT_BINDING, name, NS, placementRef=ref, subjects=fields.pop("subjects", subjects), **fields
        )

    async def rebind(self, name: str = "b", **fields: Any) -> None:
        """Change a binding; a placement by its name."""
        if (placement := fields.pop("placement", None)) is not None:
            fields["placementRef"] = {"name": placement}
        await self.hub.patch(PLACEMENT_BINDING, name, fields, NS)

    async def unbind(self, name: str = "b") -> None:
        await self.hub.delete(PLACEMENT_BINDING, name, NS)

    async def policy_set(self, name: str, *policies: str, **spec: Any) -> None:
        await self.hub.create(POLICY_SET, name, NS, spec={"policies": list(policies), **spec})

    async def change(self, name: str = "audit", **spec: Any) -> None:
        await self.hub.patch(POLICY, name, {"spec": spec}, NS)

    async def upgrade(self, version: str, name: str = "audit") -> None:
        await self.change(name, **{"policy-templates": [template(version)]})

    async def annotate(self, annotations: dict[str, str | None], name: str = "audit") -> None:
        await self.hub.patch(POLICY, name, {"metadata": {"annotations": annotations}}, NS)

    async def policy(self, name: str = "audit") -> Policy:
        return await self.hub.client.get(POLICY, name, NS)

    async def replicas(self, name: str = "audit") -> dict[str, Policy]:
        """Return the replicas of a policy, by cluster."""
        listed = (await self.hub.client.list(POLICY)).items
        return {each.metadata.namespace: each for each in listed if each.metadata.name == f"{NS}.{name}"}

    async def replica(self, cluster: str, name: str = "audit") -> Policy:
        return await self.hub.client.get(POLICY, f"{NS}.{name}", cluster)

    async def reach(self, name: str = "audit") -> list[str]:
        """Return the clusters that have a replica."""
        return sorted(await self.replicas(name))

    async def enforced(self, name: str = "audit") -> list[str]:
        """Return the clusters whose replica enforces."""
        found = await self.replicas(name)
        return sorted(c for c, each in found.items() if each.spec.remediation_action.lower() == "enforce")

    async def stored(self, name: str = "audit") -> dict[str, str]:
        """Return the rollout status that each replica carries."""
        return {cluster: each.status.rollout_status for cluster, each in (await self.replicas(name)).items()}

    async def told(self, name: str = "audit") -> dict[str, str]:
        """Return where each cluster stands, as the policy's own status says."""
        return {each.clustername: each.rollout_status for each in (await self.policy(name)).status.status}

    async def report(self, *clusters: str, compliant: str = "Compliant", name: str = "audit") -> None:
        """Have agents report on what their replicas are now, as agents of Echelon do."""
        for cluster in clusters:
            replica = await self.replica(cluster, name)
            before, verdict = replica.status.rollout_status, before_verdict(replica, compliant)
            status: JSONObject = {
                "compliant": compliant,
                "observedGeneration": replica.metadata.generation,
                "details": [details(replica, compliant)],
            }
            if verdict and verdict != before:
                moment = now().strftime("%Y-%m-%dT%H:%M:%SZ")
                status |= {"rolloutStatus": verdict, "rolloutLastTransitionTime": moment}
            await self.hub.patch(POLICY, f"{NS}.{name}", {"status": status}, cluster, "status")

    async def finish(self, name: str = "audit") -> None:
        """Have all agents report compliance again and again until nobody is released any more."""
        for _ in range(30):
            await self.report(*(await self.replicas(name)), name=name)
            await self.settle()
            if (await self.policy(name)).status.rollout_status != "Progressing":
                return

    async def condition(self, kind: str, name: str = "audit") -> Condition:
        found = await self.policy(name)
        condition = next(each for each in found.status.conditions if each.type == kind)
        assert condition.observed_generation == found.metadata.generation
        return condition

    async def said(self, kind: str, name: str = "audit") -> tuple[str, str]:
        found = await self.condition(kind, name)
        return found.status, found.reason

    async def revisions(self, name: str = "audit") -> list[ControllerRevision]:
        page = await self.hub.client.list(CONTROLLER_REVISION, NS, labels=f"{POLICY_LABEL}={NS}.{name}")
        return sorted(page.items, key=lambda each: each.revision)

    async def verdict(self, name: str = "audit") -> str:
        """Return the one word for the whole rollout."""
        return (await self.policy(name)).status.rollout_status

    async def count(self, reason: str, text: str = "") -> int:
        """Return how often something was told, also where one event stands for several."""
        found = (await self.hub.client.list(EVENT.untyped(), NS)).items
        told = [each for each in found if each["reason"] == reason and text in each.get("note", "")]
        return sum((each.get("series") or {}).get("count", 1) for each in told)

    async def events(self) -> list[tuple[str, str]]:
        found = (await self.hub.client.list(EVENT.untyped(), NS)).items
        ordered = sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))
        return [(each["reason"], each.get("note", "")) for each in ordered]


def before_verdict(replica: Policy, compliant: str) -> str:
    """Return the verdict of an agent that has evaluated what the replica has now; empty if it has none to give."""
    standing = replica.status.rollout_status
    if standing in ("", "ToApply") or replica.metadata.annotations.get(HELD_ANNOTATION) == "true":
        return ""
    if compliant == "Compliant" or replica.spec.remediation_action.lower() == "inform":
        return "Succeeded"
    return "Failed" if compliant == "NonCompliant" and standing != "TimeOut" else ""


def details(replica: Policy, compliant: str) -> JSONObject:
    message = f"{compliant}; notification - it is so"
    event = f"{replica.metadata.name}.{int(now().timestamp() * 1e9):x}"
    name = replica.spec.policy_templates[0].object_definition["metadata"]["name"]
    history = [{"lastTimestamp": now().strftime("%Y-%m-%dT%H:%M:%SZ"), "message": message, "eventName": event}]
    return {"templateMeta": {"name": name}, "compliant": compliant, "history": history}


def told(
    story: Callable[[PolicyWorld], Awaitable[None]],
    seed: int = 0,
    *,
    crds: Iterable[JSONObject] = CRDS,
    settings: ControllerSettings = TRUSTING,
) -> None:
    """Run a story on a hub of its own, in virtual time, and see that there is silence after it."""

    async def main() -> None:
        async with hubs.hub() as here:
            here.settings = settings
            for definition in crds:
                await here.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
            world = PolicyWorld(here)
            await story(world)
            await world.settle()
            done = len(here.commits)
            await asyncio.sleep(900)
            assert here.commits[done:] == []
            for task in here.controllers:
                assert not task.done() or task.cancelled()

    run(main(), seed)
