"""What a work reports about its objects, in the words of the wire."""

import pytest

from echelon.api.base import JSONObject
from echelon.api.manifest_config import ConditionRule, ManifestConfig, ResourceIdentifier
from echelon.api.work import ManifestResourceMeta
from echelon.engine.work.reporting import (
    Absent,
    Applied,
    NotApplied,
    ObservedManifest,
    Present,
    Unreached,
    Unreadable,
    report,
)
from tests.engine.work.works import CONFIG, at, conditions, config, done, meta, rule, stamp, statuses, web, work


def test_a_healthy_work_says_so_with_the_words_of_the_wire() -> None:
    status = report(work(), [done(web(5)), done(CONFIG, 1, "ConfigMap", "c")], at(0))
    told = {kind: (each.status, each.reason, each.message) for kind, each in conditions(status).items()}
    assert told == {
        "Applied": ("True", "AppliedManifestWorkComplete", "Apply manifest work complete"),
        "Available": ("True", "ResourcesAvailable", "All resources are available"),
        "Progressing": ("False", "ObjectsHealthy", "All objects are healthy"),
        "Degraded": ("False", "ObjectsNotDegraded", "No object is degraded"),
    }
    told = {kind: (each.status, each.reason, each.message) for kind, each in conditions(status, 1).items()}
    assert told == {
        "Applied": ("True", "AppliedManifestComplete", "Apply manifest complete"),
        "Available": ("True", "ResourceAvailable", "Resource is available"),
        "StatusFeedbackSynced": ("True", "NoStatusFeedbackSynced", ""),
    }
    every = [*status.conditions, *conditions(status, 0).values(), *conditions(status, 1).values()]
    assert {(each.observed_generation, each.last_transition_time) for each in every} == {(1, stamp(0))}


def test_objects_that_are_not_healthy_are_named_with_the_reason() -> None:
    status = report(
        work(), [done(web(2)), done(CONFIG, 1, "ConfigMap", "c"), done(web(0, wanted=1), 2, name="api")], at(0)
    )
    progressing = conditions(status)["Progressing"]
    assert (progressing.status, progressing.reason) == ("True", "ObjectsProgressing")
    assert progressing.message == "Deployment shop/web: 2 of 5 available; Deployment shop/api: 0 of 1 available"
    assert conditions(status)["Degraded"].status == "False"


def test_a_long_list_of_objects_is_cut() -> None:
    status = report(work(), [done(web(0), n, name=f"web-{n}") for n in range(8)], at(0))
    assert conditions(status)["Progressing"].message.endswith("web-4: 0 of 5 available; and 3 more")


def test_one_degraded_object_makes_the_work_degraded_and_not_done() -> None:
    status = report(work(), [done(web(2, late=True)), done(CONFIG, 1, "ConfigMap", "c")], at(0))
    assert statuses(status) == {"Applied": "True", "Available": "True", "Progressing": "True", "Degraded": "True"}
    degraded = conditions(status)["Degraded"]
    assert (degraded.reason, degraded.message) == ("ObjectsDegraded", "Deployment shop/web: late")


def test_a_manifest_that_could_not_be_applied_is_not_done() -> None:
    failed = ObservedManifest(meta(), NotApplied("forbidden"), Present(web(5)))
    status = report(work(), [failed, done(CONFIG, 1, "ConfigMap", "c")], at(0))
    assert statuses(status) == {"Applied": "False", "Available": "True", "Progressing": "True", "Degraded": "False"}
    applied, of_work = conditions(status, 0)["Applied"], conditions(status)["Applied"]
    assert (applied.reason, applied.message) == ("AppliedManifestFailed", "Failed to apply manifest: forbidden")
    assert (of_work.reason, of_work.message) == ("AppliedManifestWorkFailed", "Failed to apply manifest work")
    assert conditions(status)["Progressing"].message == "Deployment shop/web: Failed to apply manifest: forbidden"


def test_that_nobody_answered_says_nothing_about_a_manifest() -> None:
    away = ObservedManifest(meta(), Unreached("connection refused"), Unreadable("connection refused"))
    status = report(work(), [away, done(CONFIG, 1, "ConfigMap", "c")], at(0))
    assert (statuses(status)["Applied"], statuses(status)["Progressing"]) == ("Unknown", "True")
    assert conditions(status)["Applied"].reason == "ClusterUnreachable"
    assert conditions(status)["Applied"].message.startswith("Deployment shop/web: Nothing is known yet")
    assert "connection refused" in conditions(status)["Progressing"].message
    worse = report(work(), [away, ObservedManifest(meta(1, "Job", "j"), NotApplied("forbidden"), Absent())], at(0))
    assert statuses(worse)["Applied"] == "False"
    back = report(work(status=status), [done(web(5)), done(CONFIG, 1, "ConfigMap", "c")], at(1))
    assert (statuses(back)["Applied"], statuses(back)["Progressing"]) == ("True", "False")


