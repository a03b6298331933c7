from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from echelon.hub.access.identity import Authenticator, StaticTokens, User
from echelon.hub.access.rbac import Authorizer
from echelon.hub.access.reviews import (
    local_subject_access_review,
    self_subject_access_review,
    self_subject_review,
    self_subject_rules_review,
    subject_access_review,
    token_review,
)
from echelon.hub.access.tokens import AccountTokens
from echelon.kube.errors import BadRequest, Invalid

Wire = dict[str, Any]
ALICE = User("alice", ("team-a",), "7", {"scopes": ("view",)})
PODS = {"verb": "get", "resource": "pods", "namespace": "team"}


@pytest.fixture
def authorizer() -> Authorizer:
    """Return a cluster in which alice gets pods of her team, and everyone in team-a gets /metrics."""
    authorizer = Authorizer()
    pods = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["mine"]}
    authorizer.changed("Role", "team", "pods", {"rules": [pods]})
    bound = {"roleRef": {"kind": "Role", "name": "pods"}, "subjects": [{"kind": "User", "name": "alice"}]}
    authorizer.changed("RoleBinding", "team", "b", bound)
    metrics = {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}
    authorizer.changed("ClusterRole", "", "metrics", {"rules": [metrics]})
    bound = {"roleRef": {"kind": "ClusterRole", "name": "metrics"}, "subjects": [{"kind": "Group", "name": "team-a"}]}
    authorizer.changed("ClusterRoleBinding", "", "m", bound)
    return authorizer


def asking(**spec: Any) -> Wire:
    return {"metadata": {"creationTimestamp": None}, "spec": spec}


def pod(**changes: str) -> Wire:
    return {**PODS, "name": "mine", **changes}


def test_somebody_may_what_their_rules_allow(authorizer: Authorizer) -> None:
    status = subject_access_review(asking(user="alice", resourceAttributes=pod()), authorizer)
    reason = 'RBAC: allowed by RoleBinding "b/team" of Role "pods" to User "alice"'
    assert status == {"allowed": True, "reason": reason}


@pytest.mark.parametrize(
    "changes",
    [
        {"verb": "delete"},
        {"resource": "secrets"},
        {"group": "apps"},
        {"subresource": "exec"},
        {"namespace": "other"},
        {"namespace": ""},
        {"name": "yours"},
        {"name": ""},
    ],
)
def test_every_part_of_the_question_matters(authorizer: Authorizer, changes: dict[str, str]) -> None:
    asked = asking(user="alice", resourceAttributes=pod(**changes))
    assert subject_access_review(asked, authorizer) == {"allowed": False}
    asked = asking(resourceAttributes=pod(**changes))
    assert self_subject_access_review(asked, ALICE, authorizer) == {"allowed": False}


def test_the_groups_are_those_of_the_question_and_not_of_the_user(authorizer: Authorizer) -> None:
    metrics = {"verb": "get", "path": "/metrics"}
    assert subject_access_review(asking(groups=["team-a"], nonResourceAttributes=metrics), authorizer)["allowed"]
    assert not subject_access_review(asking(user="alice", nonResourceAttributes=metrics), authorizer)["allowed"]


