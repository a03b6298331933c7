"""A hub with work sets on it: decisions that a test writes as it likes, and agents that report what it tells them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION, ControllerRevision
from echelon.api.events import EVENT
from echelon.api.meta import Condition
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work import GROUP, MANIFEST_WORK, ManifestWork
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET, ManifestWorkReplicaSet
from echelon.controllers.settings import ControllerSettings
from echelon.engine.work_set.names import SET_LABEL
from echelon.fleet.loop import run
from echelon.kube.errors import AlreadyExists
from tests.controllers import hub as hubs
from tests.controllers.hub import INDEX_LABEL, NAME_LABEL, NS, Hub, now, without_rules

SET = MANIFEST_WORK_REPLICA_SET
CRDS = [definition for definition in registry.crds() if definition["spec"]["group"] == GROUP]

Groups = Sequence[tuple[str, Sequence[str]]]


def template(version: str = "1", **spec: Any) -> JSONObject:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "demo", "namespace": "default"},
        "data": {"version": version},
    }
    return {"workload": {"manifests": [manifest]}, **spec}


def progressive(**settings: Any) -> JSONObject:
    return {"type": "Progressive", "progressive": settings}


def per_group(**settings: Any) -> JSONObject:
    return {"type": "ProgressivePerGroup", "progressivePerGroup": settings}


EVERYWHERE: JSONObject = {"type": "All"}


@dataclass
class WorkWorld:
    """What a story about work sets is told with."""

    hub: Hub

    def start(self) -> asyncio.Task[None]:
        return self.hub.start("work-sets")

    async def restart(self) -> None:
        await self.hub.stop()
        self.hub.controllers.clear()
        self.start()

    async def settle(self, seconds: float = 5.0) -> None:
        await self.hub.settle(seconds)

    async def cluster(self, *names: str) -> None:
        for name in names:
            await self.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": name}})

    async def place(self, groups: Groups, name: str = "p", *, size: int | str = "100%", fresh: bool = True) -> None:
        """Make a placement that has decided on these groups, each with a decision of its own."""
        if fresh:
            for cluster in sorted({cluster for _, clusters in groups for cluster in clusters}):
                try:
                    await self.cluster(cluster)
                except AlreadyExists:
                    continue
        await self.hub.create(
            PLACEMENT, name, NS, spec={"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": size}}}
        )
        await self.decide(groups, name)

    async def decide(self, groups: Groups, name: str = "p") -> None:
        """Write other decisions, and a status that agrees with them."""
        for index, (group, clusters) in enumerate(groups):
            await self.slice(f"{name}-decision-{index + 1}", index, group, clusters, name)
        for found in (await self.hub.client.list(PLACEMENT_DECISION, NS)).items:
            number = found.metadata.name.removeprefix(f"{name}-decision-")
            if number.isdigit() and int(number) > len(groups):
                await self.hub.delete(PLACEMENT_DECISION, found.metadata.name, NS)
        await self.agree(groups, name)

    async def slice(self, name: str, index: int, group: str, clusters: Sequence[str], placement: str = "p") -> None:
        """Write one decision."""
        labels = {hubs.PLACEMENT_LABEL: placement, INDEX_LABEL: str(index), NAME_LABEL: group}
        status = {"decisions": [{"clusterName": cluster, "reason": ""} for cluster in clusters]}
        try:
            await self.hub.create(PLACEMENT_DECISION, name, NS, labels=labels, status=status)
        except AlreadyExists:
            await self.hub.patch(PLACEMENT_DECISION, name, {"metadata": {"labels": labels}}, NS)
            await self.hub.patch(PLACEMENT_DECISION, name, {"status": status}, NS, "status")

    async def agree(self, groups: Groups, name: str = "p") -> None:
        """Write the status of a placement that has decided on these groups."""
        status = {
            "numberOfSelectedClusters": len({cluster for _, clusters in groups for cluster in clusters}),
            "decisionGroups": [
                {
                    "decisionGroupIndex": index,
                    "decisionGroupName": group,
                    "decisions": [f"{name}-decision-{index + 1}"],
                    "clusterCount": len(clusters),
                }
                for index, (group, clusters) in enumerate(groups)
            ],
        }
        await self.hub.patch(PLACEMENT, name, {"status": status}, NS, "status")

    async def roll_out(
        self, strategy: JSONObject | None = None, name: str = "web", refs: Sequence[JSONObject] = (), **fields: Any
    ) -> None:
        """Make a work set."""
        spec = {
            "manifestWorkTemplate": fields.pop("template", template()),
            "placementRefs": list(refs) or [{"name": "p", "rolloutStrategy": strategy or EVERYWHERE}],
            **fields.pop("spec", {}),
        }
        await self.hub.create(SET, name, NS, spec=spec, **fields)

    async def change(self, name: str = "web", **spec: Any) -> None:
        await self.hub.patch(SET, name, {"spec": spec}, NS)

    async def upgrade(self, version: str, name: str = "web") -> None:
        await self.change(name, manifestWorkTemplate=template(version))

    async def annotate(self, annotations: dict[str, str | None], name: str = "web") -> None:
        await self.hub.patch(SET, name, {"metadata": {"annotations": annotations}}, NS)

    async def set(self, name: str = "web") -> ManifestWorkReplicaSet:
        return await self.hub.client.get(SET, name, NS)

    async def revision(self, name: str = "web") -> str:
        """Return the revision of the present template."""
        return (await self.revisions(name))[-1].metadata.name.removeprefix(f"{name}-")

    async def revisions(self, name: str = "web") -> list[ControllerRevision]:
        page = await self.hub.client.list(CONTROLLER_REVISION, NS, labels=f"{SET_LABEL}={NS}.{name}")
        return sorted(page.items, key=lambda each: each.revision)

    async def works(self, name: str = "web") -> dict[str, ManifestWork]:
        """Return the works of a set by cluster; there is one each."""
        found = (await self.hub.client.list(MANIFEST_WORK, labels=f"{SET_LABEL}={NS}.{name}")).items
        works = {each.metadata.namespace: each for each in found}
        assert len(works) == len(found)
        return works

    async def versions(self, name: str = "web") -> dict[str, str]:
        return {cluster: version_of(work) for cluster, work in (await self.works(name)).items()}

    async def at(self, version: str, name: str = "web") -> list[str]:
        """Return the clusters that have a version."""
        return sorted(cluster for cluster, has in (await self.versions(name)).items() if has == version)

    async def report(self, *clusters: str, name: str = "web", since: str = "", **said: str) -> None:
        """Have agents report; done unless something else is said, such as `degraded="True"`."""
        moment = since or now().strftime("%Y-%m-%dT%H:%M:%SZ")
        states = {"applied": "True", "available": "True", "progressing": "False", **said}
        for cluster in clusters:
            work = next(each for each in (await self.works(name)).values() if each.metadata.namespace == cluster)
            known = {each.type: each for each in work.status.conditions}
            conditions = [
                condition(kind.capitalize(), status, work.metadata.generation, known.get(kind.capitalize()), moment)
                for kind, status in states.items()
                if status
            ]
            await self.hub.patch(
                MANIFEST_WORK, work.metadata.name, {"status": {"conditions": conditions}}, cluster, "status"
            )

    async def finish(self, name: str = "web") -> None:
        """Have all agents report that all is done."""
        await self.report(*(await self.works(name)), name=name)
        await self.settle()

    async def said(self, kind: str, name: str = "web") -> tuple[str, str]:
        found = await self.condition(kind, name)
        return found.status, found.reason

    async def condition(self, kind: str, name: str = "web") -> Condition:
        found = await self.set(name)
        condition = next(each for each in found.status.conditions if each.type == kind)
        assert condition.observed_generation == found.metadata.generation
        return condition

    async def counts(self, name: str = "web") -> dict[str, int]:
        summary = (await self.set(name)).status.summary
        return {field: value for field in summary.__struct_fields__ if (value := getattr(summary, field))}

    async def standing(self, cluster: str, name: str = "web") -> tuple[str, str]:
        """Return status and reason of a cluster in the set's status."""
        rollout = (await self.set(name)).status.rollout
        assert rollout is not None
        found = next(each for each in rollout.clusters if cluster in each.names)
        return found.status, found.reason

    async def events(self) -> list[str]:
        found = (await self.hub.client.list(EVENT.untyped(), NS)).items
        return [each["reason"] for each in sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))]


