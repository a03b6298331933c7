"""Fleets: what a line describes, that one seed is one fleet, and that many members fit into one process."""

import asyncio
import hashlib
import re
from math import inf
from pathlib import Path

import pytest

from echelon.api.apps import DEPLOYMENT
from echelon.fleet.loop import run, running
from echelon.fleet.member.fleet import Fleet
from echelon.fleet.member.fleet_spec import CLAUSES, DEFAULT, BadFleetSpec, Clause, profiles
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import Pace, Profile
from echelon.fleet.member.trouble import ImageError, Offline, SlowStart
from echelon.hub.server import Hub, Settings
from echelon.hub.storage.store import Change
from echelon.kube.client import MergePatch
from tests.fleet.member.world import NS, workload

D = DEPLOYMENT.untyped()
IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}


def test_a_line_describes_a_fleet() -> None:
    made = profiles("6 clusters; regions eu/us/ap; environments staging/production; nodes 2; canary label on 2")
    assert [each.name for each in made] == ["eu-1", "us-1", "ap-1", "eu-2", "us-2", "ap-2"]
    assert [each.region for each in made] == ["eu", "us", "ap"] * 2
    assert [each.environment for each in made] == ["staging"] * 3 + ["production"] * 3
    assert [each.cluster_labels.get("canary") for each in made] == ["true", "true", None, None, None, None]
    assert {len(each.nodes) for each in made} == {2}


def test_troubles_meet_some_clusters_and_not_the_canaries() -> None:
    line = "20 clusters; canary on 2; image *:v2 fails on 1; slow starts on 2; offline on 1 from 60 to 300"
    made = profiles(line, seed=3)
    found = {trouble: each for each in made for trouble in each.script.troubles}
    assert ImageError(0.0, inf, "*:v2") in found
    assert Offline(60.0, 300.0) in found
    assert SlowStart() in found
    troubled = [each for each in made if each.script.troubles]
    assert len(troubled) == 4
    assert not any("canary" in each.labels for each in troubled)
    assert profiles(line, seed=3) == made
    assert profiles(line, seed=4) != made
    everywhere = profiles("3 clusters; image *:bad* fails on all")
    assert all(each.script.troubles for each in everywhere)


def test_the_usual_fleet_is_one() -> None:
    assert len(profiles()) == 50
    assert len({each.name for each in profiles(DEFAULT)}) == 50


def test_a_clause_that_nobody_understands_is_named() -> None:
    with pytest.raises(BadFleetSpec, match='"regions:eu" describes nothing'):
        profiles("3 clusters; regions:eu")


def traced(seed: int) -> str:
    """Roll a fleet out and return a digest of everything that was committed, and when."""

    async def main() -> str:
        digest = hashlib.sha256()
        line = (
            "8 clusters; regions eu/us; image *:2 fails on 1 from 0 to 300; slow starts on 1; offline on 1 from 5 to 20"
        )
        fleet = await Fleet.build(line, seed=seed, clock=running().clock.now)
        await fleet.start()

        def note(name: str, change: Change) -> None:
            uid = change.entry.object["metadata"]["uid"]
            digest.update(f"{running().time()} {name} {change.type} {change.entry.key} {uid}\n".encode())

        for name, member in fleet.members.items():
            member.cluster.store.on_commit(lambda change, name=name: note(name, change))  # type: ignore[misc]
        for name in fleet.members:
            await fleet[name].client().create(D, workload(DEPLOYMENT), NS)
        await asyncio.sleep(600)
        await fleet.stop()
        return digest.hexdigest()

    return run(main(), seed)


def test_one_seed_is_one_history() -> None:
    assert traced(1) == traced(1)
    assert traced(1) != traced(2)


@pytest.mark.full
def test_two_hundred_members_roll_out_at_once() -> None:
    async def main() -> None:
        fleet = await Fleet.build("200 clusters; regions eu/us/ap", clock=running().clock.now)
        await fleet.start()
        for name in fleet.members:
            await fleet[name].client().create(D, workload(DEPLOYMENT), NS)
        await asyncio.sleep(60)
        for name in fleet.members:
            await fleet[name].client().patch(D, "web", MergePatch(IMAGE), NS)
        await asyncio.sleep(120)
        for name in fleet.members:
            status = (await fleet[name].client().get(D, "web", NS))["status"]
            assert [status[f"{each}Replicas"] for each in ("updated", "ready", "available")] == [3, 3, 3]
            assert status["observedGeneration"] == 2
        # At rest nobody writes, and nothing waits but the deadline of a clock that has nothing to say any more.
        before = {name: member.cluster.store.revision for name, member in fleet.members.items()}
        working = [task for task in running().living() if task.get_name().startswith("controllers")]
        await asyncio.sleep(24 * 3600)
        assert {name: member.cluster.store.revision for name, member in fleet.members.items()} == before
        assert working == []
        assert len(fleet.timers) == 0
        await fleet.stop()

    run(main())


def test_a_fleet_lives_on_the_hub_in_real_time_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    quick = Profile("eu-1", pace=Pace(start=0.02, spread=0.0, stop=0.01))

    async def life(*, first: bool) -> int:
        hub = await Hub.start(Settings(data=tmp_path))
        fleet = await Fleet.build([quick], cluster_for=hub.add_cluster)
        living = asyncio.create_task(fleet.run())
        client = hub.client("eu-1")
        if first:
            await client.create(D, workload(DEPLOYMENT), NS)
        else:
            await client.patch(D, "web", MergePatch({"spec": {"replicas": 5}}), NS)
        wanted = 3 if first else 5
        try:
            async with asyncio.timeout(60):
                while (await client.get(D, "web", NS)).get("status", {}).get("readyReplicas") != wanted:  # noqa: ASYNC110 - as users do
                    await asyncio.sleep(0.02)
        finally:
            living.cancel()
            await asyncio.wait([living])
            await hub.stop()
        return wanted

    assert asyncio.run(life(first=True)) == 3
    assert asyncio.run(life(first=False)) == 5


def test_nodes_keep_quiet_unless_they_are_asked_to_say_that_they_live() -> None:
    def beats(seconds: float) -> int:
        async def main() -> int:
            fleet = await Fleet.build([Profile("c", heartbeat_seconds=seconds)], clock=running().clock.now)
            await fleet.start()
            member: Member = fleet["c"]
            await asyncio.sleep(1)
            before = member.cluster.store.revision
            await asyncio.sleep(60)
            await fleet.stop()
            return member.cluster.store.revision - before

        return run(main())

    assert beats(0.0) == 0
    assert beats(10.0) == 6


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda each: each.form)
def test_every_clause_is_understood_as_help_writes_it(clause: Clause) -> None:
    text = re.sub(r"\bN\b", "3", clause.form.replace("PATTERN", "*").replace("NAME", "a.example/b"))
    before = profiles("4 clusters")
    assert profiles(f"4 clusters; {text}") != before or clause.form == "no troubles"
    if clause.is_trouble:
        (late,) = {each for member in profiles(f"{text} on all from 5 to 6") for each in member.script.troubles}
        assert (late.begin, late.end) == (5.0, 6.0)


def test_what_comes_later_replaces_what_was_said_before_and_troubles_add_up() -> None:
    spec = "4 clusters; regions eu/us; slow starts on all; canary label on 2; regions ap; offline on all"
    assert {each.region for each in profiles(spec)} == {"ap"}
    assert all(len(each.script.troubles) == 2 for each in profiles(spec))
    assert not any(each.script.troubles for each in profiles(f"{spec}; no troubles"))
