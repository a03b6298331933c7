from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hub.access.coverage import uncovered
from echelon.hub.access.escalation import check_binding, check_role, escalation_error
from echelon.hub.access.identity import User
from echelon.hub.access.rbac import RBAC_GROUP, Attributes, Authorizer, parse_rules
from echelon.kube.errors import Forbidden, NotFound

Wire = dict[str, Any]
ALICE = User("alice", ("team-a", "system:authenticated"))


def rule(verbs: list[str], resources: list[str], group: str = "", **more: list[str]) -> Wire:
    return {"verbs": verbs, "apiGroups": [group], "resources": resources, **more}


def holding(*rules: Wire, namespace: str = "") -> Authorizer:
    authorizer = Authorizer()
    authorizer.changed("ClusterRole", "", "held", {"rules": list(rules)})
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    bound = {"roleRef": {"kind": "ClusterRole", "name": "held"}, "subjects": [{"kind": "User", "name": "alice"}]}
    authorizer.changed(kind, namespace, "held", bound)
    return authorizer


def writing(resource: str, namespace: str = "", who: User = ALICE, name: str = "") -> Attributes:
    return Attributes(user=who, verb="update", group=RBAC_GROUP, resource=resource, namespace=namespace, name=name)


def role(*rules: Wire, **more: Any) -> Wire:
    return {"metadata": {"name": "new"}, "rules": list(rules), **more}


def binding(kind: str, name: str) -> Wire:
    return {"metadata": {"name": "new"}, "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}}


SECRETS = rule(["get", "list"], ["secrets"])


def test_a_role_needs_rules_that_its_writer_holds() -> None:
    check_role(holding(SECRETS), writing("clusterroles"), role(rule(["get"], ["secrets"])))
    with pytest.raises(Forbidden):
        check_role(holding(SECRETS), writing("clusterroles"), role(rule(["delete"], ["secrets"])))


def test_the_refusal_lists_what_is_missing_as_kubernetes_does() -> None:
    wanted = role(rule(["get", "watch", "delete"], ["secrets"]), {"verbs": ["get"], "nonResourceURLs": ["/metrics"]})
    with pytest.raises(Forbidden) as caught:
        check_role(holding(SECRETS), writing("clusterroles"), wanted)
    assert caught.value.message == (
        'clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "alice" (groups=["team-a" '
        '"system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["watch" "delete"]}\n'
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}'
    )


def test_rights_in_one_namespace_cannot_be_given_away_in_another_or_everywhere() -> None:
    authorizer = holding(SECRETS, namespace="team")
    check_role(authorizer, writing("roles", "team"), role(SECRETS))
    for elsewhere in (writing("roles", "other"), writing("clusterroles")):
        with pytest.raises(Forbidden):
            check_role(authorizer, elsewhere, role(SECRETS))


def test_the_verb_escalate_allows_it_for_the_named_role_only() -> None:
    escalate = rule(["escalate"], ["clusterroles"], RBAC_GROUP, resourceNames=["new"])
    authorizer = holding(escalate)
    check_role(authorizer, writing("clusterroles", name="new"), role(SECRETS))
    for other in (writing("clusterroles", name="other"), writing("clusterroles"), writing("roles", "team", name="new")):
        with pytest.raises(Forbidden):
            check_role(authorizer, other, role(SECRETS))


def test_the_verb_bind_does_not_let_roles_be_written() -> None:
    with pytest.raises(Forbidden):
        check_role(holding(rule(["bind"], ["*"], RBAC_GROUP)), writing("clusterroles"), role(SECRETS))


def test_masters_can_give_anything_away() -> None:
    root = User("root", ("system:masters",))
    check_role(Authorizer(), writing("clusterroles", who=root), role(rule(["*"], ["*"], "*")))
    check_binding(Authorizer(), writing("clusterrolebindings", who=root), binding("ClusterRole", "missing"))


