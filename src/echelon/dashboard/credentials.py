"""With which credential somebody signs in, and who that is on the hub.

The server's own configuration says where the hub is and how to recognise it. Everything in it that could prove who
somebody is, is left out before it is used for the first time.
"""

from dataclasses import dataclass, field, replace
from hashlib import sha256

from echelon.api.authentication import SELF_SUBJECT_REVIEW
from echelon.api.base import JSONObject
from echelon.kube import tls
from echelon.kube.config import ClusterConfig, Impersonation, User
from echelon.kube.errors import Unauthorized
from echelon.kube.http import HttpClient
from echelon.rollouts.refusals import Refused

_LONGEST_TOKEN = 16 * 1024
_LONGEST_PEM = 32 * 1024
_ACCOUNT = "system:serviceaccount:"
_NOBODY = "system:anonymous"


@dataclass(frozen=True)
class Identity:
    """Somebody who has proved to the hub who they are, and with what."""

    name: str
    groups: tuple[str, ...]
    user: User = field(repr=False)

    @property
    def key(self) -> str:
        """What tells credentials apart, and opens nothing."""
        return _key(self.user)

    @property
    def namespace(self) -> str:
        """The namespace that a service account is in; empty for people."""
        return self.name.removeprefix(_ACCOUNT).partition(":")[0] if self.name.startswith(_ACCOUNT) else ""


def without_credentials(config: ClusterConfig) -> ClusterConfig:
    """Return where a hub is and how to recognise it."""
    return replace(config, user=User(), impersonation=Impersonation())


def read_credential(given: JSONObject) -> User:
    """Read what somebody typed: a token, or a certificate with its key."""
    token, certificate, key = (str(given.get(name) or "").strip() for name in ("token", "certificate", "key"))
    if token and (certificate or key):
        raise Refused("give a token, or a certificate with its key, and not both")
    if token:
        if len(token) > _LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
            raise Refused("the token is too long, or has characters that no token has")
        return User(token=token)
    if not certificate or not key:
        raise Refused("give a token, or a certificate with its key")
    if max(len(certificate), len(key)) > _LONGEST_PEM:
        raise Refused(f"the certificate or its key is longer than {_LONGEST_PEM} bytes")
    pair = tls.KeyPair(certificate.encode(), key.encode())
    try:
        tls.context(pair=pair, insecure=True)
    except tls.BadCertificate as error:
        raise Refused(f"the key {error}") from error
    return User(certificate=pair.certificate, key=pair.key)


async def identify(hub: ClusterConfig, user: User) -> Identity:
    """Ask the hub whose credential this is. Raises `Unauthorized` if it is nobody's."""
    async with HttpClient(replace(hub, user=user), timeout_seconds=15.0) as client:
        return await who(client, user)


async def who(client: HttpClient, user: User) -> Identity:
    """Ask the hub who a client is."""
    review = await client.create(SELF_SUBJECT_REVIEW, dict(SELF_SUBJECT_REVIEW.type_meta))
    told = review.status.user_info
    if not told.username or told.username == _NOBODY:
        raise Unauthorized("the hub does not know this credential")
    return Identity(told.username, tuple(told.groups), user)


def _key(user: User) -> str:
    parts = (user.token.encode(), *(each if isinstance(each, bytes) else b"" for each in (user.certificate, user.key)))
    return sha256(b"".join(sha256(each).digest() for each in parts)).hexdigest()
