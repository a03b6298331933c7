import asyncio
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from echelon.hub.access.pki import Issued, Pki, PkiError, make_pki, open_pki, server_ssl_context
from echelon.hub.access.private import write_private

# Real handshakes look at the real clock.
NOW = datetime.now(UTC).replace(microsecond=0)


def names(pki: Pki) -> set[str]:
    extension = pki.serving.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return {str(name.value) for name in extension.value}


def client_context(pki: Pki, shown: Issued | None, tmp_path: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=pki.authority.certificate_pem.decode())
    if shown is not None:
        file = tmp_path / "shown.pem"
        write_private(file, shown.certificate_pem + shown.key_pem)
        context.load_cert_chain(file)
    return context


async def handshake(server: Pki, client: ssl.SSLContext, host: str = "localhost") -> bytes | None:
    """Connect over TLS and return the client certificate that the server accepted."""
    seen: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.set_result(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        writer.write(b"ok")
        await writer.drain()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_ssl_context(server)) as listening:
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=host)
        try:
            if await reader.read(2) != b"ok":
                raise ConnectionResetError
            return await seen
        finally:
            writer.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "kubernetes.default.svc", "hub.example.com"])
def test_a_client_that_knows_the_authority_can_connect_by_every_name(host: str, tmp_path: Path) -> None:
    pki = make_pki(["hub.example.com"], NOW)
    assert asyncio.run(handshake(pki, client_context(pki, None, tmp_path), host)) is None


