"""The words of people: how they are written on an object, read back, and what a rollout makes of them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout import control as verbs
from echelon.engine.rollout.control import BadControl, read_control
from echelon.engine.rollout.model import NO_CONTROL, Control, Wait
from tests.engine.rollout.notation import NOW, decided, moving, seconds, starting, strategy_of

WINDOW, STEPS = "Progressive", "ProgressivePerGroup"
REVISION = "b5xk2d7f9q"


def after(*patches: verbs.Annotations) -> dict[str, str]:
    """Annotations after merge patches."""
    merged: dict[str, str] = {}
    for patch in patches:
        for name, value in patch.items():
            merged.pop(name, None)
            if value is not None:
                merged[name] = value
    return merged


def told(*patches: verbs.Annotations, revision: str = REVISION) -> Control:
    return read_control(after(*patches), revision)


def test_nobody_said_anything() -> None:
    assert told() == NO_CONTROL


def test_pause_and_resume() -> None:
    assert told(verbs.pause()).paused
    assert told(verbs.pause(), verbs.resume(NOW)) == Control(resumed=NOW)


def test_promote_and_retry_remember_the_exact_time() -> None:
    moment = datetime(2026, 11, 1, 13, 0, 0, 123456, tzinfo=timezone(timedelta(hours=1)))
    assert verbs.promote(moment) == {"echelon.dev/promoted-at": "2026-11-01T12:00:00.123456Z"}
    assert told(verbs.promote(moment)).promoted == moment
    assert told(verbs.retry(moment)).retried == moment


def test_an_abort_is_for_one_revision() -> None:
    assert told(verbs.abort(REVISION)).aborted
    assert not told(verbs.abort(REVISION), revision="another").aborted
    assert not read_control({"echelon.dev/aborted": ""}, "").aborted


def test_a_retry_takes_an_abort_back() -> None:
    assert not told(verbs.abort(REVISION), verbs.retry(NOW)).aborted


def test_approvals_add_up_within_a_revision_and_end_with_it() -> None:
    first = after(verbs.approve(REVISION, ["canary"]))
    both = after(verbs.approve(REVISION, ["2", " west "], first["echelon.dev/approved"]))
    assert both == {"echelon.dev/approved": f"{REVISION}:2,canary,west"}
    assert read_control(both, REVISION).approved == {"canary", "2", "west"}
    assert read_control(both, "another").approved == frozenset()
    assert verbs.approve("another", ["0"], both["echelon.dev/approved"]) == {"echelon.dev/approved": "another:0"}


def test_an_approval_replaces_one_that_cannot_be_read() -> None:
    assert verbs.approve(REVISION, ["canary"], "canary") == {"echelon.dev/approved": f"{REVISION}:canary"}


@pytest.mark.parametrize(
    ("value", "gated"),
    [("all", None), ("canary, 2", {"canary", "2"}), ("", frozenset()), ("canary,all", None), (",canary,", {"canary"})],
)
def test_groups_that_wait_for_an_approval(value: str, gated: frozenset[str] | None) -> None:
    assert read_control({"echelon.dev/approval": value}, REVISION).gated == gated


def test_an_approval_calls_a_group_by_its_name_if_it_has_one() -> None:
    assert verbs.approval_name(GroupKey(2, "prod")) == "prod"
    assert verbs.approval_name(GroupKey(2)) == "2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("paused", "yes"),
        ("paused", "True"),
        ("paused", ""),
        ("promoted-at", "yesterday"),
        ("promoted-at", "2026-11-01T12:00:00"),
        ("retried-at", ""),
        ("approved", "canary"),
        ("approved", ":canary"),
    ],
)
def test_what_cannot_be_read_is_named(name: str, value: str) -> None:
    with pytest.raises(BadControl) as mistake:
        read_control({f"echelon.dev/{name}": value}, REVISION)
    assert mistake.value.annotation == f"echelon.dev/{name}"
    assert mistake.value.value == value
    assert str(mistake.value).startswith(f'annotation echelon.dev/{name} is "{value}": it must be ')


def test_times_of_other_zones_are_read() -> None:
    found = read_control({"echelon.dev/promoted-at": "2026-11-01T13:00:00+01:00"}, REVISION).promoted
    assert found == datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_while_paused_what_is_in_flight_goes_on_and_nothing_starts() -> None:
    decision = decided(strategy_of(WINDOW), "1 2 3", "1P-60", Control(paused=True))
    assert moving(decision) == "1P"
    assert decision.blocked is Wait.PAUSED
    assert "echelon.dev/paused" in decision.blocked_message


def test_an_aborted_revision_starts_nowhere() -> None:
    decision = decided(strategy_of("All"), "1 2", "1S", Control(aborted=True, paused=True))
    assert (starting(decision), decision.blocked) == ("", Wait.ABORTED)
    assert "echelon.dev/aborted" in decision.blocked_message


def test_a_promotion_ends_the_soak_of_what_had_succeeded_and_of_nothing_later() -> None:
    strategy = strategy_of(STEPS, minSuccessTime="1h")
    promoted = Control(promoted=NOW - seconds(30))
    assert starting(decided(strategy, "1 2 / 3", "1S-60 2S-30", promoted)) == "3"
    assert moving(decided(strategy, "1 2 / 3", "1S-60 2S-29", promoted)) == "2S+3571"


def test_a_promotion_is_no_success() -> None:
    assert moving(decided(strategy_of(STEPS), "1 / 2", "1P-60", Control(promoted=NOW))) == "1P"


def test_a_retry_gives_failures_until_the_deadline() -> None:
    strategy = strategy_of(STEPS, progressDeadline="90s")
    reports = "1F-1000 2T-500 3P-400 4S-9"
    tried = decided(strategy, "1 2 3 4", reports, Control(retried=NOW - seconds(60)))
    assert (moving(tried), tried.breach, tried.failures) == ("1P+30 2P+30 3P+30", False, {})
    late = decided(strategy, "1 2 3 4", reports, Control(retried=NOW - seconds(90)))
    assert (moving(late), late.breach) == ("", True)


def test_a_retry_is_for_what_failed_in_the_same_moment_too() -> None:
    decision = decided(strategy_of(STEPS), "1", "1F-30", Control(retried=NOW - seconds(30)))
    assert moving(decision) == "1P+570"


def test_a_retry_is_not_for_what_fails_later_nor_for_what_had_not_failed() -> None:
    strategy = strategy_of(STEPS, progressDeadline="90s")
    decision = decided(strategy, "1 2", "1F-10 2P-60", Control(retried=NOW - seconds(30)))
    assert (moving(decision), decision.breach) == ("1F+80 2P+30", True)


@pytest.mark.parametrize(("age", "moves", "breach"), [(599, "1P+1", False), (600, "1F", True)])
def test_a_retry_without_a_deadline_has_ten_minutes(age: int, moves: str, breach: bool) -> None:
    decision = decided(strategy_of(STEPS), "1 2", "1F-1000 2S", Control(retried=NOW - seconds(age)))
    assert (moving(decision), decision.breach) == (moves, breach)
    assert decision.recheck_after == (seconds(1) if not breach else None)


def test_a_retry_leaves_what_progresses_without_a_deadline_alone() -> None:
    assert moving(decided(strategy_of(STEPS), "1 2", "1P-1000 2S", Control(retried=NOW))) == "1P"


def test_a_group_that_needs_an_approval_holds_back_itself_and_later_ones() -> None:
    waiting = decided(strategy_of(STEPS), "1 / prod: 2 / 3", "1S", Control(gated=frozenset({"prod"})))
    assert (starting(waiting), waiting.blocked) == ("", Wait.APPROVAL)
    assert waiting.blocked_message == "awaits approval of group prod (1)"
    given = Control(gated=frozenset({"prod"}), approved=frozenset({"1"}))
    assert starting(decided(strategy_of(STEPS), "1 / prod: 2 / 3", "1S", given)) == "2"


@pytest.mark.parametrize("kind", ["All", WINDOW])
def test_where_groups_go_together_only_the_one_without_approval_waits(kind: str) -> None:
    decision = decided(strategy_of(kind), "1 / prod: 2 / 3", "", Control(gated=frozenset({"1"})))
    assert (starting(decision), decision.blocked) == ("1 3", Wait.APPROVAL)


def test_a_cluster_without_approval_takes_no_slot_from_others() -> None:
    decision = decided(strategy_of(WINDOW, maxConcurrency=1), "prod: 1 / 2", "", Control(gated=frozenset({"prod"})))
    assert starting(decision) == "2"


def test_every_group_may_need_an_approval() -> None:
    control = Control(gated=None, approved=frozenset({"0"}))
    assert starting(decided(strategy_of(STEPS), "1 / 2", "", control)) == "1"
    assert starting(decided(strategy_of(STEPS), "1 / 2", "1S", control)) == ""


def test_a_group_that_is_through_needs_no_approval() -> None:
    assert decided(strategy_of(STEPS), "1 / 2", "1S 2P", Control(gated=None)).blocked is Wait.NOTHING
