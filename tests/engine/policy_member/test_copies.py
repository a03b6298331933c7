"""The copy of a replica has its labels, annotations and spec, and what was edited there is put back."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.plan import Create, Patch
from echelon.engine.policy_member.copies import copy_write, in_step, kept_of
from echelon.engine.policy_member.documents import PolicyDocument, is_replica
from echelon.hub.verbs.patch import merge_patch
from tests.engine.policy_member.world import CLUSTER, HELD, NAME, policy, template

NAMESPACE_LABEL = "policy.open-cluster-management.io/cluster-namespace"


def with_(copy: PolicyDocument, body: dict[str, Any]) -> PolicyDocument:
    meta = msgspec.to_builtins(copy.metadata)
    meta = merge_patch(meta, body.get("metadata", {}))
    return msgspec.convert({"metadata": meta, "spec": merge_patch(copy.spec, body.get("spec", {}))}, PolicyDocument)


def test_a_missing_copy_is_made_whole_and_without_owners() -> None:
    replica = policy(template(), annotations={"a": "b"}, surprise={"x": 1})
    write = copy_write(replica, None, CLUSTER)
    assert isinstance(write, Create)
    meta = write.body["metadata"]
    assert (meta["name"], meta["namespace"], meta["annotations"]) == (NAME, CLUSTER, {"a": "b"})
    assert "ownerReferences" not in meta
    assert write.body["spec"] == replica.spec
    assert write.body["spec"]["surprise"] == {"x": 1}


def test_the_label_of_the_namespace_is_that_of_the_cluster_namespace() -> None:
    write = copy_write(policy(template()), None, "elsewhere")
    assert isinstance(write, Create)
    assert write.body["metadata"]["labels"][NAMESPACE_LABEL] == "elsewhere"


def test_an_equal_copy_is_left_alone() -> None:
    assert copy_write(policy(template()), policy(template(), uid="other"), CLUSTER) is None


def test_labels_annotations_and_spec_are_put_back_in_one_write() -> None:
    replica, edited = policy(template(), held=True), policy(template(value="2"), template("more"), uid="u2")
    edited = with_(edited, {"metadata": {"labels": {"mine": "1"}, "annotations": {"note": "x"}}, "spec": {"odd": {}}})
    write = copy_write(replica, edited, CLUSTER)
    assert isinstance(write, Patch)
    assert (write.uid, write.resource_version) == ("u2", "1")
    restored = with_(edited, write.body)
    assert (restored.spec, restored.metadata.annotations) == (replica.spec, {HELD: "true"})
    assert restored.metadata.labels == replica.metadata.labels
    assert copy_write(replica, restored, CLUSTER) is None


SPECS = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.sampled_from(["a", "b", "rolloutStrategy"]), SPECS, max_size=3)


@given(FIELDS, FIELDS)
def test_one_write_leads_from_any_copy_to_any_replica(before: dict[str, Any], after: dict[str, Any]) -> None:
    copy, replica = policy(template(), **before), policy(template(), **after)
    write = copy_write(replica, copy, CLUSTER)
    if write is not None:
        assert isinstance(write, Patch)
        copy = with_(copy, write.body)
    assert copy_write(replica, copy, CLUSTER) is None
    assert in_step(replica, copy)


def test_a_copy_is_in_step_when_it_has_annotations_and_spec() -> None:
    replica = policy(template(), held=True)
    assert in_step(replica, policy(template(), held=True))
    assert not in_step(replica, None)
    assert not in_step(replica, policy(template(value="2"), held=True))
    assert not in_step(replica, policy(template(), action="inform"))  # not held


def test_the_strategy_of_a_rollout_is_copied_and_not_missed() -> None:
    replica, copy = policy(template(), rolloutStrategy={"type": "Progressive"}), policy(template())
    assert in_step(replica, copy)
    write = copy_write(replica, copy, CLUSTER)
    assert isinstance(write, Patch)
    assert write.body == {"spec": {"rolloutStrategy": {"type": "Progressive"}}}


def test_what_the_cluster_does_not_keep_is_asked_for_once() -> None:
    replica, pruned = policy(template(), future={"x": 1}), policy(template())
    assert copy_write(replica, pruned, CLUSTER) is not None
    kept = kept_of(replica, pruned)
    assert kept is not None
    assert copy_write(replica, pruned, CLUSTER, kept) is None
    assert in_step(replica, pruned, kept)
    # Another wish, or another edit, is another matter.
    assert copy_write(policy(template(), future={"x": 2}), pruned, CLUSTER, kept) is not None
    assert copy_write(replica, policy(template(value="edited")), CLUSTER, kept) is not None
    assert kept_of(replica, replica) is None


def test_only_replicas_are_copied() -> None:
    assert is_replica(policy(template()))
    assert not is_replica(
        with_(policy(template()), {"metadata": {"labels": {"policy.open-cluster-management.io/root-policy": None}}})
    )
    assert not is_replica(with_(policy(template()), {"metadata": {"name": "web"}}))
