from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hub.access.identity import User
from echelon.hub.access.rbac import Attributes, Authorizer, Decision, refusal
from tests.examples import examples

Wire = dict[str, Any]

ALICE = User("alice", ("team-a", "system:authenticated"))
AGENT = User("system:serviceaccount:team:agent", ("system:serviceaccounts", "system:serviceaccounts:team"))


def rule(
    verbs: list[str], resources: list[str], groups: list[str] | None = None, names: list[str] | None = None
) -> Wire:
    return {
        "verbs": verbs,
        "apiGroups": [""] if groups is None else groups,
        "resources": resources,
        "resourceNames": names,
    }


def paths(*urls: str) -> Wire:
    return {"verbs": ["get"], "nonResourceURLs": list(urls)}


def user(name: str) -> Wire:
    return {"kind": "User", "name": name}


def binding(kind: str, role: str, *subjects: Wire) -> Wire:
    return {"roleRef": {"kind": kind, "name": role}, "subjects": list(subjects)}


def everywhere(*rules: Wire, to: Wire | None = None) -> Authorizer:
    """Return an authorizer in which alice, or another subject, has the rules in the whole cluster."""
    authorizer = Authorizer()
    authorizer.changed("ClusterRole", "", "r", {"rules": list(rules)})
    authorizer.changed("ClusterRoleBinding", "", "b", binding("ClusterRole", "r", to or user("alice")))
    return authorizer


def may(authorizer: Authorizer, verb: str, resource: str, who: User = ALICE, **more: str) -> bool:
    base, _, subresource = resource.partition("/")
    asked = Attributes(user=who, verb=verb, resource=base, subresource=subresource, **more)  # type: ignore[arg-type]
    return authorizer.authorize(asked).allowed


def may_get(authorizer: Authorizer, path: str, who: User = ALICE) -> bool:
    return authorizer.authorize(Attributes(user=who, verb="get", path=path, is_resource=False)).allowed


def test_without_a_rule_nothing_is_allowed() -> None:
    assert Authorizer().authorize(Attributes(user=ALICE, verb="get", resource="pods")) == Decision(False)


def test_masters_may_do_everything_whatever_is_stored() -> None:
    root = User("root", ("system:masters",))
    assert may(Authorizer(), "delete", "nodes", root)
    assert may_get(Authorizer(), "/metrics", root)
    assert not may(Authorizer(), "delete", "nodes", User("system:masters"))


@pytest.mark.parametrize(
    ("verb", "group", "resource", "allowed"),
    [
        ("get", "", "pods", True),
        ("list", "", "pods", False),
        ("get", "apps", "pods", False),
        ("get", "", "secrets", False),
        ("get", "", "pods/log", False),
        ("get", "", "pods/status", True),
        ("get", "", "services/status", False),
        ("patch", "apps", "deployments/scale", True),
        ("patch", "apps", "statefulsets/scale", True),
        ("patch", "apps", "deployments", False),
        ("patch", "apps", "deployments/status", False),
        ("approve", "anything.io", "widgets", True),
        ("approve", "anything.io", "widgets/sub", True),
        ("delete", "batch", "jobs", True),
        ("escalate", "batch", "jobs", True),
        ("delete", "batch.other", "jobs", False),
    ],
)
def test_a_rule_allows_its_verbs_on_its_resources_in_its_groups(
    verb: str, group: str, resource: str, allowed: bool
) -> None:
    authorizer = everywhere(
        rule(["get"], ["pods", "pods/status"]),
        rule(["patch"], ["*/scale"], ["apps"]),
        rule(["approve"], ["*"], ["*"]),
        rule(["*"], ["jobs"], ["batch"]),
    )
    assert may(authorizer, verb, resource, group=group) is allowed


def test_a_rule_with_names_is_about_these_objects_only() -> None:
    authorizer = everywhere(rule(["get", "list", "create", "deletecollection"], ["secrets"], names=["mine"]))
    assert may(authorizer, "get", "secrets", name="mine")
    assert may(authorizer, "list", "secrets", name="mine")
    assert not may(authorizer, "get", "secrets", name="yours")
    # Without a name it is about all of them.
    assert not may(authorizer, "list", "secrets")
    assert not may(authorizer, "create", "secrets")
    assert not may(authorizer, "deletecollection", "secrets")


@pytest.mark.parametrize(
    ("url", "path", "allowed"),
    [
        ("/metrics", "/metrics", True),
        ("/metrics", "/metrics/", False),
        ("/metrics", "/metricsx", False),
        ("/apis/*", "/apis/apps/v1", True),
        ("/apis/*", "/apis", False),
        ("/apis/*", "/api", False),
        ("/ap*", "/apis/apps", True),
        ("*", "/anything", True),
        ("/a*c", "/abc", False),
    ],
)
def test_paths_are_literal_up_to_a_star_at_the_end(url: str, path: str, allowed: bool) -> None:
    assert may_get(everywhere(paths(url)), path) is allowed


