"""The verdict of an agent, and that it is about what was evaluated and nothing else."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.kinds import Kind
from echelon.engine.policy_member.documents import Child, PolicyDocument, ReplicaStatus
from echelon.engine.policy_member.sync import TemplateState
from echelon.engine.policy_member.verdict import NOT_YET, JudgedTemplate, is_evaluated, judge, judge_template
from tests.engine.policy_member.world import policy, template

BEFORE, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
STATUSES = ["", "ToApply", "Progressing", "Succeeded", "Failed", "TimeOut"]


def replica(said: str, *, held: bool = False, observed: int = 1, generation: int = 1) -> PolicyDocument:
    found = policy(template(), held=held)
    meta = msgspec.structs.replace(found.metadata, generation=generation)
    status = ReplicaStatus(
        rollout_status=said, rollout_last_transition_time=BEFORE if said else "", observed_generation=observed
    )
    return msgspec.structs.replace(found, metadata=meta, status=status)


def each(*compliance: str, enforced: bool = True, changing: bool = False) -> list[JudgedTemplate]:
    return [JudgedTemplate(said, enforced, changing) for said in compliance]


COMPLIANT, VIOLATED, PENDING, OPEN = each("Compliant"), each("NonCompliant"), each("Pending"), each("")


@pytest.mark.parametrize(
    ("said", "templates", "expected"),
    [
        ("Progressing", COMPLIANT, "Succeeded"),
        ("Progressing", VIOLATED, "Failed"),
        ("Progressing", PENDING, "Progressing"),
        ("Progressing", OPEN, "Progressing"),
        ("Progressing", [], "Succeeded"),
        ("Progressing", COMPLIANT + VIOLATED, "Failed"),
        ("Progressing", PENDING + VIOLATED, "Failed"),
        ("Progressing", OPEN + VIOLATED, "Progressing"),
        ("Progressing", each("NonCompliant", changing=True), "Progressing"),
        ("Progressing", each("NonCompliant", changing=True) + VIOLATED, "Failed"),
        ("Progressing", each("Compliant", changing=True), "Succeeded"),
        ("Progressing", each("NonCompliant", enforced=False), "Succeeded"),  # an inform policy was looked at
        ("Progressing", each("Pending", enforced=False), "Progressing"),
        ("Progressing", each("NonCompliant", enforced=False) + COMPLIANT, "Failed"),
        ("Failed", COMPLIANT, "Succeeded"),
        ("Succeeded", VIOLATED, "Failed"),
        ("TimeOut", COMPLIANT, "Succeeded"),
        ("TimeOut", VIOLATED, "TimeOut"),
        ("ToApply", COMPLIANT, "ToApply"),
        ("ToApply", VIOLATED, "ToApply"),
        ("", COMPLIANT, ""),
        ("", VIOLATED, ""),
    ],
)
def test_verdicts(said: str, templates: list[JudgedTemplate], expected: str) -> None:
    before = replica(said)
    found = judge(before, templates, NOW, in_step=True)
    assert found.rollout_status == expected
    assert found.differs_from(before) == (expected != said)
    assert found.transition_time == (NOW if expected != said else BEFORE if said else "")


JUDGED = st.builds(
    JudgedTemplate, st.sampled_from(["", "Compliant", "NonCompliant", "Pending"]), st.booleans(), st.booleans()
)
TEMPLATES = st.lists(JUDGED, max_size=3)
SAID = st.sampled_from(STATUSES)


@given(SAID, TEMPLATES, st.booleans())
def test_held_clusters_and_those_that_nobody_asked_are_not_judged(
    said: str, templates: list[JudgedTemplate], in_step: bool
) -> None:
    for before in (replica(said, held=True), replica(""), replica("ToApply")):
        assert not judge(before, templates, NOW, in_step=in_step).differs_from(before)


@given(SAID, TEMPLATES, st.booleans())
def test_content_that_was_not_evaluated_gets_no_verdict(
    said: str, templates: list[JudgedTemplate], in_step: bool
) -> None:
    before = replica(said, observed=1, generation=2)
    found = judge(before, templates, NOW, in_step=in_step)
    if not in_step or any(not known.compliance for known in templates):
        assert not found.differs_from(before)
        assert found.observed_generation == 1
    else:
        assert found.observed_generation == 2


@given(TEMPLATES)
def test_a_time_out_only_ever_becomes_a_success(templates: list[JudgedTemplate]) -> None:
    found = judge(replica("TimeOut"), templates, NOW, in_step=True)
    assert found.rollout_status in ("TimeOut", "Succeeded")
    if found.rollout_status == "Succeeded":
        assert all(known.compliance == "Compliant" for known in templates) or not any(k.enforced for k in templates)


@given(SAID, TEMPLATES)
def test_a_verdict_that_was_written_is_not_written_again(said: str, templates: list[JudgedTemplate]) -> None:
    before = replica(said)
    found = judge(before, templates, NOW, in_step=True)
    status = ReplicaStatus(
        rollout_status=found.rollout_status,
        rollout_last_transition_time=found.transition_time,
        observed_generation=found.observed_generation,
    )
    after = msgspec.structs.replace(before, status=status)
    assert judge(after, templates, "2027-01-01T00:00:00Z", in_step=True) == found


def test_the_same_word_about_new_content_begins_anew() -> None:
    found = judge(replica("Succeeded", observed=1, generation=2), COMPLIANT, NOW, in_step=True)
    assert (found.rollout_status, found.transition_time) == ("Succeeded", NOW)


def test_a_first_report_is_known_as_ours_before_anything_was_evaluated() -> None:
    assert judge(replica("", observed=0), OPEN, NOW, in_step=True).observed_generation == NOT_YET
    assert judge(replica("", observed=0), COMPLIANT, NOW, in_step=True).observed_generation == 1


def child(status: JSONObject, kind: Kind[Any] = CONFIGURATION_POLICY, **notes: str) -> Child:
    meta = {
        "name": "web",
        "generation": 2,
        "annotations": {f"echelon.dev/{k.replace('_', '-')}": v for k, v in notes.items()},
    }
    return Child(kind, {"metadata": meta, "status": status})


THING: Kind[Any] = Kind("x.io", "v1", "ThingPolicy", "thingpolicies", dict[str, Any], status=True)


def test_an_object_was_evaluated_if_it_says_so_of_its_present_generation() -> None:
    assert is_evaluated(child({"lastEvaluatedGeneration": 2}), "")
    assert not is_evaluated(child({"lastEvaluatedGeneration": 1}), "e.9")
    assert not is_evaluated(child({}), "e.9")  # it always tells
    assert is_evaluated(child({"observedGeneration": 2}, THING), "")
    assert not is_evaluated(child({"observedGeneration": 1}, THING), "e.9")


def test_a_kind_that_tells_no_generation_was_evaluated_with_another_report_than_before() -> None:
    assert not is_evaluated(child({}, THING), "")
    assert is_evaluated(child({}, THING), "e.1")
    assert not is_evaluated(child({}, THING, report_before_change="e.1"), "e.1")
    assert is_evaluated(child({}, THING, report_before_change="e.1"), "e.2")


def found(**status: Any) -> Child:
    return child({"lastEvaluatedGeneration": 2, **status})


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (TemplateState("a", True, "NonCompliant; template-error; x"), "NonCompliant"),
        (TemplateState("a", True, "Pending; x"), "Pending"),
        (TemplateState("a", True, "Compliant; x but ignorePending is true"), "Compliant"),
        (TemplateState("a", True), ""),
        (TemplateState("a", True, child=found(compliant="Compliant")), ""),
        (TemplateState("a", True, child=found(compliant="Compliant"), synced=True), "Compliant"),
        (TemplateState("a", True, child=found(compliant="Terminating"), synced=True), ""),
        (TemplateState("a", True, child=found(), synced=True), ""),
    ],
)
def test_a_template_is_judged_by_its_trouble_or_by_its_object(state: TemplateState, expected: str) -> None:
    assert judge_template(state, changed=False).compliance == expected