def test_asking_about_oneself_cannot_name_somebody_else(authorizer: Authorizer) -> None:
    asked = asking(user="alice", groups=["system:masters"], resourceAttributes=pod())
    assert self_subject_access_review(asked, User("bob"), authorizer) == {"allowed": False}
    assert self_subject_access_review(asked, ALICE, authorizer)["allowed"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"user": "alice"},
            (
                'spec.resourceAttributes: Invalid value: "null": '
                "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            ),
        ),
        (
            {"user": "alice", "resourceAttributes": {}, "nonResourceAttributes": {"path": "/"}},
            (
                'spec.nonResourceAttributes: Invalid value: {"path": "/"}: '
                "cannot be specified in combination with resourceAttributes"
            ),
        ),
        (
            {"resourceAttributes": {}},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
    ],
)
def test_half_a_question_is_invalid_as_in_kubernetes(authorizer: Authorizer, spec: Wire, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        subject_access_review(asking(**spec), authorizer)
    assert caught.value.message == f'SubjectAccessReview.authorization.k8s.io "" is invalid: {text}'


def test_a_question_has_no_name(authorizer: Authorizer) -> None:
    asked = {"metadata": {"name": "x"}, "spec": {"user": "alice", "resourceAttributes": pod()}}
    with pytest.raises(Invalid, match=r"metadata: .* must be empty"):
        subject_access_review(asked, authorizer)
    with pytest.raises(Invalid, match=r"metadata: .* must be empty"):
        self_subject_access_review(asked, ALICE, authorizer)


def test_a_local_question_stays_in_its_namespace(authorizer: Authorizer) -> None:
    asked = {"metadata": {"namespace": "team"}, "spec": {"user": "alice", "resourceAttributes": pod()}}
    assert local_subject_access_review(asked, "team", authorizer)["allowed"]
    with pytest.raises(Invalid, match=r"spec\.resourceAttributes\.namespace: .* must match metadata\.namespace"):
        local_subject_access_review(asked, "other", authorizer)
    asked["spec"] = {"user": "alice", "nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    with pytest.raises(Invalid, match="disallowed on this kind of request"):
        local_subject_access_review(asked, "team", authorizer)


def test_all_rules_of_a_namespace(authorizer: Authorizer) -> None:
    assert self_subject_rules_review(asking(namespace="team"), ALICE, authorizer) == {
        "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["mine"]}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
        "incomplete": False,
    }
    assert self_subject_rules_review(asking(namespace="other"), ALICE, authorizer)["resourceRules"] == []
    authorizer.changed("Role", "team", "pods", None)
    status = self_subject_rules_review(asking(namespace="team"), ALICE, authorizer)
    assert status["evaluationError"] == 'role.rbac.authorization.k8s.io "pods" not found'


def test_rules_need_a_namespace(authorizer: Authorizer) -> None:
    with pytest.raises(BadRequest, match="no namespace on request"):
        self_subject_rules_review({}, ALICE, authorizer)


def test_who_am_i() -> None:
    info = {"username": "alice", "uid": "7", "groups": ["team-a"], "extra": {"scopes": ["view"]}}
    assert self_subject_review(ALICE) == {"userInfo": info}


@pytest.fixture
def accounts() -> AccountTokens:
    start = datetime(2026, 11, 2, tzinfo=UTC).timestamp()
    return AccountTokens(ec.generate_private_key(ec.SECP256R1()), "https://hub", now=lambda: start)


@pytest.fixture
def authenticator(accounts: AccountTokens) -> Authenticator:
    return Authenticator(
        now=lambda: 0.0,
        tokens=StaticTokens({"t0p": ALICE}),
        accounts=accounts,
        lookup=lambda *_: "uid-1",
    )


def test_a_good_token_is_its_user(authenticator: Authenticator) -> None:
    status = token_review(asking(token="t0p"), authenticator)
    assert status["authenticated"] is True
    assert status["user"]["username"] == "alice"
    assert status["user"]["groups"] == ["team-a", "system:authenticated"]
    assert status["audiences"] == ["https://hub"]


def test_a_bad_token_is_an_answer_and_nobody(authenticator: Authenticator) -> None:
    status = token_review(asking(token="wrong"), authenticator)
    assert status == {"authenticated": False, "user": {}, "error": "invalid bearer token"}


def test_a_token_is_good_for_the_audience_that_asks(authenticator: Authenticator, accounts: AccountTokens) -> None:
    token = accounts.issue("team", "agent", "uid-1", audiences=["vault"]).token
    status = token_review(asking(token=token, audiences=["vault", "other"]), authenticator)
    assert status["user"]["username"] == "system:serviceaccount:team:agent"
    assert status["audiences"] == ["vault"]
    for audiences in ([], ["other"], ["https://hub"]):
        assert not token_review(asking(token=token, audiences=audiences), authenticator)["authenticated"]


def test_no_token_is_a_bad_request(authenticator: Authenticator) -> None:
    with pytest.raises(BadRequest, match="token is required"):
        token_review(asking(), authenticator)