def test_only_somebody_who_holds_everything_can_aggregate() -> None:
    aggregated = role(aggregationRule={"clusterRoleSelectors": []})
    with pytest.raises(Forbidden, match="must have cluster-admin privileges to use the aggregationRule"):
        check_role(holding(SECRETS), writing("clusterroles"), aggregated)
    # Nor can it be taken away from the role by somebody else.
    with pytest.raises(Forbidden, match="aggregationRule"):
        check_role(holding(SECRETS), writing("clusterroles"), role(), aggregated)
    everything = holding(rule(["*"], ["*"], "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]})
    check_role(everything, writing("clusterroles"), aggregated)


def test_the_garbage_collector_can_finish_a_role_whose_rules_it_does_not_hold() -> None:
    old = {"metadata": {"name": "new", "finalizers": ["x"], "labels": {"a": "b"}}, "rules": [SECRETS]}
    check_role(Authorizer(), writing("roles", "team"), {**old, "metadata": {"name": "new", "labels": {"a": "b"}}}, old)
    with pytest.raises(Forbidden):
        check_role(Authorizer(), writing("roles", "team"), {**old, "metadata": {"name": "new"}}, old)


def test_a_binding_needs_the_rules_of_its_role() -> None:
    authorizer = holding(SECRETS, namespace="team")
    check_binding(authorizer, writing("rolebindings", "team"), binding("ClusterRole", "held"))
    for elsewhere in (writing("rolebindings", "other"), writing("clusterrolebindings")):
        with pytest.raises(Forbidden, match="not currently held"):
            check_binding(authorizer, elsewhere, binding("ClusterRole", "held"))


def test_the_verb_bind_allows_it_for_the_named_role_of_that_kind_only() -> None:
    authorizer = holding(rule(["bind"], ["clusterroles"], RBAC_GROUP, resourceNames=["power"]))
    for name in ("power", "other"):
        authorizer.changed("ClusterRole", "", name, {"rules": [rule(["*"], ["*"], "*")]})
    authorizer.changed("Role", "team", "power", {"rules": [rule(["*"], ["*"], "*")]})
    check_binding(authorizer, writing("rolebindings", "team"), binding("ClusterRole", "power"))
    check_binding(authorizer, writing("clusterrolebindings"), binding("ClusterRole", "power"))
    for other in (binding("ClusterRole", "other"), binding("Role", "power")):
        with pytest.raises(Forbidden):
            check_binding(authorizer, writing("rolebindings", "team"), other)


def test_a_role_that_does_not_exist_cannot_be_bound_in_advance() -> None:
    with pytest.raises(NotFound, match=r'clusterrole\.rbac\.authorization\.k8s\.io "later" not found'):
        check_binding(holding(SECRETS), writing("clusterrolebindings"), binding("ClusterRole", "later"))


def test_a_role_of_another_namespace_is_not_the_one_that_is_bound() -> None:
    authorizer = holding(SECRETS)
    authorizer.changed("Role", "other", "harmless", {"rules": []})
    with pytest.raises(NotFound):
        check_binding(authorizer, writing("rolebindings", "team"), binding("Role", "harmless"))


@pytest.mark.parametrize(
    ("held", "wanted", "covered"),
    [
        (rule(["*"], ["*"]), rule(["get"], ["pods"]), True),
        (rule(["get"], ["pods"]), rule(["*"], ["pods"]), False),
        (rule(["get"], ["*"]), rule(["get"], ["pods/log"]), True),
        (rule(["get"], ["pods"]), rule(["get"], ["pods/log"]), False),
        (rule(["get"], ["*/log"]), rule(["get"], ["pods/log"]), True),
        (rule(["get"], ["pods/log"]), rule(["get"], ["*/log"]), False),
        (rule(["get"], ["pods"]), rule(["get"], ["*"]), False),
        (rule(["get"], ["pods"], "*"), rule(["get"], ["pods"], "apps"), True),
        (rule(["get"], ["pods"], "apps"), rule(["get"], ["pods"], "*"), False),
        (rule(["get"], ["pods"]), rule(["get"], ["pods"], resourceNames=["a"]), True),
        (rule(["get"], ["pods"], resourceNames=["a"]), rule(["get"], ["pods"], resourceNames=["a"]), True),
        (rule(["get"], ["pods"], resourceNames=["a"]), rule(["get"], ["pods"], resourceNames=["a", "b"]), False),
        (rule(["get"], ["pods"], resourceNames=["a"]), rule(["get"], ["pods"]), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, {"verbs": ["get"], "nonResourceURLs": ["/a/b"]}, True),
        ({"verbs": ["get"], "nonResourceURLs": ["/a/b"]}, {"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, False),
        ({"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, {"verbs": ["put"], "nonResourceURLs": ["/a/b"]}, False),
        (rule(["*"], ["*"], "*"), {"verbs": ["get"], "nonResourceURLs": ["/a"]}, False),
        ({"verbs": ["*"], "nonResourceURLs": ["*"]}, rule(["get"], ["pods"]), False),
    ],
)
def test_a_held_rule_covers_what_is_no_wider(held: Wire, wanted: Wire, covered: bool) -> None:
    assert (list(uncovered(parse_rules([held]), parse_rules([wanted]))) == []) is covered
    assert (escalation_error(holding(held), ALICE, "", parse_rules([wanted])) == "") is covered


def some(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)


rules = st.lists(
    st.builds(
        lambda v, g, r, n: {"verbs": v, "apiGroups": g, "resources": r, "resourceNames": n},
        some("get", "list", "*"),
        some("", "apps", "*"),
        some("pods", "pods/log", "*/log", "*"),
        st.one_of(st.just([]), some("a", "b")),
    ),
    max_size=3,
)
requests = st.builds(
    Attributes,
    user=st.just(ALICE),
    verb=st.sampled_from(["get", "list", "put"]),
    group=st.sampled_from(["", "apps", "batch"]),
    resource=st.sampled_from(["pods", "nodes"]),
    subresource=st.sampled_from(["", "log", "exec"]),
    name=st.sampled_from(["", "a", "b", "c"]),
)


@given(held=rules, wanted=rules, asked=requests)
def test_whatever_covered_rules_allow_the_holder_was_allowed_already(
    held: list[Wire], wanted: list[Wire], asked: Attributes
) -> None:
    if any(uncovered(parse_rules(held), parse_rules(wanted))):
        return
    if holding(*wanted).authorize(asked).allowed:
        assert holding(*held).authorize(asked).allowed


@given(held=rules, wanted=rules)
def test_what_is_uncovered_is_what_no_held_rule_covers_alone(held: list[Wire], wanted: list[Wire]) -> None:
    found = list(uncovered(parse_rules(held), parse_rules(wanted)))
    parts = [part for each in wanted for part in multiplied_out(each)]
    assert all(part in parts for part in found)
    for part in parts:
        assert (part in found) is not any(is_within(part, own) for own in held)


def multiplied_out(wanted: Wire) -> list[Wire]:
    keys = [key for key in ("apiGroups", "resources", "verbs", "resourceNames") if wanted[key]]
    return [
        {key: [value] for key, value in zip(keys, each, strict=True)}
        for each in product(*(wanted[key] for key in keys))
    ]


def is_within(part: Wire, own: Wire) -> bool:
    (group,), (resource,), (verb,) = part["apiGroups"], part["resources"], part["verbs"]
    spellings = {resource, "*", "*/" + resource.partition("/")[2] if "/" in resource else "*"}
    return (
        not {group, "*"}.isdisjoint(own["apiGroups"])
        and not spellings.isdisjoint(own["resources"])
        and not {verb, "*"}.isdisjoint(own["verbs"])
        and (not own["resourceNames"] or part.get("resourceNames", [""])[0] in own["resourceNames"])
    )


@pytest.mark.parametrize("covered", [True, False])
def test_a_rule_that_stands_for_a_trillion_rights_costs_no_more_than_its_words(covered: bool) -> None:
    many = [f"w{number}" for number in range(1000)]
    wanted = {"verbs": many, "apiGroups": many, "resources": many, "resourceNames": many}
    held = rule(["*"], ["*"], "*") if covered else rule(["*"], many[1:], "*")
    refused = escalation_error(holding(held), ALICE, "", parse_rules([wanted]))
    if covered:
        assert refused == ""
    else:
        assert refused.endswith("\nand more")
        assert len(refused) < 200_000
