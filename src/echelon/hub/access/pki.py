"""The hub's own certificate authority, because kubectl sends no credentials to a server that it cannot verify.

Everything is made at first start and kept in one private directory, so that a kubeconfig written once stays valid over
restarts. A certificate and its key are two files and cannot be replaced together; the key is written first, and a pair
that does not match is recognised. A serving certificate is then simply made again. The authority is not: it is in every
kubeconfig that was handed out, so a broken one is an error for a person to solve.

A hub without a directory keeps everything in memory. OpenSSL takes a server's key only from a file, so the key is
copied into a private temporary directory for as long as it takes to load it, whether there is another file or not.
"""

import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from echelon.hub.access.private import private_directory, read_private, write_private

AUTHORITY_LIFETIME = timedelta(days=3650)
SERVING_LIFETIME = timedelta(days=365)
CLIENT_LIFETIME = timedelta(days=365)
RENEW_WHEN_LEFT = timedelta(days=30)
# Certificates start a little in the past: the clocks of clients are not all right.
CLOCK_SKEW = timedelta(minutes=5)

STANDARD_HOSTS = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
)

_CA = "ca"
_SERVING = "serving"
_SIGNING_KEY = "service-accounts.key"


class PkiError(Exception):
    """The keys or certificates cannot be used; the text says which file and what to do."""


@dataclass(frozen=True)
class Issued:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as it goes into files."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as it goes into files."""
        return _key_pem(self.key)

    @property
    def matches(self) -> bool:
        """Whether the key belongs to the certificate."""
        spki = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return self.certificate.public_key().public_bytes(*spki) == self.key.public_key().public_bytes(*spki)


@dataclass(frozen=True)
class Pki:
    """All keys of one hub."""

    authority: Issued
    serving: Issued
    signing_key: ec.EllipticCurvePrivateKey
    others: tuple[x509.Certificate, ...] = ()  # authorities that are trusted beside the present one

    @property
    def authorities(self) -> tuple[x509.Certificate, ...]:
        """All authorities that are trusted, the one that signs first."""
        return (self.authority.certificate, *self.others)

    @property
    def authorities_pem(self) -> bytes:
        """What clients recognise the hub by."""
        return b"".join(each.public_bytes(Encoding.PEM) for each in self.authorities)

    def client_certificate(
        self, user: str, groups: Sequence[str], now: datetime, lifetime: timedelta = CLIENT_LIFETIME
    ) -> Issued:
        """Issue a certificate that makes its bearer this user in these groups."""
        try:
            attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        except ValueError as error:
            raise PkiError(f"no certificate for user {user!r}: {error}") from error
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return _issue(self.authority, x509.Name(attributes), usage, now=now, lifetime=lifetime)


def make_pki(hosts: Sequence[str], now: datetime) -> Pki:
    """Make everything anew, in memory."""
    authority = _make_authority(_new_key(), now)
    return Pki(authority, _make_serving(authority, hosts, now), _new_key())


def open_pki(directory: Path, hosts: Sequence[str], now: datetime) -> Pki:
    """Read what the directory has, make what is missing and renew what is due."""
    private_directory(directory)
    authority = _open_authority(directory, now)
    try:
        serving = _load_issued(directory, _SERVING)
    except PkiError:
        serving = None
    if serving is None or not _still_good(serving, authority, hosts, now):
        serving = _make_serving(authority, hosts, now)
        _save_issued(directory, _SERVING, serving)
    return Pki(authority, serving, _open_key(directory / _SIGNING_KEY))


def renewed(pki: Pki, directory: Path | None, hosts: Sequence[str], now: datetime) -> Pki | None:
    """Return the keys with a new serving certificate, if it is time for one; in memory nothing is kept."""
    if _still_good(pki.serving, pki.authority, hosts, now):
        return None
    serving = _make_serving(pki.authority, hosts, now)
    if directory is not None:
        _save_issued(directory, _SERVING, serving)
    return replace(pki, serving=serving)


def new_authority(now: datetime) -> Issued:
    """Make another authority."""
    return _make_authority(_new_key(), now)


