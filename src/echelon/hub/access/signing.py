"""Signs the certificate requests that were approved, with the hub's own authority.

The rules of `kubernetes.io/kube-apiserver-client` are those of Kubernetes: certificates that are good for being a
client of the API and nothing else. It is for as long as was asked for, within limits, and never outlives the authority.
"""

from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID

from echelon.hub.access.pki import CLIENT_LIFETIME, CLOCK_SKEW, Issued
from echelon.kube import certificate_requests
from echelon.kube.certificate_requests import BadRequestError

SHORTEST_LIFETIME: Final = timedelta(minutes=10)

_CLIENT_AUTH = "client auth"
_PERMITTED = ("client auth", "digital signature", "key encipherment")


class NotSigned(Exception):
    """A request that was approved and that its signer does not sign all the same."""


class Signer:
    """The signer of one hub."""

    def __init__(self, authority: Issued) -> None:
        self._authority = authority

    def sign(self, request: bytes, usages: list[str], seconds: int | None, now: datetime) -> bytes:
        """Return the certificate as PEM."""
        if _CLIENT_AUTH not in usages or not set(usages) <= set(_PERMITTED):
            raise NotSigned(f"invalid usage for client certificate: {', '.join(usages)}")
        try:
            asked = certificate_requests.load(request)
            key = asked.public_key()
        except (BadRequestError, ValueError) as error:
            raise NotSigned(str(error)) from error
        issuer = self._authority.certificate
        lifetime = (
            min(max(timedelta(seconds=seconds), SHORTEST_LIFETIME), CLIENT_LIFETIME) if seconds else CLIENT_LIFETIME
        )
        with certificate_requests.names_of_any_length():
            certificate = (
                x509.CertificateBuilder()
                .subject_name(asked.subject)
                .issuer_name(issuer.subject)
                .public_key(key)
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - CLOCK_SKEW)
                .not_valid_after(min(now + lifetime, issuer.not_valid_after_utc))
                .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
                .add_extension(_key_usage(usages), critical=True)
                .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
                .add_extension(
                    x509.AuthorityKeyIdentifier.from_issuer_public_key(self._authority.key.public_key()), critical=False
                )
                .sign(self._authority.key, hashes.SHA256())
            )
        return Issued(certificate, self._authority.key).certificate_pem


def _key_usage(usages: list[str]) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment="key encipherment" in usages,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
