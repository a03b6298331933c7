"""Names are Grove's, and no two children of a set ever share one."""

from itertools import product

import pytest
from hypothesis import given

from echelon.api.base import JSONObject
from echelon.engine.pod_clique import names
from echelon.engine.pod_clique.accepting import NotAccepted, accept
from echelon.engine.pod_clique.names import STANDALONE, CliqueKey, GroupKey, shared_names
from echelon.engine.pod_clique.shape import expected
from tests.engine.pod_clique.sets import IMAGE, a_set, clique, group, sets, spec_of


def test_every_child_has_the_name_that_grove_gives_it() -> None:
    assert names.clique_name("w", CliqueKey(0, "", STANDALONE, "front")) == "w-0-front"
    assert names.group_name("w", GroupKey(0, "sgx")) == "w-0-sgx"
    assert names.clique_name("w", CliqueKey(0, "sgx", 1, "dec")) == "w-0-sgx-1-dec"
    assert names.base_gang_name("w", 0) == "w-0"
    assert names.scaled_gang_name("w", GroupKey(0, "sgx"), 0) == "w-0-sgx-0"
    assert names.pod_hostname("w-0-front", 0) == "w-0-front-0"
    assert names.service_name("w", 0) == "w-0"
    assert names.service_address("w", 0, "ns") == "w-0.ns.svc.cluster.local"
    assert names.role_name("w") == "grove.io:pcs:w"
    assert names.service_account_name("w") == "w"
    assert names.token_secret_name("w") == "w-ic-sat"
    assert names.autoscaler_name("w-0-front", "PodClique") == "w-0-front"
    assert names.autoscaler_name("w-0-sgx", "PodCliqueScalingGroup") == "w-0-sgx"


@given(sets())
def test_no_two_children_of_a_kind_share_a_name(body: JSONObject) -> None:
    found = accept(body, (), IMAGE)
    if isinstance(found, NotAccepted):
        assert "same name" in found.message
        return
    grown = {f"w-{i}-{each.name}": 12 for i in range(3) for each in found.spec.groups}
    shape = expected(found.spec, "w", grown, {})
    assert len(shape.clique) == len(shape.cliques)
    assert len({each.key for each in shape.cliques}) == len(shape.cliques)
    assert len(shape.group) == len(shape.groups)
    assert len(shape.gang) == len(shape.gangs)
    hostnames = {names.pod_hostname(each.name, index) for each in shape.cliques for index in range(3)}
    assert len(hostnames) == 3 * len(shape.cliques)


@given(sets())
def test_names_that_could_meet_are_exactly_those_that_do(body: JSONObject) -> None:
    template = body["spec"]["template"]
    cliques = [each["name"] for each in template["cliques"]]
    groups = {each["name"]: each["cliqueNames"] for each in template.get("podCliqueScalingGroups", ())}
    grouped = {each for members in groups.values() for each in members}
    # The numbers that occur in names are the only ones by which two of them can meet.
    full = [each for each in cliques if each not in grouped]
    full += [f"{name}-{j}-{each}" for name, members in groups.items() for each in members for j in range(12)]
    assert bool(shared_names(cliques, groups)) == (len(set(full)) < len(full))


@pytest.mark.parametrize(
    ("cliques", "groups"),
    [
        (["sg-0-dec", "dec"], {"sg": ["dec"]}),
        (["b-1-c", "c"], {"a": ["b-1-c"], "a-0-b": ["c"]}),
        (["1-c", "c"], {"a": ["1-c"], "a-0": ["c"]}),
    ],
)
def test_cliques_whose_names_would_meet_are_found(cliques: list[str], groups: dict[str, list[str]]) -> None:
    assert shared_names(cliques, groups)


def test_a_clique_whose_name_ends_like_another_has_its_own_template() -> None:
    # Grove takes the first clique whose name the full name ends with.
    worker = clique("worker", pod_spec={"containers": [{"name": "c", "image": "registry.example/cpu:1"}]})
    other = clique("gpu-worker", pod_spec={"containers": [{"name": "c", "image": "registry.example/gpu:1"}]})
    for order in ((worker, other), (other, worker)):
        shape = expected(spec_of(a_set(*order)), "w", {}, {})
        images = {each.name: each.spec.template.pod_spec["containers"][0]["image"] for each in shape.cliques}
        assert images == {"w-0-worker": "registry.example/cpu:1", "w-0-gpu-worker": "registry.example/gpu:1"}


def test_a_clique_and_a_group_of_the_same_name_have_autoscalers_of_their_own() -> None:
    assert names.autoscaler_name("w-0-x", "PodCliqueScalingGroup", taken=True) != names.autoscaler_name(
        "w-0-x", "PodClique", taken=True
    )


@given(sets())
def test_the_key_of_a_clique_is_read_back_from_its_labels_and_name(body: JSONObject) -> None:
    found = accept(body, (), IMAGE)
    if isinstance(found, NotAccepted):
        return
    for each in expected(found.spec, "w", {}, {}).cliques:
        labels = {names.REPLICA_INDEX: str(each.key.replica)}
        if each.group:
            labels |= {names.GROUP: each.group, names.GROUP_INDEX: str(each.key.group_replica)}
        assert names.read_clique_key(labels, each.name, "w", found.spec.group) == each.key


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({}, "w-0-a"),
        ({names.REPLICA_INDEX: "x"}, "w-0-a"),
        ({names.REPLICA_INDEX: "1"}, "w-0-a"),
        ({names.REPLICA_INDEX: "00"}, "w-00-a"),
        ({names.REPLICA_INDEX: "0"}, "w-0-"),
        ({names.REPLICA_INDEX: "0", names.GROUP: "w-0-other", names.GROUP_INDEX: "0"}, "w-0-other-0-a"),
        ({names.REPLICA_INDEX: "0", names.GROUP: "w-0-g"}, "w-0-g-0-a"),
        ({names.REPLICA_INDEX: "0", names.GROUP: "w-0-g", names.GROUP_INDEX: "1"}, "w-0-g-0-a"),
        ({names.REPLICA_INDEX: "9" * 5000}, "w-0-a"),
    ],
)
def test_labels_that_do_not_fit_the_name_are_no_key(labels: dict[str, str], name: str) -> None:
    groups = spec_of(a_set(clique("a"), groups=[group("g", "a")])).group
    assert names.read_clique_key(labels, name, "w", groups) is None


def test_a_pod_name_follows_from_what_is_replaced() -> None:
    made = {names.pod_name("w-0-a", uid, index, before) for uid, index, before in product("uv", (0, 1), ("", "p"))}
    assert len(made) == 8
    assert names.pod_name("w-0-a", "u", 0, "") == names.pod_name("w-0-a", "u", 0, "")
    assert all(each.startswith("w-0-a-") and len(each) <= 63 for each in made)
    # Texts that run into each other are told apart.
    assert names.pod_name("w-0-a", "u1", 0, "") != names.pod_name("w-0-a", "u", 10, "")


def test_every_name_fits_where_a_label_or_a_host_name_has_to() -> None:
    longest = names.clique_name("s" * 15, CliqueKey(4999, "g" * 15, 1999, "c" * 15))
    assert len(names.pod_hostname(longest, 99_999)) <= 63
