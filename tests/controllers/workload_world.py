"""A hub with federated workloads on it: bindings that a test writes by hand, and agents whose members act late."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.apps import DEPLOYMENT, STATEFUL_SET
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.controller_revisions import CONTROLLER_REVISION, ControllerRevision
from echelon.api.events import EVENT
from echelon.api.karmada import RESOURCE_BINDING, WORK, ResourceBinding, Work
from echelon.api.kinds import Kind
from echelon.api.kruise import CLONE_SET
from echelon.api.meta import Condition
from echelon.api.namespaces import NAMESPACE
from echelon.api.rollout_ledger import ROLLOUT_LEDGER, ClusterGrant, RolloutLedger
from echelon.controllers.settings import ControllerSettings
from echelon.engine.workload.names import BINDING_LABEL, binding_name, cluster_of, execution_namespace
from echelon.fleet.loop import run
from echelon.kube.errors import AlreadyExists
from tests.controllers import hub as hubs
from tests.controllers.hub import NS, Hub
from tests.controllers.strict import end
from tests.controllers.work_world import TRUSTING, Groups, WorkWorld
from tests.controllers.workload_agents import Agent, Limits, grant_of
from tests.engine.align.members import Pace

GROUPS = ("work.karmada.io", "policy.karmada.io", "echelon.dev", "apps.kruise.io")
CRDS = [each for each in registry.crds() if each["spec"]["group"] in GROUPS]
KINDS: dict[str, Kind[Any]] = {"Deployment": DEPLOYMENT, "StatefulSet": STATEFUL_SET, "CloneSet": CLONE_SET}
STRATEGY_FIELD = {"Deployment": "strategy", "StatefulSet": "updateStrategy", "CloneSet": "updateStrategy"}


@dataclass
class WorkloadWorld:
    """What a story about federated workloads is told with."""

    hub: Hub
    kind: str = "Deployment"
    limits: Limits = field(default_factory=Limits)
    pace: Pace = field(default_factory=lambda: Pace(sync=0.01, start=(10.0, 10.0), end=0.01))
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the binding."""
        return binding_name("web", self.kind)

    @property
    def placing(self) -> WorkWorld:
        """What writes decisions."""
        return WorkWorld(self.hub)

    def start(self) -> asyncio.Task[None]:
        return self.hub.start("workloads")

    async def restart(self) -> None:
        await self.hub.stop()
        self.hub.controllers.clear()
        self.start()

    async def settle(self, seconds: float = 5.0) -> None:
        await self.hub.settle(seconds)

    async def join(self, *clusters: str) -> None:
        """Have clusters, with their namespaces and agents."""
        for cluster in clusters:
            try:
                await self.hub.create(MANAGED_CLUSTER, cluster, spec={"hubAcceptsClient": True})
                await self.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": execution_namespace(cluster)}})
            except AlreadyExists:
                continue
            agent = Agent(cluster, self.hub.client, self.limits, self.pace)
            self.limits.agents[cluster] = agent
            self.running[cluster] = asyncio.create_task(agent.run())

    async def template(
        self, replicas: int, version: str = "1", strategy: JSONObject | None = None, **fields: Any
    ) -> None:
        """Make the template."""
        labels = {"app": "web"}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": pod_template(version),
            **({STRATEGY_FIELD[self.kind]: strategy} if strategy is not None else {}),
            **({"serviceName": "web"} if self.kind == "StatefulSet" else {}),
            **fields.pop("spec", {}),
        }
        await self.hub.create(KINDS[self.kind], "web", NS, spec=spec, **fields)

    async def change(self, **spec: Any) -> None:
        """Change the spec of the template."""
        await self.hub.patch(KINDS[self.kind], "web", {"spec": spec}, NS)

    async def upgrade(self, version: str) -> None:
        await self.change(template=pod_template(version))

    async def bind(self, clusters: Mapping[str, int], **fields: Any) -> None:
        """Write a binding by hand."""
        kind = KINDS[self.kind]
        resource = {**kind.type_meta, "namespace": NS, "name": "web"}
        spec = {"resource": resource, "clusters": _targets(clusters), **fields.pop("spec", {})}
        await self.hub.create(RESOURCE_BINDING, self.name, NS, spec=spec, **fields)

    async def rebind(self, clusters: Mapping[str, int] | None = None, **spec: Any) -> None:
        if clusters is not None:
            spec["clusters"] = _targets(clusters)
        await self.hub.patch(RESOURCE_BINDING, self.name, {"spec": spec}, NS)

    async def annotate(self, annotations: Mapping[str, str | None]) -> None:
        await self.hub.patch(RESOURCE_BINDING, self.name, {"metadata": {"annotations": dict(annotations)}}, NS)

    async def binding(self) -> ResourceBinding:
        return await self.hub.client.get(RESOURCE_BINDING, self.name, NS)

    async def found(self) -> JSONObject:
        """Return the template as it is on the hub."""
        return await self.hub.client.get(KINDS[self.kind].untyped(), "web", NS)

    async def ledger(self) -> RolloutLedger:
        return await self.hub.client.get(ROLLOUT_LEDGER, self.name, NS)

    async def figures(self) -> dict[str, ClusterGrant]:
        return {each.name: each for each in (await self.ledger()).status.clusters}

    async def works(self) -> dict[str, Work]:
        listed = (await self.hub.client.list(WORK)).items
        return {cluster_of(each.metadata.namespace) or "": each for each in listed}

    async def sent(self) -> dict[str, str]:
        """Return what each work says, in the words of the tables: `u1 s0 p0`."""
        found = {}
        for cluster, work in sorted((await self.works()).items()):
            grant = grant_of(work.spec.workload.manifests[0])
            found[cluster] = f"r{grant.replicas} u{grant.unavailable} s{grant.surge} p{grant.partition}" + (
                " paused" if grant.paused else ""
            )
        return found

    def pods(self) -> dict[str, str]:
        """Return the pods of each cluster, in the words of the tables: `old available/there, new available/there`."""
        found = {}
        for cluster, agent in sorted(self.limits.agents.items()):
            if agent.member is None or agent.member.spec is None:
                continue
            new = agent.member.spec.revision
            counted = []
            for is_new in (False, True):
                pods = [each for each in agent.member.active if (each.revision == new) is is_new]
                counted.append(f"{sum(each.available for each in pods)}/{len(pods)}")
            found[cluster] = ", ".join(counted)
        return found

    async def condition(self, kind: str) -> Condition:
        found = await self.binding()
        return next(each for each in found.status.conditions if each.type == kind)

    async def said(self, kind: str) -> tuple[str, str]:
        found = await self.condition(kind)
        return found.status, found.reason

    async def is_complete(self) -> bool:
        generation = (await self.found())["metadata"]["generation"]
        observed = (await self.found()).get("status", {}).get("observedGeneration")
        return observed == generation and (await self.said("RolloutProgressing")) == ("False", "Complete")

    async def finish(self, seconds: float = 600.0) -> None:
        """Wait until a rollout is complete."""
        for _ in range(int(seconds / 2)):
            await self.settle(2)
            if await self.is_complete():
                return
        figures = {name: (each.wait, each.message) for name, each in (await self.figures()).items()}
        raise AssertionError(f"not complete: {figures}, {self.pods()}, {await self.conditions()}")

    async def conditions(self) -> dict[str, tuple[str, str, str]]:
        found = (await self.binding()).status.conditions
        return {each.type: (each.status, each.reason, each.message) for each in found}

    async def revisions(self) -> list[ControllerRevision]:
        page = await self.hub.client.list(CONTROLLER_REVISION, NS, labels=f"{BINDING_LABEL}={NS}.{self.name}")
        return sorted(page.items, key=lambda each: each.revision)

    async def place(self, groups: Groups) -> None:
        await self.join(*(cluster for _, clusters in groups for cluster in clusters))
        await self.placing.place(groups)

    async def events(self) -> list[tuple[str, str]]:
        found = (await self.hub.client.list(EVENT.untyped(), NS)).items
        ordered = sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))
        return [(each["reason"], each.get("note", "")) for each in ordered]

    def budgets(self, least: int, most: int) -> None:
        """From now on no available pod may be taken below this, and none made beyond that."""
        self.limits.least, self.limits.most = least, most


