"""Which requests for certificates are a cluster's, and when they need no person."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.joining import (
    ALL_CLUSTERS,
    BOOTSTRAPPERS_OF_ANY,
    Answer,
    Asked,
    Known,
    agent_groups,
    agent_user,
    bootstrap_groups,
    faults,
    is_cluster_name,
    judge,
)

SIGNER = "kubernetes.io/kube-apiserver-client"
BOOTSTRAP = ("system:bootstrappers", *bootstrap_groups("c1"), "system:authenticated")
FIRST = Asked(
    "system:bootstrap:abc123", BOOTSTRAP, SIGNER, ("client auth",), (agent_user("c1", "a"),), agent_groups("c1")
)
RENEWAL = replace(FIRST, user=agent_user("c1", "a"), groups=(*agent_groups("c1"), "system:authenticated"))
NEW, ACCEPTED, JOINED = Known(), Known(accepted=True), Known(accepted=True, joined=True)


def test_names_are_those_of_open_cluster_management() -> None:
    assert agent_user("c1", "a") == "system:open-cluster-management:c1:a"
    assert agent_groups("c1") == (
        "system:open-cluster-management:c1",
        "system:open-cluster-management:managed-clusters",
    )


@pytest.mark.parametrize(
    ("asked", "known", "rules", "verdict"),
    [
        (RENEWAL, JOINED, (), Answer.APPROVE),
        (RENEWAL, ACCEPTED, (), Answer.APPROVE),
        (RENEWAL, NEW, ("*",), Answer.DENY),
        (RENEWAL, None, ("*",), Answer.DENY),
        (RENEWAL, replace(JOINED, leaving=True), (), Answer.DENY),
        (FIRST, None, ("*",), Answer.WAIT),
        (FIRST, NEW, (), Answer.WAIT),
        (FIRST, NEW, ("c2", "d*"), Answer.WAIT),
        (FIRST, NEW, ("c2", "c*"), Answer.ACCEPT),
        (FIRST, ACCEPTED, (), Answer.APPROVE),
        (FIRST, JOINED, ("*",), Answer.WAIT),
        (FIRST, replace(NEW, joined=True), ("*",), Answer.WAIT),
        (FIRST, replace(ACCEPTED, leaving=True), ("*",), Answer.DENY),
    ],
)
def test_when_a_request_needs_a_person(
    asked: Asked, known: Known | None, rules: tuple[str, ...], verdict: Answer
) -> None:
    found = judge(asked, known, rules)
    assert found.verdict is verdict
    assert found.why


@pytest.mark.parametrize(
    "asked",
    [
        replace(FIRST, user="kubelet", groups=("system:nodes",)),
        replace(FIRST, user="system:bootstrap:abc123", groups=("system:bootstrappers",)),  # kubeadm's, for nodes
        replace(FIRST, groups=(ALL_CLUSTERS,)),  # a group alone makes no cluster
        replace(RENEWAL, names=("system:open-cluster-management:cluster:c1:addon:x:agent:y",)),
    ],
)
def test_what_others_ask_for_is_not_looked_at(asked: Asked) -> None:
    assert judge(asked, JOINED, ("*",)).verdict is Answer.IGNORE


WRONG = {
    "signer": ({"signer": "kubernetes.io/kube-apiserver-client-kubelet"}, "its signer is"),
    "no usage": ({"usages": ()}, "its usages are none"),
    "server": ({"usages": ("server auth",)}, "its usages are server auth"),
    "more usages": ({"usages": ("client auth", "server auth")}, "its usages are client auth, server auth"),
    "no name": ({"names": ()}, "it asks for the name nothing"),
    "two names": ({"names": (agent_user("c1", "a"), agent_user("c1", "b"))}, "it asks for the name"),
    "foreign name": ({"names": ("system:admin",)}, "it asks for the name system:admin"),
    "no agent": ({"names": (agent_user("c1", ""),)}, "it asks for the name"),
    "more parts": ({"names": (agent_user("c1", "a:b"),)}, "it asks for the name"),
    "case": ({"names": (agent_user("C1", "a"),)}, "it asks for the name"),
    "no group": ({"organizations": ()}, "it asks for the groups none"),
    "one group": ({"organizations": agent_groups("c1")[:1]}, "it asks for the groups"),
    "more groups": ({"organizations": (*agent_groups("c1"), "system:masters")}, "it asks for the groups"),
    "a group twice": ({"organizations": (*agent_groups("c1"), ALL_CLUSTERS)}, "it asks for the groups"),
    "another's groups": ({"organizations": agent_groups("c2")}, "those of c1 are"),
    "more": ({"more": ("subjectAltName",)}, "it asks for more than a name and groups: subjectAltName"),
    "unreadable": ({"unreadable": "it is no certificate request"}, "it is no certificate request"),
}


@pytest.mark.parametrize("change", WRONG)
def test_what_is_not_exactly_an_agents_is_denied_and_said(change: str) -> None:
    fields, why = WRONG[change]
    wrong = replace(FIRST, **fields)  # type: ignore[arg-type]  # of any of its fields
    found = judge(wrong, ACCEPTED, ("*",))
    assert found.verdict is Answer.DENY
    assert why in found.why
    assert faults(wrong)


def test_a_token_is_good_for_its_cluster_and_one_that_is_for_any_for_all() -> None:
    other = replace(FIRST, names=(agent_user("c2", "a"),), organizations=agent_groups("c2"))
    assert judge(other, ACCEPTED).why == "its token is for c1 and not for c2"
    assert (
        judge(replace(other, groups=("system:bootstrappers", *bootstrap_groups(""))), ACCEPTED).verdict
        is Answer.APPROVE
    )
    assert bootstrap_groups("")[1] == BOOTSTRAPPERS_OF_ANY
    nobody = replace(FIRST, groups=("system:bootstrappers", bootstrap_groups("c1")[0]))
    assert judge(nobody, ACCEPTED).why == "its token is for no cluster and not for c1"


def test_a_cluster_renews_its_own_name_only() -> None:
    cluster = replace(RENEWAL, names=(agent_user("c2", "a"),), organizations=agent_groups("c2"))
    assert "may ask for its own name and not for" in judge(cluster, JOINED).why
    agent = replace(RENEWAL, names=(agent_user("c1", "b"),))
    assert "may ask for its own name and not for" in judge(agent, JOINED).why
    stranger = replace(RENEWAL, groups=(ALL_CLUSTERS,))
    assert "is not in the group system:open-cluster-management:c1" in judge(stranger, JOINED).why


def test_a_person_cannot_approve_what_neither_a_token_nor_the_cluster_asked_for() -> None:
    assert faults(FIRST) == faults(RENEWAL) == []
    assert "has neither a bootstrap token for c1 nor its certificate" in faults(replace(FIRST, user="eve"))[0]


NAMES = st.sampled_from(["c1", "c2", "c1-a", "managed-clusters", "cluster"])
GROUPS = st.lists(st.sampled_from([*agent_groups("c1"), *agent_groups("c2"), "system:masters", *BOOTSTRAP]), max_size=5)


@given(
    st.sampled_from(["system:bootstrap:abc123", agent_user("c1", "a"), agent_user("c2", "a"), "eve"]),
    GROUPS,
    st.lists(st.sampled_from(["client auth", "digital signature", "server auth", "cert sign"]), max_size=3),
    NAMES,
    GROUPS,
)
def test_whatever_is_approved_makes_exactly_the_cluster_that_asks(
    user: str, groups: list[str], usages: list[str], name: str, organizations: list[str]
) -> None:
    asked = Asked(user, groups, SIGNER, usages, (agent_user(name, "a"),), organizations)
    found = judge(asked, JOINED if user.startswith("system:open") else ACCEPTED, ("*",))
    if found.verdict in (Answer.APPROVE, Answer.ACCEPT):
        assert sorted(organizations) == sorted(agent_groups(name))
        assert "client auth" in usages
        assert not {"server auth", "cert sign"} & set(usages)
        assert f"system:bootstrappers:managedclusters:{name}" in groups or user == agent_user(name, "a")


@given(st.text(alphabet="ab1-:.A_", max_size=70))
def test_names_of_clusters_are_those_of_namespaces(name: str) -> None:
    plain = 0 < len(name) <= 63 and set(name) <= set("ab1-") and not name.startswith("-") and not name.endswith("-")
    assert is_cluster_name(name) == plain