def test_a_name_that_was_not_asked_for_is_not_served(tmp_path: Path) -> None:
    pki = make_pki([], NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(handshake(pki, client_context(pki, None, tmp_path), "hub.example.com"))


def test_a_client_certificate_of_ours_is_taken(tmp_path: Path) -> None:
    pki = make_pki([], NOW)
    shown = pki.client_certificate("alice", ["team-a"], NOW)
    der = asyncio.run(handshake(pki, client_context(pki, shown, tmp_path)))
    assert der is not None
    assert x509.load_der_x509_certificate(der) == shown.certificate


@pytest.mark.parametrize("case", ["foreign", "expired", "serving"])
def test_any_other_client_certificate_ends_the_connection(case: str, tmp_path: Path) -> None:
    pki = make_pki([], NOW)
    shown = {
        "foreign": lambda: make_pki([], NOW).client_certificate("alice", ["system:masters"], NOW),
        "expired": lambda: pki.client_certificate("alice", [], NOW - timedelta(days=2), timedelta(days=1)),
        # Whoever got hold of the server's own key must not be somebody with it.
        "serving": lambda: pki.serving,
    }[case]()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        asyncio.run(handshake(pki, client_context(pki, shown, tmp_path)))


def test_old_protocol_versions_are_not_spoken(tmp_path: Path) -> None:
    pki = make_pki([], NOW)
    assert server_ssl_context(pki).minimum_version is ssl.TLSVersion.TLSv1_2
    client = client_context(pki, None, tmp_path)
    client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_2
    asyncio.run(handshake(pki, client))


def test_a_second_start_finds_everything_as_it_was(tmp_path: Path) -> None:
    first = open_pki(tmp_path / "pki", ["a.example.com"], NOW)
    second = open_pki(tmp_path / "pki", ["a.example.com"], NOW + timedelta(days=200))
    assert second.authority.certificate == first.authority.certificate
    assert second.serving.certificate == first.serving.certificate
    assert second.signing_key.private_numbers() == first.signing_key.private_numbers()


def test_all_files_are_private(tmp_path: Path) -> None:
    open_pki(tmp_path / "pki", [], NOW)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "pki").iterdir()}
    assert set(modes) == {"ca.crt", "ca.key", "serving.crt", "serving.key", "service-accounts.key"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700


def test_a_key_that_others_could_read_is_closed_at_the_next_start(tmp_path: Path) -> None:
    open_pki(tmp_path, [], NOW)
    (tmp_path / "ca.key").chmod(0o644)
    open_pki(tmp_path, [], NOW)
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600


@pytest.mark.parametrize(("left", "renewed"), [(31, False), (29, True), (-1, True)])
def test_the_serving_certificate_is_renewed_in_its_last_month(tmp_path: Path, left: int, renewed: bool) -> None:
    first = open_pki(tmp_path, [], NOW)
    second = open_pki(tmp_path, [], NOW + timedelta(days=365 - left))
    assert (second.serving.certificate != first.serving.certificate) is renewed
    assert second.authority.certificate == first.authority.certificate


def test_new_host_names_renew_the_serving_certificate(tmp_path: Path) -> None:
    first = open_pki(tmp_path, ["10.0.0.7"], NOW)
    second = open_pki(tmp_path, ["10.0.0.7", "hub.example.com"], NOW)
    assert second.serving.certificate != first.serving.certificate
    assert names(second) - names(first) == {"hub.example.com"}
    assert "10.0.0.7" in names(second)


@pytest.mark.parametrize("damage", ["key of another", "no certificate", "torn certificate", "torn key"])
def test_a_damaged_serving_certificate_is_made_again(tmp_path: Path, damage: str) -> None:
    first = open_pki(tmp_path, [], NOW)
    match damage:
        case "key of another":
            (tmp_path / "serving.key").write_bytes(make_pki([], NOW).serving.key_pem)
        case "no certificate":
            (tmp_path / "serving.crt").unlink()
        case "torn certificate":
            (tmp_path / "serving.crt").write_bytes(first.serving.certificate_pem[:100])
        case "torn key":
            (tmp_path / "serving.key").write_bytes(b"")
    assert open_pki(tmp_path, [], NOW).serving.matches
    assert open_pki(tmp_path, [], NOW).serving.certificate != first.serving.certificate


@pytest.mark.parametrize("damage", ["no key", "key of another", "torn key", "torn certificate"])
def test_a_damaged_authority_is_left_for_a_person(tmp_path: Path, damage: str) -> None:
    first = open_pki(tmp_path, [], NOW)
    match damage:
        case "no key":
            (tmp_path / "ca.key").unlink()
        case "key of another":
            (tmp_path / "ca.key").write_bytes(make_pki([], NOW).authority.key_pem)
        case "torn key":
            (tmp_path / "ca.key").write_bytes(b"")
        case "torn certificate":
            (tmp_path / "ca.crt").write_bytes(first.authority.certificate_pem[:100])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(PkiError, match=r"ca\.(key|crt)"):
        open_pki(tmp_path, [], NOW)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_crash_between_key_and_certificate_of_the_authority_heals(tmp_path: Path) -> None:
    first = open_pki(tmp_path, [], NOW)
    (tmp_path / "ca.crt").unlink()
    second = open_pki(tmp_path, [], NOW)
    assert second.authority.certificate.subject == first.authority.certificate.subject
    assert second.authority.key.private_numbers() == first.authority.key.private_numbers()


def test_an_expired_authority_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    open_pki(tmp_path, [], NOW)
    with pytest.raises(PkiError, match=r"has expired: .* move"):
        open_pki(tmp_path, [], NOW + timedelta(days=3651))


def test_nothing_outlives_the_authority() -> None:
    pki = make_pki([], NOW)
    late = pki.client_certificate("alice", [], NOW + timedelta(days=3600))
    assert late.certificate.not_valid_after_utc == pki.authority.certificate.not_valid_after_utc


@pytest.mark.parametrize("host", ["", "hüb.example.com"])
def test_a_host_that_no_certificate_can_have_is_an_error_with_its_name(host: str) -> None:
    with pytest.raises(PkiError, match="host name"):
        make_pki([host], NOW)


def test_a_user_name_that_no_certificate_can_have_is_an_error() -> None:
    with pytest.raises(PkiError, match="no certificate for user"):
        make_pki([], NOW).client_certificate("x" * 65, [], NOW)


def test_nothing_stays_in_the_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    server_ssl_context(make_pki([], NOW))
    assert list(tmp_path.iterdir()) == []