def test_resource_rules_and_path_rules_do_not_stand_for_each_other() -> None:
    everything = rule(["*"], ["*"], ["*"])
    assert not may_get(everywhere(everything), "/metrics")
    assert not may(everywhere({"verbs": ["*"], "nonResourceURLs": ["*"]}), "get", "pods")
    assert not may(everywhere(paths("/metrics")), "get", "")


def test_a_cluster_role_bound_in_a_namespace_ends_at_its_border() -> None:
    authorizer = Authorizer()
    authorizer.changed("ClusterRole", "", "r", {"rules": [rule(["get"], ["pods", "nodes"]), paths("*")]})
    authorizer.changed("RoleBinding", "team", "b", binding("ClusterRole", "r", user("alice")))
    assert may(authorizer, "get", "pods", namespace="team")
    assert not may(authorizer, "get", "pods", namespace="other")
    assert not may(authorizer, "get", "pods")
    assert not may(authorizer, "get", "nodes")
    assert not may_get(authorizer, "/metrics")


def test_a_role_is_found_in_the_namespace_of_the_binding_only() -> None:
    authorizer = Authorizer()
    authorizer.changed("Role", "team", "r", {"rules": [rule(["get"], ["pods"])]})
    authorizer.changed("RoleBinding", "other", "b", binding("Role", "r", user("alice")))
    assert not may(authorizer, "get", "pods", namespace="other")
    assert not may(authorizer, "get", "pods", namespace="team")
    authorizer.changed("RoleBinding", "team", "b", binding("Role", "r", user("alice")))
    assert may(authorizer, "get", "pods", namespace="team")


def test_a_role_and_a_cluster_role_of_the_same_name_are_two_roles() -> None:
    authorizer = everywhere(rule(["*"], ["*"], ["*"]))
    authorizer.changed("ClusterRoleBinding", "", "b", binding("Role", "r", user("alice")))
    assert not may(authorizer, "get", "pods")
    authorizer.changed("RoleBinding", "team", "b", binding("Role", "r", user("alice")))
    assert not may(authorizer, "get", "pods", namespace="team")


@pytest.mark.parametrize(
    ("subject", "who", "allowed"),
    [
        (user("alice"), ALICE, True),
        (user("Alice"), ALICE, False),
        ({"kind": "Group", "name": "alice"}, ALICE, False),
        ({"kind": "Group", "name": "team-a"}, ALICE, True),
        (user("team-a"), ALICE, False),
        ({"kind": "ServiceAccount", "namespace": "team", "name": "agent"}, AGENT, True),
        ({"kind": "ServiceAccount", "namespace": "other", "name": "agent"}, AGENT, False),
        ({"kind": "ServiceAccount", "name": "agent"}, AGENT, False),
        (user("system:serviceaccount:team:agent"), AGENT, True),
        ({"kind": "Group", "name": "system:serviceaccounts:team"}, AGENT, True),
        ({"kind": "ServiceAccount", "name": "alice"}, ALICE, False),
        ({"kind": "Robot", "name": "alice"}, ALICE, False),
    ],
)
def test_a_binding_is_for_its_subjects(subject: Wire, who: User, allowed: bool) -> None:
    assert may(everywhere(rule(["get"], ["pods"]), to=subject), "get", "pods", who) is allowed


def test_a_service_account_without_namespace_is_the_one_beside_the_binding() -> None:
    authorizer = Authorizer()
    authorizer.changed("ClusterRole", "", "r", {"rules": [rule(["get"], ["pods"])]})
    for namespace in ("team", "other"):
        subject = {"kind": "ServiceAccount", "name": "agent"}
        authorizer.changed("RoleBinding", namespace, "b", binding("ClusterRole", "r", subject))
    assert may(authorizer, "get", "pods", AGENT, namespace="team")
    assert not may(authorizer, "get", "pods", AGENT, namespace="other")


def test_equal_roles_of_many_clusters_are_held_once() -> None:
    one, other = (everywhere({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}) for _ in range(2))
    reference = {"kind": "ClusterRole", "name": "r"}
    assert one.role_rules(reference, "") is other.role_rules(reference, "")


def test_changes_count_at_once() -> None:
    authorizer = everywhere(rule(["get"], ["pods"]))
    authorizer.changed("ClusterRole", "", "r", {"rules": [rule(["get"], ["nodes"])]})
    assert not may(authorizer, "get", "pods")
    assert may(authorizer, "get", "nodes")
    authorizer.changed("ClusterRoleBinding", "", "b", binding("ClusterRole", "r", user("bob")))
    assert not may(authorizer, "get", "nodes")
    assert may(authorizer, "get", "nodes", User("bob"))
    authorizer.changed("ClusterRoleBinding", "", "b", None)
    assert not may(authorizer, "get", "nodes", User("bob"))
    authorizer.changed("ClusterRoleBinding", "", "b", binding("ClusterRole", "r", user("bob")))
    authorizer.changed("ClusterRole", "", "r", None)
    assert not may(authorizer, "get", "nodes", User("bob"))


