"""Who is asking: a client certificate, a bearer token, or nobody in particular.

A credential that is shown must be good. Treating a bad one as "anonymous" would turn an expired token into a confusing
403 and an attacker's guess into a silent success wherever anonymous users may read, so it is always 401. As in
Kubernetes, a client certificate decides before a token is looked at.

Tokens are looked up by a keyed digest. The time that a lookup takes then tells nothing about the tokens, because nobody
outside can choose or foresee the digests that are compared.
"""

import base64
import csv
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from echelon.hub.access.private import read_private, write_private
from echelon.hub.access.tokens import AccountTokens, TokenError
from echelon.kube.certificate_requests import names_of_any_length
from echelon.kube.errors import Unauthorized

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
ACCOUNTS = "system:serviceaccounts"
ACCOUNT_PREFIX = "system:serviceaccount:"
ADMINISTRATOR = "echelon-admin"

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"

_LONGEST_TOKEN = 16 * 1024
_REMEMBERED_CERTIFICATES = 16384


class User(msgspec.Struct, frozen=True):
    """Somebody who makes requests."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


# Says under which uid an object exists: (resource, namespace, name) to uid, None if there is no such object.
Lookup = Callable[[str, str, str], str | None]


class TokenFileError(Exception):
    """The file of static tokens cannot be used."""


class StaticTokens:
    """Bearer tokens that are valid until somebody takes them out of the file."""

    def __init__(self, users: Mapping[str, User]) -> None:
        self._secret = secrets.token_bytes(32)
        self._users = {self._digest(token): _authenticated(user) for token, user in users.items()}

    def with_token(self, token: str, user: User) -> "StaticTokens":
        """Return tokens that know one more."""
        more = StaticTokens({})
        more._secret = self._secret
        more._users = {**self._users, self._digest(token): _authenticated(user)}
        return more

    def user(self, token: str) -> User | None:
        """Return whose token it is."""
        return self._users.get(self._digest(token))

    def _digest(self, token: str) -> bytes:
        # BLAKE2 is keyed by itself, and for short texts it is over before another thread could take the interpreter.
        return hashlib.blake2b(token.encode("utf-8", "surrogatepass"), key=self._secret).digest()


def read_token_file(path: Path) -> dict[str, User]:
    """Read lines of `token,user,uid,"group1,group2"`; the groups are optional. Errors name the line, not the token."""
    users: dict[str, User] = {}
    try:
        text = read_private(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TokenFileError(f"{path} is not UTF-8 text") from error
    try:
        rows = list(csv.reader(text.splitlines(), strict=True))
    except csv.Error as error:
        raise TokenFileError(f"{path} is not a comma-separated table: {error}") from error
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        columns = [column.strip() for column in row]
        if not 3 <= len(columns) <= 4:
            raise TokenFileError(f"{path} line {number}: expected token, user, uid and optionally groups")
        token, name, uid, groups = (*columns, "")[:4]
        if not token or not name:
            raise TokenFileError(f"{path} line {number}: the token and the user must not be empty")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise TokenFileError(f"{path} line {number}: a token has no spaces and no characters beyond ASCII")
        if token in users:
            raise TokenFileError(f"{path} line {number}: the token is already that of another line")
        users[token] = User(name, tuple(group for group in groups.split(",") if group), uid)
    return users


def open_token_file(path: Path) -> tuple[dict[str, User], str]:
    """Read the token file, made with an administrator at first start; return the users and the administrator's token.

    The token is empty if the administrator has been taken out of an existing file: it is not put back.
    """
    if not path.exists():
        token = secrets.token_urlsafe(32)
        write_private(path, f"{token},{ADMINISTRATOR},{ADMINISTRATOR},{MASTERS}\n".encode())
    users = read_token_file(path)
    return users, next((token for token, user in users.items() if user.name == ADMINISTRATOR), "")


def token_for_cluster(token: str, cluster: str) -> str:
    """Return the administrator's token for one logical cluster: it opens no other, and tells nothing of the first."""
    if not token or not cluster:
        return token
    made = hmac.digest(token.encode(), f"administrator of {cluster}".encode(), "sha256")
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


class _Certificate(msgspec.Struct, frozen=True):
    user: User
    not_before: float
    not_after: float


