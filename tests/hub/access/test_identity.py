import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from echelon.hub.access.identity import (
    ADMINISTRATOR,
    CREDENTIAL_ID,
    POD_NAME,
    POD_UID,
    Authenticator,
    StaticTokens,
    TokenFileError,
    User,
    open_token_file,
    read_token_file,
)
from echelon.hub.access.pki import Issued, make_pki
from echelon.hub.access.tokens import AccountTokens
from echelon.kube.errors import Unauthorized

START = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
PKI = make_pki([], START)


class World:
    """A cluster with a clock, one service account and one pod."""

    def __init__(self, issuer: str = "https://hub") -> None:
        self.time = START.timestamp()
        self.uids = {("serviceaccounts", "team", "agent"): "uid-1", ("pods", "team", "agent-0"): "uid-2"}
        self.accounts = AccountTokens(PKI.signing_key, issuer, now=lambda: self.time)
        self.authenticator = Authenticator(
            now=lambda: self.time,
            authority=PKI.authority.certificate,
            tokens=StaticTokens({"t0p": User("root", ("system:masters",), "7"), "plain": User("alice")}),
            accounts=self.accounts,
            lookup=lambda *key: self.uids.get(key),
        )

    def bearer(self, token: str) -> User:
        return self.authenticator.authenticate(authorization=f"Bearer {token}")

    def agent_token(self, **options: object) -> str:
        return self.accounts.issue("team", "agent", "uid-1", **options).token  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    return World()


def der(issued: Issued) -> bytes:
    return issued.certificate.public_bytes(Encoding.DER)


def test_without_credentials_one_is_anonymous(world: World) -> None:
    assert world.authenticator.authenticate() == User("system:anonymous", ("system:unauthenticated",))


def test_anonymous_requests_can_be_switched_off() -> None:
    with pytest.raises(Unauthorized):
        Authenticator(now=lambda: 0.0, anonymous=False).authenticate()


@pytest.mark.parametrize(
    "header",
    [
        "Bearer wrong",
        "Bearer ",
        "Bearer",
        "",
        "Basic cm9vdDpyb290",
        "Basic t0p",
        "t0p",
        "Bearer t0p t0p",
        "Bearer T0P",
        "Bearer t0",
    ],
)
def test_a_bad_credential_is_never_taken_for_none(world: World, header: str) -> None:
    with pytest.raises(Unauthorized):
        world.authenticator.authenticate(authorization=header)


def test_a_static_token_is_its_user_who_is_authenticated(world: World) -> None:
    assert world.bearer("t0p") == User("root", ("system:masters", "system:authenticated"), "7")
    assert world.authenticator.authenticate(authorization="bearer plain") == User("alice", ("system:authenticated",))


def test_a_token_with_odd_bytes_is_just_wrong(world: World) -> None:
    for token in ("t0p\udce4", "\x00", "é" * 100, "t" * 20_000):
        with pytest.raises(Unauthorized):
            world.bearer(token)


def test_no_tokens_configured_means_no_token_is_good() -> None:
    with pytest.raises(Unauthorized):
        Authenticator(now=lambda: 0.0).authenticate(authorization="Bearer anything")


def test_a_certificate_is_its_common_name_in_its_organisations(world: World) -> None:
    issued = PKI.client_certificate("alice", ["team-a", "team-b"], START)
    user = world.authenticator.authenticate(certificate=der(issued))
    assert (user.name, user.groups) == ("alice", ("team-a", "team-b", "system:authenticated"))
    fingerprint = issued.certificate.fingerprint(hashes.SHA256()).hex()
    assert user.extra == {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}


def test_a_certificate_decides_before_a_token(world: World) -> None:
    issued = PKI.client_certificate("alice", [], START)
    user = world.authenticator.authenticate(certificate=der(issued), authorization="Bearer t0p")
    assert user.name == "alice"


def test_a_certificate_that_expires_during_a_connection_is_not_good_any_more(world: World) -> None:
    shown = der(PKI.client_certificate("alice", [], START, timedelta(hours=1)))
    world.authenticator.authenticate(certificate=shown)
    world.time += 3601
    with pytest.raises(Unauthorized):
        world.authenticator.authenticate(certificate=shown)


def test_a_certificate_of_the_future_is_not_good_yet(world: World) -> None:
    shown = der(PKI.client_certificate("alice", [], START + timedelta(days=1)))
    with pytest.raises(Unauthorized):
        world.authenticator.authenticate(certificate=shown)


def signed_by_us(subject: x509.Name, usage: x509.ObjectIdentifier | None) -> bytes:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(PKI.authority.certificate.subject)
        .public_key(ec.generate_private_key(ec.SECP256R1()).public_key())
        .serial_number(1)
        .not_valid_before(START - timedelta(days=1))
        .not_valid_after(START + timedelta(days=1))
    )
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return builder.sign(PKI.authority.key, hashes.SHA256()).public_bytes(Encoding.DER)


