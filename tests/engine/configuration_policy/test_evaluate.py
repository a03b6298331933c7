"""What a policy finds on a cluster, what enforcing it writes, and what is told of it."""

from typing import Any

import msgspec
import pytest

from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP, POD, SECRET
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.engine.configuration_policy.requests import Cause, Do, FindKind, Get, List, Refusal, Request, Try
from echelon.engine.configuration_policy.status import changed_something
from echelon.engine.plan import Create, Patch
from tests.engine.configuration_policy.toy_cluster import WIDGET, Story, ToyCluster, config_map, story, template

HAS = "K8s `must have` object already exists"
LACKS = "K8s does not have a `must have` object"
UNWANTED = "K8s has a `must not have` object"
ABSENT = "K8s `must not have` object already missing"


def informing(*templates: JSONObject, **spec: Any) -> Story:
    return story(*templates, remediationAction="inform", **spec)


def test_a_missing_object_is_told_by_one_who_informs_and_nothing_is_written() -> None:
    told = informing(template(config_map(data={"a": "1"})))
    first = told.evaluate()
    assert told.cluster.writes == []
    assert told.state == "NonCompliant"
    assert told.reasons == [LACKS]
    assert [each.message for each in first.reports] == [
        "NonCompliant; violation - configmaps [x] not found in namespace default"
    ]
    assert told.related == [("x", "NonCompliant", "Resource not found but should exist")]
    assert told.pending == [("Create", "ConfigMap", "x")]
    assert "+  a: " in told.policy.status.pending_changes[0].diff


def test_a_missing_object_is_created_and_the_policy_told_of_twice_but_written_once() -> None:
    told = story(template(config_map(data={"a": "1"})))
    first = told.evaluate()
    assert told.cluster.writes == ["Create ConfigMap x"]
    assert [each.message for each in first.reports] == [
        "NonCompliant; violation - configmaps [x] not found in namespace default",
        "Compliant; notification - configmaps [x] was created successfully in namespace default",
    ]
    assert [each.message for each in reversed(told.policy.status.history)] == [each.message for each in first.reports]
    assert first.reports[0].at < first.reports[1].at
    assert told.state == "Compliant"
    assert told.reasons == ["K8s creation success"]
    assert told.related == [("x", "Compliant", "K8s creation success")]
    properties = told.policy.status.related_objects[0].properties
    assert properties is not None
    assert properties.created_by_policy
    assert properties.uid == told.live(CONFIG_MAP, "x")["metadata"]["uid"]
    second = told.evaluate()
    assert told.cluster.writes == []
    assert [each.message for each in second.reports] == [
        "Compliant; notification - configmaps [x] found as specified in namespace default"
    ]
    assert told.policy.status.related_objects[0].properties == properties, "who created it is not forgotten"
    third = told.evaluate()
    assert (third.reports, third.is_news, told.cluster.writes) == ((), False, [])


def test_an_object_that_differs_is_updated_and_keeps_what_others_put_there() -> None:
    told = story(template(config_map(data={"a": "1"})))
    told.cluster.put(CONFIG_MAP, "x", data={"a": "2", "b": "3"})
    told.evaluate()
    assert told.cluster.writes == ["Patch ConfigMap x"]
    assert told.live(CONFIG_MAP, "x")["data"] == {"a": "1", "b": "3"}
    assert told.reasons == ["K8s update success"]
    properties = told.policy.status.related_objects[0].properties
    assert properties is not None
    assert properties.created_by_policy is None


def test_an_object_that_must_have_nothing_else_loses_the_rest() -> None:
    told = story(template(config_map(data={"a": "1"}), "mustonlyhave"))
    told.cluster.put(CONFIG_MAP, "x", data={"a": "1", "b": "3"}, binaryData={"c": "aGk="}, immutable=False)
    told.evaluate()
    live = told.cluster.get(CONFIG_MAP, "x")
    assert live is not None
    assert live["data"] == {"a": "1"}
    assert "binaryData" not in live
    told.evaluate()
    assert (told.state, told.cluster.writes) == ("Compliant", [])


def test_an_unwanted_object_goes_whatever_it_has() -> None:
    told = story(template(config_map(data={"a": "something else"}), "mustnothave"))
    told.cluster.put(CONFIG_MAP, "x", data={"a": "1"})
    told.evaluate()
    assert told.cluster.writes == ["Delete ConfigMap x"]
    assert told.reasons == ["K8s deletion success"]
    told.evaluate()
    assert (told.state, told.reasons) == ("Compliant", [ABSENT])
    assert told.messages == ["configmaps [x] missing as expected in namespace default"]
    assert told.related == [("x", "Compliant", "Resource not found as expected")]


