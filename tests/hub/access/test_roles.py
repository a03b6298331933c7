from typing import Any

import pytest

from echelon.hub.access.aggregation import aggregate
from echelon.hub.access.identity import User
from echelon.hub.access.rbac import Attributes, Authorizer
from echelon.hub.access.roles import bootstrap_objects

ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
SOMEBODY = User("alice", ("system:authenticated",))
ROLES = "rbac.authorization.k8s.io"


@pytest.fixture
def authorizer() -> Authorizer:
    """Return a fresh cluster in which alice, bob and carol are admin, editor and viewer of a namespace."""
    authorizer = Authorizer()
    for obj in bootstrap_objects():
        authorizer.changed(obj["kind"], "", obj["metadata"]["name"], obj)
    for name, role in (("alice", "admin"), ("bob", "edit"), ("carol", "view")):
        bound = {"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": name}]}
        authorizer.changed("RoleBinding", "team", name, bound)
    return authorizer


def may(authorizer: Authorizer, who: str, verb: str, resource: str, namespace: str = "team") -> bool:
    base, _, group = resource.partition(".")
    return authorizer.authorize(
        Attributes(user=User(who), verb=verb, group=group, resource=base, namespace=namespace)
    ).allowed


def may_get(authorizer: Authorizer, who: User, path: str) -> bool:
    return authorizer.authorize(Attributes(user=who, verb="get", path=path, is_resource=False)).allowed


@pytest.mark.parametrize(
    ("verb", "resource", "who"),
    [
        ("get", "configmaps", "alice bob carol"),
        ("list", "pods", "alice bob carol"),
        ("get", "secrets", "alice bob"),
        ("update", "deployments.apps", "alice bob"),
        ("create", "pods", "alice bob"),
        ("create", f"rolebindings.{ROLES}", "alice"),
        ("get", f"roles.{ROLES}", "alice"),
        ("escalate", f"roles.{ROLES}", ""),
        ("update", "resourcequotas", ""),
        ("get", "nodes", ""),
    ],
)
def test_admins_editors_and_viewers_may_what_they_may_in_kubernetes(
    authorizer: Authorizer, verb: str, resource: str, who: str
) -> None:
    assert [name for name in ("alice", "bob", "carol") if may(authorizer, name, verb, resource)] == who.split()
    assert not may(authorizer, "alice", verb, resource, "other")


def test_everybody_may_ask_for_health_and_only_known_users_for_the_api(authorizer: Authorizer) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert may_get(authorizer, ANONYMOUS, path)
        assert may_get(authorizer, SOMEBODY, path)
    for path in ("/api", "/apis/apps/v1", "/openapi/v3"):
        assert may_get(authorizer, SOMEBODY, path)
        assert not may_get(authorizer, ANONYMOUS, path)
    assert not may_get(authorizer, SOMEBODY, "/metrics")


def test_known_users_may_ask_about_themselves(authorizer: Authorizer) -> None:
    asked = {"verb": "create", "group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews"}
    assert authorizer.authorize(Attributes(user=SOMEBODY, **asked)).allowed  # type: ignore[arg-type]
    assert not authorizer.authorize(Attributes(user=ANONYMOUS, **asked)).allowed  # type: ignore[arg-type]


def test_bootstrap_objects_are_marked_and_complete() -> None:
    objects = bootstrap_objects()
    names = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "ClusterRole"}
    for obj in objects:
        assert obj["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        assert obj["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] == "true"
        if obj["kind"] == "ClusterRoleBinding":
            assert obj["roleRef"]["name"] in names
        else:
            assert obj["rules"]
    assert aggregate(obj for obj in objects if obj["kind"] == "ClusterRole") == {}


def test_everyone_gets_objects_of_their_own() -> None:
    bootstrap_objects()[0]["metadata"]["labels"].clear()
    assert bootstrap_objects()[0]["metadata"]["labels"]


def role(name: str, resource: str = "", collects: list[Any] | None = None, **labels: str) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "metadata": {"name": name, "labels": labels},
        "rules": [resource_rule(resource)] if resource else [],
    }
    return obj if collects is None else {**obj, "aggregationRule": {"clusterRoleSelectors": collects}}


def resource_rule(resource: str) -> dict[str, Any]:
    return {"verbs": ["get"], "apiGroups": [""], "resources": [resource]}


def collected(*roles: dict[str, Any]) -> dict[str, list[str]]:
    return {name: [rule["resources"][0] for rule in rules] for name, rules in aggregate(roles).items()}


def test_an_aggregated_role_has_the_rules_of_all_that_carry_the_label() -> None:
    a = {"matchLabels": {"to": "a"}}
    found = collected(
        role("all", "stale", [a]), role("y", "pods", to="a"), role("x", "nodes", to="a"), role("z", "jobs")
    )
    assert found == {"all": ["nodes", "pods"]}


def test_aggregates_of_aggregates_settle_at_once() -> None:
    roles = [
        role("a-top", collects=[{"matchLabels": {"to": "top"}}]),
        role("b-middle", collects=[{"matchLabels": {"to": "middle"}}], to="top"),
        role("c-leaf", "pods", to="middle"),
    ]
    assert collected(*roles) == {"a-top": ["pods"], "b-middle": ["pods"]}


def test_aggregates_that_collect_each_other_settle_too() -> None:
    selector = [{"matchLabels": {"to": "both"}}]
    roles = [
        role("a", collects=selector, to="both"),
        role("b", collects=selector, to="both"),
        role("c", "pods", to="both"),
    ]
    assert collected(*roles) == {"a": ["pods"], "b": ["pods"]}


def test_an_aggregate_at_rest_is_left_alone_and_the_same_rule_is_taken_once() -> None:
    selector = [{"matchLabels": {"to": "a"}}]
    assert collected(role("all", "pods", selector), role("x", "pods", to="a"), role("y", "pods", to="a")) == {}


@pytest.mark.parametrize(
    ("term", "selected"),
    [
        ({"key": "tier", "operator": "In", "values": ["gold"]}, "x"),
        ({"key": "tier", "operator": "NotIn", "values": ["gold"]}, "y z"),
        ({"key": "tier", "operator": "Exists"}, "x y"),
        ({"key": "tier", "operator": "DoesNotExist"}, "z"),
        ({"key": "tier", "operator": "Likes", "values": ["gold"]}, ""),
    ],
)
def test_selectors_have_expressions(term: dict[str, Any], selected: str) -> None:
    roles = [role("x", "x", tier="gold"), role("y", "y", tier="tin"), role("z", "z")]
    found = collected(role("all", "old", [{"matchExpressions": [term]}]), *roles)
    assert found == {"all": selected.split()}
