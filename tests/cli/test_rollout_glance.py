"""What the status of a rollout says at a glance: of the present spec, in the words that pictures have."""

from typing import Any

import pytest

from echelon.rollouts.glance import Glance, glance
from echelon.rollouts.memory import Memory


def condition(kind: str, status: str, reason: str, message: str = "", generation: int = 2) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def document(*conditions: dict[str, Any], **summary: Any) -> dict[str, Any]:
    status = {"conditions": list(conditions), **({"rollout": summary} if summary else {})}
    return {"metadata": {"name": "web", "namespace": "apps", "generation": 2}, "status": status}


UNDER_WAY = condition("PlacementRolledOut", "False", "Progressing", "1 of 9 clusters are done")


@pytest.mark.parametrize(
    ("conditions", "state", "message"),
    [
        ([], "rolling out", ""),
        ([UNDER_WAY], "rolling out", ""),
        ([condition("PlacementRolledOut", "True", "Complete")], "complete", ""),
        ([condition("PlacementRolledOut", "True", "Complete", generation=1)], "rolling out", ""),
        (
            [UNDER_WAY, condition("RolloutBlocked", "True", "MaxFailuresExceeded", "2 failures")],
            "stopped",
            "2 failures",
        ),
        ([UNDER_WAY, condition("RolloutBlocked", "False", "NotBlocked", "a note")], "rolling out", ""),
        ([UNDER_WAY, condition("RolloutBlocked", "True", "AwaitingApproval", "of b")], "awaiting approval", "of b"),
        (
            [UNDER_WAY, condition("PlacementVerified", "False", "NoPlacement", "p is gone")],
            "misconfigured",
            "p is gone",
        ),
        ([condition("PlacementRolledOut", "False", "RemovalHeld", "too many leave")], "held", "too many leave"),
    ],
)
def test_conditions_of_the_present_spec_tell_the_state(
    conditions: list[dict[str, Any]], state: str, message: str
) -> None:
    assert glance(document(*conditions)) == Glance(state, message)


def test_whoever_succeeded_and_is_not_done_soaks() -> None:
    found = glance(document(UNDER_WAY, done="3/9", succeeded=4, progressing=2, toApply=1, failed=1, timedOut=1))
    assert found.counts == {"done": 3, "soaking": 1, "in flight": 2, "waiting": 1, "failed": 1, "timed out": 1}


def test_an_object_that_cannot_be_read_is_left_to_who_reads_all_of_it() -> None:
    assert glance({**document(), "status": {"conditions": "none"}}) == Glance()


def test_what_was_made_of_an_object_is_remembered_for_as_long_as_readings_ask_for_it() -> None:
    made: list[str] = []

    def make(obj: list[str]) -> str:
        made.append(obj[0])
        return obj[0]

    memory, one, other = Memory(), ["one"], ["other"]
    for asked in ((one, other), (one, other), (one,), (one, other)):
        memory.turn()
        assert [memory.made(make, each) for each in asked] == [each[0] for each in asked]
    assert made == ["one", "other", "other"], "the other one was not asked for, and is kept"
    memory.turn()
    assert memory.made(make, ["one"]) == "one"
    assert made[-1] == "one", "another object is taken for one that is equal"