def pod_template(version: str) -> JSONObject:
    container = {"name": "web", "image": f"web:{version}"}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}


def rolling(unavailable: int | str, surge: int | str | None = None, partition: int | None = None) -> JSONObject:
    """Return the strategy of a Deployment, or of the others where there is a partition or no surge."""
    found: JSONObject = {"maxUnavailable": unavailable}
    if surge is not None:
        found["maxSurge"] = surge
    if partition is not None:
        found["partition"] = partition
    return found


def of_deployment(unavailable: int | str, surge: int | str) -> JSONObject:
    return {"type": "RollingUpdate", "rollingUpdate": rolling(unavailable, surge)}


def told(
    story: Callable[[WorkloadWorld], Awaitable[None]],
    kind: str = "Deployment",
    *,
    seed: int = 0,
    crds: Iterable[JSONObject] = CRDS,
    settings: ControllerSettings = TRUSTING,
) -> None:
    """Run a story on a hub of its own, in virtual time; see that no budget was broken and that it ends in silence."""

    async def main() -> None:
        async with hubs.hub() as here:
            here.settings = settings
            for definition in crds:
                await here.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
            world = WorkloadWorld(here, kind)
            try:
                await story(world)
                await world.settle()
                done = len(here.commits)
                await asyncio.sleep(900)
                assert here.commits[done:] == []
                for task in here.controllers:
                    assert not task.done() or task.cancelled()
            finally:
                await end(*world.running.values())
            assert world.limits.wrong == []

    run(main(), seed)


def _targets(clusters: Mapping[str, int]) -> list[JSONObject]:
    return [{"name": name, "replicas": replicas} for name, replicas in clusters.items()]
