"""An update makes an object what its manifest says, and leaves to others what is theirs."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from echelon.api.apps import DEPLOYMENT
from echelon.api.batch import JOB
from echelon.api.core import CONFIG_MAP, SECRET, SERVICE
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.work.updating import DesiredObject, create_only, last_applied_of, update
from echelon.hub.verbs.patch import merge_patch

OWNER = {"apiVersion": "w/v1", "kind": "AppliedManifestWork", "name": "r", "uid": "r"}


def wanted(kind: Kind[Any] = CONFIG_MAP, *, owned_by_work: bool = True, **fields: Any) -> DesiredObject:
    metadata = {"name": "x", "namespace": "n", "uid": "nonsense", **fields.pop("metadata", {})}
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
    return DesiredObject(kind.untyped(), manifest, "n", OWNER, owned_by_work, recorded_uid="u")


def live(**fields: Any) -> dict[str, Any]:
    metadata = {
        "name": "x",
        "uid": "u",
        "resourceVersion": "7",
        "ownerReferences": [OWNER],
        **fields.pop("metadata", {}),
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}


def patched(writes: tuple[Write, ...]) -> dict[str, Any]:
    (write,) = writes
    assert isinstance(write, Patch)
    assert (write.uid, write.resource_version) == ("u", "7")
    return write.body


def test_a_missing_object_is_created_as_ours_and_without_a_foreign_identity() -> None:
    (write,) = update(wanted(data={"a": "1"}, metadata={"labels": {"a": "b", "gone-": ""}}), None)
    assert isinstance(write, Create)
    assert write.body["metadata"] == {
        "name": "x",
        "namespace": "n",
        "labels": {"a": "b"},
        "ownerReferences": [OWNER],
    }
    (orphan,) = update(wanted(owned_by_work=False), None)
    assert isinstance(orphan, Create)
    assert "ownerReferences" not in orphan.body["metadata"]


def test_an_object_that_is_as_it_should_be_is_left_alone() -> None:
    assert update(wanted(data={"a": "1"}), live(data={"a": "1"}, status={"x": 1})) == ()


def test_data_is_replaced() -> None:
    body = patched(update(wanted(data={"a": "2"}), live(data={"a": "1", "b": "1"}, binaryData={"c": "MQ=="})))
    assert body == {"data": {"a": "2", "b": None}, "binaryData": None}


def test_labels_and_annotations_are_merged_and_a_dash_removes() -> None:
    before = live(metadata={"labels": {"a": "1", "b": "1", "c": "1"}, "annotations": {"x": "y"}})
    body = patched(update(wanted(metadata={"labels": {"a": "2", "b-": ""}}), before))
    assert body == {"metadata": {"labels": {"a": "2", "b": None}}}


def test_finalizers_of_others_are_not_touched() -> None:
    assert update(wanted(metadata={"finalizers": ["ours"]}), live(metadata={"finalizers": ["theirs"]})) == ()


def test_the_owner_comes_and_goes_with_the_option() -> None:
    body = patched(update(wanted(), live(metadata={"ownerReferences": []})))
    assert body == {"metadata": {"ownerReferences": [OWNER]}}
    assert patched(update(wanted(owned_by_work=False), live())) == {"metadata": {"ownerReferences": []}}


def test_of_a_namespace_only_the_metadata_counts() -> None:
    assert update(wanted(NAMESPACE), live(spec={"finalizers": ["kubernetes"]})) == ()


def test_a_service_keeps_what_the_server_gave_it() -> None:
    given_ = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "type": "ClusterIP"}
    body = patched(
        update(wanted(SERVICE, spec={"type": "ClusterIP", "ports": []}), live(spec={**given_, "ports": [1]}))
    )
    assert body == {"spec": {"ports": []}}


def test_of_a_job_what_the_manifest_does_not_mention_is_left_alone() -> None:
    said = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    there = {
        "selector": {"matchLabels": {"u": "1"}},
        "template": {"metadata": {"labels": {"u": "1"}}, "spec": {"containers": [{"name": "c", "image": "i", "x": 1}]}},
    }
    assert update(wanted(JOB, spec=said), live(spec=there)) == ()
    assert patched(update(wanted(JOB, spec={**said, "suspend": True}), live(spec=there))) == {"spec": {"suspend": True}}


def test_a_secret_of_another_type_is_deleted_and_made_anew() -> None:
    first, second = update(wanted(SECRET, type="b"), live(type="a"))
    assert isinstance(first, Delete)
    assert first.uid == "u"
    assert isinstance(second, Create)
    assert update(wanted(SECRET, stringData={"a": "1"}), live(type="Opaque", data={"a": "MQ=="})) != ()
    assert update(wanted(SECRET, type="Opaque", stringData={"a": "1"}), live(type="Opaque", data={"a": "MQ=="})) == ()


def test_what_the_server_fills_in_is_written_once_and_then_remembered() -> None:
    asked = wanted(DEPLOYMENT, spec={"replicas": 1})
    filled = live(spec={"replicas": 1, "paused": False}, status={"replicas": 0})
    assert patched(update(asked, filled)) == {"spec": {"paused": None}}
    memory = last_applied_of(asked.manifest, filled)
    assert update(asked, filled, memory) == ()
    assert update(asked, {**filled, "status": {"replicas": 1}}, memory) == ()
    assert update(asked, live(spec={"replicas": 3, "paused": False}), memory) != ()
    other = replace(asked, manifest={**asked.manifest, "spec": {"replicas": 2}})
    assert update(other, filled, memory) != ()


def test_create_only_creates_and_then_only_owns() -> None:
    (made,) = create_only(wanted(data={"a": "1"}), None)
    assert isinstance(made, Create)
    assert create_only(wanted(data={"a": "2"}), live(data={"a": "1"})) == ()
    assert patched(create_only(wanted(data={"a": "2"}), live(metadata={"ownerReferences": []}))) == {
        "metadata": {"ownerReferences": [OWNER]}
    }


LEAVES = st.integers(0, 2) | st.sampled_from("xy") | st.booleans()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)
CONTENTS = st.dictionaries(st.sampled_from(["spec", "data", "extra"]), VALUES, max_size=3)


@given(CONTENTS, CONTENTS)
def test_the_patch_leads_exactly_to_the_manifest(before: dict[str, Any], after: dict[str, Any]) -> None:
    there, asked = live(**copy.deepcopy(before)), wanted(**copy.deepcopy(after))
    kept = copy.deepcopy(there)
    writes = update(asked, there)
    assert there == kept
    if not writes:
        assert before == after
        return
    result = merge_patch(there, patched(writes))
    assert {name: value for name, value in result.items() if name in ("spec", "data", "extra")} == after
    assert update(asked, result) == ()


HOOKS = Kind[Any](
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", dict
)


def hook(name: str, **more: Any) -> dict[str, Any]:
    service = {"service": {"name": "s", "namespace": "n"}}
    return {"name": name, "clientConfig": {**service, **({"caBundle": more.pop("ca")} if "ca" in more else {})}, **more}


def test_a_certificate_that_somebody_put_into_a_webhook_stays_with_its_webhook() -> None:
    asked = wanted(HOOKS, webhooks=[hook("a"), hook("b", ca="ours"), hook("c", failurePolicy="Fail")])
    now = live(webhooks=[hook("c", ca="theirs"), hook("b", ca="theirs"), hook("old", ca="theirs")])
    assert patched(update(asked, now))["webhooks"] == [
        hook("a"),
        hook("b", ca="ours"),
        hook("c", ca="theirs", failurePolicy="Fail"),
    ]
    made = live(webhooks=asked.manifest["webhooks"])
    memory = last_applied_of(asked.manifest, made)
    injected = live(webhooks=[hook("a", ca="x"), hook("b", ca="ours"), hook("c", ca="x", failurePolicy="Fail")])
    assert update(asked, injected, memory) == ()
    stolen = live(webhooks=[hook("a", ca="x"), hook("b", ca="x"), hook("c", failurePolicy="Fail")])
    assert patched(update(asked, stolen, memory))["webhooks"][1] == hook("b", ca="ours")


@pytest.mark.parametrize("said", [0, 3])
def test_replicas_are_others_only_if_the_manifest_does_not_say_them(said: int) -> None:
    now = live(spec={"replicas": 7, "paused": True})
    assert update(wanted(DEPLOYMENT, spec={"paused": True}), now) == ()
    assert patched(update(wanted(DEPLOYMENT, spec={"paused": True, "replicas": said}), now)) == {
        "spec": {"replicas": said}
    }
