import pytest

from echelon.hub.access.identity import User
from echelon.hub.access.impersonation import Impersonation, impersonation
from echelon.hub.access.rbac import Attributes
from echelon.kube.errors import BadRequest

ASKER = User("operator", ("system:authenticated",))


def ask(*headers: tuple[str, str]) -> Impersonation:
    found = impersonation(ASKER, headers)
    assert found is not None
    return found


def check(resource: str, name: str, *, group: str = "", namespace: str = "", subresource: str = "") -> Attributes:
    return Attributes(
        user=ASKER,
        verb="impersonate",
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


def test_other_headers_ask_for_nothing() -> None:
    assert impersonation(ASKER, [("Accept", "application/json"), ("X-Impersonate-User", "root")]) is None


def test_a_user_needs_the_right_to_be_that_user() -> None:
    found = ask(("Impersonate-User", "alice"))
    assert found.checks == (check("users", "alice"),)
    assert found.user == User("alice", ("system:authenticated",))


def test_the_asker_brings_none_of_their_own_rights_along() -> None:
    powerful = User("root", ("system:masters", "system:authenticated"), "7", {"k": ("v",)})
    found = impersonation(powerful, [("Impersonate-User", "alice")])
    assert found is not None
    assert found.user == User("alice", ("system:authenticated",))


def test_every_group_uid_and_extra_value_is_a_right_of_its_own() -> None:
    found = ask(
        ("impersonate-user", "alice"),
        ("IMPERSONATE-GROUP", "system:masters"),
        ("Impersonate-Group", "team-a"),
        ("Impersonate-Uid", "42"),
        ("Impersonate-Extra-Scopes", "view"),
        ("Impersonate-Extra-Scopes", "edit"),
        ("Impersonate-Extra-acme.com%2Fproject", "blue"),
    )
    authentication = "authentication.k8s.io"
    assert found.checks == (
        check("users", "alice"),
        check("groups", "system:masters"),
        check("groups", "team-a"),
        check("uids", "42", group=authentication),
        check("userextras", "view", group=authentication, subresource="scopes"),
        check("userextras", "edit", group=authentication, subresource="scopes"),
        check("userextras", "blue", group=authentication, subresource="acme.com/project"),
    )
    assert found.user.groups == ("system:masters", "team-a", "system:authenticated")
    assert found.user.uid == "42"
    assert found.user.extra == {"scopes": ("view", "edit"), "acme.com/project": ("blue",)}


def test_a_service_account_is_asked_for_as_such_and_comes_with_its_groups() -> None:
    found = ask(("Impersonate-User", "system:serviceaccount:team:agent"))
    assert found.checks == (check("serviceaccounts", "agent", namespace="team"),)
    assert found.user.groups == ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")


@pytest.mark.parametrize(
    "name", ["system:serviceaccount:team", "system:serviceaccount:a:b:c", "system:serviceaccount:A:b"]
)
def test_what_only_looks_like_a_service_account_is_a_user(name: str) -> None:
    found = ask(("Impersonate-User", name))
    assert found.checks == (check("users", name),)


def test_an_anonymous_user_stays_unauthenticated() -> None:
    assert ask(("Impersonate-User", "system:anonymous")).user.groups == ("system:unauthenticated",)
    asked = ask(("Impersonate-User", "alice"), ("Impersonate-Group", "system:unauthenticated"))
    assert asked.user.groups == ("system:unauthenticated",)


@pytest.mark.parametrize(
    "headers",
    [
        [("Impersonate-Group", "system:masters")],
        [("Impersonate-Uid", "1")],
        [("Impersonate-Extra-a", "b")],
        [("Impersonate-User", ""), ("Impersonate-Group", "team-a")],
        [("Impersonate-User", "alice"), ("Impersonate-User", "root")],
        [("Impersonate-User", "alice"), ("Impersonate-Uid", "1"), ("Impersonate-Uid", "2")],
        [("Impersonate-User", "alice"), ("Impersonate-Role", "admin")],
    ],
)
def test_half_an_identity_and_an_ambiguous_one_are_bad_requests(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(BadRequest):
        impersonation(ASKER, headers)