def test_an_unwanted_object_is_announced_by_one_who_informs() -> None:
    told = informing(template(config_map(), "mustnothave"))
    told.cluster.put(CONFIG_MAP, "x", data={"a": "1"})
    told.evaluate()
    assert (told.state, told.reasons, told.cluster.writes) == ("NonCompliant", [UNWANTED], [])
    assert told.messages == ["configmaps [x] found in namespace default"]
    assert told.pending == [("Delete", "ConfigMap", "x")]


def test_an_unwanted_object_that_a_finalizer_keeps_is_no_failure_at_first_and_then_one() -> None:
    told = story(template(config_map(), "mustnothave"))
    told.cluster.put(CONFIG_MAP, "x")
    told.cluster.stuck.add("x")
    told.evaluate()
    assert (told.state, told.reasons) == ("NonCompliant", ["K8s deletion success"])
    assert changed_something(told.policy.status)
    told.evaluate()
    assert (told.state, told.cluster.writes) == ("NonCompliant", [])
    assert not changed_something(told.policy.status)


def test_a_pod_that_ends_within_its_grace_period_is_no_failure() -> None:
    told = story(
        template({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}, "mustnothave")
    )
    told.cluster.put(POD, "p", metadata={"deletionTimestamp": "2026-05-01T12:00:15Z"})
    told.evaluate()
    assert told.state == "NonCompliant"
    assert changed_something(told.policy.status)
    told.evaluate()
    assert not changed_something(told.policy.status)


@pytest.mark.parametrize("action", ["inform", "enforce"])
def test_a_search_only_informs(action: str) -> None:
    wanted, unwanted = config_map(None, data={"a": "1"}), config_map(None, data={"b": "1"})
    told = story(template(wanted), template(unwanted, "mustnothave"), remediationAction=action)
    told.cluster.put(CONFIG_MAP, "bad", data={"b": "1"})
    told.evaluate()
    assert told.cluster.writes == []
    assert told.messages == ["configmaps not found in namespace default", "configmaps [bad] found in namespace default"]
    assert told.related == [
        ("-", "NonCompliant", "Resource not found but should exist"),
        ("bad", "NonCompliant", "Resource found but should not exist"),
    ]
    assert told.pending == []
    told.cluster.put(CONFIG_MAP, "good", data={"a": "1", "c": "2"})
    told.cluster.drop(CONFIG_MAP, "bad")
    told.evaluate()
    assert told.state == "Compliant"
    assert all(each.properties is None for each in told.policy.status.related_objects)


def test_a_selector_makes_a_template_about_each_object_that_it_selects() -> None:
    selector = {"matchLabels": {"app": "web"}}
    told = story(template(config_map(None, data={"a": "1"}), objectSelector=selector))
    told.evaluate()
    assert (told.state, told.reasons) == ("Compliant", [HAS]), "nothing is selected, so nothing is wrong"
    for name in ("b", "a"):
        told.cluster.put(CONFIG_MAP, name, metadata={"labels": {"app": "web"}})
    told.cluster.put(CONFIG_MAP, "other")
    told.evaluate()
    assert told.cluster.writes == ["Patch ConfigMap a", "Patch ConfigMap b"]
    assert told.messages == ["configmaps [a, b] was updated successfully in namespace default"]


def test_unwanted_objects_that_are_selected_go_only_if_they_fit_the_definition() -> None:
    selector = {"matchLabels": {"app": "web"}}
    told = story(template(config_map(None, data={"a": "1"}), "mustnothave", objectSelector=selector))
    told.cluster.put(CONFIG_MAP, "fits", metadata={"labels": {"app": "web"}}, data={"a": "1"})
    told.cluster.put(CONFIG_MAP, "other", metadata={"labels": {"app": "web"}}, data={"a": "2"})
    told.evaluate()
    assert told.cluster.writes == ["Delete ConfigMap fits"]


def test_objects_without_a_namespace_are_wanted_in_every_selected_one() -> None:
    told = story(template(config_map(namespace=None)), namespaceSelector={"include": ["team-*"]})
    for name in ("team-b", "team-a", "other"):
        told.cluster.namespace(name)
    told.evaluate()
    assert told.messages == ["configmaps [x] was created successfully in namespaces: team-a, team-b"]
    told.cluster.namespace("team-c")
    told.cluster.drop(CONFIG_MAP, "x", "team-a")
    told.change(remediationAction="inform")
    told.evaluate()
    assert told.messages == ["configmaps [x] not found in namespaces: team-a, team-c"], "only what is wrong is named"
    assert [each[1] for each in told.related] == ["NonCompliant", "Compliant", "NonCompliant"]