class Authenticator:
    """Tells who is asking one logical cluster.

    Service accounts belong to a cluster, so each cluster has its own authenticator, whose `accounts` has an issuer of
    its own: a token of one cluster means nothing to another.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        authority: x509.Certificate | None = None,
        other_authorities: Sequence[x509.Certificate] = (),
        tokens: StaticTokens | None = None,
        accounts: AccountTokens | None = None,
        lookup: Lookup | None = None,
        bootstrap: Callable[[str], User | None] | None = None,
        anonymous: bool = True,
    ) -> None:
        """`bootstrap` tells whose a token is that was made for joining."""
        self._now = now
        self._authorities = (*((authority,) if authority is not None else ()), *other_authorities)
        self._bootstrap = bootstrap
        self._tokens = tokens
        self._accounts = accounts
        self._lookup = lookup
        self._anonymous = anonymous
        self._certificates: OrderedDict[bytes, _Certificate] = OrderedDict()

    @property
    def audiences(self) -> tuple[str, ...]:
        """Who a token must be meant for to be good here."""
        return self._accounts.audiences if self._accounts else ()

    def authenticate(self, *, authorization: str | None = None, certificate: bytes | None = None) -> User:
        """Return who shows this Authorization header and this client certificate (DER), either of them optional."""
        if certificate is not None:
            return self._certificate_user(certificate)
        if authorization is not None:
            return self.authenticate_token(_bearer(authorization))[0]
        if not self._anonymous:
            _refuse()
        return User(ANONYMOUS, (UNAUTHENTICATED,))

    def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]]:
        """Return whose token it is and for which of the audiences it is good; without any, this server's are meant."""
        if not token or len(token) > _LONGEST_TOKEN:
            _refuse()
        if self._tokens is not None and (static := self._tokens.user(token)) is not None:
            # A static token names no audience: it is meant for this server and nobody else.
            meant = tuple(audience for audience in audiences if audience in self.audiences)
            if audiences and not meant:
                _refuse()
            return static, meant or self.audiences
        if self._bootstrap is not None and (joining := self._bootstrap(token)) is not None:
            return joining, self.audiences
        if self._accounts is None or self._lookup is None:
            _refuse()
        return self._account_user(self._accounts, self._lookup, token, audiences)

    def _account_user(
        self, accounts: AccountTokens, lookup: Lookup, token: str, audiences: Sequence[str]
    ) -> tuple[User, tuple[str, ...]]:
        try:
            claims = accounts.verify(token, audiences)
        except TokenError as error:
            raise Unauthorized("Unauthorized") from error
        # A name can be used again by somebody else; the uid cannot.
        if lookup("serviceaccounts", claims.namespace, claims.account) != claims.account_uid:
            _refuse()
        extra = {CREDENTIAL_ID: (f"JTI={claims.token_id}",)}
        if claims.pod:
            if lookup("pods", claims.namespace, claims.pod) != claims.pod_uid:
                _refuse()
            extra |= {POD_NAME: (claims.pod,), POD_UID: (claims.pod_uid,)}
        name = f"{ACCOUNT_PREFIX}{claims.namespace}:{claims.account}"
        groups = (*account_groups(claims.namespace), AUTHENTICATED)
        return User(name, groups, claims.account_uid, extra), claims.audiences

    def _certificate_user(self, der: bytes) -> User:
        """Return the subject of a certificate. TLS checked it when the connection began; it may have expired since."""
        known = self._certificates.get(der)
        if known is None:
            known = self._read_certificate(der)
            self._certificates[der] = known
            if len(self._certificates) > _REMEMBERED_CERTIFICATES:
                self._certificates.popitem(last=False)
        if not known.not_before <= self._now() <= known.not_after:
            _refuse()
        return known.user

    def _read_certificate(self, der: bytes) -> _Certificate:
        try:
            certificate = x509.load_der_x509_certificate(der)
            # The TLS layer did this too. Once more, so that no way to get here can do without.
            issuer = next((each for each in self._authorities if each.subject == certificate.issuer), None)
            if issuer is None:
                _refuse()
            certificate.verify_directly_issued_by(issuer)
            usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            with names_of_any_length():
                names = _subject(certificate, NameOID.COMMON_NAME)
                groups = _subject(certificate, NameOID.ORGANIZATION_NAME)
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound) as error:
            raise Unauthorized("Unauthorized") from error
        # With two common names, two readers could see two users.
        if ExtendedKeyUsageOID.CLIENT_AUTH not in usage or len(names) != 1 or not names[0]:
            _refuse()
        extra = {CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}
        return _Certificate(
            _authenticated(User(names[0], groups, "", extra)),
            certificate.not_valid_before_utc.timestamp(),
            certificate.not_valid_after_utc.timestamp(),
        )


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups that every service account of the namespace is in."""
    return (ACCOUNTS, f"{ACCOUNTS}:{namespace}")


def with_default_group(name: str, groups: Iterable[str]) -> tuple[str, ...]:
    """Add the group that tells known users from unknown ones, unless one of the two is there already."""
    listed = tuple(groups)
    if AUTHENTICATED in listed or UNAUTHENTICATED in listed:
        return listed
    return (*listed, UNAUTHENTICATED if name == ANONYMOUS else AUTHENTICATED)


def _authenticated(user: User) -> User:
    return msgspec.structs.replace(user, groups=with_default_group(user.name, user.groups))


def _bearer(authorization: str) -> str:
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer":
        _refuse()
    return token.strip()


def _subject(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> tuple[str, ...]:
    values = (attribute.value for attribute in certificate.subject.get_attributes_for_oid(oid))
    return tuple(value if isinstance(value, str) else value.decode() for value in values)


def _refuse() -> NoReturn:
    raise Unauthorized("Unauthorized")
