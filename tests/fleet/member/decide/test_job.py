import pytest

from echelon.fleet.member.decide.deployment_status import Moment
from echelon.fleet.member.decide.job import JobView, Step, decide, finished, status
from echelon.fleet.member.decide.pods import PodView

_PHASES = {"r": "Running", "s": "Succeeded", "f": "Failed"}
NOW = Moment(1000.0, "2026-01-01T00:00:00Z")


def a_view(text: str, *, parallelism: int = 1, completions: int | None = 1, backoff_limit: int = 2) -> JobView:
    """Read pods: `r`unning, `s`ucceeded, `f`ailed; a digit is how often the last one was restarted."""
    made: list[PodView] = []
    for letter in text:
        if letter.isdigit():
            last = made.pop()
            made.append(PodView("ns", last.name, last.uid, phase=last.phase, restarts=int(letter)))
        else:
            made.append(PodView("ns", f"p{len(made)}", f"u{len(made)}", phase=_PHASES[letter]))
    return JobView(parallelism, completions, backoff_limit, tuple(made))


@pytest.mark.parametrize(
    ("text", "parallelism", "completions", "create", "delete"),
    [
        ("", 1, 1, 1, 0),
        ("", 3, 5, 3, 0),
        ("ssss", 3, 5, 1, 0),
        ("rs", 3, 5, 2, 0),
        ("f", 1, 1, 1, 0),
        ("ff", 1, 1, 1, 0),  # as many failures as allowed
        ("fff", 1, 1, 0, 0),  # more failures than allowed
        ("fffr", 1, 2, 0, 1),  # the rest is called off
        ("rrr", 1, 5, 0, 2),
        ("s", 1, 1, 0, 0),
        ("rrs", 3, None, 0, 0),  # a work queue: after the first success nobody new begins
        ("r2", 1, 1, 0, 1),  # restarts within a pod count as well
    ],
)
def test_a_job_runs_pods_until_enough_succeeded_or_too_many_failed(
    text: str, parallelism: int, completions: int | None, create: int, delete: int
) -> None:
    step = decide(a_view(text, parallelism=parallelism, completions=completions))
    assert (step.create, len(step.delete)) == (create, delete)


def test_a_finished_job_does_nothing_and_says_the_same_for_ever() -> None:
    said = status(a_view("s"), {}, NOW)
    assert finished(said)
    assert said["succeeded"] == 1
    assert [c["type"] for c in said["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    view = JobView(1, 1, 2, (), finished=True)
    assert decide(view) == Step()
    assert status(view, said, NOW) == said


def test_a_job_that_failed_too_often_says_so() -> None:
    said = status(a_view("fff"), {}, NOW)
    assert said["conditions"][-1]["reason"] == "BackoffLimitExceeded"
    assert said["failed"] == 3


def test_a_job_is_not_over_while_pods_run() -> None:
    assert not finished(status(a_view("fffr"), {}, NOW))
