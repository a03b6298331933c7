"""What override policies change in the manifest of a cluster, in which order, and what they may not change."""

import copy
from typing import Any

import msgspec
import pytest

from echelon.api.base import JSONObject
from echelon.api.override import ClusterOverridePolicy, OverridePolicy
from echelon.engine.workload.images import changed_image
from echelon.engine.workload.overriding import AnyOverridePolicy, Overridden, overridden
from tests.engine.workload.clusters import DEPLOYMENTS, cluster, template

HERE = cluster("here", labels={"env": "prod"})


def override(name: str = "o", *, everywhere: bool = False, **overriders: Any) -> AnyOverridePolicy:
    """Return a policy; `selectors` and `target` are those that it is for, the rest is what it changes."""
    selectors, target = overriders.pop("selectors", []), overriders.pop("target", None)
    rule: JSONObject = {"overriders": overriders}
    if target is not None:
        rule["targetCluster"] = target
    spec = {"resourceSelectors": selectors, "overrideRules": [rule]}
    if everywhere:
        return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ClusterOverridePolicy)
    return msgspec.convert({"metadata": {"name": name, "namespace": "apps"}, "spec": spec}, OverridePolicy)


def plain(path: str, operator: str = "replace", value: Any = None) -> list[JSONObject]:
    return [{"path": path, "operator": operator, "value": value}]


def applied(*policies: AnyOverridePolicy, to: JSONObject | None = None) -> Overridden:
    manifest = to if to is not None else template()
    before = copy.deepcopy(manifest)
    found = overridden(manifest, HERE, policies)
    assert manifest == before, "what is in a cache must not change"
    return found


def container(found: Overridden) -> JSONObject:
    first: JSONObject = found.manifest["spec"]["template"]["spec"]["containers"][0]
    return first


@pytest.mark.parametrize(
    ("image", "component", "operator", "value", "result"),
    [
        ("registry.io/web/app:v1", "Registry", "replace", "mirror:5000", "mirror:5000/web/app:v1"),
        ("registry.io/web/app:v1", "Registry", "remove", "", "web/app:v1"),
        ("web/app:v1", "Registry", "add", "mirror.io", "mirror.io/web/app:v1"),
        ("registry.io/web/app:v1", "Registry", "add", ".cn", "registry.io.cn/web/app:v1"),
        ("registry.io/web/app:v1", "Repository", "replace", "x", "registry.io/x:v1"),
        ("registry.io/web/app:v1", "Repository", "add", "-fips", "registry.io/web/app-fips:v1"),
        ("registry.io:5000/app", "Tag", "replace", "v2", "registry.io:5000/app:v2"),
        ("app:v1", "Tag", "add", "-fips", "app:v1-fips"),
        ("app@sha256:00", "Tag", "replace", "v2", "app:v2"),
        ("app:v1", "Tag", "replace", "@sha256:00", "app@sha256:00"),
        ("app:v1", "Tag", "replace", "sha256:00", "app@sha256:00"),
        ("localhost/app:v1", "Tag", "remove", "", "localhost/app"),
    ],
)
def test_a_part_of_an_image_is_changed(image: str, component: str, operator: str, value: str, result: str) -> None:
    assert changed_image(image, component, operator, value) == result


def test_images_of_all_containers_change_or_the_one_that_is_named() -> None:
    change = {"component": "Tag", "operator": "replace", "value": "v2"}
    assert container(applied(override(imageOverrider=[change])))["image"] == "registry.example.com/web/app:v2"
    predicate = {"path": "/spec/template/spec/containers/0/image"}
    one = applied(override(imageOverrider=[{**change, "predicate": predicate}]))
    assert container(one)["image"] == "registry.example.com/web/app:v2"


def test_commands_arguments_labels_annotations_and_fields_change() -> None:
    found = applied(
        override(
            commandOverrider=[{"containerName": "web", "operator": "add", "value": ["run"]}],
            argsOverrider=[
                {"containerName": "web", "operator": "remove", "value": ["--a"]},
                {"containerName": "other", "operator": "add", "value": ["--z"]},
            ],
            labelsOverrider=[
                {"operator": "add", "value": {"tier": "gold"}},
                {"operator": "remove", "value": {"app": ""}},
                {"operator": "replace", "value": {"absent": "x"}},
            ],
            annotationsOverrider=[{"operator": "add", "value": {"note": "here"}}],
            plaintext=plain("/spec/template/spec/priorityClassName", "add", "high"),
        )
    )
    assert container(found) | {"image": ""} == {"name": "web", "image": "", "command": ["run"], "args": ["--b"]}
    assert found.manifest["metadata"]["labels"] == {"tier": "gold"}
    assert found.manifest["metadata"]["annotations"] == {"note": "here"}
    assert found.manifest["spec"]["template"]["spec"]["priorityClassName"] == "high"
    assert found.applied == ("apps/o",)
    assert (found.touched, found.failed) == ((), "")


