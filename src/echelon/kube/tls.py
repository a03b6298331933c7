"""TLS as Kubernetes clients do it, on OpenSSL.

Go trusts every certificate that it is told to trust, a server's own included, and does not insist on the extensions
that strict verification wants; clusters rely on both. And OpenSSL reads client keys only from files, so a key that
came as data is in one for a moment, private and gone before anybody connects.
"""

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class KeyPair:
    """A client certificate and its key, both as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


class BadCertificate(Exception):
    """A certificate or key that OpenSSL does not take; the text does not quote it."""


def context(authority: bytes = b"", pair: KeyPair | None = None, *, insecure: bool = False) -> ssl.SSLContext:
    """Return how to verify the server and who to be; without an authority, the system's are trusted."""
    if insecure:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    else:
        made = _verifying(authority)
    if pair is not None:
        _present(made, pair)
    return made


def _verifying(authority: bytes) -> ssl.SSLContext:
    if not authority:
        made = ssl.create_default_context()
    else:
        try:
            made = ssl.create_default_context(cadata=authority.decode("ascii", "replace"))
        except (ssl.SSLError, ValueError):
            raise BadCertificate("must be one or more certificates in PEM") from None
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return made


def _present(made: ssl.SSLContext, pair: KeyPair) -> None:
    with tempfile.TemporaryDirectory(prefix="echelon-") as directory:  # made with mode 0700
        certificate, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        try:
            made.load_cert_chain(certificate, key, password=lambda: "")  # else OpenSSL asks on the terminal
        except ssl.SSLError as error:
            mismatch = error.reason == "KEY_VALUES_MISMATCH"
            why = "does not belong to the client certificate" if mismatch else "must be a certificate and key in PEM"
            raise BadCertificate(why) from None