@pytest.mark.parametrize("verdict", [Applied(), NotApplied("forbidden")])
def test_what_is_known_of_a_generation_is_not_forgotten_because_nobody_answers(verdict: Applied | NotApplied) -> None:
    first = report(work(), [ObservedManifest(meta(), verdict, Present(web(5)))], at(0))
    away = ObservedManifest(meta(), Unreached("timeout"), Present(web(5)))
    assert report(work(status=first), [away], at(1)) == first
    newer = report(work(generation=2, status=first), [away], at(2))
    assert (conditions(newer)["Applied"].status, conditions(newer)["Applied"].observed_generation) == ("Unknown", 2)


def test_a_fault_in_ignored_fields_has_its_own_reason() -> None:
    failed = ObservedManifest(meta(), NotApplied("bad jq", ignored_fields=True), Absent())
    applied = conditions(report(work(), [failed], at(0)), 0)["Applied"]
    assert applied.reason == "AppliedManifestSSAIgnoreFieldError"
    assert applied.message == "Failed to process ignoreFields: bad jq"


def test_a09_changed_values_start_the_clock_of_the_feedback() -> None:
    given = config(n=".status.availableReplicas")
    first = report(work(given), [done(web(2))], at(0))
    same = report(work(given, generation=2, status=first), [done(web(2))], at(1))
    assert conditions(same, 0)["StatusFeedbackSynced"].last_transition_time == stamp(0)
    second = report(work(given, status=first), [done(web(3))], at(2))
    synced = conditions(second, 0)["StatusFeedbackSynced"]
    assert (synced.status, synced.reason, synced.last_transition_time) == ("True", "StatusFeedbackSynced", stamp(2))
    assert second.resource_status.manifests[0].status_feedback.values[0].field_value.integer == 3


def test_a41_a_path_that_fails_is_told_and_the_good_value_kept() -> None:
    status = report(work(config(good=".status.replicas", bad=".status[", worse=".status.")), [done(web(5))], at(0))
    synced = conditions(status, 0)["StatusFeedbackSynced"]
    assert (synced.status, synced.reason) == ("False", "StatusFeedbackSyncFailed")
    assert synced.message.startswith(
        "Sync status feedback failed with error [failed to parse json path .status[ of bad"
    )
    assert [each.name for each in status.resource_status.manifests[0].status_feedback.values] == ["good"]


def test_a43_structures_are_reported_if_the_agent_may() -> None:
    given = config(all=".spec")
    assert statuses(report(work(given), [done(web(5))], at(0)), 0)["StatusFeedbackSynced"] == "False"
    status = report(work(given), [done(web(5))], at(0), raw_limit=1024)
    assert status.resource_status.manifests[0].status_feedback.values[0].field_value.json_raw == '{"replicas":5}'


def test_values_of_an_object_that_cannot_be_read_are_kept() -> None:
    given = config(n=".status.availableReplicas")
    first = report(work(given), [done(web(2))], at(0))
    second = report(work(given, status=first), [ObservedManifest(meta(), None, Absent())], at(1))
    assert second.resource_status.manifests[0].status_feedback == first.resource_status.manifests[0].status_feedback


def test_a44_the_first_configuration_that_sets_an_aspect_wins() -> None:
    configs = [config(name="web", a=".status.replicas"), config([rule("X", "true")], b=".status.replicas")]
    status = report(work(*configs), [done(web(5)), done(web(5), 1, name="api")], at(0))
    values = [[each.name for each in one.status_feedback.values] for one in status.resource_status.manifests]
    assert values == [["a"], ["b"]]
    assert statuses(status, 0)["X"] == statuses(status, 1)["X"] == "True"


# ---- rules


def test_users_rules_win_over_health_for_their_condition_only() -> None:
    given = config([rule("Progressing", "object.status.availableReplicas < 2", "fewer than two")])
    status = report(work(given), [done(web(2))], at(0))
    progressing = conditions(status)["Progressing"]
    assert (progressing.status, progressing.reason, progressing.message) == (
        "False",
        "ConditionRulesAggregated",
        "fewer than two",
    )
    assert conditions(status)["Degraded"].reason == "ObjectsNotDegraded"
    worse = report(work(given), [done(web(1, late=True))], at(0))
    assert (statuses(worse)["Progressing"], statuses(worse)["Degraded"]) == ("True", "True")


def test_objects_without_a_rule_are_judged_by_health_beside_those_with_one() -> None:
    given = config([rule("Progressing", "false")], name="web")
    status = report(work(given), [done(web(2)), done(web(3), 1, name="api")], at(0))
    assert conditions(status)["Progressing"].message == "Deployment shop/api: 3 of 5 available"
    degraded = config([rule("Degraded", "true", "by rule")], name="web")
    status = report(work(degraded), [done(web(5)), done(CONFIG, 1, "ConfigMap", "c")], at(0))
    assert conditions(status)["Degraded"].message == "Deployment shop/web: by rule"
    assert statuses(status)["Degraded"] == "True"