def test_no_selected_namespace_is_a_violation() -> None:
    told = story(template(config_map(namespace=None)))
    told.evaluate()
    assert (told.state, told.reasons) == ("NonCompliant", ["K8s missing namespace"])
    assert "x of kind ConfigMap" in told.messages[0]
    assert told.cluster.writes == []


def test_a_bad_pattern_of_namespaces_is_named() -> None:
    told = story(template(config_map(namespace=None)), namespaceSelector={"include": ["team-[a"]})
    told.evaluate()
    assert told.reasons == ["namespaceSelector error"]
    assert "team-[a" in told.messages[0]


def test_namespaces_are_asked_for_only_if_somebody_needs_them() -> None:
    told = story(template(config_map()), template({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}))
    told.evaluate()
    assert all(isinstance(each, FindKind | Get | Do) for each in told.cluster.requests)
    assert told.cluster.get(NAMESPACE, "n") is not None


def test_an_unknown_kind_is_a_violation_that_names_it_and_holds_up_no_other_template() -> None:
    gadget = {"apiVersion": "example.io/v1", "kind": "Gadget", "metadata": {"name": "g", "namespace": "default"}}
    told = story(template(gadget), template(config_map()))
    told.evaluate()
    assert told.reasons == ["K8s error", "K8s creation success"]
    assert "Gadget" in told.messages[0]
    assert told.cluster.get(CONFIG_MAP, "x") is not None


def test_two_templates_about_one_object_build_on_each_other() -> None:
    templates = template(config_map(data={"a": "1"})), template(config_map(data={"b": "2"}))
    told = informing(*templates)
    told.evaluate()
    assert told.pending == [("Create", "ConfigMap", "x"), ("Update", "ConfigMap", "x")]
    told.change(remediationAction="enforce")
    told.evaluate()
    assert told.cluster.writes == ["Create ConfigMap x", "Patch ConfigMap x"]
    assert told.live(CONFIG_MAP, "x")["data"] == {"a": "1", "b": "2"}
    assert told.state == "Compliant"
    told.evaluate()
    assert told.cluster.writes == []


def test_what_a_server_fills_in_is_no_difference() -> None:
    def store(kind: Kind[Any], obj: JSONObject) -> JSONObject:
        return {**obj, "spec": {"size": 1, **(obj.get("spec") or {})}} if kind is WIDGET else obj

    told = story(template(widget({"colour": "red"}), "mustonlyhave"), cluster=ToyCluster(store=store))
    told.evaluate()
    told.evaluate()
    assert (told.state, told.cluster.writes, told.reasons) == ("Compliant", [], [HAS])
    properties = told.policy.status.related_objects[0].properties
    assert properties is not None
    assert properties.matches_after_dry_run
    assert any(isinstance(each, Try) for each in told.cluster.requests)


def test_a_zero_value_that_a_server_leaves_out_does_not_toggle() -> None:
    def store(kind: Kind[Any], obj: JSONObject) -> JSONObject:
        return {**obj, "spec": {key: value for key, value in obj["spec"].items() if value}} if kind is WIDGET else obj

    told = story(
        template(widget({"paused": False, "size": 0, "note": "", "colour": "red"})), cluster=ToyCluster(store=store)
    )
    told.evaluate()
    for _ in range(3):
        told.evaluate()
        assert (told.state, told.cluster.writes) == ("Compliant", [])


def test_a_zero_value_that_a_server_keeps_is_enforced() -> None:
    told = story(template(widget({"paused": False, "colour": "red"})))
    told.cluster.put(WIDGET, "w", spec={"colour": "red"})
    told.evaluate()
    assert told.live(WIDGET, "w")["spec"] == {"paused": False, "colour": "red"}


def test_a_server_that_cannot_be_asked_leaves_doubts_unfounded_and_differences_as_they_are() -> None:
    def refuse(request: Request) -> Refusal | None:
        if isinstance(request, Try):
            return Refusal(Cause.NO_DRY_RUN, "webhook does not support dry run")
        return None

    told = story(template(widget({"paused": False})), cluster=ToyCluster(refuse=refuse))
    told.cluster.put(WIDGET, "w", spec={})
    told.evaluate()
    assert (told.state, told.cluster.writes) == ("Compliant", [])
    told.change(**{"object-templates": [template(widget({"colour": "red"}))]})
    told.evaluate()
    assert (told.state, told.cluster.writes) == ("Compliant", ["Patch Widget w"])