def test_what_is_empty_or_missing_allows_nothing_and_breaks_nothing() -> None:
    authorizer = Authorizer()
    authorizer.changed("ClusterRole", "", "r", {"rules": None})
    authorizer.changed("ClusterRole", "", "s", {"rules": [{"verbs": None}, {}]})
    authorizer.changed(
        "ClusterRoleBinding", "", "b", {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": None}
    )
    authorizer.changed("ClusterRoleBinding", "", "c", binding("ClusterRole", "s", user("alice"), user("alice")))
    authorizer.changed("ClusterRoleBinding", "", "missing", None)
    authorizer.changed("ConfigMap", "team", "r", {})
    assert not may(authorizer, "get", "pods")
    authorizer.changed("ClusterRoleBinding", "", "c", None)


def test_the_reason_names_the_binding_or_the_role_that_is_missing() -> None:
    asked = Attributes(user=ALICE, verb="get", resource="pods", namespace="team")
    authorizer = everywhere(rule(["get"], ["pods"]))
    text = 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "alice"'
    assert authorizer.authorize(asked) == Decision(True, text)
    authorizer.changed("ClusterRole", "", "r", None)
    missing = 'clusterrole.rbac.authorization.k8s.io "r" not found'
    assert authorizer.authorize(asked) == Decision(False, f"RBAC: {missing}")
    authorizer.changed("RoleBinding", "team", "c", binding("Role", "x", user("alice")))
    both = f'RBAC: [{missing}, role.rbac.authorization.k8s.io "x" not found]'
    assert authorizer.authorize(asked) == Decision(False, both)
    authorizer.changed("Role", "team", "x", {"rules": [rule(["get"], ["pods"])]})
    subject = {"kind": "ServiceAccount", "name": "agent"}
    authorizer.changed("RoleBinding", "team", "c", binding("Role", "x", subject))
    asked = Attributes(user=AGENT, verb="get", resource="pods", namespace="team")
    text = 'RBAC: allowed by RoleBinding "c/team" of Role "x" to ServiceAccount "agent/team"'
    assert authorizer.authorize(asked).reason == text


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (
            Attributes(user=User("x"), verb="list", resource="pods", namespace="default"),
            'pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "default"',
        ),
        (
            Attributes(
                user=User("x"), verb="patch", group="apps", resource="deployments", subresource="scale", name="web"
            ),
            (
                'deployments.apps "web" is forbidden: User "x" cannot patch resource "deployments/scale" '
                'in API group "apps" at the cluster scope'
            ),
        ),
        (
            Attributes(user=User('a"b'), verb="get", path="/metrics", is_resource=False),
            'forbidden: User "a\\"b" cannot get path "/metrics"',
        ),
    ],
)
def test_a_refusal_reads_as_in_kubernetes(asked: Attributes, text: str) -> None:
    assert refusal(asked, Decision(False)).message == text
    assert refusal(asked, Decision(False, "RBAC: why")).message == f"{text}: RBAC: why"
    assert refusal(asked, Decision(False)).status_code == 403


def test_all_rules_of_a_user_are_those_of_the_cluster_and_of_the_namespace() -> None:
    authorizer = everywhere(rule(["get"], ["nodes"]), to={"kind": "Group", "name": "team-a"})
    authorizer.changed("Role", "team", "x", {"rules": [rule(["get"], ["pods"])]})
    authorizer.changed("RoleBinding", "team", "c", binding("Role", "x", user("alice")))
    authorizer.changed("RoleBinding", "other", "c", binding("Role", "x", user("alice")))
    rules, problems = authorizer.rules_for(ALICE, "team")
    assert [set(found.resources) for found in rules] == [{"nodes"}, {"pods"}]
    assert problems == ""
    rules, problems = authorizer.rules_for(ALICE, "other")
    assert [set(found.resources) for found in rules] == [{"nodes"}]
    assert problems == 'role.rbac.authorization.k8s.io "x" not found'


# The index must answer as if it had looked at everything. The small alphabets make the parts meet.

VERBS, GROUPS, RESOURCES = ["get", "list", "*"], ["", "apps", "*"], ["pods", "pods/log", "*/log", "nodes", "*"]
NAMES, NAMESPACES, PEOPLE = ["n1", "n2"], ["ns1", "ns2"], ["u1", "u2", "system:serviceaccount:ns1:u1"]
URLS = ["/a", "/a/*", "/a/b", "*", "/b"]


