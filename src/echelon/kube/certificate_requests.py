"""Certificate requests as PKCS#10 has them: made by who wants a certificate, read by who approves and who signs.

X.509 limits common names to 64 characters. Kubernetes does not, and names of users are longer than that, so neither do
we: the limit is a convention of directories, and nothing that verifies a certificate looks at it.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID


class BadRequestError(Exception):
    """What was sent is no certificate request."""


@dataclass(frozen=True)
class Requested:
    """What a request asks to be certified: a user and groups, and whether it asks for anything besides."""

    names: tuple[str, ...]
    groups: tuple[str, ...]
    more: tuple[str, ...] = ()  # other parts of the subject, and extensions such as alternative names, by name


@contextmanager
def names_of_any_length() -> Iterator[None]:
    """Read and write subjects without being warned of names that are longer than X.509 has them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Attribute's length must be", UserWarning)
        yield


def new_key() -> ec.EllipticCurvePrivateKey:
    """Make a key as the hub and its agents have them."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as it goes into files and Secrets."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_key(pem: bytes) -> ec.EllipticCurvePrivateKey | None:
    """Return a key that `key_pem` wrote; nothing for anything else."""
    try:
        found = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return found if isinstance(found, ec.EllipticCurvePrivateKey) else None


def subject(user: str, groups: Sequence[str]) -> x509.Name:
    """Return the subject by which Kubernetes knows a user in groups."""
    groups_and_name = [(NameOID.ORGANIZATION_NAME, group) for group in groups] + [(NameOID.COMMON_NAME, user)]
    # Not validated: see above. What is too long for X.509 is not too long for anybody who reads it.
    with names_of_any_length():
        return x509.Name([x509.NameAttribute(oid, value, _validate=False) for oid, value in groups_and_name])


def make(key: ec.EllipticCurvePrivateKey, user: str, groups: Sequence[str]) -> bytes:
    """Make a request for a certificate that makes its bearer this user in these groups."""
    request = x509.CertificateSigningRequestBuilder().subject_name(subject(user, groups)).sign(key, hashes.SHA256())
    return request.public_bytes(Encoding.PEM)


def load(pem: bytes) -> x509.CertificateSigningRequest:
    """Read a request whose sender has the key that it names; raise `BadRequestError` for anything else."""
    if pem.count(b"-----BEGIN ") != 1 or not pem.lstrip().startswith(b"-----BEGIN CERTIFICATE REQUEST-----"):
        raise BadRequestError("PEM block type must be CERTIFICATE REQUEST")
    try:
        with names_of_any_length():
            request = x509.load_pem_x509_csr(pem)
            signed = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature) as error:
        raise BadRequestError(f"the request cannot be read: {error}") from error
    if not signed:
        raise BadRequestError("the signature of the request is wrong")
    return request


def read(pem: bytes) -> Requested:
    """Return what a request asks for; raise `BadRequestError` if it is none."""
    request = load(pem)
    try:
        with names_of_any_length():
            parts = [(part.oid, _text(part.value)) for part in request.subject]
            extensions = [_name(each.oid) for each in request.extensions]
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise BadRequestError(f"the request cannot be read: {error}") from error
    known = (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    return Requested(
        names=tuple(value for oid, value in parts if oid == NameOID.COMMON_NAME),
        groups=tuple(value for oid, value in parts if oid == NameOID.ORGANIZATION_NAME),
        more=(*(_name(oid) for oid, _ in parts if oid not in known), *extensions),
    )


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _name(oid: x509.ObjectIdentifier) -> str:
    known: str = oid._name  # noqa: SLF001 - there is no other way to the name of an oid
    return oid.dotted_string if known == "Unknown OID" else known
