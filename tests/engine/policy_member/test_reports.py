"""From compliance events to the history of a template."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import Event
from echelon.engine.policy_member.documents import Child, PolicyDocument
from echelon.engine.policy_member.reports import (
    MOST_ENTRIES,
    PastReports,
    Report,
    event_of,
    news_of,
    template_of,
)
from tests.engine.policy_member.world import CLUSTER, NAME, policy, template

SECOND = 1_000_000_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
START = int(NOW.timestamp()) * SECOND


def event(moment: int, message: str, *, name: str = "web", uid: str = "u1", reason: str = "") -> Event:
    body = {
        "metadata": {"name": f"{NAME}.{moment:x}", "namespace": CLUSTER},
        "involvedObject": {"kind": "Policy", "name": NAME, "uid": uid},
        "reason": reason or f"policy: {CLUSTER}/{name}",
        "message": message,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    return msgspec.convert(body, Event)


def child(*history: JSONObject) -> Child:
    return Child(CONFIGURATION_POLICY, {"metadata": {"name": "web"}, "status": {"history": list(history)}})


def with_details(*reports: Report, name: str = "web") -> PolicyDocument:
    found = policy(template())
    detail: JSONObject = {"templateMeta": {"name": name}, "history": [each.entry() for each in reports]}
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, details=[detail]))


def reports_of(
    parent: PolicyDocument, events: Iterable[Event], of: Child | None, *, foreign: bool = False
) -> tuple[Report, ...]:
    return PastReports(parent, events).of("web", of, foreign=foreign)


def told(*events: Event, **more: Any) -> list[str]:
    found = reports_of(more.pop("parent", policy(template())), events, more.pop("of", None), **more)
    return [each.message for each in found]


def test_the_newest_report_is_first_by_the_name_of_its_event() -> None:
    # All of one second; only the names tell them apart.
    found = told(event(START + 2, "second"), event(START + 3, "third"), event(START + 1, "first"))
    assert found == ["third", "second", "first"]


def test_only_events_about_this_policy_and_template_count() -> None:
    others = [
        event(START, "of another uid", uid="u2"),
        event(START, "of another template", name="db"),
        event(START, "no report at all", reason="PolicySpecSync"),
    ]
    assert told(*others, event(START, "this")) == ["this"]
    assert told(event(START, "without namespace", reason="policy: web")) == ["without namespace"]


def test_reasons_name_templates() -> None:
    reasons = ("policy: c1/web", "policy: web", "Policy:c1/web", "policy: a/b/web", "PolicyStatusSync")
    assert [template_of(each) for each in reasons] == ["web", "web", "web", "", ""]


def test_the_prefix_of_combined_events_is_dropped() -> None:
    (found,) = reports_of(policy(template()), [event(START, "(combined from similar events): NonCompliant; bad")], None)
    assert (found.message, found.compliance) == ("NonCompliant; bad", "NonCompliant")


def test_the_state_is_what_the_message_begins_with() -> None:
    said = ("Compliant", "compliant; x", "NonCompliant", "Pending; y", "whatever", "")
    found = [Report("e", 0, each).compliance for each in said]
    assert found == ["Compliant", "Compliant", "NonCompliant", "Pending", "NonCompliant", "NonCompliant"]


def test_what_an_object_reports_itself_is_merged_and_told_once() -> None:
    moment = START + 123_456_789
    history = child({"lastTimestamp": "2026-01-01T00:00:00.123456Z", "message": "Compliant; fine"})
    both = reports_of(policy(template()), [event(moment, "Compliant; fine")], history)
    assert [each.name for each in both] == [f"{NAME}.{moment:x}"]
    alone = reports_of(policy(template()), [], history)
    assert [(each.name, each.message) for each in alone] == [(f"{NAME}.{START + 123_456_000:x}", "Compliant; fine")]
    later = event(moment + 6_000, "Compliant; fine")
    assert len(reports_of(policy(template()), [later], history)) == 2


def test_what_was_reported_before_survives_its_events() -> None:
    old = Report(f"{NAME}.{START:x}", START, "Compliant; old")
    assert told(event(START + 9, "new"), parent=with_details(old)) == ["new", "Compliant; old"]
    assert told(parent=with_details(old, name="db")) == []
    assert told(parent=with_details(old), foreign=True) == []


def test_an_entry_without_a_time_is_no_entry() -> None:
    assert told(of=child({"message": "Compliant"}, {"message": "x", "lastTimestamp": "never"})) == []


REPORTS = st.lists(st.tuples(st.integers(0, 20_000), st.sampled_from(["Compliant; a", "NonCompliant; b"])), max_size=25)


@given(REPORTS, REPORTS)
def test_a_history_is_short_ordered_and_at_rest_after_it_was_written(
    events: list[tuple[int, str]], more: list[tuple[int, str]]
) -> None:
    listed = [event(START + moment, message) for moment, message in events]
    parent = policy(template())
    for _ in range(3):
        found = reports_of(parent, listed, None)
        assert len(found) <= MOST_ENTRIES
        moments = [each.nanoseconds for each in found]
        assert moments == sorted(moments, reverse=True)
        for newer, older in pairwise(found):
            assert newer.message != older.message or newer.nanoseconds - older.nanoseconds > 5_000
        parent = with_details(*found)
        assert reports_of(parent, listed, None) == found
        listed = [event(START + moment, message) for moment, message in more]


def test_trouble_is_reported_once_and_again_after_something_else() -> None:
    parent, message = policy(template()), "NonCompliant; template-error; oh no"
    first = news_of(parent, message, (), NOW)
    assert first is not None
    assert first.name == f"{NAME}.{START:x}"
    assert news_of(parent, message, (first,), NOW) is None
    assert news_of(parent, "", (), NOW) is None
    late = Report("e", START + SECOND, "Compliant; from a clock that is ahead")
    again = news_of(parent, message, (late, first), NOW)
    assert again is not None
    assert reports_of(with_details(late, first, again), [], None)[0].message == message


def test_an_event_says_which_policy_and_template_it_is_about() -> None:
    parent, report = policy(template()), Report(f"{NAME}.{START:x}", START, "Pending; waits")
    body = event_of(parent, "web", report, "echelon")
    assert reports_of(parent, [msgspec.convert(body, Event)], None) == (report,)
    assert (body["type"], body["action"], body["lastTimestamp"]) == (
        "Warning",
        "ComplianceStateUpdate",
        "2026-01-01T00:00:00Z",
    )
    assert event_of(parent, "web", Report("e", 0, "Compliant"), "echelon")["type"] == "Normal"
