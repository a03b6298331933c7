"""Service account tokens: JSON Web Tokens that the hub signs and only the hub needs to read.

General JWT libraries let the token say how it wants to be verified, and most of their flaws come from that. Here the
header has one possible value, so it is compared and never parsed: there is no algorithm to choose, no key to look up.
The claims are looked at after the signature, never before.

Verifying a signature costs more than everything else in a request. That a token was signed by our key cannot change, so
it is remembered; whether it has expired, and whether its account still exists, is asked every time.
"""

import base64
import binascii
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from echelon.kube.errors import Cause, invalid

SHORTEST_LIFETIME = 10 * 60
DEFAULT_LIFETIME = 60 * 60
LONGEST_LIFETIME = 24 * 60 * 60
_LARGEST_REQUEST = 1 << 32

_LONGEST_TOKEN = 16 * 1024
_SIGNATURE_PART = 32  # bytes of r and of s
_REMEMBERED_TOKENS = 16384


class TokenError(Exception):
    """The token is not one of ours, or not good any more."""


class Claims(msgspec.Struct, frozen=True):
    """What a token says about its bearer."""

    namespace: str
    account: str
    account_uid: str
    token_id: str
    audiences: tuple[str, ...]  # of those that were asked about, the ones that the token is meant for
    pod: str = ""
    pod_uid: str = ""


class IssuedToken(msgspec.Struct, frozen=True):
    """A token and when it ends."""

    token: str
    expires: float


class _Reference(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str
    serviceaccount: _Reference
    pod: _Reference | None = None


class _Payload(msgspec.Struct, frozen=True):
    aud: list[str]
    exp: int
    iat: int
    iss: str
    jti: str
    nbf: int
    sub: str
    bound: _Bound = msgspec.field(name="kubernetes.io")


class AccountTokens:
    """Issues and verifies the tokens of one logical cluster's service accounts."""

    def __init__(
        self,
        key: ec.EllipticCurvePrivateKey,
        issuer: str,
        *,
        now: Callable[[], float],
    ) -> None:
        self._key = key
        self._public = key.public_key()
        self._issuer = issuer
        self._now = now
        self.audiences = (issuer,)
        spki = self._public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        key_id = _encode(hashlib.sha256(spki).digest())
        self._header = _encode(msgspec.json.encode({"alg": "ES256", "kid": key_id, "typ": "JWT"}))
        self._decoder = msgspec.json.Decoder(_Payload)
        self._verified: OrderedDict[bytes, _Payload] = OrderedDict()

    def issue(
        self,
        namespace: str,
        account: str,
        account_uid: str,
        *,
        audiences: Sequence[str] = (),
        seconds: int = DEFAULT_LIFETIME,
        pod: tuple[str, str] | None = None,
    ) -> IssuedToken:
        """Issue what a TokenRequest asks for; a lifetime that is too long is shortened. `pod` is a name and a uid."""
        if problem := _lifetime_problem(seconds):
            cause = Cause("spec.expirationSeconds", f"Invalid value: {seconds}: {problem}")
            raise invalid("TokenRequest", "authentication.k8s.io", "", [cause])
        issued = int(self._now())
        payload = _Payload(
            aud=list(audiences) or list(self.audiences),
            exp=issued + min(seconds, LONGEST_LIFETIME),
            iat=issued,
            iss=self._issuer,
            jti=secrets.token_hex(16),
            nbf=issued,
            sub=_subject(namespace, account),
            bound=_Bound(namespace, _Reference(account, account_uid), _Reference(*pod) if pod else None),
        )
        signed = f"{self._header}.{_encode(msgspec.json.encode(payload))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_SIGNATURE_PART, "big") + s.to_bytes(_SIGNATURE_PART, "big")
        return IssuedToken(f"{signed}.{_encode(signature)}", payload.exp)

    def verify(self, token: str, audiences: Sequence[str] = ()) -> Claims:
        """Return what the token says, if we signed it, for one of the audiences, and it has not expired."""
        payload = self._signed_payload(token)
        now = self._now()
        if not payload.nbf <= now < payload.exp:
            raise TokenError("the token is not valid at this time")
        meant = tuple(audience for audience in audiences or self.audiences if audience in payload.aud)
        if not meant:
            raise TokenError("the token is meant for another audience")
        pod = payload.bound.pod
        return Claims(
            namespace=payload.bound.namespace,
            account=payload.bound.serviceaccount.name,
            account_uid=payload.bound.serviceaccount.uid,
            token_id=payload.jti,
            audiences=meant,
            pod=pod.name if pod else "",
            pod_uid=pod.uid if pod else "",
        )

    def _signed_payload(self, token: str) -> _Payload:
        if len(token) > _LONGEST_TOKEN:
            raise TokenError("the token is too long")
        if not token.isascii():
            raise TokenError("not a token")
        digest = hashlib.sha256(token.encode()).digest()
        known = self._verified.get(digest)
        if known is None:
            known = self._check_signature(token)
            self._verified[digest] = known
            if len(self._verified) > _REMEMBERED_TOKENS:
                self._verified.popitem(last=False)
        return known

    def _check_signature(self, token: str) -> _Payload:
        parts = token.split(".")
        if len(parts) != 3 or parts[0] != self._header:
            raise TokenError("not a token of this server")
        signature = _decode(parts[2])
        if len(signature) != 2 * _SIGNATURE_PART:
            raise TokenError("the signature has the wrong length")
        r, s = (int.from_bytes(half, "big") for half in (signature[:_SIGNATURE_PART], signature[_SIGNATURE_PART:]))
        signed = f"{parts[0]}.{parts[1]}".encode()
        try:
            self._public.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
            payload = self._decoder.decode(_decode(parts[1]))
        except InvalidSignature as error:
            raise TokenError("the signature is wrong") from error
        except msgspec.DecodeError as error:
            raise TokenError("the claims cannot be read") from error
        if payload.iss != self._issuer:
            raise TokenError("the token was issued for another cluster")
        if payload.sub != _subject(payload.bound.namespace, payload.bound.serviceaccount.name):
            raise TokenError("the claims contradict each other")
        return payload


def _lifetime_problem(seconds: int) -> str:
    if seconds < SHORTEST_LIFETIME:
        return "may not specify a duration less than 10 minutes"
    if seconds > _LARGEST_REQUEST:
        return "may not specify a duration larger than 2^32 seconds"
    return ""


def _subject(namespace: str, account: str) -> str:
    return f"system:serviceaccount:{namespace}:{account}"


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """Decode base64url, and only its one canonical spelling: two spellings would be two tokens with one meaning."""
    raw = text.encode()
    try:
        content = base64.urlsafe_b64decode(raw + b"=" * (-len(raw) % 4))
    except binascii.Error as error:
        raise TokenError("not base64url") from error
    if _encode(content) != text:
        raise TokenError("not base64url in its one canonical form")
    return content
