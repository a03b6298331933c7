"""Pretended agents of federated workloads: each has a member that acts late, and reports what it sees of it.

The members are those of the tests of the engine, so what one does with a push is what its controllers would do. An
agent looks at its work now and then, sends what it finds there to its member, and tells the hub what became of it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.karmada import WORK, Work
from echelon.api.times import format_time
from echelon.engine.align import Grant, interpreter_of
from echelon.engine.workload.names import PUSH_ID, TEMPLATE_GENERATION, execution_namespace
from echelon.fleet.loop import running
from echelon.hub.client import InProcessClient
from echelon.kube.client import MergePatch
from echelon.kube.errors import ApiError, Conflict, NotFound
from tests.engine.align.deployment_members import Deployment
from tests.engine.align.members import Member, Pace, Pod, Surroundings
from tests.engine.align.revisioned_members import CloneSet, StatefulSet

LOOK_SECONDS = 0.2
KINDS: dict[str, type[Member]] = {"Deployment": Deployment, "CloneSet": CloneSet, "StatefulSet": StatefulSet}


@dataclass
class Limits:
    """What must hold over all clusters, and what was seen against it."""

    least: int = 0  # available pods
    most: int = 10**6  # pods
    wrong: list[str] = field(default_factory=list)
    agents: dict[str, "Agent"] = field(default_factory=dict)

    @property
    def members(self) -> list[Member]:
        return [each.member for each in self.agents.values() if each.member is not None]

    @property
    def available(self) -> int:
        return sum(pod.available for each in self.members for pod in each.pods)

    @property
    def pods(self) -> int:
        return sum(each.limit for each in self.members)

    def made(self, member: Member, pod: Pod) -> None:
        if self.pods > self.most:
            self.wrong.append(f"{member.name} made {pod.name}: {self.pods} pods, {self.most} at most")

    def taken(self, member: Member, pod: Pod, *, available: bool) -> None:
        if available and self.available < self.least:
            self.wrong.append(f"{member.name} took {pod.name}: {self.available} available, {self.least} at least")

    def became_available(self, member: Member, pod: Pod) -> None:
        pass

    def died(self, member: Member, pod: Pod, *, available: bool) -> None:
        pass


@dataclass
class Agent:
    """The agent of one cluster."""

    cluster: str
    client: InProcessClient
    limits: Limits
    pace: Pace
    member: Member | None = None
    refuses: Callable[[JSONObject], str] = lambda _: ""  # why the member's server refuses a manifest
    cut: bool = False
    cause: str = ""  # what it says of pods that are not available
    taken: list[int] = field(default_factory=list)  # ids of the pushes that it took
    fenced: list[int] = field(default_factory=list)
    revisions: dict[str, set[str]] = field(default_factory=dict)  # hashes of the templates that it took, by image
    _reported: Any = None
    _applied: Grant | None = None
    _outcome: tuple[int, str] | None = None  # generation of the work, and why it was refused
    _template_generation: int = 0
    _lives: int = 0
    _past: int = 0  # the version that the cluster had come to when its object was last deleted

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self.cut:
                await self.look()

    async def look(self) -> None:
        """Look at the work, and report."""
        works = (await self.client.list(WORK, execution_namespace(self.cluster))).items
        if not works:
            return
        (work,) = works
        try:
            if work.metadata.deletion_timestamp:
                await self._end(work)
            elif not work.spec.suspend_dispatching:
                self._apply(work)
                await self._report(work)
        except (Conflict, NotFound):
            return  # it looks again
        except ApiError as error:
            raise AssertionError(f"the agent of {self.cluster}: {error}") from error

    def _apply(self, work: Work) -> None:
        (manifest,) = work.spec.workload.manifests
        generation = work.metadata.generation
        if self._outcome is not None and self._outcome[0] == generation:
            return
        why = self.refuses(manifest)
        self._outcome = (generation, why)
        if why:
            return
        grant = grant_of(manifest)
        if self._applied is not None and grant.id <= self._applied.id:
            self.fenced.append(grant.id)
            return
        if self.member is None:
            clock = running().clock
            here = Surroundings(
                Random(self.cluster),  # noqa: S311 - repeatable on purpose
                self.pace,
                _later,
                lambda: clock.now().timestamp(),
                self.limits,
            )
            self.member = KINDS[manifest["kind"]](self.cluster, here)
        self._applied = grant
        self._template_generation = int(manifest["metadata"]["annotations"][TEMPLATE_GENERATION])
        self.taken.append(grant.id)
        image = manifest["spec"]["template"]["spec"]["containers"][0]["image"]
        self.revisions.setdefault(image, set()).add(grant.revision)
        self.member.apply(grant)

    async def _report(self, work: Work) -> None:
        generation, why = self._outcome or (0, "")
        status = self._status(work)
        condition = {
            "type": "Applied",
            "status": "False" if why else "True",
            "reason": "AppliedFailed" if why else "AppliedSuccessful",
            "message": why,
            "observedGeneration": generation,
        }
        said = (status, condition)
        if said == self._reported:
            return
        body = {"conditions": [{**condition, "lastTransitionTime": format_time(running().clock.now())}]}
        identifier = {"ordinal": 0, "version": "v1", "kind": "Deployment", "resource": "deployments", "name": "web"}
        full = {**body, "manifestStatuses": [{"identifier": identifier, "status": status, "health": "Healthy"}]}
        patch = MergePatch({"metadata": {"resourceVersion": work.metadata.resource_version}, "status": full})
        namespace = execution_namespace(self.cluster)
        await self.client.patch(WORK.untyped(), work.metadata.name, patch, namespace, subresource="status")
        self._reported = said

    def _status(self, work: Work) -> JSONObject:
        status: JSONObject = {}
        if self.member is not None and (view := self.member.snapshot(telling=True)) is not None:
            # An object that is made again is another one, and versions of a cluster never begin anew.
            view = msgspec.structs.replace(view, uid=f"{self.cluster}-{self._lives}", version=view.version + self._past)
            status = {
                "replicas": view.pods,
                "updatedReplicas": view.updated,
                "readyReplicas": view.available,
                "availableReplicas": view.available,
                "unavailableReplicas": max(0, view.replicas - view.available),
                "observedGeneration": view.observed_generation,
                "generation": view.generation,
                "resourceTemplateGeneration": self._template_generation,
                "specReplicas": view.replicas,
                "rolloutPushId": view.push_id,
                "snapshot": msgspec.to_builtins(view),
            }
            if self.cause and view.available < view.replicas:
                status["cause"] = self.cause
        if self._outcome is not None and self._outcome[1]:
            (manifest,) = work.spec.workload.manifests
            status["refusedPushId"] = grant_of(manifest).id
        return status

    async def _end(self, work: Work) -> None:
        if self.member is not None:
            self._lives, self._past = self._lives + 1, self._past + self.member.version
            if not work.spec.preserve_resources_on_deletion:
                self.member.pods.clear()
                vars(self.member)["_gone"] = lambda _: None  # what was on its way out is gone, too
        self.member, self._applied, self._reported, self._outcome = None, None, None, None
        patch = MergePatch({"metadata": {"finalizers": []}})
        await self.client.patch(WORK.untyped(), work.metadata.name, patch, execution_namespace(self.cluster))


def _later(seconds: float, do: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, do)


def grant_of(manifest: JSONObject) -> Grant:
    """Return what a manifest permits."""
    interpreter = interpreter_of(manifest)
    assert interpreter is not None
    strategy = interpreter.get_rolling_strategy(manifest)
    assert strategy is not None
    return Grant(
        int(manifest["metadata"]["annotations"][PUSH_ID]),
        interpreter.template_hash(manifest),
        manifest["spec"]["replicas"],
        int(strategy.max_unavailable or 0),
        int(strategy.max_surge or 0),
        int(strategy.partition or 0),
        strategy.paused,
    )