def server_ssl_context(pki: Pki) -> ssl.SSLContext:
    """Return how the server speaks TLS: a client may show a certificate, and if it does, ours must have issued it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=pki.authorities_pem.decode())
    serve_with(context, pki.serving)
    return context


def serve_with(context: ssl.SSLContext, serving: Issued) -> None:
    """Show this certificate to whoever connects from now on."""
    with tempfile.TemporaryDirectory(prefix="echelon-") as name:
        chain = Path(name) / "serving.pem"
        write_private(chain, serving.certificate_pem + serving.key_pem)
        context.load_cert_chain(chain)


def _open_authority(directory: Path, now: datetime) -> Issued:
    certificate_file, key_file = _files(directory, _CA)
    if not certificate_file.exists():
        # A key alone is what a crash during the first start leaves; nothing has been issued with it yet.
        authority = _make_authority(_open_key(key_file), now)
        write_private(certificate_file, authority.certificate_pem)
        return authority
    loaded = _load_issued(directory, _CA)
    remedy = f"restore it, or move {directory} away to start with a new authority"
    if loaded is None:
        raise PkiError(f"{certificate_file} has no usable key in {key_file}: {remedy}")
    if not loaded.matches:
        raise PkiError(f"{key_file} does not belong to {certificate_file}: {remedy}")
    if loaded.certificate.not_valid_after_utc <= now:
        raise PkiError(f"{certificate_file} has expired: {remedy}")
    return loaded


def _still_good(serving: Issued, authority: Issued, hosts: Sequence[str], now: datetime) -> bool:
    certificate = serving.certificate
    if not serving.matches or certificate.not_valid_after_utc - now < RENEW_WHEN_LEFT:
        return False
    try:
        certificate.verify_directly_issued_by(authority.certificate)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return set(names) == set(_alternative_names(hosts))


def _make_authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> Issued:
    public = key.public_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    # Named after its key: authorities of several hubs in one trust store stay apart, and one key has one name.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"echelon-ca-{identifier.digest.hex()[:16]}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Issued(certificate, key)


def _make_serving(authority: Issued, hosts: Sequence[str], now: datetime) -> Issued:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "echelon-hub")])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return _issue(authority, subject, usage, now=now, lifetime=SERVING_LIFETIME, names=_alternative_names(hosts))


def _issue(
    authority: Issued,
    subject: x509.Name,
    usage: x509.ExtendedKeyUsage,
    *,
    now: datetime,
    lifetime: timedelta,
    names: Sequence[x509.GeneralName] = (),
) -> Issued:
    key = _new_key()
    issuer = authority.certificate
    # Nothing outlives the authority: a chain is only as valid as its root.
    until = min(now + lifetime, issuer.not_valid_after_utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(usage, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Issued(builder.sign(authority.key, hashes.SHA256()), key)


def _alternative_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    return [_alternative_name(host) for host in dict.fromkeys((*STANDARD_HOSTS, *hosts))]


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        if not host:
            raise ValueError("a host name is empty")
        return x509.DNSName(host)
    except ValueError as error:
        raise PkiError(f"{host!r} cannot be a host name of the serving certificate: {error}") from error


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _files(directory: Path, name: str) -> tuple[Path, Path]:
    return directory / f"{name}.crt", directory / f"{name}.key"


def _load_issued(directory: Path, name: str) -> Issued | None:
    certificate_file, key_file = _files(directory, name)
    if not certificate_file.exists() or not key_file.exists():
        return None
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
    except ValueError as error:
        raise PkiError(f"{certificate_file} is not a certificate in PEM form") from error
    return Issued(certificate, _open_key(key_file))


def _save_issued(directory: Path, name: str, issued: Issued) -> None:
    certificate_file, key_file = _files(directory, name)
    write_private(key_file, issued.key_pem)
    write_private(certificate_file, issued.certificate_pem)


def _open_key(path: Path) -> ec.EllipticCurvePrivateKey:
    if not path.exists():
        key = _new_key()
        write_private(path, _key_pem(key))
        return key
    try:
        loaded = load_pem_private_key(read_private(path), password=None)
    except (ValueError, TypeError) as error:
        raise PkiError(f"{path} is not a private key in PEM form without a password") from error
    if not isinstance(loaded, ec.EllipticCurvePrivateKey) or not isinstance(loaded.curve, ec.SECP256R1):
        raise PkiError(f"{path} is not an ECDSA P-256 key")
    return loaded


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