def test_a_field_that_may_not_change_is_told_with_the_words_of_the_server() -> None:
    def refuse(request: Request) -> Refusal | None:
        if isinstance(request, Try) and isinstance(request.write, Patch):
            return Refusal(Cause.INVALID, "spec.colour: Invalid value: field is immutable")
        return None

    told = informing(template(widget({"colour": "red"})), cluster=ToyCluster(refuse=refuse))
    told.cluster.put(WIDGET, "w", spec={"colour": "blue"})
    told.evaluate()
    assert (told.state, told.reasons, told.pending) == ("NonCompliant", [LACKS], [])
    (message,) = told.messages
    assert message.startswith("widgets [w] found but not as specified in namespace default: enforcing would be refused")
    assert message.endswith("spec.colour: Invalid value: field is immutable")
    told.change(remediationAction="enforce")
    told.evaluate()
    assert (told.reasons, told.cluster.writes) == (["K8s update template error"], [])
    assert not changed_something(told.policy.status)


@pytest.mark.parametrize("option", ["IfRequired", "Always"])
@pytest.mark.parametrize("action", ["inform", "enforce"])
def test_what_would_have_to_be_replaced_is_left_alone_and_told(action: str, option: str) -> None:
    def refuse(request: Request) -> Refusal | None:
        return Refusal(Cause.INVALID, "field is immutable") if isinstance(request, Try) else None

    told = story(template(widget({"colour": "red"}), recreateOption=option), remediationAction=action)
    told.cluster.refuse = refuse
    told.cluster.put(WIDGET, "w", spec={"colour": "blue"})
    told.evaluate()
    assert (told.cluster.writes, told.reasons, told.pending) == ([], ["Error processing template"], [])
    assert f"spec.object-templates[0].recreateOption {option} is not supported" in told.messages[0]


@pytest.mark.parametrize("cause", [Cause.REFUSED, Cause.TROUBLE, Cause.INVALID])
def test_a_refused_creation_is_told_and_holds_up_nobody(cause: Cause) -> None:
    def refuse(request: Request) -> Refusal | None:
        if isinstance(request, Do) and isinstance(request.write, Create) and request.write.name == "x":
            return Refusal(cause, "no such right")
        return None

    told = story(template(config_map()), template(config_map("y")), cluster=ToyCluster(refuse=refuse))
    told.evaluate()
    assert told.state == "NonCompliant"
    assert told.reasons == ["K8s creation error", "K8s creation success"]
    assert "no such right" in told.messages[0]
    assert changed_something(told.policy.status), "the other object was made, so this is not the last word"
    told.evaluate()
    assert not changed_something(told.policy.status)


def test_a_namespace_and_what_is_in_it_come_from_one_policy() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
    told = informing(template(namespace), template(config_map(namespace="new")))
    told.evaluate()
    assert told.pending == [("Create", "Namespace", "new"), ("Create", "ConfigMap", "x")]
    told.change(remediationAction="enforce")
    told.evaluate()
    assert told.cluster.writes == ["Create Namespace new", "Create ConfigMap x"]


def test_a_write_that_somebody_overtook_is_planned_again() -> None:
    told = story(template(config_map(data={"a": "1"})))
    told.cluster.put(CONFIG_MAP, "x", data={"a": "2"})
    meddled: list[int] = []

    def refuse(request: Request) -> Refusal | None:
        if isinstance(request, Do) and not meddled:
            meddled.append(1)
            told.cluster.objects["configmaps", "default", "x"]["data"]["b"] = "theirs"
            told.cluster.objects["configmaps", "default", "x"]["metadata"]["resourceVersion"] = "999"
        return None

    told.cluster.refuse = refuse
    told.evaluate()
    assert told.live(CONFIG_MAP, "x")["data"] == {"a": "1", "b": "theirs"}
    assert told.state == "Compliant"


def test_a_status_is_compared_and_never_written() -> None:
    told = story(template({**widget({"colour": "red"}), "status": {"phase": "Ready"}}))
    told.evaluate()
    assert told.cluster.writes == ["Create Widget w"]
    assert (told.state, told.reasons) == ("NonCompliant", ["K8s creation success"])
    assert changed_something(told.policy.status)
    assert "status" not in told.cluster.objects["widgets", "default", "w"]
    told.evaluate()
    assert (told.state, told.cluster.writes, told.reasons) == ("NonCompliant", [], [LACKS])
    told.cluster.objects["widgets", "default", "w"]["status"] = {"phase": "Ready", "since": "now"}
    told.evaluate()
    assert told.state == "Compliant"


