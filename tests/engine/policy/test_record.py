"""What the hub notes of a cluster, and what that makes of later reports: good for a soak is good for good."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.meta import Condition
from echelon.api.policy import ClusterCompliance, ComplianceHistory, PolicyStatus, TemplateDetails
from echelon.api.times import format_micro_time
from echelon.engine.policy.compliance_events import event_name
from echelon.engine.policy.record import ABRIDGED, Soak, SuccessTimes, status_of_released, turned_bad
from echelon.engine.policy.replica import Replica
from echelon.engine.rollout.model import ClusterStatus, Phase
from tests.engine.policy.replicas import START, replica

SECOND = timedelta(seconds=1)
SOAK = Soak(60 * SECOND)
moments = st.integers(-100, 300).map(lambda seconds: START + seconds * SECOND)
verdicts = st.sampled_from(["", "ToApply", "Progressing", "Succeeded", "Failed", "TimeOut"])


def noted(status: str = "", at: datetime | None = None, *, abridged: bool = False) -> SuccessTimes:
    """Return a record of one cluster, or of none."""
    time = format_micro_time(at) if at is not None else ""
    entries = [ClusterCompliance(clustername="c1", rollout_status=status, rollout_last_transition_time=time)]
    said = Condition(type=ABRIDGED, status="True", reason="TooManyClusters", message="", last_transition_time="")
    conditions = [said] if abridged else []
    return SuccessTimes.of(PolicyStatus(status=entries if status else [], conditions=conditions))


def said(verdict: str, at: datetime = START, observed: int = 2) -> Replica:
    return replica(
        rollout_status=verdict, rollout_last_transition_time=format_micro_time(at), observed_generation=observed
    )


def judged(one: Replica, record: SuccessTimes, now: datetime, soak: Soak = SOAK) -> ClusterStatus:
    return status_of_released(one, record, soak, now)


@given(verdicts, st.integers(0, 300), st.integers(0, 300))
def test_who_was_good_for_the_soak_stays_good(verdict: str, drifts: int, later: int) -> None:
    since = START + 10 * SECOND
    at = since + SOAK.lasts + drifts * SECOND
    found = judged(said(verdict, at), noted("Succeeded", since), at + later * SECOND)
    assert (found.phase, found.since) == (Phase.SUCCEEDED, since)


@given(st.integers(0, 59), st.integers(0, 300))
def test_a_failure_in_the_soak_counts_whenever_it_is_heard_of(fails: int, later: int) -> None:
    since = START + 10 * SECOND
    at = since + fails * SECOND
    assert judged(said("Failed", at), noted("Succeeded", since), at + later * SECOND).phase is Phase.FAILED


@given(moments, st.integers(0, 59))
def test_a_failure_that_is_seen_in_the_soak_counts_whatever_the_agents_clock_says(at: datetime, later: int) -> None:
    since = START + 10 * SECOND
    assert judged(said("Failed", at), noted("Succeeded", since), since + later * SECOND).phase is Phase.FAILED


def test_a_failure_of_which_nobody_knows_when_it_was_is_none_of_after_the_soak() -> None:
    now, record = START + 500 * SECOND, noted("Succeeded", START + 10 * SECOND)
    untold = replica(rollout_status="Failed", observed_generation=2)
    assert judged(untold, record, now).phase is Phase.FAILED
    assert judged(untold, record, now, Soak()).phase is Phase.SUCCEEDED  # there is nothing that it could have cut short


@pytest.mark.parametrize(("fails", "phase"), [(59, Phase.FAILED), (60, Phase.SUCCEEDED)])
def test_agents_of_others_tell_when_they_failed_by_their_reports(fails: int, phase: Phase) -> None:
    since = START + 10 * SECOND
    at = since + fails * SECOND
    reports = [("NonCompliant; still", at + 99 * SECOND), ("NonCompliant; gone", at), ("Compliant; all is well", since)]
    one = reported([(message, event_name("apps.audit", when)) for message, when in reports])
    assert judged(one, noted("Succeeded", since), at + 200 * SECOND).phase is phase
    endless = reported([("NonCompliant; still", event_name("apps.audit", at + 99 * SECOND))] * 10)
    assert judged(endless, noted("Succeeded", since), at + 200 * SECOND).phase is Phase.FAILED


def reported(history: list[tuple[str, str]]) -> Replica:
    """Return a replica of another agent whose template has a history of messages and names of events."""
    entries = [ComplianceHistory(message=message, event_name=name) for message, name in history]
    details = [TemplateDetails(template_meta={"name": "demo"}, compliant="NonCompliant", history=entries)]
    return replica(details=details, compliant="NonCompliant")


def test_a_soak_that_was_cut_short_by_a_word_is_over() -> None:
    since = START + 10 * SECOND
    late, record = said("Failed", since + 2 * SECOND), noted("Succeeded", since)
    soak = Soak(SOAK.lasts, promoted=since + SECOND)
    assert judged(late, record, since + 2 * SECOND, soak).phase is Phase.SUCCEEDED
    early = Soak(SOAK.lasts, promoted=since - SECOND)
    assert judged(late, record, since + 2 * SECOND, early).phase is Phase.FAILED
    after = Soak(SOAK.lasts, promoted=since + 3 * SECOND)  # what had failed by then was not meant
    assert judged(late, record, since + 4 * SECOND, after).phase is Phase.FAILED


@given(verdicts, st.integers(1, 100))
def test_a_note_of_before_the_content_was_written_says_nothing(status: str, before: int) -> None:
    record = noted(status, START - before * SECOND)
    now = START + 500 * SECOND
    assert judged(said("Failed"), record, now) == judged(said("Failed"), noted(), now)
    assert judged(said("Succeeded"), record, now) == judged(said("Succeeded"), noted(), now)


@given(verdicts, st.integers(0, 1))
def test_a_verdict_on_an_older_generation_never_counts(verdict: str, observed: int) -> None:
    assert judged(said(verdict, observed=observed), noted(), START + SECOND).phase is Phase.PROGRESSING


def test_a_known_failure_outlasts_writes_that_are_no_content() -> None:
    since = START + 10 * SECOND
    found = judged(said("Failed", observed=1), noted("Failed", since), START + 30 * SECOND)
    assert (found.phase, found.since) == (Phase.FAILED, since)
    assert judged(said("Succeeded"), noted("Failed", since), START + 30 * SECOND).phase is Phase.SUCCEEDED


@given(moments)
def test_when_a_success_began_is_what_the_hub_saw_whatever_the_agent_says(at: datetime) -> None:
    now = START + 500 * SECOND
    assert judged(said("Succeeded", at), noted(), now).since == now
    assert judged(said("Succeeded", at), noted("Succeeded", START + SECOND), now).since == START + SECOND


@given(moments)
def test_where_there_is_no_room_for_times_the_agents_does_but_is_never_in_the_future(at: datetime) -> None:
    now = START + 100 * SECOND
    since = judged(said("Succeeded", at), noted(abridged=True), now).since
    assert since is not None
    assert START <= since <= now
    settled = judged(said("Failed", at), noted("Succeeded", abridged=True), now)
    assert (settled.phase, settled.since) == (Phase.SUCCEEDED, START)


@given(st.sampled_from(["Progressing", "Failed", "TimeOut"]), moments)
def test_a_deadline_runs_from_the_write_whatever_is_reported(verdict: str, at: datetime) -> None:
    assert judged(said(verdict, at), noted(), START + 100 * SECOND).deadline_from == START


def test_the_deadline_of_one_that_was_good_runs_from_when_it_turned_bad() -> None:
    since, now = START + 10 * SECOND, START + 30 * SECOND
    assert turned_bad(said("Failed"), noted("Succeeded", since), now) == now
    assert judged(said("Failed"), noted("Succeeded", since), now).deadline_from == now
    assert turned_bad(said("Failed"), noted(), now) is None


@pytest.mark.parametrize("verdict", ["Succeeded", "Failed"])
def test_what_was_written_by_somebody_else_is_judged_too(verdict: str) -> None:
    one = replica(written=None, rollout_status=verdict, observed_generation=2)
    assert judged(one, noted(), START).phase.value == verdict
