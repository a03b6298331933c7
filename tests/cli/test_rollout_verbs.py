"""`echelon rollout` against a hub on which no controller runs: what the verbs refuse, and what they write."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from tests.controllers.hub import INDEX_LABEL, PLACEMENT_LABEL
from tests.engine.work_set.world import NAME, NS, World, progressive
from tests.hub.conftest import HubProcess

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.times import parse_time
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli import main
from echelon.engine.rollout import control
from echelon.engine.rollout.actions import ACTIONS
from echelon.engine.rollout.secret_data import SECRET_DATA
from echelon.engine.rollout.stored_revision import CAUSE_ANNOTATION
from echelon.engine.work_set.names import SET_LABEL
from echelon.kube.client import MergePatch
from echelon.kube.config import load
from echelon.kube.http import HttpClient

_KINDS = ("Placement", "PlacementDecision", "ManifestWork", "ManifestWorkReplicaSet")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path_factory.mktemp("hub"), ["--memory"])
    hub.start()
    asyncio.run(furnish(hub))
    yield hub
    assert hub.stop() == 0


async def furnish(hub: HubProcess) -> None:
    """Give a hub the kinds that a work set needs."""
    async with HttpClient(load(hub.kubeconfig)) as client:
        for definition in registry.crds():
            if definition["spec"]["names"]["kind"] in _KINDS:
                await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)


class Shown:
    """A world as it is on a hub, in a namespace of its own, and the command line that looks at it."""

    def __init__(self, hub: HubProcess, world: World) -> None:
        self._hub, self._world = hub, world
        self.namespace = f"{NS}-{world.placements['p'].groups[0][1][0]}"
        asyncio.run(self._upload())

    def rollout(self, verb: str, *arguments: str, code: int = 0) -> str:
        where = ["--kubeconfig", str(self._hub.kubeconfig), "-n", self.namespace]
        result = CliRunner().invoke(main, ["rollout", verb, NAME, *where, *arguments])
        assert result.exit_code == code, result.output
        return result.output

    def set(self) -> JSONObject:
        async def get() -> JSONObject:
            async with HttpClient(load(self._hub.kubeconfig)) as client:
                return await client.get(MANIFEST_WORK_REPLICA_SET.untyped(), NAME, self.namespace)

        return asyncio.run(get())

    def decide_on_nobody(self) -> None:
        """Let the placement select no cluster any more."""

        async def patch() -> None:
            async with HttpClient(load(self._hub.kubeconfig)) as client:
                empty = MergePatch({"status": {"decisions": []}})
                await client.patch(PLACEMENT_DECISION, "p-0", empty, self.namespace, subresource="status")
                group = {"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": ["p-0"], "clusterCount": 0}
                status = MergePatch({"status": {"numberOfSelectedClusters": 0, "decisionGroups": [group]}})
                await client.patch(PLACEMENT, "p", status, self.namespace, subresource="status")

        asyncio.run(patch())

    async def _upload(self) -> None:
        world = self._world
        async with HttpClient(load(self._hub.kubeconfig)) as client:

            async def create(kind: Kind[Any], name: str, namespace: str = "", **body: Any) -> None:
                status = body.pop("status", None)
                wire = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
                wire["metadata"] = {"name": name, **body.get("metadata", {})}
                await client.create(kind.untyped(), wire, namespace)
                if status:
                    patch = MergePatch({"status": status})
                    await client.patch(kind.untyped(), name, patch, namespace, subresource="status")

            await create(NAMESPACE, self.namespace)
            groups = world.placements["p"].groups
            listed = [
                {"decisionGroupIndex": i, "decisionGroupName": name, "decisions": [f"p-{i}"], "clusterCount": len(each)}
                for i, (name, each) in enumerate(groups)
            ]
            status = {"numberOfSelectedClusters": sum(len(each) for _, each in groups), "decisionGroups": listed}
            await create(PLACEMENT, "p", self.namespace, spec={}, status=status)
            for index, (_, clusters) in enumerate(groups):
                labels = {PLACEMENT_LABEL: "p", INDEX_LABEL: str(index)}
                decisions = [{"clusterName": each, "reason": ""} for each in clusters]
                metadata, status = {"labels": labels}, {"decisions": decisions}
                await create(PLACEMENT_DECISION, f"p-{index}", self.namespace, metadata=metadata, status=status)
            annotations = {"annotations": world.annotations}
            await create(MANIFEST_WORK_REPLICA_SET, NAME, self.namespace, metadata=annotations, spec=world.spec)
            mine = {SET_LABEL: f"{self.namespace}.{NAME}"}
            for name, stored in world.revisions.items():
                meta = stored["metadata"]
                metadata = {"labels": {**meta["labels"], **mine}, "annotations": meta["annotations"]}
                body = {"metadata": metadata, "data": stored["data"], "revision": stored["revision"]}
                await create(CONTROLLER_REVISION, name, self.namespace, **body)
            for (cluster, name), work in world.works.items():
                meta = work["metadata"]
                await create(NAMESPACE, cluster)
                metadata = {"labels": {**meta["labels"], **mine}, "annotations": meta["annotations"]}
                reported = work.get("status", {})
                for each in reported.get("conditions", []):
                    each["observedGeneration"] = 1
                await create(MANIFEST_WORK, name, cluster, metadata=metadata, spec=work["spec"], status=reported)


@pytest.fixture
def shown(hub: HubProcess) -> Callable[[World], Shown]:
    def show(world: World) -> Shown:
        return Shown(hub, world)

    return show


def complete(*clusters: str, template: JSONObject | None = None) -> World:
    """Return a world in which the first version is everywhere."""
    world = World.of([("", clusters)], progressive(maxConcurrency=1))
    if template is not None:
        world.spec["manifestWorkTemplate"] = template
    for _ in clusters:
        world.settle()
        world.finish()
    world.settle()
    world.wait(1)
    return world


def test_an_abort_of_what_is_complete_is_refused_with_a_hint(shown: Callable[[World], Shown]) -> None:
    rollout = shown(complete("a1", "b1"))
    said = rollout.rollout("abort", code=1)
    assert "is complete" in said
    assert f"echelon rollout undo {NAME} -n {rollout.namespace}" in said
    assert control.ABORTED not in rollout.set()["metadata"].get("annotations", {})


def test_an_abort_is_watched_until_the_earlier_revision_is_back(shown: Callable[[World], Shown]) -> None:
    world = complete("a2", "b2")
    world.upgrade("2")
    world.settle()
    rollout = shown(world)
    rollout.rollout("abort")
    said = rollout.rollout("watch", "--timeout", "0.1", "--interval", "0.1", code=4)
    assert "going back" in said, "no controller is there to do it"
    assert "not complete after" in said
    world = complete("a3", "b3")
    world.upgrade("2")
    world.settle()
    world.annotations[control.ABORTED] = world.view().content.digest
    world.settle()
    world.finish()
    said = shown(world).rollout("watch", code=3)
    assert said.splitlines()[-1] == "aborted, 2 of 2 done: aborted: revision 1 is back everywhere"


def test_undo_goes_to_the_last_revision_that_was_complete(shown: Callable[[World], Shown]) -> None:
    world = complete("a4", "b4")
    for version in ("2", "3"):
        world.upgrade(version)
        world.settle()
    rollout = shown(world)
    assert "goes back to revision 1" in rollout.rollout("undo")
    manifest = rollout.set()["spec"]["manifestWorkTemplate"]["workload"]["manifests"][0]
    assert manifest["data"] == {"version": "1"}
    assert "goes back to revision 2" in rollout.rollout("undo", "--to-revision", "2")


def with_secret(password: str) -> JSONObject:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": password}}
    return {"workload": {"manifests": [secret]}}


def changed_password(*clusters: str) -> World:
    """Return a world in which one password was everywhere, and the next is on its way."""
    world = complete(*clusters, template=with_secret("hunter2"))
    world.change(manifestWorkTemplate=with_secret("correct-horse"))
    world.settle()
    assert "hunter2" not in str(world.revisions)
    return world


def test_undo_brings_back_what_a_secret_held(shown: Callable[[World], Shown]) -> None:
    rollout = shown(changed_password("s1", "t1"))
    assert "goes back to revision 1" in rollout.rollout("undo")
    assert rollout.set()["spec"]["manifestWorkTemplate"] == with_secret("hunter2")


def test_what_a_secret_held_and_nobody_kept_is_not_put_back(shown: Callable[[World], Shown]) -> None:
    world = changed_password("s2", "t2")
    del world.annotations[SECRET_DATA]
    rollout = shown(world)
    lost = "revision 1 cannot be put back: what the Secrets in it held is no longer kept in the annotation "
    lost += SECRET_DATA
    for arguments in ((), ("--to-revision", "1")):
        assert f"{lost}; there is no other" in rollout.rollout("undo", *arguments, code=1)
    assert rollout.set()["spec"]["manifestWorkTemplate"] == with_secret("correct-horse")
    assert f"{lost}: nothing new starts" in rollout.rollout("abort")


def test_undo_to_nothing_that_was_complete_is_refused_and_names_what_there_is(
    shown: Callable[[World], Shown],
) -> None:
    world = World.of([("", ["a5"])])
    for version in ("2", "3"):
        world.settle()
        world.upgrade(version)
    world.settle()
    said = shown(world).rollout("undo", code=1)
    assert "was complete" in said
    assert "1, 2" in said


@pytest.mark.parametrize("case", ["held", "no clusters", "stopped", "complete"])
def test_watch_ends_with_the_reason_when_waiting_is_of_no_use(case: str, shown: Callable[[World], Shown]) -> None:
    name = f"x-{case.replace(' ', '-')}"
    world = World.of([("", [name])], progressive(maxConcurrency=1))
    if case == "held":
        world.spec["placementRefs"][0]["rolloutStrategy"] = progressive(
            mandatoryDecisionGroups=[{"groupName": "canari"}]
        )
    world.settle()
    if case in ("stopped", "complete"):
        world.report(name, **({"degraded": "True"} if case == "stopped" else {}))
    rollout = shown(world)
    if case == "no clusters":
        rollout.decide_on_nobody()
    code = {"held": 8, "no clusters": 8, "stopped": 1, "complete": 0}[case]
    last = rollout.rollout("watch", "--timeout", "30", code=code).splitlines()[-1]
    assert last.startswith(case)
    assert ":" in last or case == "complete"


def test_resume_also_ends_a_stop(shown: Callable[[World], Shown]) -> None:
    world = World.of([("", ["a6"])])
    world.annotations[control.PAUSED] = "true"
    rollout = shown(world)
    rollout.rollout("resume")
    annotations = rollout.set()["metadata"]["annotations"]
    assert control.PAUSED not in annotations
    assert control.RESUMED in annotations


def test_history_tells_when_why_and_who(shown: Callable[[World], Shown]) -> None:
    world = complete("h1", "h2")
    world.annotations[CAUSE_ANNOTATION] = "two is better"
    world.upgrade("2")
    world.settle()
    rollout = shown(world)
    for verb in ("pause", "resume", "abort"):
        rollout.rollout(verb)
    first, second = json.loads(rollout.rollout("history", "-o", "json"))
    assert (first["cause"], first["actions"]) == (None, [])
    assert second["cause"] == "two is better"
    assert [each["verb"] for each in second["actions"]] == ["pause", "resume", "abort"]
    assert {each["by"] for each in second["actions"]} == {"echelon-admin"}, "as the server sees them"
    assert all(parse_time(each["at"]) for each in second["actions"])
    assert parse_time(first["created"])
    rollout.rollout("undo")
    assert CAUSE_ANNOTATION not in rollout.set()["metadata"]["annotations"], "revision 1 had none"
    table = rollout.rollout("history")
    assert "two is better" in table
    assert "undo to revision 1 by echelon-admin" in table
    assert "(and 3 more)" in table
    assert first["hash"] not in table, "there is no room for it"
    assert " ago " in table
    wide = rollout.rollout("history", "-o", "wide")
    assert "pause by echelon-admin" in wide
    assert first["hash"] in wide
    assert first["created"] in wide


def test_a_verb_without_an_effect_says_so_and_writes_nothing(shown: Callable[[World], Shown]) -> None:
    world = World.of([("", ["n1", "n2"])], progressive(maxConcurrency=1))
    world.settle()
    rollout = shown(world)
    for verb, why in (
        ("resume", "it is neither paused nor stopped"),
        ("promote", "nothing soaks"),
        ("retry", "nothing has failed"),
    ):
        before = rollout.set()
        assert f"is as it was: {why}" in rollout.rollout(verb)
        assert rollout.set() == before, verb
    rollout.rollout("pause")
    before = rollout.set()
    assert "is as it was: it is paused already" in rollout.rollout("pause")
    assert rollout.set() == before


def test_no_clusters_are_success_only_for_who_says_so(shown: Callable[[World], Shown]) -> None:
    rollout = shown(World.of([("", ["e1"])]))
    rollout.decide_on_nobody()
    rollout.rollout("watch", code=8)
    assert "no clusters" in rollout.rollout("watch", "--allow-no-clusters")


def test_a_pipeline_hears_of_an_approval_that_is_missing(shown: Callable[[World], Shown]) -> None:
    world = World.of([("", ["w1"])], progressive(maxConcurrency=1))
    world.annotations[control.APPROVAL] = "all"
    world.settle()
    rollout = shown(world)
    assert rollout.rollout("watch", code=8).startswith("awaiting approval")
    rollout.rollout("watch", "--wait-for-approval", "--timeout", "0.1", "--interval", "0.1", code=4)
    rollout.rollout("approve")
    [action] = json.loads(rollout.set()["metadata"]["annotations"][ACTIONS])
    assert (action["verb"], action["by"], action["detail"]) == ("approve", "echelon-admin", "0")


def test_a_diff_has_one_code_for_differences_and_others_for_trouble(shown: Callable[[World], Shown]) -> None:
    rollout = shown(complete("d1"))
    assert "has no earlier revision" in rollout.rollout("diff", code=2)
    assert "has no revision 7" in rollout.rollout("diff", "--to-revision", "7", code=5)
    rollout.rollout("diff", "--from-revision", "1", "--to-revision", "1")
