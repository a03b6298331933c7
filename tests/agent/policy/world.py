"""A hub with policies, a cluster, and an evaluator that plays the part of those who really look at the cluster."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from echelon.agent.context import AgentContext, Family
from echelon.agent.policy.evaluators import Evaluator
from echelon.agent.policy.family import policy_controllers
from echelon.agent.work_controllers import work_controllers
from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import EVENT
from echelon.api.keys import Key
from echelon.api.policy import GROUP, POLICY
from echelon.api.times import format_micro_time, format_time
from echelon.engine.policy.names import ENFORCED_BEFORE_ANNOTATION, HELD_ANNOTATION
from echelon.fleet.loop import running
from echelon.kube.client import Client, MergePatch
from echelon.kube.errors import AlreadyExists, NotFound
from tests.agent import world as agents
from tests.agent.world import CLUSTER, World

NAME = "policies.web"
FINALIZER = f"{GROUP}/delete-related-objects"
CHANGED = "K8s update success"
LABELS = {
    f"{GROUP}/root-policy": NAME,
    f"{GROUP}/cluster-name": CLUSTER,
    f"{GROUP}/cluster-namespace": CLUSTER,
}


@dataclass
class Looker:
    """Evaluates ConfigurationPolicies as it is told, and prunes at their end what enforcing entitles to."""

    verdicts: dict[str, str | None] = field(default_factory=dict)  # by name; None: it is not looked at
    enforcing_helps: bool = True
    pruned: list[str] = field(default_factory=list)
    evaluated: list[tuple[str, str]] = field(default_factory=list)  # name and action
    now: datetime = datetime(1970, 1, 1, tzinfo=UTC)

    def evaluator(self) -> Evaluator:
        return Evaluator(CONFIGURATION_POLICY, self.controllers, changed_something)

    def controllers(self, context: AgentContext) -> Family:
        seen = context.member_informer(CONFIGURATION_POLICY.untyped(), namespace=context.cluster)
        member = context.member

        async def look(name: str) -> float | None:
            live = seen.get(Key(context.cluster, name))
            if live is not None:
                await self.look(member, live)
            return None

        workers = context.workers("looker", look, concurrency=1, after=(seen,))
        seen.on_change(lambda delta: workers.queue.add(delta.object["metadata"]["name"]))
        return Family((workers,), member_kinds=(CONFIGURATION_POLICY,))

    async def look(self, member: Client, live: JSONObject) -> None:
        meta, spec, status = live["metadata"], live["spec"], live.get("status") or {}
        name, notes = meta["name"], meta.get("annotations") or {}
        enforced = spec["remediationAction"].lower() == "enforce"
        if meta.get("deletionTimestamp"):
            await self.end(member, live, prunes=enforced or notes.get(ENFORCED_BEFORE_ANNOTATION) == "true")
            return
        if FINALIZER not in meta.get("finalizers", ()):
            await self.keep(member, live, [*meta.get("finalizers", ()), FINALIZER])
            return
        verdict, changed = self.judge(name, meta["generation"], status, mends=enforced and self.enforcing_helps)
        if verdict is not None:
            await self.report(member, live, verdict, changed=changed)
            self.evaluated.append((name, spec["remediationAction"]))

    def judge(self, name: str, generation: int, status: JSONObject, *, mends: bool) -> tuple[str | None, bool]:
        """Return what an evaluation finds and whether it changes that; None if there is no evaluation now."""
        found, said = self.verdicts.get(name, "NonCompliant"), status.get("compliant")
        known = said and status.get("lastEvaluatedGeneration") == generation
        if known and changed_something(status) and said == "NonCompliant":
            return "Compliant", False  # what was mended is looked at once more
        if known and (said == found or (mends and said == "Compliant")):
            return None, False
        return found, mends and found == "NonCompliant"

    async def end(self, member: Client, live: JSONObject, *, prunes: bool) -> None:
        meta = live["metadata"]
        if FINALIZER in meta.get("finalizers", ()):
            if prunes:
                self.pruned.append(meta["name"])
            await self.keep(member, live, [each for each in meta["finalizers"] if each != FINALIZER])

    async def keep(self, member: Client, live: JSONObject, finalizers: list[str]) -> None:
        meta = live["metadata"]
        body = {"metadata": {"finalizers": finalizers or None, "resourceVersion": meta["resourceVersion"]}}
        with suppress(NotFound):
            await member.patch(CONFIGURATION_POLICY.untyped(), meta["name"], MergePatch(body), CLUSTER)

    async def report(self, member: Client, live: JSONObject, verdict: str, *, changed: bool) -> None:
        meta, status = live["metadata"], live.get("status") or {}
        now = self.now = max(running().clock.now(), self.now + timedelta(milliseconds=1))  # no two at once
        message = f"{verdict}; {'mended' if changed else 'looked'}"
        history = [{"lastTimestamp": format_micro_time(now), "message": message}, *status.get("history", ())][:10]
        pending = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "change": "Update", "diff": "-a\n+b"}]
        held = (meta.get("annotations") or {}).get(HELD_ANNOTATION) == "true"
        body: JSONObject = {
            "compliant": verdict,
            "lastEvaluated": format_time(now),
            "lastEvaluatedGeneration": meta["generation"],
            "history": history,
            "relatedObjects": [{"reason": CHANGED}] if changed else [],
            "pendingChanges": pending if held and verdict == "NonCompliant" else [],
        }
        patch = MergePatch({"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": body})
        await member.patch(CONFIGURATION_POLICY.untyped(), meta["name"], patch, CLUSTER, subresource="status")
        owner = next(iter(meta.get("ownerReferences", ())), None)
        if owner is not None:
            await tell(member, owner, meta["name"], message, now)


def changed_something(status: JSONObject) -> bool:
    return any(each.get("reason") == CHANGED for each in status.get("relatedObjects") or ())


async def tell(member: Client, owner: JSONObject, template: str, message: str, now: datetime) -> None:
    """Report on a template by an event."""
    nanoseconds = round((now - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6) * 1000
    body = {
        "metadata": {"name": f"{owner['name']}.{nanoseconds + 7:x}", "namespace": CLUSTER},
        "involvedObject": {**POLICY.type_meta, "name": owner["name"], "namespace": CLUSTER, "uid": owner["uid"]},
        "reason": f"policy: {CLUSTER}/{template}",
        "message": message,
        "type": "Normal",
    }
    with suppress(AlreadyExists):
        await member.create(EVENT.untyped(), body, CLUSTER)


def template(name: str = "web", value: str = "1", **more: Any) -> JSONObject:
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}
    spec = {
        "object-templates": [{"complianceType": "musthave", "objectDefinition": data}],
        "remediationAction": "inform",
    }
    return {
        "objectDefinition": {**CONFIGURATION_POLICY.type_meta, "metadata": {"name": name}, "spec": spec},
        **more,
    }


@dataclass
class PolicyWorld:
    """What a story about policies is told with."""

    here: World
    looker: Looker

    @property
    def families(self) -> Sequence[Callable[[AgentContext], Family]]:
        return (work_controllers, partial(policy_controllers, evaluators=(self.looker.evaluator(),)))

    def start(self, **options: Any) -> Any:
        return self.here.start(families=self.families, **options)

    async def settle(self, seconds: float = 8.0) -> None:
        await self.here.settle(seconds)

    async def write(
        self,
        *templates: JSONObject,
        name: str = NAME,
        action: str = "enforce",
        held: bool = False,
        said: str = "",
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Write a replica as the hub does: spec and annotations in one patch, then the status of the rollout."""
        hub = self.here.hub
        content: JSONObject = {"disabled": False, "policy-templates": list(templates), **spec}
        content["remediationAction"] = "inform" if held else action or None
        notes: JSONObject = {**(annotations or {}), HELD_ANNOTATION: "true" if held else None}
        if await hub.has(POLICY, name, CLUSTER):
            before = await hub.get(POLICY, name, CLUSTER)
            old = dict.fromkeys(before["metadata"].get("annotations", {}))
            body = {"metadata": {"annotations": {**old, **notes}}, "spec": {**dict.fromkeys(before["spec"]), **content}}
            await hub.patch(POLICY, name, body, CLUSTER)
        else:
            meta = {
                "name": name,
                "namespace": CLUSTER,
                "labels": {**LABELS, f"{GROUP}/root-policy": name},
                "annotations": {key: value for key, value in notes.items() if value},
            }
            spec_ = {key: value for key, value in content.items() if value is not None}
            await hub.create({**POLICY.type_meta, "metadata": meta, "spec": spec_})
        if said:
            await self.say(said, name)
        await self.settle()

    async def say(self, said: str, name: str = NAME) -> None:
        body = {"rolloutStatus": said, "rolloutLastTransitionTime": format_time(running().clock.now())}
        await self.here.hub.patch(POLICY, name, {"status": body}, CLUSTER, "status")

    async def replica(self, name: str = NAME) -> JSONObject:
        return await self.here.hub.get(POLICY, name, CLUSTER)

    async def copy(self, name: str = NAME) -> JSONObject:
        return await self.here.member.get(POLICY, name, CLUSTER)

    async def status(self, name: str = NAME) -> JSONObject:
        found: JSONObject = (await self.replica(name)).get("status", {})
        return found

    async def child(self, name: str = "web") -> JSONObject:
        return await self.here.member.get(CONFIGURATION_POLICY, name, CLUSTER)

    async def children(self) -> list[str]:
        found = await self.here.member.client.list(CONFIGURATION_POLICY.untyped(), CLUSTER)
        return sorted(each["metadata"]["name"] for each in found.items)

    async def messages(self, template: str = "web", name: str = NAME) -> list[str]:
        for detail in (await self.status(name)).get("details", ()):
            if detail["templateMeta"]["name"] == template:
                return [each["message"] for each in detail.get("history", ())]
        return []

    async def touch_children(self) -> None:
        """Let the evaluator look again."""
        for name in await self.children():
            note = {"metadata": {"annotations": {"touched": running().clock.now().isoformat()}}}
            await self.here.member.patch(CONFIGURATION_POLICY, name, note, CLUSTER)
        await self.settle()


async def serve_policies(here: World) -> None:
    for definition in registry.crds():
        if definition["spec"]["group"] == GROUP:
            await here.hub.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)


def told(
    story: Callable[[PolicyWorld], Awaitable[None]],
    *,
    looker: Looker | None = None,
    started: bool = True,
    quiet: bool = True,
    seed: int = 0,
) -> None:
    """Run a story with an agent on a hub that serves policies, and see that there is silence after it."""

    async def on_policies(here: World) -> None:
        await serve_policies(here)
        made = PolicyWorld(here, looker or Looker())
        if started:
            made.start()
            await made.settle(2)
        await story(made)

    agents.told(on_policies, started=False, quiet=quiet, seed=seed)