def test_the_more_precise_and_the_nearer_policy_has_the_last_word() -> None:
    def says(word: str, **options: Any) -> AnyOverridePolicy:
        return override(word, plaintext=plain("/metadata/annotations", "add", {"said": word}), **options)

    ordered = [
        says("a-all", everywhere=True, selectors=[{**DEPLOYMENTS, "name": "web"}]),
        says("b-kind"),
        says("a-labels", selectors=[{**DEPLOYMENTS, "labelSelector": {"matchLabels": {"app": "web"}}}]),
        says("a-name", selectors=[{**DEPLOYMENTS, "name": "web"}]),
        says("b-name", selectors=[{**DEPLOYMENTS, "name": "web"}]),
    ]
    for shuffled in (ordered, ordered[::-1]):
        found = applied(*shuffled)
        assert found.applied == ("a-all", "apps/b-kind", "apps/a-labels", "apps/a-name", "apps/b-name")
        assert found.manifest["metadata"]["annotations"] == {"said": "b-name"}


def test_only_what_is_meant_changes() -> None:
    change = plain("/metadata/annotations", "add", {"said": "yes"})
    assert applied(override(plaintext=change, target={"clusterNames": ["other"]})).applied == ()
    assert applied(override(plaintext=change, target={"labelSelector": {"matchLabels": {"env": "prod"}}})).applied
    assert applied(override(plaintext=change, selectors=[{**DEPLOYMENTS, "name": "x"}])).applied == ()
    elsewhere = template(metadata={"namespace": "elsewhere"})
    assert applied(override(plaintext=change), to=elsewhere).applied == ()


def test_the_older_form_of_a_policy_works_too() -> None:
    spec = {"targetCluster": {"clusterNames": ["here"]}, "overriders": {"plaintext": plain("/spec/x", "add", 1)}}
    old = msgspec.convert({"metadata": {"name": "o", "namespace": "apps"}, "spec": spec}, OverridePolicy)
    assert applied(old).manifest["spec"]["x"] == 1


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/spec/replicas", "spec.replicas"),
        ("/spec/paused", "spec.paused"),
        ("/spec/strategy", "spec.strategy"),
        ("/metadata/name", "metadata.name"),
        ("/kind", "kind"),
    ],
)
def test_a_governed_field_that_is_touched_is_told(path: str, field: str) -> None:
    assert applied(override(plaintext=plain(path, "add", "other"))).touched == (field,)


def test_an_override_that_says_what_is_there_touches_nothing() -> None:
    assert applied(override(plaintext=plain("/spec/replicas", "replace", 3))).touched == ()


def test_replicas_of_a_kind_that_is_not_aligned_are_nobodys_business() -> None:
    daemons = template(kind="DaemonSet")
    assert applied(override(plaintext=plain("/spec/replicas", "replace", 9)), to=daemons).touched == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (plain("/spec/nothing/there", "add", 1), "/spec/nothing/there: there is no such field"),
        (plain("/spec/nothing", "replace", 1), "/spec/nothing: there is no such field"),
        (plain("/spec/template/spec/containers/7/image", "replace", 1), "there is no item 7"),
        (plain("spec/replicas", "replace", 1), "a path begins with /"),
        (plain("/spec/replicas/0", "remove"), "there is no such field"),
    ],
)
def test_an_override_that_cannot_be_made_is_told_and_nothing_is_changed(change: list[JSONObject], why: str) -> None:
    labelled = override("a", labelsOverrider=[{"operator": "add", "value": {"half": "done"}}])
    found = applied(labelled, override("b", plaintext=change))
    assert "OverridePolicy apps/b: " in found.failed
    assert why in found.failed
    assert (found.manifest, found.applied) == (template(), ())


def test_what_is_not_supported_is_no_silent_success() -> None:
    found = applied(override(fieldOverrider=[{"fieldPath": "/metadata/annotations/x", "json": []}]))
    assert "/metadata/annotations/x: fieldOverrider is not supported" in found.failed


def test_lists_are_changed_as_json_patches_change_them() -> None:
    args = "/spec/template/spec/containers/0/args"
    steps = [
        *plain(f"{args}/-", "add", "--z"),
        *plain(f"{args}/0", "add", "--first"),
        *plain(f"{args}/1", "remove"),
        *plain(f"{args}/1", "replace", "--second"),
    ]
    assert container(applied(override(plaintext=steps)))["args"] == ["--first", "--second", "--z"]
