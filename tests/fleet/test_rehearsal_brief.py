"""A brief rehearsal is about half the work of a full one, and comes to the same end by the same waves."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.namespaces import NAMESPACE
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.fleet.capture import Capture
from echelon.fleet.loop import run
from echelon.fleet.member.profile import Pace
from echelon.fleet.rehearsal.chronicle import RolloutName, waves_of
from echelon.fleet.rehearsal.hazards import read_hazard
from echelon.fleet.rehearsal.lives import Fate, Trial, live
from echelon.fleet.rehearsal.reports import ReportingClient
from echelon.fleet.rehearsal.world import Rehearsal, Write
from echelon.hub.client import InProcessClient
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT
from echelon.hub.storage.store import Key
from echelon.kube.client import MergePatch
from echelon.kube.errors import Conflict, NotFound
from tests.cli.plan_world import NS, TAKEN, fleet, loop_of, work_set
from tests.controllers.strict import STRICT

pytestmark = pytest.mark.full

CLUSTERS, GROUP = 9, 3
WEB = RolloutName(MANIFEST_WORK_REPLICA_SET.resource, NS, "web")


def per_group(**settings: Any) -> JSONObject:
    said = {"minSuccessTime": "2m", "progressDeadline": "5m", "maxFailures": 0, **settings}
    return {"type": "ProgressivePerGroup", "progressivePerGroup": said}


def two_pods(image: str, strategy: JSONObject) -> JSONObject:
    found = work_set(image, strategy)
    found["spec"]["manifestWorkTemplate"]["workload"]["manifests"][0]["spec"]["replicas"] = 2
    return found


def lived(strategy: JSONObject, hazards: tuple[str, ...], seed: int, *, brief: bool) -> tuple[Fate, int]:
    """Live a life; return what became of the rollout, and how often members wrote."""
    labels: dict[str, dict[str, str]] = {f"c{number}": {} for number in range(CLUSTERS)}
    groups = {"groupStrategy": {"clustersPerDecisionGroup": GROUP}}
    first, then = two_pods("web:1", {"type": "All"}), two_pods("web:2", strategy)
    capture = Capture(TAKEN, (*fleet(labels, decisionStrategy=groups), first))
    slots = {WEB: CLUSTERS if strategy["type"] == "All" else GROUP}
    change = Write(MANIFEST_WORK_REPLICA_SET, first, then)
    trial = Trial((change,), (WEB,), tuple(map(read_hazard, hazards)), slots=slots)
    writes = 0

    async def main() -> Fate:
        nonlocal writes
        world = await Rehearsal.begin(capture, brief=brief, settings=STRICT)
        await world.start_controllers()
        await asyncio.sleep(600)
        before = [member.cluster.store.revision for member in world.fleet.members.values()]
        found = await live(world, trial, seed)
        after = [member.cluster.store.revision for member in world.fleet.members.values()]
        writes = sum(after) - sum(before)
        assert not found.violations
        await world.stop()
        return found.fates[0]

    loop = loop_of(seed)
    try:
        return loop.run_until_complete(main()), writes
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("strategy", "hazards", "ending"),
    [
        (per_group(), (), "done"),
        (per_group(), ("image on 100%",), "stopped"),
        (per_group(maxFailures=1), ("crash on 2",), None),
        (per_group(), ("crash on 100% after 3m",), "stopped"),
        (per_group(), ("slow on 4",), "done"),
        (per_group(), ("offline on 2 after 1m",), None),
        ({"type": "All"}, ("crash on 3",), None),
        (
            {"type": "Progressive", "progressive": {"maxConcurrency": 3, "maxFailures": 0}},
            ("image on 100%",),
            "stopped",
        ),
    ],
)
def test_a_brief_life_ends_as_a_full_one_and_by_the_same_waves(
    strategy: JSONObject, hazards: tuple[str, ...], ending: str | None
) -> None:
    (full, long), (brief, short) = (lived(strategy, hazards, 7, brief=each) for each in (False, True))
    assert ending is None or full.ending == ending
    assert (brief.ending, brief.clusters, brief.failed) == (full.ending, full.clusters, full.failed)
    waves = [waves_of({cluster: at for at, cluster in each.starts}, 30.0) for each in (full, brief)]
    assert waves[0] == waves[1]
    assert brief.pods == full.pods
    assert abs(brief.seconds - full.seconds) <= 5 * max(len(waves[0]), 1)
    assert short < 0.8 * long


@pytest.mark.parametrize("seed", [5, 6])
def test_who_has_failed_gives_way_to_others_without_an_alarm(seed: int) -> None:
    fate, _ = lived(per_group(maxFailures=1), ("crash on 2",), seed, brief=True)  # which looks that nothing was broken
    assert (fate.ending, fate.clusters, fate.failed) == ("done, some failed", CLUSTERS, 2)


def test_reports_by_the_short_way_are_stored_as_by_the_long_one() -> None:
    async def stored(kind: type[InProcessClient]) -> list[JSONObject]:
        world = await Rehearsal.begin(Capture(TAKEN, ()))
        hub, client = world.hub, kind(world.hub, ROOT)
        keeping = asyncio.create_task(run_controllers(hub))
        await client.create(NAMESPACE.untyped(), {"metadata": {"name": "c"}})
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}
        body = {"metadata": {"name": "w"}, "spec": {"workload": {"manifests": [manifest]}}}
        made = await client.create(MANIFEST_WORK, {**MANIFEST_WORK.type_meta, **body}, "c")
        found: list[JSONObject] = []
        for status in ("False", "True"):
            said = {"type": "Applied", "status": status, "reason": "R", "message": "", "observedGeneration": 1}
            conditions = [{**said, "lastTransitionTime": "2026-11-18T00:00:00Z"}]
            expected = {"uid": made.metadata.uid, "resourceVersion": made.metadata.resource_version}
            patch = MergePatch({"metadata": expected, "status": {"conditions": conditions}})
            after = await client.patch(MANIFEST_WORK, "w", patch, "c", subresource="status")
            assert after.status.conditions[0].status == status
            with pytest.raises(Conflict):
                await client.patch(MANIFEST_WORK, "w", replace(patch), "c", subresource="status")
            made = after
            entry = hub.store.latest(Key(MANIFEST_WORK.resource, "c", "w"))
            assert entry is not None
            found.append({**entry.object, "metadata": {**entry.object["metadata"], "managedFields": None}})
        with pytest.raises(NotFound):
            await client.patch(MANIFEST_WORK, "other", MergePatch({"status": {}}), "c", subresource="status")
        keeping.cancel()
        await world.stop()
        return found

    both = [run(stored(kind)) for kind in (InProcessClient, ReportingClient)]
    assert both[0] == both[1]


def test_kubelets_that_look_once_a_second_do_so_all_at_the_same_moments() -> None:
    async def main() -> set[float]:
        world = await Rehearsal.begin(
            Capture(TAKEN, (*fleet({"a": {}, "b": {}, "c": {}}), two_pods("web:1", {"type": "All"}))),
            pace=Pace(grain=1.0),
            brief=True,
        )
        moments: set[float] = set()
        for member in world.fleet.members.values():
            member.cluster.store.on_commit(
                lambda change: (
                    moments.add(world.loop.time() % 1.0)
                    if change.entry.key.resource == "pods" and change.entry.object["status"]["phase"] == "Running"
                    else None
                )
            )
        await world.start_controllers()
        await asyncio.sleep(60)
        await world.stop()
        return moments

    assert run(main()) == {0.0}
