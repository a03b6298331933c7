"""PodCliqueSets in `echelon rollout`: the picture, the verbs, and the pods that OnDelete left."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.controllers.clique_world import NS, CliqueWorld, clique, group, now, set_of, told

from echelon.api.base import JSONObject
from echelon.api.grove import POD_CLIQUE_SET
from echelon.cli import main, outdated_pods
from echelon.cli.rollout_tree import headline, tree
from echelon.cli.terminal import plain
from echelon.engine.pod_clique.outdated import choose
from echelon.engine.pod_clique.outdated import outdated_pods as outdated_pods_of
from echelon.engine.rollout import control
from echelon.rollouts.clique_sets import is_applied_by_work, read_set_view
from echelon.rollouts.kinds import find, find_all
from echelon.rollouts.picture import LEFT, Picture

MIXED = set_of(
    clique("front", 3, minAvailable=2),
    clique("lead", 1),
    clique("work", 2),
    strategy="OnDelete",
    podCliqueScalingGroups=[group("pool", "lead", "work")],
)


async def picture(world: CliqueWorld, name: str = "podcliqueset/w") -> Picture:
    _, found = await find(world.client, name, NS)
    return found.picture(now())


def lines(drawn: Picture, *, everything: bool = False) -> list[str]:
    return [plain(line) for line in tree(drawn, everything=everything)]


async def began(world: CliqueWorld, spec: JSONObject = MIXED) -> None:
    world.start()
    await world.apply(spec)
    await world.settle()


def test_a_set_is_shown_replica_by_replica_down_to_the_pods_that_are_not_fine() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world)
        drawn = await picture(world)
        assert (drawn.kind, drawn.name, drawn.state, drawn.number) == ("podcliqueset", "w", "complete", 1)
        assert drawn.counts == {"done": 9}
        assert lines(drawn)[1:] == [
            "complete: 9 of 9 pods done",
            f"{'█' * 40} 100 %",
            "└─ ✔ replica 0  9 of 9 ready, 9 updated",
            "   ├─ ✔ clique front  3 of 3 ready, 3 updated",
            "   └─ ✔ group pool  2 of 2 replicas available",
            "      ├─ ✔ pool 0  3 of 3 ready, 3 updated",
            "      │  ├─ ✔ clique lead  1 of 1 ready, 1 updated",
            "      │  └─ ✔ clique work  2 of 2 ready, 2 updated",
            "      └─ ✔ pool 1  3 of 3 ready, 3 updated",
            "         ├─ ✔ clique lead  1 of 1 ready, 1 updated",
            "         └─ ✔ clique work  2 of 2 ready, 2 updated",
        ]
        await world.roll("v2", "front")
        await world.settle()
        drawn = await picture(world, "pcs/w")
        assert (drawn.state, drawn.number, drawn.counts) == (LEFT, 2, {"done": 6, "outdated": 3})
        shown = "\n".join(lines(drawn))
        assert "├─ ○ clique front  3 of 3 ready, 0 updated, 3 outdated" in shown
        for name in world.names("w-0-front"):
            assert f"○ {name}  outdated on " in shown
        assert max(map(len, lines(drawn))) <= 80
        assert "echelon rollout outdated w -n apps lists the pods that are left" in headline(drawn)
        assert [(each.name, each.picture(now()).state) for each in await find_all(world.client, NS, print)] == [
            ("w", LEFT)
        ]

    told(story)


def test_a_pod_that_does_not_come_up_is_named_with_its_reason() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, set_of(clique("front", 2), clique("big", 1, pods={"nodeSelector": {"no": "such"}})))
        drawn = await picture(world)
        assert (drawn.state, drawn.message) == ("rolling out", "replica 0 is not available")
        shown = " ".join(" ".join(lines(drawn)).replace("│", " ").split())
        assert "▶ clique big 0 of 1 ready, 1 updated" in shown
        assert "node" in shown.partition(world.names("w-0-big")[0])[2]

    told(story)


def test_what_nobody_looks_after_says_so() -> None:
    async def story(world: CliqueWorld) -> None:
        await world.apply(MIXED)
        drawn = await picture(world)
        assert drawn.state == "rolling out"
        assert "echelon run --controllers pod-cliques" in drawn.message

    told(story)


def test_what_was_never_accepted_has_no_revision_and_says_why() -> None:
    async def story(world: CliqueWorld) -> None:
        front, back = clique("front", startsAfter=["back"]), clique("back", startsAfter=["front"])
        await began(world, set_of(front, back, cliqueStartupType="CliqueStartupTypeExplicit"))
        drawn = await picture(world)
        assert lines(drawn)[0].startswith("apps/w  no revision yet  age ")
        assert drawn.state == "misconfigured"
        assert "none of them can ever start" in drawn.message

    told(story)


def test_a_pause_stops_rolling_and_is_shown() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, set_of(clique("front", 4)))
        await world.patch(POD_CLIQUE_SET, "w", {"metadata": {"annotations": control.pause()}})
        await world.roll("v2")
        await world.settle(300)
        assert world.images() == ["v1"] * 4
        assert (await picture(world)).state == "paused"
        await world.patch(POD_CLIQUE_SET, "w", {"metadata": {"annotations": control.resume(now())}})
        await world.settle(300)
        assert world.images() == ["v2"] * 4
        assert (await picture(world)).state == "complete"

    told(story)


def test_outdated_pods_are_chosen_so_that_enough_stay_ready() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world)
        await world.roll("v2")
        await world.settle()
        found = await read_set_view(world.client, await world.client.get(POD_CLIQUE_SET.untyped(), "w", NS))
        pods = outdated_pods_of(found.standing)
        assert len(pods) == 9
        choice = choose(found.standing, pods, 100)
        goes = [each.clique for each in choice.goes]
        assert goes == ["w-0-front", "w-0-pool-0-lead", "w-0-pool-0-work", "w-0-pool-0-work"], (
            "one of three where two are needed, and one whole replica of a group"
        )
        why = {each.clique: reason for each, reason in choice.stays}
        assert why["w-0-front"] == "w-0-front has 2 ready pods and needs 2"
        assert why["w-0-pool-1-work"] == "w-0-pool has 1 available replicas and needs 1"
        assert [each.clique for each in choose(found.standing, pods, 2).goes] == goes[:2]
        for number in range(1, 30):
            await world.delete(*(each.pod.name for each in choice.goes))
            await world.settle()
            found = await read_set_view(world.client, await world.client.get(POD_CLIQUE_SET.untyped(), "w", NS))
            pods = outdated_pods_of(found.standing)
            if not pods:
                break
            choice = choose(found.standing, pods, 100)
            assert choice.goes, f"there is always something that may go, also in round {number}"
        assert world.images() == ["v2"] * 9

    told(story)


def test_undo_is_refused_where_a_work_applies_the_set_and_words_that_mean_nothing_are_refused() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world)
        _, found = await find(world.client, "podcliqueset/w", NS)
        assert sorted(found.refused) == ["approve", "promote"]
        owner = {
            "apiVersion": "work.open-cluster-management.io/v1",
            "kind": "AppliedManifestWork",
            "name": "hub-work",
            "uid": "1",
        }
        body = await world.client.get(POD_CLIQUE_SET.untyped(), "w", NS)
        assert not is_applied_by_work(body)
        assert is_applied_by_work({**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}})
        fields = [{"manager": "work-agent", "fieldsV1": {"f:spec": {}}}]
        assert is_applied_by_work({**body, "metadata": {**body["metadata"], "managedFields": fields}})

    told(story)


def test_history_and_undo_know_what_was_before() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, set_of(clique("front", 2), clique("back", 1)))
        await world.roll("v2", "front")
        await world.settle(300)
        kind, found = await find(world.client, "podcliqueset/w", NS)
        told_of = [kind.describe(each)["images"] for each in found.subject.revisions]
        assert told_of == ["front=v1 back=v1", "front=v2 back=v1"]
        assert found.previous is not None
        assert found.undo is not None
        patch = found.undo(found.previous)
        assert [each["path"] for each in patch if each["op"] != "test"] == ["/spec/template/cliques/0/spec/podSpec"]

    told(story)


class Virtual:
    """A connection to a simulated cluster, for commands that make a loop of their own."""

    def __init__(self, world: CliqueWorld) -> None:
        self._world = world

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        yield self._world.client


def test_the_pods_that_are_left_are_listed_and_deleted_by_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(click, "echo", lambda text="", **_: said.append(str(text)))

    async def story(world: CliqueWorld) -> None:
        await began(world)
        await world.roll("v2", "front")
        await world.settle()
        connection: Any = Virtual(world)
        outdated_pods._print(await outdated_pods._look(connection, "podcliqueset/w", NS), "json")
        listed = json.loads(said.pop())
        assert {each["name"] for each in listed} == set(world.names("w-0-front"))
        assert {(each["clique"], each["revision"], each["ready"]) for each in listed} == {("w-0-front", 1, True)}
        assert all(each["node"] and each["since"] for each in listed)
        limit = outdated_pods.read_limit("100%")
        choice, gone = await outdated_pods._take(connection, "w", NS, limit, dry_run=True)
        assert (len(choice.goes), gone, world.log.ended) == (1, [], [])
        choice, gone = await outdated_pods._take(connection, "w", NS, limit, dry_run=False)
        assert gone == world.log.ended == [choice.goes[0].pod.name]
        outdated_pods._tell(choice, gone, "table", dry_run=False)
        assert said[0] == f"pod {gone[0]} is deleted"
        assert said[1].startswith("2 stay: w-0-front has 2 ready pods and needs 2 (")
        await world.settle()
        assert world.images("w-0-front") == ["v1", "v1", "v2"]

    told(story)


@pytest.mark.parametrize("value", ["0", "-1", "0%", "101%", "many"])
def test_how_many_may_go_is_checked(value: str) -> None:
    result: Result = CliRunner().invoke(main, ["rollout", "outdated", "w", "--delete", "--max", value])
    assert result.exit_code == 2
    assert "must be a number from 1" in result.output


def test_a_dry_run_of_nothing_is_a_mistake() -> None:
    result = CliRunner().invoke(main, ["rollout", "outdated", "w", "--dry-run"])
    assert (result.exit_code, "name both" in result.output) == (2, True)


def test_only_sets_have_outdated_pods() -> None:
    async def story(world: CliqueWorld) -> None:
        with pytest.raises(click.ClickException, match="deployment has no outdated pods"):
            await outdated_pods._read(world.client, "deployment/w", NS)

    told(story)


@pytest.mark.parametrize(("option", "why"), [(["--max", "2"], "--max limits"), (["--dry-run"], "--dry-run says")])
def test_what_is_for_deletion_is_refused_without_it(option: list[str], why: str) -> None:
    done = CliRunner().invoke(main, ["rollout", "outdated", "trainer", *option])
    assert done.exit_code == 2
    assert why in done.output