def test_an_update_with_a_status_that_has_to_follow_is_not_the_last_word() -> None:
    told = story(template({**widget({"colour": "red"}), "status": {"phase": "Ready"}}))
    told.cluster.put(WIDGET, "w", spec={"colour": "blue"})
    told.evaluate()
    assert (told.state, told.reasons) == ("NonCompliant", ["K8s update success"])


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"object-templates-raw": "{{ range }}"}, "spec.object-templates-raw"),
        ({"object-templates": [template(config_map(data={"a": "{{ .x }}"}))]}, "objectDefinition.data.a"),
        ({"object-templates": [template(config_map(data={"{{a}}": "b"}))]}, "objectDefinition.data"),
        ({"object-templates": [template(config_map(metadata={"name": "{{hub x hub}}"}))]}, "metadata.name"),
        (
            {"object-templates": [template({"apiVersion": "example.io/v1", "kind": "Widget", "l": [1, ["{{"]]})]},
            "l[1][0]",
        ),
        (
            {"object-templates": [template(config_map())], "customMessage": {"compliant": "{{ .x }}"}},
            "spec.customMessage.compliant",
        ),
    ],
)
def test_what_a_template_engine_would_fill_in_is_never_taken_literally(spec: JSONObject, field: str) -> None:
    told = story(**spec)
    told.evaluate()
    assert (told.state, told.reasons, told.cluster.writes) == ("NonCompliant", ["Error processing template"], [])
    assert field in told.messages[0]


@pytest.mark.parametrize(
    ("definition", "field"),
    [
        ({"kind": "ConfigMap"}, "apiVersion"),
        ({"apiVersion": "v1"}, "kind"),
        ({"apiVersion": "v1", "kind": 7}, "kind"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": []}, "metadata"),
        (config_map(metadata={"labels": "a=b"}), "metadata.labels"),
        (config_map(metadata={"name": 7}), "metadata.name"),
        ({"apiVersion": "v1", "kind": "Secret", "stringData": ["x"]}, "stringData"),
    ],
)
def test_a_definition_that_is_none_is_named(definition: JSONObject, field: str) -> None:
    told = story(template(definition), template(config_map("y")))
    told.evaluate()
    assert told.reasons == ["K8s decode object definition error", "K8s creation success"]
    assert f"spec.object-templates[0].objectDefinition.{field}:" in told.messages[0]


def test_a_plain_custom_message_is_told_as_it_is() -> None:
    told = story(template(config_map()), customMessage={"compliant": "all is well"})
    first = told.evaluate()
    assert first.reports[-1].message == "Compliant; all is well"


def test_a_policy_that_is_not_evaluated_again_says_so() -> None:
    told = story(template(config_map()), evaluationInterval={"compliant": "never"})
    first = told.evaluate()
    assert "will not be evaluated again" in first.reports[-1].message
    assert "spec.evaluationInterval.compliant" in first.reports[-1].message


def test_a_new_generation_is_reported_even_if_nothing_else_is_new() -> None:
    told = story(template(config_map()))
    told.evaluate()
    told.evaluate()
    told.change(severity="high")
    third = told.evaluate()
    assert len(third.reports) == 1
    assert told.policy.status.last_evaluated_generation == 2


def test_history_has_the_latest_ten_reports_to_the_microsecond() -> None:
    told = story(template(config_map()))
    for number in range(8):
        told.change(**{"object-templates": [template(config_map(data={"a": str(number)}))]})
        told.evaluate()
    history = told.policy.status.history
    assert len(history) == 10
    assert [each.last_timestamp for each in history] == sorted((each.last_timestamp for each in history), reverse=True)
    assert all(len(each.last_timestamp) == len("2026-05-01T12:00:10.000010Z") for each in history)


def test_a_condition_keeps_the_time_at_which_it_was_first_found() -> None:
    told = informing(template(config_map()))
    told.evaluate()
    since = told.policy.status.compliancy_details[0].conditions[0].last_transition_time
    told.change(severity="high")
    told.evaluate()
    assert told.policy.status.compliancy_details[0].conditions[0].last_transition_time == since


def test_a_long_message_is_cut() -> None:
    told = informing(*(template(config_map(f"a-rather-long-name-{number}")) for number in range(200)))
    (report,) = told.evaluate().reports
    assert len(report.message) == 4096
    assert report.message.endswith("...[truncated]")


def test_twenty_changes_are_announced_and_the_rest_counted() -> None:
    told = informing(*(template(config_map(f"x{number}")) for number in range(23)))
    (report,) = told.evaluate().reports
    assert len(told.pending) == 20
    assert "3 more changes are pending than are listed" in report.message
    assert sum(isinstance(each, Try) for each in told.cluster.requests) == 20


def test_what_enforces_has_nothing_pending() -> None:
    told = informing(template(config_map()))
    told.evaluate()
    told.change(remediationAction="enforce")
    told.evaluate()
    assert told.pending == []


def test_a_held_policy_changes_nothing_whatever_its_action() -> None:
    told = story(template(config_map()))
    told.annotate(held="true")
    told.evaluate()
    assert told.cluster.writes == []
    assert told.pending == [("Create", "ConfigMap", "x")]


def test_secrets_are_compared_with_what_is_written_plainly_and_never_shown() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}

    def refuse(request: Request) -> Refusal | None:
        if isinstance(request, Do):
            return Refusal(Cause.INVALID, 'data.key: Invalid value: "hunter2-key" or aHVudGVyMi1rZXk=')
        return None

    told = informing(template({**secret, "stringData": {"key": "hunter2-key"}}))
    told.evaluate()
    told.cluster.put(SECRET, "s", data={"key": "b2xkLXNlY3JldA=="})
    told.evaluate()
    changes = told.policy.status.pending_changes
    assert told.pending == [("Update", "Secret", "s")]
    assert "<hidden, changed>" in changes[0].diff
    told.change(remediationAction="enforce")
    told.cluster.refuse = refuse
    told.evaluate()
    shown = repr(told.policy.status)
    for text in ("hunter2", "aHVudGVy", "b2xkLXNl", "old-secret"):
        assert text not in shown
    told.cluster.refuse = lambda _: None
    told.evaluate()
    assert told.live(SECRET, "s")["data"] == {"key": "aHVudGVyMi1rZXk="}
    told.evaluate()
    assert (told.state, told.cluster.writes) == ("Compliant", [])