def condition(kind: str, status: str, generation: int, before: Condition | None, moment: str) -> JSONObject:
    """Return a condition as upstream's agent writes it: its time moves with its status only."""
    kept = before.last_transition_time if before is not None and before.status == status else moment
    return {
        "type": kind,
        "status": status,
        "reason": "Said",
        "message": f"{kind} is {status}",
        "observedGeneration": generation,
        "lastTransitionTime": kept,
    }


def version_of(work: ManifestWork) -> str:
    version: str = work.spec.workload.manifests[0]["data"]["version"]
    return version


# For decisions that a test writes without sets and owners.
TRUSTING = ControllerSettings(trust_decisions=True, strict=True)


def told(
    story: Callable[[WorkWorld], Awaitable[None]],
    seed: int = 0,
    *,
    rules: bool = True,
    quiet: bool = True,
    settings: ControllerSettings = TRUSTING,
) -> None:
    """Run a story on a hub of its own, in virtual time, and see that there is silence after it."""

    async def main() -> None:
        async with hubs.hub(rules=rules) as here:
            here.settings = settings
            for definition in CRDS if rules else without_rules(CRDS):
                await here.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
            world = WorkWorld(here)
            await story(world)
            await world.settle()
            done = len(here.commits)
            await asyncio.sleep(900)
            assert not quiet or here.commits[done:] == []
            for task in here.controllers:
                assert not task.done() or task.cancelled()

    run(main(), seed)
