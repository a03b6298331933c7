"""Children are what the set says; patched once they are left alone, and so is what others put on them."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.crd import crd
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.podgangs import POD_GANG
from echelon.engine.pod_clique.accepting import NotAccepted, accept
from echelon.engine.pod_clique.children import (
    clique_body,
    clique_patch,
    gang_body,
    gang_patch,
    group_body,
    group_patch,
    owner_of,
)
from echelon.engine.pod_clique.shape import expected
from echelon.engine.pod_clique.template import read_clique_template
from echelon.hub.schema.structural import Structural
from echelon.hub.schema.validation import Validator
from tests.engine.pod_clique.sets import IMAGE, a_set, clique, group, pods, sets, spec_of
from tests.engine.test_merge_patch import merged

KINDS: tuple[Kind[Any], ...] = (POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_GANG)
SCHEMAS = {kind.kind: crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for kind in KINDS}
STRUCTURAL = {kind: Structural(schema) for kind, schema in SCHEMAS.items()}
VALIDATOR = {kind: Validator(schema) for kind, schema in SCHEMAS.items()}
PATCH = {"PodClique": clique_patch, "PodCliqueScalingGroup": group_patch, "PodGang": gang_patch}


def stored(body: JSONObject) -> JSONObject:
    """Return an object as a server keeps it: without what its schema does not know, with defaults."""
    structural = STRUCTURAL[body["kind"]]
    pruned, unknown = structural.prune(copy.deepcopy(body))
    assert unknown == []
    found: JSONObject = structural.default(pruned)
    assert VALIDATOR[body["kind"]].validate(found) == []
    return found


def children(body: JSONObject) -> dict[tuple[str, str], JSONObject]:
    found = accept(body, (), IMAGE)
    if isinstance(found, NotAccepted):
        return {}
    shape = expected(found.spec, "w", {}, {})
    owner = owner_of(POD_CLIQUE_SET, body)
    made = [clique_body(body, found.spec, each, owner) for each in shape.cliques]
    made += [group_body(body, each) for each in shape.groups]
    made += [gang_body(body, found.spec, each, {"w-0-a": ["w-0-a-y", "w-0-a-x"]}) for each in shape.gangs]
    return {(each["kind"], each["metadata"]["name"]): each for each in made}


@given(sets(), sets())
def test_a_child_that_was_patched_once_is_patched_no_more(before: JSONObject, after: JSONObject) -> None:
    old, new = children(before), children(after)
    for key in old.keys() & new.keys():
        patch_of = PATCH[key[0]]
        there = stored(old[key])
        assert patch_of(there, stored(old[key])) is None
        assert patch_of(there, old[key]) is None or key[0] == "PodClique"  # ports get a protocol
        wanted = stored(new[key])
        change = patch_of(there, wanted)
        then = stored(merged(there, change or {}))
        assert patch_of(then, wanted) is None
        assert then["spec"].get("replicas") == there["spec"].get("replicas")
        if key[0] == "PodClique":
            member = "grove.io/podcliquescalinggroup" in wanted["metadata"]["labels"]
            assert read_clique_template(then, member=member) == read_clique_template(wanted, member=member)


@given(sets())
def test_a_set_as_a_server_keeps_it_gives_children_that_need_no_patch(body: JSONObject) -> None:
    served = Structural(crd(POD_CLIQUE_SET)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    for child in children(served.default(served.prune(copy.deepcopy(body))[0])).values():
        assert PATCH[child["kind"]](stored(child), child) is None


def one(body: JSONObject, name: str = "w-0-a", kind: str = "PodClique") -> JSONObject:
    return children(body)[kind, name]


def test_a_clique_is_what_the_set_says() -> None:
    body = a_set(
        clique("a", 3, minAvailable=2, labels={"x": "y"}, annotations={"n": "o", "grove.io/topology-name": "t"})
    )
    made = one(body)
    assert made["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "w",
        "app.kubernetes.io/name": "w-0-a",
        "app.kubernetes.io/component": "pcs-podclique",
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/podgang": "w-0",
        "grove.io/pod-template-hash": spec_of(body).clique["a"].hash,
        "x": "y",
    }
    annotations = {**made["metadata"]["annotations"]}
    del annotations["echelon.dev/template-keys"]
    assert annotations == {"n": "o"}
    assert made["spec"] == {"roleName": "a", "podSpec": pods(), "replicas": 3, "minAvailable": 2}
    assert "finalizers" not in made["metadata"]
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("PodCliqueSet", "w", "uid-of-w", True)


def test_what_a_clique_waits_for_is_named_in_full() -> None:
    body = a_set(clique("a"), clique("b"), cliqueStartupType="CliqueStartupTypeInOrder")
    assert one(body, "w-0-b")["spec"]["startsAfter"] == ["w-0-a"]
    assert "startsAfter" not in one(body)["spec"]


def test_a_managed_label_of_a_template_never_wins() -> None:
    made = one(a_set(clique("a", labels={"grove.io/podgang": "mine", "app.kubernetes.io/part-of": "mine"})))
    assert made["metadata"]["labels"]["grove.io/podgang"] == "w-0"
    assert made["metadata"]["labels"]["app.kubernetes.io/part-of"] == "w"


def test_the_size_of_a_clique_or_group_is_never_patched() -> None:
    body = a_set(clique("a", 2), clique("b"), groups=[group("g", "b", replicas=2)])
    for key, made in children(body).items():
        if "replicas" in made["spec"]:
            scaled = copy.deepcopy(made)
            scaled["spec"]["replicas"] = 7
            assert PATCH[key[0]](scaled, made) is None


def test_a_changed_template_is_patched_with_its_hash_at_once() -> None:
    before, after = one(a_set(clique("a"))), one(a_set(clique("a", pod_spec=pods("registry.example/c:2"))))
    change = clique_patch(before, after)
    assert change is not None
    assert change["spec"]["podSpec"]["containers"][0]["image"] == "registry.example/c:2"
    assert change["metadata"]["labels"].keys() == {"grove.io/pod-template-hash"}


def test_a_template_that_is_to_be_kept_is_kept_with_its_hash_and_labels() -> None:
    before = one(a_set(clique("a", 2, labels={"x": "y"}, minAvailable=1)))
    changed = clique("a", 2, labels={"z": "y"}, annotations={"n": "o"}, minAvailable=2, pod_spec=pods("other"))
    change = clique_patch(before, one(a_set(changed)), keep_template=True)
    assert change == {"spec": {"minAvailable": 2}}


def test_what_a_template_drops_is_removed_and_what_others_put_there_stays() -> None:
    before = one(a_set(clique("a", labels={"x": "y", "k": "1"}, annotations={"n": "o"})))
    before["metadata"]["labels"]["theirs"] = before["metadata"]["annotations"]["theirs"] = "x"
    wanted = one(a_set(clique("a", labels={"k": "2"})))
    change = clique_patch(before, wanted)
    assert change is not None
    after = merged(before, change)
    assert after["metadata"]["labels"] == {**wanted["metadata"]["labels"], "theirs": "x"}
    assert after["metadata"]["annotations"] == {**wanted["metadata"]["annotations"], "theirs": "x"}
    assert clique_patch(after, wanted) is None


def test_a_selector_or_an_empty_volume_inside_of_a_template_reaches_the_clique() -> None:
    before = one(a_set(clique("a", pod_spec=pods(securityContext={"windowsOptions": {}}))))
    change = clique_patch(one(a_set(clique("a"))), before)
    assert change is not None
    assert change["spec"]["podSpec"] == {"securityContext": {"windowsOptions": {}}}


def test_a_clique_that_grove_made_is_taken_over_by_its_labels_only() -> None:
    made = one(a_set(clique("a", labels={"x": "y"})))
    theirs = copy.deepcopy(made)
    theirs["metadata"]["labels"]["grove.io/pod-template-hash"] = "5f6d8"
    del theirs["metadata"]["annotations"]
    change = clique_patch(theirs, made)
    assert change is not None
    assert change.keys() == {"metadata"}
    assert change["metadata"]["labels"].keys() == {"grove.io/pod-template-hash"}


def test_a_group_has_its_annotations_and_no_more() -> None:
    groups = [group("g", "a", replicas=3, minAvailable=2, annotations={"team": "ml"})]
    made = one(a_set(clique("a"), groups=groups), "w-0-g", "PodCliqueScalingGroup")
    assert made["spec"] == {"replicas": 3, "minAvailable": 2, "cliqueNames": ["a"]}
    assert made["metadata"]["annotations"]["team"] == "ml"
    assert made["metadata"]["labels"]["app.kubernetes.io/component"] == "pcs-podcliquescalinggroup"
    assert made["metadata"]["labels"]["grove.io/podcliqueset-replica-index"] == "0"


# --- gangs ------------------------------------------------------------------------------------------------------------


def gang(body: JSONObject) -> JSONObject:
    return one(body, "w-0", "PodGang")


def with_metadata(**metadata: JSONObject) -> JSONObject:
    body = a_set(clique("a", 2, minAvailable=1), clique("b"), priorityClassName="high")
    body["metadata"] |= metadata
    return body


def test_a_gang_lists_its_pods_by_name_and_how_many_start_together() -> None:
    made = gang(with_metadata())
    references = [{"namespace": "ns", "name": name} for name in ("w-0-a-x", "w-0-a-y")]
    assert made["spec"] == {
        "podgroups": [
            {"name": "w-0-a", "podReferences": references, "minReplicas": 1},
            {"name": "w-0-b", "podReferences": [], "minReplicas": 1},
        ],
        "priorityClassName": "high",
    }
    assert made["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "w",
        "app.kubernetes.io/component": "podgang",
        "grove.io/scheduler-name": "default-scheduler",
    }


def test_a_gang_mirrors_what_is_not_groves_own() -> None:
    labels = {"team": "ml", "grove.io/x": "y", "app.kubernetes.io/part-of": "mine"}
    noted = {"cost": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}", "echelon.dev/pause": "true"}
    made = gang(with_metadata(labels=labels, annotations=noted))["metadata"]
    assert made["labels"]["team"] == "ml"
    assert made["labels"]["app.kubernetes.io/part-of"] == "w"
    assert "grove.io/x" not in made["labels"]
    assert made["annotations"].keys() == {"cost", "echelon.dev/template-keys"}


def test_a_gang_loses_what_its_set_drops_and_keeps_what_is_groves_and_what_is_others() -> None:
    before = gang(with_metadata(labels={"team": "ml", "kept": "1"}, annotations={"cost": "1"}))
    before["metadata"]["annotations"] |= {"grove.io/topology-name": "t", "theirs": "x"}
    wanted = gang(with_metadata(labels={"kept": "2"}))
    after = merged(before, gang_patch(before, wanted))
    assert after["metadata"]["labels"] == wanted["metadata"]["labels"]
    assert after["metadata"]["annotations"] == {
        **wanted["metadata"]["annotations"],
        "grove.io/topology-name": "t",
        "theirs": "x",
    }


def test_a_gang_keeps_what_schedulers_put_into_it_and_loses_a_dropped_priority() -> None:
    there = gang(with_metadata())
    there["spec"]["reuseReservationRef"] = {"namespace": "ns", "name": "w-old"}
    assert gang_patch(there, gang(with_metadata())) is None
    plain = a_set(clique("a", 2, minAvailable=1), clique("b"))
    assert gang_patch(there, gang(plain)) == {"spec": {"priorityClassName": None}}


@given(st.permutations(["w-0-a-x", "w-0-a-y", "w-0-a-z"]))
def test_the_order_in_which_pods_are_found_does_not_count(found: list[str]) -> None:
    body = with_metadata()
    spec = spec_of(body)
    [wanted] = expected(spec, "w", {}, {}).gangs
    made = gang_body(body, spec, wanted, {"w-0-a": found})
    assert gang_patch(made, gang_body(body, spec, wanted, {"w-0-a": sorted(found)})) is None
