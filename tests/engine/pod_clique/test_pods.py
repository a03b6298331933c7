"""A pod has what its PodClique has, knows who it is, and is held until its gang is complete."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.groverules import MOST_PODS
from echelon.api.schema import schema_of
from echelon.engine.pod_clique.accepting import NotAccepted, accept
from echelon.engine.pod_clique.children import clique_body, owner_of
from echelon.engine.pod_clique.names import GATE
from echelon.engine.pod_clique.pod_facts import read_pod
from echelon.engine.pod_clique.pods import free_indices, pod_maker
from echelon.engine.pod_clique.set_spec import Settings
from echelon.engine.pod_clique.shape import expected
from echelon.hub.schema.structural import Structural
from echelon.hub.schema.validation import Validator
from tests.engine.pod_clique.sets import IMAGE, a_set, clique, group, pods, sets, spec_of

POD_SCHEMA = schema_of(POD.type)
STRUCTURAL, VALIDATOR = Structural(POD_SCHEMA), Validator(POD_SCHEMA)


def pod_of(body: JSONObject, name: str, index: int = 0, predecessor: str = "", **more: Any) -> JSONObject:
    spec = spec_of(body)
    wanted = expected(spec, "w", {}, {}).clique[name]
    owner = owner_of(POD_CLIQUE_SET, body)
    if wanted.group:
        owner = {**owner, **POD_CLIQUE_SCALING_GROUP.owner_reference(wanted.group, "uid-of-group")}
    made = clique_body(body, spec, wanted, owner)
    made["metadata"]["uid"] = "uid-of-clique"
    return pod_maker(made, body, spec, wanted.key, IMAGE).pod(index, predecessor, **more)


def env(pod: JSONObject, kind: str = "containers") -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in pod["spec"][kind][0]["env"]}


def label(name: str) -> JSONObject:
    return {"fieldRef": {"fieldPath": f"metadata.labels['{name}']"}}


GROUPED = a_set(clique("a", 2), clique("b", 3), groups=[group("g", "a", "b", replicas=2)])


def test_a_pod_of_a_standalone_clique_learns_who_it_is() -> None:
    assert env(pod_of(a_set(clique("a")), "w-0-a")) == {
        "GROVE_PCS_NAME": "w",
        "GROVE_PCS_INDEX": "0",
        "GROVE_PCLQ_NAME": "w-0-a",
        "GROVE_HEADLESS_SERVICE": "w-0.ns.svc.cluster.local",
        "GROVE_PCLQ_POD_INDEX": label("grove.io/podclique-pod-index"),
    }


def test_a_pod_of_a_group_learns_about_its_group() -> None:
    found = env(pod_of(GROUPED, "w-0-g-1-b"))
    assert found["GROVE_PCSG_NAME"] == "w-0-g"
    assert found["GROVE_PCSG_INDEX"] == label("grove.io/podcliquescalinggroup-replica-index")
    assert found["GROVE_PCLQ_NAME"] == "w-0-g-1-b"


def test_the_template_pod_count_of_a_group_is_of_its_own_cliques_only() -> None:
    assert env(pod_of(GROUPED, "w-0-g-0-a"))["GROVE_PCSG_TEMPLATE_NUM_PODS"] == "5"
    some = a_set(clique("a", 2), clique("b", 3), groups=[group("g", "b")])
    assert env(pod_of(some, "w-0-g-0-b"))["GROVE_PCSG_TEMPLATE_NUM_PODS"] == "3"
    assert "GROVE_PCSG_TEMPLATE_NUM_PODS" not in env(pod_of(some, "w-0-a"))


def test_variables_come_first_and_replace_a_users_of_the_same_name_only() -> None:
    mine = [{"name": "MINE", "value": "$(GROVE_PCS_NAME)"}, {"name": "GROVE_PCS_NAME", "value": "mine"}]
    container = {"name": "c", "image": "i", "env": mine}
    spec = {"containers": [container], "initContainers": [{**container, "name": "i"}]}
    pod = pod_of(a_set(clique("a", pod_spec=spec)), "w-0-a")
    for kind in ("containers", "initContainers"):
        names = [each["name"] for each in pod["spec"][kind][0]["env"]]
        assert names[0] == "GROVE_PCS_NAME"
        assert names[-1] == "MINE"
        assert len(names) == len(set(names)) == 6
        assert env(pod, kind)["GROVE_PCS_NAME"] == "w"


def test_every_container_and_init_container_learns_it() -> None:
    spec = {"containers": [{"name": name, "image": "i"} for name in "abc"], "initContainers": [{"name": "i"}]}
    pod = pod_of(a_set(clique("a", pod_spec=spec)), "w-0-a")
    assert all("env" in each for each in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]))


def test_a_pod_has_a_host_name_under_the_service_of_its_replica() -> None:
    pod = pod_of(a_set(clique("a", pod_spec=pods(hostname="mine", subdomain="mine"))), "w-0-a", 3)
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("w-0-a-3", "w-0")


def test_the_gates_of_a_template_are_replaced() -> None:
    gated = pods(schedulingGates=[{"name": "example.com/mine"}])
    assert pod_of(a_set(clique("a", pod_spec=gated)), "w-0-a")["spec"]["schedulingGates"] == [{"name": GATE}]


def test_a_pod_has_the_labels_of_its_place() -> None:
    body = a_set(
        clique("a", labels={"tier": "x", "grove.io/podgang": "mine"}, annotations={"note": "y"}),
        groups=[group("g", "a", replicas=2)],
    )
    pod = pod_of(body, "w-0-g-1-a", 4, annotations={"echelon.dev/ended-before": "2"})
    assert pod["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "w",
        "app.kubernetes.io/name": "w-0-g-1-a",
        "app.kubernetes.io/component": "pcsg-podclique",
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/podcliquescalinggroup": "w-0-g",
        "grove.io/podcliquescalinggroup-replica-index": "1",
        "grove.io/podgang": "w-0-g-0",
        "grove.io/base-podgang": "w-0",
        "grove.io/podclique": "w-0-g-1-a",
        "grove.io/podclique-pod-index": "4",
        "grove.io/pod-template-hash": spec_of(body).clique["a"].hash,
        "tier": "x",
    }
    assert pod["metadata"]["annotations"] == {"note": "y", "echelon.dev/ended-before": "2"}
    assert [each["name"] for each in pod["metadata"]["ownerReferences"] if each["controller"]] == ["w-0-g-1-a"]


def test_what_others_put_on_a_podclique_reaches_no_pod() -> None:
    body = a_set(clique("a"))
    spec = spec_of(body)
    wanted = expected(spec, "w", {}, {}).cliques[0]
    made = clique_body(body, spec, wanted, owner_of(POD_CLIQUE_SET, body))
    made["metadata"]["labels"]["theirs"] = made["metadata"]["annotations"]["theirs"] = "x"
    pod = pod_maker(made, body, spec, wanted.key, IMAGE).pod(0, "")
    assert "theirs" not in pod["metadata"]["labels"]
    assert "annotations" not in pod["metadata"]


def test_a_pod_of_a_clique_that_somebody_else_made_is_cleared_of_what_the_controller_sets() -> None:
    body = a_set(clique("a"))
    spec = spec_of(body)
    wanted = expected(spec, "w", {}, {}).cliques[0]
    theirs = clique_body(body, spec, wanted, owner_of(POD_CLIQUE_SET, body))
    own = [{"name": "GROVE_PCS_NAME", "value": "mine"}, {"name": "MINE"}]
    theirs["spec"]["podSpec"] = {
        "containers": [{"name": "c", "image": "i", "env": own}],
        "schedulingGates": [{"name": "example.com/mine"}],
    }
    pod = pod_maker(theirs, body, spec, wanted.key, IMAGE).pod(0, "")
    names = [each["name"] for each in pod["spec"]["containers"][0]["env"]]
    assert len(names) == len(set(names)) == 6
    assert env(pod)["GROVE_PCS_NAME"] == "w"
    assert pod["spec"]["schedulingGates"] == [{"name": GATE}]


def test_a_pod_is_made_of_its_podclique_whatever_the_set_says_by_now() -> None:
    body = a_set(clique("a"))
    spec = spec_of(body)
    wanted = expected(spec, "w", {}, {}).cliques[0]
    made = clique_body(body, spec, wanted, owner_of(POD_CLIQUE_SET, body))
    later = a_set(clique("a", pod_spec=pods("registry.example/c:2")))
    pod = pod_maker(made, later, spec_of(later), wanted.key, IMAGE).pod(0, "")
    assert pod["spec"]["containers"][0]["image"] == "registry.example/c:1"
    assert pod["metadata"]["labels"]["grove.io/pod-template-hash"] == spec.clique["a"].hash


def test_the_priority_class_of_the_set_reaches_the_pod() -> None:
    body = a_set(clique("a", pod_spec=pods(priorityClassName="low")), priorityClassName="high")
    assert pod_of(body, "w-0-a")["spec"]["priorityClassName"] == "high"


def test_a_pod_that_waits_has_the_container_that_waits_last_and_out_of_the_hash() -> None:
    cliques = (clique("a", 3, minAvailable=2), clique("b", pod_spec={**pods(), "initContainers": [{"name": "i"}]}))
    plain, ordered = a_set(*cliques), a_set(*cliques, cliqueStartupType="CliqueStartupTypeInOrder")
    pod = pod_of(ordered, "w-0-b")
    assert [each["name"] for each in pod["spec"]["initContainers"]] == ["i", "grove-initc"]
    waiter = pod["spec"]["initContainers"][-1]
    assert waiter["args"] == ["--podcliques=w-0-a:2"]
    assert waiter["image"] == IMAGE.init_image
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    assert volumes["sa-token-secret-vol"]["secret"] == {"secretName": "w-ic-sat"}
    assert {each["path"] for each in volumes["pod-info-vol"]["downwardAPI"]["items"]} == {"namespace", "podgangname"}
    assert {each["mountPath"] for each in waiter["volumeMounts"]} == {
        "/var/grove/pod-info",
        "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    assert spec_of(ordered).hashes == spec_of(plain).hashes
    assert "initContainers" not in pod_of(ordered, "w-0-a")["spec"]
    assert pod_of(plain, "w-0-b")["spec"].get("volumes") is None


def test_a_newer_image_of_the_container_that_waits_outdates_nobody() -> None:
    body = a_set(clique("a"), clique("b"), cliqueStartupType="CliqueStartupTypeInOrder")
    newer = Settings(init_image="registry.example/waiter:2")
    assert spec_of(body, settings=newer).hashes == spec_of(body).hashes


def test_a_pod_that_replaces_another_has_another_name() -> None:
    body = a_set(clique("a"))
    made = {pod_of(body, "w-0-a", index, before)["metadata"]["name"] for index in (0, 1) for before in ("", "u")}
    assert len(made) == 4


@given(sets(), st.integers(0, 12))
def test_every_pod_is_one_that_a_server_takes_and_whose_facts_are_read_back(body: JSONObject, index: int) -> None:
    found = accept(body, (), IMAGE)
    if isinstance(found, NotAccepted):
        return
    before = copy.deepcopy(body)
    for wanted in expected(found.spec, "w", {}, {}).cliques:
        made = clique_body(body, found.spec, wanted, owner_of(POD_CLIQUE_SET, body))
        pod = pod_maker(made, body, found.spec, wanted.key, IMAGE).pod(index, "")
        pruned, unknown = STRUCTURAL.prune(copy.deepcopy(pod))
        assert (pruned, unknown) == (pod, [])
        assert VALIDATOR.validate(STRUCTURAL.default(pruned)) == []
        facts = read_pod(pod)
        assert (facts.index, facts.hash, facts.gang) == (index, wanted.spec.hash, wanted.gang)
        assert (facts.gated, facts.foreign_gates) == (True, ())
    assert body == before


# --- indices ----------------------------------------------------------------------------------------------------------


def test_indices_of_an_empty_clique_begin_at_zero() -> None:
    assert free_indices((), 3) == (0, 1, 2)


def test_holes_are_filled_first() -> None:
    assert free_indices({0, 2, 5}, 4) == (1, 3, 4, 6)


def test_indices_go_on_where_there_are_no_holes() -> None:
    assert free_indices({0, 1}, 2) == (2, 3)
    assert free_indices({0, 1}, 0) == free_indices({0, 1}, -1) == ()


def test_a_slip_of_a_finger_makes_no_billion_indices() -> None:
    assert len(free_indices((), 10**9)) == MOST_PODS


@given(st.frozensets(st.integers(0, 50)), st.integers(0, 20))
def test_free_indices_are_the_lowest_that_nobody_has(taken: frozenset[int], wanted: int) -> None:
    found = free_indices(taken, wanted)
    assert len(found) == wanted
    assert not taken & set(found)
    assert all(index in taken or index in found for index in range(max(found, default=-1) + 1))
