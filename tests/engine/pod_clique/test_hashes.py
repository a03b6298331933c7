"""A hash changes when pods would, and at no other time: not by an upgrade, a re-apply or a program in Go."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.crd import crd
from echelon.api.grove import POD_CLIQUE_SET
from echelon.engine.pod_clique.accepting import NotAccepted, accept
from echelon.engine.pod_clique.children import clique_body, owner_of
from echelon.engine.pod_clique.hashes import generation_hash, is_foreign, template_hash
from echelon.engine.pod_clique.shape import expected
from echelon.engine.pod_clique.template import CliqueTemplate, read_clique_template, read_template
from echelon.hub.schema.structural import Structural
from tests.engine.pod_clique.sets import IMAGE, POD_SPECS, a_set, clique, group, pods, sets, spec_of

SERVED = Structural(crd(POD_CLIQUE_SET)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def hash_of(pod_spec: JSONObject, priority_class: str = "", **more: Any) -> str:
    return template_hash(read_template(clique("a", pod_spec=pod_spec, **more), priority_class, member=False))


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(each) for each in value] if isinstance(value, list) else value


@given(POD_SPECS)
def test_the_order_of_keys_does_not_count(pod_spec: JSONObject) -> None:
    assert hash_of(pod_spec) == hash_of(shuffled(pod_spec))


@given(POD_SPECS)
def test_a_null_is_nothing(pod_spec: JSONObject) -> None:
    nulled = copy.deepcopy(pod_spec)
    nulled["runtimeClassName"] = None
    nulled["containers"][0]["lifecycle"] = None
    assert hash_of(nulled) == hash_of(pod_spec)
    assert template_hash(CliqueTemplate({}, {}, nulled)) == template_hash(CliqueTemplate({}, {}, pod_spec))


# What a program in Go leaves out, or puts in, when it has read an object and writes it back.
EMPTIES: list[tuple[str, Any]] = [
    ("", {"volumes": []}),
    ("", {"initContainers": []}),
    ("", {"imagePullSecrets": []}),
    ("", {"tolerations": []}),
    ("", {"nodeSelector": {}}),
    ("", {"securityContext": {}}),
    ("", {"affinity": {}}),
    ("", {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}),
    ("", {"serviceAccountName": ""}),
    ("", {"priorityClassName": ""}),
    ("", {"schedulerName": ""}),
    ("", {"hostNetwork": False}),
    ("container", {"resources": {}}),
    ("container", {"resources": {"limits": {}, "requests": {}}}),
    ("container", {"env": []}),
    ("container", {"command": []}),
    ("container", {"ports": []}),
    ("container", {"volumeMounts": []}),
    ("container", {"tty": False}),
    ("container", {"imagePullPolicy": ""}),
    ("container", {"securityContext": {}}),
    ("clique", {"labels": {}}),
    ("clique", {"annotations": {}}),
]


@pytest.mark.parametrize(("where", "more"), EMPTIES)
def test_a_meaningless_empty_is_nothing(where: str, more: JSONObject) -> None:
    written = pods()
    outside = more if where == "clique" else {}
    if where != "clique":
        (written["containers"][0] if where == "container" else written).update(more)
    assert hash_of(written, **outside) == hash_of(pods())


def test_an_empty_environment_variable_is_one_without_a_value() -> None:
    named = pods()
    named["containers"][0]["env"] = [{"name": "A"}]
    valued = copy.deepcopy(named)
    valued["containers"][0]["env"][0]["value"] = ""
    assert hash_of(named) == hash_of(valued) != hash_of(pods())


def term(selector: Any) -> JSONObject:
    required = [{"topologyKey": "zone", **selector}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


# Where an empty value says something, or where a closed list has no business.
MEANINGFUL: list[tuple[JSONObject, JSONObject]] = [
    ({"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumes": [{"name": "v"}]}),
    (term({"labelSelector": {}}), term({})),
    (term({"labelSelector": {}, "namespaceSelector": {}}), term({"labelSelector": {}})),
    ({"nodeSelector": {"hostname": ""}}, {"nodeSelector": {}}),
    ({"nodeSelector": {"volumes": ""}}, {}),
    ({"tolerations": [{}]}, {"tolerations": []}),
    ({"hostUsers": False}, {}),
    ({"automountServiceAccountToken": False}, {}),
    ({"enableServiceLinks": False}, {}),
    ({"terminationGracePeriodSeconds": 0}, {}),
]


@pytest.mark.parametrize(("one", "other"), MEANINGFUL)
def test_an_empty_value_that_means_something_counts(one: JSONObject, other: JSONObject) -> None:
    assert hash_of(pods(**one)) != hash_of(pods(**other))


def test_an_empty_selector_is_the_same_however_it_is_written() -> None:
    assert hash_of(pods(**term({"labelSelector": {}}))) == hash_of(pods(**term({"labelSelector": {"matchLabels": {}}})))


def test_the_order_of_lists_counts() -> None:
    one, other = pods(), pods()
    one["containers"][0]["args"] = ["a", "b"]
    other["containers"][0]["args"] = ["b", "a"]
    assert hash_of(one) != hash_of(other)


@given(sets())
def test_a_template_hashes_as_it_did_after_a_server_has_stored_it(body: JSONObject) -> None:
    def store(given: JSONObject) -> JSONObject:
        found: JSONObject = SERVED.default(SERVED.prune(copy.deepcopy(given))[0])
        return found

    first = accept(store(body), (), IMAGE)
    again = accept(store(store(body)), (), IMAGE)
    if not isinstance(first, NotAccepted):
        assert again == first
        assert not isinstance(again, NotAccepted)
        assert again.spec.generation_hash == first.spec.generation_hash


@given(sets(), st.booleans())
def test_a_clique_that_was_made_has_the_hash_of_its_template(body: JSONObject, labelled: bool) -> None:
    found = accept(body, (), IMAGE)
    if isinstance(found, NotAccepted):
        return
    for wanted in expected(found.spec, "w", {}, {}).cliques:
        made = clique_body(body, found.spec, wanted, owner_of(POD_CLIQUE_SET, body))
        if labelled:  # by somebody else, who has no say in what pods get
            made["metadata"]["labels"]["example.com/theirs"] = "x"
            made["metadata"]["annotations"]["example.com/theirs"] = "x"
        assert template_hash(read_clique_template(made, member=not wanted.key.standalone)) == wanted.spec.hash


def test_hashes_are_what_they_were_when_pods_were_first_labelled_with_them() -> None:
    # These are on pods that run. A change here restarts every pod of every set after an upgrade.
    assert hash_of(pods()) == "e1-l7gnt24w5x"
    assert generation_hash({"a": "e1-x", "b": "e1-y"}) == "e1-q7knxf5wcw"


def test_hashes_of_grove_are_told_from_ours() -> None:
    assert is_foreign("5f6d8bbcd")
    assert is_foreign("")
    assert not is_foreign(hash_of(pods()))


# --- what pods get ----------------------------------------------------------------------------------------------------


def test_a_priority_class_of_the_set_reaches_pods_and_the_hash_alike() -> None:
    # Grove hashes the set's, and gives pods the clique's.
    own = clique("a", pod_spec=pods(priorityClassName="mine"))
    template = read_template(own, "of-the-set", member=False)
    assert template.pod_spec["priorityClassName"] == "of-the-set"
    assert template_hash(template) == hash_of(pods(), "of-the-set") != hash_of(pods(), "another")


def test_a_priority_class_of_a_clique_is_no_invisible_drift() -> None:
    assert hash_of(pods(priorityClassName="a")) != hash_of(pods(priorityClassName="b"))
    # Where the set has one, the clique's reaches no pod.
    assert hash_of(pods(priorityClassName="a"), "x") == hash_of(pods(priorityClassName="b"), "x")


@pytest.mark.parametrize(
    "edit",
    [
        {"schedulingGates": [{"name": "example.com/mine"}]},
        {"hostname": "mine"},
        {"subdomain": "mine"},
        {"containers": [{**pods()["containers"][0], "env": [{"name": "GROVE_PCS_NAME", "value": "mine"}]}]},
    ],
)
def test_what_no_pod_gets_is_not_hashed(edit: JSONObject) -> None:
    assert hash_of({**pods(), **edit}) == hash_of(pods())


def test_labels_that_the_controller_sets_are_not_hashed() -> None:
    assert hash_of(pods(), labels={"app.kubernetes.io/name": "mine"}) == hash_of(pods())
    assert hash_of(pods(), annotations={"grove.io/topology-name": "mine"}) == hash_of(pods())


def test_variables_of_a_group_are_a_users_own_outside_of_groups() -> None:
    named = pods()
    named["containers"][0]["env"] = [{"name": "GROVE_PCSG_NAME", "value": "mine"}]
    entry = clique("a", pod_spec=named)
    alone, member = (read_template(entry, "", member=member) for member in (False, True))
    assert "env" in alone.pod_spec["containers"][0]
    assert "env" not in member.pod_spec["containers"][0]


def changed(edit: Any) -> bool:
    body = a_set(clique("a", 2, labels={"x": "y"}), clique("b", 2), groups=[group("g", "b")])
    before = spec_of(body).generation_hash
    edit(body["spec"], body["spec"]["template"])
    return spec_of(body).generation_hash != before


def test_the_generation_hash_covers_what_pods_get() -> None:
    assert changed(lambda _, t: t["cliques"][0].update(labels={"x": "z"}))
    assert changed(lambda _, t: t["cliques"][0].update(annotations={"x": "z"}))
    assert changed(lambda _, t: t["cliques"][1]["spec"]["podSpec"].update(hostNetwork=True))
    assert changed(lambda _, t: t.update(priorityClassName="high"))


def test_the_generation_hash_covers_nothing_else() -> None:
    assert not changed(lambda s, _: s.update(replicas=7))
    assert not changed(lambda s, _: s.update(updateStrategy={"type": "OnDelete"}))
    assert not changed(lambda _, t: t["cliques"][0]["spec"].update(replicas=3))
    assert not changed(lambda _, t: t["cliques"][0]["spec"].update(minAvailable=1))
    assert not changed(lambda _, t: t["cliques"][0]["spec"].update(roleName="other"))
    assert not changed(lambda _, t: t["cliques"][0]["spec"].update(autoScalingConfig={"maxReplicas": 9}))
    assert not changed(lambda _, t: t["cliques"][0].update(rollingUpdate={"maxUnavailable": 2}))
    assert not changed(lambda _, t: t.update(terminationDelay="1h"))
    assert not changed(lambda _, t: t["podCliqueScalingGroups"][0].update(replicas=3))
    # No pod is different for the order of cliques where it may change; Grove begins an update that does nothing.
    assert not changed(lambda _, t: t["cliques"].reverse())


def test_two_cliques_that_swap_their_templates_are_a_change() -> None:
    one, other = clique("a", labels={"x": "1"}), clique("b", labels={"x": "2"})
    swapped = (clique("a", labels={"x": "2"}), clique("b", labels={"x": "1"}))
    assert spec_of(a_set(one, other)).generation_hash != spec_of(a_set(*swapped)).generation_hash


def test_a_template_is_equal_to_what_it_was_read_from_twice() -> None:
    entry = clique("a", labels={"x": "y"})
    assert read_template(entry, "", member=False) == CliqueTemplate({"x": "y"}, {}, pods())
