import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from echelon.hub.access.tokens import AccountTokens, TokenError
from echelon.kube.errors import Invalid

KEY = ec.generate_private_key(ec.SECP256R1())
NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> AccountTokens:
    return AccountTokens(KEY, "https://hub", now=clock)


def b64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, payload, _ = token.split(".")
    return tuple(json.loads(base64.urlsafe_b64decode(part + "==")) for part in (header, payload))


def sign(header: str, payload: str, key: ec.EllipticCurvePrivateKey = KEY) -> str:
    r, s = decode_dss_signature(key.sign(f"{header}.{payload}".encode(), ec.ECDSA(hashes.SHA256())))
    return f"{header}.{payload}.{b64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def forged(tokens: AccountTokens, **changes: Any) -> str:
    """Return a token that our key signed over claims that we would not write."""
    header, payload, _ = tokens.issue("team", "agent", "uid-1").token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return sign(header, b64(json.dumps({**claims, **changes}).encode()))


def test_the_claims_are_those_of_kubernetes(tokens: AccountTokens) -> None:
    issued = tokens.issue("team", "agent", "uid-1", seconds=600, pod=("agent-0", "uid-2"))
    header, claims = parts(issued.token)
    assert header["alg"] == "ES256"
    token_id = claims.pop("jti")
    assert len(token_id) == 32
    assert claims == {
        "aud": ["https://hub"],
        "exp": NOW + 600,
        "iat": NOW,
        "nbf": NOW,
        "iss": "https://hub",
        "sub": "system:serviceaccount:team:agent",
        "kubernetes.io": {
            "namespace": "team",
            "serviceaccount": {"name": "agent", "uid": "uid-1"},
            "pod": {"name": "agent-0", "uid": "uid-2"},
        },
    }
    assert issued.expires == NOW + 600


def test_what_was_issued_is_verified(tokens: AccountTokens) -> None:
    claims = tokens.verify(tokens.issue("team", "agent", "uid-1").token)
    assert (claims.namespace, claims.account, claims.account_uid, claims.pod) == ("team", "agent", "uid-1", "")


def test_a_token_is_good_until_it_expires_even_if_it_was_seen_before(tokens: AccountTokens, clock: Clock) -> None:
    token = tokens.issue("team", "agent", "uid-1", seconds=600).token
    clock.time = NOW + 599
    tokens.verify(token)
    clock.time = NOW + 600
    with pytest.raises(TokenError, match="time"):
        tokens.verify(token)
    clock.time = NOW - 1
    with pytest.raises(TokenError, match="time"):
        tokens.verify(token)


def test_a_token_is_good_for_its_audience_only(tokens: AccountTokens) -> None:
    token = tokens.issue("team", "agent", "uid-1", audiences=["vault", "https://hub"]).token
    assert tokens.verify(token).audiences == ("https://hub",)
    assert tokens.verify(token, ["other", "vault"]).audiences == ("vault",)
    with pytest.raises(TokenError, match="audience"):
        tokens.verify(token, ["other"])
    with pytest.raises(TokenError, match="audience"):
        tokens.verify(tokens.issue("team", "agent", "uid-1", audiences=["vault"]).token)


def test_the_forgery_of_the_next_tests_is_good_when_nothing_is_forged(tokens: AccountTokens) -> None:
    assert tokens.verify(forged(tokens)).account == "agent"


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other"},
        {"sub": "system:serviceaccount:team:other"},
        {"kubernetes.io": {"namespace": "other", "serviceaccount": {"name": "agent", "uid": "uid-1"}}},
        {"kubernetes.io": {"namespace": "team"}},
        {"exp": "never"},
        {"exp": None},
        {"aud": "https://hub"},
    ],
)
def test_claims_that_we_would_not_write_are_refused(tokens: AccountTokens, changes: dict[str, Any]) -> None:
    with pytest.raises(TokenError):
        tokens.verify(forged(tokens, **changes))


@pytest.mark.parametrize("alg", ["none", "None", "HS256", "ES384", "RS256"])
def test_the_token_cannot_choose_how_it_is_verified(tokens: AccountTokens, alg: str) -> None:
    _, payload, signature = tokens.issue("team", "agent", "uid-1").token.split(".")
    header = b64(json.dumps({"alg": alg, "typ": "JWT"}).encode())
    for token in (f"{header}.{payload}.", f"{header}.{payload}.{signature}", sign(header, payload)):
        with pytest.raises(TokenError):
            tokens.verify(token)


def test_another_key_signs_nothing_here(tokens: AccountTokens) -> None:
    header, payload, _ = tokens.issue("team", "agent", "uid-1").token.split(".")
    with pytest.raises(TokenError, match="signature"):
        tokens.verify(sign(header, payload, ec.generate_private_key(ec.SECP256R1())))


def test_a_token_of_a_server_with_another_key_is_refused(tokens: AccountTokens, clock: Clock) -> None:
    other = AccountTokens(ec.generate_private_key(ec.SECP256R1()), "https://hub", now=clock)
    with pytest.raises(TokenError):
        tokens.verify(other.issue("team", "agent", "uid-1").token)


@given(data=st.data())
def test_a_token_with_any_character_changed_is_refused(data: st.DataObject) -> None:
    tokens = AccountTokens(KEY, "https://hub", now=Clock())
    token = tokens.issue("team", "agent", "uid-1").token
    tokens.verify(token)
    at = data.draw(st.integers(0, len(token) - 1))
    character = data.draw(st.sampled_from("AZaz09-_.=+/ \n").filter(lambda c: c != token[at]))
    for changed in (token[:at] + character + token[at + 1 :], token[:at] + character + token[at:], token[:at]):
        with pytest.raises(TokenError):
            tokens.verify(changed)


def test_a_second_spelling_of_the_same_signature_is_another_token(tokens: AccountTokens) -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    token = tokens.issue("team", "agent", "uid-1").token
    # 64 bytes leave four bits of the last character unused; a lenient reader would not look at them.
    twin = token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]
    for other in (twin, f"{token}=", f"{token}==", f"{token}\n"):
        with pytest.raises(TokenError, match="base64url"):
            tokens.verify(other)


@given(text=st.text(max_size=200))
def test_rubbish_is_refused_and_nothing_else_happens(text: str) -> None:
    with pytest.raises(TokenError):
        AccountTokens(KEY, "https://hub", now=Clock()).verify(text)


def test_a_huge_token_is_refused_before_it_is_looked_at(tokens: AccountTokens) -> None:
    with pytest.raises(TokenError, match="too long"):
        tokens.verify("a" * 1_000_000)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (599, "may not specify a duration less than 10 minutes"),
        (-1, "may not specify a duration less than 10 minutes"),
        (2**32 + 1, "may not specify a duration larger than 2^32 seconds"),
    ],
)
def test_lifetimes_outside_the_bounds_are_invalid(tokens: AccountTokens, seconds: int, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        tokens.issue("team", "agent", "uid-1", seconds=seconds)
    assert f"spec.expirationSeconds: Invalid value: {seconds}: {text}" in caught.value.message


def test_a_long_lifetime_is_shortened_to_the_longest(tokens: AccountTokens) -> None:
    assert tokens.issue("team", "agent", "uid-1", seconds=2**31).expires == NOW + 86400
