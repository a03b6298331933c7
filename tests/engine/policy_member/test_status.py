"""What is written into the status of a policy, and that it fits."""

from typing import Any

import msgspec
import pytest

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.engine.policy_member.documents import Child, PolicyDocument, ReplicaStatus
from echelon.engine.policy_member.reports import Report
from echelon.engine.policy_member.status import (
    MOST_CHANGES_BYTES,
    MOST_DETAILS_BYTES,
    PolicyReport,
    copy_status,
    kept_of,
    policy_report,
    replica_status,
    status_difference,
)
from echelon.engine.policy_member.sync import TemplateState
from echelon.engine.policy_member.verdict import JudgedTemplate, Verdict
from tests.engine.policy_member.world import policy, template

TIME = "2026-01-01T00:00:00Z"


def state(name: str = "web", *messages: str, changes: list[JSONObject] | None = None) -> TemplateState:
    child = Child(CONFIGURATION_POLICY, {"metadata": {"name": name}, "status": {"pendingChanges": changes or []}})
    history = tuple(Report(f"e.{number}", number, each) for number, each in enumerate(messages))
    return TemplateState(name, enforced=True, child=child, synced=True, history=history)


def with_compliance(compliant: str, **more: Any) -> PolicyDocument:
    found = policy(template(), **more)
    return msgspec.structs.replace(found, status=ReplicaStatus(compliant=compliant))


@pytest.mark.parametrize(
    ("messages", "before", "expected"),
    [
        (["Compliant", "Compliant"], "", "Compliant"),
        (["Compliant", "NonCompliant"], "", "NonCompliant"),
        (["Pending", "NonCompliant"], "", "NonCompliant"),
        (["Pending", "Compliant"], "", "Pending"),
        (["Pending", ""], "", "Pending"),
        (["Compliant", ""], "", ""),  # one of two has not reported
        (["Compliant", ""], "NonCompliant", "NonCompliant"),
        ([], "", "Compliant"),
    ],
)
def test_the_compliance_of_a_policy_is_the_worst_of_its_templates(
    messages: list[str], before: str, expected: str
) -> None:
    states = [state(str(number), *filter(None, [each])) for number, each in enumerate(messages)]
    assert reported(with_compliance(before), states).compliant == expected


def test_the_verdict_of_an_object_counts_more_than_the_latest_message() -> None:
    states = [state("a", "NonCompliant; sent before it came to nothing"), state("b", "Compliant")]
    assert reported(policy(), states, "Compliant", "").compliant == "Compliant"
    assert reported(policy(), states, "", "").compliant == "NonCompliant"
    silent = reported(policy(), [state("c")], "Compliant")  # it was evaluated, and its report is on the way
    assert silent.details == [{"templateMeta": {"name": "c"}, "compliant": "Compliant"}]


def test_details_have_an_entry_a_template_in_their_order() -> None:
    found = reported(policy(), [state("b", "Compliant; x"), state("a")])
    entry = {"lastTimestamp": "1970-01-01T00:00:00Z", "message": "Compliant; x", "eventName": "e.0"}
    assert found.details == [
        {"templateMeta": {"name": "b"}, "compliant": "Compliant", "history": [entry]},
        {"templateMeta": {"name": "a"}},
    ]


def reported(copy: PolicyDocument, states: list[TemplateState], *verdicts: str) -> PolicyReport:
    judged = [JudgedTemplate(each, True) for each in verdicts or [""] * len(states)]
    return policy_report(copy, states, judged)


def change(number: int, diff: str = "") -> JSONObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": f"m{number}", "change": "Update", "diff": diff}


def test_what_enforcing_would_change_is_told_while_held_only() -> None:
    states = [state(changes=[change(1, "-a\n+b")])]
    (held,) = reported(with_compliance("", held=True), states).details
    assert held["pendingChanges"] == [change(1, "-a\n+b")]
    (free,) = reported(with_compliance(""), states).details
    assert "pendingChanges" not in free


def test_what_enforcing_would_change_is_cut() -> None:
    states = [state(str(each), changes=[change(number, "x" * 4000) for number in range(30)]) for each in range(40)]
    details = reported(with_compliance("", held=True), states).details
    listed = [each.get("pendingChanges", []) for each in details]
    assert all(len(each) <= 20 for each in listed)
    assert len(msgspec.json.encode(listed)) <= MOST_CHANGES_BYTES + 40 * 24
    assert len(listed[0]) == 20
    with_diff = [each for changes in listed for each in changes if "diff" in each]
    assert 0 < len(with_diff) < 20
    assert sum(len(each) for each in listed) > 100  # the rest at least by name


def test_a_history_is_cut_before_a_server_refuses_it() -> None:
    states = [state(str(number), *["NonCompliant; " + "x" * 4000] * 10) for number in range(512)]
    report = reported(policy(), states)
    assert len(msgspec.json.encode(report.details)) <= MOST_DETAILS_BYTES
    assert all(each["history"][0]["message"].startswith("NonCompliant; x") for each in report.details)
    assert report.compliant == "NonCompliant"


def test_only_fields_that_are_the_agents_are_written_on_the_hub() -> None:
    report = reported(policy(), [state("web", "Compliant")])
    verdict = Verdict("Progressing", TIME, 3)
    assert set(replica_status(report, verdict, judged=False)) == {"compliant", "details", "observedGeneration"}
    judged = replica_status(report, verdict, judged=True)
    assert (judged["rolloutStatus"], judged["rolloutLastTransitionTime"]) == ("Progressing", TIME)
    assert copy_status(report, verdict)["rolloutStatus"] == "Progressing"
    assert copy_status(report, Verdict("", "", 3))["rolloutStatus"] is None


def test_a_status_that_is_there_is_not_written_again() -> None:
    report = reported(policy(), [state("web", "Compliant")])
    wanted = copy_status(report, Verdict("Succeeded", TIME, 3))
    live = msgspec.convert(wanted, ReplicaStatus)
    assert status_difference(live, wanted) == {}
    assert status_difference(ReplicaStatus(), wanted) == wanted
    emptied = copy_status(reported(with_compliance(""), [state()]), Verdict("", "", 3))
    assert status_difference(live, emptied)["compliant"] is None
    assert status_difference(live, emptied)["rolloutStatus"] is None


def test_what_a_server_does_not_keep_is_told_once() -> None:
    report = reported(policy(), [state("web", "Compliant")])
    wanted = replica_status(report, Verdict("", "", 3), judged=False)
    pruned = ReplicaStatus(compliant="Compliant", details=report.details)  # no observedGeneration
    assert status_difference(pruned, wanted) == {"observedGeneration": 3}
    kept = kept_of(pruned, wanted)
    assert status_difference(pruned, wanted, kept) == {}
    assert status_difference(ReplicaStatus(compliant="Pending", details=report.details), wanted, kept) != {}
    assert kept_of(msgspec.convert(wanted, ReplicaStatus), wanted) is None
