"""The way from client-side to server-side apply."""

import json
from typing import Any

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def client_side(spec: dict[str, Any], name: str = "apps/v1") -> str:
    last = {"apiVersion": name, "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    return json.dumps({"metadata": {"annotations": {ANNOTATION: json.dumps(last)}}, "spec": spec})


def test_what_kubectl_applied_before_is_no_conflict_for_kubectl(story: Any) -> None:
    story.updates("kubectl-client-side-apply", client_side({"replicas": 1, "paused": True}))
    assert story.applies("kubectl", "spec: {replicas: 2}")["spec"] == {"replicas": 2, "paused": True}
    assert story.owned("kubectl") == [".spec.replicas"]


def test_it_is_one_for_everybody_else(story: Any) -> None:
    story.updates("kubectl-client-side-apply", client_side({"replicas": 1}))
    assert ".spec.replicas" in story.refused("ann", "spec: {replicas: 2}").message


def test_what_has_changed_since_is_a_conflict(story: Any) -> None:
    story.updates("kubectl-client-side-apply", client_side({"replicas": 1, "paused": True}))
    story.object["spec"]["replicas"] = 5
    refusal = story.refused("kubectl", "spec: {replicas: 2, paused: false}")
    assert refusal.message.endswith("using apps/v1: .spec.replicas")


def test_a_configuration_of_another_version_allows_nothing(story: Any) -> None:
    story.updates("kubectl-client-side-apply", client_side({"replicas": 1}, name="apps/v1beta1"))
    assert ".spec.replicas" in story.refused("kubectl", "spec: {replicas: 2}").message


def test_an_annotation_that_is_no_configuration_allows_nothing(story: Any) -> None:
    story.updates("ctl", f"metadata: {{annotations: {{{ANNOTATION}: '{{nope'}}}}\nspec: {{replicas: 1}}")
    assert ".spec.replicas" in story.refused("kubectl", "spec: {replicas: 2}").message


def test_kubectl_keeps_the_annotation_up_to_date(story: Any) -> None:
    story.updates("kubectl-client-side-apply", client_side({"replicas": 1}))
    story.applies("kubectl", "spec: {replicas: 2}")
    last = story.content["metadata"]["annotations"][ANNOTATION]
    head = '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}'
    assert last == head + ',"spec":{"replicas":2}}\n'


def test_nobody_makes_the_annotation_anew(story: Any) -> None:
    assert story.applies("kubectl", "spec: {replicas: 2}") == {"spec": {"replicas": 2}}


def test_an_annotation_that_would_be_too_large_is_dropped(story: Any) -> None:
    story.updates("kubectl-client-side-apply", client_side({"replicas": 1}))
    content = story.applies("kubectl", f"spec: {{raw: {{text: {'x' * 300_000}}}}}")
    assert content["metadata"]["annotations"] == {}