def some(values: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), max_size=2)


rules = st.builds(
    lambda v, g, r, n, u: {"verbs": v, "apiGroups": g, "resources": r, "resourceNames": n, "nonResourceURLs": u},
    some(VERBS),
    some(GROUPS),
    some(RESOURCES),
    st.one_of(st.just([]), some(NAMES)),
    some(URLS),
)
subjects = st.one_of(
    st.builds(user, st.sampled_from(PEOPLE)),
    st.builds(lambda n: {"kind": "Group", "name": n}, st.sampled_from(["g1", "g2"])),
    st.builds(
        lambda ns, n: {"kind": "ServiceAccount", "namespace": ns, "name": n},
        st.sampled_from(["", *NAMESPACES]),
        st.sampled_from(["u1", "u2"]),
    ),
)
changes = st.one_of(
    st.tuples(
        st.sampled_from([("Role", "ns1"), ("Role", "ns2"), ("ClusterRole", "")]),
        st.sampled_from(["r1", "r2"]),
        st.one_of(st.none(), st.builds(lambda r: {"rules": r}, st.lists(rules, max_size=3))),
    ),
    st.tuples(
        st.sampled_from([("RoleBinding", "ns1"), ("RoleBinding", "ns2"), ("ClusterRoleBinding", "")]),
        st.sampled_from(["b1", "b2"]),
        st.one_of(
            st.none(),
            st.builds(
                lambda k, r, s: binding(k, r, *s),
                st.sampled_from(["Role", "ClusterRole"]),
                st.sampled_from(["r1", "r2"]),
                st.lists(subjects, max_size=3),
            ),
        ),
    ),
)
questions = st.builds(
    Attributes,
    user=st.builds(User, st.sampled_from(PEOPLE), st.lists(st.sampled_from(["g1", "g2"]), max_size=2).map(tuple)),
    verb=st.sampled_from(["get", "list"]),
    group=st.sampled_from(["", "apps"]),
    resource=st.sampled_from(["pods", "nodes"]),
    subresource=st.sampled_from(["", "log"]),
    namespace=st.sampled_from(["", *NAMESPACES]),
    name=st.sampled_from(["", *NAMES]),
    path=st.sampled_from(["/a", "/a/b", "/b", "/c"]),
    is_resource=st.booleans(),
)


def plainly_allowed(objects: dict[tuple[str, str, str], Wire], asked: Attributes) -> bool:
    """Look at every binding, every subject and every rule, the way the documentation puts it."""
    for (kind, namespace, _), obj in objects.items():
        if not kind.endswith("Binding") or namespace not in {"", asked.namespace}:
            continue
        if not any(plainly_meant(subject, namespace, asked.user) for subject in obj["subjects"]):
            continue
        reference = obj["roleRef"]
        home = "" if reference["kind"] == "ClusterRole" else namespace
        role = objects.get((reference["kind"], home, reference["name"]))
        if role is not None and any(plainly_matches(one, asked) for one in role["rules"]):
            return True
    return False


def plainly_meant(subject: Wire, namespace: str, who: User) -> bool:
    if subject["kind"] == "User":
        return bool(subject["name"] == who.name)
    if subject["kind"] == "Group":
        return subject["name"] in who.groups
    where = subject["namespace"] or namespace
    return where != "" and who.name == f"system:serviceaccount:{where}:{subject['name']}"


def plainly_matches(one: Wire, asked: Attributes) -> bool:
    if asked.verb not in one["verbs"] and "*" not in one["verbs"]:
        return False
    if not asked.is_resource:
        return any(
            url == asked.path or (url[-1] == "*" and asked.path[: len(url) - 1] == url[:-1])
            for url in one["nonResourceURLs"]
        )
    full = asked.resource + ("/" + asked.subresource if asked.subresource else "")
    resource = any(
        it in {"*", full} or (asked.subresource != "" and it == "*/" + asked.subresource) for it in one["resources"]
    )
    group = asked.group in one["apiGroups"] or "*" in one["apiGroups"]
    return resource and group and (one["resourceNames"] == [] or asked.name in one["resourceNames"])


@examples(300)
@given(steps=st.lists(changes, min_size=3, max_size=16), asked=st.lists(questions, min_size=1, max_size=8))
def test_the_index_answers_as_if_it_had_looked_at_everything(steps: list[Any], asked: list[Attributes]) -> None:
    authorizer = Authorizer()
    objects: dict[tuple[str, str, str], Wire] = {}
    for (kind, namespace), name, obj in steps:
        authorizer.changed(kind, namespace, name, obj)
        objects.pop((kind, namespace, name), None)
        if obj is not None:
            objects[kind, namespace, name] = obj
    for question in asked:
        assert authorizer.authorize(question).allowed is plainly_allowed(objects, question)
