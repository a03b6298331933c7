"""docs/cli.md documents what programs read; here it is held against what they get, field by field."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.greetings import ENTRY as GREETINGS
from tests.engine.work_set.world import World, progressive

from echelon.cli.rollout_history import history_of
from echelon.engine.rollout.actions import note_action
from echelon.engine.rollout.control import ABORTED, PAUSED
from echelon.rollouts.kinds import ROLLOUT_KINDS
from echelon.rollouts.picture import MOVING, REASONS, Line, ObjectLine, Picture, document, draw
from echelon.rollouts.reading import Found

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
PODS = Line("replica 0", MOVING, parts=(Line("clique web", MOVING),))


def rows(heading: str) -> list[tuple[list[str], list[str]]]:
    """Return what each row of the first table below a heading names, in its first and in its second column."""
    below = PAGE.split(f"### {heading}\n", 1)[1].split("\n### ", 1)[0]
    table = re.search(r"\|---\|---\|\n((?:\|.*\n)+)", below)
    assert table is not None
    cells = [line.split(" | ", 1) for line in table[1].splitlines()]
    return [(re.findall(r"`([^`]+)`", first), re.findall(r"`([^`]+)`", rest)) for first, rest in cells]


def documented(heading: str) -> set[str]:
    return {name.removesuffix("[]") for names, _ in rows(heading) for name in names}


def told_of(heading: str, field: str) -> set[str]:
    """Return what the row of a field names about it."""
    return next({*rest} for names, rest in rows(heading) if field in names)


def paths(found: Any, at: str = "") -> set[str]:
    """Return the fields of a document, of those that have a row of their own also what is below."""
    below = {"groups", "groups[].clusters"}
    here: set[str] = set()
    for name, value in found.items():
        path = f"{at}{name}"
        here.add(path)
        for each in value if path in below else ():
            here |= paths(each, f"{path}[].")
    return here


def stopped() -> World:
    world = World.of([("canary", ["a"]), ("", ["b", "c"])], progressive(maxConcurrency=1))
    world.settle()
    world.report("a", degraded="True")
    return world


def drawn(world: World) -> Picture:
    objects = {"a": [ObjectLine("Deployment web", "failed", "no nodes")]}
    return draw(world.rollout().subject, objects, world.now)


def test_the_page_names_every_field_of_a_rollout_and_no_other() -> None:
    heading = "`echelon rollout status`, `list`"
    found = document(replace(drawn(stopped()), parts=(PODS,)))
    assert documented(heading) == paths(found)
    cluster = found["groups"][0]["clusters"][0]
    assert {*cluster["objects"][0]} == told_of(heading, "groups[].clusters[].objects[]")
    assert {*found["parts"][0]} == told_of(heading, "parts[]")
    assert {*found["groups"][0]["key"]} == told_of(heading, "groups[].placement")


def test_times_reasons_and_totals_are_there() -> None:
    found = document(drawn(stopped()))
    assert (found["state"], found["reason"], found["over"]) == ("stopped", "TooManyFailures", True)
    assert (found["total"], found["counts"]) == (3, {"failed": 1, "waiting": 2})
    assert [each["total"] for each in found["groups"]] == [1, 2]
    assert found["time"] == "2026-11-01T12:00:00Z"
    [a], [b, _] = (each["clusters"] for each in found["groups"])
    assert (a["since"], b["since"], b["reason"]) == ("2026-11-01T12:00:00Z", "", "TooManyFailures")
    assert all(each["reason"] for group in found["groups"] for each in group["clusters"])


def test_the_page_names_every_reason() -> None:
    table = PAGE.split("| `reason` | `state` |\n|---|---|\n", 1)[1].split("\n\n", 1)[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`([^`]+)`", line.split(" | ")[0])}
    assert named == {*REASONS.values(), "RemovalHeld", "GroupMissing"}


@pytest.mark.parametrize(("annotations", "reason"), [({PAUSED: "true"}, "Paused"), ({ABORTED: "now"}, "Aborted")])
def test_what_people_said_is_a_reason(annotations: dict[str, str], reason: str) -> None:
    world = World.of([("", ["a"])])
    world.settle()
    world.upgrade("2")
    world.annotations |= {name: said.replace("now", world.view().content.digest) for name, said in annotations.items()}
    assert document(drawn(world))["reason"] == reason


def test_a_removal_that_is_held_is_a_reason_of_its_own() -> None:
    world = World.of([("", ["a", "b"])])
    world.settle()
    world.finish()
    world.settle()
    world.placements["p"].groups = [("", [])]
    found = document(drawn(world))
    assert (found["state"], found["reason"]) == ("held", "RemovalHeld")


def test_the_page_names_every_field_of_a_history_and_no_other() -> None:
    world = stopped()
    digest = world.view().content.digest
    noted = note_action({}, "approve", "me", world.now, revision=digest, detail="canary")
    world.annotations |= {name: value for name, value in noted.items() if value is not None}
    found = Found(world.rollout().subject)
    told = [row for kind in (*ROLLOUT_KINDS, GREETINGS) for row in history_of(kind, found)]
    heading = "`echelon rollout history`"
    assert documented(heading) == {name for row in told for name in row}
    [action] = told[0]["actions"]
    assert {*action} == told_of(heading, "actions[]")
