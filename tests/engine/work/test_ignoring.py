"""Fields that the agent leaves to others: which they are, and when they are applied after all."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.apps import DEPLOYMENT
from echelon.api.manifest_config import IgnoreField, ServerSideApplyConfig
from echelon.engine.plan import Apply, Patch
from echelon.engine.work import jq
from echelon.engine.work.ignoring import DIGEST, IgnoreFieldError, server_side_apply
from echelon.engine.work.updating import DesiredObject

OWNER = {"apiVersion": "w/v1", "kind": "AppliedManifestWork", "name": "r", "uid": "r"}
SPEC: dict[str, Any] = {
    "replicas": 3,
    "list": [{"name": "a", "v": 1}, {"name": "b", "v": 2}, {"name": "b", "v": 3}],
    "map": {"a/b": 1, "c~d": 2},
}


def wanted(spec: dict[str, Any] | None = None) -> DesiredObject:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x", "creationTimestamp": None},
        "spec": {"template": {"metadata": {"creationTimestamp": None}}, **(SPEC if spec is None else spec)},
    }
    return DesiredObject(DEPLOYMENT.untyped(), manifest, "n", OWNER, owned_by_work=True, recorded_uid="u")


def config(condition: str = "OnSpokePresent", **paths: Any) -> ServerSideApplyConfig:
    return ServerSideApplyConfig(ignore_fields=[IgnoreField(condition=condition, **paths)])


def live(digest: str = "") -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1", "annotations": {DIGEST: digest}}}


def applied(settings: ServerSideApplyConfig, there: dict[str, Any] | None = None, **spec: Any) -> Apply:
    (write,) = server_side_apply(wanted({**SPEC, **spec}), settings, there)
    assert isinstance(write, Apply)
    return write


def digest_of(write: Apply) -> str:
    found: str = write.body["metadata"]["annotations"][DIGEST]
    return found


def test_without_ignored_fields_the_manifest_is_applied_as_it_is() -> None:
    write = applied(ServerSideApplyConfig(force=True))
    assert write.force
    assert write.body["metadata"] == {"name": "x", "namespace": "n"}
    assert write.body["spec"] == {**SPEC, "template": {"metadata": {}}}


def test_a_new_object_gets_everything_and_an_existing_one_what_is_not_ignored() -> None:
    settings = config(json_paths=[".spec.replicas"])
    first = applied(settings)
    assert first.body["spec"]["replicas"] == 3
    assert "replicas" not in applied(settings, live()).body["spec"]


def test_what_the_hub_did_not_change_is_not_applied_again() -> None:
    settings = config(json_paths=[".spec.replicas"])
    digest = digest_of(applied(settings))
    (write,) = server_side_apply(wanted(), settings, live(digest))
    assert isinstance(write, Patch)
    assert write.body == {"metadata": {"ownerReferences": [OWNER]}}
    there = live(digest)
    there["metadata"]["ownerReferences"] = [OWNER]
    assert server_side_apply(wanted(), settings, there) == ()
    assert server_side_apply(wanted({**SPEC, "replicas": 9}), settings, there) == ()
    assert applied(settings, there, list=[]).body["spec"]["list"] == []


def test_what_is_ignored_once_it_was_changed_there_is_applied_when_the_hub_changes_it() -> None:
    settings = config("OnSpokeChange", json_paths=[".spec.replicas"])
    digest = digest_of(applied(settings))
    there = live(digest)
    there["metadata"]["ownerReferences"] = [OWNER]
    assert server_side_apply(wanted(), settings, there) == ()
    assert applied(settings, there, replicas=9).body["spec"]["replicas"] == 9


@pytest.mark.parametrize(
    ("paths", "left"),
    [
        ({"json_paths": [".spec.list[0].v"]}, [{"name": "a"}, {"name": "b", "v": 2}, {"name": "b", "v": 3}]),
        ({"json_paths": [".spec.list[*].v"]}, [{"name": "a"}, {"name": "b"}, {"name": "b"}]),
        ({"json_paths": ['{.spec.list[?(@.name=="b")].v}']}, [{"name": "a", "v": 1}, {"name": "b"}, {"name": "b"}]),
        ({"json_paths": [".spec.list[0]", ".nope.x", ".spec.list[7].v"]}, SPEC["list"]),
        ({"json_pointers": ["/spec/list/0"]}, SPEC["list"][1:]),
        (
            {"json_pointers": ["/spec/list/1/v", "/nope", "/spec/list/9"]},
            [SPEC["list"][0], {"name": "b"}, SPEC["list"][2]],
        ),
        ({"jq_path_expressions": ['.spec.list[] | select(.name == "b")']}, SPEC["list"][:1]),
        ({"jq_path_expressions": ['.spec.list[] | select(.name != "b").v']}, [{"name": "a"}, *SPEC["list"][1:]]),
        ({"jq_path_expressions": ['.spec["list"][-1]']}, SPEC["list"][:2]),
        ({"jq_path_expressions": [".spec.list[0]", ".spec.list[1]"]}, SPEC["list"][2:]),
    ],
)
def test_paths_name_fields(paths: dict[str, Any], left: list[Any]) -> None:
    assert applied(config(**paths), live()).body["spec"]["list"] == left


def test_a_pointer_escapes_slashes_and_tildes() -> None:
    assert applied(config(json_pointers=["/spec/map/a~1b", "/spec/map/c~0d"]), live()).body["spec"]["map"] == {}


@pytest.mark.parametrize(
    "paths",
    [
        {"json_paths": ["spec..x"]},
        {"json_pointers": ["spec/x"]},
        {"jq_path_expressions": ["keys"]},
        {"jq_path_expressions": [".spec | to_entries"]},
        {"jq_path_expressions": [".spec[1:2]"]},
        {"jq_path_expressions": [".."]},
        {"jq_path_expressions": ["."]},
        {"jq_path_expressions": [".a, .b"]},
        {"jq_path_expressions": ['select(.kind == "Deployment")']},
        {"jq_path_expressions": ['.spec.list[] | select(.name | test("b"))']},
        {"jq_path_expressions": [".spec." + "a" * 2000]},
    ],
)
def test_a_path_that_is_not_understood_is_refused_whatever_the_condition(paths: dict[str, Any]) -> None:
    for condition in ("OnSpokePresent", "OnSpokeChange"):
        for there in (None, live()):
            with pytest.raises(IgnoreFieldError):
                server_side_apply(wanted(), config(condition, **paths), there)


@given(st.text(alphabet='.[]|()"= abselct01\\!?-', max_size=24))
def test_no_text_makes_the_jq_parser_fail_in_another_way(text: str) -> None:
    try:
        steps = jq.parse(text)
    except jq.JqError:
        return
    for place in jq.paths(steps, SPEC, lambda _: None):
        value: Any = SPEC
        for step in place:
            value = value[step]