def test_an_object_that_cannot_be_read_is_told() -> None:
    def refuse(request: Request) -> Refusal | None:
        return Refusal(Cause.REFUSED, "forbidden: no right to look") if isinstance(request, Get | List) else None

    told = story(template(config_map()), template(config_map(None)), cluster=ToyCluster(refuse=refuse))
    told.evaluate()
    assert told.reasons == ["K8s error", "K8s error"]
    assert all("no right to look" in each for each in told.messages)
    assert told.cluster.writes == []


def test_a_recorded_difference_is_shown_with_the_object() -> None:
    told = informing(template(config_map(data={"a": "1"}), recordDiff="InStatus"))
    told.cluster.put(CONFIG_MAP, "x", data={"a": "2"})
    told.evaluate()
    properties = told.policy.status.related_objects[0].properties
    assert properties is not None
    assert '-  a: "2"' in properties.diff
    assert '+  a: "1"' in properties.diff


def widget(spec: JSONObject) -> JSONObject:
    return {**WIDGET.type_meta, "metadata": {"name": "w", "namespace": "default"}, "spec": spec}


def test_a_status_has_room_for_the_largest_policy() -> None:
    names = [f"{'a-long-name-' * 15}{number:04}" for number in range(1500)]
    wrong = [template(config_map(name, data={"a": "1"}), recordDiff="InStatus") for name in names]
    told = informing(*wrong, pruneObjectBehavior="DeleteAll")
    for name in names:
        told.cluster.put(CONFIG_MAP, name, data={"a": "x" * 5000})
    (report,) = told.evaluate().reports
    assert len(msgspec.json.encode(told.policy.status)) < 1_000_000
    assert len(told.policy.status.compliancy_details) == len(names)
    assert sum(bool(each.properties and each.properties.diff) for each in told.policy.status.related_objects) == 20
    assert report.message.endswith("...[truncated]")


def test_what_was_created_is_listed_before_anything_else() -> None:
    told = story(*(template(config_map(f"x{number:04}")) for number in range(1010)))
    for number in range(20):
        told.cluster.put(CONFIG_MAP, f"x{number:04}")
    told.evaluate()
    listed = told.policy.status.related_objects
    assert len(listed) == 1000
    assert sum(bool(each.properties and each.properties.created_by_policy) for each in listed) == 990
    assert told.state == "Compliant"