@pytest.mark.parametrize(
    ("condition", "results", "expected"),
    [
        ("Shiny", ("true", "false"), "False"),
        ("Shiny", ("true", "true"), "True"),
        ("Shiny", ("false", "false"), "False"),
        ("Shiny", ("true", "Rego"), "Unknown"),
        ("Shiny", ("false", "Rego"), "False"),
        ("Progressing", ("true", "false"), "True"),
        ("Progressing", ("false", "false"), "False"),
        ("Progressing", ("false", "Rego"), "Unknown"),
        ("Progressing", ("true", "Rego"), "True"),
        ("Degraded", ("true", "false"), "True"),
        ("Degraded", ("false", "false"), "False"),
    ],
)
def test_a50_aggregation(condition: str, results: tuple[str, str], expected: str) -> None:
    def one(name: str, result: str) -> ManifestConfig:
        kind = "Rego" if result == "Rego" else "CEL"
        return config([ConditionRule(condition=condition, type=kind, cel_expressions=[result])], name)

    configs = [one("a", results[0]), one("b", results[1])]
    status = report(work(*configs), [done(web(5), 0, name="a"), done(web(5), 1, name="b")], at(0))
    made = conditions(status)[condition]
    assert (made.status, made.reason) == (expected, "ConditionRulesAggregated")
    assert made.message == "Aggregated from 2 manifest conditions"


def test_a13_a46_a_job_completes_the_work_with_its_own_message() -> None:
    given = ManifestConfig(
        resource_identifier=ResourceIdentifier(group="batch", resource="jobs", name="m", namespace="shop"),
        condition_rules=[ConditionRule(condition="Complete", type="WellKnownConditions")],
    )
    running: JSONObject = {"apiVersion": "batch/v1", "kind": "Job", "status": {}}
    over = {**running, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    first = report(work(given), [done(running, 0, "Job", "m")], at(0))
    assert (statuses(first)["Complete"], statuses(first)["Progressing"]) == ("False", "True")
    second = report(work(given, status=first), [done(over, 0, "Job", "m")], at(1))
    complete = conditions(second)["Complete"]
    assert (complete.status, complete.reason) == ("True", "ConditionRulesAggregated")
    assert complete.message == "Manifest is Complete"
    gone = ObservedManifest(meta(0, "Job", "m"), None, Absent())
    third = report(work(given, generation=2, status=second), [gone], at(2))
    assert (statuses(third)["Complete"], statuses(third)["Progressing"]) == ("True", "False")


def test_a49_a_bad_expression_is_false_on_every_object_that_the_wildcard_names() -> None:
    status = report(work(config([rule("X", "1 +")])), [done(web(5)), done(web(5), 1, name="api")], at(0))
    for index in (0, 1):
        made = conditions(status, index)["X"]
        assert (made.status, made.reason) == ("False", "ConditionRuleExpressionError")
    assert statuses(status)["X"] == "False"


def test_a50_a_rule_that_is_gone_takes_its_condition_along() -> None:
    first = report(work(config([rule("X", "true"), rule("Progressing", "true")])), [done(web(5))], at(0))
    assert "X" in statuses(first)
    second = report(work(generation=2, status=first), [done(web(5))], at(1))
    assert set(statuses(second)) == {"Applied", "Available", "Progressing", "Degraded"}
    assert set(statuses(second, 0)) == {"Applied", "Available", "StatusFeedbackSynced"}
    assert conditions(second)["Progressing"].reason == "ObjectsHealthy"


def test_a50_without_manifests_availability_is_unknown_and_nothing_was_applied() -> None:
    status = report(work(), [], at(0))
    available = conditions(status)["Available"]
    assert (available.status, available.reason) == ("Unknown", "ResourcesStatusUnknown")
    assert "Applied" not in statuses(status)


def test_a50_what_cannot_be_identified_is_unknown() -> None:
    nobody = ManifestResourceMeta(ordinal=0, group="example.com", version="v1", kind="Widget", name="w")
    status = report(work(), [ObservedManifest(nobody, NotApplied('no resource type "Widget"'), Absent())], at(0))
    available = conditions(status, 0)["Available"]
    assert (available.status, available.reason) == ("Unknown", "IncompleteResourceMeta")
    assert statuses(status) == {"Applied": "False", "Available": "Unknown", "Progressing": "True", "Degraded": "False"}


def test_a_rule_may_redefine_availability_without_flapping() -> None:
    given = config([rule("Available", "false", "never")])
    first = report(work(given), [done(web(5))], at(0))
    assert statuses(first, 0)["Available"] == statuses(first)["Available"] == "False"
    assert report(work(given, status=first), [done(web(5))], at(1)) == first