def common_names(*names: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])


CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH


def test_the_certificates_of_the_next_test_are_refused_for_what_is_wrong_with_them(world: World) -> None:
    assert world.authenticator.authenticate(certificate=signed_by_us(common_names("eve"), CLIENT)).name == "eve"


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(der(make_pki([], START).client_certificate("eve", ["system:masters"], START)), id="foreign"),
        pytest.param(der(PKI.serving), id="the server's own"),
        pytest.param(der(PKI.authority), id="the authority's own"),
        pytest.param(signed_by_us(common_names("eve", "root"), CLIENT), id="two names"),
        pytest.param(signed_by_us(common_names(), CLIENT), id="no name"),
        pytest.param(signed_by_us(common_names("eve"), None), id="no usage"),
        pytest.param(signed_by_us(common_names("eve"), ExtendedKeyUsageOID.SERVER_AUTH), id="for servers"),
        pytest.param(b"not a certificate", id="rubbish"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_certificate_that_does_not_name_one_client_of_ours_is_refused(world: World, shown: bytes) -> None:
    with pytest.raises(Unauthorized):
        world.authenticator.authenticate(certificate=shown)


def test_a_service_account_token_is_the_account_in_its_groups(world: World) -> None:
    user = world.bearer(world.agent_token())
    assert user.name == "system:serviceaccount:team:agent"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")
    assert user.uid == "uid-1"
    assert user.extra[CREDENTIAL_ID][0].startswith("JTI=")


def test_a_token_ends_with_its_account_even_after_it_was_used(world: World) -> None:
    token = world.agent_token()
    world.bearer(token)
    del world.uids["serviceaccounts", "team", "agent"]
    with pytest.raises(Unauthorized):
        world.bearer(token)


def test_an_account_made_anew_under_the_same_name_does_not_revive_old_tokens(world: World) -> None:
    token = world.agent_token()
    world.uids["serviceaccounts", "team", "agent"] = "uid-9"
    with pytest.raises(Unauthorized):
        world.bearer(token)


def test_a_token_bound_to_a_pod_says_so_and_ends_with_it(world: World) -> None:
    token = world.agent_token(pod=("agent-0", "uid-2"))
    user = world.bearer(token)
    assert (user.extra[POD_NAME], user.extra[POD_UID]) == (("agent-0",), ("uid-2",))
    world.uids["pods", "team", "agent-0"] = "uid-3"
    with pytest.raises(Unauthorized):
        world.bearer(token)


def test_a_token_of_another_cluster_means_nothing_here(world: World) -> None:
    member = World("https://hub/clusters/member-1")
    token = member.agent_token(audiences=["https://hub"])
    with pytest.raises(Unauthorized):
        world.bearer(token)


def test_a_static_token_is_good_for_this_server_only(world: World) -> None:
    assert world.authenticator.authenticate_token("plain", ["https://hub", "vault"])[1] == ("https://hub",)
    with pytest.raises(Unauthorized):
        world.authenticator.authenticate_token("plain", ["vault"])


def test_the_first_start_makes_an_administrator_and_later_ones_find_them(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    users, token = open_token_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(token) >= 32
    assert users == {token: User(ADMINISTRATOR, ("system:masters",), ADMINISTRATOR)}
    assert open_token_file(path) == (users, token)
    assert open_token_file(tmp_path / "other.csv")[1] != token


def test_a_removed_administrator_stays_removed(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text("abc,alice,1\n")
    assert open_token_file(path) == ({"abc": User("alice", (), "1")}, "")


def test_the_token_file_is_a_table_with_optional_groups(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text('a,alice,1\n\nb,bob,2,"team-a,team-b"\nc, carol ,3,team-a\n')
    assert read_token_file(path) == {
        "a": User("alice", (), "1"),
        "b": User("bob", ("team-a", "team-b"), "2"),
        "c": User("carol", ("team-a",), "3"),
    }


@pytest.mark.parametrize(
    "content",
    [
        "s3cret,alice\n",
        ",alice,1\n",
        "s3cret,,1\n",
        "s3cret,alice,1\ns3cret,bob,2\n",
        "s3cret,a,1,g,h\n",
        '"s3cret,a,1\n',
    ],
)
def test_a_bad_token_file_is_reported_without_its_tokens(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text(content)
    with pytest.raises(TokenFileError) as caught:
        read_token_file(path)
    assert "tokens.csv" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_token_file_that_is_not_text_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TokenFileError, match="UTF-8"):
        read_token_file(path)
