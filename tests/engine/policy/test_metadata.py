"""Labels and annotations of replicas: exactly those of the policy, those that find replicas, and notes of the hub."""

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.meta import ObjectMeta
from echelon.api.policy import GROUP
from echelon.engine.policy.metadata import ReplicaMetadata
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.policy.replica import read_replica

NOTES = ("echelon.dev/held", "echelon.dev/written-at", "echelon.dev/revision", f"{GROUP}/encryption-iv")
KEYS = (
    "team",
    "kubectl.kubernetes.io/last-applied-configuration",
    f"{GROUP}/standards",
    f"{GROUP}/root-policy",
    f"{GROUP}/trigger-update",
    "argocd.argoproj.io/compare-options",
    "echelon.dev/paused",
    *NOTES,
)
pairs = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["1", "2"]))
copying = st.sampled_from(
    [{}, {"copyPolicyMetadata": None}, {"copyPolicyMetadata": True}, {"copyPolicyMetadata": False}]
)


def of(labels: dict[str, str], annotations: dict[str, str], spec: JSONObject) -> ReplicaMetadata:
    meta = ObjectMeta(name="audit", namespace="apps", labels=labels, annotations=annotations)
    return ReplicaMetadata.of(meta, spec)


def copied(key: str, spec: JSONObject) -> bool:
    return spec.get("copyPolicyMetadata") is not False or key.startswith(f"{GROUP}/")


@given(pairs, pairs, copying)
def test_a_replica_gets_what_the_policy_has_as_far_as_it_is_copied(
    labels: dict[str, str], annotations: dict[str, str], spec: JSONObject
) -> None:
    new = of(labels, annotations, spec).new("c1", {"echelon.dev/held": "true"})
    assert new["labels"] == {
        **{key: each for key, each in labels.items() if copied(key, spec)},
        f"{GROUP}/root-policy": "apps.audit",
        f"{GROUP}/cluster-name": "c1",
        f"{GROUP}/cluster-namespace": "c1",
    }
    assert new["annotations"] == {
        **{
            key: each
            for key, each in annotations.items()
            if copied(key, spec)
            and not key.startswith("echelon.dev/")
            and key not in (f"{GROUP}/trigger-update", f"{GROUP}/encryption-iv")  # which a replica has of its own
        },
        "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
        "echelon.dev/held": "true",
    }


@given(pairs, pairs, copying, pairs, pairs)
def test_whatever_a_replica_has_a_patch_makes_it_what_a_new_one_would_be(
    labels: dict[str, str],
    annotations: dict[str, str],
    spec: JSONObject,
    has_labels: dict[str, str],
    has_annotations: dict[str, str],
) -> None:
    metadata = of(labels, annotations, spec)
    meta = ObjectMeta(name="apps.audit", namespace="c1", labels=has_labels, annotations=has_annotations)
    patch = metadata.patch(read_replica(RawPolicy(metadata=meta)), {})
    new = metadata.new("c1", {})
    assert _patched(has_labels, patch.get("labels", {})) == new["labels"]
    kept = {key: each for key, each in has_annotations.items() if key in NOTES}
    assert _patched(has_annotations, patch.get("annotations", {})) == {**kept, **new["annotations"]}
    done = ObjectMeta(
        name="apps.audit", namespace="c1", labels=new["labels"], annotations={**kept, **new["annotations"]}
    )
    assert metadata.patch(read_replica(RawPolicy(metadata=done)), {}) == {}


def _patched(before: dict[str, str], patch: dict[str, str | None]) -> dict[str, str]:
    return {key: each for key, each in {**before, **patch}.items() if each is not None}
