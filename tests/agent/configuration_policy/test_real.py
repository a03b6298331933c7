"""Policies on a real kube-apiserver: what it fills in, refuses and normalises is none of ours."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import pytest

from echelon.agent.configuration_policy.controllers import configuration_policy_controllers
from echelon.agent.context import AgentContext
from echelon.agent.member_kinds import ensure_served
from echelon.agent.running import run_families
from echelon.agent.settings import Settings
from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY, ConfigurationPolicy
from echelon.api.core import CONFIG_MAP, EVENT, SECRET, SERVICE
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.engine.configuration_policy.diff import diff
from echelon.engine.configuration_policy.status import changed_something
from echelon.engine.work.identity import Identity
from echelon.kube.client import MergePatch
from echelon.kube.clock import SystemClock
from echelon.kube.config import load
from echelon.kube.errors import NotFound
from echelon.kube.http import HttpClient
from echelon.kube.metrics import Metrics
from tests.agent.configuration_policy.world import PARENT, template
from tests.agent.test_real import many_kinds
from tests.agent.world import deployment
from tests.environment import Access

PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Real:
    """What a story is told with: a namespace that stands for a cluster, and one for its applications."""

    client: HttpClient
    cluster: str
    apps: str

    async def policy(self, name: str, *templates: JSONObject, **spec: Any) -> ConfigurationPolicy:
        """Create a policy or give it another spec, and wait until it was evaluated as it is then."""
        body = {"remediationAction": "enforce", "object-templates": list(templates), **spec}
        metadata = {"name": name, "ownerReferences": [PARENT]}
        wire = {**CONFIGURATION_POLICY.type_meta, "metadata": metadata, "spec": body}
        if await self.has(CONFIGURATION_POLICY, name, self.cluster):
            await self.client.patch(CONFIGURATION_POLICY.untyped(), name, MergePatch({"spec": body}), self.cluster)
        else:
            await self.client.create(CONFIGURATION_POLICY.untyped(), wire, self.cluster)

        async def evaluated() -> bool:
            found = await self.seen(name)
            return found.status.last_evaluated_generation == found.metadata.generation

        await self.until(evaluated)
        return await self.seen(name)

    async def seen(self, name: str) -> ConfigurationPolicy:
        return await self.client.get(CONFIGURATION_POLICY, name, self.cluster)

    async def get(self, kind: Kind[Any], name: str) -> JSONObject:
        return await self.client.get(kind.untyped(), name, self.apps if kind.namespaced else "")

    async def patch(self, kind: Kind[Any], name: str, body: JSONObject) -> None:
        await self.client.patch(kind.untyped(), name, MergePatch(body), self.apps if kind.namespaced else "")

    async def has(self, kind: Kind[Any], name: str, namespace: str | None = None) -> bool:
        inside = (self.apps if namespace is None else namespace) if kind.namespaced else ""
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
            await asyncio.sleep(0.1)

    async def reports(self, name: str, message: str) -> None:
        """Wait until the latest report of a policy says something."""

        async def so() -> bool:
            history = (await self.seen(name)).status.history
            return bool(history) and message in history[0].message

        await self.until(so)

    def named(self, manifest: JSONObject) -> JSONObject:
        """Return a definition in the namespace of the applications."""
        return {**manifest, "metadata": {**manifest["metadata"], "namespace": self.apps}}


@asynccontextmanager
async def real(access: Access) -> AsyncIterator[Real]:
    unique = f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}-{time.monotonic_ns() % 10**9}"
    async with HttpClient(load(access.kubeconfig)) as client:
        here = Real(client, f"cpc-{unique}", f"cpc-apps-{unique}")
        for name in (here.cluster, here.apps):
            await client.create(NAMESPACE.untyped(), {"metadata": {"name": name}})
        await ensure_served(client, CONFIGURATION_POLICY)
        context = AgentContext(
            client,
            client,
            client,
            here.cluster,
            identity=Identity(unique, unique),
            clock=SystemClock(),
            random=Random(7),  # noqa: S311 - repeatable on purpose
            metrics=Metrics(),
            settings=Settings(evaluation_backoff_seconds=0.5),
        )
        running = asyncio.create_task(run_families(context, [configuration_policy_controllers(context)]))
        try:
            yield here
        finally:
            assert not running.done()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def tell(access: Access, story: Callable[[Real], Awaitable[None]]) -> None:
    async def main() -> None:
        async with real(access) as here:
            await story(here)

    asyncio.run(main())


def config_map(name: str, **data: str) -> JSONObject:
    return {**CONFIG_MAP.type_meta, "metadata": {"name": name}, "data": data}


def test_what_must_be_there_is_made_and_put_back(control_plane: Access) -> None:
    async def story(here: Real) -> None:
        found = await here.policy("have", template(here.named(config_map("x", a="1"))))
        assert found.status.compliant == "Compliant"
        await here.reports("have", "found as specified")
        await here.patch(CONFIG_MAP, "x", {"data": {"a": "2", "b": "theirs"}})

        async def healed() -> bool:
            return bool((await here.get(CONFIG_MAP, "x"))["data"] == {"a": "1", "b": "theirs"})

        await here.until(healed)
        await here.client.delete(CONFIG_MAP, "x", here.apps)

        async def back() -> bool:
            return await here.has(CONFIG_MAP, "x")

        await here.until(back)
        events = (await here.client.list(EVENT, here.cluster)).items
        assert {each.reason for each in events} == {f"policy: {here.cluster}/have"}
        assert {each.involved_object.uid for each in events} == {"parent-uid"}

    tell(control_plane, story)


def test_what_must_not_be_there_goes(control_plane: Access) -> None:
    async def story(here: Real) -> None:
        await here.client.create(CONFIG_MAP.untyped(), config_map("x"), here.apps)
        found = await here.policy("not", template(here.named(config_map("x")), "mustnothave"))
        assert found.status.compliant == "Compliant"
        assert not await here.has(CONFIG_MAP, "x")

    tell(control_plane, story)


@pytest.mark.parametrize("type_", ["musthave", "mustonlyhave"])
def test_objects_of_many_kinds_are_made_as_announced_and_then_left_alone(control_plane: Access, type_: str) -> None:
    async def story(here: Real) -> None:
        busy = deployment("busy")
        busy["spec"]["template"]["spec"]["containers"][0]["resources"] = {
            "requests": {"cpu": "1000m", "memory": "1024Mi"}
        }
        busy["spec"]["template"]["spec"]["hostNetwork"] = False
        kinds = [each for each in many_kinds() if each["kind"] != "Job" or type_ == "musthave"]  # see below
        manifests = [here.named(each) for each in (*kinds, busy, config_map("other", a="1"))]
        await here.client.create(CONFIG_MAP.untyped(), config_map("other", a="0"), here.apps)
        templates = [template(each, type_) for each in manifests]
        found = await here.policy("many", *templates, remediationAction="inform")
        announced = found.status.pending_changes
        assert [(each.change, each.kind) for each in announced] == [
            *(("Create", each["kind"]) for each in manifests[:-1]),
            ("Update", "ConfigMap"),
        ]
        assert "hunter2" not in repr(found.status)
        found = await here.policy("many", *templates)
        messages = [each.conditions[0].message for each in found.status.compliancy_details]
        assert found.status.compliant == "Compliant", messages

        async def settled() -> bool:
            reasons = {each.conditions[0].reason for each in (await here.seen("many")).status.compliancy_details}
            return reasons == {"K8s `must have` object already exists"}

        await here.until(settled)
        # Two objects of whose defaults there are many, compared with what was said of them.
        for kind, name, ordinal in ((DEPLOYMENT, "busy", -2), (SECRET, "many", 1)):
            assert diff(kind, None, await here.get(kind, name)) == announced[ordinal].diff
        before = [await generation(here, each) for each in manifests]
        asked = {"metadata": {"annotations": {"echelon.dev/retried-at": "2999-01-01T00:00:00Z"}}}
        at = (await here.seen("many")).status.last_evaluated
        await asyncio.sleep(1.1)
        await here.client.patch(CONFIGURATION_POLICY, "many", MergePatch(asked), here.cluster)

        async def again() -> bool:
            return (await here.seen("many")).status.last_evaluated != at

        await here.until(again)
        status = (await here.seen("many")).status
        assert status.compliant == "Compliant", [each.conditions[0].message for each in status.compliancy_details]
        assert [await generation(here, each) for each in manifests] == before
        if type_ == "mustonlyhave":
            assert any(each.properties and each.properties.matches_after_dry_run for each in status.related_objects)

    tell(control_plane, story)


def test_a_job_that_must_have_nothing_else_is_refused_since_a_server_adds_what_nobody_may_take_away(
    control_plane: Access,
) -> None:
    async def story(here: Real) -> None:
        job = next(here.named(each) for each in many_kinds() if each["kind"] == "Job")
        await here.policy("job", template(job, "mustonlyhave"))
        await here.reports("job", "field is immutable")
        assert not changed_something((await here.seen("job")).status)

    tell(control_plane, story)


def test_what_must_have_nothing_else_loses_the_rest(control_plane: Access) -> None:
    async def story(here: Real) -> None:
        body = {**config_map("x", a="0", b="1"), "binaryData": {"c": "aGk="}}
        body["metadata"] = {"name": "x", "labels": {"mine": "1", "theirs": "1"}}
        await here.client.create(CONFIG_MAP.untyped(), body, here.apps)
        definition = here.named(config_map("x", a="1"))
        definition["metadata"]["labels"] = {"mine": "1"}
        found = await here.policy("only", template(definition, "mustonlyhave"))
        assert found.status.compliant == "Compliant"
        live = await here.get(CONFIG_MAP, "x")
        assert live["data"] == {"a": "1"}
        assert "binaryData" not in live
        assert live["metadata"]["labels"] == {"mine": "1"}

    tell(control_plane, story)


def test_mistakes_are_told_with_the_words_of_the_server(control_plane: Access) -> None:
    async def story(here: Real) -> None:
        typo = here.named(deployment("typo"))
        typo["spec"]["replcias"] = 3
        service = {
            **SERVICE.type_meta,
            "metadata": {"name": "s", "namespace": here.apps},
            "spec": {"ports": [{"port": 80}]},
        }
        await here.client.create(SERVICE.untyped(), service, here.apps)
        immutable = {**service, "spec": {"clusterIP": "10.0.0.99"}}
        found = await here.policy("wrong", template(typo), template(immutable))
        said = [each.conditions[0] for each in found.status.compliancy_details]
        assert found.status.compliant == "NonCompliant"
        assert 'unknown field "spec.replcias"' in said[0].message
        assert said[0].reason == "K8s creation error"
        assert "clusterIP" in said[1].message
        assert said[1].reason == "K8s update template error"

    tell(control_plane, story)


def test_a_policy_takes_along_what_it_created(control_plane: Access) -> None:
    async def story(here: Real) -> None:
        await here.policy("prune", template(here.named(config_map("x"))), pruneObjectBehavior="DeleteIfCreated")
        assert await here.has(CONFIG_MAP, "x")
        await here.client.delete(CONFIGURATION_POLICY, "prune", here.cluster)

        async def gone() -> bool:
            return not await here.has(CONFIGURATION_POLICY, "prune", here.cluster)

        await here.until(gone)
        assert not await here.has(CONFIG_MAP, "x")

    tell(control_plane, story)


async def generation(here: Real, manifest: JSONObject) -> tuple[int, JSONObject]:
    """Return what tells whether somebody wrote to an object: its generation, or its content where it has none."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    listed = await here.client.document(f"/apis/{group}/{version}" if group else f"/api/{version}")
    plural = next(each["name"] for each in listed["resources"] if each["kind"] == manifest["kind"])
    kind = Kind(group, version, manifest["kind"], plural, dict[str, Any])
    live = await here.client.get(kind, manifest["metadata"]["name"], here.apps)
    content = {key: live[key] for key in ("data", "spec") if key in live}
    return live["metadata"].get("generation", 0), msgspec.to_builtins(content)
