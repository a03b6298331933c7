"""Bootstrap tokens: good while their Secret says so in full, and for nobody otherwise."""

import base64
from datetime import UTC, datetime

import pytest

from echelon.api.base import JSONObject
from echelon.hub.access.bootstrap import bootstrap_user
from echelon.hub.access.identity import User

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
TOKEN = "abc123.0123456789abcdef"
GOOD = {
    "token-id": "abc123",
    "token-secret": "0123456789abcdef",
    "expiration": "2026-11-02T13:00:00Z",
    "usage-bootstrap-authentication": "true",
    "auth-extra-groups": "system:bootstrappers:managedclusters:c1",
}


def secret(fields: dict[str, str], **body: object) -> JSONObject:
    data = {name: base64.b64encode(value.encode()).decode() for name, value in fields.items()}
    return {"type": "bootstrap.kubernetes.io/token", "metadata": {}, "data": data, **body}


def shown(token: str, found: JSONObject | None) -> User | None:
    return bootstrap_user(token, lambda name: found if name == "bootstrap-token-abc123" else None, NOW)


def test_a_token_makes_its_bearer_a_bootstrapper() -> None:
    groups = ("system:bootstrappers", "system:bootstrappers:managedclusters:c1", "system:authenticated")
    assert shown(TOKEN, secret(GOOD)) == User("system:bootstrap:abc123", groups)


def test_one_without_an_expiration_does_not_expire_and_one_without_groups_has_one() -> None:
    fields = {name: GOOD[name] for name in ("token-id", "token-secret", "usage-bootstrap-authentication")}
    assert shown(TOKEN, secret(fields)) == User(
        "system:bootstrap:abc123", ("system:bootstrappers", "system:authenticated")
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"token-secret": "0123456789abcdee"},
        {"token-id": "abc124"},
        {"expiration": "2026-11-02T12:00:00Z"},
        {"expiration": "tomorrow"},
        {"expiration": ""},
        {"usage-bootstrap-authentication": "false"},
        {"usage-bootstrap-authentication": "True"},
        {"auth-extra-groups": "system:masters"},
        {"auth-extra-groups": "system:bootstrappers:managedclusters:c1,system:masters"},
        {"auth-extra-groups": "system:bootstrappers:"},
    ],
)
def test_one_that_says_anything_else_is_no_token(changed: dict[str, str]) -> None:
    assert shown(TOKEN, secret({**GOOD, **changed})) is None


@pytest.mark.parametrize("body", [{"type": "Opaque"}, {"metadata": {"deletionTimestamp": "2026-11-02T11:00:00Z"}}])
def test_one_that_is_none_or_goes_is_no_token(body: JSONObject) -> None:
    assert shown(TOKEN, secret(GOOD, **body)) is None


@pytest.mark.parametrize("token", ["", "abc123", "abc123.", "abc123.0123456789abcdef ", "ABC123.0123456789abcdef"])
def test_what_is_not_spelled_like_a_token_is_not_looked_up(token: str) -> None:
    assert shown(token, secret(GOOD)) is None


def test_a_token_without_a_secret_is_nobodys() -> None:
    assert shown(TOKEN, None) is None
