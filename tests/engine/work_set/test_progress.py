"""From the conditions of a work to where its cluster stands."""

from datetime import UTC, datetime

import msgspec
import pytest

from echelon.api.base import JSONObject
from echelon.api.times import parse_time
from echelon.api.work import ManifestWork
from echelon.engine.rollout.model import Phase
from echelon.engine.work_set.progress import Progress, progress_of
from tests.engine.work_set.world import template

GENERATION = 3
JANUARY, WRITTEN = "2026-01-01T00:00:00Z", datetime(2026, 6, 1, tzinfo=UTC)
JULY = datetime(2026, 7, 1, tzinfo=UTC)


def work(*conditions: str, rule: bool = False, **metadata: object) -> ManifestWork:
    """Make a work with conditions such as `Applied=True@3`; `+` before the generation dates it in July."""
    listed = []
    for text in conditions:
        kind, _, rest = text.partition("=")
        status, _, generation = rest.partition("@")
        late = generation.startswith("+")
        listed.append(
            {
                "type": kind,
                "status": status,
                "observedGeneration": int(generation.lstrip("+")),
                "lastTransitionTime": "2026-07-01T00:00:00Z" if late else JANUARY,
                "reason": "R",
                "message": "m",
            }
        )
    spec: JSONObject = template()
    if rule:
        rules = [{"condition": "Progressing", "type": "CEL", "celExpressions": ["true"]}]
        identifier = {"resource": "configmaps", "name": "demo"}
        spec["manifestConfigs"] = [{"resourceIdentifier": identifier, "conditionRules": rules}]
    body = {"metadata": {"generation": GENERATION, **metadata}, "spec": spec, "status": {"conditions": listed}}
    return msgspec.convert(body, ManifestWork)


def judged(*conditions: str, rule: bool = False) -> Progress:
    return progress_of(work(*conditions, rule=rule), WRITTEN)


@pytest.mark.parametrize(
    ("conditions", "phase"),
    [
        ((), "Progressing"),  # nothing reported: under way since it was written
        (("Applied=True@3",), "Progressing"),
        (("Applied=True@3", "Progressing=True@2"), "Progressing"),  # about older content
        (("Applied=True@2", "Progressing=False@2"), "Progressing"),
        (("Degraded=True@2",), "Progressing"),
        (("Applied=True@3", "Progressing=True@3"), "Progressing"),
        (("Applied=True@3", "Progressing=True@3", "Degraded=True@3"), "Failed"),
        (("Applied=True@3", "Progressing=True@3", "Degraded=False@3"), "Progressing"),
        (("Applied=True@3", "Progressing=False@3"), "Succeeded"),
        (("Applied=True@3", "Progressing=False@3", "Degraded=False@3"), "Succeeded"),
        (("Applied=True@3", "Progressing=False@3", "Degraded=False@2"), "Progressing"),
        (("Applied=True@3", "Progressing=False@2", "Degraded=False@3"), "Progressing"),
        (("Applied=True@2", "Progressing=False@3", "Degraded=False@3"), "Progressing"),
        (("Applied=True@3", "Progressing=Unknown@3"), "Progressing"),
        (("Applied=Unknown@3", "Progressing=False@3"), "Progressing"),
        (("Applied=False@2", "Progressing=False@3"), "Progressing"),
        (("Applied=True@3", "Progressing=False@3", "Available=False@3"), "Succeeded"),
    ],
)
def test_only_conditions_of_the_present_generation_count(conditions: tuple[str, ...], phase: str) -> None:
    assert judged(*conditions).phase == Phase(phase)


def test_a_manifest_that_cannot_be_applied_is_a_failure() -> None:
    found = judged("Applied=False@3")
    assert (found.phase, found.reason, found.message) == (Phase.FAILED, "ApplyFailed", "m")


def test_what_a_server_refused_is_told_in_its_words() -> None:
    refused: JSONObject = {"type": "Applied", "status": "False", "reason": "R", "lastTransitionTime": JANUARY}
    refused["message"] = "denied by the webhook"
    kept: JSONObject = {**refused, "status": "True", "message": "fine"}
    manifests = [
        {"resourceMeta": {"ordinal": number, "kind": "ConfigMap", "name": name}, "conditions": [said]}
        for number, (name, said) in enumerate([("one", kept), ("two", refused), ("three", refused)])
    ]
    body = msgspec.to_builtins(work("Applied=False@3"))
    body["status"]["resourceStatus"] = {"manifests": manifests}
    found = progress_of(msgspec.convert(body, ManifestWork), WRITTEN)
    assert found.message == "ConfigMap two: denied by the webhook"


def test_a_workload_that_stopped_moving_and_is_degraded_has_failed() -> None:
    assert judged("Applied=True@3", "Progressing=False@3", "Degraded=True@3").phase is Phase.FAILED


def test_an_agent_that_never_speaks_of_progress_is_believed_when_the_objects_exist() -> None:
    assert judged("Applied=True@3", "Available=True@3").phase is Phase.SUCCEEDED
    assert judged("Applied=True@3", "Available=False@3").phase is Phase.PROGRESSING
    assert judged("Applied=True@3", "Available=True@2").phase is Phase.PROGRESSING
    assert judged("Applied=True@3", "Available=True@3", "Degraded=True@3").phase is Phase.FAILED


def test_where_a_rule_asks_for_progress_its_condition_is_waited_for() -> None:
    assert judged("Applied=True@3", "Available=True@3", rule=True).phase is Phase.PROGRESSING
    assert judged("Applied=True@3", "Available=True@3", "Progressing=False@3", rule=True).phase is Phase.SUCCEEDED


@pytest.mark.parametrize(
    "conditions",
    [
        ("Applied=True@3", "Progressing=False@3"),
        ("Applied=True@3", "Progressing=True@3"),
        ("Applied=True@3", "Available=True@3"),
        ("Applied=True@3", "Progressing=True@3", "Degraded=True@3"),
        ("Applied=False@3",),
        ("Applied=True@3", "Progressing=False@2"),
        (),
    ],
)
def test_no_clock_begins_before_the_content_was_written(conditions: tuple[str, ...]) -> None:
    assert judged(*conditions).since == WRITTEN


@pytest.mark.parametrize("conditions", [("Progressing=False@+3",), ("Progressing=True@3", "Degraded=True@+3")])
def test_what_happened_after_the_write_is_dated_by_its_condition(conditions: tuple[str, ...]) -> None:
    assert judged("Applied=True@3", *conditions).since == JULY


def test_works_of_another_hub_are_dated_by_their_conditions() -> None:
    done = work("Applied=True@3", "Progressing=False@3", creationTimestamp="2026-05-01T00:00:00Z")
    assert progress_of(done, None).since == parse_time(JANUARY)
    assert progress_of(work(creationTimestamp="2026-05-01T00:00:00Z"), None).since == datetime(2026, 5, 1, tzinfo=UTC)


def test_counters_ignore_what_was_said_of_older_content() -> None:
    found = judged("Applied=True@3", "Available=True@2", "Progressing=True@2", "Degraded=True@2")
    assert (found.applied, found.available, found.progressing, found.degraded) == (True, False, False, False)


def test_a_work_that_is_being_deleted_is_under_way_since_that() -> None:
    ending = work("Applied=True@3", "Progressing=False@3", deletionTimestamp="2026-07-01T00:00:00Z")
    found = progress_of(ending, WRITTEN)
    assert (found.phase, found.since) == (Phase.PROGRESSING, JULY)


@pytest.mark.parametrize("text", ["", "yesterday", None])
def test_a_time_that_is_none_is_unknown(text: str | None) -> None:
    assert parse_time(text) is None
